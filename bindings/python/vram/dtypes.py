# SPDX-License-Identifier: Apache-2.0
"""Types of elements, with their codes in numpy's interfaces, in the buffer protocol and in DLPack."""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from .errors import invalid

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6  # DLDataTypeCode


class DType(NamedTuple):
    """A type of elements.

    >>> dtype_of("float32").itemsize
    4
    """

    name: str
    itemsize: int
    typestr: str  # of __array_interface__
    format: Optional[str]  # of memoryview; None: it has none
    dlpack: int  # DLDataTypeCode


DTYPES: Dict[str, DType] = {row.name: row for row in (
    DType("uint8", 1, "|u1", "B", _UINT), DType("int8", 1, "|i1", "b", _INT),
    DType("uint16", 2, "<u2", "H", _UINT), DType("int16", 2, "<i2", "h", _INT),
    DType("uint32", 4, "<u4", "I", _UINT), DType("int32", 4, "<i4", "i", _INT),
    DType("uint64", 8, "<u8", "Q", _UINT), DType("int64", 8, "<i8", "q", _INT),
    DType("float16", 2, "<f2", None, _FLOAT), DType("float32", 4, "<f4", "f", _FLOAT),
    DType("float64", 8, "<f8", "d", _FLOAT), DType("bfloat16", 2, "<V2", None, _BFLOAT),
    DType("complex64", 8, "<c8", None, _COMPLEX), DType("complex128", 16, "<c16", None, _COMPLEX),
    DType("bool", 1, "|b1", "?", _BOOL),
)}


def dtype_of(value: Any) -> DType:
    """The type behind a name, a DType, or a type of numpy's, CuPy's or PyTorch's.

    >>> dtype_of("float33")
    Traceback (most recent call last):
        ...
    vram.errors.InvalidError: a dtype is one of uint8, int8, ... not 'float33'
    """
    if isinstance(value, DType) and value in DTYPES.values():  # one that somebody made may claim any size
        return value
    name = value if isinstance(value, str) else str(getattr(value, "name", None) or getattr(value, "__name__", value))
    found = DTYPES.get(name[len("torch."):] if name.startswith("torch.") else name)
    if found is None:
        raise invalid(f"a dtype is one of {', '.join(DTYPES)}, not {value!r}")
    return found


def dtype_by_code(code: int, bits: int) -> DType:
    """The type of a DLPack tensor."""
    for row in DTYPES.values():
        if row.dlpack == code and row.itemsize * 8 == bits:
            return row
    raise invalid(f"DLPack's type {code} with {bits} bits is not known here")
