"""Lessons from engines whose truth is known."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import fmean, stdev

import pytest

from coda_dspy.candidate import Candidate
from coda_dspy.evaluation import PoolRecord, Result
from coda_dspy.evaluation.selecting import Judgment
from coda_dspy.learned import AnswerCounts, Judging, Learned, Lessons
from coda_dspy.task import PATHS, Path, Task
from coda_dspy.voting import (
    IsSettled,
    beta_is_sure,
    classify,
    next_wave,
    plurality,
    plurality_is_settled,
    strict_majority,
)
from optimizers.answer_counts import fit_answer_counts
from optimizers.learning import LEAST, learn
from optimizers.paths import PathComparison
from optimizers.weights import judging, voting


@dataclass(frozen=True)
class Question:
    """A question whose answer is 1."""

    id: str
    kind: str = "math"
    answer: str = "1"

    @property
    def task(self) -> Task:
        return Task(f"{self.id}?", self.kind, ("yes", "no") if self.kind == "choice" else None)

    def grade(self, answer: str | None) -> bool | None:
        return answer == self.answer


def draw(source: random.Random, accuracy: float, wrong: str = "23456") -> str:
    return "1" if source.random() < accuracy else source.choice(wrong)


def comparison(source: random.Random, questions: Sequence[Question], direct: float, code: float) -> PathComparison:
    def results(accuracy: float) -> list[Result]:
        drawn = [draw(source, accuracy) for _ in questions]
        return [Result(q.id, a, correct=a == "1", tokens=10) for q, a in zip(questions, drawn, strict=True)]

    return PathComparison(questions, results(direct), results(code))


def record(question: Question, votes: Sequence[tuple[Path, str]]) -> PoolRecord:
    candidates = tuple(Candidate(answer, "", path, i, 10) for i, (path, answer) in enumerate(votes))
    classes = tuple(c.members for c in classify([answer for _, answer in votes], str.__eq__))
    grades = tuple(answer == "1" for _, answer in votes)
    task = question.task.arguments()
    return PoolRecord(question.id, 0, "", task, "1", None, False, candidates, grades, classes)


def asked(source: random.Random, questions: Sequence[Question], truth: Mapping[Path, float]) -> list[PoolRecord]:
    return [record(q, [(path, draw(source, p)) for path, p in truth.items() for _ in range(2)]) for q in questions]


QUESTIONS = [Question(f"q{n}") for n in range(60)]


# -- weights ---------------------------------------------------------------------------------------------------------


def test_accuracies_of_paths_are_found_within_their_intervals() -> None:
    truth: dict[Path, float] = {"direct": 0.45, "code": 0.7, "coda": 0.6}
    within = 0
    for seed in range(10):
        votes = learn(QUESTIONS, asked(random.Random(seed), QUESTIONS, truth)).of("math").votes
        within += sum(votes[path].accuracy.low <= p <= votes[path].accuracy.high for path, p in truth.items())
    assert within >= 27  # of 30


def test_the_number_of_wrong_answers_is_found() -> None:
    for seed in range(5):
        lessons = learn(QUESTIONS, asked(random.Random(seed), QUESTIONS, {"direct": 0.4, "code": 0.3})).of("math")
        assert lessons.alternatives is not None
        assert lessons.alternatives.low <= 5 <= lessons.alternatives.high


def test_the_better_path_weighs_more_and_comes_first() -> None:
    lessons = learn(QUESTIONS, compared=comparison(random.Random(1), QUESTIONS, 0.3, 0.8)).of("math")
    assert lessons.vote_weight("code") > lessons.vote_weight("coda") > lessons.vote_weight("direct")
    assert lessons.first_path == "code"
    assert lessons.votes["code"].accuracy.n == 60
    assert lessons.votes["coda"].accuracy.n == 0


def algorithm_2(
    votes: Mapping[Path, Sequence[str]], weights: Mapping[Path, int]
) -> tuple[list[tuple[Path, str]], str | None]:
    """The votes that Algorithm 2 asks for, step by step, and its answer."""
    cast: list[tuple[Path, str]] = []
    for path, of_path in votes.items():
        cast += [(path, answer) for answer in of_path]
        classes = classify([a for _, a in cast], str.__eq__, [weights[p] for p, _ in cast])
        agreed = strict_majority(classes, sum(weights[p] for p, _ in cast))
        if agreed is not None:
            return cast, agreed.answer
    winner = plurality(classes)
    return cast, None if winner is None else winner.answer


ALIKE: dict[Path, int] = {"direct": 1, "code": 1, "coda": 1}
World = Callable[[random.Random], Mapping[Path, float]]


def easy_and_hard(direct: float, code: float, coda: float) -> World:
    """Log-odds of each path on a question of middling ease; questions differ from one another."""

    def of_a_question(source: random.Random) -> dict[Path, float]:
        ease = source.gauss(0, 1.5)
        skills: dict[Path, float] = {"direct": direct, "code": code, "coda": coda}
        return {path: 1 / (1 + exp(-skill - ease)) for path, skill in skills.items()}

    return of_a_question


def one_by_one(world: World, source: random.Random, numbers: Mapping[Path, int]) -> dict[Path, list[str]]:
    """Votes on one question, of which Algorithm 2 may ask only the first ones."""
    truth = world(source)
    return {path: [draw(source, truth[path]) for _ in range(number)] for path, number in numbers.items()}


def by_algorithm_2(world: World, source: random.Random, numbers: Mapping[Path, int]) -> list[PoolRecord]:
    """A pool whose later paths were asked only where the earlier ones had not agreed."""
    return [record(q, algorithm_2(one_by_one(world, source, numbers), ALIKE)[0]) for q in QUESTIONS]


THREE: dict[Path, int] = {"direct": 3, "coda": 1}
ALL: dict[Path, int] = {"direct": 3, "code": 3, "coda": 2}


def test_votes_that_made_a_question_hard_do_not_count_less_for_it() -> None:
    """Where three votes of skill 0.6 do not agree, few are right; each still says what a vote of skill 0.6 says."""
    alike: World = lambda source: {"direct": 0.6, "coda": 0.6}  # noqa: E731
    pools = [by_algorithm_2(alike, random.Random(seed), THREE) for seed in range(10)]
    hard = [r for pool in pools for r in pool if r.candidates[-1].path == "coda"]
    assert sum(sum(map(bool, r.grades[:3])) for r in hard) / 3 / len(hard) < 0.35
    votes = [learn(QUESTIONS, pool).of("math").votes for pool in pools]
    assert fmean(v["direct"].accuracy.value for v in votes) == pytest.approx(0.6, abs=0.06)
    assert fmean(v["direct"].weight - v["coda"].weight for v in votes) == pytest.approx(0, abs=0.2)


def test_a_path_that_gets_hard_questions_only_does_not_look_worse_for_it() -> None:
    pools = [by_algorithm_2(easy_and_hard(0, 0, 1), random.Random(seed), THREE) for seed in range(10)]
    votes = [learn(QUESTIONS, pool).of("math").votes for pool in pools]
    assert fmean(v["coda"].weight - v["direct"].weight for v in votes) > 0.2


@pytest.mark.parametrize(
    ("world", "numbers", "gains"),
    [
        (easy_and_hard(0, 0, 0), ALL, False),
        (easy_and_hard(0, 0, 0), THREE, False),
        (easy_and_hard(0.2, -0.5, 1.0), ALL, True),
        (easy_and_hard(-0.8, 1.0, -0.3), ALL, True),
        (easy_and_hard(0.5, 0.5, -2.0), ALL, True),
        (easy_and_hard(0, 0, 1.5), THREE, True),
    ],
)
def test_weighed_votes_are_never_worse_than_the_majority_and_better_where_paths_differ(
    world: World, numbers: Mapping[Path, int], gains: bool
) -> None:
    gain = []
    for seed in range(6):
        source = random.Random(seed)
        lessons = learn(QUESTIONS, by_algorithm_2(world, source, numbers)).of("math")
        weights: dict[Path, int] = {path: lessons.vote_weight(path) for path in PATHS}
        for _ in range(600):
            votes = one_by_one(world, source, numbers)
            gain.append((algorithm_2(votes, weights)[1] == "1") - (algorithm_2(votes, ALIKE)[1] == "1"))
    error = stdev(gain) / len(gain) ** 0.5
    assert fmean(gain) > (2 * error if gains else -2 * error), f"{fmean(gain):+.3f} ± {error:.3f}"


def test_a_sample_that_both_measurements_drew_counts_once() -> None:
    """With nested sampling, the answer that was asked for the comparison may be the first one of the pool as well."""
    compared = comparison(random.Random(13), QUESTIONS, 0.3, 0.6)
    rows = list(zip(*compared, strict=True))
    first = [record(q, [("direct", str(d.answer))]) for q, d, _ in rows]
    second = [record(q, [("code", str(c.answer))]) for q, _, c in rows]
    pool = [
        replace(a, candidates=a.candidates + b.candidates, grades=a.grades + b.grades, classes=together(d, c))
        for a, b, (_, d, c) in zip(first, second, rows, strict=True)
    ]
    assert learn(QUESTIONS, pool, compared).of("math").votes == learn(QUESTIONS, pool).of("math").votes
    fresh = [replace(r, candidates=tuple(replace(c, attempt=1) for c in r.candidates)) for r in pool]
    assert learn(QUESTIONS, fresh, compared).of("math").votes != learn(QUESTIONS, pool).of("math").votes


def together(direct: Result, code: Result) -> tuple[tuple[int, ...], ...]:
    return ((0, 1),) if direct.answer == code.answer else ((0,), (1,))


def test_too_few_common_questions_give_no_weights() -> None:
    few = QUESTIONS[: LEAST - 1]
    assert learn(few, asked(random.Random(3), few, {"direct": 0.2, "code": 0.9})).of("math").votes == {}


def test_few_questions_change_weights_less_than_many() -> None:
    def spread(n: int) -> float:
        votes = {str(i): {"direct": [i % 2 == 0], "code": [i % 4 != 0]} for i in range(4 * n)}
        found = voting(votes, votes, [])["votes"]  # type: ignore[arg-type]
        return float(found["code"].accuracy.value - found["direct"].accuracy.value)

    assert 0 < spread(3) < spread(50) < 0.4


def test_votes_that_end_once_they_agree_do_not_hide_how_many_wrong_answers_there_are() -> None:
    never_right: World = lambda source: {"direct": 0.1, "coda": 0.1}  # noqa: E731
    found = []
    for seed in range(10):
        pool = by_algorithm_2(never_right, random.Random(seed), {"direct": 2, "coda": 3})
        many = learn(QUESTIONS, pool).of("math").alternatives
        assert many is not None
        found.append(many.value)
    assert fmean(found) == pytest.approx(5, rel=0.15)


def test_a_path_that_is_never_right_has_no_vote() -> None:
    for seed in range(5):
        pool = asked(random.Random(seed), QUESTIONS, {"direct": 0.6, "code": 0.0})
        assert learn(QUESTIONS, pool).of("math").vote_weight("code") == 0
        assert learn(QUESTIONS, pool).of("math").vote_weight("direct") > 0


def test_with_a_useless_path_the_weighted_vote_is_the_plain_vote_of_the_other() -> None:
    lessons = learn(QUESTIONS, asked(random.Random(4), QUESTIONS, {"direct": 0.6, "code": 0.0})).of("math")
    source = random.Random(5)
    for _ in range(200):
        direct, code = ([draw(source, p) for _ in range(3)] for p in (0.6, 0.0))
        weights = [lessons.vote_weight("direct")] * 3 + [lessons.vote_weight("code")] * 3
        weighted = plurality(classify(direct + code, str.__eq__, weights))
        most = max(map(direct.count, direct))
        assert weighted is not None
        assert direct.count(weighted.answer) == most


def test_with_useless_paths_alone_votes_count() -> None:
    lessons = learn(QUESTIONS, asked(random.Random(6), QUESTIONS, {"direct": 0.0, "code": 0.0})).of("math")
    assert [lessons.vote_weight(path) for path in ("direct", "code", "coda")] == [1, 1, 1]


def test_weighing_votes_helps_where_paths_differ() -> None:
    truth: dict[Path, float] = {"direct": 0.25, "code": 0.8}
    lessons = learn(QUESTIONS, asked(random.Random(7), QUESTIONS, truth)).of("math")
    source = random.Random(8)
    right = {"plain": 0, "weighted": 0}
    for _ in range(500):
        cast = [draw(source, truth["direct"], "23") for _ in range(5)] + [draw(source, truth["code"], "23")]
        weights = {"plain": None, "weighted": [lessons.vote_weight("direct")] * 5 + [lessons.vote_weight("code")]}
        for name, each in weights.items():
            winner = plurality(classify(cast, str.__eq__, each))
            right[name] += winner is not None and winner.answer == "1"
    assert right["weighted"] > right["plain"]


# -- judges ----------------------------------------------------------------------------------------------------------


def judgments(source: random.Random, prefers: Callable[[random.Random], bool | None], n: int = 80) -> list[Judgment]:
    return [Judgment(f"q{i}", prefers(source), 0.5) for i in range(n)]


def test_a_judge_better_than_chance_weighs_its_log_odds() -> None:
    found = judging(judgments(random.Random(9), lambda source: source.random() < 0.8))
    assert found.accuracy.low <= 0.8 <= found.accuracy.high
    assert found.weight > 0.8


@pytest.mark.parametrize(
    "prefers",
    [
        lambda source: None,  # what it reads first: in two orders no preference
        lambda source: source.random() < 0.5,
        lambda source: source.random() < 0.2,
    ],
    ids=["biased by position", "guessing", "wrong"],
)
def test_a_useless_judge_weighs_nothing(prefers: Callable[[random.Random], bool | None]) -> None:
    useless = [judging(judgments(random.Random(seed), prefers)).weight == 0 for seed in range(10)]
    assert sum(useless) >= 9


def compared_twice(source: random.Random, by_place: float) -> Judgment:
    """One comparison in two orders: by the place with a probability, and right in 80 % otherwise."""
    says_right = [right_is_first if source.random() < by_place else source.random() < 0.8 for right_is_first in (1, 0)]
    agree = says_right[0] == says_right[1]
    return Judgment("", bool(says_right[0]) if agree else None, 0.5, not agree)


def test_how_often_a_judge_contradicts_itself_is_found_and_one_that_goes_by_the_place_weighs_nothing() -> None:
    def judge(by_place: float, seed: int) -> Judging:
        source = random.Random(seed)
        return judging([compared_twice(source, by_place)._replace(id=f"q{i}") for i in range(80)])

    fair, unfair = ([judge(by_place, seed) for seed in range(10)] for by_place in (0.0, 0.95))
    within = [j.contradicting.low <= 2 * 0.8 * 0.2 <= j.contradicting.high for j in fair if j.contradicting]
    assert sum(within) >= 9
    assert all(j.weight > 1 for j in fair)
    assert all(j.weight == 0 for j in unfair)


def test_a_good_judge_of_few_questions_weighs_nothing_yet() -> None:
    assert judging(judgments(random.Random(0), lambda source: True, n=2)).weight == 0


# -- kinds -----------------------------------------------------------------------------------------------------------


def test_each_kind_has_its_own_lessons() -> None:
    choice = [Question(f"c{n}", "choice") for n in range(40)]
    source = random.Random(10)
    pool = asked(source, QUESTIONS, {"direct": 0.9}) + asked(source, choice, {"direct": 0.2})
    made = [Judgment("c1", True, 0.5), Judgment("elsewhere", True, 0.5)]
    learned = learn([*QUESTIONS, *choice], pool, comparison(source, QUESTIONS, 0.9, 0.2), {"judge": made})
    of_math, of_choice = learned.of("math"), learned.of("choice")
    assert of_math.first_path == "direct"
    assert of_choice.first_path is None
    assert of_math.answers is not None
    assert of_choice.answers is not None
    assert of_math.answers.leading.value > of_choice.answers.leading.value
    assert of_choice.judges["judge"].accuracy.n == 1
    assert Learned.parse(learned.dump_state()) == learned


def test_from_nothing_nothing_is_learned() -> None:
    assert learn(QUESTIONS) == Learned()
    assert learn(QUESTIONS).of("math") == Lessons()


# -- answer counts ---------------------------------------------------------------------------------------------------


def urn(source: random.Random, alpha: float, number: int) -> list[str]:
    """Votes of one question, by the model's own law."""
    votes: list[str] = []
    for n in range(number):
        votes.append(f"new {n}" if source.random() * (alpha + n) < alpha else source.choice(votes))
    return votes


