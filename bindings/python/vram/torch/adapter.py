# SPDX-License-Identifier: Apache-2.0
"""The calls of vram.torch. PyTorch is imported by the first one that needs it."""
from __future__ import annotations

import ctypes
import os
import threading
import warnings
from typing import Any, Dict, Iterator, Optional, Union

from contextlib import contextmanager

from . import environment, extension

CONTENTS = {"drop": 0, "host": 1, "pinned": 2}
STATS = ("peak_requested_bytes", "peak_reserved_bytes", "requested_bytes", "reserved_bytes", "allocs", "hits",
         "moved_handles", "move_ns", "driver_creates", "driver_releases", "driver_maps", "driver_unmaps")
OLDEST = (2, 8)


class VramTorchError(RuntimeError):
    """vram.torch cannot do what was asked; the text says why and what to do."""

    status = 0  # a vram_status, if the library has refused


class UnsupportedError(VramTorchError):
    """This PyTorch, or this machine, cannot use vram.torch."""


_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None  # the extension, once it is PyTorch's allocator
_plugin: Any = None                     # the C plug-in, where there is no extension
_options = {"moving": "on", "sharing": "on"}  # of the extension


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError(f"PyTorch cannot be imported: {error}") from error
    return torch


def _check_torch(torch: Any) -> None:
    if torch.version.cuda is None:
        raise UnsupportedError("this PyTorch has no CUDA (torch.version.cuda is None): there is nothing for vram.torch "
                               "to allocate; install a CUDA build of PyTorch, or do not enable vram.torch")
    parts = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())
    if parts < OLDEST:
        raise UnsupportedError(f"PyTorch {torch.__version__} is older than {OLDEST[0]}.{OLDEST[1]}, the oldest version "
                               "that vram.torch knows")
    if getattr(torch.cuda, "_is_in_bad_fork", lambda: False)():
        raise VramTorchError("this process was forked after CUDA was initialized; use the start method 'spawn' for "
                             "processes that use CUDA")
    if torch.cuda.is_initialized():
        raise VramTorchError("too late: CUDA is initialized in this process already, and PyTorch's own allocator is in "
                             "use. Call vram.torch.enable() before the first CUDA tensor")


NCCL_HOOK = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"


def _no_gpu(torch: Any) -> str:
    """Why there is no GPU, or "". No question that concerns a device is asked of CUDA, as below."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return ""  # whoever hides devices from a process knows
    try:
        ctypes.CDLL("libcuda.so.1")
        count = getattr(torch.cuda, "_device_count_nvml", lambda: -1)()
    except OSError:
        return "there is no NVIDIA driver, libcuda.so.1 was not found"
    except Exception:
        return ""
    return "NVIDIA's driver has none" if count == 0 else ""


def _warn_of_settings(torch: Any) -> None:
    why = _no_gpu(torch)
    if why:
        warnings.warn(f"vram.torch finds no GPU here: {why}. It is enabled all the same: tensors on the CPU are PyTorch's "
                      "own as ever, and CUDA tensors fail as without vram.torch", stacklevel=3)
    if os.environ.get(NCCL_HOOK, "0").lower() in ("1", "t", "true", "y", "yes"):
        os.environ[NCCL_HOOK] = "0"  # as PyTorch does with its expandable segments
        warnings.warn(f"vram.torch turns {NCCL_HOOK} off: the device's pool has no segments that NCCL could register; "
                      "register a MemPool instead (register_mem_pool)", stacklevel=3)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        text = os.environ.get(name, "")
        if "expandable_segments" in text.lower():
            warnings.warn(f"{name} has expandable_segments, which vram.torch ignores: its pool maps and moves memory "
                          "by itself", stacklevel=3)
            return


def enable(moving: Optional[str] = None, fallback: bool = True, sharing: Optional[str] = None) -> None:
    """Makes libvram PyTorch's CUDA allocator, for the rest of this process and in the processes that it starts, which
    find the options in VRAM_TORCH (vram.torch.environment).

    Call it before the first CUDA tensor. A second call changes the options that it names; after the first
    allocation that is a VramTorchError. What no call names is "on". moving="off" takes memory in whole segments of
    the driver that never move or shrink in place, for programs whose libraries register memory (NCCL user buffers,
    RDMA); it needs more memory, and sleep() is not available. The first call on a machine may compile the adapter
    for the installed PyTorch, which takes about a minute of one core; later ones find it. Without a compiler, and if
    `fallback` is true, a smaller adapter is used that has no statistics in torch.cuda (mode() says "plugin").
    sharing="off" takes memory from the driver that other processes cannot open: CUDA tensors cannot be sent with
    torch.multiprocessing then.
    """
    global _library
    given = {name: value for name, value in (("moving", moving), ("sharing", sharing)) if value is not None}
    for name, value in given.items():
        if value not in ("on", "off"):
            raise ValueError(f"{name} is 'on' or 'off', not {value!r}")
    torch = _import_torch()  # without the lock: at its end it may call this function, because of VRAM_TORCH
    with _lock:
        if _plugin is not None:
            return  # it has no options
        if _library is None:
            _check_torch(torch)
            _warn_of_settings(torch)
            try:
                library = extension.load(torch)
            except extension.WrongFile as error:
                raise VramTorchError(str(error)) from error
            except extension.NoExtension as error:
                if not fallback:
                    raise UnsupportedError(str(error)) from error
                _enable_plugin(torch, error)
                return
            _prepare(library)
            _choose(library, given)
            _self_test(torch, library)
            _library = library
            from . import process_sharing  # it imports torch.multiprocessing
            process_sharing.install()
        else:
            _choose(_library, given)
        environment.pass_on(_options)


def _choose(library: ctypes.CDLL, given: Dict[str, str]) -> None:
    """Makes it PyTorch's allocator with these options, or gives it other ones."""
    options = dict(_options, **given)
    if library.vram_torch_enable(options["moving"] == "on", options["sharing"] == "on") != 0:
        text = library.vram_torch_error().decode(errors="replace")
        if _library is not None:
            text += (f": {', '.join(f'{name}={value}' for name, value in _options.items())}, from enable() or "
                     f"{environment.NAME}. Choose before the first CUDA tensor")
        raise VramTorchError(text)
    _options.update(options)


