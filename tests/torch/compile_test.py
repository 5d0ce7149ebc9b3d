#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_test.py SOURCE LIBVRAM [CXX]: adapters/pytorch against every PyTorch that LIBVRAM_TORCH_HEADERS names.

LIBVRAM_TORCH_HEADERS is a list of folders, joined by colons: what the wheels of PyTorch were unpacked into
(`pip download --no-deps torch==2.11.0; unzip torch-2.11.0-*.whl 'torch/include/*' 'torch/lib/libc10*.so'
'torch/lib/libtorch_cuda.so'`). Each adapter is compiled and linked, and every symbol that it needs has to be in the
libraries of that PyTorch, so that it can be loaded there. Exit code 77 without folders: not tested.
"""
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(SOURCE, "bindings", "python", "vram", "torch"))
import extension  # noqa: E402

SYSTEM = re.compile(r"^(_ITM_|__gmon_start__|__cxa_finalize|__tls_get_addr|cuda[A-Z]|vram_)")
STANDARD = ("libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6")


def symbols(path, kind):
    out = subprocess.run(["nm", "-D", kind, path], stdout=subprocess.PIPE, check=True).stdout.decode()
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.split()}


def standard_symbols(compiler):
    found = set()
    for name in STANDARD:
        path = subprocess.run([compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, check=True)
        found |= symbols(os.path.realpath(path.stdout.decode().strip()), "--defined-only")
    return found


def runtime_symbols():
    """The functions that adapters/pytorch/cuda declares."""
    with open(os.path.join(SOURCE, "adapters", "pytorch", "cuda", "cuda_runtime_api.h"), encoding="utf-8") as file:
        return set(re.findall(r"\b(cuda[A-Za-z]+)\(", file.read()))


def check(home, libvram, compiler, scratch):
    """What is wrong with the adapter for the PyTorch in `home`, as a list of lines."""
    lib, folders = os.path.join(home, "torch", "lib"), extension.source_folders()
    flags = extension.flags_for(folders, os.path.join(home, "torch", "include"), True)
    flags += ["-Wall", "-Wextra", "-Werror", "-O0", "-U_FORTIFY_SOURCE"]  # which needs an optimizer
    made = os.path.join(scratch, "adapter.so")
    try:
        objects = extension.compile_all(compiler, flags, extension.source_files(folders[0]), scratch)
        extension.run([compiler, "-shared", "-o", made] + objects + extension.link_flags(lib, libvram))
    except extension.NoExtension as error:
        return [str(error)]
    have = standard_symbols(compiler) | symbols(libvram, "--defined-only") | runtime_symbols()
    for name in ("libc10.so", "libc10_cuda.so", "libtorch_cuda.so"):
        have |= symbols(os.path.join(lib, name), "--defined-only")
    missing = {name for name in symbols(made, "--undefined-only") - have if not SYSTEM.match(name)}
    unknown = {name for name in symbols(made, "--undefined-only") if name.startswith("cuda")} - runtime_symbols()
    exported = {name for name in symbols(made, "--defined-only") if name.startswith("vram_torch_")}
    lines = [f"no library has {name}" for name in sorted(missing | unknown)]
    return lines + ([] if "vram_torch_enable" in exported else ["vram_torch_enable is not exported"])


def main():
    libvram, compiler = sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "c++"
    homes = [home for home in os.environ.get("LIBVRAM_TORCH_HEADERS", "").split(":") if home]
    if not homes:
        print("LIBVRAM_TORCH_HEADERS names no PyTorch: not tested")
        return 77
    failed = 0
    for home in homes:
        with tempfile.TemporaryDirectory() as scratch:
            lines = check(home, libvram, compiler, scratch)
        print(f"{home}: {'compiles, and has every symbol' if not lines else 'FAILED'}", *lines, sep="\n", flush=True)
        failed += bool(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