def fitted(source: random.Random, alphas: Sequence[float], questions: int = 80) -> AnswerCounts:
    votes = [urn(source, source.choice(alphas), 8) for _ in range(questions)]
    model = fit_answer_counts([[c.votes for c in classify(v, str.__eq__)] for v in votes])
    assert model is not None
    return model


def in_waves(votes: Sequence[str], rule: IsSettled) -> tuple[str, int]:
    launched = 0
    while wave := next_wave(classify(votes[:launched], str.__eq__), len(votes) - launched, rule):
        launched += wave
    winner = plurality(classify(votes[:launched], str.__eq__))
    assert winner is not None
    return winner.answer, launched


def stopped(rule: IsSettled, runs: Sequence[Sequence[str]]) -> tuple[float, float]:
    """How often the answer differs from the full run's, and the mean number of votes."""
    found = [in_waves(votes, rule) for votes in runs]
    full = [in_waves(votes, lambda classes, remaining: remaining == 0)[0] for votes in runs]
    differ = sum(answer != of_all for (answer, _), of_all in zip(found, full, strict=True))
    return differ / len(runs), sum(launched for _, launched in found) / len(runs)


def or_lossless(classes: Sequence, remaining: int) -> bool:  # type: ignore[type-arg]
    return beta_is_sure(classes) or plurality_is_settled(classes, remaining)


