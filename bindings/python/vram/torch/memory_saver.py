# SPDX-License-Identifier: Apache-2.0
"""The interface of the package torch_memory_saver over vram.torch, for programs that were written for it.

    from vram.torch.memory_saver import torch_memory_saver     # in the place of: from torch_memory_saver import ...

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model.cuda()
    torch_memory_saver.pause("weights")      # the memory goes back to the driver, addresses stay
    torch_memory_saver.resume("weights")

vram.torch.enable() comes first. Nothing is preloaded, and no environment variable is needed. Not run together with the
programs that use that package (SGLang, slime and others).
"""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from . import adapter

PREFIX = "memory_saver/"  # all regions lie under one tag


class TorchMemorySaver:
    """region, pause and resume, by tag."""

    def __init__(self) -> None:
        self._backup: Dict[str, bool] = {}  # by tag: whether contents are kept
        self._asleep: Dict[str, bool] = {}

    @property
    def hook_mode(self) -> str:
        return "vram"

    @contextmanager
    def region(self, tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
        """Tensors that are allocated inside can be paused. Without a backup, resume() leaves their contents undefined."""
        if self._backup.setdefault(tag, enable_cpu_backup) != enable_cpu_backup:
            raise ValueError(f"the tag {tag!r} was used with enable_cpu_backup={not enable_cpu_backup} before")
        with adapter.tag(PREFIX + tag):
            yield

    @contextmanager
    def cuda_graph(self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global",
                   tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
        """torch.cuda.graph, inside a region. Memory of the graph's own stays awake."""
        import torch
        with torch.cuda.graph(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode), \
                self.region(tag, enable_cpu_backup):
            yield

    @contextmanager
    def disable(self) -> Iterator[None]:
        """Tensors that are allocated inside are not paused, although a region surrounds them."""
        with adapter.tag("memory_saver_off"):
            yield

    def pause(self, tag: Optional[str] = None) -> None:
        """Gives the memory of a tag, or of all tags, back to the driver."""
        for name in self._names(tag, asleep=False):
            adapter.sleep(PREFIX + name, keep="host" if self._backup[name] else "drop")
            self._asleep[name] = True

    def resume(self, tag: Optional[str] = None) -> None:
        """Takes it again, at the same addresses."""
        for name in self._names(tag, asleep=True):
            adapter.wake(PREFIX + name)
            self._asleep[name] = False

    def _names(self, tag: Optional[str], asleep: bool) -> list:
        if tag is not None and tag not in self._backup:
            raise adapter.VramTorchError(f"no region has the tag {tag!r}")
        names = [tag] if tag is not None else list(self._backup)
        return [name for name in names if self._asleep.get(name, False) == asleep
                and (asleep or adapter.tag_bytes(PREFIX + name)["used"] != 0)]


torch_memory_saver = TorchMemorySaver()
