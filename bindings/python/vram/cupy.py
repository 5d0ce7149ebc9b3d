# SPDX-License-Identifier: Apache-2.0
"""CuPy on libvram's pool.

    import vram.cupy
    vram.cupy.enable()

From then on arrays come from the pool that the process shares (vram.shared_pool), under the tag "cupy", in the order of
CuPy's current stream, and pinned memory comes from a pool of page-locked memory. Arrays that were made before stay
where they are. When memory runs out, cupy.cuda.memory.OutOfMemoryError is raised, as by CuPy's own pool; its
__cause__ is the vram.OutOfMemoryError with the report.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

from ._streams import DevicePools
from .errors import Error, OutOfMemoryError

_enabled: Optional["_Allocator"] = None


class _Pinned:
    """What CuPy calls the memory behind a PinnedMemoryPointer."""

    def __init__(self, pool: Any, size: int) -> None:
        self.size, self.ptr, self._pool = size, 0, pool
        if size > 0:
            self.ptr = pool.alloc(size, tag="cupy")

    def __int__(self) -> int:
        return self.ptr

    def __del__(self) -> None:
        if self.ptr:  # CuPy keeps it until the copies that use it are complete
            try:
                self._pool.free(self.ptr)
            except Exception:
                pass  # the process is exiting


class _Allocator:
    def __init__(self, cupy: Any, backend: str) -> None:
        self._current = cupy.cuda.get_current_stream
        self._exhausted = cupy.cuda.memory.OutOfMemoryError
        self._pointer = cupy.cuda.PinnedMemoryPointer
        self._pools = DevicePools("cupy", backend)
        self._queues: Dict[int, int] = {}  # of each live block: where it was allocated, and is freed
        self._pinned: Any = None

    def malloc(self, size: int, device: int) -> int:
        pool = self._pools[device]
        stream = self._current(device)
        queue = pool.queue(stream.ptr, stream)
        try:
            block = pool.alloc(size, queue)
        except OutOfMemoryError as error:
            raise self._exhausted(size, pool.pool.stats()["requested_bytes"]) from error
        self._queues[block] = queue
        return block

    def free(self, block: int, device: int) -> None:
        try:
            self._pools[device].free(block, self._queues.pop(block, None))
        except Exception:
            pass  # the interpreter is ending: CuPy calls this from a destructor, which cannot raise

    def malloc_pinned(self, size: int) -> Any:
        if self._pinned is None:
            self._pinned = self._pools[0].pool.device.pool("pinned", name="cupy pinned")
        try:
            return self._pointer(_Pinned(self._pinned, size), 0)
        except OutOfMemoryError as error:
            raise self._exhausted(size, self._pinned.stats()["requested_bytes"]) from error


def enable(*, pinned: bool = True, _backend: str = "cuda") -> None:
    """Has CuPy allocate from libvram, on all devices; a second call does nothing. `pinned=False` leaves pinned memory
    to CuPy. vram.NoDriverError without CUDA, ImportError without CuPy."""
    global _enabled
    if _enabled is not None:
        return
    import cupy
    allocator = _Allocator(cupy, _backend)
    allocator._pools[0]  # fails here, and not in the first array
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocator.malloc, allocator.free).malloc)
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(allocator.malloc_pinned)
    _enabled = allocator


def disable() -> None:
    """Has CuPy use its own pools again. Arrays that were made meanwhile stay, and are freed into libvram's pool."""
    global _enabled
    if _enabled is None:
        return
    import cupy
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)
    _enabled = None


def stats(device: int = 0) -> Dict[str, Any]:
    """The counters of the pool that CuPy shares, and what CuPy has of it, under "cupy"."""
    if _enabled is None:
        raise Error("vram.cupy is not enabled")
    pool = _enabled._pools[device].pool
    found = pool.stats()
    found["cupy"] = next((row for row in pool.device.tags() if row["name"] == "cupy"), None)
    return found
