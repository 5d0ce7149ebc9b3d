# SPDX-License-Identifier: Apache-2.0
"""Finds the adapter for the installed PyTorch, or compiles it once.

The adapter is C++ against PyTorch's own headers, so one file fits one minor version of PyTorch. Looked for, in this
order: the file that LIBVRAM_TORCH_EXTENSION names; a prebuilt one in this package; one that was compiled here before. Else
it is compiled with a plain C++ compiler (CXX, c++, g++ or clang++; no nvcc, no CUDA headers) into a folder of the user's
cache, under a lock: of several processes that start together one compiles, and the others wait for it.
"""
from __future__ import annotations

import concurrent.futures
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", "..", ".."))
ABI = 4  # VRAM_TORCH_ABI of adapters/pytorch/control.h
COMPILE_SECONDS = 600
# What declares the class that the adapter implements. A nightly or a vendor's PyTorch may differ in them from the
# release of its number.
CLASS_HEADERS = ("c10/core/Allocator.h", "c10/core/CachingDeviceAllocator.h", "c10/cuda/CUDACachingAllocator.h")
# As cmake/flags.cmake has it; every compiler that knows C++20 knows these. A C library that cannot check at level 3
# does so at level 2.
HARDENED = ["-fstack-protector-strong", "-fstack-clash-protection", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
HARDENED_ON = {"x86_64": ["-fcf-protection"], "aarch64": ["-mbranch-protection=standard"]}
HARDENED_LINK = ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]


class NoExtension(Exception):
    """There is no adapter for this PyTorch, and none could be compiled."""


class WrongFile(Exception):
    """A file that the environment names cannot be used. Nothing else is tried instead: the user chose it."""


# --------------------------------------------------------------------------- where things are

def library_path() -> str:
    """libvram, the same copy that the rest of the package uses."""
    from .._library import lib
    with open("/proc/self/maps", encoding="utf-8") as maps:  # it may have been found by its soname alone
        paths = {line.split()[-1] for line in maps if os.path.basename(line.split()[-1]).startswith("libvram.so")}
    return lib.path if os.sep in lib.path or not paths else paths.pop()


def source_folders() -> Optional[List[str]]:
    """The adapter's sources and libvram's headers: in the package, or in the tree that it lies in."""
    for sources, headers in ((os.path.join(HERE, "source", "pytorch"), os.path.join(HERE, "source", "include")),
                             (os.path.join(ROOT, "adapters", "pytorch"), os.path.join(ROOT, "include"))):
        if os.path.exists(os.path.join(sources, "allocator.cpp")) and os.path.isdir(headers):
            return [sources, headers]
    return None


def plugin_path() -> Optional[str]:
    """The C plug-in, beside this file or in a build of the tree."""
    named = os.environ.get("LIBVRAM_TORCH_PLUGIN")
    if named:
        return named
    for path in [os.path.join(HERE, "native", "libvram_torch.so")] + [
            os.path.join(ROOT, folder, "bench", "libvram_torch.so") for folder in ("build", "build-h200")]:
        if os.path.exists(path):
            return path
    return None


def cache_folder() -> str:
    """A folder of the user's own that others cannot write to."""
    named = os.environ.get("LIBVRAM_TORCH_CACHE")
    base = named or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vram", "torch")
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
        if os.access(base, os.W_OK | os.X_OK):
            return base
    except OSError:
        if named:
            raise NoExtension(f"LIBVRAM_TORCH_CACHE names {base}, which cannot be made or written")
    base = os.path.join(tempfile.gettempdir(), f"vram-torch-{os.getuid()}")
    os.makedirs(base, mode=0o700, exist_ok=True)
    state = os.lstat(base)
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise NoExtension(f"{base} belongs to somebody else; name a folder in LIBVRAM_TORCH_CACHE")
    return base


def minor_version(torch: Any) -> str:
    return ".".join(torch.__version__.split("+")[0].split(".")[:2])


def include_folder(torch: Any) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")


def class_of(torch_include: str) -> str:
    """Names the class of allocators in a PyTorch, whatever the comments in its headers; "" without them."""
    digest, found = hashlib.sha256(), False
    for name in CLASS_HEADERS:
        path = os.path.join(torch_include, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                digest.update(name.encode() + re.sub(rb"//[^\n]*|\s+", b"", file.read()))
            found = True
    return digest.hexdigest()[:16] if found else ""


# ------------------------------------------------------------------------------------ loading

def load(torch: Any) -> ctypes.CDLL:
    """The adapter, loaded and checked. Raises NoExtension with what was tried, or WrongFile."""
    if sys.platform != "linux":
        raise NoExtension("vram.torch runs on Linux")
    base = ctypes.CDLL(library_path())  # before the adapter, which needs it by its soname
    named, tried = os.environ.get("LIBVRAM_TORCH_EXTENSION"), []
    if named:
        try:
            return _open(named, torch, base)
        except (OSError, NoExtension) as error:
            raise WrongFile(f"LIBVRAM_TORCH_EXTENSION names {named}, which is no adapter for PyTorch {torch.__version__} "
                            f"({error}). Unset the variable, or name an adapter that was compiled for this version"
                            ) from error
    prebuilt = os.path.join(HERE, "native", f"libvram_torch-{minor_version(torch)}.so")
    if os.path.exists(prebuilt) and torch._C._GLIBCXX_USE_CXX11_ABI:  # as PyTorch's own wheels
        try:
            return _open(prebuilt, torch, base)
        except (OSError, NoExtension) as error:
            tried.append(f"{prebuilt}: {error}")
    try:
        return _open(compile_once(torch), torch, base)
    except (OSError, NoExtension) as error:
        raise NoExtension("; ".join(tried + [str(error)])) from error


def _open(path: str, torch: Any, base: ctypes.CDLL) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    try:
        library.vram_torch_built_for.restype = library.vram_torch_class.restype = ctypes.c_char_p
        have = library.vram_torch_abi()
    except AttributeError as error:
        raise NoExtension(f"it is another library: {error}") from error
    library.base = base
    if have != ABI:
        raise NoExtension(f"it has interface {have}, this package needs {ABI}")
    built_for = library.vram_torch_built_for().decode()
    if built_for != minor_version(torch):
        raise NoExtension(f"it was compiled for PyTorch {built_for}, this is {torch.__version__}")
    here = class_of(include_folder(torch))
    if here and here != library.vram_torch_class().decode():
        raise NoExtension(f"it was compiled for another PyTorch {built_for} than this {torch.__version__}, whose allocator "
                          "has another class")
    return library


# ---------------------------------------------------------------------------------- compiling

def find_compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise NoExtension("there is no C++ compiler; install g++")


def _packed() -> str:
    """The versions of PyTorch that this package has an adapter for."""
    folder = os.path.join(HERE, "native")
    names = " ".join(os.listdir(folder)) if os.path.isdir(folder) else ""
    return ", ".join(sorted(re.findall(r"libvram_torch-([\d.]+)\.so", names), key=lambda v: int(v.split(".")[1])))


def source_files(folder: str) -> List[str]:
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".cpp"))


