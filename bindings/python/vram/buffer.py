# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory with a shape and a type of elements, for numpy, DLPack and CUDA libraries."""
from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple, Union

from . import dlpack
from ._lifetime import Handle, c_text, host_view
from ._library import error_of, lib
from ._values import KINDS, MEMORY, Size, choose, plain, size, sized
from .dtypes import DType, dtype_of
from .errors import BusyError, invalid
from .generated import api

if TYPE_CHECKING:
    from .pool import Pool
    from .queue import Queue

_unfinished: list = []  # owners of memory that work may use for ever
_LOCATIONS = {number: name for name, number in MEMORY.items()}
_MAP_FLAGS = {"r": api.VRAM_MAP_READ, "w": api.VRAM_MAP_WRITE, "rw": api.VRAM_MAP_READ | api.VRAM_MAP_WRITE}


def _extent(shape: Union[int, Sequence[int]]) -> Tuple[int, ...]:
    try:
        return tuple(size(length) for length in shape)  # type: ignore[union-attr]
    except TypeError:
        return (size(shape),)  # type: ignore[arg-type]


def make_buffer(pool: Pool, scope: Any, nbytes: Optional[Size], shape: Any, dtype: Any, kind: str,
                queue: Optional[Queue], name: Optional[str], tag: Optional[str]) -> Buffer:
    """Pool.buffer and Scope.buffer."""
    from .queue import queue_handle
    element = dtype_of(dtype)
    if (nbytes is None) == (shape is None):
        raise invalid("a buffer has a size in bytes or a shape, one of the two")
    if shape is not None:
        extent = _extent(shape)
        total = size(math.prod(extent) * element.itemsize)
    else:
        total = size(nbytes)  # type: ignore[arg-type]
        if total % element.itemsize:
            raise invalid(f"{total} bytes are not a whole number of elements of {element.name}")
        extent = (total // element.itemsize,)
    options = sized(api.vram_buffer_options, kind=choose(kind, KINDS, "kind"), name=c_text(name), tag=c_text(tag))
    made = ctypes.c_void_p()
    begin = lib.vram_buffer_create if scope is None else lib.vram_scope_buffer_create
    begin((pool if scope is None else scope).handle, total, queue_handle(queue), options, made)
    return Buffer._of(made.value, pool, scope, queue, kind, extent, element)


class Buffer(Handle):
    """Memory on a device or on the host, from a pool. Pool.buffer creates one.

    Host, pinned and managed memory is a numpy array at once: numpy.asarray(buffer), or a memoryview: buffer.view(), and
    from Python 3.12 on memoryview(buffer).
    CuPy, Numba, PyTorch and JAX take device memory by DLPack or by __cuda_array_interface__, without a copy.

    >>> import vram
    >>> with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
    ...     with pool.buffer(3, kind="pinned") as buffer:
    ...         view = buffer.view()
    ...         view[:] = b"abc"
    ...         bytes(view[1:])
    b'bc'
    """

    pool: Pool
    queue: Optional[Queue]  # its home queue

    @classmethod
    def _of(cls, value: Optional[int], pool: Any, scope: Any, queue: Any, kind: str, shape: Tuple[int, ...],
            dtype: DType, owner: Any = None) -> Buffer:
        buffer = cls.__new__(cls)
        destroy = lib.vram_buffer_destroy if owner is None else _destroy_with(owner, kind == "device")
        buffer._begin(value, "buffer", destroy, scope if scope is not None else pool)
        buffer.pool, buffer.queue, buffer._kind, buffer._shape, buffer._dtype = pool, queue, kind, shape, dtype
        return buffer

    # What views are made from is not assigned: they would reach past the memory.
    _kind: str
    _shape: Tuple[int, ...]
    _dtype: DType

    # ------------------------------------------------------------- what it is

    @property
    def shape(self) -> Tuple[int, ...]:
        """Its extents, in elements. `resize` changes them; another shape of the same memory is for
        numpy.asarray(buffer).reshape(...)."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self._dtype

    @property
    def kind(self) -> str:
        """As it was asked for: "device", "pinned", "managed", "mapped" or "fallback"; "wrapped": host memory of
        another library's."""
        return self._kind

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Its address now, for copies, fills and kernels. It stays unless the buffer is resized or moves."""
        found = ctypes.c_uint64()
        lib.vram_buffer_addr(self.handle, found)
        return found.value

    def info(self) -> Dict[str, Any]:
        """All that the library knows of it: id, location, address, capacity, use."""
        info = sized(api.vram_buffer_info)
        lib.vram_buffer_info_get(self.handle, info)
        found = plain(info)
        found["kind"], found["location"] = self.kind, self.location
        return found

    @property
    def location(self) -> str:
        """Where the contents are now: "device", "pinned", "managed" or "host"."""
        info = sized(api.vram_buffer_info)
        lib.vram_buffer_info_get(self.handle, info)
        return _LOCATIONS.get(info.location, "unknown")

    def _about(self) -> str:
        info = self.info()
        return (f"{info['name']!r} " if info["name"] else "") + (
            f"{self.shape} {self.dtype.name}, {self.nbytes} bytes of {info['location']} memory on "
            f"{self.pool.device._label()}") + (f", tag {info['tag']!r}" if info["tag"] else "")

    # ---------------------------------------------------------- host's memory

    def _pin(self) -> Callable[[], Any]:
        """Keeps the memory in place and awake until the result is called, which is a part of an export. What is not a
        block of a pool does neither move nor sleep, and has no pin."""
        where = self.address
        status = lib.plain("vram_pin")(where)
        if status not in (0, api.VRAM_ERR_INVALID):
            raise error_of(status)

        def end() -> None:
            if status == 0:
                lib.plain("vram_unpin")(where)
        try:
            info = sized(api.vram_buffer_info)
            lib.vram_buffer_info_get(self.handle, info)
            if (info.addr, info.used_bytes) != (where, self.nbytes):
                raise _busy("another thread resizes the buffer")
        except BaseException:
            end()
            raise
        return end

    def _host_memory(self) -> Any:
        """An object with the buffer protocol over all of it, pinned in place while it is used."""
        if self.kind == "fallback":
            raise _unsupported("a fallback buffer may move between host and device: map it")
        pointer = ctypes.c_void_p()
        end = self._node.export(self._pin())
        try:
            lib.vram_buffer_host(self.handle, pointer)
            return host_view(end, pointer.value or 0, self.nbytes)
        except BaseException:
            end()
            raise

    def view(self) -> memoryview:
        """A view of host, pinned or managed memory, as bytes. The memory lives as long as the view, whatever is
        closed meanwhile. The program waits for work that writes the memory first. vram.UnsupportedError for memory
        that the host does not reach: `map` it, or copy it."""
        return memoryview(self._host_memory()).cast("B")

    def __buffer__(self, flags: int) -> memoryview:  # memoryview(buffer), from Python 3.12 on
        plain_bytes = memoryview(self._host_memory()).cast("B")
        if 0 in self.shape or not self.shape or self.dtype.format is None:
            return plain_bytes  # what memoryview cannot give a shape
        return plain_bytes.cast(self.dtype.format, self.shape)  # type: ignore[call-overload]

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        try:
            memory = self._host_memory()
        except Exception as error:
            raise AttributeError(str(error)) from error
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.typestr, "data": memory, "strides": None}

    def map(self, mode: str = "rw") -> Mapping:
        """Gives the host access to any buffer, through a copy where it does not reach the memory itself. `mode` is
        "r", "w" or "rw"; the copy of a buffer that was written goes back at the end.

        >>> import vram
        >>> with vram.Context(backends="sim", sim="memory=1G") as context, context.device() as device:
        ...     with device.queue() as queue, device.pool() as pool, pool.buffer(4, queue=queue) as buffer:
        ...         with buffer.map("w") as view:
        ...             view[:] = b"data"
        ...         del view
        ...         buffer.read()
        b'data'
        """
        return Mapping(self, mode)

    # -------------------------------------------------------------- contents

    def write(self, data: Any, offset: Size = 0) -> None:
        """Copies host memory into the buffer and waits for it: on its queue, or, without one, on the default stream
        (CUDA, HIP) or a queue of the device's. The program waits for work of other queues first."""
        self._queue().upload(self, data, offset).wait()

    def read(self) -> bytes:
        """Copies all of the buffer to the host and waits for it, on the same queue as `write`."""
        return bytes(self._queue().download(self).wait())

    def _queue(self) -> Queue:
        return self.queue if self.queue is not None else self.pool.device._copy_queue()

    def use(self, queue: Queue) -> None:
        """Says that another queue uses the buffer too, until it is closed: for all work submitted there before."""
        from .queue import queue_handle
        lib.vram_buffer_use(self._node.handle, queue_handle(queue))

    def resize(self, nbytes: Size) -> None:
        """Grows or shrinks the buffer, which becomes one-dimensional; the contents stay. vram.BusyError while a view
        of it is in use."""
        if self._node.exports:
            raise _busy("a view of the buffer is in use")
        total = size(nbytes)
        if total % self.dtype.itemsize:
            raise invalid(f"{total} bytes are not a whole number of elements of {self.dtype.name}")
        lib.vram_buffer_resize(self.handle, total, None)
        self._shape = (total // self.dtype.itemsize,)

    # --------------------------------------------------------- other libraries

    def __dlpack_device__(self) -> Tuple[int, int]:
        return dlpack.device_of(self)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        return dlpack.export(self, stream, max_version, dl_device, copy)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self.pool.device.info()["backend"] != "cuda" or self.location not in ("device", "managed"):
            raise AttributeError("only memory of a CUDA device has a __cuda_array_interface__")
        native = self.queue.native if self.queue is not None else None
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.typestr, "data": (self.address, False),
                "strides": None, "stream": native or (1 if self.queue is not None else None)}


class Mapping:
    """The host's access to a buffer, until `unmap` or the end of `with`, which gives its view. numpy.asarray(mapping)
    has the shape and the type of the buffer."""

    def __init__(self, buffer: Buffer, mode: str = "rw") -> None:
        """Buffer.map."""
        pointer, nbytes = ctypes.c_void_p(), buffer.nbytes
        lib.vram_buffer_map(buffer.handle, 0, nbytes, choose(mode, _MAP_FLAGS, "mode"), None, pointer)
        try:
            memory = host_view(buffer._node.export(buffer._pin()), pointer.value or 0, nbytes)
        except BaseException:
            lib.plain("vram_buffer_unmap")(buffer._node._value)
            raise
        self._node, self._memory = buffer._node, memory
        self._view: Optional[memoryview] = memoryview(memory).cast("B")
        self._shape, self._dtype = buffer.shape, buffer.dtype

    @property
    def view(self) -> memoryview:
        """The memory, as bytes."""
        if self._view is None:
            raise invalid("the buffer is not mapped any more")
        return self._view

    def unmap(self) -> None:
        """Ends the access. BufferError while something else than this object uses the view, as a numpy array does:
        it would point to memory that is gone."""
        if self._view is None:
            return
        import weakref
        alive = weakref.ref(self._memory)
        view, self._view, self._memory = self._view, None, None
        try:
            view.release()
        except BufferError:
            pass  # a view of the view: found below
        del view
        memory = alive()
        if memory is not None:
            self._memory, self._view = memory, memoryview(memory).cast("B")
            raise BufferError("the mapped memory is in use by a numpy array or a slice of it: delete that first")
        if not self._node.closed:
            lib.vram_buffer_unmap(self._node.handle)

    def __repr__(self) -> str:
        return f"<vram.Mapping {'ended' if self._view is None else f'of {self._shape} {self._dtype.name}'}>"

    @property
    def __array_interface__(self) -> Dict[str, Any]:  # numpy.asarray(mapping): the buffer's shape and type
        data = self._memory if self._view is not None else self.view  # what unmap looks for; or why there is none
        return {"version": 3, "shape": self._shape, "typestr": self._dtype.typestr, "data": data, "strides": None}

    def __enter__(self) -> memoryview:
        return self.view

    def __exit__(self, *details: Any) -> None:
        self.unmap()


def _destroy_with(owner: Any, on_device: bool) -> Any:
    """Destroys a buffer over memory of another library, then lets go of it: after the work that uses it, which the
    other library does not know. Memory whose work does not end is kept. Copies of host memory are done when they return.
    """
    kept = [owner]

    def destroy(value: int) -> None:
        pointer = ctypes.c_void_p()
        if on_device:  # a mapping first waits for all queues that use the buffer
            status = lib.plain("vram_buffer_map")(value, 0, 0, api.VRAM_MAP_READ, None, pointer)
            if status == 0:
                lib.plain("vram_buffer_unmap")(value)
            elif status in (api.VRAM_ERR_TIMEOUT, api.VRAM_ERR_CAPTURE):
                _unfinished.extend(kept)
        try:
            lib.vram_buffer_destroy(value)
        finally:
            kept.clear()
    return destroy


def _busy(text: str) -> BusyError:
    error = BusyError(text)
    error.status = api.VRAM_ERR_BUSY
    return error


def _unsupported(text: str) -> Exception:
    from .errors import UnsupportedError
    error = UnsupportedError(text)
    error.status = api.VRAM_ERR_UNSUPPORTED
    return error
