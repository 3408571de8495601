"""The report of a run: one HTML file that needs nothing else, and in which nothing that an engine said can act.

Three walls: everything is escaped by the template or put into the page as text by its script; embedded JSON cannot end
its element; and the page's policy allows no script and no style but its own two, and no connection at all.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from coda_dspy.errors import UserError
from coda_dspy.evaluation import summarize
from coda_dspy.files import write_atomically

from .charts import charts
from .folders import Run, read_run
from .head import facts, figures
from .questions import FILTERS, bill, row_of
from .visible import all_visible

POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"


def write_report(folders: Sequence[Path], output: Path | None = None) -> Path:
    """Write the report of a run.

    Args:
        folders: The run's folder, or those of all its shards.
        output: The file; by default `report.html` in the first folder.

    Returns:
        Where it is.

    Raises:
        UserError: The folders hold no run, no results, damaged files, or different runs; matplotlib or jinja2 is
            missing; or the file cannot be written.
    """
    page = page_of(read_run(folders))
    target = output or folders[0] / "report.html"
    write_atomically(target, page)
    return target


def page_of(run: Run) -> str:
    """The page of a run."""
    style, script = _own("report.css"), _own("report.js")
    policy = f"{POLICY}; style-src {_hashed(style)}; script-src {_hashed(script)}"
    try:
        template, content = _template(), _content(run)
    except ModuleNotFoundError as error:
        raise UserError(f"a report needs {error.name}; run: pip install 'coda-dspy[tune]'") from error
    page: str = template.render(all_visible(content), policy=policy, style=style, script=script)
    return page


def _content(run: Run) -> dict[str, Any]:
    results, found = run.results, summarize(run.results)
    several = len({entry.result.id for entry in run.entries}) < len(run.entries)
    rows = [row_of(entry, several)._asdict() for entry in run.entries]
    return {
        "title": f"Evaluation of {run.described.get('engine', 'an engine')}",
        "facts": facts(run),
        "described": json.dumps(run.described, indent=2, ensure_ascii=False),
        "figures": [figure._asdict() for figure in figures(results, found)],
        "bill": bill(found.stages),
        "charts": [chart._asdict() for chart in charts(run, found)],
        "filters": [(name, label) for name, (label, _) in FILTERS.items()],
        "rows": rows,
        "searched": ["\n".join(row["searched"]) for row in rows],
        "outside": sum(entry.record is None for entry in run.entries),
    }


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_own("report.html.j2"))


def _own(name: str) -> str:
    """A file that is shipped beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hashed(source: str) -> str:
    """What the policy allows: this very text."""
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
