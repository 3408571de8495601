"""Equal by meaning, symmetric, and never equal when unknown."""

import pytest
from ending import ends
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy import answers
from coda_dspy.task import Task

MATH = Task("How much?")
CHOICE = Task("Which?", "choice", ("Paris", "London", "Rome", "None of the above"))
TEXT = Task("Who?", "text")

EQUAL = [
    ("√8", "2√2"),
    ("(x+1)^2", "x^2+2x+1"),
    ("42", "\\boxed{42}"),
    ("1,000", "1000"),
    ("10^{3}", "1000"),
    ("\\frac12", "0.5"),
    ("x=5", "5"),
    ("025", "25"),
    ("50%", "50"),
    ("50\\%", "50%"),
    ("\\sqrt{1/n}", "1/\\sqrt{n}"),
    ("1/2", "0.5"),
    ("1/2", "2/4"),
    ("2*pi", "2\\pi"),
    ("2π", "2\\pi"),
    ("sqrt(8)", "2*sqrt(2)"),
    ("x**2", "x^2"),
    ("x²", "x^2"),
    ("145^\\circ", "145"),
    ("145 degrees", "145"),
    ("\\$18.90", "18.9"),
    ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
    ("1\\frac{4}{5}", "9/5"),
    ("2 1/2", "2.5"),
    ("1,-2", "-2,1"),
    ("1,-2", "-2, 1"),
    ("(1,2)", "( 1, 2 )"),
    ("\\{1,2\\}", "\\{2,1\\}"),
    ("y = 2x + 3", "2x+3"),
    ("y=2x+3", "y=3+2x"),
    ("\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"),
    ("3\\pi", "9.424778"),
    ("e^{i\\pi}", "-1"),
    ("6 - 5i", "-5i+6"),
    ("x \\in [-2,7]", "[-2,7]"),
    ("\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}", "\\begin{pmatrix} -\\frac13 \\\\ \\frac23 \\end{pmatrix}"),
    ("\\left(\\frac{3}{5},\\frac{8}{3}\\right]", "(0.6, 8/3]"),
    ("(0,9) \\cup (9,36)", "(0,9)\\cup(9,36)"),
    ("5!", "120"),
    ("2^{10}", "1024"),
    ("\\text{east}", "East"),
    ("\\text{(C)}", "C"),
    ("52_8", "52_{8}"),
    ("4210_{5}", "4210_5"),
    ("2.5 million", "2500000"),
    ("1.5 \\times 10^3", "1500"),
    ("18 dollars", "$18"),
    ("1 \\pm \\sqrt{19}", "1-\\sqrt{19}, 1+\\sqrt{19}"),
    ("\\frac{20000}{\\pi}", "20000/\\pi"),
    ("x^2+y^2=1", "y^2+x^2=1"),
    ("\\infty", "∞"),
    ("(5,\\infty)", "(5, ∞)"),
    ("12:00", "12:00"),
    ("x < 3", "3 > x"),
    ("a+b", "b+a"),
    ("\\dfrac{17}{50}", "0.34"),
    ("２５", "25"),
    ("-\\frac{1}{2}", "-0.5"),
    ("\\log_2 8", "3"),
    ("(-\\infty,2]", "x \\le 2"),
    ("8\\pi", "8 π"),
    ("\\frac{11+9a}{20}", "(11+9a)/20"),
    ("\\sin^2 x + \\cos^2 x", "1"),
    ("5\\text{ cm}", "5"),
    ("137 \\frac{1}{2}", "137.5"),
    ("\\cot x", "\\frac{\\cos x}{\\sin x}"),
    ("\\{1\\pm\\sqrt{5},-2\\}", "\\{-2, 1+\\sqrt{5}, 1-\\sqrt{5}\\}"),
    ("\\sum_{k=1}^{10} k", "55"),
    ("|x|", "\\sqrt{x^2}"),
]
DIFFERENT = [
    ("1/2^99", "1/2^98"),
    ("1/2^{99}", "1/2^{98}"),
    ("12:00", "1:00"),
    ("42", "43"),
    ("", ""),
    ("?", "?"),
    ("<number>", "<number>"),
    ("52_8", "52"),
    ("1.0000001", "1"),
    ("50%", "0.5"),
    ("\\frac{1}{2", "\\frac{1}{3"),
    ("cat", "act"),
    ("no", "on "),
    ("[1,2]", "(1,2)"),
    ("(1,2)", "(2,1)"),
    ("x", "y"),
    ("|x|", "x"),
    ("9**9**9", "9**9**9+1"),
    ("9^{9^{9}}", "9^{9^{9}}+1"),
    ("100000!", "100001!"),
    ("7^{100000000}", "8"),
    ("__import__('os').system('x')", "1"),
    ("x<3", "x\\le 3"),
    ("0.333", "1/3"),
    ("1/0", "1/0+1"),
    ("2x", "2y"),
    ("1,2", "1,3"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
    ("\\emptyset", "0"),
    ("(\\sqrt2)^{1/3^99}", "(\\sqrt2)^{1/3^98}"),
    ("1,234", "1.234"),
]


def both_ways(task: Task, a: str | None, b: str | None) -> bool:
    forth, back = answers.same(task, a, b), answers.same(task, b, a)
    assert forth is back
    return forth


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal(a: str, b: str) -> None:
    assert both_ways(MATH, a, b)
    assert answers.correct(MATH, a, b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different(a: str, b: str) -> None:
    assert not both_ways(MATH, a, b)


HEAVY = ["9**9**9", "9^{9^{9}}", "100000!", "7^{100000000}", "(" * 100 + "1" + ")" * 100, "{" * 60 + "1" + "}" * 60]
HEAVY += [
    "10^{10^{10}}",
    "1000000!!!",
    "((9!)!)!",
    "\\binom{10^9}{10^8}",
    "\\sum_{k=1}^{10^9} k^k",
    "\\prod_{k=1}^{10^9} k",
]
HEAVY += ["(" * 10_000 + "1" + ")" * 10_000, "[" * 10_000, "\\sqrt{" * 40 + "2" + "}" * 40, "1e999999999", "0^{-1}"]
HEAVY += [
    "1+" * 140 + "1",
    "\\frac{" + "1" * 140 + "}{" + "7" * 140 + "}",
    "1." + "3" * 1_900,
    "x^{" * 9 + "2" + "}" * 9,
]


@pytest.mark.parametrize("text", [*HEAVY, "9" * 100_000, "\\frac{" * 1000, "1" * 299, "1/" * 140 + "1"])
def test_heavy_input_ends(text: str) -> None:
    with ends():
        assert not answers.same(MATH, text, "2")


@pytest.mark.parametrize("nothing", [None, "", "  ", "?", "...", "<number>", "your answer"])
@pytest.mark.parametrize("task", [MATH, CHOICE, TEXT])
def test_no_answer_equals_nothing(task: Task, nothing: str | None) -> None:
    for other in (nothing, "5", "A"):
        assert not both_ways(task, nothing, other)
    assert not answers.correct(task, None, "5")


def test_unread_formulas_are_equal_only_as_spelled() -> None:
    assert both_ways(MATH, "\\oops{1} \\blah", "\\oops{1}\\blah")
    assert not both_ways(MATH, "\\oops{1} \\blah", "\\oops{2} \\blah")
    assert both_ways(MATH, "x" * 5000, "x" * 5000)


@pytest.mark.parametrize(
    ("a", "b"), [("A", "a"), ("A", "(A)"), ("A", "A) Paris"), ("A", "Paris"), ("D", "\\text{none of the above}")]
)
def test_equal_choices(a: str, b: str) -> None:
    assert both_ways(CHOICE, a, b)


@pytest.mark.parametrize(("a", "b"), [("A", "B"), ("E", "E"), ("X", "X"), ("Madrid", "Madrid"), ("A or B", "A or B")])
def test_different_choices(a: str, b: str) -> None:
    assert not both_ways(CHOICE, a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Paris", "paris."),
        ("The Seine", "seine"),
        ('"Marie  Curie"', "Marie Curie"),
        ("Ｐａｒｉｓ", "Paris"),
        ("ﬁne", "fine"),
        ("Straße", "STRASSE"),
        ("0.5", "1/2"),
        ("1,000", "1000"),
        ("-3", "-3.0"),
    ],
)
def test_equal_texts(a: str, b: str) -> None:
    assert both_ways(TEXT, a, b)


@pytest.mark.parametrize(("a", "b"), [("Paris", "Rome"), ("-3", "3"), ("no", "on"), ("", "the")])
def test_different_texts(a: str, b: str) -> None:
    assert not both_ways(TEXT, a, b)


ANSWERS = st.fractions(-99, 99).map(str) | st.sampled_from(
    [pair[0] for pair in EQUAL] + ["5 cm", "\\frac{1}{3}", "50%", "x=2", "1 000", "yes", "12:30"]
)


@given(a=ANSWERS, b=ANSWERS)
@settings(deadline=None, max_examples=40)
def test_same_is_reflexive_and_symmetric(a: str, b: str) -> None:
    assert answers.same(MATH, a, a)
    both_ways(MATH, a, b)


@given(a=st.text(max_size=30), b=st.text(max_size=30), task=st.sampled_from([MATH, CHOICE, TEXT]))
@settings(deadline=None, max_examples=100)
def test_any_text_can_be_compared(a: str, b: str, task: Task) -> None:
    both_ways(task, a, b)


@given(a=st.fractions(), b=st.fractions())
def test_plain_numbers_are_compared_exactly(a: object, b: object) -> None:
    assert answers.same(MATH, str(a), str(b)) is (a == b)
