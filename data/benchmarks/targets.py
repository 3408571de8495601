"""SciCode's targets: read from `test_data.h5` and written as Python expressions, which go into the tests.

A target is a number, a text, an array, a list, a dictionary or a sparse matrix; several of them are a tuple. Arrays are
written packed: as lists of numbers the file would grow to several gigabytes.
"""

import base64
import zlib
from pathlib import Path
from typing import Any

from coda_dspy.errors import UserError

_SPARSE = ("data", "shape", "row", "col", "indices", "indptr", "blocksize")


def targets_in(path: Path, step: str, count: int) -> list[str]:
    """The expressions of one step's targets; they use `_array` and `_sparse` of `scicode_helpers`.

    Raises:
        UserError: h5py is missing, or the file is damaged or holds no targets of this step.
    """
    try:
        import h5py
    except ImportError:
        raise UserError(f"{path} needs h5py, which is not installed: pip install 'coda-dspy[hub]'") from None
    try:
        with h5py.File(path) as file:
            return [_target(file[f"{step}/test{number}"]) for number in range(1, count + 1)]
    except KeyError:
        raise UserError(f"{path}: holds no {count} targets of step {step}; get SciCode's file again") from None
    except OSError:
        raise UserError(f"{path}: is no HDF5 file; get SciCode's file again") from None


def _target(group: Any) -> str:
    values = [expression(group[name]) for name in group]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def expression(node: Any) -> str:
    """A data set or a group of the file as a Python expression."""
    if not hasattr(node, "keys"):
        return _literal(node[()])
    if "list" in node:
        return f"[{', '.join(expression(node['list'][name]) for name in node['list'])}]"
    if "sparse_matrix" in node:
        return _sparse(node["sparse_matrix"])
    return f"{{{', '.join(f'{_key(name)}: {expression(node[name])}' for name in node)}}}"


def _key(name: str) -> str:
    """Keys that are numbers were numbers before the file was written."""
    try:
        return repr(float(name))
    except ValueError:
        return repr(name)


def _sparse(group: Any) -> str:
    parts = [f"{name}={_literal(group[name][()])}" for name in _SPARSE if name in group]
    return f"_sparse({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode("utf-8"))
    if getattr(value, "ndim", 0) == 0:
        return _number(value.item() if hasattr(value, "item") else value)
    if value.dtype.kind in "biufc":
        packed = base64.b64encode(zlib.compress(value.tobytes())).decode()
        return f"_array({packed!r}, {value.dtype.str!r}, {value.shape!r})"
    return f"_array({value.tolist()!r}, 'O', {value.shape!r})"


def _number(value: Any) -> str:
    """`repr`, except where that is no expression, as for infinity."""
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
