"""What a tune leaves in MLflow beside its trials: curves, the front, importances, prompts, and where it comes from."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from coda_dspy import AdaptiveCoda
from coda_dspy.evaluation import Result
from coda_dspy.optimizers.budgets import Trial
from coda_dspy.optimizers.front import front_html
from coda_dspy.optimizers.importances import importances_of
from coda_dspy.optimizers.log import TuneLog
from coda_dspy.optimizers.prompt_texts import diff_page
from coda_dspy.optimizers.prompts import Prompt
from coda_dspy.tracking import Tracker


def trial(baseline: int, right: int, cost: float) -> Trial:
    return Trial({"num_attempts_baseline": baseline}, tuple(place < right for place in range(10)), (cost,) * 10)


TRIALS = [trial(1, 4, 100), trial(3, 3, 300), trial(5, 6, 500)]


def logged(mlflow_uri: str, tmp_path: Path, log: Callable[[TuneLog], None]) -> tuple[Any, dict[str, Any]]:
    """What MLflow holds after a tune that logged this: its client, and the runs by name."""
    from mlflow import MlflowClient

    tracker = Tracker(mlflow_uri, "coda-tune", "tune", spool=tmp_path / "spool")
    log(TuneLog(tracker))
    tracker.close()
    client = MlflowClient(tracking_uri=mlflow_uri)
    experiment = client.get_experiment_by_name("coda-tune")
    assert experiment is not None
    return client, {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def test_a_trial_has_curves_over_the_questions_that_it_answered(tmp_path: Path, mlflow_uri: str) -> None:
    point = {"num_attempts_baseline": 3}

    def log(tune: TuneLog) -> None:
        tune.rung("budget 1", point, 4, 0.25, 120.0)
        tune.rung("budget 1", point, 8, 0.5, 110.0)
        tune.trial("budget 1", point, [Result("q1", correct=True), Result("q2", correct=False)], "KILLED")

    client, runs = logged(mlflow_uri, tmp_path, log)
    assert set(runs) == {"tune", "budget 1 baseline3"}
    child = runs["budget 1 baseline3"]
    assert child.info.status == "KILLED" and child.data.params == {"num_attempts_baseline": "3"}
    history = client.get_metric_history(child.info.run_id, "rung.accuracy")
    assert [(metric.step, metric.value) for metric in history] == [(4, 0.25), (8, 0.5)]
    assert child.data.metrics["rung.cost"] == 110.0 and child.data.metrics["accuracy"] == 0.5


def test_a_budget_that_two_rounds_measure_has_a_child_run_in_each(tmp_path: Path, mlflow_uri: str) -> None:
    def log(tune: TuneLog) -> None:
        for number, right in enumerate((True, False), start=1):
            tune.rung(f"budget {number}", {"num_attempts_baseline": 3}, 1, float(right), 9.0)
            tune.trial(f"budget {number}", {"num_attempts_baseline": 3}, [Result("q1", correct=right)])

    _, runs = logged(mlflow_uri, tmp_path, log)
    found = {name: run.data.metrics["accuracy"] for name, run in runs.items() if name != "tune"}
    assert found == {"budget 1 baseline3": 1.0, "budget 2 baseline3": 0.0}


def test_the_front_is_stored_as_png_and_as_a_page_without_network(tmp_path: Path, mlflow_uri: str) -> None:
    client, runs = logged(mlflow_uri, tmp_path, lambda tune: tune.front(TRIALS, TRIALS[0]))
    folder = Path(client.download_artifacts(runs["tune"].info.run_id, "front"))
    assert (folder / "front.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "front.html").read_text()
    assert "baseline3\\u003cbr\\u003e30" in page
    assert "plotly.js v" in page and 'src="http' not in page


def test_the_page_shows_every_trial_once_and_the_chosen_one_on_top() -> None:
    page = front_html(TRIALS, TRIALS[0]).rpartition("newPlot")[2]
    assert [page.count(f"baseline{n}\\u003c") for n in (1, 3, 5)] == [2, 1, 1]


def study(accuracy: Callable[[int, int], float], tries: int = 3) -> optuna.Study:
    made = optuna.create_study(directions=["maximize", "minimize"])
    for attempts in range(tries):
        for plans in range(tries):
            made.enqueue_trial({"attempts": attempts, "plans": plans})
            asked = made.ask()
            asked.suggest_categorical("attempts", list(range(tries)))
            asked.suggest_categorical("plans", list(range(tries)))
            made.tell(asked, [accuracy(attempts, plans), 10.0 * attempts])
    return made


def test_the_parameter_that_decides_the_accuracy_is_the_important_one(tmp_path: Path, mlflow_uri: str) -> None:
    _, runs = logged(mlflow_uri, tmp_path, lambda tune: tune.importances(study(lambda attempts, plans: plans / 2)))
    metrics = runs["tune"].data.metrics
    assert metrics["importance.plans"] > 0.9 > 0.1 > metrics["importance.attempts"]


def test_too_few_trials_or_equal_ones_have_no_importances() -> None:
    assert importances_of(study(lambda attempts, plans: plans, tries=1)) == {}
    assert importances_of(study(lambda attempts, plans: 0.5)) == {}


def test_prompts_before_and_after_are_shown_side_by_side(tmp_path: Path, mlflow_uri: str) -> None:
    before, after = AdaptiveCoda(), AdaptiveCoda()
    predict = dict(after.named_predictors())["coda.executor.direct"]
    predict.signature = predict.signature.with_instructions("Work <b>carefully</b>.")
    client, runs = logged(mlflow_uri, tmp_path, lambda tune: tune.prompts("direct", before, after))
    page = Path(client.download_artifacts(runs["tune"].info.run_id, "prompts/direct.html")).read_text()
    assert "coda.executor.direct" in page and "coda.planner" not in page
    assert "carefully" in page and "<b>" not in page


def test_demonstrations_are_part_of_the_difference() -> None:
    old = {"plan": Prompt("Think.", [])}
    page = diff_page("prompts", old, {"plan": Prompt("Think.", [{"question": "What is 2 + 2?"}])})
    assert "demonstration" in page and "2&nbsp;+&nbsp;2" in page
    assert "no prompt changed" in diff_page("prompts", old, old)


def test_a_run_says_which_versions_and_which_commit_it_comes_from(tmp_path: Path, mlflow_uri: str) -> None:
    import dspy

    _, runs = logged(mlflow_uri, tmp_path, lambda tune: None)
    tags = runs["tune"].data.tags
    assert tags["version.dspy"] == dspy.__version__ and "mlflow.source.git.commit" not in tags
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    later = logged(mlflow_uri, tmp_path, lambda tune: tune.rung("budget 1", {"num_attempts_baseline": 1}, 1, 1.0, 1.0))[
        0
    ]
    found = later.search_runs([runs["tune"].info.experiment_id], f"tags.`mlflow.source.git.commit` = '{commit}'")
    assert len(found) == 1


def test_a_tune_that_is_not_tracked_logs_nothing() -> None:
    log = TuneLog(None)
    log.front(TRIALS, TRIALS[0])
    log.importances(None)
    log.rung("budget 1", {}, 1, 0.5, 1.0)
    log.prompts("direct", AdaptiveCoda(), AdaptiveCoda())
    assert log.traces(1.0) is None


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
