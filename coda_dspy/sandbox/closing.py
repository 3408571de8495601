"""What has to be closed can be used in a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that closes itself at its end."""

    @abstractmethod
    def close(self) -> None:
        """End it. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
