# SPDX-License-Identifier: Apache-2.0
"""vram.torch: libvram as PyTorch's CUDA allocator.

    import vram.torch
    vram.torch.enable()            # before the first CUDA tensor

or, without a change of the program, `VRAM_TORCH=1 python train.py`. Everything in torch.cuda.memory works as
before; docs/pytorch.md has a table. Beyond that:

    with vram.torch.tag("activations"):        # blocks under a tag, with a quota and statistics
        ...
    vram.torch.sleep("weights", keep="host")   # gives the memory back, every tensor keeps its address
    vram.torch.wake("weights")
    print(vram.torch.report())
"""
from .adapter import (UnsupportedError, VramTorchError, enable, enabled, mode, report, sleep, stats, tag, tag_bytes,
                      wake)

__all__ = ["UnsupportedError", "VramTorchError", "enable", "enabled", "mode", "report", "sleep", "stats", "tag",
           "tag_bytes", "wake"]
