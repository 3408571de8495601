"""Racing: all trials run over one order of questions, and one that is dominated stops early."""

from collections.abc import Iterator

from .trial import Trial

FIRST_RUNG = 8  # questions before the first comparison: fewer can hardly tell two budgets apart
SURE = 0.05


def rungs(questions: int) -> Iterator[int]:
    """How many questions a trial has answered when it is compared: 8, 16, 32, … and at last all of them."""
    rung = FIRST_RUNG
    while rung < questions:
        yield rung
        rung *= 2
    yield questions


def is_dominated(trial: Trial, rival: Trial, questions: int) -> bool:
    """Whether a rival that costs no more is better: surely, or by the exact sign test (one-sided, 5 %).

    Both have answered the same questions, from the first one on, on shared samples: only those on which they differ
    tell something.

    Args:
        trial: The trial that may stop.
        rival: Another one, whole or stopped itself.
        questions: How many questions a whole trial answers.
    """
    from scipy.stats import binomtest

    shared = min(len(trial.right), len(rival.right))
    if sum(rival.costs[:shared]) > sum(trial.costs[:shared]):
        return False
    if rival.whole and sum(trial.right) + questions - len(trial.right) < sum(rival.right):
        return True  # even if it were right on all the rest
    pairs = list(zip(trial.right[:shared], rival.right[:shared], strict=True))
    won, lost = sum(t and not r for t, r in pairs), sum(r and not t for t, r in pairs)
    return lost > won and float(binomtest(won, won + lost, alternative="less").pvalue) < SURE
