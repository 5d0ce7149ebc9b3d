# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a Python object lie: anything with the buffer protocol, through CPython's own C API."""
from __future__ import annotations

import ctypes
from typing import Any

from .errors import invalid

_WRITABLE = 0x0001  # PyBUF_WRITABLE
_CONTIGUOUS = 0x0038 | 0x0080  # PyBUF_ANY_CONTIGUOUS


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.POINTER(_PyBuffer)], None


class HostMemory:
    """The bytes of an object, which stay where they are as long as this lives."""

    def __init__(self, owner: Any, writable: bool) -> None:
        self._view = None
        view = _PyBuffer()
        try:
            _get(owner, ctypes.byref(view), _CONTIGUOUS | (_WRITABLE if writable else 0))
        except (TypeError, BufferError) as error:
            raise invalid(f"{'writable ' if writable else ''}host memory is bytes, a bytearray, a memoryview or a "
                          f"numpy array in one piece, not {type(owner).__name__}: {error}") from None
        self._view, self._release = view, _release
        self.owner = owner
        self.address = view.buf or 0
        self.nbytes = view.len

    def __del__(self) -> None:
        if self._view is not None:
            self._release(ctypes.byref(self._view)) if ctypes is not None else None
            self._view = None
