"""Prompts as people read them, and what compiling changed."""

from collections.abc import Mapping
from difflib import HtmlDiff
from html import escape

from .prompts import Prompt

_LINE = 72  # characters in each half of the page


def text_of(prompt: Prompt) -> str:
    """Instructions, and below them each demonstration field by field."""
    demos = [
        "\n".join([f"-- demonstration {number}", *(f"{name}: {value}" for name, value in dict(demo).items())])
        for number, demo in enumerate(prompt.demos, 1)
    ]
    return "\n\n".join([prompt.instructions, *demos])


def diff_page(title: str, before: Mapping[str, Prompt], after: Mapping[str, Prompt]) -> str:
    """A page with both versions of each prompt that changed, side by side."""
    texts = {name: (text_of(before[name]), text_of(after[name])) for name in after if name in before}
    changed = {name: pair for name, pair in texts.items() if pair[0] != pair[1]}
    differ = HtmlDiff(wrapcolumn=_LINE)
    tables = [
        f"<h2>{escape(name)}</h2>{differ.make_table(old.splitlines(), new.splitlines(), 'as written', 'compiled')}"
        for name, (old, new) in changed.items()
    ]
    # The differ's own page holds its style; the tables of all prompts go where its single one would be.
    page = differ.make_file([], [])
    body = f"<h1>{escape(title)}</h1>{''.join(tables) or '<p>no prompt changed</p>'}"
    return page.partition("<body>")[0] + f"<body>{body}</body></html>"
