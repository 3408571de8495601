from coda_dspy.ledger import Entry, Ledger


def entry(stage: str = "plan", tokens_in: int | None = 3, tokens_out: int | None = 4, **rest: object) -> Entry:
    return Entry(stage, tokens_in, tokens_out, bool(rest.get("cached")), "stop", 1.0, rest.get("error"))  # type: ignore[arg-type]


def test_calls_and_tokens_add_up_by_stage() -> None:
    ledger = Ledger([entry(), entry("execute"), entry("execute", 10, 20)])
    assert ledger.calls() == 3
    assert ledger.calls("execute") == 2
    assert ledger.tokens("execute") == 37
    assert ledger.tokens() == 44
    assert ledger.calls("judge") == 0
    assert ledger.tokens("judge") == 0


def test_cached_calls_say_what_they_would_have_cost_and_are_not_billed() -> None:
    ledger = Ledger([entry(), entry(cached=True)])
    assert ledger.tokens() == 14
    assert ledger.tokens(billed=True) == 7
    assert ledger.calls(billed=True) == 1


def test_an_unknown_usage_makes_the_total_unknown_and_never_zero() -> None:
    ledger = Ledger([entry(), entry(tokens_out=None)])
    assert ledger.tokens() is None
    assert ledger.known_tokens() == 7
    assert ledger.by_stage()["plan"]["tokens_out"] is None


def test_stages_are_listed_in_the_order_of_the_algorithm() -> None:
    ledger = Ledger([entry("other"), entry("reflect"), entry("plan", error="boom")])
    assert list(ledger.by_stage()) == ["plan", "reflect", "other"]
    assert ledger.by_stage()["plan"]["failed"] == 1
