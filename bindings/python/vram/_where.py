# SPDX-License-Identifier: Apache-2.0
"""Which file a loaded libvram is; as a program, which one the system has: python _where.py libvram.so.0."""
import ctypes
import sys


class _Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def file_of(library: ctypes.CDLL) -> str:
    """The path that the loader took the library from."""
    place = _Place()
    if ctypes.CDLL(None).dladdr(ctypes.cast(library.vram_version, ctypes.c_void_p), ctypes.byref(place)) == 0:
        return str(library._name)
    return str(place.file.decode(errors="replace"))


if __name__ == "__main__":
    try:
        print(file_of(ctypes.CDLL(sys.argv[1])))
    except (OSError, AttributeError):
        sys.exit(1)
