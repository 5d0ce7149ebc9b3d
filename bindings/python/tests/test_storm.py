# SPDX-License-Identifier: Apache-2.0
"""Random use and misuse from several threads: whatever happens is an exception of the package, never a crash."""
import gc
import random
import threading
import time
import unittest

import vram

from .world import program

SECONDS = 0.7
EXPECTED = (vram.Error, BufferError, AttributeError)


class World:
    """Objects that threads make, use, close and drop."""

    def __init__(self, seed, backend):
        self.random, self.backend = random.Random(seed), backend
        self.objects, self.kept = {}, []
        self.steps = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def any(self, kind):
        return self.random.choice(self.objects.get(kind) or [None])

    def add(self, kind, made):
        self.objects.setdefault(kind, []).append(made)
        if len(self.objects[kind]) > 6:
            self.objects[kind].pop(self.random.randrange(3))

    def do_context(self):
        self.add("context", vram.Context(backends=self.backend, sim="memory=256M,lag=3"))

    def do_device(self):
        self.add("device", self.any("context").device())

    def do_queue(self):
        self.add("queue", self.any("device").queue())

    def do_pool(self):
        self.add("pool", self.any("device").pool(self.random.choice(["device", "pinned"]), tracked=True))

    def do_buffer(self):
        kind = self.random.choice(["device", "pinned", "managed", "mapped", "fallback"])
        self.add("buffer", self.any("pool").buffer(self.random.randrange(1 << 16), kind=kind,
                                                   queue=self.random.choice([None, self.any("queue")])))

    def do_scope(self):
        scope = self.any("pool").scope()
        scope.alloc(self.random.randrange(1 << 16), self.any("queue"))
        self.add("scope", scope)
        self.add("buffer", scope.buffer(self.random.randrange(1 << 12)))

    def do_block(self):
        self.add("block", self.any("pool").alloc(self.random.randrange(1 << 20), self.any("queue")))

    def do_free(self):
        self.any("pool").free(self.any("block"), self.random.choice([None, self.any("queue")]))

    def do_view(self):
        view = self.any("buffer").view()
        if len(view):
            view[self.random.randrange(len(view))] = 7
        self.kept.append(view[::2])

    def do_map(self):
        with self.any("buffer").map("rw") as view:
            view[:1] = b"x"[:len(view)]

    def do_tensor(self):
        self.kept.append(vram.from_dlpack(self.any("buffer"), self.any("pool")))

    def do_upload(self):
        buffer = self.any("buffer")
        self.any("queue").upload(buffer, bytes(buffer.nbytes))

    def do_download(self):
        self.kept.append(self.any("queue").download(self.any("buffer")))

    def do_sleep(self):
        pool = self.any("pool")
        pool.sleep("host")
        pool.wake()

    def do_resize(self):
        self.any("buffer").resize(self.random.randrange(1 << 16))

    def do_table(self):
        self.any("pool").live_blocks()
        self.any("context").stats()

    def do_close(self):
        kinds = ["buffer", "buffer", "scope", "queue", "pool", "pool", "device", "context"]
        self.any(self.random.choice(kinds)).close()

    def do_drop(self):
        self.kept.clear()

    def do_collect(self):
        if self.random.random() < 0.05:
            gc.collect()

    def run(self, until, unexpected):
        done = 0
        while time.monotonic() < until:
            try:
                self.random.choice(self.steps)()
                done += 1
            except EXPECTED:
                pass
            except Exception as error:
                unexpected.append(error)
                return
        self.done = done


class Storm(unittest.TestCase):
    def test_one_world_of_several_threads(self):
        for backend in ("sim", "host"):
            world, unexpected = World(5, backend), []
            until = time.monotonic() + SECONDS
            threads = [threading.Thread(target=world.run, args=(until, unexpected)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(unexpected, [])
            self.assertGreater(world.done, 10)

    def test_an_exit_in_the_middle(self):
        program("""
    import sys, threading, time
    from tests.test_storm import World
    world = World(int(sys.argv[1]), "host")
    for _ in range(2):
        threading.Thread(target=world.run, args=(time.monotonic() + 30, []), daemon=True).start()
    time.sleep(0.3)
    """, "9")


if __name__ == "__main__":
    unittest.main()
