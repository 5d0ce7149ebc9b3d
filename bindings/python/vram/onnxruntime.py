# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's CUDA memory from libvram.

    import onnxruntime, vram.onnxruntime
    session = onnxruntime.InferenceSession(
        "model.onnx", providers=[("CUDAExecutionProvider", vram.onnxruntime.provider_options())])

With an external allocator ONNX Runtime has no arena of its own and runs on CUDA's legacy default stream: blocks are
allocated and freed in its order, from the pool that the process shares, under the tag "onnxruntime". It cannot be
combined with its option user_compute_stream, which ONNX Runtime refuses.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Tuple

from ._streams import DevicePools
from .errors import Error

_ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_EMPTY = ctypes.CFUNCTYPE(None)

_functions: Dict[Tuple[str, int], List[Any]] = {}  # by device; ONNX Runtime has their addresses
_last: List[Error] = []  # the last failure


def _make(backend: str, index: int) -> List[Any]:
    pool = DevicePools("onnxruntime", backend)[index]
    queue = pool.queue(0) if backend == "cuda" else None

    @_ALLOC
    def alloc(size: int) -> Any:
        if sys.is_finalizing():
            return None
        try:
            return pool.alloc(size, queue)
        except Error as error:  # ONNX Runtime learns it from NULL, and its exception has no reason
            _last[:] = [error]
            return None

    @_FREE
    def free(block: Any) -> None:
        if block and not sys.is_finalizing():
            pool.free(block, queue)

    @_EMPTY
    def empty_cache() -> None:
        if not sys.is_finalizing():
            try:
                pool.pool.trim()
            except Error:
                pass

    functions = [alloc, free, empty_cache]
    for function in functions:  # a session may outlive this module
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return functions


def provider_options(device: int = 0, *, _backend: str = "cuda") -> Dict[str, str]:
    """The options of the CUDA execution provider that have it allocate from libvram; add your own to them.
    vram.NoDriverError without CUDA."""
    functions = _functions.get((_backend, device))
    if functions is None:
        functions = _functions.setdefault((_backend, device), _make(_backend, device))
    alloc, free, empty = (str(ctypes.cast(function, ctypes.c_void_p).value) for function in functions)
    return {"device_id": str(device), "gpu_external_alloc": alloc, "gpu_external_free": free,
            "gpu_external_empty_cache": empty}


def last_error() -> Any:
    """The vram.Error of the last allocation that failed, with its report; None: none failed."""
    return _last[0] if _last else None
