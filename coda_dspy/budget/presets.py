"""Budgets that have a name."""

from typing import Any

from coda_dspy.ledger import STAGES

# The paper's settings as its authors published them (the CePO configurations for Qwen3 and gpt-oss of optillm):
# best_of_n 3, two plans from at most four tries. They do not give the attempts of Algorithm 2; three direct attempts
# are the fewest in which a majority means something, and as many by program.
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {
        "best_of_n": 1,
        "n_plans": 2,
        "num_attempts_baseline": 3,
        "max_tokens": {"approach": 160, "plan": 160, "judge": 320}
        | dict.fromkeys(("execute", "direct", "code", "refine", "reflect"), 400),
    },
    "paper-qwen3": {
        "num_attempts_coding": 3,
        "refine_rounds": 2,
        "best_of_n": 3,
        "n_plans": 2,
        "temperature": dict.fromkeys(STAGES, 0.8) | {"direct": 0.6, "judge": 0.6},
        "max_tokens": dict.fromkeys(STAGES, 24576) | {"plan": 28672, "direct": 32768, "reflect": 20481, "judge": 20480},
    },
    "paper-gpt-oss": {
        "num_attempts_coding": 3,
        "refine_rounds": 2,
        "best_of_n": 3,
        "n_plans": 2,
        "verifier": "judge",
        "reasoning_effort": "high",
        "temperature": dict.fromkeys(STAGES, 1.0) | {"direct": 0.6, "judge": 0.6},
        "max_tokens": dict.fromkeys(STAGES, 40960) | {"direct": 32768},
    },
    "max": {
        "best_of_n": 8,
        "n_plans": 4,
        "max_plan_tries": 3,
        "plan_diversity": True,
        "refine_rounds": 2,
        "num_attempts_baseline": 8,
        "num_attempts_coding": 8,
        "num_attempts_coda": 2,
        "max_tokens": dict.fromkeys(STAGES, 16384),
    },
}
