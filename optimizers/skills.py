"""How skilled paths are, where not all of them were asked the same questions.

Rasch's model: the log-odds that a vote is right are the skill of its path plus the ease of its question. Skills are
normal around a mean of their own, eases around 0, and the width of the latter is fitted as well. Whom Algorithm 2 asks
depends on nothing but votes that the model has seen, so it drops out of the likelihood: that later paths get hard
questions only, and that votes end early, misleads nobody.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coda_dspy.evaluation.statistics import Estimate
from coda_dspy.task import PATHS, Path

if TYPE_CHECKING:
    import numpy as np

Votes = Mapping[Path, Sequence[bool]]
"""Whether the votes on one question are right, by path."""

# Standard deviations of the priors, in log-odds: what a path differs by counts as much as ten questions.
_MEAN, _DIFFERENCE = 2.0, 0.7
_NODES = 21  # of the quadrature over the ease of a question
_TWO_SIDED = 1.96


class Skills(NamedTuple):
    """The model, fitted.

    Args:
        of_paths: The skill of every path, with its 95 % interval; that of a path without votes is the mean.
        eases: The ease of each question, as its votes have it.
    """

    of_paths: dict[Path, Estimate]
    eases: list[float]


def skills_of(votes: Sequence[Votes]) -> Skills:
    """The likeliest skills.

    Args:
        votes: A question each; at least one vote in all.
    """
    import numpy as np
    from numpy.polynomial.hermite_e import hermegauss
    from scipy.optimize import minimize

    right = np.array([[sum(of.get(path, ())) for path in PATHS] for of in votes])
    cast = np.array([[len(of.get(path, ())) for path in PATHS] for of in votes])
    nodes, shares = hermegauss(_NODES)
    # From what is fitted (mean, differences, logarithm of the width of eases) to skills.
    to_skills = np.hstack([np.full((len(PATHS), 1), _MEAN), _DIFFERENCE * np.eye(len(PATHS))])

    def logs(x: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Logarithms of the likelihood of each question's votes at each ease, times the share of that ease."""
        odds = (to_skills @ x[:-1])[:, None] + np.exp(x[-1]) * nodes
        return right @ odds - cast @ np.logaddexp(0, odds) + np.log(shares / shares.sum())

    def unlikely(x: "np.ndarray[Any, Any]") -> float:
        return float(x @ x / 2 - np.logaddexp.reduce(logs(x), axis=1).sum())

    found = minimize(unlikely, np.zeros(len(PATHS) + 2), method="BFGS")
    skills = to_skills @ found.x[:-1]
    errors = _TWO_SIDED * np.sqrt(np.diag(to_skills @ found.hess_inv[:-1, :-1] @ to_skills.T))
    at_nodes = np.exp(logs(found.x))
    eases = np.exp(found.x[-1]) * (at_nodes @ nodes) / at_nodes.sum(axis=1)
    estimates = [Estimate(float(s), float(s - e), float(s + e)) for s, e in zip(skills, errors, strict=True)]
    return Skills(dict(zip(PATHS, estimates, strict=True)), [float(ease) for ease in eases])
