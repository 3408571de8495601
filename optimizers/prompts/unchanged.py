"""No optimizer: prompts as they were written."""

from .base import Optimizer
from .board import Prompt
from .search import Search


class Unchanged(Optimizer):
    """Leaves the prompts alone."""

    name = "none"

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        return 0

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        return {}
