# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing between processes with vram.torch.

The adapter names the memory of a tensor, and opens such a name. All else is PyTorch's: it counts who uses a tensor, and
orders the work of the processes by events. A process that is spawned finds VRAM_TORCH in its environment; one that was
started otherwise may have PyTorch's own allocator. So tensors are rebuilt by a function of this module, whose import in
the other process comes with the tensor, and which enables vram.torch there if it still can.

CUDA's events cannot be opened in another container: where VRAM_SHARE_DIR says that processes meet in a directory of
their own, the sender waits for its stream instead.
"""
from __future__ import annotations

import os
from typing import Any

import torch
from torch.multiprocessing import reductions

from . import adapter

_rebuild = reductions.rebuild_cuda_tensor  # PyTorch's own
_share = torch.UntypedStorage._share_cuda_


def install() -> None:
    """From now on this process sends tensors whose receiver calls rebuild_cuda_tensor() below."""
    reductions.rebuild_cuda_tensor = rebuild_cuda_tensor
    if os.environ.get("VRAM_SHARE_DIR"):
        torch.UntypedStorage._share_cuda_ = _share_without_event


def _share_without_event(storage: Any, *arguments: Any) -> Any:
    """As PyTorch's, but the receiver opens no event."""
    device, *shared, event_is_needed = _share(storage, *arguments)
    if event_is_needed:
        torch.cuda.current_stream(device).synchronize()
    return (device, *shared, False)


def rebuild_cuda_tensor(*arguments: Any, **named: Any) -> Any:
    """A tensor that a process with vram.torch has sent. Programs call it by the names of its arguments, too."""
    if not adapter.enabled():
        if torch.cuda.is_initialized():
            raise adapter.VramTorchError(
                "a CUDA tensor came from a process with vram.torch, but this process uses PyTorch's own allocator "
                "already; call vram.torch.enable() here too, before the first CUDA tensor, or set VRAM_TORCH "
                "(`python -m vram.torch --check` says what keeps it from working)")
        adapter.enable(fallback=False)
    return _rebuild(*arguments, **named)
