# SPDX-License-Identifier: Apache-2.0
"""What the adapters share: the process's pool of each device, and a queue for each stream of another library.

A queue is adopted when its stream is first used, and shared with every other user of the stream (vram/shared.h). The
object behind a stream is kept, so that its library does not destroy the stream while libvram uses it; of the streams
without live blocks, the oldest are let go. One with live blocks is not: their frees are in its order. The default
stream of a thread has a queue for each thread, which libvram ends when the thread has ended and its work is done.
"""
from __future__ import annotations

import collections
import ctypes
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from ._library import error_of, lib
from ._values import sized
from .errors import StaleError
from .generated import api
from .shared import shared_pool

STREAMS_MAX = 64  # adopted at once, of one device, unless more have live blocks
PER_THREAD = 2  # CU_STREAM_PER_THREAD: one number for the default streams of all threads


class DevicePool:
    """The shared pool of one device for one adapter, whose blocks have its tag."""

    def __init__(self, backend: str, index: int, tag: str) -> None:
        self.pool = shared_pool(backend, index)
        self.handle, self.device = self.pool.handle, self.pool.device.handle
        self._options = sized(api.vram_alloc_options, tag=tag.encode())
        self._alloc, self._free = lib.plain("vram_alloc_with"), lib.plain("vram_free")
        self._queues: "collections.OrderedDict[int, Tuple[int, Any]]" = collections.OrderedDict()
        self._lock = threading.RLock()
        self._of_thread = threading.local()  # .queue: of the thread's default stream
        self.retire: Callable[[int, int], bool] = lambda native, queue: True  # whether a stream has no live blocks

    def has(self, native: int) -> bool:
        """Whether the stream has a queue. The stream lasts as long: its owner is kept."""
        return native in self._queues

    def queue(self, native: int, owner: Any = None) -> int:
        """The handle of the queue for a stream; `owner` keeps the stream."""
        if native == PER_THREAD:
            return self._queue_of_thread()
        found = self._queues.get(native)
        if found is not None:
            return found[0]
        queue = self._shared(native)
        with self._lock:
            self._queues[native] = (queue, owner)
            late = self._let_go(native) if len(self._queues) > STREAMS_MAX else None
        if late is not None:
            lib.plain("vram_queue_end")(late[0])  # waits for its work; what it freed serves all queues then
        return queue

    def _shared(self, native: int) -> int:
        queue = ctypes.c_void_p()
        lib.vram_queue_shared(self.device, native or None, queue)
        assert queue.value is not None
        return queue.value

    def _queue_of_thread(self) -> int:
        found: Optional[int] = getattr(self._of_thread, "queue", None)
        if found is None:
            found = self._of_thread.queue = self._shared(PER_THREAD)
        return found

    def _let_go(self, newest: int) -> Optional[Tuple[int, Any]]:
        """Takes the oldest stream without live blocks out of the table."""
        for native, (queue, _) in list(self._queues.items()):
            if native != newest and self.retire(native, queue):
                return self._queues.pop(native, None)
        return None

    def alloc(self, nbytes: int, queue: Optional[int]) -> int:
        """The address of a block. vram.Error, OutOfMemoryError among them, if there is none."""
        found = ctypes.c_uint64()
        status = self._alloc(self.handle, nbytes, queue, self._options, found)
        if status < 0:
            raise error_of(status)
        return found.value

    def alloc_on(self, native: int, owner: Any, nbytes: int) -> Tuple[int, int]:
        """A block for work of a stream, and its queue. The queue may have ended meanwhile, by another thread that let
        go of it or by another user of the stream: then the stream is adopted again."""
        queue = self.queue(native, owner)
        try:
            return self.alloc(nbytes, queue), queue
        except StaleError:
            self._of_thread.queue = None
            with self._lock:
                if self._queues.get(native, (None,))[0] == queue:
                    del self._queues[native]
            queue = self.queue(native, owner)
            return self.alloc(nbytes, queue), queue

    def free(self, block: int, queue: Optional[int]) -> bool:
        """Frees a block in the order of a queue. If the queue has ended, all its work has, and nothing uses the block
        any more. False: the process is exiting, or the block was freed."""
        status = self._free(block, queue)
        if status in (api.VRAM_ERR_STALE, api.VRAM_ERR_INVALID) and queue is not None:
            status = self._free(block, None)
        return status == 0


class DevicePools:
    """The pools of one adapter, by the number of the device; made when they are first used."""

    def __init__(self, tag: str, backend: str = "cuda") -> None:
        self.tag, self.backend = tag, backend
        self._pools: Dict[int, DevicePool] = {}

    def __getitem__(self, index: int) -> DevicePool:
        found = self._pools.get(index)
        if found is None:
            found = self._pools.setdefault(index, DevicePool(self.backend, index, self.tag))
        return found

    def forget(self, index: int) -> None:
        """The next use of the device makes its pool anew."""
        self._pools.pop(index, None)
