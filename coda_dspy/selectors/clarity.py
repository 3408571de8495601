"""Which text stands for a class: the clearest complete one of those that reach the same answer."""

from coda_dspy.answers.declared import declarations
from coda_dspy.candidate import Candidate

_BARE = 8  # words beside the answer: with fewer there is nothing that a reader could check


def unclear(candidate: Candidate) -> tuple[bool, bool, bool, int]:
    """What is smaller for a clearer text.

    A program that passes its public tests comes before one that fails; then a text that declares its answer, for one
    that does not may have ended before it was done; then one that shows how it got there. Of these the shortest: a
    small model's long texts repeat themselves, length is no merit, and each word is paid for in every judge's prompt.
    """
    words = len(candidate.text.split())
    bare = words - len(candidate.answer.split()) < _BARE
    return not candidate.trusted, next(declarations(candidate.text), None) is None, bare, words
