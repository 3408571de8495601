"""Selectors: ways to choose among candidates. The verifier uses one within a program, `coda select` compares them."""

from .agreement import agreement
from .ballot import Ballot, Scores, Selector, Verdict, decide
from .checking import Check
from .codet import CodeT
from .distinguish import Distinguish
from .genselect import GenSelect
from .judge import Judge
from .majority import majority
from .pairwise import Pairwise
from .weighted import Weighted

__all__ = [
    "Ballot",
    "Check",
    "CodeT",
    "Distinguish",
    "GenSelect",
    "Judge",
    "Pairwise",
    "Scores",
    "Selector",
    "Verdict",
    "Weighted",
    "agreement",
    "decide",
    "majority",
]
