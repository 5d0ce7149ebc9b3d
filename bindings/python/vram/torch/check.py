# SPDX-License-Identifier: Apache-2.0
"""python -m vram.torch --check: whether `import torch` gives programs libvram here, and whether it works.

Finds or compiles the adapter, and on a machine with a GPU uses it: this is the part of the self-test that needs a CUDA
context, which enable() must not make.
"""
from __future__ import annotations

import os
from typing import Any, Iterator, Tuple

from . import adapter, environment


def steps() -> Iterator[Tuple[str, str]]:
    """What is checked, and what is wrong with it, or ""."""
    value = os.environ.get(environment.NAME, "")
    yield f"{environment.NAME}={value}", _value(value)
    autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    yield f"TORCH_DEVICE_BACKEND_AUTOLOAD={autoload}", "" if autoload == "1" else (
        f"PyTorch loads no entry points, so that {environment.NAME} has no effect; call vram.torch.enable()")
    yield "entry point in the group torch.backends", "" if _has_entry_point() else (
        f"there is none, so that {environment.NAME} has no effect: install the package, or have bindings/python in "
        "PYTHONPATH")
    wrong = ""
    try:
        adapter.enable(fallback=False)
    except Exception as error:
        wrong = str(error.__cause__ or error)
    yield "enable()", wrong
    if not wrong:
        yield "allocation, record_stream, statistics, snapshot, free", _use()


def _value(value: str) -> str:
    from vram_autoload import OFF
    try:
        if value.strip().lower() not in OFF:
            environment.parse(value)
    except ValueError as error:
        return str(error)
    return ""


def _has_entry_point() -> bool:
    from importlib.metadata import distributions
    return any(point.group == "torch.backends" and point.value == "vram_autoload:torch_imported"
               for each in distributions() for point in each.entry_points)


def _use() -> str:
    """What is wrong with the adapter on the first device."""
    import torch
    if not torch.cuda.is_available():
        return "no CUDA device is available here"
    try:
        before = torch.cuda.memory_allocated()
        block: Any = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        block.record_stream(torch.cuda.Stream())
        found = (torch.cuda.memory_allocated() - before, _in_snapshot(torch, block.data_ptr()))
        del block
        after = torch.cuda.memory_allocated()
    except Exception as error:
        return str(error)
    return "" if (found, after) == ((1 << 20, True), before) else (
        f"1 MiB counts as {found[0]} bytes, in the snapshot: {found[1]}, left after the free: {after - before}")


def _in_snapshot(torch: Any, address: int) -> bool:
    return any(block["address"] == address and block["state"] == "active_allocated"
               for segment in torch.cuda.memory_snapshot() for block in segment["blocks"])
