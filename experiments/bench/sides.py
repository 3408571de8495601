"""One side of the overhead bench, in a process of its own: it answers a question for every line that comes in.

    PYTHON sides.py NAME URL

After a first answer it says `[]`, and after each further one `[wall seconds, CPU seconds]`. Peers have environments of
their own, so nothing is imported before it is known which side this is.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import count

ATTEMPTS, PLANS = 3, 3
CALLS = ATTEMPTS * (2 * PLANS + 1)  # of Algorithm 1: plans, executions and a synthesis an attempt

Answer = Callable[[str], object]
"""Answers a question, which is another one each time: what a cache saves is not to be measured here."""


def coda(url: str, model: str = "fixed", verifier: str = "majority") -> Answer:
    """Algorithm 1, all of it, on DSPy's default settings."""
    from coda_dspy import Budget, Coda, connect

    budget = Budget(best_of_n=ATTEMPTS, n_plans=PLANS, verifier=verifier, early_exit="off")
    program = Coda(budget, lm=connect(f"openai/{model}", url))
    return lambda question: program(question=question)


def coda_judged(url: str) -> Answer:
    """The same where candidates disagree and a judge rates them."""
    return coda(url, "varied", "judge")


def optillm(url: str) -> Answer:
    """CePO with as many attempts and plans, and a vote; it makes a call more an attempt."""
    # What optillm's server needs (torch, transformers, …) is nothing that CePO needs: its package is not run.
    from importlib.util import find_spec
    from types import ModuleType

    package = ModuleType("optillm")
    spec = find_spec("optillm")
    assert spec is not None
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["optillm"] = package
    from openai import OpenAI
    from optillm.cepo.cepo import CepoConfig, cepo

    steps = ("step1", "step2", "direct_resp", "step3", "step4")
    config = CepoConfig(
        bestofn_n=ATTEMPTS,
        bestofn_temperature=0.1,
        bestofn_max_tokens=4096,
        bestofn_rating_type="majority",
        planning_n=PLANS,
        planning_m=PLANS,
        **{f"planning_temperature_{step}": 0.7 for step in steps},
        **{f"planning_max_tokens_{step}": 4096 for step in steps},
        use_plan_diversity=False,
        use_reasoning=False,
        use_reasoning_fallback=False,
        num_of_retries=0,
    )
    client = OpenAI(base_url=url, api_key="none")
    return lambda question: cepo("You are a careful tutor.", question, client, "fixed", config)


def its_hub(url: str) -> Answer:
    """Self-consistency of as many calls as Algorithm 1 makes."""
    import asyncio

    from its_hub import OpenAICompatibleLanguageModel, SelfConsistency

    model = OpenAICompatibleLanguageModel(url, "none", "fixed")
    vote = SelfConsistency()
    loop = asyncio.new_event_loop()  # one, so that connections are kept
    return lambda question: loop.run_until_complete(vote.ainfer(model, question, CALLS))


SIDES: dict[str, Callable[[str], Answer]] = {
    "coda_dspy": coda,
    "coda_dspy judged": coda_judged,
    "optillm": optillm,
    "its_hub": its_hub,
}
# Calls that wait for one another, those that run side by side counted once.
STEPS = {"coda_dspy": 3, "coda_dspy judged": 4, "optillm": 4, "its_hub": 1}


def main() -> None:
    name, url = sys.argv[1:]
    told, sys.stdout = sys.stdout, sys.stderr  # a peer may print what it likes
    answer = SIDES[name](url)
    numbers = count()
    answer(f"What is {next(numbers)} + 2?")  # imports, connections, threads
    print("[]", file=told, flush=True)
    for _ in sys.stdin:
        question = f"What is {next(numbers)} + 2?"
        started, used = time.perf_counter(), time.process_time()
        answer(question)
        print(json.dumps([time.perf_counter() - started, time.process_time() - used]), file=told, flush=True)


if __name__ == "__main__":
    main()
