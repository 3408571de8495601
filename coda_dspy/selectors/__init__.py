"""Selectors: ways to choose among candidates. The verifier uses one within a program, `coda select` compares them."""

from .ballot import Ballot, Scores, Selector, Verdict, decide
from .judge import Judge
from .majority import majority
from .pairwise import Pairwise
from .weighted import Weighted

__all__ = ["Ballot", "Judge", "Pairwise", "Scores", "Selector", "Verdict", "Weighted", "decide", "majority"]
