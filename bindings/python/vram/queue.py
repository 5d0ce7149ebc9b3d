# SPDX-License-Identifier: Apache-2.0
"""Queues, and transfers that can be waited for and awaited."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Dict, Generator, List, Optional, Union

from . import _lifetime
from ._hostmemory import HostMemory
from ._lifetime import Handle
from ._library import error_of, lib
from ._values import Size, address, size, timeout_ns
from .buffer import Buffer
from .errors import TimeoutError, invalid
from .generated import api

Place = Union[Buffer, int]  # a buffer, or an address
_poll, _use = lib.plain("vram_async_poll"), lib.plain("vram_use")


def queue_handle(queue: Optional[Queue]) -> Optional[int]:
    """The handle for a call; None: no queue."""
    if queue is None:
        return None
    if not isinstance(queue, Queue):
        raise invalid(f"a queue is a vram.Queue, not {type(queue).__name__}")
    return queue.handle


class _Work:
    """The host memory that a transfer uses, until the device has finished with it."""

    __slots__ = ("word", "memory")

    def __init__(self, word: Any, memory: Any) -> None:
        self.word, self.memory = word, memory


_pending: Dict[int, _Work] = {}  # by id; strong references
_immortal: List[_Work] = []  # work that a device never finished


def _reap() -> None:
    """Lets go of what finished work used."""
    for number, work in list(_pending.items()):
        if _poll(ctypes.byref(work.word)) != api.VRAM_ERR_NOT_READY:
            _pending.pop(number, None)


def _drain() -> None:
    """Waits for all transfers: an object whose memory they use is about to be closed, which waits for them too."""
    for work in list(_pending.values()):
        lib.plain("vram_async_wait")(ctypes.byref(work.word), api.VRAM_TIMEOUT_DEFAULT)
    _reap()


_lifetime.before_close = _drain


def _keep_pending() -> None:
    """Some work may run for ever: what it uses is never let go of."""
    while _pending:
        try:
            _immortal.append(_pending.popitem()[1])
        except KeyError:
            break


def end_or_keep(destroy: Any) -> Any:
    """A destroy that keeps the memory of work that has not finished by its end."""
    def end(value: int) -> None:
        try:
            destroy(value)
        except TimeoutError:
            _keep_pending()
            raise
        _reap()
    return end


class Transfer:
    """A copy or fill that runs in the background. It can be asked (`done`), waited for (`wait`) and awaited.

    Memory that it uses stays alive until it has finished, also if nobody keeps the Transfer.

    >>> import asyncio, vram
    >>> async def round_trip():
    ...     with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
    ...         with device.queue() as queue, device.pool() as pool, pool.buffer(5, queue=queue) as buffer:
    ...             await queue.upload(buffer, b"hello")
    ...             return bytes(await queue.download(buffer))
    >>> asyncio.run(round_trip())
    b'hello'
    """

    _word: Any
    _result: Any
    _queue: Queue
    _work: _Work

    def __init__(self, *arguments: Any) -> None:
        raise TypeError("a Transfer is made by a method of a Queue")

    @classmethod
    def _of(cls, word: Any, result: Any, memory: Any, queue: Queue) -> Transfer:
        transfer = cls.__new__(cls)
        transfer._word, transfer._result, transfer._queue = word, result, queue
        transfer._work = _Work(word, memory)
        _pending[id(transfer._work)] = transfer._work
        return transfer

    def __repr__(self) -> str:
        return f"<vram.Transfer {'that has ended' if self.done() else 'under way'}>"

    def done(self) -> bool:
        """Whether it has finished or failed. Never waits."""
        return _poll(ctypes.byref(self._word)) != api.VRAM_ERR_NOT_READY

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits, at most `timeout` seconds (None: the option wait_timeout), and returns the result: the memory that
        a download wrote, else None. vram.TimeoutError if it has not finished by then."""
        lib.vram_async_wait(ctypes.byref(self._word), timeout_ns(timeout))
        return self._finish()

    def result(self) -> Any:
        """The result of a transfer that has finished; vram.NotReadyError if it has not."""
        lib.vram_async_poll(ctypes.byref(self._word))
        return self._finish()

    def _finish(self) -> Any:
        _pending.pop(id(self._work), None)
        self._work.memory = None
        return self._result

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait_for().__await__()

    async def _wait_for(self) -> Any:
        import asyncio  # in a program that awaits it is loaded
        if not self.done():
            loop = asyncio.get_running_loop()
            ready = loop.create_future()
            number = ctypes.c_int(-1)
            lib.vram_async_fd_open(ctypes.byref(self._word), 1, number)

            def arrived() -> None:
                if not ready.done():
                    ready.set_result(None)

            try:
                loop.add_reader(number.value, arrived)
                try:
                    await ready
                finally:
                    loop.remove_reader(number.value)
            finally:
                os.close(number.value)
        return self.result()


