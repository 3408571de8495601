"""The code of the MLflow model that a profile is stored as; MLflow runs a copy of this file.

The engine is named by `CODA_ENGINE` and `CODA_API_BASE`, by default the one that the profile was tuned for; its key
comes from its provider's environment variable.
"""

import os
from typing import Any

import mlflow
import pandas as pd
from mlflow.pyfunc import PythonModel

from coda_dspy import load
from coda_dspy.concurrency import fan_out


class ServedProfile(PythonModel):
    """Answers questions with a tuned program."""

    def load_context(self, context: Any) -> None:
        """Read the profile and connect to the engine."""
        engine, api_base = os.environ.get("CODA_ENGINE"), os.environ.get("CODA_API_BASE")
        self.program = load(context.artifacts["profile"], engine, api_base)

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Answer each row's question side by side.

        Args:
            context: MLflow's.
            model_input: Columns `question`, and optionally `kind` and `choices`.
            params: None are known.

        Returns:
            Columns `answer`, `solution`, `path` and `tokens`.
        """
        return pd.DataFrame(fan_out(self._answer, model_input.to_dict("records")))

    def _answer(self, row: dict[str, Any]) -> dict[str, Any]:
        given = {name: row[name] for name in ("question", "kind") if isinstance(row.get(name), str)}
        choices = row.get("choices")  # where rows differ, what one lacks is a NaN
        if choices is not None and not isinstance(choices, float) and len(choices):
            given["choices"] = list(choices)
        prediction = self.program(**given)
        known = {name: prediction[name] for name in ("answer", "solution", "path")}
        return {**known, "tokens": prediction.ledger.tokens()}


mlflow.models.set_model(ServedProfile())
