# SPDX-License-Identifier: Apache-2.0
"""The build backend of this package (PEP 517 and 660): builds libvram and the command with CMake, and packs the wheel.

    pip wheel .                                            in this folder
    pip wheel . --config-settings build-dir=../../build    takes what was built there, and compiles nothing
    pip wheel . --config-settings plat-name=manylinux_2_36_x86_64
    pip wheel . --config-settings torch-adapters=../../build/torch-adapters    with adapters for PyTorch
    pip wheel . --config-settings licenses=FOLDER          texts for what is linked in, beside our own
    pip wheel . --config-settings home=https://...         the project's address, for Project-URL

It needs CMake and a C compiler, and nothing from PyPI. A wheel fits every Python from 3.9 on, and one platform;
tools/wheel makes those that fit every Linux with glibc 2.28. What the package is called and needs is in pyproject.toml.
"""
import ast
import base64
import gzip
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
PACKAGE = os.path.join(HERE, "vram")
NATIVE = ("libvram.0.dylib" if sys.platform == "darwin" else "libvram.so.0", "vram")
# The library comes with libvram-model: Ninja takes the name "vram" for the command, which brings what `vram run` needs.
TARGETS = ["vram_model", "vram_command", "vram_torch"] + ([] if sys.platform == "darwin" else ["vram_cupy"])
# Of a build, where it has them: musl's has no `vram run`.
PARTS = (("libvram-run.so", "vram/native/libvram-run.so", 0o755),
         ("vulkan/VkLayer_vram_run.json", "vram/native/vulkan/VkLayer_vram_run.json", 0o644),
         ("libvram_cupy.so", "vram/native/libvram_cupy.so", 0o755),
         ("bench/libvram_torch.so", "vram/torch/native/libvram_torch.so", 0o755))
AUTOLOAD = "vram_autoload.py"  # beside the package, whose import loads the library
WHEN = (1980, 1, 1, 0, 0, 0)  # of every file: the same sources make the same wheel


def version():
    with open(os.path.join(ROOT, "include", "vram", "base.h"), encoding="utf-8") as file:
        text = file.read()
    numbers = [re.search(rf"VRAM_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(numbers) + re.search(r'VRAM_VERSION_PRE "(.*)"', text).group(1)


def _setting(settings, name):
    value = (settings or {}).get(name)
    return value[-1] if isinstance(value, list) else value


def _platform(settings):
    return _setting(settings, "plat-name") or re.sub(r"[-. ]", "_", sysconfig.get_platform())


# ---------------------------------------------------------------------- what is in it

def project():
    """pyproject.toml: {table: {key: value}}. Its values are strings and lists of them, which Python writes alike;
    Python 3.9 reads no TOML by itself."""
    tables, text, open_value = {}, _read(os.path.join(HERE, "pyproject.toml")).decode(), ""
    for line in text.splitlines():
        line = open_value + line.strip()
        if line.startswith("["):
            table = tables.setdefault(line[1:-1].replace('"', ""), {})
        elif line and not line.startswith("#"):
            key, value = (part.strip() for part in line.split("=", 1))
            open_value = line if value.startswith("[") and not value.endswith("]") else ""
            if not open_value:
                table[key.strip('"')] = ast.literal_eval(value)
    return tables


def _home(settings):
    """Project-URL of the address that is given: nobody but who publishes knows where that is."""
    home = (_setting(settings, "home") or os.environ.get("LIBVRAM_HOME") or "").rstrip("/")
    pages = {"Homepage": "", "Documentation": "/tree/main/docs", "Issues": "/issues",
             "Changelog": "/blob/main/CHANGELOG.md"}
    return [f"Project-URL: {name}, {home}{page}" for name, page in pages.items()] if home else []


def _metadata(settings, licenses=("LICENSE",)):
    about = project()["project"]
    lines = ["Metadata-Version: 2.4", f"Name: {about['name']}", f"Version: {version()}",
             f"Summary: {about['description']}", f"License-Expression: {about['license']}"]
    lines += [f"License-File: {name}" for name in licenses]
    lines += [f"Keywords: {','.join(about['keywords'])}", f"Requires-Python: {about['requires-python']}"]
    lines += [f"Classifier: {name}" for name in about["classifiers"]] + _home(settings)
    readme = _read(os.path.join(HERE, about["readme"])).decode()
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + readme


def _entry_points():
    tables = project()
    groups = {"console_scripts": tables["project.scripts"]}
    groups.update((name.split(".", 2)[2], table) for name, table in tables.items()
                  if name.startswith("project.entry-points."))
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
                     for group, table in groups.items())


def _wheel_file(settings):
    tags = "".join(f"Tag: py3-none-{name}\n" for name in _platform(settings).split("."))
    return f"Wheel-Version: 1.0\nGenerator: vram_build {version()}\nRoot-Is-Purelib: false\n{tags}"


def _information(settings):
    """The files of the dist-info folder, without RECORD."""
    licenses = {"LICENSE": _read(os.path.join(ROOT, "LICENSE")).decode()}
    given = _setting(settings, "licenses")
    for name in sorted(os.listdir(given)) if given else ():
        licenses[name] = _read(os.path.join(given, name)).decode()
    return {"METADATA": _metadata(settings, licenses), "WHEEL": _wheel_file(settings),
            "entry_points.txt": _entry_points(), **{f"licenses/{name}": text for name, text in licenses.items()}}


def _sources():
    """(path on disk, path in the wheel) of the package's own files."""
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "native"))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith((".pyc", ".pyo")):
                yield path, os.path.relpath(path, HERE)
    yield os.path.join(HERE, AUTOLOAD), AUTOLOAD
    yield from _adapter_sources()


