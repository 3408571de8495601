"""What tuning learned of an engine: when to stop a vote, what votes weigh, which path comes first."""

from .answer_counts import LONGEST, AnswerCounts, Concentration
from .figures import Measured, Share
from .lessons import CORROBORATION, JudgeName, Judging, Learned, Lessons, Voting

__all__ = [
    "CORROBORATION",
    "LONGEST",
    "AnswerCounts",
    "Concentration",
    "JudgeName",
    "Judging",
    "Learned",
    "Lessons",
    "Measured",
    "Share",
    "Voting",
]
