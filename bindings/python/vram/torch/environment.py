# SPDX-License-Identifier: Apache-2.0
"""VRAM_TORCH: libvram in programs that do not call vram.torch.enable(), and in the children of those that do.

    VRAM_TORCH=1 python train.py

The value is a list of words with commas: "1" (also "on", "true", "yes"); "require", which ends the program where
libvram cannot be PyTorch's allocator; and options of enable(), "moving=off" and "sharing=off". "0", "off", "false",
"no" and nothing at all leave PyTorch as it is. vram_autoload.py, at the end of `import torch`, calls enable() below.
"""
from __future__ import annotations

import os
import re
from typing import Dict

NAME = "VRAM_TORCH"
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
ON = ("1", "on", "true", "yes")
CHOICES = ("moving", "sharing")


def parse(value: str) -> Dict[str, str]:
    """The options of adapter.enable() in a value of VRAM_TORCH, or ValueError."""
    options: Dict[str, str] = {}
    for word in value.lower().split(","):
        name, _, choice = word.strip().partition("=")
        if name in CHOICES and choice in ("on", "off"):
            options[name] = choice
        elif word.strip() not in ON + ("require",):
            raise ValueError(f"{word.strip()!r} is unknown; set it to 1, or to a list of require, moving=off and "
                             "sharing=off, or to 0")
    return options


def enable(value: str) -> None:
    """Without the plug-in: a program that does not know of vram.torch may need the statistics that it lacks. A child
    whose parent passed VRAM_TORCH on may have been given another allocator on purpose: that setting decides."""
    from . import adapter
    for name in SETTINGS:
        other = re.search(r"\bbackend:\s*(?!native\b)\w+", os.environ.get(name, ""))
        if other:
            raise ValueError(f"{name} asks for {other.group()}; take that out of it to use libvram")
    adapter.enable(fallback=False, **parse(value))


def pass_on(options: Dict[str, str]) -> None:
    """Processes that this one starts find the options in their environment."""
    words = ["require" if "require" in os.environ.get(NAME, "").lower() else "1"]
    os.environ[NAME] = ",".join(words + [f"{name}={value}" for name, value in options.items() if value != "on"])
