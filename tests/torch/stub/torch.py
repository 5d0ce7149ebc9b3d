# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as bench/torch_child.py and serve_kv_cache need, without a device.

The two allocators of PyTorch reserve a fixed multiple of what is live (default 1.25, expandable 1.1).
A plug-in is the real one, over the tests' CUDA driver. STUB_FAULT=poison makes the device useless
after a refusal, STUB_FAULT=keep keeps what was live then."""
import ctypes
import os
import types

__version__ = "stub"
float32, bfloat16 = 4, 2
TOTAL = 64 << 30
EXPANDABLE = "expandable" in os.environ.get("PYTORCH_ALLOC_CONF", "")
SHARE = 1.1 if EXPANDABLE else 1.25
FAULT = os.environ.get("STUB_FAULT", "")
state = types.SimpleNamespace(live=0, peak=0, reserved_peak=0, allocs=0, limit=TOTAL, plugin=None,
                              poisoned=False, kept=[])


class OutOfMemoryError(RuntimeError):
    pass


def refuse(size):
    state.poisoned = FAULT == "poison"
    if FAULT == "keep":
        state.kept.append(take(int(0.01 * state.limit), True))
    raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.\nMore of it.")


def take(size, anyway=False):
    if state.plugin is not None:
        address = state.plugin.vram_torch_alloc(size, 0, None)
        if not address:
            raise MemoryError("std::bad_alloc")
        return address
    if (state.live + size) * SHARE > state.limit and not anyway:
        refuse(size)
    state.live += size
    state.allocs += 1
    state.peak = max(state.peak, state.live)
    state.reserved_peak = max(state.reserved_peak, int(state.live * SHARE))
    return 1


class Tensor:
    def __init__(self, shape):
        self.shape, self.address, self.bytes = shape, None, 2
        for dimension in shape:
            self.bytes *= dimension
        self.address = take(self.bytes)

    def __getitem__(self, places):
        return types.SimpleNamespace(shape=self.shape[:2] + (places[2].stop,) + self.shape[3:])

    def __del__(self):
        if self.address is None:
            return
        if state.plugin is not None:
            state.plugin.vram_torch_free(self.address, self.bytes, 0, None)
        else:
            state.live -= self.bytes


def empty(*shape, dtype, device):
    return Tensor(shape)


def cat(parts, dim):
    first = parts[0].shape
    return Tensor(first[:dim] + (sum(part.shape[dim] for part in parts),) + first[dim + 1:])


def set_default_dtype(dtype):
    pass


def manual_seed(seed):
    pass


def synchronize():
    if state.poisoned:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


def reset_peaks():
    state.peak, state.reserved_peak = state.live, int(state.live * SHARE)


def set_fraction(fraction):
    state.limit = int(fraction * TOTAL)


def memory_stats():
    return {"requested_bytes.all.peak": state.peak, "requested_bytes.all.current": state.live,
            "reserved_bytes.all.peak": state.reserved_peak,
            "reserved_bytes.all.current": int(state.live * SHARE),
            "allocation.all.allocated": state.allocs}


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        self.library = ctypes.CDLL(path)
        self.library.vram_torch_alloc.restype = ctypes.c_void_p
        self.library.vram_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.library.vram_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                                 ctypes.c_void_p]

    def allocator(self):
        return types.SimpleNamespace(set_record_stream_fn=lambda address: None,
                                     set_reset_fn=lambda address: None)


def change_allocator(allocator):
    state.plugin = allocator.library


def empty_cache():
    if state.plugin is not None:
        state.plugin.vram_torch_empty_cache()


cuda = types.SimpleNamespace(
    init=lambda: None, synchronize=synchronize, current_device=lambda: 0, empty_cache=empty_cache,
    memory_stats=memory_stats, reset_peak_memory_stats=reset_peaks,
    set_per_process_memory_fraction=set_fraction,
    get_device_properties=lambda device: types.SimpleNamespace(name="stub", total_memory=TOTAL),
    memory=types.SimpleNamespace(CUDAPluggableAllocator=CUDAPluggableAllocator,
                                 change_current_allocator=change_allocator))
_C = types.SimpleNamespace(_cuda_clearCublasWorkspaces=lambda: None)
