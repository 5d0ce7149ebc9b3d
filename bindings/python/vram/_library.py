# SPDX-License-Identifier: Apache-2.0
"""Finds libvram, loads it once, and gives every function its types.

A function that returns a status raises an exception of vram.errors instead of returning a failure. ctypes releases the
interpreter's lock during every call.
"""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Iterator, Optional, Tuple

from ._where import file_of
from .errors import exception_for
from .generated import api

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "native")  # what a wheel carries
SONAME = "libvram.0.dylib" if sys.platform == "darwin" else "libvram.so.0"


def _loaded_already() -> Optional[ctypes.CDLL]:
    """The copy that this process uses already, so that there is one pool for all of it."""
    mode = getattr(os, "RTLD_NOLOAD", None)
    if mode is None:
        return None
    try:
        return ctypes.CDLL(SONAME, mode=mode | os.RTLD_NOW)
    except OSError:
        return None


def _candidates() -> Iterator[str]:
    named = os.environ.get("LIBVRAM_PATH")
    if named:
        yield named
        return
    yield os.path.join(NATIVE, SONAME)
    yield SONAME


def lookup() -> str:
    """Where libvram is looked for, in this order, and which one was taken; `python -m vram info` prints it."""
    import subprocess
    named, own = os.environ.get("LIBVRAM_PATH"), os.path.join(NATIVE, SONAME)
    # In a process of its own: here the name stands for the library that is loaded already.
    asked = subprocess.run([sys.executable, "-I", os.path.join(HERE, "_where.py"), SONAME], capture_output=True,
                           text=True, check=False)
    system = not named and not lib.loaded_before and lib.path == SONAME
    places = (("LIBVRAM_PATH", named or "not set", bool(named)),
              ("loaded before", file_of(lib._handle) if lib.loaded_before else "none", lib.loaded_before),
              ("the package's own", own if os.path.exists(own) else "none", lib.path == own),
              ("the system's", asked.stdout.strip() or "none", system))
    taken = f" (taken, {lib.vram_version_text().decode()})"
    return "\n".join(["libvram for Python, the first of these:",
                      *(f"  {name:19}{file}{taken if this else ''}" for name, file, this in places)])


def _load() -> Tuple[ctypes.CDLL, bool]:
    """The library, and whether the process had loaded it before."""
    found = None if os.environ.get("LIBVRAM_PATH") else _loaded_already()
    if found is not None:
        return found, True
    reasons = []
    for path in _candidates():
        if os.sep in path and not os.path.exists(path):
            reasons.append(f"{path}: no such file")
            continue
        try:
            found = ctypes.CDLL(path)
            break
        except OSError as error:
            reasons.append(f"{path}: {error}")
    if found is None:
        raise ImportError("libvram was not found; install the wheel of this platform, or name the library in "
                          "LIBVRAM_PATH (" + "; ".join(reasons) + ")")
    return found, False


def _check_version(library: ctypes.CDLL) -> None:
    try:
        version = library.vram_version
    except AttributeError:
        raise ImportError(f"{library._name} is not libvram: it has no vram_version") from None
    version.restype = ctypes.c_uint32
    have, want = version(), api.VRAM_VERSION
    if have // 1000 != want // 1000:
        raise ImportError(f"libvram {have // 1000000}.{have // 1000 % 1000} in {file_of(library)} does not fit this "
                          f"package, which was made for {want // 1000000}.{want // 1000 % 1000}; install both from one "
                          "source, or name another library in LIBVRAM_PATH")


class Library:
    """The functions of libvram by name: lib.vram_alloc(...). `lib.plain(name)` returns statuses as numbers."""

    def __init__(self) -> None:
        self._handle, self.loaded_before = _load()
        _check_version(self._handle)
        self.path: str = self._handle._name

    def __getattr__(self, name: str) -> Any:
        call = self._typed(name, True)
        setattr(self, name, call)
        return call

    def plain(self, name: str) -> Any:
        return self._typed(name, False)

    def _typed(self, name: str, raises: bool) -> Any:
        if name not in api.FUNCTIONS:
            raise AttributeError(name)
        result, kinds = api.FUNCTIONS[name]
        try:
            call: Any = self._handle[name]
        except AttributeError:
            raise ImportError(f"{self.path} has no {name}: it is older than this package") from None
        call.argtypes = kinds
        call.restype = ctypes.c_int if result is api.vram_status else result
        if raises and result is api.vram_status:
            call.errcheck = _check
        return call

    def address(self, name: str) -> int:
        """The address of a function, for programs that take one."""
        value = ctypes.cast(self._typed(name, False), ctypes.c_void_p).value
        assert value is not None
        return value


def _check(status: int, function: Any, arguments: Any) -> int:
    if status < 0:
        raise error_of(status)
    return status


def error_of(status: int, with_report: bool = True) -> Exception:
    """The exception for a status that a call has just returned on this thread."""
    record = lib.vram_error_get().contents
    if record.status != status:  # a status without a record
        text = lib.vram_status_text(status).decode()
        return exception_for(status, text, "", "", 0, None)
    text, backend = record.text.decode(errors="replace"), (record.backend or b"").decode()
    operation, code = (record.operation or b"").decode(), record.native_code
    report = None
    if with_report and lib.vram_status_is_exhausted(status):
        report = _report_of(status, text)
    return exception_for(status, text, backend, operation, code, report)


def _report_of(status: int, text: str) -> Optional[dict]:
    """The report of the request that failed with this text; None if it made none."""
    report = api.vram_oom_report(size=ctypes.sizeof(api.vram_oom_report))
    if lib.plain("vram_oom_report_get")(None, report) != 0 or report.status != status:
        return None
    if report.error.decode(errors="replace") != text:
        return None
    return written(lib.vram_oom_report_write, ctypes.byref(report))


def written(call: Any, *arguments: Any, after: tuple = ()) -> Any:
    """What a vram_..._write call writes as JSON, as Python data."""
    import json
    parts = []

    @api.vram_write_fn
    def take(user: Any, text: Any, count: int) -> bool:
        parts.append(ctypes.string_at(text, count))
        return True

    call(*arguments, api.VRAM_REPORT_JSON, take, None, *after)
    return json.loads(b"".join(parts).decode(errors="replace"))


lib = Library()
