"""Reading, splitting and fingerprinting questions."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_dspy.data import BUILTIN, Question, Split, builtin, fingerprint, load, read_questions, split
from coda_dspy.errors import UserError
from coda_dspy.task import Task

GOOD = {"id": "a", "question": "What is 1 + 1?", "answer": "2", "kind": "math"}
CHOICE = {"id": "b", "question": "Which is even?", "answer": "B", "kind": "choice", "choices": ["1", "2", "3"]}

PINNED = Split(["q1", "q3", "q8"], ["q0", "q2"], ["q5", "q7"])
FINGERPRINT = "20b356344a23a7db"

# How long an example takes says more about the machine's other work than about this code.
unhurried = settings(deadline=None)


def write(folder: Path, *lines: object) -> Path:
    path = folder / "questions.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def without(record: dict, *names: str) -> dict:
    return {name: value for name, value in record.items() if name not in names}


def numbered(count: int, levels: int = 1) -> list[Question]:
    return [Question(f"q{n}", f"What is {n}?", str(n), meta={"level": f"level {n % levels}"}) for n in range(count)]


def ids(questions: list[Question]) -> list[str]:
    return [question.id for question in questions]


# Reading


def test_reads_every_field_in_the_order_of_the_file(tmp_path: Path) -> None:
    first, second = read_questions(write(tmp_path, GOOD, CHOICE))
    assert first == Question("a", "What is 1 + 1?", "2", "math", None, {})
    assert second == Question("b", "Which is even?", "B", "choice", ("1", "2", "3"), {})


def test_task_holds_everything_but_the_answer(tmp_path: Path) -> None:
    first, second = read_questions(write(tmp_path, GOOD, CHOICE))
    assert first.task == Task("What is 1 + 1?", "math")
    assert second.task == Task("Which is even?", "choice", ("1", "2", "3"))


def test_a_question_can_be_a_key_although_its_meta_is_a_dict() -> None:
    assert len({numbered(1)[0], numbered(1)[0]}) == 1


@pytest.mark.parametrize(
    ("number", "text"), [(28, "28"), (-3, "-3"), (2.5, "2.5"), (0.00001, "0.00001"), (1e22, "1" + "0" * 22)]
)
def test_a_number_as_answer_becomes_text_without_exponent(tmp_path: Path, number: float, text: str) -> None:
    assert read_questions(write(tmp_path, GOOD | {"answer": number}))[0].answer == text


def test_numbers_as_id_and_choices_become_text(tmp_path: Path) -> None:
    (question,) = read_questions(write(tmp_path, CHOICE | {"id": 7, "choices": [1, 2.5]}))
    assert question.id == "7"
    assert question.choices == ("1", "2.5")


def test_a_small_letter_as_answer_becomes_a_capital(tmp_path: Path) -> None:
    assert read_questions(write(tmp_path, CHOICE | {"answer": " b "}))[0].answer == "B"


def test_other_fields_go_to_meta_and_meta_itself_wins(tmp_path: Path) -> None:
    record = GOOD | {"source": "mine", "level": "outside", "meta": {"level": "inside"}}
    assert read_questions(write(tmp_path, record))[0].meta == {"source": "mine", "level": "inside"}


def test_blank_lines_and_windows_line_ends_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(GOOD).encode() + b"\r\n  \r\n" + json.dumps(CHOICE).encode())
    assert ids(read_questions(path)) == ["a", "b"]


def test_a_line_separator_inside_a_question_does_not_cut_the_line(tmp_path: Path) -> None:
    line = json.dumps(GOOD | {"question": "One\u2028two?"}, ensure_ascii=False)
    assert read_questions(write(tmp_path, line))[0].question == "One\u2028two?"


FAULTS = [
    pytest.param('{"id": "a", ', ["is not JSON", "column", "one complete JSON object a line"], id="broken JSON"),
    pytest.param([GOOD], ["a list, not an object", "without a list around"], id="a list"),
    pytest.param("3", ["a number, not an object"], id="a number"),
    pytest.param("null", ["null, not an object"], id="null"),
    *(
        pytest.param(without(GOOD, name), [f"field '{name}' is missing", "add it"], id=f"no {name}")
        for name in ("id", "question", "answer", "kind")
    ),
    pytest.param(GOOD | {"answer": None}, ["field 'answer' is missing"], id="answer null"),
    pytest.param(GOOD | {"answer": " "}, ["answer is empty"], id="answer blank"),
    pytest.param(GOOD | {"question": ""}, ["question is empty"], id="question empty"),
    pytest.param(GOOD | {"answer": True}, ["answer is true or false", "as text or as a number"], id="answer true"),
    pytest.param(GOOD | {"answer": ["2"]}, ["answer is a list", "as text or as a number"], id="answer a list"),
    pytest.param(json.dumps(GOOD | {"answer": float("nan")}), ["answer is nan", "finite"], id="answer NaN"),
    pytest.param(GOOD | {"kind": "maths"}, ["kind is 'maths'", "math, choice, text"], id="unknown kind"),
    pytest.param(GOOD | {"choices": ["1", "2"]}, ["choices were given", "use kind='choice'"], id="choices for math"),
    pytest.param(without(CHOICE, "choices"), ["kind='choice' needs choices"], id="no choices"),
    pytest.param(CHOICE | {"choices": "12"}, ["choices is text", "list of 2 to 10"], id="choices text"),
    pytest.param(CHOICE | {"choices": ["1"]}, ["choices holds 1 options", "2 to 10"], id="one choice"),
    pytest.param(CHOICE | {"choices": ["1", " "]}, ["choice 2 is empty"], id="a blank choice"),
    pytest.param(CHOICE | {"choices": ["1", {}]}, ["choice 2 is an object"], id="a choice not text"),
    pytest.param(CHOICE | {"answer": "D"}, ["answer is 'D'", "3 choices", "A to C"], id="letter out of range"),
    pytest.param(CHOICE | {"answer": "2"}, ["answer is '2'", "one letter"], id="text of the choice"),
    pytest.param(CHOICE | {"answer": "AB"}, ["answer is 'AB'", "one letter"], id="two letters"),
    pytest.param(GOOD | {"meta": "easy"}, ["meta is text", "an object or leave it out"], id="meta text"),
    pytest.param(GOOD | {"id": "first"}, ["'first' is already used in line 1", "unique"], id="id twice"),
    pytest.param('{"id": "\\ud800"}', ["half of a Unicode character"], id="half a character"),
    pytest.param("[" * 100_000, ["beyond what can be read"], id="nested too deep"),
    pytest.param('{"id": ' + "9" * 5000 + "}", ["beyond what can be read"], id="number too long"),
]


@pytest.mark.parametrize(("line", "parts"), FAULTS)
def test_a_fault_names_file_line_reason_and_remedy(tmp_path: Path, line: object, parts: list[str]) -> None:
    path = write(tmp_path, GOOD | {"id": "first"}, "", line)
    with pytest.raises(UserError) as caught:
        read_questions(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert [part for part in parts if part not in str(caught.value)] == []


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b'\n{"id": "caf\xe9"}\n')
    with pytest.raises(UserError, match=r"latin\.jsonl, line 2: is not UTF-8 text; save the file in the encoding"):
        read_questions(path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_questions_is_a_fault(tmp_path: Path, content: str) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=r"empty\.jsonl: holds no question; write one JSON object a line"):
        read_questions(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl: no such file; give the path"):
        read_questions(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("name", [".", "a\0b"])
def test_what_cannot_be_read_is_named_with_the_reason(name: str) -> None:
    with pytest.raises(UserError, match=r"cannot be read .*; give the path of a readable file"):
        read_questions(name)


# Questions without answers


def test_without_answers_the_question_alone_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "One?"}, "", {"question": "Two?", "choices": ["x", "y"]})
    first, second = read_questions(path, need_answers=False)
    assert first == Question("1", "One?", "", "math")
    assert second == Question("3", "Two?", "", "choice", ("x", "y"))


def test_without_answers_blank_fields_count_as_missing(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD | {"answer": "", "id": " "})
    assert read_questions(path, need_answers=False) == [Question("1", "What is 1 + 1?", "")]


def test_without_answers_a_given_answer_is_kept_and_checked(tmp_path: Path) -> None:
    assert read_questions(write(tmp_path, CHOICE), need_answers=False)[0].answer == "B"
    with pytest.raises(UserError, match="A to C"):
        read_questions(write(tmp_path, CHOICE | {"answer": "E"}), need_answers=False)


def test_without_answers_a_line_number_may_not_collide_with_a_given_id(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "One?", "id": "2"}, {"question": "Two?"})
    with pytest.raises(UserError, match="line 2: id '2' is already used in line 1"):
        read_questions(path, need_answers=False)


# Names and paths


@pytest.mark.parametrize("name", BUILTIN)
def test_load_takes_the_name_of_a_builtin_set(name: str) -> None:
    assert load(name) == builtin(name)


def test_load_takes_a_path(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load(path) == load(str(path)) == read_questions(path)
    assert load(write(tmp_path, {"question": "One?"}), need_answers=False)[0].answer == ""


@pytest.mark.parametrize("name", ["mathh", "x" * 5000])
def test_load_of_anything_else_lists_the_builtin_sets(name: str) -> None:
    with pytest.raises(
        UserError, match=f"'{name}' is neither a built-in set nor a file; choose one of: choice, code, math"
    ):
        load(name)


def test_an_unknown_builtin_set_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="'gsm' is not a built-in set; choose one of: choice, code, math"):
        builtin("gsm")


def test_importing_the_folder_loads_no_heavy_library() -> None:
    heavy = ("dspy", "math_verify", "mlflow", "optuna")
    code = f"import sys, coda_dspy.data; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Splits


@st.composite
def sets_and_sizes(draw: st.DrawFn) -> tuple[list[Question], int, tuple[int, int, int]]:
    questions = numbered(draw(st.integers(0, 60)), draw(st.integers(1, 4)))
    train = draw(st.integers(0, len(questions)))
    validation = draw(st.integers(0, len(questions) - train))
    test = draw(st.integers(0, len(questions) - train - validation))
    return questions, draw(st.integers(0, 9)), (train, validation, test)


@unhurried
@given(sets_and_sizes())
def test_parts_have_the_sizes_asked_for_and_nothing_in_common(case: tuple) -> None:
    questions, seed, sizes = case
    parts = split(questions, seed, *sizes)
    assert tuple(len(part) for part in parts) == sizes
    taken = [question.id for part in parts for question in part]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(ids(questions))


@unhurried
@given(sets_and_sizes(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(case: tuple, random: Random) -> None:
    questions, seed, sizes = case
    shuffled = random.sample(questions, len(questions))
    assert split(shuffled, seed, *sizes) == split(questions, seed, *sizes)


@unhurried
@given(sets_and_sizes())
def test_every_part_has_about_the_mix_of_levels_of_the_whole_set(case: tuple) -> None:
    questions, seed, sizes = case
    whole = Counter(question.meta["level"] for question in questions)
    for part in split(questions, seed, *sizes):
        for level, count in whole.items():
            fair = len(part) * count / len(questions)
            have = sum(question.meta["level"] == level for question in part)
            assert abs(have - fair) <= len(whole)


@unhurried
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.data())
def test_a_growing_set_brings_no_used_question_into_the_test_part(
    old: int, new: int, seed: int, data: st.DataObject
) -> None:
    test = data.draw(st.integers(0, old))
    validation = data.draw(st.integers(0, old - test))
    train = old - test - validation
    before = split(numbered(old), seed, train, validation, test)
    after = split(numbered(old + new), seed, train, validation, test)
    assert not set(ids(after.test)) & set(ids(before.train) + ids(before.validation))


def test_a_split_is_the_same_on_every_machine() -> None:
    parts = split(numbered(9, levels=3), seed=1, train=3, validation=2, test=2)
    assert Split(*map(ids, parts)) == PINNED


def test_another_seed_gives_another_split() -> None:
    first, second = (split(numbered(60), seed, train=20, validation=20, test=20) for seed in (1, 2))
    assert set(ids(first.test)) != set(ids(second.test))


def test_questions_without_a_level_are_split_too() -> None:
    questions = [Question(str(n), f"What is {n}?", str(n)) for n in range(10)]
    assert [len(part) for part in split(questions, 0, train=5, validation=3, test=2)] == [5, 3, 2]


def test_asking_for_more_than_there_is_names_the_numbers() -> None:
    with pytest.raises(UserError, match=r"5 train \+ 3 validation \+ 3 test = 11 .* the set has 10; ask for fewer"):
        split(numbered(10), 0, train=5, validation=3, test=3)


def test_a_negative_size_is_named() -> None:
    with pytest.raises(UserError, match="validation is -1; give a number of questions, 0 or more"):
        split(numbered(10), 0, train=5, validation=-1, test=3)


def test_an_id_that_occurs_twice_cannot_be_split() -> None:
    with pytest.raises(UserError, match="id 'q0' occurs twice"):
        split(numbered(3) + numbered(1), 0, train=1, validation=1, test=1)


# Fingerprints


def test_a_fingerprint_is_16_hexadecimal_digits_that_never_change() -> None:
    assert fingerprint(numbered(3)) == FINGERPRINT


@pytest.mark.parametrize(
    "changed",
    [
        Question("c", "Which is even?", "B", "choice", ("1", "2")),
        Question("b", "Which one is even?", "B", "choice", ("1", "2")),
        Question("b", "Which is even?", "A", "choice", ("1", "2")),
        Question("b", "Which is even?", "B", "text", ("1", "2")),
        Question("b", "Which is even?", "B", "choice", ("1", "4")),
        Question("b", "Which is even?", "B", "choice", None),
    ],
)
def test_a_fingerprint_changes_with_every_field_that_matters(changed: Question) -> None:
    original = Question("b", "Which is even?", "B", "choice", ("1", "2"))
    assert fingerprint([changed]) != fingerprint([original])


def test_a_fingerprint_ignores_order_and_meta() -> None:
    plain = [Question(q.id, q.question, q.answer) for q in reversed(numbered(20))]
    assert fingerprint(plain) == fingerprint(numbered(20))


def test_a_fingerprint_depends_on_how_often_a_question_occurs() -> None:
    assert fingerprint(numbered(1) * 2) != fingerprint(numbered(1))
