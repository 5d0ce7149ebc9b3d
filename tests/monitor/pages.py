# SPDX-License-Identifier: Apache-2.0
"""pages.py: live pages (include/vram/live_page.h, docs/live-page.md) of processes that do not exist, for tests.

Their process ids belong to another id space than the test's, so that readers cannot find them ended.
"""
import os
import struct

UNKNOWN = 2**64 - 1
HEAD_BYTES = 1552
NOBODY = 54321  # a user without a name
SPACE = 1  # no inode of /proc/*/ns/pid is that low
COUNTS = ("held", "live", "allocated", "cached", "asleep", "limit", "peak", "peak_live", "blocks", "allocs", "frees",
          "hits", "misses", "cache_hits", "refusals", "limit_refusals", "quota_refusals", "fallbacks", "moved",
          "driver_calls", "alloc_rate", "free_rate")
GIB = 2**30
MIB = 2**20
FRESH = 2**62  # a time to come: a page whose process is never taken as stopped


def text(value, size):
    return value.encode("utf-8", "surrogateescape")[:size - 1].ljust(size, b"\0")


def counts(values):
    values = {"limit": UNKNOWN, **values}
    return struct.pack("=22Q", *(values.get(name, 0) for name in COUNTS))


def device(backend="cuda", name="NVIDIA H200", index=0, kind=0, total=139 * GIB, free=100 * GIB, held=0, uuid=b"",
           pci="", level=1, pressure=280000, limit=UNKNOWN, pools=1):
    return struct.pack("=16s128s16s16s4I6Q", text(backend, 16), text(name, 128), text(pci, 16), uuid.ljust(16, b"\0"),
                       int(bool(uuid)), kind, index, level, pressure, total, free, held, held, limit) + \
        struct.pack("=Q", pools)


def pool(name, device_row=0, level=1, pressure=280000, number=1, **values):
    return struct.pack("=64sQIIQII", text(name, 64), number, device_row, level, pressure, 0, 0) + counts(values)


def tag(name, used, device_row=0, peak=None, soft=UNKNOWN, hard=UNKNOWN, refusals=0):
    return struct.pack("=96sII8Q", text(name, 96), device_row, 0, used, used, peak or used, 1, 1, soft, hard, refusals)


def refusal(size, cause, words, pool_name="main", tag_name="", date=1700000000):
    return struct.pack("=3QIi64s64s256s", 1, date * 10**9, size, cause, 5, text(pool_name, 64), text(tag_name, 64),
                       text(words, 256))


def page(pid, command, devices=(), pools=(), tags=(), refusals=(), sizes=None, causes=None, origin=0, user=NOBODY,
         total=None, updated=None, **values):
    """The bytes of a page; `sizes` is {bin: (blocks, bytes)}, `causes` {cause: times}, other values its sums."""
    tables, rows, at = b"", b"", HEAD_BYTES
    for kind in (devices, pools, tags, refusals):
        stride = len(kind[0]) if kind else 0
        most = (total or len(kind)) if kind is pools else len(kind)
        tables += struct.pack("=4I", at, stride, len(kind), max(most, len(kind)))
        rows += b"".join(kind)
        at += stride * len(kind)
    bins = b"".join(struct.pack("=2Q", *(sizes or {}).get(number, (0, 0))) for number in range(48))
    now = FRESH if updated is None else updated
    head = struct.pack("=8sII6QII32s256sIIQQ", b"VRAMPAGE", 1, HEAD_BYTES + len(rows), pid, pid * 10, SPACE,
                       user, now, 100000000, origin, 0, text("0.1.0", 32),
                       text(command, 256), 0, 0, 2, now)
    head += tables + counts(values) + struct.pack("=3Q", 0, 0, 1)
    head += b"".join(struct.pack("=Q", (causes or {}).get(cause, 0)) for cause in range(16))
    head += struct.pack("=Q", now) + bins
    assert len(head) == HEAD_BYTES, len(head)
    return head + rows


def write(runtime, pid, data):
    """Puts a page where readers with XDG_RUNTIME_DIR=runtime look for it."""
    folder = os.path.join(runtime, "vram")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{pid}-{pid * 10}-{SPACE}.page")
    with open(path + ".new", "wb") as stream:
        stream.write(data)
    os.rename(path + ".new", path)
    return path


UUID = bytes(range(1, 17))


def example(runtime):
    """Three processes on one GPU, one of them on a second device too, as the documents show them."""
    gpu = dict(uuid=UUID, pci="0000:3b:00.0", total=139 * GIB, free=91 * GIB, level=1, pressure=345000)
    write(runtime, 4711, page(
        4711, "python3 train.py --batch 64",
        [device(held=24 * GIB, **gpu)],
        [pool("main", held=22 * GIB, live=21 * GIB, allocated=21 * GIB, cached=600 * MIB, limit=40 * GIB,
              peak=23 * GIB, blocks=812, allocs=912000, frees=911188, hits=911500, misses=500, driver_calls=1520,
              moved=3 * GIB, alloc_rate=1250000, refusals=3, limit_refusals=1, quota_refusals=1, level=2,
              pressure=620000),
         pool("staging", number=2, held=2 * GIB, live=1 * GIB, allocated=1 * GIB, cached=900 * MIB, peak=2 * GIB,
              blocks=16, allocs=4000, frees=3984, hits=3900, misses=100, driver_calls=210)],
        [tag("model", 14 * GIB, hard=20 * GIB), tag("model/weights", 9 * GIB), tag("model/adam", 5 * GIB),
         tag("activations", 7 * GIB, soft=6 * GIB), tag("activations/attention", 4 * GIB)],
        [refusal(6 * GIB, 9, "the quota of a tag was reached: model uses 14.0 GiB of 20.0 GiB", "main", "model")],
        sizes={9: (300, 300 * 400), 14: (120, 120 * 15000), 21: (200, 380 * MIB), 26: (180, 9 * GIB), 28: (12, 2 * GIB)},
        causes={1: 1, 9: 1, 0: 1}, held=24 * GIB, live=22 * GIB, cached=1500 * MIB, peak=25 * GIB, allocs=916000,
        hits=915400, misses=600, driver_calls=1730, alloc_rate=1250000))
    write(runtime, 4712, page(
        4712, "./server --port 8000",
        [device(held=12 * GIB, **gpu), device("host", "Host memory", held=512 * MIB, kind=1, total=64 * GIB, free=48 * GIB)],
        [pool("kv", held=12 * GIB, live=11 * GIB, cached=512 * MIB, peak=12 * GIB, level=4, pressure=970000,
              limit=12 * GIB, allocs=5000, hits=4990, misses=10, alloc_rate=42000),
         pool("host", device_row=1, number=2, held=512 * MIB, live=500 * MIB)],
        [tag("tenant/a", 6 * GIB), tag("tenant/b", 5 * GIB)],
        held=12800 * MIB, live=11764 * MIB, cached=512 * MIB, peak=12800 * MIB, allocs=5000, alloc_rate=42000))
    write(runtime, 4713, page(
        4713, "ffmpeg -i in.mkv out.mp4", [device(held=3 * GIB, **gpu)],
        [pool("pool", held=3 * GIB, live=3 * GIB, peak=3 * GIB)], origin=1,
        held=3 * GIB, live=3 * GIB, peak=3 * GIB))


if __name__ == "__main__":
    import sys
    example(sys.argv[1])
