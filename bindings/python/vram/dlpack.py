# SPDX-License-Identifier: Apache-2.0
"""DLPack both ways: tensors of other libraries as buffers, and buffers as tensors, without a copy.

 (1) A tensor that was handed out keeps its buffer, by an export (vram._lifetime), until its consumer deletes it. Then
     the consumer's stream counts as a user of the memory, or has finished.
 (2) A consumer may delete a tensor while the interpreter ends, or after it. The functions that it calls are therefore
     never freed, and at the interpreter's exit every tensor that is still out gets a deleter that does nothing: one in
     C. Consumers read the deleter when they call it; some (XLA) do not look again whether there is one.
"""
from __future__ import annotations

import atexit
import ctypes
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._library import lib
from .dtypes import dtype_by_code
from .errors import invalid
from .generated import api

if TYPE_CHECKING:
    from .buffer import Buffer
    from .pool import Pool

CPU, CUDA, CUDA_HOST, ROCM, CUDA_MANAGED = 1, 2, 3, 10, 13  # DLDeviceType
_GPU = {"cuda": CUDA, "hip": ROCM}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_python = ctypes.pythonapi
_capsule_new = _python.PyCapsule_New
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_new.restype = ctypes.py_object
# By address: a capsule that is being destroyed must not be counted as an object.
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
_NAME, _USED = ctypes.c_char_p(b"dltensor"), ctypes.c_char_p(b"used_dltensor")
_VERSIONED = ctypes.c_char_p(b"dltensor_versioned")

# ------------------------------------------------------------------ tensors out

_out: Dict[int, Tuple[Any, Any, Any]] = {}  # by address: the struct, its arrays, what ends its export


@_DELETER
def _delete(pointer: int) -> None:
    found = _out.pop(pointer, None)
    if found is not None:
        found[2]()


@_DESTRUCTOR
def _destroy_capsule(capsule: int) -> None:
    for name in (_NAME, _VERSIONED):
        if _capsule_is(capsule, name):  # nobody took the tensor
            _delete(_capsule_pointer(capsule, name))


for _function in (_delete, _destroy_capsule):  # (2)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_function))


@atexit.register
def _forget_deleters() -> None:
    nothing = lib.address("vram_error_clear")  # resets a record of the thread's, whatever it is called with
    for managed, _, _ in list(_out.values()):
        managed.deleter = nothing
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_out))  # the structs stay where consumers have them


def device_of(buffer: Buffer) -> Tuple[int, int]:
    """DLPack's name for where a buffer lies."""
    info = buffer.pool.device.info()
    location = buffer.location
    gpu = _GPU.get(info["backend"])
    if location == "device" and gpu is not None:
        return gpu, info["backend_index"]
    if location == "managed" and gpu == CUDA:
        return CUDA_MANAGED, info["backend_index"]
    if location == "pinned" and gpu == CUDA:
        return CUDA_HOST, 0
    if location != "device" or "host_access" in info["capabilities"]:
        return CPU, 0
    raise BufferError(f"memory of {info['backend']} has no DLPack device")


def export(buffer: Buffer, stream: Any, max_version: Any, dl_device: Any, copy: Optional[bool]) -> Any:
    """Buffer.__dlpack__: the capsule."""
    kind, index = device_of(buffer)
    if copy:
        raise BufferError("a buffer is exported without a copy")
    here = ((kind, index), (CPU, 0)) if kind == CUDA_HOST else ((kind, index),)
    if dl_device is not None and tuple(dl_device) not in here:
        raise BufferError(f"the buffer lies on device {(kind, index)}, not on {tuple(dl_device)}")
    if buffer.queue is not None and stream != -1:
        buffer.queue.wait()  # the consumer's work comes after what was submitted so far
    on_device = kind in (CUDA, ROCM, CUDA_MANAGED)
    if on_device:
        address, end = _of_device(buffer, stream)
    else:
        memory = buffer._host_memory()
        address, end = ctypes.addressof(memory), _holder(memory)
    ndim = len(buffer.shape)
    shape = (ctypes.c_int64 * max(ndim, 1))(*buffer.shape)
    steps = [1] * ndim
    for at in range(ndim - 2, -1, -1):
        steps[at] = steps[at + 1] * buffer.shape[at + 1]
    strides = (ctypes.c_int64 * max(ndim, 1))(*steps)
    tensor = _Tensor(address, CPU if tuple(dl_device or ()) == (CPU, 0) else kind, index, ndim, buffer.dtype.dlpack,
                     buffer.dtype.itemsize * 8, 1, shape, strides, 0)
    deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    managed: Any = _Versioned(1, 0, None, deleter, 0, tensor) if versioned else _Managed(tensor, None, deleter)
    pointer = ctypes.addressof(managed)
    _out[pointer] = (managed, (shape, strides), end)
    try:
        return _capsule_new(pointer, _VERSIONED if versioned else _NAME,
                            ctypes.cast(_destroy_capsule, ctypes.c_void_p))
    except BaseException:
        _delete(pointer)
        raise


def _holder(memory: Any) -> Any:
    """Ends the export of host memory, by letting go of it."""
    kept = [memory]
    return kept.clear


