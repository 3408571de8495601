"""The reflector reviews several executions of one problem and resolves what is inconsistent."""

import dspy


class Reflect(dspy.Signature):
    """The solutions above were written independently, and any of them may be wrong. First say where they disagree and which step is wrong there. Then solve the problem step by step, briefly."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    solutions: str = dspy.InputField(desc="Solutions")
    ending: str = dspy.InputField(desc="How the reply ends")
    synthesis: str = dspy.OutputField(desc="the review and the correct solution, with the answer in its last line")
