"""Majority voting, as the paper has it: the mode of the candidates."""

from .ballot import Ballot, Scores


def majority(ballot: Ballot) -> Scores:
    """No opinion of its own, so that votes decide, and ties go to the earlier first vote."""
    return Scores([0.0] * len(ballot.classes))