ENGINES = {"repeats itself": (0.05, 0.05, 0.05, 1.0), "mixed": (0.1, 1.0, 5.0), "scatters": (5.0, 10.0)}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("seed", range(2))
def test_a_learned_stop_differs_from_the_full_run_in_about_5_percent_at_most(name: str, seed: int) -> None:
    source = random.Random(seed)
    model = fitted(source, ENGINES[name])
    runs = [urn(source, source.choice(ENGINES[name]), 12) for _ in range(300)]
    wrong, used = stopped(lambda classes, remaining: model.leader_wins(classes, remaining) >= 0.95, runs)
    _, lossless = stopped(plurality_is_settled, runs)
    _, beta = stopped(or_lossless, runs)
    figures = f"differs in {wrong:.1%}; votes {used:.1f}, beta {beta:.1f}, lossless {lossless:.1f} of 12"
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5, figures
    assert used <= lossless, figures
    if name == "repeats itself":
        assert used < beta < lossless, figures


@pytest.mark.parametrize("shape", [(0.9, 0.05, 0.05), (0.55, 0.25, 0.2), (0.4, 0.3, 0.3)])
def test_a_learned_stop_keeps_its_word_on_answers_from_another_law(shape: Sequence[float]) -> None:
    source = random.Random(11)
    runs = [source.choices("123", shape, k=12) for _ in range(400)]
    model = fit_answer_counts([[c.votes for c in classify(v[:8], str.__eq__)] for v in runs[:100]])
    assert model is not None
    wrong, used = stopped(lambda classes, remaining: model.leader_wins(classes, remaining) >= 0.95, runs[100:])
    assert wrong <= 0.1, f"differs in {wrong:.1%}; votes {used:.1f} of 12"


