from coda_dspy.cli.options import EngineChoice
from coda_dspy.experiments.bench.cold_start import engine_arguments, parts, rows_of
from coda_dspy.testing import FakeOpenAIServer


def test_times_are_set_against_a_bare_interpreter_round_by_round() -> None:
    bare, imported = rows_of([{"python": 0.1, "import": 0.3}, {"python": 0.2, "import": 0.2}])
    assert bare["against bare python"] == (1.0, 1.0, 1.0)
    assert [round(ratio, 6) for ratio in imported["against bare python"]] == [2.0, 1.0, 3.0]


def test_the_first_token_is_a_reply_of_one_token_and_comes_before_the_answer() -> None:
    with FakeOpenAIServer(lambda call: "Answer: 20") as server:
        found = parts(EngineChoice("hosted_vllm/fake", server.url, None, ()))
        first, *others = [call.body for call in server.calls]
    assert list(found) == ["connect", "first token", "answer"]
    assert first["max_tokens"] == 1
    assert others
    assert all(body["max_tokens"] > 1 for body in others)


def test_the_engine_is_handed_on_as_it_was_given() -> None:
    typed = ["--engine", "x/y", "--api-base", "http://h/v1", "--decoding", "top_k=20", "--decoding", "top_p=0.9"]
    assert engine_arguments(EngineChoice("x/y", "http://h/v1", None, ("top_k=20", "top_p=0.9"))) == typed
