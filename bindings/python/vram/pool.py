# SPDX-License-Identifier: Apache-2.0
"""Pools, blocks and scopes."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Union

from ._lifetime import Handle, c_text
from ._library import lib
from ._values import Size, address, choose, integer, plain, size, size_text, sized
from .buffer import Buffer, make_buffer
from .errors import invalid
from .generated import api
from .live import LiveTable
from .queue import Queue, queue_handle

if TYPE_CHECKING:
    from .context import Device

CONTENTS = {"drop": api.VRAM_SLEEP_DROP, "host": api.VRAM_SLEEP_HOST, "pinned": api.VRAM_SLEEP_PINNED}
Shape = Union[int, Sequence[int]]


def _alloc_options(tag: Optional[str], alignment: Size) -> Any:
    if tag is None and alignment == 0:
        return None
    return sized(api.vram_alloc_options, tag=c_text(tag), alignment=size(alignment))


class Pool(Handle, LiveTable):
    """Hands out blocks and buffers from memory that it takes from the driver in larger amounts.

    >>> import vram
    >>> with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
    ...     with device.pool() as pool, device.queue() as queue:
    ...         block = pool.alloc("2MiB", queue)
    ...         pool.free(block, queue)
    ...         pool.stats()["live_blocks"]
    0
    """

    device: Device  # that it belongs to
    _name: Optional[str] = None
    _kind = "device"

    @classmethod
    def _of(cls, value: Optional[int], device: Any, destroy: Any) -> Pool:
        pool = cls.__new__(cls)
        pool._begin(value, "pool", destroy, device)
        pool.device = device
        return pool

    def _about(self) -> str:
        stats = self.stats()
        name = "" if self._name is None else f"{self._name!r} "
        return (f"{name}of {self._kind} memory on {self.device._label()}, "
                f"{size_text(stats['requested_bytes'])} live, {size_text(stats['reserved_bytes'])} held")

    def alloc(self, nbytes: Size, queue: Optional[Queue] = None, *, tag: Optional[str] = None,
              alignment: Size = 0) -> int:
        """Allocates a block and returns its address, ready for work submitted to `queue` from now on (None: ready
        for any). vram.OutOfMemoryError if memory runs out."""
        found = ctypes.c_uint64()
        lib.vram_alloc_with(self.handle, size(nbytes), queue_handle(queue), _alloc_options(tag, alignment), found)
        return found.value

    def free(self, block: int, queue: Optional[Queue] = None) -> None:
        """Frees a block in the order of `queue` (None: nothing uses it any more). An address that is not the start of
        a live block, as after a second free, is vram.InvalidError, and nothing happens."""
        self._node.handle
        lib.vram_free(address(block), queue_handle(queue))

    def buffer(self, nbytes: Optional[Size] = None, *, shape: Optional[Shape] = None, dtype: Any = "uint8",
               kind: str = "device", queue: Optional[Queue] = None, name: Optional[str] = None,
               tag: Optional[str] = None) -> Buffer:
        """Creates a buffer of so many bytes, or of a shape and a type of elements. `kind` is "device", "pinned",
        "managed", "mapped" or "fallback".

        >>> import vram
        >>> with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
        ...     with pool.buffer(shape=(2, 3), dtype="float32") as buffer:
        ...         buffer.nbytes
        24
        """
        return make_buffer(self, None, nbytes, shape, dtype, kind, queue, name, tag)

    def scope(self, parent: Optional[Scope] = None) -> Scope:
        """Begins a scope: what is allocated in it is freed at its end."""
        if parent is not None and not isinstance(parent, Scope):
            raise invalid(f"the parent of a scope is a vram.Scope, not {type(parent).__name__}")
        made = ctypes.c_void_p()
        lib.vram_scope_begin(self.handle, parent.handle if parent is not None else None, made)
        return Scope._of(made.value, self, parent)

    def use(self, block: int, queue: Queue) -> None:
        """Says that another queue uses a block too, until it is freed: for all work submitted there before the free."""
        self._node.handle
        lib.vram_use(address(block), queue_handle(queue))

    def stats(self) -> Dict[str, Any]:
        """Its counters: bytes and blocks that are live, cached and reserved, peaks, hits and misses."""
        stats = sized(api.vram_pool_stats)
        lib.vram_pool_stats_get(self.handle, stats)
        return plain(stats)

    def trim(self, keep: Size = 0) -> int:
        """Gives free memory back to the driver, down to `keep` bytes held; returns how many bytes it got."""
        released = ctypes.c_uint64()
        lib.vram_pool_trim(self.handle, sized(api.vram_trim_options, keep_bytes=size(keep)), released)
        return released.value

    def warm(self, nbytes: Size, count: int = 1, queue: Optional[Queue] = None) -> None:
        """Prepares memory so that `count` blocks of that size can be live without a driver call."""
        number = integer(count, "a number of blocks", 0, 2**32 - 1)
        lib.vram_pool_warm(self.handle, size(nbytes), number, queue_handle(queue))

    def sleep(self, contents: str = "host", tag: Optional[str] = None) -> None:
        """Gives the memory back to the driver and keeps every address. `contents` are kept on the "host", in
        "pinned" memory, or lost ("drop"). vram.BusyError while a view of its memory is in use."""
        lib.vram_pool_sleep(self.handle, sized(api.vram_sleep_options, tag=c_text(tag),
                                               contents=choose(contents, CONTENTS, "contents")))

    def wake(self, tag: Optional[str] = None) -> None:
        """Wakes what is asleep, at the same addresses."""
        lib.vram_pool_wake(self.handle, c_text(tag))

    def set_limits(self, hard: Size = 0, cached: Size = 0) -> None:
        """Limits what the pool holds in all, and how much of it may be idle; 0: the default."""
        lib.vram_pool_limits_set(self.handle, sized(api.vram_limits, hard_bytes=size(hard), cached_bytes=size(cached)))

    def _query(self) -> Any:
        return sized(api.vram_live_query, pool=self.handle)


class Scope(Handle):
    """Owns blocks and buffers and frees them at its end, however the `with` block is left. Pool.scope begins one.

    >>> import vram
    >>> with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
    ...     with device.pool() as pool:
    ...         with pool.scope() as scope:
    ...             first, second = scope.alloc("1MiB"), scope.alloc("1MiB")
    ...             kept = scope.take(second)
    ...         pool.stats()["live_blocks"]
    1
    """

    pool: Pool

    @classmethod
    def _of(cls, value: Optional[int], pool: Pool, parent: Optional[Scope]) -> Scope:
        scope = cls.__new__(cls)
        scope._begin(value, "scope", lib.vram_scope_end, parent if parent is not None else pool)
        scope.pool = pool
        return scope

    def _about(self) -> str:
        return f"on {self.pool.device._label()}, {size_text(self.info()['bytes'])} in blocks"

    def alloc(self, nbytes: Size, queue: Optional[Queue] = None, *, tag: Optional[str] = None,
              alignment: Size = 0) -> int:
        """Pool.alloc; the scope owns the block."""
        found = ctypes.c_uint64()
        lib.vram_scope_alloc_with(self.handle, size(nbytes), queue_handle(queue), _alloc_options(tag, alignment),
                                  found)
        return found.value

    def buffer(self, nbytes: Optional[Size] = None, *, shape: Optional[Shape] = None, dtype: Any = "uint8",
               kind: str = "device", queue: Optional[Queue] = None, name: Optional[str] = None,
               tag: Optional[str] = None) -> Buffer:
        """Pool.buffer; the scope owns the buffer, which ends with it."""
        return make_buffer(self.pool, self, nbytes, shape, dtype, kind, queue, name, tag)

    def free(self, block: int, queue: Optional[Queue] = None) -> None:
        """Frees a block of the scope early."""
        lib.vram_scope_free(self.handle, address(block), queue_handle(queue))

    def take(self, block: int) -> int:
        """Moves a block out of the scope; the caller frees it with Pool.free."""
        lib.vram_scope_take(self.handle, address(block))
        return block

    def info(self) -> Dict[str, Any]:
        """How many blocks, bytes, buffers and scopes it owns."""
        info = sized(api.vram_scope_info)
        lib.vram_scope_info_get(self.handle, info)
        return plain(info)
