# SPDX-License-Identifier: Apache-2.0
"""vram.torch where there is no PyTorch: what it refuses and says, and how it finds, compiles and checks its adapter.
tests/torch has the tests with a real one."""
import ctypes
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import warnings
from unittest import mock

import vram
import vram_autoload
from vram.torch import __main__ as main_module
from vram.torch import adapter, check, environment, extension

NO_GPU = adapter._no_gpu
COMPILER = shutil.which("c++") or shutil.which("g++")
ADAPTER = """
extern "C" {{
__attribute__((visibility("default"))) int vram_torch_abi(void) {{ return {abi}; }}
__attribute__((visibility("default"))) const char *vram_torch_built_for(void) {{ return "{version}"; }}
__attribute__((visibility("default"))) const char *vram_torch_error(void) {{ return "refused"; }}
__attribute__((visibility("default"))) const char *vram_torch_class(void) {{ return "{kind}"; }}
__attribute__((visibility("default"))) int vram_torch_enabled, vram_torch_moving;
__attribute__((visibility("default"))) int vram_torch_enable(int moving, int) {{
    vram_torch_moving = moving;
    return moving ? (vram_torch_enabled = 1) - 1 : -1;
}}
__attribute__((visibility("default"))) int vram_torch_disable(void) {{ vram_torch_enabled = 0; return 0; }}
}}
"""
REST = """
#include <stdint.h>
extern "C" {{
#define CALL __attribute__((visibility("default")))
CALL int vram_torch_tag_push(const char *) {{ return 0; }}
CALL int vram_torch_tag_pop(void) {{ return 0; }}
CALL int vram_torch_tag_quota(int, const char *, uint64_t, uint64_t) {{ return 0; }}
CALL int vram_torch_tag_bytes(int, const char *, uint64_t *used, uint64_t *peak) {{ *used = 1; *peak = 2; return 0; }}
CALL int vram_torch_sleep(int, const char *, int) {{ return -1; }}
CALL int vram_torch_wake(int, const char *) {{ return 0; }}
CALL int vram_torch_tag_default(const char *) {{ return 0; }}
CALL int vram_torch_tag_ranges(int, const char *, void *, int) {{ return 0; }}
CALL int vram_torch_copy(int, const void *, int, int) {{ return 0; }}
CALL int vram_torch_host_lock(int, void *, uint64_t, int) {{ return 0; }}
CALL int vram_torch_margin(uint64_t) {{ return 0; }}
CALL char *vram_torch_report(int, int) {{ return 0; }}
CALL void vram_torch_text_free(char *) {{}}
CALL int vram_torch_stats(int, uint64_t *, int) {{ return 0; }}
}}
"""


