"""A profile as an MLflow model: code and one JSON file, no pickle and no key."""

import shutil
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

# MLflow would ask the engine in order to try an example.
warnings.filterwarnings("ignore", ".*An input example was not provided")


def save(profile: Path, folder: Path) -> None:
    """Write the model of a profile into a new folder.

    Args:
        profile: The profile's file.
        folder: Where the model goes; must not exist.
    """
    from mlflow import pyfunc

    copy = folder.parent / "profile.json"
    shutil.copyfile(profile, copy)
    pyfunc.save_model(
        str(folder),
        python_model=str(Path(__file__).with_name("served.py")),
        artifacts={"profile": str(copy)},
        signature=_signature(),
        pip_requirements=[f"coda-dspy=={version('coda-dspy')}", f"mlflow=={version('mlflow')}"],
    )


def _signature() -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, Schema

    inputs = [ColSpec(DataType.string, "question"), ColSpec(DataType.string, "kind", required=False)]
    choices = ColSpec(Array(DataType.string), "choices", required=False)
    outputs = [ColSpec(DataType.string, name, required=False) for name in ("answer", "solution", "path")]
    tokens = ColSpec(DataType.long, "tokens", required=False)
    return ModelSignature(Schema([*inputs, choices]), Schema([*outputs, tokens]))
