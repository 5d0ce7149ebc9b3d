# SPDX-License-Identifier: Apache-2.0
"""Contexts and devices."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Union

from ._lifetime import Handle, c_path, c_text
from ._library import lib
from ._values import CAPABILITIES, DEVICE_KINDS, MEMORY, Size, address, choose, integer, plain, size, sized
from .errors import NoDeviceError, invalid
from .generated import api
from .live import LiveTable
from .pool import Pool
from .queue import Queue, end_or_keep


def _info(info: Any) -> Dict[str, Any]:
    """What is known of a device, as data."""
    found = plain(info)
    known = {name for name, bit in CAPABILITIES.items() if info.caps_known & bit}
    found["capabilities"] = sorted(name for name in known if info.caps & CAPABILITIES[name])
    found["kind"] = DEVICE_KINDS.get(info.kind, "unknown")
    found["uuid"] = bytes(info.uuid).hex() if info.uuid_known else None
    found["pci"] = found["pci"] if info.pci_known else None
    for name in ("caps", "caps_known", "uuid_known", "pci_known"):
        del found[name]
    return found


class Context(Handle, LiveTable):
    """The root of all objects: the backends and devices of this machine.

    `backends` names those to start ("cuda,host"; None: all), `sim` describes simulated devices ("memory=8G").

    >>> with Context(backends="sim", sim="memory=1G") as context:
    ...     [device["backend"] for device in context.devices()]
    ['sim']
    """

    def __init__(self, backends: Optional[str] = None, sim: Optional[str] = None) -> None:
        if "_node" in self.__dict__:
            raise TypeError("the Context was made already")
        options = sized(api.vram_context_options, backends=c_text(backends), sim=c_text(sim))
        made = ctypes.c_void_p()
        lib.vram_context_create(options, made)
        self._begin(made.value, "context", end_or_keep(lib.vram_context_destroy), None)

    def backends(self) -> List[Dict[str, Any]]:
        """Every backend of this build: whether it is present, and if not, why.

        >>> with Context(backends="host") as context:
        ...     {row["name"]: row["present"] for row in context.backends()}["host"]
        True
        """
        found = []
        for index in range(lib.vram_backend_count(self.handle)):
            info = sized(api.vram_backend_info)
            lib.vram_backend_info_get(self.handle, index, info)
            found.append(plain(info))
        return found

    def devices(self) -> List[Dict[str, Any]]:
        """What is known of every device, without opening it; the best first."""
        found = []
        for index in range(lib.vram_device_count(self.handle)):
            info = sized(api.vram_device_info)
            lib.vram_device_info_get(self.handle, index, info)
            found.append(_info(info))
        return found

    def device(self, which: Union[int, str, None] = None) -> Device:
        """Opens a device: by its index, by its name ("cuda:1", "host"), or the best one.

        >>> with Context(backends="sim,host", sim="memory=1G") as context:
        ...     with context.device("host") as device:
        ...         device.info()["backend"]
        'host'
        """
        index = ctypes.c_uint32()
        if which is None:
            lib.vram_device_best(self.handle, index)
        elif isinstance(which, str):
            index.value = self._find(which)
        else:
            number = size(which)
            if number >= 1 << 32:
                raise no_device(f"there is no device {number}")
            index.value = number
        made = ctypes.c_void_p()
        lib.vram_device_open(self.handle, index, made)
        return Device._of(made.value, self, end_or_keep(lib.vram_device_close))

    def _find(self, which: str) -> int:
        backend, _, number = which.partition(":")
        if number and not number.isdecimal():
            raise invalid(f"a device is a backend and a number, as \"cuda:0\", not {which!r}")
        for index, info in enumerate(self.devices()):
            if info["backend"] == backend and info["backend_index"] == int(number or 0):
                return index
        reason = next((row["reason"] for row in self.backends() if row["name"] == backend and not row["present"]), "")
        raise no_device(f"there is no device {which}" + (f": {reason}" if reason else ""))

    def _about(self) -> str:
        return ", ".join(row["name"] for row in self.backends() if row["present"])

    def stats(self) -> Dict[str, Any]:
        """The counters of all pools of all devices."""
        stats = sized(api.vram_pool_stats)
        lib.vram_context_stats_get(self.handle, stats)
        return plain(stats)

    def trim(self, keep: Size = 0) -> int:
        """Gives free memory of all pools back to the driver; returns how many bytes."""
        released = ctypes.c_uint64()
        lib.vram_context_trim(self.handle, sized(api.vram_trim_options, keep_bytes=size(keep)), released)
        return released.value

    def trace(self, path: Union[str, "os.PathLike[str]"]) -> Trace:
        """Writes every allocation and free of pools that are made from now on to a file, until the trace is closed."""
        made = ctypes.c_void_p()
        lib.vram_trace_begin(self.handle, sized(api.vram_trace_options, path=c_path(path)), made)
        trace = Trace.__new__(Trace)
        trace._begin(made.value, "trace", lib.vram_trace_end, self)
        trace._path = os.fspath(path)
        return trace

    def _query(self) -> Any:
        return sized(api.vram_live_query, context=self.handle)


class Trace(Handle):
    """A trace that is being written; Context.trace begins one."""

    _path: Union[str, bytes]

    def _about(self) -> str:
        return f"written to {self._path!r}"

    def mark(self, text: str) -> None:
        """Writes a text of the program's into the trace."""
        lib.vram_trace_mark(self.handle, c_text(text))