def _key(torch: Any, folders: List[str]) -> str:
    """Names what a compiled adapter depends on: PyTorch, the sources, libvram's headers, the flags."""
    digest = hashlib.sha256()
    digest.update(f"{torch.__version__} {torch.version.git_version} {class_of(include_folder(torch))} {ABI} "
                  f"{HARDENED + HARDENED_ON.get(platform.machine(), []) + HARDENED_LINK}".encode())
    for folder in folders + [os.path.join(folders[0], "cuda"), os.path.join(folders[1], "vram")]:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and name.endswith((".cpp", ".h")):
                with open(path, "rb") as file:
                    digest.update(name.encode() + file.read())
    return f"libvram_torch-{minor_version(torch)}-{digest.hexdigest()[:16]}.so"


def compile_once(torch: Any) -> str:
    """The path of an adapter compiled for this PyTorch, now or earlier."""
    folders = source_folders()
    if folders is None:
        raise NoExtension(f"this package has no adapter for PyTorch {torch.__version__} and no sources to compile one")
    final = os.path.join(cache_folder(), _key(torch, folders))
    if os.path.exists(final):
        return final
    try:
        compiler = find_compiler()
    except NoExtension as error:
        raise NoExtension(f"there is no adapter for PyTorch {minor_version(torch)} and no C++ compiler to make one; install "
                          f"g++, or a vram with an adapter for it (this one has {_packed() or 'none'})") from error
    import fcntl
    from vram_autoload import say
    what = f"the adapter for PyTorch {minor_version(torch)}, once: a minute of one core, less on more"
    with open(final + ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, whatever happens to it
        except BlockingIOError:
            say(f"vram.torch: waiting for a process that compiles {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(final):
            say(f"vram.torch: compiling {what}")
            _compile(torch, folders, compiler, final)
    return final


def flags_for(folders: List[str], torch_include: str, cxx11_abi: bool, machine: str = platform.machine()) -> List[str]:
    return HARDENED + HARDENED_ON.get(machine, []) + [
            "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={int(cxx11_abi)}",
            f'-DVRAM_TORCH_CLASS="{class_of(torch_include)}"',
            "-I" + os.path.join(folders[0], "cuda"), "-I" + folders[1], "-isystem", torch_include,
            "-isystem", os.path.join(torch_include, "torch", "csrc", "api", "include")]


def run(command: List[str]) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=COMPILE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NoExtension(f"the compiler ran longer than {COMPILE_SECONDS} s: {' '.join(command)}")
    if done.returncode != 0:
        text = done.stdout.decode(errors="replace")
        first = next((line for line in text.splitlines() if "error" in line), text[-300:])
        raise NoExtension(f"the adapter does not compile: {first}\nThe command was: {' '.join(command)}")


def compile_all(compiler: str, flags: List[str], sources: List[str], scratch: str) -> List[str]:
    """The objects of all sources, compiled in parallel."""
    objects = [os.path.join(scratch, os.path.basename(path) + ".o") for path in sources]
    commands = [[compiler] + flags + ["-c", source, "-o", out] for source, out in zip(sources, objects)]
    with concurrent.futures.ThreadPoolExecutor(min(len(commands), os.cpu_count() or 1)) as pool:
        list(pool.map(run, commands))
    return objects


def _compile(torch: Any, folders: List[str], compiler: str, final: str) -> None:
    flags = flags_for(folders, include_folder(torch), torch._C._GLIBCXX_USE_CXX11_ABI)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(final)) as scratch:
        objects = compile_all(compiler, flags, source_files(folders[0]), scratch)
        made = os.path.join(scratch, "adapter.so")
        run([compiler, "-shared", "-o", made] + objects + link_flags(
            os.path.join(os.path.dirname(include_folder(torch)), "lib"), library_path()))
        os.replace(made, final)


def link_flags(torch_lib: str, libvram: str) -> List[str]:
    """All of these are loaded when the adapter is, and found by their sonames. What PyTorch's own libraries need in turn
    is not looked at."""
    return ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-L" + torch_lib, "-lc10", "-lc10_cuda", "-ltorch_cuda",
            os.path.realpath(libvram), "-Wl,--as-needed", "-lpthread"] + HARDENED_LINK
