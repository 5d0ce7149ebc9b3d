# SPDX-License-Identifier: Apache-2.0
"""Sizes, times, names of numbers, and C structs as plain Python data."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Union

from ._library import lib
from .errors import SizeOverflowError, invalid
from .generated import api

Size = Union[int, str]

KINDS = {"device": 0, "pinned": 1, "managed": 2, "mapped": 3, "fallback": 4}  # vram_buffer_kind
MEMORY = {"device": 0, "pinned": 1, "managed": 2, "host": 3}  # vram_memory_kind
CAPABILITIES = {name[len("VRAM_CAP_"):].lower(): value for name, value in vars(api).items()
                if name.startswith("VRAM_CAP_")}
DEVICE_KINDS = {api.VRAM_DEVICE_GPU: "gpu", api.VRAM_DEVICE_CPU: "cpu", api.VRAM_DEVICE_SIMULATED: "simulated"}


def size(value: Size) -> int:
    """Bytes of a size: an int, or text as "2GiB", "64K" or "1.5 MB".

    >>> size("2GiB"), size("1.5K"), size(4096)
    (2147483648, 1536, 4096)
    >>> size("-1")
    Traceback (most recent call last):
        ...
    vram.errors.InvalidError: "-1" is not a size...
    """
    if isinstance(value, str):
        parsed = ctypes.c_uint64()
        lib.vram_size_parse(value.encode(), parsed)
        return parsed.value
    if isinstance(value, bool):
        raise invalid(f"a size is a number of bytes or a text like \"2GiB\", not {value!r}")
    try:
        number = value.__index__()
    except AttributeError:
        raise invalid(f"a size is a number of bytes or a text like \"2GiB\", not {value!r}") from None
    if number < 0:
        raise invalid(f"a size is not negative: {number}")
    if number >= 1 << 64:
        error = SizeOverflowError(f"a size has at most 64 bits: {number}")
        error.status = api.VRAM_ERR_OVERFLOW
        raise error
    return number


def size_text(value: int) -> str:
    """A size for people.

    >>> size_text(2 << 30)
    '2.00 GiB'
    """
    text = ctypes.create_string_buffer(api.VRAM_SIZE_TEXT_MAX)
    lib.vram_size_format(size(value), text)
    return text.value.decode()


def timeout_ns(seconds: Optional[float]) -> int:
    """A timeout in seconds for the library; None: the option wait_timeout."""
    if seconds is None:
        return api.VRAM_TIMEOUT_DEFAULT
    if seconds < 0 or seconds != seconds:
        raise invalid(f"a time is not negative: {seconds}")
    return api.VRAM_TIMEOUT_INFINITE if seconds > 1e9 else int(seconds * 1e9)


def choose(value: str, table: Dict[str, int], what: str) -> int:
    """The number behind a word."""
    try:
        return table[value]
    except (KeyError, TypeError):
        raise invalid(f"{what} is one of {', '.join(table)}, not {value!r}") from None


def address(value: Any) -> int:
    """An address for the library: 0 to 2^64 - 1. Whether memory lies there the library finds out."""
    return integer(value, "an address", 0, 2**64 - 1)


def integer(value: Any, what: str, least: int, most: int) -> int:
    """A number that fits its type in C: ctypes passes the low bits of one that does not.

    >>> integer(2**32 + 1, "a number of blocks", 0, 2**32 - 1)
    Traceback (most recent call last):
        ...
    vram.errors.InvalidError: a number of blocks is from 0 to 4294967295, not 4294967297
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise invalid(f"{what} is an int, not {value!r}")
    number: int = value.__index__()
    if not least <= number <= most:
        raise invalid(f"{what} is from {least} to {most}, not {number}")
    return number


def plain(value: Any) -> Any:
    """A C struct as a dict: text decoded, a vram_value that is unknown None, without handles and sizes of structs."""
    if isinstance(value, api.vram_value):
        return value.value if value.known else None
    if isinstance(value, ctypes.Structure):
        found = {}
        for name, kind, *_ in value._fields_:
            if kind is ctypes.c_void_p or (name == "size" and kind is ctypes.c_size_t):
                continue
            found[name] = plain(getattr(value, name))
        return found
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Array):
        return [plain(item) for item in value]
    return value


def sized(struct: Any, **fields: Any) -> Any:
    """A struct that begins with its own size."""
    return struct(size=ctypes.sizeof(struct), **fields)
