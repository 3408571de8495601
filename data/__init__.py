"""Questions: the built-in sets, files in JSON Lines, and stable splits of both."""

from coda_dspy.data.questions import BUILTIN, Question, Split, builtin, fingerprint, load, read_questions, split

__all__ = ["BUILTIN", "Question", "Split", "builtin", "fingerprint", "load", "read_questions", "split"]
