"""The verifier judges candidates: alone on a scale, against each other, or by what a program makes of them."""

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


class SelectSolution(dspy.Signature):
    """The solutions above reach different answers, and at most one of these answers is right. Compare them step by step, find where they part, and decide which one is right there. Their order, their length and their confidence do not count."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    solutions: str = dspy.InputField(desc="Solutions")
    ending: str = dspy.InputField(desc="How the reply ends")
    verdict: str = dspy.OutputField(desc="the comparison, with the number of the best solution in its last line")


class WriteCheck(dspy.Signature):
    """The answers above were proposed for this problem, and at most one of them is right. Write a Python function check(answer) that tests an answer: put it back into the problem and see whether everything that is said there holds, or compute the result by another way, or try all cases. It returns True if the answer is right, False if it is wrong, and None if that cannot be told. Do not write any of the proposed answers into it."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    proposed: str = dspy.InputField(desc="Proposed answers")
    ending: str = dspy.InputField(desc="How the reply ends")
    test: str = dspy.OutputField(desc="the function in a code block")


class TellApart(dspy.Signature):
    """The two programs above were written for this task, and they do not do the same. Write three inputs on which they give different outputs. Give each input in a code block of its own, in exactly the form of the example, and no outputs."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    programs: str = dspy.InputField(desc="Programs")
    example: str = dspy.InputField(desc="Example of an input")
    inputs: str = dspy.OutputField(desc="three inputs, each in a code block of its own")


class CompareOutputs(dspy.Signature):
    """Two programs for this task were run on the same input and gave the two outputs above. Work out by the task alone what the output has to be, and decide which of the two is right."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    given: str = dspy.InputField(desc="Input")
    one: str = dspy.InputField(desc="Output 1")
    other: str = dspy.InputField(desc="Output 2")
    ending: str = dspy.InputField(desc="How the reply ends")
    verdict: str = dspy.OutputField(desc="what the output has to be, with the right one of the two in its last line")


class ProposeTests(dspy.Signature):
    """Write six tests for this task: usual inputs and edge cases, each with the output that a right program gives. Work out each output by the task alone."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    ending: str = dspy.InputField(desc="How the reply ends")
    tests: str = dspy.OutputField(desc="six tests in code blocks")
