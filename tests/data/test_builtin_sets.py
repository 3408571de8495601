"""The two sets that come with the project hold what their README says, and every answer can be derived again."""

import builtins
import datetime
import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from functools import reduce
from importlib.resources import files

import pytest

from coda_dspy.data import BUILTIN, Question, builtin, split
from coda_dspy.task import LETTERS

MATH = builtin("math")
CHOICE = builtin("choice")
CHECKED = [question for question in CHOICE if "check" in question.meta]
LEVELS = ("easy", "middle", "hard")

SAFE = "abs all any enumerate int len list map max min next pow range set sorted str sum tuple zip"
NAMES = {
    "__builtins__": {name: getattr(builtins, name) for name in SAFE.split()},
    "Fraction": Fraction,
    "datetime": datetime,
    "itertools": itertools,
    "math": math,
    "reduce": reduce,
}


def derived(question: Question) -> object:
    return eval(question.meta["check"], dict(NAMES))


def correct_choice(question: Question) -> str:
    assert question.choices is not None
    return question.choices[LETTERS.index(question.answer)]


@pytest.mark.parametrize("question", MATH, ids=lambda question: question.id)
def test_the_check_of_a_maths_problem_gives_its_answer_exactly(question: Question) -> None:
    value = derived(question)
    assert isinstance(value, int | Fraction)
    assert value == Fraction(question.answer)


@pytest.mark.parametrize("question", CHECKED, ids=lambda question: question.id)
def test_the_check_of_a_choice_question_gives_the_text_of_its_answer(question: Question) -> None:
    assert derived(question) == correct_choice(question)


def test_a_check_cannot_reach_files_or_imports() -> None:
    with pytest.raises(NameError):
        derived(Question("x", "?", "1", meta={"check": "open('x')"}))
    with pytest.raises(NameError):
        derived(Question("x", "?", "1", meta={"check": "__import__('os')"}))


def test_maths_answers_are_written_in_the_simplest_way() -> None:
    for question in MATH:
        assert re.fullmatch(r"-?\d+(\.\d*[1-9]|/\d+)?", question.answer), question.id
        if "/" in question.answer:
            assert str(Fraction(question.answer)) == question.answer, question.id


def test_each_level_has_at_least_52_maths_problems() -> None:
    counts = Counter(question.meta["level"] for question in MATH)
    assert set(counts) == set(LEVELS)
    assert min(counts.values()) >= 52


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_has_many_topics_and_answers(level: str) -> None:
    questions = [question for question in MATH if question.meta["level"] == level]
    assert len({question.meta["topic"] for question in questions}) >= 12
    assert max(Counter(question.answer for question in questions).values()) <= 4


def test_there_are_at_least_84_choice_questions_with_a_reference_or_a_check_each() -> None:
    assert len(CHOICE) >= 84
    for question in CHOICE:
        assert question.meta["topic"]
        assert ("source" in question.meta) != ("check" in question.meta), question.id


@pytest.mark.parametrize("count", [3, 4, 5])
def test_correct_answers_are_spread_evenly_over_the_letters(count: int) -> None:
    letters = Counter(question.answer for question in CHOICE if len(question.choices or ()) == count)
    assert set(letters) == set(LETTERS[:count])
    assert max(letters.values()) - min(letters.values()) <= 1


def test_the_choices_of_a_question_are_3_to_5_different_texts_without_letters() -> None:
    for question in CHOICE:
        assert question.choices is not None
        assert 3 <= len(question.choices) <= 5, question.id
        assert len({choice.casefold() for choice in question.choices}) == len(question.choices), question.id
        assert not [choice for choice in question.choices if re.match(r"\(?[A-J][).:]", choice)], question.id


@pytest.mark.parametrize("name", BUILTIN)
def test_ids_are_numbered_in_the_order_of_the_file(name: str) -> None:
    questions = builtin(name)
    assert [question.id for question in questions] == [f"{name}-{n:03d}" for n in range(1, len(questions) + 1)]
    assert {question.kind for question in questions} == {name}


@pytest.mark.parametrize("name", BUILTIN)
def test_no_question_is_asked_twice(name: str) -> None:
    words = [" ".join(re.findall(r"\w+", question.question.casefold())) for question in builtin(name)]
    assert len(words) == len(set(words))


def test_a_split_of_the_maths_set_has_its_mix_of_levels_in_each_part() -> None:
    whole = Counter(question.meta["level"] for question in MATH)
    for part in split(MATH, seed=0, train=48, validation=48, test=60):
        counts = Counter(question.meta["level"] for question in part)
        for level, count in whole.items():
            assert abs(counts[level] - len(part) * count / len(MATH)) <= 2


def test_the_readme_states_the_real_sizes() -> None:
    readme = files("coda_dspy.data").joinpath("README.md").read_text(encoding="utf-8")
    counts = Counter(question.meta["level"] for question in MATH)
    assert f"{len(MATH)} problems: {counts['easy']} easy, {counts['middle']} middle, {counts['hard']} hard" in readme
    assert f"{len(CHOICE)} questions" in readme