class Queue(Handle):
    """Runs submitted work in order. Device.queue creates one.

    >>> import vram
    >>> with vram.Context(backends="host") as context, context.device() as device:
    ...     with device.queue() as queue, device.pool() as pool, pool.buffer(4, queue=queue) as buffer:
    ...         queue.fill(buffer, 7).wait()
    ...         bytes(queue.download(buffer).wait())
    b'\\x07\\x07\\x07\\x07'
    """

    @classmethod
    def _of(cls, value: Optional[int], parent: Handle, destroy: Any) -> Queue:
        queue = cls.__new__(cls)
        queue._begin(value, "queue", None if destroy is None else end_or_keep(destroy), parent)
        return queue

    def _about(self) -> str:
        return f"of {self._parent._label()}"

    @property
    def native(self) -> Optional[int]:
        """The driver's own queue, as the number of a CUstream; None if it has none."""
        found = ctypes.c_void_p()
        lib.vram_queue_native(self.handle, found)
        return found.value

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all work submitted so far is complete, at most `timeout` seconds."""
        lib.vram_queue_wait(self.handle, timeout_ns(timeout))
        _reap()

    def idle(self) -> bool:
        """Whether all submitted work is complete."""
        status = lib.plain("vram_queue_poll")(self.handle)
        if status < 0 and status != api.VRAM_ERR_NOT_READY:
            raise error_of(status)
        return status == 0

    # ------------------------------------------------------------- transfers

    def upload(self, to: Place, data: Any, offset: Size = 0) -> Transfer:
        """Copies host memory (anything with the buffer protocol, in one piece) to a buffer or an address."""
        memory = HostMemory(data, False)
        where = _place(to, offset, memory.nbytes)
        if _is_wrapped(to):
            self._host_copy(lib.vram_span_upload, to, size(offset), memory, memory.nbytes)
            return Transfer._of(api.vram_async(), None, None, self)
        return self._submit(lib.vram_transfer_upload, (where, memory.address or None, memory.nbytes), (to,), memory)

    def download(self, source: Place, into: Any = None, nbytes: Optional[Size] = None, offset: Size = 0) -> Transfer:
        """Copies a buffer, or `nbytes` at an address, to host memory: to `into`, or to a new bytearray. The result
        of the transfer is that memory."""
        if nbytes is None:
            count = HostMemory(into, True).nbytes if into is not None else _rest(source, size(offset))
        else:
            count = size(nbytes)
        where = _place(source, offset, count)
        target = _new_bytes(count) if into is None else into
        memory = HostMemory(target, True)
        if memory.nbytes < count:
            raise invalid(f"{count} bytes do not fit into the {memory.nbytes} of the target")
        if _is_wrapped(source):
            self._host_copy(lib.vram_span_download, source, size(offset), memory, count)
            return Transfer._of(api.vram_async(), target, None, self)
        return self._submit(lib.vram_transfer_download, (memory.address or None, where, count), (source,), memory,
                            target)

    def copy(self, to: Place, source: Place, nbytes: Optional[Size] = None) -> Transfer:
        """Copies between two buffers or addresses of devices."""
        count = _rest(source, 0) if nbytes is None else size(nbytes)
        if isinstance(source, Buffer) and _is_wrapped(source):  # the library does not know it by its address
            return self.upload(to, source.view()[:count])
        if isinstance(to, Buffer) and _is_wrapped(to):
            return self.download(source, to.view(), count)
        return self._submit(lib.vram_transfer_copy, (_place(to, 0, count), _place(source, 0, count), count),
                            (to, source))

    def fill(self, to: Place, value: int = 0, width: int = 1, nbytes: Optional[Size] = None,
             offset: Size = 0) -> Transfer:
        """Fills memory with a value of 1, 2 or 4 bytes."""
        count = _rest(to, size(offset)) if nbytes is None else size(nbytes)
        if width not in (1, 2, 4) or not hasattr(value, "__index__") or not 0 <= value < 1 << 8 * width:
            raise invalid(f"a pattern has 1, 2 or 4 bytes: {value} does not fit in {width}")
        if _is_wrapped(to):
            raise invalid("host memory of another library is filled by the host: buffer.view()[:] = ...")
        return self._submit(lib.vram_transfer_fill, (_place(to, offset, count), value, width, count), (to,))

    def _host_copy(self, call: Any, place: Any, offset: int, memory: HostMemory, count: int) -> None:
        """A copy of host memory of another library, which is done when it returns."""
        span = api.vram_span(place.handle, offset, count)
        if call is lib.vram_span_upload:
            call(self.handle, span, memory.address or None)
        else:
            call(self.handle, memory.address or None, span)

    def _submit(self, call: Any, arguments: tuple, places: tuple, memory: Any = None, result: Any = None) -> Transfer:
        _reap()
        word = api.vram_async()
        # The free of a block waits for this queue. Nobody can say so of an address inside one: the copy is waited for.
        inside = [place for place in places if not isinstance(place, Buffer) and _use(place, self.handle) != 0]
        call(self.handle, *arguments, None, word)
        transfer = Transfer._of(word, result, memory, self)
        if inside:
            lib.plain("vram_async_wait")(ctypes.byref(word), api.VRAM_TIMEOUT_DEFAULT)
        for place in places:
            if isinstance(place, Buffer) and place.queue is not self:
                lib.vram_buffer_use(place.handle, self.handle)
        return transfer


def _is_wrapped(place: Any) -> bool:
    """Whether it is a buffer over host memory of another library."""
    return isinstance(place, Buffer) and place.kind == "wrapped"


def _new_bytes(count: int) -> bytearray:
    if count > sys.maxsize:
        raise invalid(f"{count} bytes do not fit in host memory")
    return bytearray(count)


def _rest(place: Place, offset: int) -> int:
    """The bytes of a buffer from an offset on."""
    if not isinstance(place, Buffer):
        raise invalid("an address has no size of its own: give nbytes")
    if offset > place.nbytes:
        raise invalid(f"offset {offset} is past the end of a buffer of {place.nbytes} bytes")
    return place.nbytes - offset


def _place(place: Place, offset: Size, count: int) -> int:
    """The address of a part of a buffer, or an address and an offset."""
    begin = size(offset)
    if isinstance(place, Buffer):
        if begin + count > place.nbytes:
            raise invalid(f"{count} bytes at {begin} are past the end of a buffer of {place.nbytes} bytes")
        return place.address + begin
    return address(address(place) + begin)