def _adapter_sources():
    """What vram.torch compiles for a PyTorch that the wheel has no adapter for: its sources and libvram's headers."""
    for base, inside in ((os.path.join(ROOT, "adapters", "pytorch"), "pytorch"),
                         (os.path.join(ROOT, "include"), "include")):
        for folder, folders, names in os.walk(base):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".cpp", ".h")):
                    path = os.path.join(folder, name)
                    yield path, os.path.join("vram", "torch", "source", inside, os.path.relpath(path, base))


def _native(settings, built):
    """(path on disk, path in the wheel, mode) of what was compiled: the build's parts, and the adapters for PyTorch in
    the folder that torch-adapters names, which tools/torch-adapters fills."""
    for name in NATIVE:
        yield os.path.join(built, name), f"vram/native/{name}", 0o755
    for path, inside, mode in PARTS:
        if os.path.exists(os.path.join(built, path)):
            yield os.path.join(built, path), inside, mode
    given = _setting(settings, "torch-adapters") or os.environ.get("LIBVRAM_TORCH_ADAPTERS")
    if given:
        given = os.path.join(os.environ.get("PWD", os.getcwd()), given)
        for name in sorted(os.listdir(given)):
            if re.fullmatch(r"libvram_torch-\d+\.\d+\.so", name):
                yield os.path.join(given, name), f"vram/torch/native/{name}", 0o755


