# SPDX-License-Identifier: Apache-2.0
"""Contents of paused memory: on the host or in files, range by range. For memory_saver.py."""
from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import warnings
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import adapter

PAGE = mmap.PAGESIZE
BUSY, INVALID = -61, -1  # of vram_status
SMALL = 32 << 20         # bytes of a tag whose pieces of physical memory may all have other blocks too
CHUNK = 256 << 20        # bytes of a file that are read or written at once: TMS_DISK_BACKUP_CHUNK_MB


class Range(ctypes.Structure):
    """vram_torch_range of adapters/pytorch/control.h."""
    _fields_ = [("addr", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("host", ctypes.c_uint64)]


def _call(name: str, *arguments: Any) -> int:
    """A function of the adapter; its result, or VramTorchError."""
    done = getattr(adapter._need(), name)(*arguments)
    if done < 0:
        adapter._check(done)
    return done


def ranges_of(tag: bytes, device: int) -> Dict[int, int]:
    """The blocks of exactly this tag: their bytes, by address."""
    most = 0
    while True:
        found = (Range * most)()
        count = _call("vram_torch_tag_ranges", device, tag, found, most)
        if count <= most:
            return {found[i].addr: found[i].bytes for i in range(count)}
        most = count


def copy(device: int, parts: Sequence[Tuple[int, int, int]], to_host: bool) -> None:
    """Copies (address, bytes, address on the host), and waits."""
    if parts:
        _call("vram_torch_copy", device, (Range * len(parts))(*parts), len(parts), int(to_host))


def _available() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


class Pages:
    """Host memory, page-locked or not. Tensors over it (view) keep it after this is gone."""

    def __init__(self, size: int, device: int) -> None:
        import torch
        available = _available()
        if available is not None and size > available:
            raise adapter.VramTorchError(f"the contents take {size} bytes of host memory, and {available} are available")
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise adapter.VramTorchError(f"there are no {size} bytes of host memory for contents: {error}") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                memory.madvise(mmap.MADV_HUGEPAGE)  # several times as fast to clear and to lock
            except OSError:
                pass  # a system without them
        self.tensor = torch.frombuffer(memory, dtype=torch.uint8)
        self.address, self.size, self.device, self.locked = self.tensor.data_ptr(), size, device, False

    def lock(self) -> None:
        """Page-locks it. A system that refuses leaves it as it is: copies are slower then."""
        if not self.locked:
            try:
                _call("vram_torch_host_lock", self.device, self.address, self.size, 1)
                self.locked = True
            except adapter.VramTorchError:
                pass

    def __del__(self) -> None:
        if getattr(self, "locked", False):
            try:
                _call("vram_torch_host_lock", self.device, self.address, self.size, 0)
            except Exception:  # at the end of the process, or of the device
                pass


class HostPlace:
    """Where the contents of one range lie."""

    def __init__(self, pages: Pages, offset: int, size: int) -> None:
        self.pages, self.offset, self.bytes = pages, offset, size

    def view(self, offset: int, size: int) -> Any:
        return self.pages.tensor[self.offset + offset:self.offset + offset + size]


def _remove(path: str, process: int) -> None:
    if process == os.getpid():  # not in a child that was forked
        try:
            os.unlink(path)
        except OSError:
            pass


class FilePlace:
    """A file with the contents of one range, which only this user can read and which ends with this object."""

    def __init__(self, folder: str, size: int) -> None:
        try:
            file, self.path = tempfile.mkstemp(prefix="vram_", dir=folder)  # mode 0600
        except OSError as error:
            raise adapter.VramTorchError(f"no file for contents can be made in {folder}: {error}") from error
        self.remove, self.bytes = weakref.finalize(self, _remove, self.path, os.getpid()), size
        try:
            os.posix_fallocate(file, 0, size)  # a full disk says so now
            state = os.fstat(file)
        except OSError as error:
            raise adapter.VramTorchError(f"{self.path} cannot have {size} bytes: {error}") from error
        finally:
            os.close(file)
        self.identity = (state.st_dev, state.st_ino)

    def transfer(self, device: int, addr: int, chunk: Pages, to_file: bool) -> None:
        """Copies the range to the file, or back."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                state = os.fstat(file)
                if (state.st_dev, state.st_ino) != self.identity or state.st_size < self.bytes:
                    raise adapter.VramTorchError(f"{self.path} is not the file that was made for contents")
                self._chunks(file, device, addr, chunk, to_file)
                os.fdatasync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # it is not to fill the host's memory
            finally:
                os.close(file)
        except OSError as error:
            raise adapter.VramTorchError(f"contents cannot be {'written to' if to_file else 'read from'} {self.path}: "
                                         f"{error}") from error

    def _chunks(self, file: int, device: int, addr: int, chunk: Pages, to_file: bool) -> None:
        bytes_of = memoryview((ctypes.c_char * chunk.size).from_address(chunk.address)).cast("B")
        for first in range(0, self.bytes, chunk.size):
            size = min(chunk.size, self.bytes - first)
            if to_file:
                copy(device, [(addr + first, size, chunk.address)], True)
            done = 0
            while done < size:
                part = bytes_of[done:size]
                moved = os.pwrite(file, part, first + done) if to_file else os.preadv(file, [part], first + done)
                if moved == 0:
                    raise OSError(f"it ends at byte {first + done}")
                done += moved
            if not to_file:
                copy(device, [(addr + first, size, chunk.address)], False)


class Memory:
    """The memory of one tag and device, and its contents while it is paused, or after that if they are retained."""

    def __init__(self, tag: bytes, kind: str, device: int) -> None:
        self.tag, self.kind, self.device = tag, kind, device
        self.paused = self.asleep = False
        self.places: Dict[int, Any] = {}  # by address

    def forget_freed(self) -> None:
        """Ends contents of blocks that have been freed."""
        if self.places:
            live = ranges_of(self.tag, self.device)
            self.places = {addr: place for addr, place in self.places.items() if live.get(addr) == place.bytes}

    def pause(self, retain: bool, folder: str) -> None:
        """After VramTorchError nothing has changed, but retained contents are gone."""
        live = ranges_of(self.tag, self.device)
        if self.paused and not live:
            self.resume(False)  # of what was freed
        if self.paused or not live:
            return
        try:
            if self.kind != "drop":
                self._save(live, retain, folder)
            self._sleep(live)
        except BaseException:
            self.places.clear()
            raise
        self.paused = True

    def _sleep(self, live: Dict[int, int]) -> None:
        try:
            adapter.sleep(self.tag.decode(), keep="drop", device=self.device)
            self.asleep = True
        except adapter.VramTorchError as error:
            if error.status != BUSY:
                raise
            if sum(live.values()) > SMALL:  # it stays where it is, with its contents
                warnings.warn(f"pause() has released nothing of {self.tag.decode()}: {error}", stacklevel=5)

    def resume(self, retain: bool) -> None:
        """After a failure it is paused still, and resume may be called again."""
        if not self.paused:
            return
        live = ranges_of(self.tag, self.device)  # now: blocks of later times have other contents
        if self.asleep:
            try:
                adapter.wake(self.tag.decode(), device=self.device)
            except adapter.VramTorchError as error:
                if error.status != INVALID:  # all of it was freed
                    raise
            self.asleep = False
        self._restore({addr: place for addr, place in self.places.items() if live.get(addr) == place.bytes})
        self.paused = False
        if not retain and self.kind != "disk":
            self.places.clear()

    def _save(self, live: Dict[int, int], retain: bool, folder: str) -> None:
        self.places = {addr: place for addr, place in self.places.items() if live.get(addr) == place.bytes}
        new = [addr for addr in live if addr not in self.places]
        if self.kind == "disk":
            for addr in new:
                self.places[addr] = FilePlace(folder, live[addr])
            self._files(self.places, True)
            return
        locks = retain and self.kind == "pinned"
        if locks:
            self._lock()
        if new:
            starts = [0]
            for addr in new:
                starts.append(starts[-1] + (live[addr] + PAGE - 1) // PAGE * PAGE)
            pages = Pages(starts[-1], self.device)
            for addr, start in zip(new, starts):
                self.places[addr] = HostPlace(pages, start, live[addr])
        copy(self.device, self._parts(self.places), True)
        if locks:
            self._lock()  # pages that have been written are locked in half of the time

    def _restore(self, places: Dict[int, Any]) -> None:
        if self.kind == "disk":
            self._files(places, False)
        else:
            copy(self.device, self._parts(places), False)

    def _lock(self) -> None:
        for pages in {id(place.pages): place.pages for place in self.places.values()}.values():
            pages.lock()

    @staticmethod
    def _parts(places: Dict[int, Any]) -> List[Tuple[int, int, int]]:
        return [(addr, place.bytes, place.pages.address + place.offset) for addr, place in places.items()]

    def _files(self, places: Dict[int, Any], to_file: bool) -> None:
        if places:
            wanted = (int(os.environ.get("TMS_DISK_BACKUP_CHUNK_MB") or 0) << 20) or CHUNK
            chunk = Pages(min(wanted, max(place.bytes for place in places.values())), self.device)
            for addr, place in places.items():
                place.transfer(self.device, addr, chunk, to_file)

    def find(self, addr: int, size: int) -> Tuple[Any, int]:
        """(the place on the host, the offset in it) of this memory; (None, 0) if it has none."""
        for start, place in self.places.items() if self.kind != "disk" else ():
            if start <= addr and addr + size <= start + place.bytes:
                return place, addr - start
        return None, 0

    def has(self, addr: int, size: int) -> bool:
        return any(start <= addr and addr + size <= start + most
                   for start, most in ranges_of(self.tag, self.device).items())
