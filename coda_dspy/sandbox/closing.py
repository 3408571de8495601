"""What has to be closed can be used in a `with`."""

from typing import Self


class Closing:
    """A context manager that closes itself at its end."""

    def close(self) -> None:
        """End it. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
