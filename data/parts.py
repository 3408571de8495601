"""Parts of a set of questions: split, sampled, and fingerprinted by their ids alone."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from coda_dspy.data.question import Question
from coda_dspy.errors import UserError


class Split(NamedTuple):
    """Three parts of one set that have no question in common."""

    train: list[Question]
    validation: list[Question]
    test: list[Question]


def split(questions: Iterable[Question], seed: int, train: int, validation: int, test: int) -> Split:
    """Cut a set into three parts by the ids of its questions alone; the order of the input never matters.

    1. Each question has a key: BLAKE2b of `"{seed}:{id}"`, 16 bytes. Within its level (`meta["level"]`; questions
       without one form a level of their own) it has the rank of its key: 0, 1, 2, …
    2. The levels are merged: a level of n questions has its rank r at place (r + 1/2) / n of the common order, so that
       every stretch of it holds about the mix of the whole set. Equal places go by key.
    3. The first `test` questions are the test part, the next `validation` the validation part, the next `train` the
       train part. What is left is in none.

    The test part comes first because a set may grow: with sizes and seed unchanged and a single level, a question that
    was in the train or validation part can never come into the test part. With several levels this holds as long as
    the test part takes as many questions of each level as before.

    Args:
        questions: The whole set.
        seed: Another seed gives another split.
        train: Number of questions in this part, as for `validation` and `test`; 0 is allowed.
        validation: See `train`.
        test: See `train`.

    Returns:
        The parts, each in the common order.

    Raises:
        UserError: A size is negative, there are fewer questions than asked for, or an id occurs twice.
    """
    asked = {"train": train, "validation": validation, "test": test}
    for part, size in asked.items():
        if size < 0:
            raise UserError(f"{part} is {size}; give a number of questions, 0 or more")
    order = _common_order(list(questions), seed)
    total = sum(asked.values())
    if total > len(order):
        sizes = " + ".join(f"{size} {part}" for part, size in asked.items())
        raise UserError(
            f"{sizes} = {total} questions were asked for, but the set has {len(order)}; ask for fewer or add questions"
        )
    held_out = test + validation
    return Split(train=order[held_out:total], validation=order[test:held_out], test=order[:test])


def problems(questions: Iterable[Question]) -> list[list[Question]]:
    """The questions, with the steps of a larger problem together, in their order; a question alone is one problem."""
    found = list(questions)
    followers = {question.previous: question for question in found if question.previous is not None}
    ids = {question.id for question in found}
    groups = [[question] for question in found if question.previous not in ids]
    for group in groups:
        while group[-1].id in followers:
            group.append(followers[group[-1].id])
    return groups


def sample(questions: Iterable[Question], seed: int, size: int) -> list[Question]:
    """Some of the problems, chosen and ordered by their ids alone, with the whole set's mix of levels (see `split`).

    Steps of a larger problem stay together, and count as one.
    """
    groups = {group[0].id: group for group in problems(questions)}
    order = _common_order([group[0] for group in groups.values()], seed)
    return [question for first in order[:size] for question in groups[first.id]]


def fingerprint(questions: Iterable[Question]) -> str:
    """Return 16 hexadecimal digits that stand for the data: ids, questions, choices, answers and kinds.

    The order of the questions and their `meta` do not matter. It is the beginning of the SHA-256 of canonical JSON.
    """
    rows = [[q.id, q.question, q.choices, q.answer, q.kind, *_tests_of(q)] for q in questions]
    rows.sort(key=json.dumps)
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:16]


def _tests_of(question: Question) -> list[Any]:
    if question.kind != "code":
        return []
    cases = question.public_tests + question.tests
    return [question.entry_point, [[c.input, c.output, c.form] + ([c.before] if c.before else []) for c in cases]]


def _common_order(questions: Sequence[Question], seed: int) -> list[Question]:
    keys: dict[str, bytes] = {}
    levels: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        if question.id in keys:
            raise UserError(f"id {question.id!r} occurs twice in the set to split; give every question its own id")
        keys[question.id] = blake2b(f"{seed}:{question.id}".encode(), digest_size=16).digest()
        levels[str(question.meta.get("level", ""))].append(question)
    placed: list[tuple[float, bytes, Question]] = []
    for members in levels.values():
        members.sort(key=lambda member: keys[member.id])
        placed += [((rank + 0.5) / len(members), keys[member.id], member) for rank, member in enumerate(members)]
    placed.sort(key=lambda entry: entry[:2])
    return [question for _, _, question in placed]
