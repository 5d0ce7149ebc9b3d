# SPDX-License-Identifier: Apache-2.0
"""The objects that belong to the process: one device, pool and queue for PyTorch, CuPy, Numba and C code together."""
from __future__ import annotations

import ctypes

from ._lifetime import c_text
from ._library import lib
from ._values import address, integer
from .context import Device, no_device
from .pool import Pool
from .queue import Queue


def shared_device(backend: str = "cuda", index: int = 0) -> Device:
    """The process's own handle on a device. `close` leaves it open for the others.

    >>> shared_device("host").info()["backend"]
    'host'
    """
    made = ctypes.c_void_p()
    number = integer(index, "a device", -2**63, 2**63 - 1)
    if not 0 <= number < 1 << 32:
        raise no_device(f"there is no device {index}")
    lib.vram_device_shared(c_text(backend), number, made)
    return Device._of(made.value, None, None)


def shared_pool(backend: str = "cuda", index: int = 0) -> Pool:
    """The process's own pool of a device, which all libraries of the process allocate from.

    >>> shared_pool("host").handle == shared_pool("host").handle
    True
    """
    device = shared_device(backend, index)
    made = ctypes.c_void_p()
    lib.vram_pool_shared(device.handle, made)
    return Pool._of(made.value, device, None)


def shared_queue(device: Device, native: int) -> Queue:
    """The queue for a native one (the number of a CUstream; 0: the default stream) that all users of it share."""
    made = ctypes.c_void_p()
    lib.vram_queue_shared(device.handle, address(native) or None, made)
    return Queue._of(made.value, device, None)
