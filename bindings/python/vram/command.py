# SPDX-License-Identifier: Apache-2.0
"""What the command `vram` does, as functions that return plain data: estimates, replays, traces and reports."""
from __future__ import annotations

import json
import os
import shutil
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from ._library import NATIVE
from ._values import Size, size
from .errors import Error

Path = Union[str, "os.PathLike[str]"]


class CommandError(Error, RuntimeError):
    """The command failed; the text is what it wrote."""


def find_command() -> str:
    """The command of the wheel, or the one that LIBVRAM_COMMAND or PATH names."""
    for path in (os.environ.get("LIBVRAM_COMMAND"), os.path.join(NATIVE, "vram"), shutil.which("vram")):
        if path and os.access(path, os.X_OK):
            return path
    raise CommandError("the command `vram` was not found: install it, or name it in LIBVRAM_COMMAND")


def _run(arguments: Sequence[str]) -> str:
    """The command's output. It exits with 1 if the answer is no, which is an answer."""
    import subprocess
    run = subprocess.run([find_command(), *arguments], capture_output=True, encoding="utf-8", errors="replace",
                         stdin=subprocess.DEVNULL)
    if run.returncode not in (0, 1) or (run.returncode == 1 and not run.stdout):
        raise CommandError(run.stderr.strip() or f"vram {arguments[0]} ended with {run.returncode}")
    return run.stdout


def _sizes(value: Union[Size, Iterable[Size]]) -> List[Size]:
    return [value] if isinstance(value, (int, str)) else list(value)


def _file(path: Path) -> str:
    """A path that cannot be taken for an option."""
    text = os.fspath(path)
    return os.path.join(".", text) if text.startswith("-") else text


def estimate(path: Path, context: Optional[int] = None, memory: Union[Size, Iterable[Size], None] = None, *,
             sequences: Optional[int] = None, layers: Optional[int] = None, cache_type: Optional[str] = None,
             fit: bool = False) -> Dict[str, Any]:
    """Whether a model fits, and what it needs: weights, cache and buffers. `path` is a .gguf or .safetensors file, a
    config.json or a folder. `context` is the number of tokens, `memory` the free memory of a device, or of several;
    None: of this machine's. With `fit` also the largest context and the most layers (schema vram.estimate/1).

    >>> answer = vram.estimate("config.json", context=4096, memory="24GiB")  # doctest: +SKIP
    >>> answer["fits"]  # doctest: +SKIP
    True
    """
    words = ["estimate", _file(path), "--json"]
    for option, value in (("--ctx-size", context), ("--parallel", sequences), ("--gpu-layers", layers),
                          ("--cache-type-k", cache_type), ("--cache-type-v", cache_type)):
        words += [] if value is None else [f"{option}={value}"]
    words += [f"--memory={size(value)}" for value in ([] if memory is None else _sizes(memory))]
    return json.loads(_run(words + (["--fit"] if fit else [])))


def replay(path: Optional[Path] = None, policies: Sequence[str] = ("vram",), memory: Optional[Size] = None, *,
           backend: str = "sim", generate: Optional[str] = None, repeat: int = 1,
           least: bool = False) -> Dict[str, Any]:
    """Replays a recorded trace, or a generated one ("steady", "queues,seed=7"), by one or several policies (vram,
    expandable, async, caching, naive), on a simulated device of `memory` unless `backend` names another. With `least`
    the least memory in which it runs (schema vram.replay/1).

    >>> answer = replay(generate="steady,steps=2", memory="8GiB")
    >>> answer["schema"]
    'vram.replay/1'
    """
    words = ["replay", "--json", f"--backend={backend}"] + ([f"--repeat={repeat}"] if repeat != 1 else [])
    words += [_file(path)] if path is not None else []
    words += [f"--generate={generate}"] if generate is not None else []
    words += [f"--policy={name}" for name in policies]
    words += [f"--memory={size(memory)}"] if memory is not None else []
    return json.loads(_run(words + (["--least"] if least else [])))


def read_trace(path: Path) -> List[Dict[str, Any]]:
    """The events of a trace (a .vrt file, CSV, a PyTorch snapshot, an RMM log): one dict each, in order of time."""
    import csv
    rows = csv.DictReader(line for line in _run(["replay", _file(path), "--print"]).splitlines()
                          if not line.startswith("#"))
    return [{name: _number(value) for name, value in row.items()} for row in rows]


def _number(text: str) -> Any:
    try:
        return int(text)
    except (TypeError, ValueError):
        return text


def report(path: Path) -> Dict[str, Any]:
    """What a trace says: the peak and its owners, leaks, churn, and what to do (schema vram.report/1)."""
    return json.loads(_run(["report", _file(path), "--json"]))
