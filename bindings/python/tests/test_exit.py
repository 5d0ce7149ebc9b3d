# SPDX-License-Identifier: Apache-2.0
"""The interpreter's end, forks, and exceptions in callbacks: each in a process of its own, which must not crash."""
import importlib.util
import os
import unittest

from .world import program

BEGIN = """
    import atexit, gc, os, sys, threading
    import vram
    context = vram.Context(backends="host")
    device = context.device()
    queue, pool = device.queue(), device.pool()
    buffer = pool.buffer("1MiB", queue=queue)
"""


class Exit(unittest.TestCase):
    def test_with_everything_open(self):
        program(BEGIN + """
    view, capsule = buffer.view(), buffer.__dlpack__()
    transfer = queue.upload(buffer, view[:100])
    """)

    def test_with_objects_in_modules_that_end_late(self):
        program(BEGIN + """
    sys.modules["kept"] = buffer
    sys.kept = [buffer.view(), buffer.__dlpack__(), queue.fill(buffer, 1), pool.scope()]
    class Late:
        def __init__(self, *things): self.things = things
        def __del__(self):
            for each in self.things:
                each.close()
    late = Late(buffer, pool, queue, device, context)
    late.itself = late
    """)

    def test_closing_in_exit_handlers(self):
        program(BEGIN + """
    for each in (context, buffer, queue, pool, device):
        atexit.register(each.close)
    """)

    def test_a_thread_that_still_runs(self):
        program(BEGIN + """
    def work():
        while True:
            try:
                pool.free(pool.alloc(1000))
            except vram.Error:
                return
    threading.Thread(target=work, daemon=True).start()
    """)

    def test_exit_inside_a_callback(self):
        program("""
    import sys, vram
    context = vram.Context(backends="sim", sim="memory=64M")
    device = context.device()
    pool = device.pool()
    device.on_out_of_memory(lambda event: sys.exit(5))
    held = pool.alloc("40MiB")
    try:
        pool.alloc("40MiB")
    except vram.OutOfMemoryError:
        print("refused")
    """)

    def test_a_consumer_that_deletes_at_the_end(self):
        program(BEGIN + """
    from vram import dlpack
    taken = dlpack._Taken(buffer)
    sys.taken = taken
    """)

    def test_os_exit_and_signals(self):
        program(BEGIN + """
    queue.fill(buffer, 1)
    os._exit(3)
    """, code=3)

    def test_import_and_nothing_else(self):
        self.assertEqual(program("import vram"), "")


class Fork(unittest.TestCase):
    def test_a_child_has_objects_of_its_own(self):
        out = program(BEGIN + """
    shared = vram.shared_pool("host")
    child = os.fork()
    if child == 0:
        for call in (pool.stats, lambda: pool.alloc(10), queue.wait, lambda: buffer.read(), shared.stats):
            try:
                call()
                os._exit(1)
            except vram.ForkedError:
                pass
        buffer.close()
        context.close()
        own = vram.shared_pool("host")
        own.free(own.alloc(100))
        with vram.Context(backends="host") as mine, mine.device() as again, again.pool() as third:
            third.alloc(10)
        print("child", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    pool.free(pool.alloc(10))
    print("parent")
    """)
        self.assertEqual(out.split(), ["child", "parent"])

    def test_a_child_reads_what_views_show_and_writes_for_itself(self):
        out = program("""
    import os, vram
    context = vram.Context(backends="host")
    pool = context.device().pool()
    buffers = [pool.buffer(size, kind=kind) for size in (100, 8192, 3 << 20) for kind in ("device", "pinned", "managed")]
    views = [buffer.view() for buffer in buffers]
    for number, view in enumerate(views):
        view[:] = bytes([number + 1]) * len(view)
    with pool.buffer(64).map() as mapped:
        mapped[:3] = b"abc"
        child = os.fork()
        if child == 0:
            for number, view in enumerate(views + [mapped[:3]]):
                assert bytes(view) == (bytes([number + 1]) * len(view) if number < len(views) else b"abc")
                view[:] = bytes(len(view))
            del view
            os._exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    assert all(bytes(view) == bytes([number + 1]) * len(view) for number, view in enumerate(views))
    print("whole")
    """)
        self.assertEqual(out.strip(), "whole")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_a_child_shares_what_is_shared_by_others(self):
        out = program("""
    import mmap, numpy, os, tempfile, vram
    pool = vram.Context(backends="host").device().pool()
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        shared = mmap.mmap(file.fileno(), 8192)
        view = vram.from_dlpack(numpy.frombuffer(shared, "u1"), pool).view()
        child = os.fork()
        if child == 0:
            shared[0], view[1] = 1, 2
            os._exit(7)
        assert os.waitpid(child, 0)[1] == 7 << 8
        print(shared[0], view[1])
    """)
        self.assertEqual(out.split(), ["1", "2"])

    def test_multiprocessing(self):
        out = program("""
    import multiprocessing, vram
    def work(number):
        with vram.Context(backends="host") as context, context.device() as device, device.pool() as pool:
            pool.alloc(number)
        return number
    if __name__ == "__main__":
        context = vram.Context(backends="host")
        with multiprocessing.get_context("fork").Pool(2) as workers:
            print(sum(workers.map(work, range(10))))
    """)
        self.assertEqual(out.strip(), "45")