def compile_into(folder, *options, output=None):
    """Configures and builds in the folder what a wheel takes of it. What CMake writes goes to the output, if given."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise SystemExit("vram_build: cmake is needed, 3.21 or newer")
    subprocess.run([cmake, "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DVRAM_BUILD_TESTS=OFF",
                    "-DVRAM_BUILD_EXAMPLES=OFF", *options], check=True, stdout=output, stderr=output)
    subprocess.run([cmake, "--build", folder, "--parallel", *filter(None, [os.environ.get("JOBS")]), "--target",
                    *TARGETS], check=True, stdout=output, stderr=output)


def _refuse():
    """The sentence for a platform that nothing can be built for."""
    if sys.platform in ("win32", "cygwin"):
        raise SystemExit("vram_build: libvram runs on Linux and macOS; on Windows install it within WSL 2")
    if sys.maxsize < 2 ** 32:
        raise SystemExit("vram_build: libvram needs a 64-bit processor and system, and a 64-bit Python: install that "
                         "Python, and vram with it")


def _build(settings, scratch):
    """The folder with the library and the command, built unless the caller has them already."""
    given = _setting(settings, "build-dir") or os.environ.get("LIBVRAM_BUILD_DIR")
    if given:
        given = os.path.join(os.environ.get("PWD", os.getcwd()), given)
        missing = [name for name in NATIVE if not os.path.exists(os.path.join(given, name))]
        if missing:
            raise SystemExit(f"vram_build: {given} has no {' and no '.join(missing)}: build it first")
        return given
    _refuse()
    try:
        compile_into(scratch)
    except subprocess.CalledProcessError:
        raise SystemExit("vram_build: the build has failed, as CMake says above; it needs a C compiler, and no GPU or its "
                         "SDK. On Linux with glibc 2.28 a wheel needs neither") from None
    return scratch


# --------------------------------------------------------------------------- the wheel

class _Wheel:
    def __init__(self, path):
        self.file, self.rows = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name.replace(os.sep, "/"), WHEN)
        info.external_attr, info.compress_type = (stat.S_IFREG | mode) << 16, zipfile.ZIP_DEFLATED
        self.file.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append(f"{info.filename},sha256={digest},{len(data)}")

    def close(self, folder):
        name = f"{folder}/RECORD"
        self.rows.append(f"{name},,")
        self.file.writestr(zipfile.ZipInfo(name, WHEN), "\n".join(self.rows) + "\n")
        self.file.close()


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _pack(folder, settings, files):
    name = f"vram-{version()}-py3-none-{_platform(settings)}.whl"
    information = f"vram-{version()}.dist-info"
    wheel = _Wheel(os.path.join(folder, name))
    for path, data, mode in files:
        wheel.add(path, data, mode)
    for path, text in _information(settings).items():
        wheel.add(f"{information}/{path}", text.encode())
    wheel.close(information)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as scratch:
        built = _build(config_settings, scratch)
        files = [(inside, _read(path), 0o644) for path, inside in _sources()]
        files += [(inside, _read(path), mode) for path, inside, mode in _native(config_settings, built)]
        return _pack(wheel_directory, config_settings, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package in place: LIBVRAM_PATH, or an installed libvram, is the library."""
    return _pack(wheel_directory, config_settings, [("vram.pth", HERE.encode() + b"\n", 0o644)])


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = f"vram-{version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name, "licenses"), exist_ok=True)
    for path, text in _information(config_settings).items():
        with open(os.path.join(metadata_directory, name, path), "w", encoding="utf-8") as file:
            file.write(text)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    """The whole source tree that git knows: the library is built from it. The same commit makes the same bytes."""
    base = f"vram-{version()}"
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    said = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, check=True).stdout
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or said)

    def plain(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime, info.mode = when, 0o755 if info.mode & 0o100 else 0o644
        return info

    with open(os.path.join(sdist_directory, f"{base}.tar.gz"), "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as out, \
            tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in filter(None, listed.decode().split("\0")):
            archive.add(os.path.join(ROOT, name), f"{base}/{name}", recursive=False, filter=plain)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "PKG-INFO")
            with open(path, "w", encoding="utf-8") as file:
                file.write(_metadata(config_settings))
            archive.add(path, f"{base}/PKG-INFO", filter=plain)
            # pip looks for it at the top; the backend lies where it does in the tree.
            top = os.path.join(folder, "pyproject.toml")
            text = _read(os.path.join(HERE, "pyproject.toml")).decode()
            text = text.replace('backend-path = ["."]', 'backend-path = ["bindings/python"]')
            text = text.replace('readme = "README.md"', 'readme = "bindings/python/README.md"')
            with open(top, "w", encoding="utf-8") as file:
                file.write(text)
            archive.add(top, f"{base}/pyproject.toml", filter=plain)
    return f"{base}.tar.gz"
