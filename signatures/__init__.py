"""What each role of the conductor is asked: DSPy signatures only, no logic.

Every signature has one text output. A model that is made to fill a form reasons less, so each role answers in its own
words, and what the program needs (an answer, a rating) is found in that text. Inputs come in the order in which they
are shown: the question first, so that all calls of a question share their beginning and a server's prefix cache is
hit; `ending` last, the one line that says how the reply has to end.
"""

from .coder import (
    ComputePlan,
    FixProgram,
    ImplementPlan,
    ImplementTask,
    MergePrograms,
    ProposeInputs,
    ReformulateProgram,
    WriteProgram,
)
from .executor import Execute, Refine, Solve, SolveAtOnce
from .planner import Plan, PlanAndChoosePath, ProposeApproach
from .reflector import Reflect
from .verifier import (
    CompareOutputs,
    CompareSolutions,
    ProposeTests,
    RateSolution,
    SelectSolution,
    TellApart,
    WriteCheck,
)

__all__ = [
    "CompareOutputs",
    "CompareSolutions",
    "ComputePlan",
    "Execute",
    "FixProgram",
    "ImplementPlan",
    "ImplementTask",
    "MergePrograms",
    "Plan",
    "PlanAndChoosePath",
    "ProposeApproach",
    "ProposeInputs",
    "ProposeTests",
    "RateSolution",
    "Refine",
    "Reflect",
    "ReformulateProgram",
    "SelectSolution",
    "Solve",
    "SolveAtOnce",
    "TellApart",
    "WriteCheck",
    "WriteProgram",
]
