# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing between processes with vram.torch.

The adapter names the memory of a tensor, and opens such a name. All else is PyTorch's: it counts who uses a tensor, and
orders the work of the processes by events. But a process that is spawned has PyTorch's own allocator unless its program
enables vram.torch there too. So tensors are rebuilt by a function of this module, whose import in the other process
comes with the tensor, and which enables vram.torch there if it still can.
"""
from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing import reductions

from . import adapter

_rebuild = reductions.rebuild_cuda_tensor  # PyTorch's own


def install() -> None:
    """From now on this process sends tensors whose receiver calls rebuild_cuda_tensor() below."""
    reductions.rebuild_cuda_tensor = rebuild_cuda_tensor


def rebuild_cuda_tensor(*arguments: Any) -> Any:
    """A tensor that a process with vram.torch has sent."""
    if not adapter.enabled():
        if torch.cuda.is_initialized():
            raise adapter.VramTorchError(
                "a CUDA tensor came from a process with vram.torch, but this process uses PyTorch's own allocator "
                "already; call vram.torch.enable() here too, before the first CUDA tensor")
        adapter.enable(fallback=False)
    return _rebuild(*arguments)
