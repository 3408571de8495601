"""`python -m coda_dspy.experiments`: the paper's tables, on any engine and any questions."""

from coda_dspy.cli import run_command
from coda_dspy.experiments.cli import experiments

if __name__ == "__main__":
    run_command(experiments)
