"""Programs that a model wrote: found in its reply, run in the sandbox, checked on cases, compared by what they do."""

from coda_dspy.programs.behaving import behaviour
from coda_dspy.programs.cases import Case, cases_in
from coda_dspy.programs.checking import Outcome, check, passes
from coda_dspy.programs.computing import Computed, compute
from coda_dspy.programs.feedback import feedback_on
from coda_dspy.programs.probes import has_input, probe_like, shown_input
from coda_dspy.programs.shared import choose_sandbox, shared_sandbox
from coda_dspy.programs.source import program_in

__all__ = [
    "Case",
    "Computed",
    "Outcome",
    "behaviour",
    "cases_in",
    "check",
    "choose_sandbox",
    "compute",
    "feedback_on",
    "has_input",
    "passes",
    "probe_like",
    "program_in",
    "shared_sandbox",
    "shown_input",
]