def _self_test(torch: Any, library: ctypes.CDLL) -> None:
    """PyTorch's own code asks the adapter, whose class is internal to PyTorch. A question that concerns a device would
    make a CUDA context here, which no later fork survives, and on the wrong device: the program may choose another.
    That is what `python -m vram.torch --check` is for."""
    try:
        said = (torch.cuda.get_allocator_backend(), torch._C._cuda_isHistoryEnabled(),
                torch.cuda.memory._snapshot()["segments"])
    except Exception as error:
        said = (error,)
    if said != ("vram", False, []):
        library.vram_torch_disable()
        raise UnsupportedError(f"the adapter {library._name} does not fit PyTorch {torch.__version__}: asked for its name, "
                               f"history and segments it says {said}")


def _prepare(library: ctypes.CDLL) -> None:
    text, number, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64
    sizes = ctypes.POINTER(size)
    library.vram_torch_error.restype = text
    library.vram_torch_tag_push.argtypes = [text]
    library.vram_torch_tag_quota.argtypes = [number, text, size, size]
    library.vram_torch_tag_bytes.argtypes = [number, text, sizes, sizes]
    library.vram_torch_sleep.argtypes = [number, text, number]
    library.vram_torch_wake.argtypes = [number, text]
    library.vram_torch_tag_default.argtypes = [text]
    library.vram_torch_tag_ranges.argtypes = [number, text, ctypes.c_void_p, number]
    library.vram_torch_copy.argtypes = [number, ctypes.c_void_p, number, number]
    library.vram_torch_host_lock.argtypes = [number, ctypes.c_void_p, size, number]
    library.vram_torch_margin.argtypes = [size]
    library.vram_torch_report.argtypes = [number, number]
    library.vram_torch_report.restype = ctypes.c_void_p
    library.vram_torch_text_free.argtypes = [ctypes.c_void_p]
    library.vram_torch_stats.argtypes = [number, sizes, number]