def _of_device(buffer: Buffer, stream: Any) -> Tuple[int, Any]:
    """Begins an export of device memory: its address, and what ends it. At its end the consumer's stream is a user of the memory: keeps (1). The
    consumer may destroy a stream afterwards, and then nobody may ask it any more: its work is waited for. The default
    stream stays, and nothing waits; it comes after the per-thread default streams (2), of which the thread that
    releases the tensor may have another. Where the stream cannot be asked any more, the memory is never used again."""
    if buffer.kind == "fallback":
        raise BufferError("a fallback buffer may move between host and device")
    value, device = buffer._node._value, buffer.pool.device._node._value
    native = None if stream in (None, -1, 0, 1, 2) else int(stream)
    begin = lib.plain("vram_queue_shared" if native is None else "vram_queue_adopt")
    unpin = buffer._pin()

    def ended() -> None:
        queue = ctypes.c_void_p()
        status = begin(device, native, queue)
        if status == 0 and (native is None or lib.plain("vram_queue_end")(queue) != 0):
            status = lib.plain("vram_buffer_use")(value, queue)
        if status == 0:
            unpin()
    end = buffer._node.export(ended)
    return buffer.address, end


# ------------------------------------------------------------------- tensors in

def from_dlpack(tensor: Any, pool: Pool) -> Buffer:
    """A buffer over the memory of another library's tensor, which must lie in one piece on the pool's device, or in
    host memory. The tensor lives until the buffer is closed.

    >>> import vram
    >>> with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
    ...     with pool.buffer(shape=(2, 2), dtype="int32", kind="pinned") as mine:
    ...         again = vram.from_dlpack(mine, pool)
    ...         again.shape, again.dtype.name
    ((2, 2), 'int32')
    """
    from .buffer import Buffer
    from .pool import Pool
    if not isinstance(pool, Pool):
        raise invalid(f"a tensor becomes a buffer of a vram.Pool, not of {type(pool).__name__}")
    owner = _Taken(tensor)
    view = owner.managed.tensor
    shape = tuple(view.shape[at] for at in range(view.ndim))
    dtype = dtype_by_code(view.code, view.bits)
    if view.lanes != 1 or any(length < 0 for length in shape):
        raise invalid("a tensor of vectors, or of an impossible shape, has no buffer")
    _check_dense(view, shape)
    nbytes = dtype.itemsize
    for length in shape:
        nbytes *= length
    if nbytes == 0 or nbytes >= 1 << 63:
        raise invalid(f"a tensor of {nbytes} bytes has no buffer")
    pointer = (view.data or 0) + view.byte_offset
    wrap = api.vram_wrap(size=ctypes.sizeof(api.vram_wrap), bytes=nbytes)
    if view.device_type in (CPU, CUDA_HOST):
        wrap.kind, wrap.pointer = api.VRAM_WRAP_HOST, pointer
    else:
        info = pool.device.info()
        if _GPU.get(info["backend"]) != (CUDA if view.device_type == CUDA_MANAGED else view.device_type) or \
                info["backend_index"] != view.device_id:
            raise invalid(f"the tensor lies on DLPack's device ({view.device_type}, {view.device_id}), the pool on "
                          f"{info['backend']} {info['backend_index']}")
        wrap.kind, wrap.address = api.VRAM_WRAP_ADDRESS, pointer
    made = ctypes.c_void_p()
    lib.vram_buffer_wrap(pool.handle, wrap, None, None, made)
    kind = "wrapped" if wrap.kind == api.VRAM_WRAP_HOST else "device"
    return Buffer._of(made.value, pool, None, None, kind, shape, dtype, owner)


def _check_dense(view: Any, shape: Tuple[int, ...]) -> None:
    if not view.strides:
        return
    expected = 1
    for at in range(len(shape) - 1, -1, -1):
        if shape[at] != 1 and view.strides[at] != expected:
            raise invalid("the tensor does not lie in one piece, row by row: make it contiguous first")
        expected *= shape[at]


def _capsule_of(export: Any, on_device: bool) -> Any:
    """The capsule of a tensor that is ready for work on the default stream, which 1 and the lack of a stream name."""
    if on_device:
        try:
            return export(stream=1)
        except (TypeError, ValueError, RuntimeError):
            pass
    return export()


class _Taken:
    """A tensor of another library, deleted when this is."""

    def __init__(self, tensor: Any) -> None:
        self.managed: Any = None
        try:
            device, export = tensor.__dlpack_device__(), tensor.__dlpack__
        except AttributeError:
            raise invalid(f"{type(tensor).__name__} has no __dlpack__") from None
        capsule = _capsule_of(export, int(device[0]) in (CUDA, ROCM, CUDA_MANAGED))
        if not _capsule_is(id(capsule), _NAME):
            raise invalid("__dlpack__ did not return a capsule \"dltensor\"")
        self.pointer = _capsule_pointer(id(capsule), _NAME)
        self.managed = _Managed.from_address(self.pointer)
        _capsule_rename(capsule, _USED)

    def __del__(self) -> None:
        if self.managed is not None and self.managed.deleter:
            _DELETER(self.managed.deleter)(self.pointer)
            self.managed = None
