"""What a probe found."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from coda_dspy.budget import EFFORTS

from . import comparing, efforts, sampling_checks, speed, stages
from .session import Session


@dataclass(frozen=True)
class ProbeReport:
    """What a probe found.

    Args:
        engine: The engine's name.
        adapter: The adapter to take: `plain`, or `sections` where it costs nothing. Where `not_measured` names it, too
            few questions were asked to tell.
        better_path: `direct` or `code`, by kind of question, where both were measured.
        truncation: Share of replies that were cut off at the budget's limits, 0 to 1; `None` if there was none.
        thinking_share: Share of a stage's reply that is thinking, 0 to 1, by stage.
        efforts: The reasoning efforts that the engine takes and that change its replies, from the lowest up.
        tokens_per_second: By calls at a time.
        concurrency: Calls at a time beyond which the engine gains less than a tenth; `None` if not measured.
        honours: `temperature`, `seed`, `effort`, `usage` (reported) and `context_limit` (told): whether it is so, or
            `None` where that was not measured or cannot be told.
        context_limit: Tokens of context, where the engine told.
        figures: Everything above with its sample sizes and 95 % intervals: plain values.
        not_measured: Why something is missing, or missing in part, by what it is.
        failures: The most frequent failure of each check, in the engine's own words.
        calls: `planned` at most, `made`, and `kept` (from an earlier process).
    """

    engine: str
    adapter: str
    better_path: Mapping[str, str]
    truncation: float | None
    thinking_share: Mapping[str, float]
    efforts: tuple[str, ...]
    tokens_per_second: Mapping[int, float]
    concurrency: int | None
    honours: Mapping[str, bool | None]
    context_limit: int | None
    figures: Mapping[str, Any]
    not_measured: Mapping[str, str]
    failures: Mapping[str, str]
    calls: Mapping[str, int]

    def describe(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        described = asdict(self)
        described["efforts"] = list(self.efforts)
        described["tokens_per_second"] = {str(level): rate for level, rate in self.tokens_per_second.items()}
        return described

    def for_profile(self) -> dict[str, Any]:
        """The same without the engine's own words: they may name its address, which has no place in a profile."""
        return {name: value for name, value in self.describe().items() if name != "failures"}


def report_of(session: Session, engine: str, not_measured: Mapping[str, str], calls: Mapping[str, int]) -> ProbeReport:
    """The report of a session in which at least one call got a reply."""
    figures = _figures(session)
    effort = _effort_is_honoured(session)
    rates = speed.speeds(session)
    return ProbeReport(
        engine=engine,
        adapter=comparing.better_adapter(figures["adapters"]),
        better_path=comparing.better_paths(figures["paths"]),
        truncation=figures["truncation"]["value"] if figures["truncation"] else None,
        thinking_share={s: row["thinking"]["value"] for s, row in figures["stages"].items() if row["thinking"]},
        efforts=tuple(name for name in EFFORTS if name in figures["efforts"] and effort is not False),
        tokens_per_second={level: figure["value"] for level, figure in rates.items()},
        concurrency=speed.best_level(rates),
        honours={
            "temperature": sampling_checks.temperature_is_honoured(session),
            "seed": sampling_checks.seed_is_honoured(session),
            "effort": effort,
            "usage": figures["sampling"]["usage"]["value"] == 1,
            "context_limit": sampling_checks.tells_context_limit(session),
        },
        context_limit=sampling_checks.context_limit(session),
        figures=figures,
        not_measured=_joined(_reasons(session, rates), not_measured),
        failures={check: reasons.most_common(1)[0][0] for check, (reasons, _) in _failures(session).items()},
        calls=calls,
    )


def _figures(session: Session) -> dict[str, Any]:
    return {
        "adapters": comparing.adapters(session),
        "paths": comparing.paths(session),
        "truncation": stages.truncation(session),
        "stages": stages.by_stage(session),
        "efforts": efforts.efforts(session),
        "speed": {str(level): figure for level, figure in speed.speeds(session).items()},
        "sampling": {
            "same_at_temperature_0": sampling_checks.same_replies(session, sampling_checks.GREEDY),
            "same_at_temperature_1": sampling_checks.same_replies(session, sampling_checks.WARM),
            "alike_at_temperature_0": sampling_checks.likeness(session, sampling_checks.GREEDY),
            "alike_at_temperature_1": sampling_checks.likeness(session, sampling_checks.WARM),
            "same_with_one_seed": sampling_checks.same_replies(session, sampling_checks.SEED),
            "usage": sampling_checks.reports_usage(session),
        },
    }


def _effort_is_honoured(session: Session) -> bool | None:
    """Whether efforts change a greedy reply; `None` where greedy replies are not the same even without."""
    differ = efforts.efforts_differ(session)
    if differ is None:
        return False if efforts.takes_none(session) else None
    same = sampling_checks.same_replies(session, sampling_checks.GREEDY)
    if differ and (same is None or same["value"] < 1):
        return None
    return differ


def _reasons(session: Session, rates: Mapping[int, Any]) -> dict[str, str]:
    """How much failed, by check; and what follows from what is missing."""
    found = {check: f"{made.total()} of {n} calls failed" for check, (made, n) in _failures(session).items()}
    if not comparing.are_enough(session):
        found["adapter"] = f"fewer than {comparing.LEAST} questions were answered through both"
    if not rates and session.calls_of("speed"):
        found.setdefault("speed", "the engine does not report usage")
    return found


def _failures(session: Session) -> dict[str, tuple[Counter[str], int]]:
    """By check that had any: why calls failed, and the number of all its calls."""
    calls: defaultdict[str, list[str | None]] = defaultdict(list)
    for key, unit in session.found.items():
        calls[key.partition("/")[0]] += [call.failure for call in unit.calls]
    counted = {check: Counter(failure for failure in found if failure is not None) for check, found in calls.items()}
    return {check: (reasons, len(calls[check])) for check, reasons in counted.items() if reasons}


def _joined(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Both reasons, where there are two."""
    names = dict.fromkeys((*first, *second))
    return {name: "; ".join(part[name] for part in (first, second) if name in part) for name in names}
