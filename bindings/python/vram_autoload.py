# SPDX-License-Identifier: Apache-2.0
"""The end of `import torch`: PyTorch calls torch_imported() there, an entry point of the group torch.backends.

It is called in every program that imports PyTorch where vram is installed, so it is a module outside of the package,
whose import loads libvram. Without VRAM_TORCH in the environment nothing is loaded and nothing changes. An exception
would make `import torch` fail, so that there is one only if VRAM_TORCH says "require".
"""
import os

OFF = ("", "0", "off", "false", "no")


def torch_imported():
    value = os.environ.get("VRAM_TORCH", "").strip().lower()
    if value in OFF:
        return
    try:
        from vram.torch import environment
        environment.enable(value)
    except Exception as error:
        text = f"VRAM_TORCH={value}: {' '.join(str(error).split())}"
        if "require" in value:
            raise RuntimeError(text) from error
        say(f"vram.torch: {text}. This process uses PyTorch's own allocator")


def say(line):
    """A line on stderr, if there is one."""
    import sys
    try:
        sys.stderr.write(line + "\n")
    except Exception:
        pass
