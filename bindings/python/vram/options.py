# SPDX-License-Identifier: Apache-2.0
"""The options of the library, and its log."""
from __future__ import annotations

import atexit
import ctypes
import sys
from typing import Any, Callable, Dict, List, Optional

from ._lifetime import c_text
from ._library import lib
from ._values import choose
from .generated import api

LEVELS = {"off": api.VRAM_LOG_OFF, "error": api.VRAM_LOG_ERROR, "warn": api.VRAM_LOG_WARN, "info": api.VRAM_LOG_INFO,
          "debug": api.VRAM_LOG_DEBUG}
_NAMES = {number: name for name, number in LEVELS.items()}
_logs: List[Any] = []  # every log function ever set: a thread may still be inside one


def version() -> str:
    """The version of the library that is loaded.

    >>> version().count(".")
    2
    """
    return lib.vram_version_text().decode()


def options() -> Dict[str, str]:
    """Every option with its present value, as VRAM_<NAME> in the environment sets it.

    >>> options()["pool"]
    'on'
    """
    found = {}
    for index in range(lib.vram_option_count()):
        name = lib.vram_option_at(index).contents.name
        text = ctypes.create_string_buffer(256)
        lib.vram_option_get(name, text, len(text), None)
        found[name.decode()] = text.value.decode(errors="replace")
    return found


def set_option(name: str, value: Optional[str]) -> None:
    """Sets an option for contexts that are created from now on; None: back to the environment's, or the default.

    >>> set_option("wait_timeout", "5s")
    >>> set_option("wait_timeout", None)
    """
    lib.vram_option_set(c_text(name), c_text(value))


def log(call: Optional[Callable[[str, str], None]], level: str = "warn") -> None:
    """Has `call(level, text)` called for each message of the library; None: for none. An exception in it is reported
    by sys.unraisablehook, and the call of the library goes on."""
    number = choose(level, LEVELS, "level")
    if call is None:
        lib.vram_log_set(api.vram_log_fn(), None, api.VRAM_LOG_OFF)
        return

    @api.vram_log_fn
    def called(user: Any, of: int, text: bytes) -> None:
        if not sys.is_finalizing():
            call(_NAMES.get(of, "unknown"), text.decode(errors="replace"))

    _logs.append(called)
    lib.vram_log_set(called, None, number)


@atexit.register
def _end_log() -> None:
    if _logs:  # no message after the interpreter
        lib.vram_log_set(api.vram_log_fn(), None, api.VRAM_LOG_OFF)
