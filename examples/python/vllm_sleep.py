# SPDX-License-Identifier: Apache-2.0
"""vllm_sleep.py: vLLM's sleep mode over vram.torch, in the place of vLLM's own allocator.

    import vllm_sleep
    vllm_sleep.install()                      # before the engine is made
    llm = vllm.LLM(model, enable_sleep_mode=True)
    llm.sleep(level=1)                        # weights to the host, the KV cache is dropped
    llm.wake_up()

vLLM asks an object of its class CuMemAllocator to keep tensors under a tag, to give the memory of tags back, and to bring
it back at the same addresses. That is what tags, sleep and wake of vram.torch do, for one pool and together with graphs
and with tensors of other processes. Not run with vLLM: what is tested is this class, in tests/torch/adapter_test.py.
"""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, List, Optional, Sequence, Set, Union

import vram.torch

PREFIX = "vllm/"  # of all tags


class SleepAllocator:
    """The interface of vllm.device_allocator.cumem.CuMemAllocator."""

    default_tag = "default"
    instance: Optional["SleepAllocator"] = None

    def __init__(self) -> None:
        if not vram.torch.enabled():
            vram.torch.enable()
        self._tags: Set[str] = set()
        self._asleep: List[str] = []

    @staticmethod
    def get_instance() -> "SleepAllocator":
        if SleepAllocator.instance is None:
            SleepAllocator.instance = SleepAllocator()
        return SleepAllocator.instance

    @contextmanager
    def use_memory_pool(self, tag: Optional[str] = None) -> Iterator[None]:
        """Tensors that are made inside have the tag."""
        name = tag or self.default_tag
        self._tags.add(name)
        with vram.torch.tag(PREFIX + name):
            yield

    def sleep(self, offload_tags: Union[Sequence[str], str, None] = None) -> None:
        """Gives all memory back; the contents of these tags, the default one if none is named, are kept."""
        kept = (self.default_tag,) if offload_tags is None else \
            (offload_tags,) if isinstance(offload_tags, str) else tuple(offload_tags)
        for tag in sorted(self._tags - set(self._asleep)):
            if vram.torch.tag_bytes(PREFIX + tag)["used"]:
                vram.torch.sleep(PREFIX + tag, keep="pinned" if tag in kept else "drop")
                self._asleep.append(tag)

    def wake_up(self, tags: Optional[Sequence[str]] = None) -> None:
        """Brings the memory of these tags back, of all if none is named."""
        for tag in [tag for tag in self._asleep if tags is None or tag in tags]:
            vram.torch.wake(PREFIX + tag)
            self._asleep.remove(tag)

    def get_current_usage(self) -> int:
        """Bytes of all tags, asleep or not."""
        return sum(vram.torch.tag_bytes(PREFIX + tag)["used"] for tag in self._tags)


def install() -> None:
    """Puts this class in the place of vLLM's own."""
    from vllm.device_allocator import cumem
    cumem.CuMemAllocator = SleepAllocator
