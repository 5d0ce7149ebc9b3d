# SPDX-License-Identifier: Apache-2.0
"""CuPy on libvram's pool.

    import vram.cupy
    vram.cupy.enable()

From then on arrays come from the pool that the process shares (vram.shared_pool), under the tag "cupy", in the order of
CuPy's current stream, and pinned memory comes from a pool of page-locked memory. Arrays that were made before stay
where they are. When memory runs out, cupy.cuda.memory.OutOfMemoryError is raised, as by CuPy's own pool; its
__cause__ is the vram.OutOfMemoryError with the report.

Memory that the pool holds already is handed out by C functions (adapters/cupy, libvram_cupy.so beside libvram), which
CuPy calls without Python; the rest, and everything where that library is absent, by functions of this module.

A stream that CuPy did not make (ExternalStream, Stream.from_external) may be destroyed by its owner at any time, and a
driver that is asked about a destroyed stream crashes. The pool asks streams what they have finished, so it never learns
of these: their blocks are kept for the same stream, as in CuPy's own pool (_External).

What a stream uses while it is captured stays with the graph (_captures.py).
"""
from __future__ import annotations

import collections
import ctypes
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from ._captures import Captures
from ._library import NATIVE, lib
from ._streams import PER_THREAD, STREAMS_MAX, DevicePool, DevicePools
from .errors import CaptureError, Error, OutOfMemoryError

_ABI = 2  # VRAM_CUPY_ABI of adapters/cupy/cupy_memory.h

_enabled: Optional["_Allocator"] = None
_made: Optional["_Allocator"] = None  # the one of before disable: it keeps the streams that the pool knows of
_undo: Callable[[], None] = lambda: None  # of what enable changed in CuPy's streams


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


def _c_functions() -> Optional[ctypes.CDLL]:
    """libvram_cupy.so, beside libvram; None: there is none, or one of another version."""
    for folder in (os.path.dirname(lib.path), NATIVE):
        path = os.path.join(folder, "libvram_cupy.so")
        if folder and os.path.exists(path):
            try:
                found = ctypes.CDLL(path)
                if found.vram_cupy_abi() == _ABI:
                    found.vram_cupy_stream_make.restype = ctypes.c_void_p
                    found.vram_cupy_stream_make.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
                    found.vram_cupy_stream_set.argtypes = [ctypes.c_void_p] * 2
                    return found
            except (OSError, AttributeError):
                pass
    return None


class _Streams:
    """What CuPy calls for each stream: a CFunctionAllocator whose parameter is the record of the stream."""

    def __init__(self, cupy: Any, functions: ctypes.CDLL) -> None:
        self._make, self._functions = cupy.cuda.CFunctionAllocator, functions
        self._retire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(  # keeps the interpreter's lock
            ctypes.cast(functions.vram_cupy_stream_retire, ctypes.c_void_p).value or 0)
        self._calls = [ctypes.cast(call, ctypes.c_void_p).value
                       for call in (functions.vram_cupy_alloc, functions.vram_cupy_free)]
        self._records: Dict[Tuple[int, int], Tuple[int, Any]] = {}  # never freed: blocks point to them
        self.current: "collections.OrderedDict[int, Callable[[int], Any]]" = collections.OrderedDict()

    def learn(self, native: int, device: int, pool: DevicePool, queue: int) -> None:
        """A block of the stream was allocated through Python: the next ones are tried in C. Stream 0 is every device's:
        the last one that used it is tried."""
        found = self._records.get((device, native))
        if found is None:
            record = self._functions.vram_cupy_stream_make(lib.address("vram_alloc_with"), lib.address("vram_free"),
                                                           pool.handle, device)
            if not record:
                return
            found = (record, self._make(record, *self._calls, self._functions).malloc)
            found = self._records.setdefault((device, native), found)
        self._functions.vram_cupy_stream_set(found[0], queue)
        self.current[native] = found[1]
        if len(self.current) > STREAMS_MAX:
            self.current.popitem(last=False)

    def retire(self, native: int, device: int) -> bool:
        """Whether no block of the stream that came from C is live; then the next one comes through Python."""
        found = self._records.get((device, native))
        return found is None or self._retire(found[0]) == 1

    def redirect(self, native: int, device: int, queue: int) -> None:
        """Blocks of the stream that came from C are freed on that queue, and none is allocated before the next one
        that comes through Python."""
        self.current.clear()
        found = self._records.get((device, native))
        if found is not None:
            self._functions.vram_cupy_stream_set(found[0], queue)

    def malloc(self, stream_now: Callable[[], Any], through_python: Callable[[int], Any]) -> Callable[[int], Any]:
        """The allocator: C first."""
        current = self.current

        def malloc(size: int) -> Any:
            call = current.get(stream_now().ptr)
            if call is not None:
                found = call(size)
                if found.ptr:
                    return found
            return through_python(size)

        return malloc


