"""Agreement across paths: an answer reached in words and by program counts more than its votes."""

from coda_dspy.question import current_question

from .ballot import Ballot, Scores


def agreement(ballot: Ballot) -> Scores:
    """What each class's votes weigh, and what it weighs that both paths came to it.

    Votes of one path repeat its mistakes; two paths seldom make the same one.
    """
    bonus = current_question().lessons.corroboration_weight
    return Scores([float(c.weight + bonus * ballot.is_corroborated(place)) for place, c in enumerate(ballot.classes)])
