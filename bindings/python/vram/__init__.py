# SPDX-License-Identifier: Apache-2.0
"""vram: one GPU memory manager for every GPU, from Python.

>>> import vram
>>> with vram.Context(backends="host") as context, context.device() as device:
...     with device.queue() as queue, device.pool() as pool:
...         with pool.buffer("1KiB", queue=queue) as buffer:
...             buffer.write(b"hello")
...             buffer.read()[:5]
b'hello'

The adapters are modules of their own: vram.torch, vram.cupy, vram.numba, vram.onnxruntime. docs/python.md has more.
"""
from ._values import size, size_text
from .buffer import Buffer, Mapping
from .command import CommandError, estimate, read_trace, replay, report
from .context import Context, Device, Trace
from .dlpack import from_dlpack
from .dtypes import DType
from .errors import (BackendError, BusyError, CaptureError, CorruptError, DeviceLostError, DeviceMemoryError, Error,
                     ForkedError, FragmentedError, HostMemoryError, InvalidError, LimitError, NoDeviceError,
                     NoDriverError, NotReadyError, OutOfMemoryError, ShutdownError, SizeOverflowError, StaleError,
                     SystemCallError, TimeoutError, UnsupportedError)
from .options import log, options, set_option, version
from .pool import Pool, Scope
from .queue import Queue, Transfer
from .shared import shared_device, shared_pool, shared_queue

__version__ = version()
__all__ = [
    "BackendError", "Buffer", "BusyError", "CaptureError", "CommandError", "Context", "CorruptError", "DType", "Device",
    "DeviceLostError", "DeviceMemoryError", "Error", "ForkedError", "FragmentedError", "HostMemoryError",
    "InvalidError", "LimitError", "Mapping", "NoDeviceError", "NoDriverError", "NotReadyError", "OutOfMemoryError",
    "Pool", "Queue", "Scope", "ShutdownError", "SizeOverflowError", "StaleError", "SystemCallError", "TimeoutError",
    "Trace", "Transfer", "UnsupportedError", "estimate", "from_dlpack", "log", "options", "read_trace", "replay",
    "report", "set_option", "shared_device", "shared_pool", "shared_queue", "size", "size_text", "version",
]
