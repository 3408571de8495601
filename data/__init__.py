"""Questions: the built-in sets, the public benchmarks, files in JSON Lines, and stable splits of all of them."""

from coda_dspy.data.benchmarks import BENCHMARKS, Benchmark, Loaded, problem_rate
from coda_dspy.data.jsonl import read_questions, write_questions
from coda_dspy.data.parts import Split, fingerprint, problems, sample, split
from coda_dspy.data.question import Question
from coda_dspy.data.questions import BUILTIN, builtin, load

__all__ = [
    "BENCHMARKS",
    "BUILTIN",
    "Benchmark",
    "Loaded",
    "Question",
    "Split",
    "builtin",
    "fingerprint",
    "load",
    "problem_rate",
    "problems",
    "read_questions",
    "sample",
    "split",
    "write_questions",
]