def fake_torch(version="2.11.0+cu130", cuda="13.0", initialized=False, forked=False, cxx11=True):
    torch = types.ModuleType("torch")
    torch.__version__, torch.__file__ = version, os.path.join(tempfile.gettempdir(), "torch", "__init__.py")
    torch.version = types.SimpleNamespace(cuda=cuda, git_version="0")
    torch._C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=cxx11, _cuda_isHistoryEnabled=lambda: False)
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: initialized, _is_in_bad_fork=lambda: forked,
                                       current_device=lambda: 0, device_count=lambda: 1,
                                       get_allocator_backend=lambda: "vram",
                                       memory=types.SimpleNamespace(_snapshot=lambda: {"segments": []}))
    torch.device = lambda name: types.SimpleNamespace(type=name.split(":")[0], index=int((name + ":0").split(":")[1]))
    torch.UntypedStorage = type("UntypedStorage", (), {"_share_cuda_": lambda self: (3, "handle", "event", True)})
    torch.multiprocessing = types.ModuleType("torch.multiprocessing")
    torch.multiprocessing.reductions = types.SimpleNamespace(rebuild_cuda_tensor=lambda *parts: ("rebuilt", *parts))
    return torch


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        names = {"LIBVRAM_TORCH_CACHE": self.folder}
        patch = mock.patch.dict(os.environ, names)
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("LIBVRAM_TORCH_EXTENSION", "LIBVRAM_TORCH_PLUGIN", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                     "VRAM_TORCH", "CUDA_VISIBLE_DEVICES"):
            os.environ.pop(name, None)
        patch = mock.patch.object(adapter, "_no_gpu", lambda torch: "")  # whether this machine has one is no matter
        patch.start()
        self.addCleanup(patch.stop)
        adapter._library = adapter._plugin = None
        adapter._options.update(moving="on", sharing="on")
        self.addCleanup(setattr, adapter, "_library", None)

    def torch(self, **values):
        torch = fake_torch(**values)
        patch = mock.patch.dict(sys.modules, {"torch": torch, "torch.multiprocessing": torch.multiprocessing})
        patch.start()
        sys.modules.pop("vram.torch.process_sharing", None)  # it has the PyTorch of the test before
        vars(sys.modules["vram.torch"]).pop("process_sharing", None)
        self.addCleanup(patch.stop)
        return torch

    def made(self, abi=extension.ABI, version="2.11", rest=True, kind="1234"):
        """An adapter that only answers."""
        source = os.path.join(self.folder, "adapter.cpp")
        path = os.path.join(self.folder, f"adapter-{abi}-{version}.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write((ADAPTER + (REST if rest else "")).format(abi=abi, version=version, kind=kind))
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", path, source], check=True)
        return path


class Refusals(Case):
    def says(self, text, kind=adapter.VramTorchError):
        with self.assertRaises(kind) as caught:
            adapter.enable(fallback=False)
        self.assertIn(text, str(caught.exception))

    def test_no_pytorch(self):
        with mock.patch.dict(sys.modules, {"torch": None}):
            self.says("cannot be imported", adapter.UnsupportedError)

    def test_cpu_only(self):
        self.torch(cuda=None)
        self.says("no CUDA", adapter.UnsupportedError)

    def test_too_old(self):
        self.torch(version="2.7.1")
        self.says("older than 2.8", adapter.UnsupportedError)

    def test_too_late_and_forked(self):
        self.torch(initialized=True)
        self.says("too late")
        self.torch(forked=True)
        self.says("forked")

    def test_arguments(self):
        self.assertRaises(ValueError, adapter.enable, moving="perhaps")
        self.assertRaises(ValueError, adapter.enable, sharing="perhaps")
        self.assertRaises(ValueError, adapter.sleep, keep="nowhere")

    def test_nothing_before_enable(self):
        for call in (adapter.report, adapter.wake, adapter.stats, lambda: adapter.tag_bytes("x"),
                     adapter.tag("x").__enter__):
            with self.assertRaisesRegex(adapter.VramTorchError, "enable"):
                call()
        self.assertFalse(adapter.enabled())
        self.assertIsNone(adapter.mode())

    def test_no_compiler(self):
        self.torch()
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent", "CXX": ""}):
            self.says("no adapter for PyTorch 2.11 and no C++ compiler", adapter.UnsupportedError)
            with mock.patch.object(extension, "plugin_path", return_value=None):
                with self.assertRaisesRegex(adapter.UnsupportedError, "no C plug-in"):
                    adapter.enable()

    def test_no_sources(self):
        self.torch()
        with mock.patch.object(extension, "source_folders", return_value=None):
            self.says("no sources", adapter.UnsupportedError)

    def test_unusable_cache(self):
        self.torch()
        with mock.patch.dict(os.environ, {"LIBVRAM_TORCH_CACHE": "/proc/nothing"}):
            self.says("/proc/nothing", adapter.UnsupportedError)


class Autoload(Case):
    """What the end of `import torch` does."""

    def said(self, value):
        """What torch_imported() writes with this value of VRAM_TORCH."""
        with mock.patch.dict(os.environ, {"VRAM_TORCH": value}), mock.patch("sys.stderr", io.StringIO()) as errors:
            vram_autoload.torch_imported()
            return errors.getvalue()

    def complains(self, value, text):
        """One line, and an exception where it is required."""
        said = self.said(value)
        self.assertRegex(said, f"^vram.torch: VRAM_TORCH={value}: .*{text}.*PyTorch's own allocator\n$")
        self.assertEqual(said.count("\n"), 1)
        with self.assertRaisesRegex(RuntimeError, f"VRAM_TORCH={value},require: .*{text}"):
            self.said(f"{value},require")
        self.assertFalse(adapter.enabled())

    def test_off(self):
        with mock.patch.object(adapter, "enable") as enable:
            for value in ("", "0", "off", " OFF ", "false", "no"):
                self.assertEqual(self.said(value), "")
            self.assertFalse(enable.called)
            for value, options in (("1", {}), ("On", {}), ("require", {}), ("moving=off", {"moving": "off"}),
                                   ("1, sharing=off,moving=on", {"moving": "on", "sharing": "off"})):
                self.assertEqual(self.said(value), "")
                enable.assert_called_with(fallback=False, **options)

    def test_unknown_values(self):
        self.torch()
        for value in ("tru", "moving", "moving=perhaps", "1,,1"):
            self.complains(value, "is unknown; set it to 1")

    def test_no_place_for_it(self):
        self.torch(cuda=None)
        self.complains("1", "no CUDA")
        self.torch(version="2.7.1")
        self.complains("1", "older than 2.8")
        self.torch(initialized=True)
        self.complains("1", "too late: CUDA is initialized")
        self.torch()
        with mock.patch.object(adapter, "_enable_plugin") as plugin, \
                mock.patch.object(extension, "load", side_effect=extension.NoExtension("first\nsecond")):
            self.complains("1", "first second")
            self.assertFalse(plugin.called)  # a program that does not know of it may need statistics

    def test_nothing_is_loaded(self):
        """Without the variable it costs less than a millisecond; the bound is for a busy machine."""
        code = ("import os, sys, time\nsys.path.insert(0, os.environ['PLACE'])\ntimes = []\n"
                "for _ in range(5):\n    sys.modules.pop('vram_autoload', None)\n    before = set(sys.modules)\n"
                "    start = time.perf_counter()\n    import vram_autoload\n    vram_autoload.torch_imported()\n"
                "    times.append(time.perf_counter() - start)\n"
                "assert set(sys.modules) - before == {'vram_autoload'}, set(sys.modules) - before\n"
                "assert min(times) < 0.01, times")
        place = os.path.dirname(vram_autoload.__file__)
        subprocess.run([sys.executable, "-I", "-c", code], env=dict(os.environ, PLACE=place), check=True)

    def test_no_library(self):
        code = "import vram_autoload\nvram_autoload.torch_imported()\nprint('on')"
        values = dict(os.environ, LIBVRAM_PATH="/nonexistent", VRAM_TORCH="1",
                      PYTHONPATH=os.path.dirname(vram_autoload.__file__))
        done = subprocess.run([sys.executable, "-c", code], env=values, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "on\n")
        self.assertRegex(done.stderr, "^vram.torch: VRAM_TORCH=1: libvram was not found.*\n$")
        self.assertEqual(subprocess.run([sys.executable, "-c", "import os\nos.close(2)\n" + code], env=values,
                                        stdout=subprocess.PIPE, check=True).stdout, b"on\n")

    def test_entry_points(self):
        """A checkout has them for what has bindings/python on its path, and pyproject.toml has the same."""
        from importlib.metadata import distributions
        place = os.path.dirname(vram_autoload.__file__)
        found = [each for each in distributions(path=[place]) if each.metadata["Name"] == "vram"]
        self.assertEqual([each.version for each in found], [vram.__version__])
        points = {(point.group, point.name, point.value) for point in found[0].entry_points}
        self.assertIn(("torch.backends", "vram", "vram_autoload:torch_imported"), points)
        with open(os.path.join(place, "pyproject.toml"), encoding="utf-8") as file:
            text = file.read()
        for _, name, value in points:
            self.assertIn(f'{name} = "{value}"', text)


@unittest.skipUnless(COMPILER, "no C++ compiler")
class Extensions(Case):
    def test_options(self):
        """They are passed on to children; a call changes those that it names."""
        self.torch()
        os.environ.update(LIBVRAM_TORCH_EXTENSION=self.made(), VRAM_TORCH="Require,sharing=off")
        vram_autoload.torch_imported()
        self.assertEqual((adapter._options, os.environ["VRAM_TORCH"]),
                         ({"moving": "on", "sharing": "off"}, "require,sharing=off"))
        adapter.enable()
        self.assertEqual(adapter._options["sharing"], "off")
        with self.assertRaisesRegex(adapter.VramTorchError, "refused: moving=on, sharing=off, from enable"):
            adapter.enable(moving="off")
        adapter.enable(sharing="on")
        self.assertEqual((adapter._options, os.environ["VRAM_TORCH"]), ({"moving": "on", "sharing": "on"}, "require"))
        adapter._library, os.environ["VRAM_TORCH"] = None, ""
        adapter.enable()
        self.assertEqual(environment.parse(os.environ["VRAM_TORCH"]), {})

    def test_another_allocator_was_asked_for(self):
        self.torch()
        os.environ.update(LIBVRAM_TORCH_EXTENSION=self.made(), VRAM_TORCH="require")
        os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:20,backend:cudaMallocAsync"
        with self.assertRaisesRegex(RuntimeError, "PYTORCH_ALLOC_CONF asks for backend:cudaMallocAsync"):
            vram_autoload.torch_imported()
        os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:20,backend:native"
        vram_autoload.torch_imported()
        self.assertTrue(adapter.enabled())

    def test_import_calls_enable(self):
        """The first `import torch` is that of enable(), and calls it."""
        torch = self.torch()
        os.environ.update(LIBVRAM_TORCH_EXTENSION=self.made(), VRAM_TORCH="1")
        calls = []

        def import_torch():
            calls.append(1)
            if len(calls) == 1:
                vram_autoload.torch_imported()
            return torch

        with mock.patch.object(adapter, "_import_torch", import_torch):
            thread = threading.Thread(target=adapter.enable, daemon=True)
            thread.start()
            thread.join(20)
        self.assertFalse(thread.is_alive(), "enable() waits for itself")
        self.assertTrue(adapter.enabled())

    def test_pytorch_that_does_not_fit(self):
        """PyTorch's own code gets other answers than the adapter's: PyTorch has its own allocator again."""
        torch = self.torch()
        path = os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made()
        for change in ({"get_allocator_backend": lambda: "native"},
                       {"memory": types.SimpleNamespace(_snapshot=lambda: {"segments": [1]})},
                       {"memory": types.SimpleNamespace()}):
            with mock.patch.multiple(torch.cuda, **change), \
                    self.assertRaisesRegex(adapter.UnsupportedError, "does not fit PyTorch 2.11"):
                adapter.enable()
            self.assertFalse(adapter.enabled() or "VRAM_TORCH" in os.environ)
            self.assertEqual(ctypes.c_int.in_dll(ctypes.CDLL(path), "vram_torch_enabled").value, 0)

    def test_another_class(self):
        """A PyTorch of the same number whose allocator is declared otherwise takes no adapter but its own."""
        torch = self.torch()
        torch.__file__ = os.path.join(self.folder, "torch", "__init__.py")
        header = os.path.join(extension.include_folder(torch), extension.CLASS_HEADERS[-1])
        os.makedirs(os.path.dirname(header))
        with open(header, "w", encoding="utf-8") as file:
            file.write("struct Allocator {};\n")
        os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made(kind=extension.class_of(extension.include_folder(torch)))
        with open(header, "a", encoding="utf-8") as file:
            file.write("// a comment\n\n")
        self.assertEqual(extension.load(torch).vram_torch_abi(), extension.ABI)
        with open(header, "a", encoding="utf-8") as file:
            file.write("struct Another {};\n")
        with self.assertRaisesRegex(extension.WrongFile, "has another class"):
            extension.load(torch)

    def test_enabled_once(self):
        self.torch()
        os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made()
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            adapter.enable()
        self.assertEqual(sum("expandable_segments" in str(each.message) for each in seen), 1)
        self.assertEqual(adapter.mode(), "extension")
        adapter.enable()
        self.assertEqual(adapter.tag_bytes("x"), {"used": 1, "peak": 2})
        self.assertEqual(adapter.stats(), {})
        adapter.wake()
        with adapter.tag("x", quota="1MiB"):
            pass
        for call in (adapter.sleep, adapter.report):
            with self.assertRaisesRegex(adapter.VramTorchError, "refused"):
                call()
        self.assertRaises(ValueError, adapter.wake, device=5)
        adapter.wake(device="cuda:0")
        for device in ("cpu", "meta"):
            for call in (adapter.sleep, adapter.wake, adapter.report, adapter.stats,
                         lambda device: adapter.tag_bytes("x", device=device)):
                with self.assertRaisesRegex(ValueError, f"'{device}' is no CUDA device"):
                    call(device=device)
        for call in (lambda tag: adapter.tag(tag).__enter__(), adapter.tag_bytes, adapter.sleep, adapter.wake):
            for tag in (5, b"x"):
                with self.assertRaisesRegex(TypeError, f"a tag is a str, not {type(tag).__name__}"):
                    call(tag)
            for tag in ("", "a\0b"):
                with self.assertRaisesRegex(ValueError, "at least one character"):
                    call(tag)
        for quota in (-1, 1.5, "much"):
            self.assertRaises(ValueError, adapter.tag("x", quota=quota).__enter__)

    def test_refused_by_pytorch(self):
        self.torch()
        os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made()
        with self.assertRaisesRegex(adapter.VramTorchError, "refused"):
            adapter.enable(moving="off")
        self.assertFalse(adapter.enabled())

    def test_wrong_file(self):
        """Nothing else is taken instead of a file that the user named."""
        self.torch()
        for path, text in ((self.made(abi=99), "interface 99"), (self.made(version="2.9"), "PyTorch 2.9"),
                           ("/nonexistent.so", "cannot open"), (__file__, "ELF"),
                           (extension.library_path(), "another library")):
            os.environ["LIBVRAM_TORCH_EXTENSION"] = path
            with mock.patch.object(extension, "compile_once") as compiled, \
                    mock.patch.object(adapter, "_enable_plugin") as plugin, \
                    self.assertRaises(adapter.VramTorchError) as caught:
                adapter.enable()
            self.assertRegex(str(caught.exception), f"LIBVRAM_TORCH_EXTENSION names {path}.*{text}.*Unset")
            self.assertFalse(adapter.enabled() or compiled.called or plugin.called)

    def test_wrong_plugin(self):
        torch = self.torch()
        torch.cuda.memory = types.SimpleNamespace(CUDAPluggableAllocator=lambda path, *names: ctypes.CDLL(path))
        for path in ("/nonexistent.so", __file__):
            os.environ["LIBVRAM_TORCH_PLUGIN"] = path
            with mock.patch.object(extension, "source_folders", return_value=None), \
                    self.assertRaisesRegex(adapter.VramTorchError, f"{path} is not libvram's plug-in.*no sources"):
                adapter.enable()
            self.assertFalse(adapter.enabled())

    def test_prebuilt(self):
        """Of the adapters in a wheel the one for the installed PyTorch is taken, without a compiler."""
        native = os.path.join(self.folder, "native")
        os.mkdir(native)
        for version in ("2.11", "2.12"):
            os.rename(self.made(version=version), os.path.join(native, f"libvram_torch-{version}.so"))
        os.rename(self.made(abi=extension.ABI + 1, version="2.13"), os.path.join(native, "libvram_torch-2.13.so"))
        with mock.patch.object(extension, "HERE", self.folder), \
                mock.patch.dict(os.environ, {"PATH": "/nonexistent", "CXX": ""}):
            for version in ("2.11.0+cu130", "2.12.1", "2.12.0a0+git1234"):
                library = extension.load(self.torch(version=version))
                self.assertEqual(library.vram_torch_built_for().decode(), version[:4])
            for values, text in (({"version": "2.13.0"}, f"interface {extension.ABI + 1}.*no C\\+\\+ compiler"),
                                 ({"version": "2.14.0"}, "no C\\+\\+ compiler"), ({"cxx11": False}, "no C\\+\\+ compiler")):
                with self.assertRaisesRegex(extension.NoExtension, text):
                    extension.load(self.torch(**values))

    def test_tensor_of_another_process(self):
        """A tensor that arrives enables vram.torch, unless it is too late."""
        torch = self.torch()
        os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made()
        from vram.torch import process_sharing
        self.assertEqual(process_sharing.rebuild_cuda_tensor(1, 2), ("rebuilt", 1, 2))
        self.assertTrue(adapter.enabled())
        self.assertIs(torch.multiprocessing.reductions.rebuild_cuda_tensor, process_sharing.rebuild_cuda_tensor)
        adapter._library = None
        torch.cuda.is_initialized = lambda: True
        with self.assertRaisesRegex(adapter.VramTorchError, "PyTorch's own allocator"):
            process_sharing.rebuild_cuda_tensor(1, 2)

    def test_tensor_for_a_container(self):
        """With VRAM_SHARE_DIR the sender waits for its stream, and the receiver opens no event."""
        torch, waits = self.torch(), []
        torch.cuda.current_stream = lambda device: types.SimpleNamespace(synchronize=lambda: waits.append(device))
        from vram.torch import process_sharing
        process_sharing.install()
        self.assertEqual(torch.UntypedStorage()._share_cuda_(), (3, "handle", "event", True))
        with mock.patch.dict(os.environ, {"VRAM_SHARE_DIR": "/shared"}):
            process_sharing.install()
        self.assertEqual(torch.UntypedStorage()._share_cuda_(), (3, "handle", "event", False))
        self.assertEqual(waits, [3])

    def test_compiled_once(self):
        """Of several that start together one compiles; a change of the sources compiles again."""
        torch, count = self.torch(), []
        sources = os.path.join(self.folder, "source")
        for name in ("pytorch/cuda", "include/vram"):
            os.makedirs(os.path.join(sources, name))
        path = os.path.join(sources, "pytorch", "allocator.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ADAPTER.format(abi=extension.ABI, version="2.11", kind=""))
        folders = [os.path.join(sources, "pytorch"), os.path.join(sources, "include")]
        compile_all = extension.compile_all

        def counted(*arguments):
            count.append(1)
            return compile_all(*arguments)

        with mock.patch.object(extension, "source_folders", return_value=folders), \
                mock.patch.object(extension, "link_flags", return_value=[]), \
                mock.patch.object(extension, "compile_all", counted), mock.patch("sys.stderr", io.StringIO()) as errors:
            found = []
            threads = [threading.Thread(target=lambda: found.append(extension.compile_once(torch))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((len(count), len(found), len(set(found))), (1, 8, 1))
            said = sorted(line.split(" adapter for PyTorch 2.11, once")[0] for line in errors.getvalue().splitlines())
            self.assertEqual(said[0], "vram.torch: compiling the")
            self.assertLessEqual(set(said[1:]), {"vram.torch: waiting for a process that compiles the"})
            errors.close()  # as in a daemon: it compiles all the same
            self.assertEqual(extension.load(torch).vram_torch_abi(), extension.ABI)
            with open(path, "a", encoding="utf-8") as file:
                file.write("int broken = ;\n")
            with self.assertRaisesRegex(extension.NoExtension, "does not compile: .*error"):
                extension.compile_once(torch)
            self.assertEqual(len(count), 2)


    def test_waiting_is_said(self):
        """A process that finds another one compiling has one line, too."""
        class Heard(io.StringIO):
            spoke = threading.Event()

            def write(self, text):
                super().write(text)
                self.spoke.set()

        torch, found = self.torch(), []
        if extension.source_folders() is None:
            self.skipTest("no sources")
        final = os.path.join(self.folder, extension._key(torch, extension.source_folders()))
        with mock.patch("sys.stderr", Heard()) as errors, open(final + ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            thread = threading.Thread(target=lambda: found.append(extension.compile_once(torch)), daemon=True)
            thread.start()
            spoke = errors.spoke.wait(20)
            with open(final, "w", encoding="utf-8"):
                fcntl.flock(lock, fcntl.LOCK_UN)
            thread.join(20)
        self.assertTrue(spoke, "it waits without a word")
        self.assertEqual((found, errors.getvalue()), ([final], "vram.torch: waiting for a process that compiles the adapter "
                                                      "for PyTorch 2.11, once: a minute of one core, less on more\n"))

    def test_without_a_gpu(self):
        """One warning, which names the line of the program; the adapter is PyTorch's allocator all the same."""
        self.torch()
        os.environ["LIBVRAM_TORCH_EXTENSION"] = self.made()
        with mock.patch.object(adapter, "_no_gpu", lambda torch: "there is no driver"), \
                warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            adapter.enable()
            adapter.enable()
        self.assertEqual([(each.filename, str(each.message)[:60]) for each in seen],
                         [(__file__, "vram.torch finds no GPU here: there is no driver. It is enab")])
        self.assertTrue(adapter.enabled())

    def test_whether_there_is_a_gpu(self):
        torch = self.torch()
        cases = [(OSError, None, "no NVIDIA driver"), (None, 0, "NVIDIA's driver has none"), (None, 2, "^$"),
                 (None, -1, "^$"), (None, RuntimeError, "^$"), (None, None, "^$")]
        for driver, count, text in cases:
            if count is not None:
                torch.cuda._device_count_nvml = mock.Mock(**{"side_effect" if count is RuntimeError else "return_value":
                                                             count})
            else:
                vars(torch.cuda).pop("_device_count_nvml", None)
            with self.subTest(driver=driver, count=count), mock.patch.object(ctypes, "CDLL", side_effect=driver):
                self.assertRegex(NO_GPU(torch), text)
                with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
                    self.assertEqual(NO_GPU(torch), "")


class Commands(Case):
    def run_main(self, *words):
        with mock.patch("sys.stderr"), mock.patch("sys.stdout"):
            return main_module.main(list(words))

    def test_usage(self):
        for words in ((), ("--what",), ("--moving", "x", "y"), ("-m",), ("-c",), ("--moving=x", "y")):
            self.assertEqual(self.run_main(*words), 2)
        self.assertEqual(self.run_main("--help"), 0)

    def test_refusal(self):
        self.torch(cuda=None)
        self.assertEqual(self.run_main(__file__), 2)

    def answer(self, *words):
        """Exit code, stdout and stderr of a process whose vram.torch is enabled without a PyTorch."""
        code = ("import sys\nfrom unittest import mock\nfrom vram.torch import __main__, adapter\n"
                "with mock.patch.object(adapter, 'enable', lambda moving: print('enabled', flush=True)):\n"
                "    sys.exit(__main__.main(sys.argv[1:]))\n")
        run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=self.folder,
                             env=dict(os.environ, PYTHONPATH=os.path.dirname(vram_autoload.__file__)), check=False)
        return run.returncode, run.stdout, run.stderr

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_code(self):
        """As python -c: its own __main__, its arguments, modules of the folder that it is in."""
        self.write("beside.py", "word = 'beside'\n")
        code = "import sys, beside, __main__; value = 3; print(sys.argv, __name__, __main__.value, beside.word); sys.exit(7)"
        self.assertEqual(self.answer("-c", code, "a", "-b"),
                         (7, "enabled\n['-c', 'a', '-b'] __main__ 3 beside\n", ""))

    def test_modules(self):
        self.write("package/__init__.py", "print('imported')\n")
        self.write("package/__main__.py", "import sys\nprint(sys.argv[1:])\n")
        self.write("package/broken.py", "import nothing_like_it\n")
        self.assertEqual(self.answer("-m", "package", "a"), (0, "enabled\nimported\n['a']\n", ""))
        self.assertRegex(self.answer("-m", "package.broken")[2], "No module named 'nothing_like_it'")

    def test_nothing_to_run(self):
        """One line, as from Python itself, and before an adapter is compiled, where that can be known."""
        self.write("package_of_nothing/__init__.py", "")
        folder, missing = os.path.dirname(self.write("folder/what.txt", "")), os.path.join(self.folder, "missing.py")
        said = {(missing,): (0, f"cannot open {missing}: No such file or directory"),
                (folder,): (0, f"there is no __main__ in {folder}"),
                ("-m", "missing"): (0, "there is no module missing that can be run"),
                ("-m", "missing.module"): (0, "there is no module missing.module that can be run"),
                ("-m", ".relative"): (0, "there is no module .relative that can be run"),
                ("-m", "package_of_nothing"): (1, "there is no module package_of_nothing that can be run"),
                ("-m", "package_of_nothing.x"): (1, "there is no module package_of_nothing.x that can be run")}
        for words, (enabled, text) in said.items():
            with self.subTest(words=words), mock.patch.object(adapter, "enable") as enable, \
                    mock.patch("os.getcwd", return_value=self.folder), mock.patch("sys.path", list(sys.path)), \
                    mock.patch("sys.stderr", io.StringIO()) as errors:
                self.assertEqual(main_module.main(list(words)), 2)
                self.assertEqual((enable.call_count, errors.getvalue()), (enabled, f"vram.torch: {text}\n"))

    def test_program(self):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import sys\nassert __name__ == '__main__' and sys.argv[1:] == ['a', '--b']\nsys.exit(7)\n")
        arguments, place = sys.argv, list(sys.path)
        try:
            with mock.patch.object(adapter, "enable") as enable, self.assertRaises(SystemExit) as caught:
                self.run_main("--moving", "off", "--report", path, "a", "--b")
        finally:
            sys.argv, sys.path[:] = arguments, place
        self.assertEqual(caught.exception.code, 7)
        enable.assert_called_once_with(moving="off")

    def test_check(self):
        """Each step has its line, and one that fails is the exit code."""
        self.torch(cuda=None)
        os.environ.update(VRAM_TORCH="tru", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        said = dict(check.steps())
        self.assertRegex(said["VRAM_TORCH=tru"], "unknown")
        self.assertRegex(said["TORCH_DEVICE_BACKEND_AUTOLOAD=0"], "no effect")
        self.assertEqual(said["entry point in the group torch.backends"], "")
        self.assertRegex(said["enable()"], "no CUDA")
        self.assertEqual(self.run_main("--check"), 1)


class Places(Case):
    def test_cache(self):
        self.assertEqual(extension.cache_folder(), self.folder)
        os.environ.pop("LIBVRAM_TORCH_CACHE")
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.folder}):
            self.assertEqual(extension.cache_folder(), os.path.join(self.folder, "vram", "torch"))
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/proc/nothing"}), \
                mock.patch.object(tempfile, "gettempdir", return_value=self.folder):
            made = extension.cache_folder()
            self.assertTrue(made.startswith(self.folder) and os.path.isdir(made))
            os.chmod(made, 0o777)
            with self.assertRaisesRegex(extension.NoExtension, "somebody else"):
                extension.cache_folder()

    def test_paths(self):
        self.assertTrue(os.path.exists(extension.library_path()))
        folders = extension.source_folders()
        self.assertTrue(folders is None or os.path.exists(os.path.join(folders[0], "allocator.cpp")))
        os.environ["LIBVRAM_TORCH_PLUGIN"] = __file__
        self.assertEqual(extension.plugin_path(), __file__)


if __name__ == "__main__":
    unittest.main()