class Callbacks(unittest.TestCase):
    def test_an_exception_is_reported_and_nothing_breaks(self):
        out = program("""
    import vram
    context = vram.Context(backends="sim", sim="memory=64M")
    device = context.device()
    pool = device.pool()
    def fails(event):
        raise KeyError("mine")
    device.on_out_of_memory(fails)
    device.on_out_of_memory(lambda event: "nonsense")
    device.on_out_of_memory(lambda event: -1)
    held = pool.alloc("40MiB")
    try:
        pool.alloc("40MiB")
    except vram.OutOfMemoryError as error:
        print("refused", error.report["schema"])
    def bad_log(level, text):
        raise RuntimeError("in the log")
    vram.log(bad_log, "debug")
    vram.Context(backends="metal").close()
    print("done")
    """)
        self.assertIn("refused vram.oom/1", out)
        self.assertIn("KeyError: 'mine'", out)
        self.assertIn("done", out)

    def test_a_callback_that_closes_everything(self):
        out = program("""
    import vram
    context = vram.Context(backends="sim", sim="memory=64M")
    device = context.device()
    pool = device.pool()
    held = pool.alloc("40MiB")
    device.on_out_of_memory(lambda event: pool.close())
    try:
        pool.alloc("40MiB")
    except vram.Error as error:
        print(type(error).__name__)
    """)
        self.assertIn("Error", out)

    def test_a_library_that_is_not_there(self):
        out = program("import vram", code=1, environment={"LIBVRAM_PATH": "/nonexistent/libvram.so.0"})
        self.assertIn("ImportError: libvram was not found", out)
        out = program("""
    import vram
    print(vram.command.find_command())
    """, code=1, environment={"LIBVRAM_COMMAND": "", "PATH": "/nonexistent"})
        self.assertIn("CommandError: the command `vram` was not found", out)

    def test_a_library_that_is_loaded_already_is_used(self):
        out = program("""
    import ctypes, os, sys
    ctypes.CDLL(sys.argv[1])
    import vram
    print(vram._library.lib.path, os.path.exists(vram._library.NATIVE))
    """, os.environ["LIBVRAM_PATH"], environment={"LIBVRAM_PATH": ""})
        self.assertEqual(out.split()[0], "libvram.so.0")

    def test_a_library_that_does_not_fit(self):
        libc = "libc.so.6"
        out = program("import vram", code=1, environment={"LIBVRAM_PATH": libc})
        self.assertIn("has no vram_version", out)
        out = program("""
    import ctypes
    from vram import _library
    _library.api.VRAM_VERSION = 7000000
    other = ctypes.CDLL(_library.lib.path)
    try:
        _library._check_version(other)
    except ImportError as error:
        print(error)
    """)
        self.assertRegex(out, r"libvram 0.1 in /.*libvram.* does not fit this package, which was made for 7.0")


if __name__ == "__main__":
    unittest.main()
