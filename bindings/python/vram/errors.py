# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one class for each status of the C library.

Every class is a vram.Error, and also the exception of Python's own that a program would expect: OutOfMemoryError is a
MemoryError, InvalidError a ValueError, TimeoutError Python's TimeoutError, and so on.

>>> issubclass(OutOfMemoryError, MemoryError)
True
>>> [kind.__name__ for kind in LimitError.__mro__[:4]]
['LimitError', 'OutOfMemoryError', 'Error', 'MemoryError']
"""
from __future__ import annotations

import builtins
from typing import Dict, Optional, Type

from .generated import api


class Error(Exception):
    """A call of libvram failed. `status` is the number of its status, `operation` the call that failed."""

    status: int = 0
    backend: str = ""
    operation: str = ""
    native_code: int = 0

    @property
    def status_name(self) -> str:
        """The name of the status in C, as "VRAM_ERR_LIMIT"."""
        return next((name for name in dir(api) if name.startswith("VRAM_ERR_") and getattr(api, name) == self.status),
                    "VRAM_ERR_UNKNOWN")


class InvalidError(Error, ValueError):
    """An argument is not valid."""


class SizeOverflowError(Error, builtins.OverflowError):
    """A size or address does not fit in 64 bits."""


class StaleError(Error, ValueError):
    """The object was closed, or has ended with its parent."""


class OutOfMemoryError(Error, MemoryError):
    """Memory of any kind ran out. `report` says what was asked for, who holds the memory, what was tried and what
    would help, as the schema vram.oom/1 describes it; None if the request made no report."""

    report: Optional[dict] = None


class HostMemoryError(OutOfMemoryError):
    """Out of host memory."""


class DeviceMemoryError(OutOfMemoryError):
    """Out of device memory."""


class LimitError(OutOfMemoryError):
    """A limit of the user or of the system was reached."""


class FragmentedError(OutOfMemoryError):
    """Memory is free, but no run of addresses is long enough."""


class UnsupportedError(Error, NotImplementedError):
    """The device or backend cannot do this."""


class NoDriverError(Error, LookupError):
    """The driver is missing or unusable."""


class NoDeviceError(Error, LookupError):
    """There is no such device."""


class DeviceLostError(Error, ConnectionError):
    """The device was lost; its memory and queues are gone."""


class BusyError(Error, BlockingIOError):
    """The object is in use."""


class CaptureError(Error, RuntimeError):
    """The queue is being captured into a graph."""


class NotReadyError(Error, BlockingIOError):
    """The work is not finished yet."""


class TimeoutError(Error, builtins.TimeoutError):
    """The deadline passed."""


class ForkedError(Error, RuntimeError):
    """The process forked; the child must create its own context."""


class ShutdownError(Error, RuntimeError):
    """The process is exiting, or the object is being destroyed."""


class CorruptError(Error, RuntimeError):
    """Data or a driver's answer makes no sense."""


class SystemCallError(Error, OSError):
    """An operating system call failed."""


class BackendError(Error, RuntimeError):
    """The driver reported an error."""


BY_STATUS: Dict[int, Type[Error]] = {
    api.VRAM_ERR_INVALID: InvalidError,
    api.VRAM_ERR_OVERFLOW: SizeOverflowError,
    api.VRAM_ERR_STALE: StaleError,
    api.VRAM_ERR_HOST_MEMORY: HostMemoryError,
    api.VRAM_ERR_DEVICE_MEMORY: DeviceMemoryError,
    api.VRAM_ERR_LIMIT: LimitError,
    api.VRAM_ERR_FRAGMENTED: FragmentedError,
    api.VRAM_ERR_UNSUPPORTED: UnsupportedError,
    api.VRAM_ERR_NO_DRIVER: NoDriverError,
    api.VRAM_ERR_NO_DEVICE: NoDeviceError,
    api.VRAM_ERR_DEVICE_LOST: DeviceLostError,
    api.VRAM_ERR_BUSY: BusyError,
    api.VRAM_ERR_CAPTURE: CaptureError,
    api.VRAM_ERR_NOT_READY: NotReadyError,
    api.VRAM_ERR_TIMEOUT: TimeoutError,
    api.VRAM_ERR_FORKED: ForkedError,
    api.VRAM_ERR_SHUTDOWN: ShutdownError,
    api.VRAM_ERR_CORRUPT: CorruptError,
    api.VRAM_ERR_IO: SystemCallError,
    api.VRAM_ERR_BACKEND: BackendError,
}


def exception_for(status: int, text: str, backend: str, operation: str, native_code: int,
                  report: Optional[dict]) -> Error:
    """The exception for a status; one that this package does not know is a plain Error."""
    error = BY_STATUS.get(status, Error)(text)
    error.status, error.backend, error.operation, error.native_code = status, backend, operation, native_code
    if isinstance(error, OutOfMemoryError):
        error.report = report
    return error


def invalid(text: str) -> InvalidError:
    """The exception for a mistake that is found before the library is called."""
    error = InvalidError(text)
    error.status = api.VRAM_ERR_INVALID
    return error


def stale(what: str) -> StaleError:
    """The exception for the use of an object that was closed."""
    error = StaleError(f"the {what} was closed")
    error.status = api.VRAM_ERR_STALE
    return error
