# SPDX-License-Identifier: Apache-2.0
"""What a forked child sees where its parent's views show memory.

The library keeps the memory of its pools out of a child (MADV_DONTFORK): it is shared, and the child would write into
it. A memoryview or an array there would be a segmentation fault. So the child gets private mappings of the same files:
it reads what the parent has there, and writes for itself alone. Memory that is not a file's, as a GPU driver's own, is
left to the driver. What the child has anyway, as the shared memory of a wrapped array, stays what it is.
"""
from __future__ import annotations

import ctypes
import os
import stat
import sys
from typing import Any, Dict, List, Tuple

shown: Dict[object, Tuple[int, int]] = {}  # where the memory of a view lies, and its bytes
_Part = Tuple[int, int, int, int, Tuple[int, int]]  # address, bytes, protection, offset in the file, device and inode
_parts: List[_Part] = []
_MAP_PRIVATE, _MAP_FIXED_NOREPLACE = 2, 1 << 20  # before Linux 4.17 a hint, which replaces nothing either


def _parts_of(lines: Any, ranges: List[Tuple[int, int]]) -> List[_Part]:
    """Which parts of files are mapped in the ranges, by the lines of /proc/self/maps."""
    found = []
    for line in lines:
        place, rights, offset, device, inode = line.split()[:5]
        low, high = (int(part, 16) for part in place.split("-"))
        major, minor = (int(part, 16) for part in device.split(":"))
        for begin, end in ranges if rights[3] == "s" and inode != "0" else ():
            first, last = max(low, begin), min(high, end)
            if first < last:
                found.append((first, last - first, (rights[0] == "r") | (rights[1] == "w") << 1,
                              int(offset, 16) + first - low, (os.makedev(major, minor), int(inode))))
    return found


def _before() -> None:
    _parts.clear()
    page = os.sysconf("SC_PAGESIZE")
    ranges: List[Tuple[int, int]] = []  # in pages, without overlaps
    for begin, nbytes in sorted(list(shown.values())):
        low, high = begin - begin % page, -(-(begin + nbytes) // page) * page
        low = max(low, ranges[-1][1]) if ranges else low
        if nbytes and low < high:
            ranges.append((low, high))
    if ranges:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            _parts.extend(_parts_of(lines, ranges))


def _in_child() -> None:
    if not _parts:
        return
    files: Dict[Tuple[int, int], int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            about = os.fstat(int(name))
        except OSError:  # the listing's own
            continue
        if stat.S_ISREG(about.st_mode):
            files[(about.st_dev, about.st_ino)] = int(name)
    mmap = ctypes.CDLL(None).mmap
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    for address, nbytes, protection, offset, file in _parts:
        if file in files:
            mmap(address, nbytes, protection, _MAP_PRIVATE | _MAP_FIXED_NOREPLACE, files[file], offset)


if sys.platform == "linux":
    os.register_at_fork(before=_before, after_in_child=_in_child)
