# SPDX-License-Identifier: Apache-2.0
"""The interface of the package torch_memory_saver over vram.torch, for programs that were written for it.

    from vram.torch.memory_saver import torch_memory_saver     # in the place of: from torch_memory_saver import ...

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model.cuda()
    torch_memory_saver.pause("weights")      # the memory goes back to the driver, addresses stay
    torch_memory_saver.resume("weights")

vram.torch.enable() comes first. A program that cannot be changed gets it by install(), or with the folder PACKAGE in
PYTHONPATH: a package with the name torch_memory_saver, whose import enables vram.torch. Nothing is preloaded.

A region is a MemPool whose segments have a tag, so a tag's memory is released to the last byte. While a tag is paused or
is being resumed, no thread may use or free its tensors.
"""
from __future__ import annotations

import ctypes
import os
import sys
import threading
import urllib.parse
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import adapter
from .backup import Memory

PREFIX = "memory_saver/"  # all tags; adapters/pytorch/allocator.cpp knows it
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")
BACKENDS = ("pinned", "mmap")
MODES = ("preload", "torch")


def _is_set(name: str) -> bool:
    value = os.environ.get(name, "").lower()
    if value not in ("", "0", "false", "no", "1", "true", "yes"):
        raise ValueError(f"{name} is 0 or 1, not {value!r}")
    return value in ("1", "true", "yes")


def _backend(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"cpu_backup_backend is one of {', '.join(BACKENDS)}, not {name!r}")
    return name


