"""The executor solves a problem, with a plan or without, and corrects itself on feedback."""

import dspy


class Solve(dspy.Signature):
    """Solve the problem step by step, briefly."""

    question: str = dspy.InputField(desc="Problem")
    ending: str = dspy.InputField(desc="How the reply ends")
    solution: str = dspy.OutputField(desc="the working, with the answer in its last line")


class SolveAtOnce(dspy.Signature):
    """Answer this at once, without any working."""

    question: str = dspy.InputField(desc="Problem")
    ending: str = dspy.InputField(desc="How the reply ends")
    solution: str = dspy.OutputField(desc="the answer, in one line")


class Execute(dspy.Signature):
    """Follow the plan above; where a step of it is wrong, do the right thing instead. Solve the problem step by step, briefly."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    plan: str = dspy.InputField(desc="Plan")
    ending: str = dspy.InputField(desc="How the reply ends")
    solution: str = dspy.OutputField(desc="the working, with the answer in its last line")


class Refine(dspy.Signature):
    """The attempt above has a fault, which the feedback names. Correct it: solve the problem again step by step, briefly."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    attempt: str = dspy.InputField(desc="Attempt")
    feedback: str = dspy.InputField(desc="Feedback")
    ending: str = dspy.InputField(desc="How the reply ends")
    solution: str = dspy.OutputField(desc="the corrected working, with the answer in its last line")
