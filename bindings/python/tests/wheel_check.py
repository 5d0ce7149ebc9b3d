# SPDX-License-Identifier: Apache-2.0
"""wheel_check.py BUILD | --sdist: makes the wheel of what lies in BUILD, or of a source distribution, which is
compiled; installs it into a fresh virtual environment without a network, uses the package there, and removes it. The
same in place (pip install -e), as far as PyTorch's entry point goes. Exit code 77 where Python has no venv or no pip of its own."""
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import vram_build  # noqa: E402

ADAPTERS = ("libvram_torch-2.11.so", "libvram_torch-2.12.so")
PROGRAM = """
import os, vram
assert os.path.dirname(vram.__file__).startswith(os.environ["PLACE"]), vram.__file__
assert vram._library.lib.path.startswith(os.environ["PLACE"]), vram._library.lib.path
with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
    with device.queue() as queue, pool.buffer("1MiB", queue=queue) as buffer:
        buffer.write(b"from a wheel")
        assert buffer.read()[:12] == b"from a wheel"
assert vram.replay(generate="steady,steps=1", memory="8G")["schema"] == "vram.replay/1"
print(vram.__version__)
"""

# As PyTorch does at the end of its import; here there is no PyTorch, of which one line tells.
ENTRY = """
from importlib.metadata import entry_points
points = entry_points()
points = points.select(group="torch.backends") if hasattr(points, "select") else points["torch.backends"]
for point in points:
    point.load()()
"""


def say(command, **variables):
    """What a command writes; it must succeed. No variable of the library's, and no pip configuration, reaches it."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("VRAM_", "LIBVRAM_", "PIP_", "PYTHON"))}
    environment.update(PIP_CONFIG_FILE=os.devnull, PYTHONDONTWRITEBYTECODE="1", **variables)
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise SystemExit(f"{command} ended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout + (run.stderr if command[-1] == ENTRY else "")


def check_entry(python, text, **variables):
    """The entry point says `text` with VRAM_TORCH, and nothing without."""
    assert say([python, "-I", "-c", ENTRY], **variables) == "", "something is loaded without VRAM_TORCH"
    told = say([python, "-I", "-c", ENTRY], VRAM_TORCH="1", **variables)
    assert told.startswith("vram.torch: VRAM_TORCH=1: ") and text in told and told.count("\n") == 1, told


def check_wheel(path, version, adapters=()):
    """Every file is recorded, and the library and the command can be executed."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        record = wheel.read(f"vram-{version}.dist-info/RECORD").decode().split()
        assert sorted(row.split(",")[0] for row in record) == sorted(names), "RECORD does not list all files"
        for name in ("vram/native/libvram.so.0", "vram/native/libvram_cupy.so", "vram/native/vram", "vram/py.typed",
                     "vram/native/vulkan/VkLayer_vram_run.json", f"vram-{version}.dist-info/licenses/LICENSE",
                     "vram/generated/api.py", "vram/torch/source/pytorch/allocator.cpp",
                     "vram/torch/source/pytorch/cuda/cuda_runtime_api.h", "vram/torch/source/include/vram/shared.h"):
            assert name in names, f"the wheel has no {name}"
        for name in adapters:
            assert f"vram/torch/native/{name}" in names, f"the wheel has no {name}"
        assert wheel.getinfo("vram/native/vram").external_attr >> 16 & 0o111, "the command cannot be executed"
        assert not [name for name in names if "__pycache__" in name or name.startswith("tests")], names


def from_sources(work, version):
    """The wheel of the source distribution, as pip makes it for a user."""
    path = os.path.join(work, vram_build.build_sdist(work))
    with tarfile.open(path) as sources:
        names = set(sources.getnames())
        for name in ("CMakeLists.txt", "pyproject.toml", "PKG-INFO", "bindings/python/vram_build.py"):
            assert f"vram-{version}/{name}" in names, f"the source distribution has no {name}"
    say([sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-build-isolation", "--no-deps", "-w", work,
         path])
    return next(os.path.join(work, name) for name in os.listdir(work) if name.endswith(".whl"))


def main():
    try:
        import pip  # noqa: F401
        import venv
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    if sys.argv[1] == "--sdist" and not os.path.exists(os.path.join(vram_build.ROOT, ".git")):
        print("skipped: a source distribution has the files that git knows, and this tree is not git's")
        return 77
    version = vram_build.version()
    with tempfile.TemporaryDirectory() as work:
        if sys.argv[1] == "--sdist":
            wheel = from_sources(work, version)
        else:
            adapters = os.path.join(work, "adapters")  # as tools/torch-adapters fills it
            os.mkdir(adapters)
            for name in ADAPTERS:
                open(os.path.join(adapters, name), "w", encoding="utf-8").close()
            settings = {"build-dir": os.path.abspath(sys.argv[1]), "torch-adapters": adapters}
            wheel = os.path.join(work, vram_build.build_wheel(work, settings))
        check_wheel(wheel, version, ADAPTERS if sys.argv[1] != "--sdist" else ("libvram_torch.so",))
        place = os.path.realpath(os.path.join(work, "place"))
        venv.create(place, with_pip=False, symlinks=True)
        python = os.path.join(place, "bin", "python")
        pip_there = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "-q"]
        say(pip_there + ["install", "--no-index", "--no-deps", wheel])
        assert say([python, "-c", PROGRAM], PLACE=place).strip() == version
        assert version in say([os.path.join(place, "bin", "vram"), "--version"])
        say([os.path.join(place, "bin", "vram"), "run", "-o", os.path.join(work, "x.vrt"), "--", python, "-c", ""])
        other = os.path.abspath(sys.argv[1])  # a libvram of the system's: the wheel's own goes first, and both are told
        told = say([python, "-m", "vram", "info", "--backend", "sim"], LD_LIBRARY_PATH=other)
        assert f"{place}/" in told.partition(f"(taken, {version})")[0] and "sim:0" in told, told
        assert f"the system's       {other}/libvram.so.0\n" in told or sys.argv[1] == "--sdist", told
        check_entry(python, "PyTorch cannot be imported")
        say(pip_there + ["uninstall", "-y", "vram"])
        say(pip_there + ["install", "--no-index", "--no-build-isolation", "--no-deps", "-e", HERE])
        check_entry(python, "libvram was not found", LIBVRAM_PATH=os.path.join(work, "nothing.so"))
        say(pip_there + ["uninstall", "-y", "vram"])
        left = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names
                if "vram" in os.path.join(folder, name)[len(place):]]
        assert not left, f"left behind: {left}"
    print(f"vram-{version}: built, installed, used and removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
