# SPDX-License-Identifier: Apache-2.0
"""python_frames.py: allocates from the fake driver in many ways, each with another number of bytes, and prints for each
the frames that the interpreter says it executes: {bytes: frames}. Python 3.8 or later, without packages.

With `end` it allocates while the interpreter ends instead, in threads too.
"""
import asyncio
import ctypes
import json
import os
import sys
import threading

MOST = 32 - 1  # of the frames that a stack has, without take's own
RELEASED, HELD = ctypes.CDLL("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1")  # the lock, during a call
CONTEXT = ctypes.c_void_p()
assert RELEASED.cuInit(0) == 0 and RELEASED.cuDevicePrimaryCtxRetain(ctypes.byref(CONTEXT), 0) == 0
expected = {}
holder = threading.local()


def current():
    assert RELEASED.cuCtxSetCurrent(CONTEXT) == 0
    holder.driver = getattr(holder, "driver", RELEASED)


def frames():
    found, frame = [], sys._getframe(2)
    while frame and len(found) < MOST:
        found.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def take(known=True):
    number = len(expected) + 1
    expected[number * 4096] = frames() if known else []
    assert holder.driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(number * 4096)) == 0


# Each is what it says.

def plain():
    take()


def loops():
    for _ in range(2):
        take()
        take()
    while True:
        take()
        break


class Model:
    take_in_class = None

    def forward(self, depth):
        return self.forward(depth - 1) if depth else take()

    @property
    def weight(self):
        return take()

    def __call__(self, *values, **names):
        with self as model:
            return model.forward(3)

    def __enter__(self):
        take()
        return self

    def __exit__(self, *what):
        take()


def generators():
    def inner():
        yield take()

    def outer():
        yield from inner()
    list(outer())
    [take() for _ in range(1)]
    sum(take() or 1 for _ in range(1))


def coroutines():
    async def inner():
        await asyncio.sleep(0)
        take()

    async def outer():
        await asyncio.gather(inner(), inner())
    asyncio.new_event_loop().run_until_complete(outer())


def inits():
    """Often enough for the interpreter to enter them without a call; a frame of its own is then between."""
    class Buffer:
        def __init__(self, takes):
            self.takes = takes
            if takes:
                take()
    for number in range(1000):
        Buffer(number == 999)


class Path(str):
    pass


def errors():
    try:
        raise ValueError
    except ValueError:
        take()
    finally:
        take()


def broken_lines():
    (take(), [
        take(),
        Model().
        weight,
        max(1,
            2,
            take() or 3),
    ])


def callbacks():
    sorted([2, 1], key=lambda value: take() or value)
    list(map(lambda value: take(), [1]))
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda one, other: take() or 0)
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, 4, compare)


def garbage():
    class Collected:
        def __del__(self):
            take()
    one = Collected()
    del one


def code(text, name):
    exec(compile(text, name, "exec"), {"take": take})


def codes():
    """Code objects in the places of others, with the same names."""
    for lines in range(20):
        code("\n" * lines + "take()", "<string>")
        code("x = 1\n" * 3 + "def f():\n" + " x = 1\n" * lines + " take()\nf()", "<string>")


def long_code():
    code("\n" * 70000 + "take()\n" + "x = [1, 2, 3, str(4)]\n" * 3000 + "take()\n", "/far/away.py")
    code("def f(x):\n" + " x += 1\n" * 700 + " take()\n" + " x += 1\n" * 700 + " take()\n\n\nf(0)", "/far/long.py")
    code("take(); x = [\n" + "1,\n" * 300 + "take()]; take()", "/far/back.py")


def names():
    code("def größe():\n take()\ngröße()", "/tmp/ünï.py")
    code("def 函数():\n take()\n函数()", "/tmp/文件.py")
    code("def f():\n take()\nf()", "/tmp/\U0001F642.py")
    code("def f():\n take()\nf()", "/tmp/bro\nken\x7f\udc80.py")
    code("take()", "/" + "long/" * 100 + "end.py")
    code("take()", "/" + "läng/" * 100 + "end.py")
    code("def " + "f" * 200 + "():\n take()\n" + "f" * 200 + "()", "<string>")
    code("take()", "")
    code("take()", Path("/of/a/class/of/its/own.py"))


def traced():
    def trace(*what):
        return trace
    sys.settrace(trace)
    loops()
    Model()(1)
    sys.settrace(None)
    plain()


def deep(depth, innermost=take):
    return deep(depth - 1, innermost) if depth else innermost()


def in_thread(held, released_by_others):
    def run():
        current()
        holder.driver = HELD if held else RELEASED
        Model()(1, two=2)
        deep(100)
        codes()

    def spin():
        while not ended.is_set():
            sys._current_frames()
    ended = threading.Event()
    threads = [threading.Thread(target=run)] + [threading.Thread(target=spin) for _ in range(released_by_others)]
    for thread in threads:
        thread.start()
    threads[0].join()
    ended.set()
    for thread in threads:
        thread.join()


def interpreters():
    """While there is another interpreter, nobody's frames are known."""
    try:
        import _interpreters as of_system
    except ImportError:
        try:
            import _xxsubinterpreters as of_system
        except ImportError:
            return
    other = of_system.create()
    take(False)
    deep(1)
    expected.update({key: [] for key in list(expected)[-1:]})
    of_system.destroy(other)
    take()


def everything():
    for driver in RELEASED, HELD:
        holder.driver = driver
        for test in (plain, loops, Model(), generators, coroutines, inits, errors, broken_lines, callbacks, garbage, codes,
                     long_code, names, traced):
            test()
        deep(5)
        deep(100)
    holder.driver = RELEASED
    in_thread(False, 1)
    in_thread(True, 1)
    if hasattr(os, "fork"):
        forked()
    interpreters()


def forked():
    """The child of a fork has the frames of its parent. It is not recorded; it must not fail."""
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                deep(3)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def briefly():
    address = ctypes.c_uint64()
    holder.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
    holder.driver.cuMemFree_v2(address)


class Ends:
    def __del__(self):
        for _ in range(3):
            holder.driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4096))


def end():
    import atexit

    def forever():
        current()
        while True:
            deep(20, briefly)
    atexit.register(deep, 3, briefly)
    for _ in range(4):
        threading.Thread(target=forever, daemon=True).start()
    deep(3, briefly)


if __name__ == "__main__":
    current()
    if sys.argv[1:] == ["end"]:
        ends = Ends()
        end()
    else:
        everything()
        print(json.dumps([sys.version.split()[0], getattr(sys, "_is_gil_enabled", lambda: True)(), expected]))
