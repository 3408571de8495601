"""The planner maps out ways to solve a problem (arXiv 2509.19762, Algorithm 1)."""

import dspy


class ProposeApproach(dspy.Signature):
    """Name one general method for solving this problem, in one or two sentences. Do not solve the problem. If other methods are listed above, name a clearly different one."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    earlier: str = dspy.InputField(desc="Methods already proposed", default="")
    approach: str = dspy.OutputField(desc="one method, in one or two sentences")


class Plan(dspy.Signature):
    """Write a plan for solving this problem: two to four numbered steps, each one short sentence that says what to compute. End each step with how sure you are of it: (high), (medium) or (low). Do not compute anything and do not give the answer."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    approach: str = dspy.InputField(desc="Method to use", default="")
    plan: str = dspy.OutputField(desc="numbered steps, each with its confidence")


class PlanAndChoosePath(dspy.Signature):
    """Write a plan for solving this problem: two to four numbered steps, each one short sentence that says what to compute. End each step with how sure you are of it: (high), (medium) or (low). Do not compute anything and do not give the answer. Then decide how the plan is best carried out: by reasoning in words, or by a short Python program that computes the answer."""  # noqa: E501

    question: str = dspy.InputField(desc="Problem")
    approach: str = dspy.InputField(desc="Method to use", default="")
    ending: str = dspy.InputField(desc="How the reply ends")
    plan: str = dspy.OutputField(desc="numbered steps, each with its confidence, and the path in the last line")
