"""The reflector reviews several executions of one problem and resolves what is inconsistent."""

import dspy


class Reflect(dspy.Signature):
    """The solutions above were written independently and may be wrong. Where they disagree, find out which step is wrong and say why. Then give the correct solution, briefly."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    solutions: str = dspy.InputField(desc="Solutions")
    ending: str = dspy.InputField(desc="How the reply ends")
    synthesis: str = dspy.OutputField(desc="the review and the correct solution, with the answer in its last line")
