#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adapters_test.py SOURCE: what tools/torch-adapters fetches of a wheel, and what it refuses. A wheel of a few files and
libraries of a few symbols stand for PyTorch's; the compilation itself needs PyTorch's headers and is the tool's own
check."""
import http.server
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("tool", os.path.join(sys.argv[1], "tools", "torch-adapters"))
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("tool", LOADER))
LOADER.exec_module(tool)

FILES = {"torch/include/c10/a.h": b"a" * 9, "torch/version.py": b"__version__ = '2.11.1+cu130'\n", "torch/lib/libc10.so": b"c"}
OTHERS = {"torch/lib/libtorch_cuda.so": os.urandom(5 << 20), "torch/lib/libc10.so.debug": b"d", "functorch/x.h": b"x"}


# Without optimization nothing of the library is inlined.
STREAMS = """#include <new>
#include <sstream>
int main() {
    std::ostringstream stream;
    stream << 42 << std::string(100, 'x');
    std::string moved = std::move(stream).str();
    stream << "again";
    try {
        volatile size_t many = -1;
        return new long[many / 4] != nullptr;
    } catch (const std::bad_array_new_length &) {
        return moved != "42" + std::string(100, 'x') || stream.str() != "again";
    }
}
"""


class Server(http.server.BaseHTTPRequestHandler):
    wheel, sent = b"", 0

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.wheel)))
        self.end_headers()

    def do_GET(self):
        first, last = map(int, re.match(r"bytes=(\d+)-(\d+)$", self.headers["Range"]).groups())
        Server.sent += last + 1 - first
        self.send_response(206 if "parts" in self.path else 200)
        self.end_headers()
        self.wfile.write(self.wheel[first:last + 1])

    def log_message(self, *_):
        pass


class Adapters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_parts_of_a_wheel(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as wheel:
            for name, data in {**OTHERS, **FILES}.items():
                wheel.writestr(name, data)
        Server.wheel = packed.getvalue()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}/"
        with io.BufferedReader(tool.RemoteFile(url + "parts"), 1 << 12) as wheel:
            tool.unpack(wheel, self.folder)
        found = {os.path.relpath(os.path.join(at, name), self.folder): None for at, _, names in os.walk(self.folder)
                 for name in names}
        for name in found:
            with open(os.path.join(self.folder, name), "rb") as file:
                found[name] = file.read()
        self.assertEqual(found, FILES)
        self.assertEqual(tool.version_of(self.folder), "2.11")
        self.assertLess(Server.sent, 1 << 17)
        with self.assertRaisesRegex(tool.Failed, "sends no parts"):
            tool.RemoteFile(url + "whole").read(1)

    def library(self, name, source):
        path = os.path.join(self.folder, name)
        with open(path + ".cpp", "w", encoding="utf-8") as file:
            file.write(source)
        tool.extension.run([tool.extension.find_compiler(), "-shared", "-fPIC", "-O1", "-o", path, path + ".cpp"])
        return path

    def test_older_libraries(self):
        """What stands for functions of newer libraries does what they do."""
        path = os.path.join(self.folder, "streams")
        with open(path + ".cpp", "w", encoding="utf-8") as file:
            file.write(STREAMS)
        tool.extension.run([tool.extension.find_compiler(), "-std=c++20", "-o", path, path + ".cpp", os.path.join(
            sys.argv[1], "adapters", "pytorch", "release", "older_libraries.cpp"), "-ldl"])
        self.assertEqual(subprocess.run([path], check=False).returncode, 0)

    def test_symbols(self):
        """An adapter may need what PyTorch has or needs itself, and nothing newer."""
        throws = "#include <stdexcept>\nvoid throws(const char *text) { throw std::runtime_error(text); }\n"
        needs = "int in_c10(), in_torch_cuda(); extern \"C\" int vram_torch_enable() { return in_c10() + in_torch_cuda(); }\n"
        self.library("libc10.so", "int in_c10() { return 1; }\n")
        self.library("libc10_cuda.so", "")
        self.library("libtorch_python.so", "int in_torch_cuda(); int calls() { return in_torch_cuda(); }\n")
        tool.check(self.library("fits.so", needs), self.folder)
        newer = self.library("newer.so", needs + throws)
        with self.assertRaisesRegex(tool.Failed, r"needs .*GLIBCXX 3\.4.*\(.*_Z\w+@GLIBCXX_3\.4"):
            tool.check(newer, self.folder)
        with self.assertRaisesRegex(tool.Failed, "no library has _Z7nowherev"):
            tool.check(self.library("lost.so", needs + "int nowhere(); int lost() { return nowhere(); }\n"), self.folder)
        with self.assertRaisesRegex(tool.Failed, "no library has vram_torch_enable"):
            tool.check(self.library("other.so", "int other() { return 1; }\n"), self.folder)
        self.library("libc10_cuda.so", throws)
        tool.check(newer, self.folder)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
