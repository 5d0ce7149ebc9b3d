# SPDX-License-Identifier: Apache-2.0
"""Memory of CuPy's graphs: what a capture allocates and frees stays with its graph.

A graph writes to the memory of its arrays at each launch, also to that of arrays which were deleted during the capture
or after it. CuPy's own pool keeps such memory for the stream of the capture. Here a capture has a captured region of
its own (vram_capture_begin), in whose order its blocks are freed; nobody else gets them while the graph exists. The
driver says when it does not any more: the graph holds a user object, whose destructor is sem_post, a function of the C
library that any thread may call without the interpreter. Then the region serves the next capture on the stream, and it
ends when memory runs out or with empty_cache.

While any capture is open, all allocations come through Python, which asks the current stream whether it is captured:
one that waits for an event of a capture has joined it.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, Dict, List, Optional

from ._library import lib
from ._streams import DevicePool

_SEMAPHORE_BYTES = 64  # more than any sem_t
_libc = ctypes.CDLL(None)


class _Life:
    """Whether the graph of a capture still exists."""

    def __init__(self, native: int) -> None:
        """During the capture. Without the driver's calls the graph is taken to live for ever."""
        _libc.calloc.restype = ctypes.c_void_p
        self._semaphore = ctypes.c_void_p(_libc.calloc(1, _SEMAPHORE_BYTES))
        self._held = bool(self._semaphore) and _libc.sem_init(self._semaphore, 0, 0) == 0 and self._hold(native)

    def _hold(self, native: int) -> bool:
        status, number, graph, thing = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        try:
            cuda = ctypes.CDLL(os.environ.get("VRAM_CUDA_LIBRARY") or "libcuda.so.1")
            if cuda.cuStreamGetCaptureInfo_v2(ctypes.c_void_p(native), ctypes.byref(status), ctypes.byref(number),
                                              ctypes.byref(graph), None, None) != 0 or not graph:
                return False
            if cuda.cuUserObjectCreate(ctypes.byref(thing), self._semaphore,
                                       ctypes.cast(_libc.sem_post, ctypes.c_void_p), 1, 1) != 0:
                return False
            if cuda.cuGraphRetainUserObject(graph, thing, 1, 1) != 0:  # hands the reference over
                cuda.cuUserObjectRelease(thing, 1)
                return False
            return True
        except (OSError, AttributeError):
            return False

    def ended(self) -> bool:
        if not self._held or _libc.sem_trywait(self._semaphore) != 0:
            return False
        self._held = False
        _libc.free(self._semaphore)
        return True


class _Region:
    """The captured region of a stream. `life`: of the graph that uses it; None: no graph does."""

    def __init__(self, stream: Any, pool: DevicePool) -> None:
        made = ctypes.c_void_p()
        self.stream, self.normal = stream, pool.queue(stream.ptr, stream)  # the stream lasts as long
        lib.vram_capture_begin(self.normal, made)
        assert made.value is not None
        self.queue: int = made.value
        self.life: Optional[_Life] = None

    def idle(self) -> bool:
        if self.life is not None and self.life.ended():
            self.life = None
        return self.life is None


class Captures:
    """The captures of CuPy's streams. `redirect`: the queue to free on, by the queue of the block, where it is not the
    same one: a stream's own queue during its capture, a region that has ended."""

    def __init__(self, pool: Callable[[Any], Optional[DevicePool]], follow: Callable[[Any, int], None]) -> None:
        """`pool` of a stream; None: it has no queue. `follow`: what the stream's blocks are freed on has changed."""
        self._pool, self._follow = pool, follow
        self._open: Dict[int, List[_Region]] = {}  # by the stream that began: its own, and of what joined it
        self._regions: List[_Region] = []
        self._lock = threading.RLock()
        self.redirect: Dict[int, int] = {}

    def install(self, stream_class: Any) -> Callable[[], None]:
        """Learns of captures from now on; returns what undoes it."""
        home = next((each for each in stream_class.__mro__ if "begin_capture" in vars(each)), None)
        if home is None:
            return lambda: None
        begin, end = home.begin_capture, home.end_capture

        def begin_capture(stream: Any, *args: Any, **named: Any) -> Any:
            found = begin(stream, *args, **named)
            try:
                self.begin(stream)
            except Exception:
                pass  # said again by the first allocation
            return found

        def end_capture(stream: Any) -> Any:
            self.watch(stream.ptr)
            try:
                found = end(stream)
            except BaseException:
                self.end(stream.ptr, False)
                raise
            self.end(stream.ptr, True)
            return found

        home.begin_capture, home.end_capture = begin_capture, end_capture

        def undo() -> None:
            home.begin_capture, home.end_capture = begin, end
            for native in list(self._open):  # they end later, unseen
                self.watch(native)
                self.end(native, True)
        return undo

    def begin(self, stream: Any) -> None:
        with self._lock:
            self._join(stream, self._open.setdefault(stream.ptr, []))

    def _join(self, stream: Any, joined: List[_Region]) -> Optional[int]:
        region = next((each for each in self._regions if each.stream.ptr == stream.ptr and each.idle()), None)
        pool = self._pool(stream)
        if region is None and pool is not None:
            region = _Region(stream, pool)
            self._regions.append(region)
        if region is None:
            return None
        joined.append(region)
        self.redirect[region.normal] = region.queue
        self._follow(stream, region.queue)
        return region.queue

    def region(self, stream: Any) -> Optional[int]:
        """The queue to allocate on if the stream is captured. Asks the driver, and only while a capture is open."""
        if not self._open:
            return None
        try:
            if not stream.is_capturing():
                if stream.ptr in self._open:  # it ended unseen, and so will its graph
                    self.watch(stream.ptr)
                    self.end(stream.ptr, True)
                return None
        except RuntimeError:  # the default stream, beside the capture of a blocking one
            return None
        with self._lock:
            for joined in self._open.values():
                for region in joined:
                    if region.stream.ptr == stream.ptr:
                        return region.queue
            for joined in self._open.values():  # which of them it has joined is not known
                return self._join(stream, joined)
        return None

    def watch(self, native: int) -> None:
        """The capture is about to end: its graph exists."""
        with self._lock:
            for region in self._open.get(native, ()):
                region.life = _Life(region.stream.ptr)

    def end(self, native: int, graph: bool) -> None:
        with self._lock:
            for region in self._open.pop(native, ()):
                self.redirect.pop(region.normal, None)
                self._follow(region.stream, region.normal)
                if not graph:
                    region.life = None

    def release(self) -> int:
        """Ends the regions that no graph uses; how many. Waits for the work of their streams."""
        with self._lock:
            open_now = [region for joined in self._open.values() for region in joined]
            idle = [each for each in self._regions if each not in open_now and each.idle()]
            gone = [each for each in idle if lib.plain("vram_capture_end")(each.queue) == 0]
            self._regions = [each for each in self._regions if each not in gone]
            for region in gone:
                self.redirect[region.queue] = region.normal
            return len(gone)

    def open(self) -> bool:
        return bool(self._open)