def test_the_model_says_what_it_was_fitted_to() -> None:
    model = fit_answer_counts([[5, 1], [6], [1], [2, 2, 2]])
    assert model is not None
    assert (model.questions, model.votes) == (3, 18)
    assert model.distinct.value == pytest.approx(2)
    assert model.leading.value == pytest.approx((5 / 6 + 1 + 1 / 3) / 3)


def test_single_votes_tell_nothing_of_how_answers_spread() -> None:
    assert fit_answer_counts([[1], [1]]) is None
    assert fit_answer_counts([]) is None


def test_an_early_end_of_votes_does_not_mislead_the_model() -> None:
    """Votes that ended when they were settled say the same of the engine as those that went on."""
    source = random.Random(12)
    runs = [urn(source, source.choice((0.1, 3.0)), 10) for _ in range(400)]
    cut = [votes[: in_waves(votes, plurality_is_settled)[1]] for votes in runs]
    sure = []
    for kept in (runs, cut):
        model = fit_answer_counts([[c.votes for c in classify(v, str.__eq__)] for v in kept])
        assert model is not None
        sure.append([model.leader_wins(classify(cast, str.__eq__), 8) for cast in ("a", "aa", "ab", "aab")])
    assert sure[0] == pytest.approx(sure[1], abs=0.08)
