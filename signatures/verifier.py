"""The verifier judges candidates: one alone on a scale, or two against each other."""

import dspy


class RateSolution(dspy.Signature):
    """Check the solution above step by step: is every number taken from the problem, is every calculation right, does it answer what was asked? Then rate it from 0 (certainly wrong) to 10 (certainly right)."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    solution: str = dspy.InputField(desc="Solution")
    ending: str = dspy.InputField(desc="How the reply ends")
    verdict: str = dspy.OutputField(desc="the check, with the rating in its last line")


class CompareSolutions(dspy.Signature):
    """The two solutions above reach different answers. Find the first step at which they differ and decide which of them is right there. Length and confidence of a solution do not count."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    first: str = dspy.InputField(desc="Solution 1")
    second: str = dspy.InputField(desc="Solution 2")
    ending: str = dspy.InputField(desc="How the reply ends")
    verdict: str = dspy.OutputField(desc="the comparison, with the better solution in its last line")
