"""The public benchmarks: their rows from the Hugging Face hub or a local file, made into questions."""

from coda_dspy.data.benchmarks.benchmark import Benchmark, Loaded
from coda_dspy.data.benchmarks.choice import CHOICE
from coda_dspy.data.benchmarks.code import CODE
from coda_dspy.data.benchmarks.livecodebench import LIVECODEBENCH
from coda_dspy.data.benchmarks.maths import MATHS
from coda_dspy.data.benchmarks.scicode import SCICODE, problem_rate

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (*MATHS, *CHOICE, *CODE, *LIVECODEBENCH, *SCICODE)
}
"""The benchmarks by their names."""

__all__ = ["BENCHMARKS", "Benchmark", "Loaded", "problem_rate"]
