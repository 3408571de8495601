"""Where a vote is open: only there a selector spends anything."""

from collections.abc import Collection, Mapping

from coda_dspy.voting import CONFIDENCE, beta_confidence, ranked

from .ballot import Ballot

MOST = 3


def contenders(ballot: Ballot) -> list[int]:
    """Places of the classes between which the vote is open, the leader first; none where it is settled.

    It is settled where the leader is more frequent than any other with 95 % probability (see `beta_confidence`), or
    where it has most of the votes and was reached both in words and by program. Of many, the two next to the leader
    are left: a right answer below them is rare, and each class more is paid for.
    """
    places = ranked(ballot.classes)
    leader = ballot.classes[places[0]]
    votes = sum(c.votes for c in ballot.classes)
    if ballot.is_corroborated(places[0]) and 2 * leader.votes > votes:
        return []
    near = [i for i in places[1:] if beta_confidence(leader.votes, ballot.classes[i].votes) < CONFIDENCE]
    return [places[0], *near[: MOST - 1]] if near else []


def values_of(ballot: Ballot, found: Mapping[int, float], asked: Collection[int]) -> list[float]:
    """A value for each class: what was found, 0 where nothing was; less than the least for those not asked about."""
    told = {place: found.get(place, 0.0) for place in asked}
    below = min(told.values(), default=1.0) - 1.0
    return [told.get(place, below) for place in range(len(ballot.classes))]