def _is_external(stream: Any) -> bool:
    """Whether its owner is not CuPy. The default streams have none."""
    return stream.ptr > PER_THREAD and (type(stream).__name__ == "ExternalStream" or
                                        getattr(stream, "_foreign_stream_ref", None) is not None)


def _numbers() -> Callable[[Any], int]:
    """The function that gives a stream's number, which no later stream has, although it may have the same handle. The
    handle where the driver has no numbers, and during a capture, which the question would end."""
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuStreamGetId
    except (OSError, AttributeError):
        return lambda stream: int(stream.ptr)
    ask.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_ulonglong)]

    def number(stream: Any) -> int:
        found = ctypes.c_ulonglong()
        try:
            asked = not stream.is_capturing() and ask(stream.ptr, found) == 0
        except RuntimeError:  # the capture is invalid
            asked = False
        return found.value if asked else int(stream.ptr)

    return number


class _External:
    """Blocks of one device's streams that CuPy did not make. One that was freed serves its stream again, at once. The
    pool gets it back when the device has finished all work: memory ran out, empty_cache, disable. Lists and dicts
    without a lock: the collector may call `free` inside any of these methods."""

    def __init__(self, pool: DevicePool, settle: Callable[[], None]) -> None:
        self._pool, self._settle = pool, settle
        self._unused: Dict[Tuple[int, int], List[int]] = {}  # by the stream's number and size
        self.forget = pool.pool.device.on_out_of_memory(lambda event: self.release())

    def alloc(self, stream: int, size: int) -> Tuple[int, int]:
        """A block, and its size, which is rounded up by an eighth at most, so that it serves other sizes later."""
        step = max(512, 1 << max(size.bit_length() - 4, 0))
        size = -(-size // step) * step
        try:
            return self._unused[stream, size].pop(), size
        except (KeyError, IndexError):
            return self._pool.alloc(size, None), size

    def free(self, block: int, stream: int, size: int) -> None:
        self._unused.setdefault((stream, size), []).append(block)

    def release(self) -> int:
        """Waits for all work of the device and gives unused blocks back to the pool; returns their bytes."""
        taken: List[Tuple[int, int, int]] = []
        for (stream, size), blocks in list(self._unused.items()):
            for _ in range(len(blocks)):
                try:
                    taken.append((blocks.pop(), stream, size))
                except IndexError:
                    break  # another thread was faster
        try:
            if taken:
                self._settle()
        except BaseException:
            for block, stream, size in taken:
                self._unused[stream, size].append(block)
            raise
        for block, _, _ in taken:
            self._pool.free(block, None)
        return sum(size for _, _, size in taken)


class _Allocator:
    def __init__(self, cupy: Any, backend: str) -> None:
        self.made_for = cupy, backend
        self._current = cupy.cuda.get_current_stream
        self._exhausted = cupy.cuda.memory.OutOfMemoryError
        self._pointer = cupy.cuda.PinnedMemoryPointer
        self._pools = DevicePools("cupy", backend)
        # Of each live block: the queue that it was allocated on and is freed on, or its external stream's number and
        # its size.
        self._queues: Dict[int, Union[int, Tuple[int, int]]] = {}
        self._external: Dict[int, _External] = {}  # by device
        self._number = _numbers()
        self._lock = threading.Lock()
        self._pinned: Any = None
        self._streams: Optional[_Streams] = None
        self.captures = Captures(lambda stream: None if _is_external(stream) else self.pool(stream.device_id),
                                 self._follow)
        self.allocate = cupy.cuda.PythonFunctionAllocator(self.malloc, self.free).malloc
        functions = _c_functions()
        if functions is not None and hasattr(cupy.cuda, "CFunctionAllocator"):
            self._streams = _Streams(cupy, functions)
            self.allocate = self._streams.malloc(self._current, self.allocate)

    def malloc(self, size: int, device: int) -> int:
        try:
            try:
                return self._malloc(size, device)
            except OutOfMemoryError:
                # A quota of the tag is no shortage of the device, for which alone on_out_of_memory is called.
                if not self._release(device):
                    raise
            return self._malloc(size, device)
        except OutOfMemoryError as error:
            raise self._exhausted(size, self.pool(device).pool.stats()["requested_bytes"]) from error

    def _release(self, device: int) -> bool:
        """Whether the pool got anything back."""
        graphs, external = self.captures.release(), self._external.get(device)
        try:
            return (external.release() if external is not None else 0) + graphs > 0
        except CaptureError:
            return graphs > 0

    def _malloc(self, size: int, device: int) -> int:
        pool, stream = self.pool(device), self._current(device)
        if _is_external(stream) and not pool.has(stream.ptr):
            number = self._number(stream)
            block, size = self.external(device).alloc(number, size)
            self._queues[block] = number, size
            return block
        region = self.captures.region(stream)
        if region is not None:
            block = pool.alloc(size, region)
            self._queues[block] = region
            return block
        block, queue = pool.alloc_on(stream.ptr, stream, size)
        self._queues[block] = queue
        # Handle 2 is one number for the streams of all threads.
        if self._streams is not None and stream.ptr != PER_THREAD and not self.captures.open():
            self._streams.learn(stream.ptr, device, pool, queue)
        return block

    def _follow(self, stream: Any, queue: int) -> None:
        if self._streams is not None:
            self._streams.redirect(stream.ptr, stream.device_id, queue)

    def free(self, block: int, device: int) -> None:
        try:
            where = self._queues.pop(block, None)
            if isinstance(where, tuple):
                self._external[device].free(block, *where)
            else:
                self._pools[device].free(block, self.captures.redirect.get(where, where))
        except Exception:
            pass  # the interpreter is ending: CuPy calls this from a destructor, which cannot raise

    def pool(self, device: int) -> DevicePool:
        pool = self._pools[device]
        pool.retire = lambda native, queue: queue not in self._queues.values() and (
            self._streams is None or self._streams.retire(native, device))
        return pool

    def external(self, device: int) -> _External:
        with self._lock:
            found = self._external.get(device)
            if found is None:
                found = _External(self._pools[device], lambda: self._settle(device))
                self._external[device] = found
        return found

    def _settle(self, device: int) -> None:
        """Waits for the device, which would end a capture: not while a stream is captured of which CuPy knows, or one
        that the default stream waits for."""
        cuda = self.made_for[0].cuda
        owners = [owner for _, owner in list(self._pools[device]._queues.values())]
        for stream in owners + [self._current(device), cuda.Stream.null]:
            try:
                captured = stream.is_capturing()
            except RuntimeError:
                captured = True
            if captured:
                raise CaptureError("a stream of the device is being captured into a graph")
        cuda.Device(device).synchronize()

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
    global _enabled, _made, _undo
    if _enabled is not None:
        return
    import cupy
    allocator = _made
    if allocator is None or allocator.made_for != (cupy, _backend):
        allocator = _Allocator(cupy, _backend)
    allocator._pools[0]  # fails here, and not in the first array
    _undo = allocator.captures.install(cupy.cuda.Stream)
    cupy.cuda.set_allocator(allocator.allocate)
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(allocator.malloc_pinned)
    _enabled = _made = allocator


def disable() -> None:
    """Has CuPy use its own pools again. Arrays that were made meanwhile stay, and are freed into libvram's pool."""
    global _enabled
    if _enabled is None:
        return
    import cupy
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)
    _undo()
    _enabled = None
    empty_cache()


def empty_cache() -> int:
    """Waits for all work of the devices and gives the pool the memory that streams which CuPy did not make have freed;
    returns how many bytes. Memory of graphs that are gone is given back, too. It also happens when memory runs out.
    vram.CaptureError, and nothing is given back, while a stream is captured."""
    if _made is None:
        return 0
    _made.captures.release()
    return sum(each.release() for each in list(_made._external.values()))


def stats(device: int = 0) -> Dict[str, Any]:
    """The counters of the pool that CuPy shares, and what CuPy has of it, under "cupy"."""
    if _enabled is None:
        raise Error("vram.cupy is not enabled")
    pool = _enabled._pools[device].pool
    found = pool.stats()
    found["cupy"] = next((row for row in pool.device.tags() if row["name"] == "cupy"), None)
    return found
