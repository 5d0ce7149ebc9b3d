# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver over vram.torch: vram.torch.memory_saver.install(), or this folder's parent in PYTHONPATH."""
import importlib.util
import os
import sys

if importlib.util.find_spec("vram") is None:  # a process that found this alone, in a tree that is not installed
    sys.path.append(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4)))

from vram.torch import adapter  # noqa: E402
from vram.torch.memory_saver import TorchMemorySaver, configure_subprocess, torch_memory_saver  # noqa: E402

if not adapter.enabled():
    adapter.enable()
torch_memory_saver.init_from_environment()

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]
