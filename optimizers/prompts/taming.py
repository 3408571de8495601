"""DSPy's optimizers without what they do beside their work: prints, bars, logs, and questions asked again."""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from typing import Any


@contextmanager
def tamed() -> Iterator[None]:
    """Within it DSPy is silent, and asks a slow question once; behind it everything is as it was.

    DSPy starts a question again that takes more than 120 s. Its optimizers have no setting for that, so the default
    of the executor below them is changed for the time.
    """
    import dspy
    import tqdm
    from dspy.utils.parallelizer import ParallelExecutor

    class NoBar(tqdm.tqdm):  # type: ignore[misc, type-arg, unused-ignore]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(StringIO()))
        stack.enter_context(_silent("dspy"))
        stack.enter_context(_replaced(tqdm, "tqdm", NoBar))
        for owner in (ParallelExecutor, dspy.Parallel):
            defaults = _defaults(owner.__init__, timeout=0)
            stack.enter_context(_replaced(owner.__init__, "__defaults__", defaults))
        yield


def _defaults(function: Callable[..., Any], **changes: Any) -> tuple[Any, ...]:
    """The defaults of a function with some of them changed; those have to be there."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    missing = changes.keys() - defaults.keys()
    if missing:
        raise TypeError(f"{function.__qualname__} has no default for {', '.join(missing)}")
    return tuple((defaults | changes).values())


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _silent(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
