import re

import pytest

from coda_dspy.engines.catalog import CATALOG, Model, find
from coda_dspy.errors import UserError


def test_finds_a_model_by_its_name() -> None:
    assert find("smollm2-135m").file == "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_unknown_name_says_what_there_is_and_how_to_use_a_file() -> None:
    with pytest.raises(UserError) as caught:
        find("gpt-9")
    assert all(name in str(caught.value) for name in CATALOG)
    assert "local//path/model.gguf" in str(caught.value)


@pytest.mark.parametrize("model", CATALOG.values(), ids=lambda model: model.name)
def test_every_model_is_pinned(model: Model) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.bytes > 1_000_000 and model.file.endswith(".gguf") and model.licence
    assert model.parts and all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", part.requirement) for part in model.parts)
    assert len(set(model.parts)) == len(model.parts)
