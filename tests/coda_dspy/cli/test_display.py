import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.cli import display
from coda_dspy.cli.display import RunDisplay, count, safe
from coda_dspy.evaluation import Result


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    for character in safe(text):
        assert character in "\n\t" or ord(character) >= 32
        assert not 127 <= ord(character) < 160
        assert character not in "\u202a\u202e\u2066\u2069"


@pytest.mark.parametrize("text", ["x = 5\n\ty", "naïve 数学 √8", "a\u00a0b\u202fc"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_what_nobody_reported_is_unknown_and_not_0() -> None:
    assert count(None) == "unknown"
    assert count(0) == "0"
    assert count(12345.6) == "12,346"


def test_progress_is_written_every_few_seconds_also_while_nothing_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert display.SECONDS_BETWEEN_LINES <= 5
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 3

    progress = RunDisplay(questions=20)
    monkeypatch.setattr(progress._ended, "wait", wait)
    progress.phase("search", 10)
    progress.result(Result("a", "1", billed_tokens=120))
    progress.best("baseline3: 60%")
    progress._print_lines()
    written = capsys.readouterr().err.splitlines()
    assert "search: 10 questions" in written[0]
    assert (len(written), set(waits)) == (4, {display.SECONDS_BETWEEN_LINES})
    assert "1/10 questions, 120 tokens" in written[-1]
    assert "best so far baseline3: 60%" in written[-1]
    assert "left" in written[-1]


def test_before_any_question_has_ended_the_limit_is_the_time_left() -> None:
    now = time.monotonic()
    assert "at most 9:5" in RunDisplay(questions=20, minutes=10, started=now - 3).render().plain
    assert "time left unknown until a question ends" in RunDisplay(questions=20).render().plain
