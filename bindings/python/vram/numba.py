# SPDX-License-Identifier: Apache-2.0
"""Numba's CUDA memory from libvram: NUMBA_CUDA_MEMORY_MANAGER=vram.numba in the environment, or

    from numba import cuda
    import vram.numba
    cuda.set_memory_manager(vram.numba.VramMemoryManager)      before the first use of CUDA

Device memory comes from the pool that the process shares (vram.shared_pool), under the tag "numba"; pinned memory from
a pool of page-locked memory. Numba does not say which stream uses a block. So blocks are allocated and freed in the
order of the legacy default stream. After a free, the next allocation puts a small fill on that stream: it waits for the
work of all streams that Numba makes, and their later work waits for it; the host waits for nothing. A stream of another
library that was made not to wait for the default stream is not covered: wait for it before its arrays are deleted.

CUDA's IPC handles exist only for memory that cuMemAlloc gave, not for mapped memory. With LIBVRAM_NUMBA_SEGMENTS=1 in
the environment Numba has a pool of such memory of its own, whose arrays have IPC handles.
"""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Dict, Optional

from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

from ._library import lib
from ._streams import DevicePools
from .errors import OutOfMemoryError
from .pool import Pool

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY

_pools = DevicePools("numba")
_devices: Dict[int, "_Device"] = {}


class _Device:
    """The pools of one device. `freed`: a block was freed after the last fill."""

    def __init__(self, index: int) -> None:
        self.shared = _pools[index]
        self.device = self.shared.pool.device
        self.queue = self.shared.queue(0)
        self._scratch = self.shared.alloc(256, self.queue)
        self._fill = lib.vram_queue_fill
        self._lock = threading.RLock()
        self._freed = False
        self._others: Dict[str, Pool] = {}

    def alloc(self, size: int, segments: bool) -> int:
        if segments:
            found = ctypes.c_uint64()
            lib.vram_alloc(self.other("segments").handle, size, self.queue, found)
            block = found.value
        else:
            block = self.shared.alloc(size, self.queue)
        with self._lock:  # no other thread launches a kernel on reused memory before the fill is submitted
            if self._freed:
                self._freed = False
                try:
                    self._fill(self.queue, self._scratch, 0, 4, 256)
                except BaseException:
                    self._freed = True
                    self.shared.free(block, self.queue)
                    raise
        return block

    def free(self, block: int) -> None:
        self._freed = True  # without the lock: the collector may call this inside alloc
        self.shared.free(block, self.queue)

    def other(self, kind: str) -> Pool:
        """The pool of page-locked memory, or that of segments."""
        found = self._others.get(kind)
        if found is None:
            made = self.device.pool("pinned", name="numba pinned") if kind == "pinned" else \
                self.device.pool(segments=True, name="numba segments")
            found = self._others.setdefault(kind, made)
        return found


def _device(index: int) -> _Device:
    found = _devices.get(index)
    if found is None:
        found = _devices.setdefault(index, _Device(index))
    return found


def _numba_error(error: OutOfMemoryError) -> Exception:
    """What Numba's own manager raises; its __cause__ has the report."""
    return CudaAPIError(OUT_OF_MEMORY, f"Call to vram_alloc results in CUDA_ERROR_OUT_OF_MEMORY: {error}")


class VramMemoryManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """An External Memory Management plug-in of Numba's, version 1 of the interface."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._segments = os.environ.get("LIBVRAM_NUMBA_SEGMENTS", "") not in ("", "0", "off")
        self._index: Optional[int] = None

    def initialize(self) -> None:
        if self._index is None:
            device = self.context.device
            index = int(getattr(device, "id", device))  # of a context that others made it is the driver's number
            found = _device(index)  # fails here, and not in the first array
            if found.device.memory()["lost"]:  # numba.cuda.close() has reset it
                _devices.pop(index, None)
                _pools.forget(index)
                _device(index)
            self._index = index
            self.deallocations.memory_capacity = self.get_memory_info().total

    @property
    def _number(self) -> int:
        if self._index is None:
            self.initialize()
        assert self._index is not None
        return self._index

    def memalloc(self, size: int) -> Any:
        device = _device(self._number)
        try:
            block = device.alloc(size, self._segments)
        except OutOfMemoryError as error:
            raise _numba_error(error) from error
        return cuda.MemoryPointer(weakref.proxy(self.context), ctypes.c_void_p(block), size,
                                  finalizer=_finalizer(device, block))

    def memhostalloc(self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> Any:
        if wc or size == 0:  # write-combined memory is not pooled
            return super().memhostalloc(size, mapped, portable, wc)
        device = _device(self._number)
        try:
            block = device.other("pinned").alloc(size, tag="numba")
        except OutOfMemoryError as error:
            raise _numba_error(error) from error
        finalizer = _finalizer(device, block)
        if not mapped:
            return cuda.PinnedMemory(weakref.proxy(self.context), block, size, finalizer=finalizer)
        allocations = self.allocations

        def ended() -> None:
            if allocations:
                del allocations[block]
            finalizer()

        memory = cuda.MappedMemory(weakref.proxy(self.context), block, size, finalizer=ended)
        allocations[block] = memory
        return memory.own()

    def get_memory_info(self) -> Any:
        memory = _device(self._number).device.memory()
        if memory["free_bytes"] is None or memory["total_bytes"] is None:
            raise NotImplementedError("the driver does not say how much memory is free")
        return cuda.MemoryInfo(free=memory["free_bytes"], total=memory["total_bytes"])

    def get_ipc_handle(self, memory: Any) -> Any:
        if not self._segments:
            raise NotImplementedError("mapped memory has no CUDA IPC handle: set LIBVRAM_NUMBA_SEGMENTS=1, and Numba's "
                                      "memory comes from a pool of its own that has")
        return super().get_ipc_handle(memory)

    @property
    def interface_version(self) -> int:
        return 1


def _finalizer(device: _Device, block: int) -> Any:
    """Frees a block in the order of the default stream."""
    def finalize() -> None:
        try:
            device.free(block)
        except Exception:
            pass  # the interpreter is ending, and nobody could handle it
    return finalize


_numba_memory_manager = VramMemoryManager