class Device(Handle, LiveTable):
    """An opened device: its queues, its pools and its memory. Context.device opens one.

    >>> with Context(backends="sim", sim="memory=1G") as context, context.device() as device:
    ...     device.memory()["total_bytes"]
    1073741824
    """

    @classmethod
    def _of(cls, value: Optional[int], parent: Optional[Context], destroy: Any) -> Device:
        device = cls.__new__(cls)
        device._begin(value, "device", destroy, parent)
        return device

    def info(self) -> Dict[str, Any]:
        """What is known of the device: backend, name, capabilities, memory, granules."""
        info = sized(api.vram_device_info)
        lib.vram_device_describe(self.handle, info)
        return _info(info)

    def _label(self) -> str:
        info = self.info()
        return f"{info['backend']}:{info['backend_index']}"

    def _about(self) -> str:
        return f"{self._label()} {self.info()['name']}"

    def memory(self) -> Dict[str, Any]:
        """Its memory at this moment, as the driver reports it; what is not known is None."""
        info = sized(api.vram_memory_info)
        lib.vram_memory_info_get(self.handle, info)
        return plain(info)

    def queue(self, priority: int = 0) -> Queue:
        """Creates a queue, which runs work in order."""
        made = ctypes.c_void_p()
        number = integer(priority, "a priority", -2**31, 2**31 - 1)
        lib.vram_queue_create(self.handle, sized(api.vram_queue_options, priority=number), made)
        return Queue._of(made.value, self, lib.vram_queue_destroy)

    def _copy_queue(self) -> Queue:
        """For copies of buffers without a queue. Other libraries hand over memory (DLPack) in the order of the default
        stream; the other backends have none."""
        found: Optional[Queue] = getattr(self, "_copies", None)
        if found is None or found._node.closed:
            if self.info()["backend"] in ("cuda", "hip"):
                from .shared import shared_queue
                found = shared_queue(self, 0)
            else:
                found = self.queue()
            self._copies = found
        return found

    def adopt(self, native: int) -> Queue:
        """A queue over a stream that the program made: the number of a CUstream, 0 for CUDA's default stream."""
        made = ctypes.c_void_p()
        lib.vram_queue_adopt(self.handle, address(native) or None, made)
        return Queue._of(made.value, self, lib.vram_queue_end)

    def pool(self, kind: str = "device", *, limit: Size = 0, tracked: bool = False, segments: bool = False,
             deterministic: bool = False, name: Optional[str] = None) -> Pool:
        """Creates a pool of the device's memory, or of page-locked ("pinned") or managed memory.

        `limit` is the most that it may hold, `tracked` keeps a record of every block for the live table.
        """
        limits = sized(api.vram_limits, hard_bytes=size(limit))
        flags = ((api.VRAM_POOL_TRACKED if tracked else 0) | (api.VRAM_POOL_SEGMENTS if segments else 0) |
                 (api.VRAM_POOL_DETERMINISTIC if deterministic else 0))
        options = sized(api.vram_pool_options, kind=choose(kind, MEMORY, "kind"), flags=flags, name=c_text(name),
                        limits=ctypes.addressof(limits))
        made = ctypes.c_void_p()
        lib.vram_pool_create(self.handle, options, made)
        pool = Pool._of(made.value, self, end_or_keep(lib.vram_pool_destroy))
        pool._name, pool._kind = name, kind
        return pool

    def stats(self) -> Dict[str, Any]:
        """The counters of all its pools."""
        stats = sized(api.vram_pool_stats)
        lib.vram_device_stats_get(self.handle, stats)
        return plain(stats)

    def tags(self) -> List[Dict[str, Any]]:
        """Every tag that was used on the device, the one with the most memory first."""
        found = []
        for rank in range(lib.vram_tag_count(self.handle)):
            info = sized(api.vram_tag_info)
            lib.vram_tag_info_at(self.handle, rank, info)
            found.append(plain(info))
        return found

    def set_quota(self, tag: str, hard: Size = 0, soft: Size = 0) -> None:
        """Limits the bytes of all blocks with a tag and the tags below it; 0: no limit."""
        lib.vram_tag_quota_set(self.handle, c_text(tag), size(soft), size(hard))

    def set_limits(self, hard: Size = 0, fraction: float = 0.0, min_free: Size = 0) -> None:
        """Limits what all pools of the device hold together; 0: the default."""
        lib.vram_device_limits_set(self.handle, sized(api.vram_limits, hard_bytes=size(hard), fraction=fraction,
                                                      min_free_bytes=size(min_free)))

    def trim(self, keep: Size = 0) -> int:
        """Gives free memory of its pools back to the driver; returns how many bytes."""
        released = ctypes.c_uint64()
        lib.vram_device_trim(self.handle, sized(api.vram_trim_options, keep_bytes=size(keep)), released)
        return released.value

    def on_out_of_memory(self, call: Callable[[Dict[str, Any]], Optional[int]]) -> Callable[[], None]:
        """Has `call` called when memory is short, before a request fails. It frees what the program can do without,
        and returns how many bytes that was. An exception in it counts as 0 and is reported by sys.unraisablehook.
        The result of this method removes it again.
        """
        if not callable(call):
            raise invalid(f"on_out_of_memory takes a function, not {call!r}")

        @api.vram_oom_fn
        def called(user: Any, event: Any) -> int:
            if sys.is_finalizing():
                return 0
            freed = call(plain(event.contents))
            return 0 if freed is None else min(size(freed), 2**64 - 1)

        number = ctypes.c_uint64()
        lib.vram_oom_callback_add(self.handle, called, None, number)
        _kept.append(called)  # for ever: a thread of the program may still be inside it
        device = self._node

        def remove() -> None:
            if not device.closed:
                lib.plain("vram_oom_callback_remove")(device._value, number)
        return remove

    def _query(self) -> Any:
        return sized(api.vram_live_query, device=self.handle)


_kept: List[Any] = []  # callbacks that C may call


def no_device(text: str) -> NoDeviceError:
    """The exception for a device that there is not."""
    error = NoDeviceError(text)
    error.status = api.VRAM_ERR_NO_DEVICE
    return error