def _enable_plugin(torch: Any, reason: Exception) -> None:
    """The C plug-in over PyTorch's CUDAPluggableAllocator: no compiler is needed, and it can do less."""
    global _plugin
    path = extension.plugin_path()
    if path is None:
        raise UnsupportedError(f"{reason}; and there is no C plug-in beside libvram")
    try:
        allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "vram_torch_alloc", "vram_torch_free")
        library = ctypes.CDLL(path)
    except (OSError, AttributeError) as error:
        raise VramTorchError(f"{path} is not libvram's plug-in for PyTorch ({error}); LIBVRAM_TORCH_PLUGIN can name "
                             f"another. It was looked for because {reason}") from error
    native = allocator.allocator()
    for setter, symbol in (("set_record_stream_fn", "vram_torch_record_stream"),
                           ("set_reset_fn", "vram_torch_empty_cache")):
        if hasattr(native, setter):
            getattr(native, setter)(ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    warnings.warn(f"vram.torch runs as a plug-in, without statistics, snapshots, graphs' private pools and tags: {reason}",
                  stacklevel=3)
    _plugin = (allocator, library)


def enabled() -> bool:
    """Whether libvram is PyTorch's allocator in this process."""
    return _library is not None or _plugin is not None


def mode() -> Optional[str]:
    """"extension", "plugin", or None before enable()."""
    return "extension" if _library is not None else "plugin" if _plugin is not None else None


def _need() -> ctypes.CDLL:
    if _library is None:
        what = "the plug-in has no such call" if _plugin is not None else "call vram.torch.enable() first"
        raise VramTorchError(what)
    return _library


def _check(status: int) -> None:
    if status != 0:
        error = VramTorchError(_need().vram_torch_error().decode(errors="replace"))
        error.status = status
        raise error


def _device(device: Any) -> int:
    torch = _import_torch()
    if device is None:
        return torch.cuda.current_device()
    if isinstance(device, int):
        number = device
    else:
        place = torch.device(device)
        if place.type != "cuda":
            raise ValueError(f"{device!r} is no CUDA device: vram.torch has memory on those alone")
        number = torch.cuda.current_device() if place.index is None else place.index
    if not 0 <= number < torch.cuda.device_count():
        raise ValueError(f"there is no CUDA device {number}")
    return number


def _bytes(size: Union[int, str, None]) -> int:
    if size is None:
        return 0
    from .. import size as parse  # the package's own reading of "2GiB"
    return parse(size)


def _name(tag: str) -> bytes:
    if not isinstance(tag, str):
        raise TypeError(f"a tag is a str, not {type(tag).__name__}")
    if not tag or "\0" in tag:
        raise ValueError("a tag has at least one character, and none is NUL")
    return tag.encode()


@contextmanager
def tag(name: str, quota: Union[int, str, None] = None, device: Any = None) -> Iterator[None]:
    """Allocations inside have this tag: with vram.torch.tag("activations"): ...

    It applies to the calling thread, and to autograd's threads for a backward() that is called inside. Tags may be
    paths, "model/layer", and nest: the innermost applies. `quota` is the most that the tag may have on the device;
    beyond it an allocation raises torch.OutOfMemoryError, which names the tag. Also a decorator.
    """
    library, text = _need(), _name(name)
    if quota is not None:
        _check(library.vram_torch_tag_quota(_device(device), text, 0, _bytes(quota)))
    _check(library.vram_torch_tag_push(text))
    try:
        yield
    finally:
        library.vram_torch_tag_pop()


def tag_bytes(name: str, device: Any = None) -> Dict[str, int]:
    """What the live tensors of a tag take now ("used"), and at most ("peak"), in bytes."""
    used, peak = ctypes.c_uint64(), ctypes.c_uint64()
    _check(_need().vram_torch_tag_bytes(_device(device), _name(name), used, peak))
    return {"used": used.value, "peak": peak.value}


def sleep(tag: Optional[str] = None, keep: str = "host", device: Any = None) -> None:
    """Gives the memory of a tag's tensors back to the driver; without a tag, of all tensors on the device.

    Every tensor keeps its address, and with keep="host" (or "pinned", page-locked) its contents, until wake(). Nothing
    may touch the tensors meanwhile. keep="drop" loses the contents. Waits for all work of the device, on any stream;
    VramTorchError while a graph is captured.
    """
    if keep not in CONTENTS:
        raise ValueError(f"keep is one of {', '.join(CONTENTS)}, not {keep!r}")
    _check(_need().vram_torch_sleep(_device(device), None if tag is None else _name(tag), CONTENTS[keep]))


def wake(tag: Optional[str] = None, device: Any = None) -> None:
    """Brings back what sleep() gave away, at the same addresses."""
    _check(_need().vram_torch_wake(_device(device), None if tag is None else _name(tag)))


def report(device: Any = None, json: bool = False) -> str:
    """Everything that libvram counts on the device, as lines of text or as JSON (schema vram.stats/1)."""
    library = _need()
    text = library.vram_torch_report(_device(device), 1 if json else 0)
    if not text:
        raise VramTorchError(library.vram_torch_error().decode(errors="replace"))
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        library.vram_torch_text_free(text)


def stats(device: Any = None) -> Dict[str, int]:
    """The pool's own counters that torch.cuda.memory_stats has no keys for; {} before the first allocation."""
    values = (ctypes.c_uint64 * len(STATS))()
    count = _need().vram_torch_stats(_device(device), values, len(STATS))
    return dict(zip(STATS, values)) if count == len(STATS) else {}
