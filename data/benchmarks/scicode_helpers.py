"""What SciCode's tests import from the benchmark's package. This text goes into the sandbox; nothing here imports it.

The rules of comparison are the official ones: numbers, arrays and matrices are compared within NumPy's usual tolerance,
everything else by equality.
"""

import base64
import sys
import types
import zlib
from typing import Any

import numpy as np


def array(packed: Any, kind: str, shape: tuple[int, ...]) -> Any:
    """A target array: its packed bytes, or the nested list of its objects."""
    if kind == "O":
        return np.array(packed, dtype=object).reshape(shape)
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), kind).reshape(shape).copy()


def sparse(data: Any, shape: Any, **parts: Any) -> Any:
    """A target matrix; which parts it has tells its form."""
    import scipy.sparse

    shape = tuple(map(int, shape))
    if "row" in parts:
        return scipy.sparse.coo_matrix((data, (parts["row"], parts["col"])), shape=shape)
    if "blocksize" in parts:
        size = tuple(map(int, parts["blocksize"]))
        return scipy.sparse.bsr_matrix((data, parts["indices"], parts["indptr"]), shape=shape, blocksize=size)
    return scipy.sparse.csr_matrix((data, parts["indices"], parts["indptr"]), shape=shape)


def are_dicts_close(first: Any, second: Any, atol: float = 1e-8, rtol: float = 1e-5) -> bool:
    """Whether both have the same keys with close values; a symbol is its name."""
    one, other = _named(first), _named(second)
    return one.keys() == other.keys() and all(_close(value, other[key], atol, rtol) for key, value in one.items())


def are_csc_matrix_close(first: Any, second: Any) -> bool:
    """Whether two sparse matrices are close."""
    return bool(np.allclose(first.toarray(), second.toarray()))


def cmp_tuple_or_list(first: Any, second: Any) -> bool:
    """Whether two sequences are close, item by item."""
    if len(first) != len(second):
        return False
    return all(
        are_dicts_close(one, other) if isinstance(one, dict) else _close(one, other)
        for one, other in zip(first, second, strict=True)
    )


def _named(values: dict[Any, Any]) -> dict[Any, Any]:
    return {_name(key): _name(value) for key, value in values.items()}


def _name(value: Any) -> Any:
    return value.name if type(value).__name__ == "Symbol" else value


def _close(one: Any, other: Any, atol: float = 1e-8, rtol: float = 1e-5) -> bool:
    if isinstance(one, str | bool):
        return bool(one == other)
    if hasattr(one, "toarray"):
        one, other = one.toarray(), other.toarray()
    try:
        return bool(np.allclose(one, other, atol=atol, rtol=rtol))
    except (ValueError, TypeError):
        return bool(one == other)


def install() -> None:
    """Make `from scicode.compare.cmp import …` work."""
    names = ("scicode", "scicode.compare", "scicode.compare.cmp")
    modules = [sys.modules.setdefault(name, types.ModuleType(name)) for name in names]
    for function in (are_dicts_close, are_csc_matrix_close, cmp_tuple_or_list):
        setattr(modules[-1], function.__name__, function)
