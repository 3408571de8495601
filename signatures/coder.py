"""The coder answers by program: it computes the answer of a maths problem, or writes what a code task asks for."""

import dspy


class WriteProgram(dspy.Signature):
    """Write a short Python program that computes the answer to this problem. Use the numbers of the problem; do not work out the answer yourself."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="one Python program in a code block")


class ComputePlan(dspy.Signature):
    """Write a short Python program that computes the answer to this problem. Follow the plan above; where a step of it is wrong, do the right thing instead."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    plan: str = dspy.InputField(desc="Plan")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="one Python program in a code block")


class ReformulateProgram(dspy.Signature):
    """The program above does not give the answer; the feedback says what happened when it ran. Read the problem again and write a corrected Python program that computes the answer."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    attempt: str = dspy.InputField(desc="Program")
    feedback: str = dspy.InputField(desc="Feedback")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="one corrected Python program in a code block")


class ImplementTask(dspy.Signature):
    """Write correct Python code for this task."""

    question: str = dspy.InputField(desc="Task")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="the whole program in a code block")


class ImplementPlan(dspy.Signature):
    """Write correct Python code for this task. Follow the plan above; where a step of it is wrong, do the right thing instead."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    plan: str = dspy.InputField(desc="Plan")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="the whole program in a code block")


class FixProgram(dspy.Signature):
    """The program above fails the task; the feedback shows on which inputs. Find out why and write the corrected program."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    attempt: str = dspy.InputField(desc="Program")
    feedback: str = dspy.InputField(desc="Feedback")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="the whole corrected program in a code block")


class MergePrograms(dspy.Signature):
    """The programs above were written independently for this task, and any of them may be wrong. First say where they differ and which one is wrong there. Then write the correct program."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    solutions: str = dspy.InputField(desc="Programs")
    ending: str = dspy.InputField(desc="How the reply ends")
    program: str = dspy.OutputField(desc="the review and the whole correct program in a code block")


class ProposeInputs(dspy.Signature):
    """Write three further inputs on which wrong programs for this task would give themselves away: an edge case, a large case, an unusual case. Give each input in a code block of its own, in exactly the form of the example, and no outputs."""  # noqa: E501

    question: str = dspy.InputField(desc="Task")
    example: str = dspy.InputField(desc="Example of an input")
    inputs: str = dspy.OutputField(desc="three inputs, each in a code block of its own")