class _Config(threading.local):
    """What allocations of the calling thread are."""

    def __init__(self) -> None:
        self.tag, self.active = "default", _is_set("TMS_INIT_ENABLE")
        self.cpu, self.disk = _is_set("TMS_INIT_ENABLE_CPU_BACKUP"), _is_set("TMS_INIT_ENABLE_DISK_BACKUP")
        self.backend = _backend(os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND") or BACKENDS[0])

    def kind(self) -> str:
        if self.cpu and self.disk:
            raise AssertionError("enable_cpu_backup and enable_disk_backup are mutually exclusive")
        return self.backend if self.cpu else "disk" if self.disk else "drop"


class _Library:
    """What some programs, and the tests of torch_memory_saver, ask of its library."""

    def __init__(self, config: _Config) -> None:
        self._config = config

    def tms_get_interesting_region(self) -> bool:
        return self._config.active

    def tms_get_enable_cpu_backup(self) -> bool:
        return self._config.cpu

    def tms_get_enable_disk_backup(self) -> bool:
        return self._config.disk

    def tms_get_current_tag(self) -> bytes:
        return self._config.tag.encode()

    def tms_get_cpu_backup_backend(self) -> bytes:
        return self._config.backend.encode()

    def __getattr__(self, name: str) -> Any:
        return getattr(adapter._need(), name)  # CUDA's, which the adapter is linked to


class TorchMemorySaver:
    """region, pause and resume, by tag."""

    enabled = True

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of pause, resume, and what they look at
        self._config = _Config()
        self._memory: Dict[Tuple[str, str], Dict[int, Memory]] = {}  # by tag and kind of backup; then by device
        self._mem_pools: Dict[Tuple[str, bool, bool, str, int], Any] = {}
        self._mode, self._initialized = "preload", False
        self._retain = _is_set("TMS_RETAIN_CPU_BACKUP")
        self._folder = os.environ.get("TMS_DISK_BACKUP_DIR") or "/tmp"
        self.cdll = _Library(self._config)
        self._impl = self._binary_wrapper = self

    def _ensure_initialized(self) -> None:
        if not adapter.enabled():
            adapter.enable()
        self._initialized = True

    # ------------------------------------------------------------------------ settings

    @property
    def hook_mode(self) -> str:
        return self._mode

    @hook_mode.setter
    def hook_mode(self, mode: str) -> None:
        """Both work alike: nothing is preloaded. With "torch", TMS_INIT_ENABLE has no effect."""
        if mode not in MODES:
            raise ValueError(f"hook_mode is one of {', '.join(MODES)}, not {mode!r}")
        assert mode == self._mode or not self._initialized, "Cannot configure after initialization"
        self._mode = mode
        if mode == "torch" and self._config.active:
            self._config.active = False
            self._default_tag(None)

    @property
    def memory_margin_bytes(self) -> int:
        raise NotImplementedError("Only setter is supported")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        """Bytes that stay free on each device: allocations that would take from them raise OutOfMemoryError."""
        self._ensure_initialized()
        if value < 0:
            raise ValueError(f"memory_margin_bytes is at least 0, not {value}")
        adapter._check(adapter._need().vram_torch_margin(value))

    @property
    def retain_cpu_backup(self) -> bool:
        return self._retain

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        """Whether resume() keeps host memory, with its contents, for the next pause()."""
        self._retain = bool(value)

    def set_disk_backup_dir(self, path: str) -> None:
        """The folder for files of regions with enable_disk_backup; made if there is none."""
        os.makedirs(path, exist_ok=True)
        self._folder = path

    def init_from_environment(self) -> None:
        """TMS_INIT_ENABLE: all memory that has no other tag can be paused, as the tag "default"."""
        if self._config.active:
            self._ensure_initialized()
            self._initialized = False  # the mode may still be chosen
            self._default_tag(self._note("default", self._config.kind()))

    @staticmethod
    def _default_tag(label: Optional[str]) -> None:
        if adapter.enabled():
            adapter._check(adapter._need().vram_torch_tag_default(label.encode() if label else None))

    # ------------------------------------------------------------------------- regions

    def _note(self, tag: str, kind: str) -> str:
        """The tag of the pool for it; PyTorch's tags are paths, and these are not."""
        self._memory.setdefault((tag, kind), {})
        return f"{PREFIX}{kind}/{urllib.parse.quote(tag, safe='')}"

    @contextmanager
    def _configured(self, tag: str, cpu: bool, backend: Optional[str], disk: bool = False) -> Iterator[None]:
        if backend is not None and not cpu:
            raise ValueError("cpu_backup_backend requires enable_cpu_backup=True")
        config, before = self._config, dict(vars(self._config))
        backend = _backend(backend or config.backend)
        self._ensure_initialized()
        try:
            vars(config).update(tag=tag, active=True, cpu=cpu, disk=disk, backend=backend)
            with adapter.tag(self._note(tag, config.kind())):
                yield
        finally:
            vars(config).update(before)

    @contextmanager
    def _with_region_config(self, tag: str, enable_cpu_backup: bool, cpu_backup_backend: Optional[str] = None,
                            enable_disk_backup: bool = False) -> Iterator[None]:
        try:
            with self._configured(tag, enable_cpu_backup, cpu_backup_backend, enable_disk_backup):
                yield
        finally:
            self._forget_freed()

    @contextmanager
    def region(self, tag: str = "default", enable_cpu_backup: bool = False, enable_disk_backup: bool = False,
               cpu_backup_backend: Optional[str] = None) -> Iterator[None]:
        """Tensors that are made inside on the current device can be paused. Without a backup, resume() leaves their
        contents undefined.

        cpu_backup_backend: "pinned" is page-locked if it is retained, "mmap" never is. enable_disk_backup puts contents
        into files of the folder of set_disk_backup_dir(), which end with the tensors or the process.
        """
        import torch
        with self._with_region_config(tag, enable_cpu_backup, cpu_backup_backend, enable_disk_backup):
            device, kind = torch.cuda.current_device(), self._config.kind()
            key = (tag, enable_cpu_backup, enable_disk_backup, kind if enable_cpu_backup else "", device)
            memory = self._memory[tag, kind].get(device)
            if key not in self._mem_pools or (memory is not None and memory.paused):  # what is free there has no memory
                self._mem_pools[key] = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(self._mem_pools[key]):
                yield

    @contextmanager
    def cuda_graph(self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global",
                   tag: str = "default", enable_cpu_backup: bool = False,
                   cpu_backup_backend: Optional[str] = None) -> Iterator[None]:
        """torch.cuda.graph, whose own memory can be paused."""
        import torch
        self._ensure_initialized()
        with torch.cuda.graph(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode), \
                self._configured(tag, enable_cpu_backup, cpu_backup_backend):
            yield

    @contextmanager
    def disable(self) -> Iterator[None]:
        """Tensors that are made inside are not paused, although a region surrounds them. Their memory goes back."""
        import torch
        self._ensure_initialized()
        assert self._config.active, "disable() should be called only when tms is active"
        self._config.active = False
        try:
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool), adapter.tag("memory_saver_off"):
                yield
            del pool
        finally:
            self._config.active = True

    # ---------------------------------------------------------------- pause and resume

    def _of(self, tag: Optional[str], device: Optional[int] = None) -> List[Memory]:
        """The memory of a tag, or of all: on a device, or wherever it has been paused."""
        found = [(memory, name, kind) for (name, kind), memory in list(self._memory.items()) if not tag or name == tag]
        if device is None:
            return [made for memory, _, _ in found for made in list(memory.values())]
        return [memory.setdefault(device, Memory(self._note(name, kind).encode(), kind, device))
                for memory, name, kind in found]

    def pause(self, tag: Optional[str] = None) -> None:
        """Gives the memory of a tag, or of all tags, back to the driver; what is paused already stays so."""
        import torch
        self._ensure_initialized()
        with self._lock:
            for device in range(torch.cuda.device_count()):
                for memory in self._of(tag, device) if adapter.stats(device) else ():
                    memory.pause(self._retain, self._folder)

    def resume(self, tag: Optional[str] = None) -> None:
        """Takes it again, at the same addresses."""
        self._ensure_initialized()
        with self._lock:
            for memory in self._of(tag):
                memory.resume(self._retain)

    def _forget_freed(self) -> None:
        with self._lock:
            for memory in self._of(None):
                memory.forget_freed()

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """The contents of a paused tensor, or of one whose backup was retained; None if there is none on the host."""
        self._ensure_initialized()
        assert x.is_cuda, f"{x.device=}"
        assert x.is_contiguous(), f"{x.shape=} {x.stride()=} {x.dtype=}"
        addr, size = x.data_ptr(), x.nbytes
        with self._lock:
            for memory in self._of(None, x.device.index):
                place, offset = memory.find(addr, size)
                if place is not None:
                    kept = place.view(offset, size).view(x.dtype).view(x.shape)
                    return kept if zero_copy else kept.clone()
                if memory.has(addr, size):
                    if memory.paused and memory.kind == "drop":
                        raise adapter.VramTorchError("this tensor was paused without a backup: its contents are lost")
                    return None
        raise adapter.VramTorchError(f"no region has memory at 0x{addr:x}")


torch_memory_saver = TorchMemorySaver()


# ------------------------------------------------------------------- the package's name

@contextmanager
def configure_subprocess() -> Iterator[None]:
    """Processes that are started inside find the stand-in as torch_memory_saver. Nothing is preloaded."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _paths()
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _paths() -> str:
    there = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", PACKAGE)]
    return os.pathsep.join([PACKAGE] + there)


def install() -> None:
    """From now on `import torch_memory_saver` finds this, here and in processes that are started by this one."""
    there = sys.modules.get("torch_memory_saver")
    if there is not None and os.path.dirname(os.path.dirname(os.path.abspath(there.__file__ or ""))) != PACKAGE:
        raise adapter.VramTorchError(f"torch_memory_saver was imported before, from {there.__file__}")
    os.environ["PYTHONPATH"] = _paths()
    if PACKAGE not in sys.path:
        sys.path.insert(0, PACKAGE)
    import torch_memory_saver as _stand_in  # noqa: F401  which enables vram.torch
