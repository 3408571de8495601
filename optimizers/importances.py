"""Which of the searched parameters decide the accuracy."""

import warnings
from typing import Any

_FEWEST = 4  # trials; with fewer, Optuna has nothing to tell good ones from bad ones by


def importances_of(study: Any) -> dict[str, float]:
    """The share of each parameter; together 1. Empty where trials are too few to say.

    Args:
        study: Optuna's, whose first objective is the accuracy, to be maximized.
    """
    import optuna

    trials = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if len(trials) < _FEWEST or len({trial.values[0] for trial in trials}) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna says that it looks at what makes a target low, hence the minus
        found = optuna.importance.get_param_importances(study, target=lambda trial: -trial.values[0])
    return {name: float(share) for name, share in found.items()}
