#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_trace.py WHAT: writes a small trace, as docs/trace-format.md describes it, to standard output.

WHAT is `story` (everything a report shows), `clean` (all is freed), `lost` (pools end with blocks in them), `fold` (one
function calls from several places), `lines` (frames with lines), `killed` (a program that was killed) or `damaged`. report.t reads
what this writes: by the document, not by the library, so that the two are held against each other.
"""
import struct
import sys
import zlib

HEADER, CHUNK = 512, 4096
TEXT, FRAME, STACK, THREAD, QUEUE, POOL = range(1, 7)
ALLOC, FREE, RESIZE, REFUSE, POOL_BEGIN, POOL_END, SAMPLE, MARK = range(0x10, 0x18)
TRANSFER = 0x40
MIB = 1 << 20


def number(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


class Writer:
    """Records of one chunk."""

    def __init__(self):
        self.records, self.defined = b"", {}
        self.now = self.last_id = self.last_addr = self.events = 0

    def name(self, kind, *parts):
        if (kind, parts) not in self.defined:
            own = self.defined[kind, parts] = len(self.defined) + 1
            body = b"".join(number(p) if isinstance(p, int) else number(len(p)) + p for p in parts)
            if kind == STACK:
                body = number(len(parts)) + b"".join(number(p) for p in parts)
            self.records += bytes([kind]) + number(own) + body
        return self.defined[kind, parts]

    def text(self, words):
        return self.name(TEXT, words.encode()) if words else 0

    def stack(self, frames):
        return self.name(STACK, *[self.name(FRAME, f.encode()) for f in frames]) if frames else 0

    def difference(self, field, value):
        by, _ = value - getattr(self, field), setattr(self, field, value)
        return number(by << 1 if by >= 0 else (-by << 1) - 1)

    def event(self, kind, at_ms, *parts):
        at = int(at_ms * 1e6)
        body = b"".join(number(p) if isinstance(p, int) else p for p in parts)
        self.records += bytes([kind]) + number(at - self.now) + body
        self.now, self.events = at, self.events + 1

    def place(self, pool, queue=0x203, thread=1):
        return [self.name(THREAD, thread), self.pool(pool), self.name(QUEUE, queue)]

    def pool(self, pool):
        return self.name(POOL, 0x106 + 0x100 * pool, 0x102, b"main" if pool == 0 else b"scratch")

    def alloc(self, at, own, size, tag="", frames=(), label="", pool=0, held=None):
        place, tag, label = self.place(pool), self.text(tag), self.text(label)
        stack = self.stack(frames)
        addr = 0x7f0000000000 + own * 64 * MIB
        self.event(ALLOC, at, *place, self.difference("last_id", own),
                   self.difference("last_addr", addr), size, (held or size) - size, tag, label, stack)

    def transfer(self, at_ms, direction, route, size, took_us, status=0):
        after = int(at_ms * 1e6) - self.now
        body = b"".join(number(p) for p in (after, 1, 0x102, direction, route, size, took_us * 1000, status))
        self.records += bytes([TRANSFER]) + number(len(body)) + body

    def free(self, at, own, size, pool=0):
        self.event(FREE, at, *self.place(pool), self.difference("last_id", own), size)

    def sample(self, at, live, reserved, cached, free, largest, limit, hits, misses, pool=0):
        self.event(SAMPLE, at, self.pool(pool), live, live, reserved, cached, free, largest, limit,
                   hits, misses)


def file(writer, sealed=True, spoil=False):
    header = b"\x89VRT\r\n\x1a\n" + struct.pack("<IIIIQQ", 1, HEADER, CHUNK, 0, 1700000000 * 10**9, 42)
    header += bytes(12)
    header = (header + struct.pack("<I", zlib.crc32(header))).ljust(64, b"\0")
    body = struct.pack("<QQQQ", 0, 0, 0, 0) + writer.records
    seal = zlib.crc32(body) << 32 | 0x80A50000 | len(writer.records)
    chunk = b"VRTC" + bytes(4) + struct.pack("<Q", seal if sealed else 0) + body
    assert len(chunk) <= CHUNK
    if sealed:
        end = struct.pack("<QQQQQ", writer.events, 0, 1, writer.now, HEADER + len(chunk))
        header += struct.pack("<Q", zlib.crc32(end) << 32 | 0x80A50001) + end
    chunk = chunk.replace(b"model/weights", b"model/wEights", 1) if spoil else chunk
    return header.ljust(HEADER, b"\0") + chunk + (b"" if sealed else bytes(100))


def story(w):
    layer = ("program`load_layer+0x2c", "program`load_model+0x10", "program`main+0x80")
    step = ("program`attention+0x44", "program`step+0x1f", "program`main+0xc3")
    for pool in (0, 1):
        w.event(POOL_BEGIN, 0, w.pool(pool))
    for i in range(8):
        w.alloc(1 + i, 1 + i, 48 * MIB, "model/weights", layer, f"layer {i}")
        w.transfer(1 + i, 0, 4, 48 * MIB, 900 + i)
    w.event(MARK, 10, w.text("model loaded"))
    w.sample(10, 384 * MIB, 512 * MIB, 0, 128 * MIB, 128 * MIB, 1024 * MIB, 2, 6)
    for i in range(6):
        at = 20 + 10 * i
        w.alloc(at, 100 + i, 96 * MIB, "kv cache", step)
        w.alloc(at + 1, 200 + i, 300, "", step, "", 1, 512)
        w.free(at + 5, 200 + i, 300, 1)
        w.transfer(at + 5.5, 1, 7, 4 * MIB, 80)
        if i < 5:
            w.free(at + 6, 100 + i, 96 * MIB)
    place = w.place(0)
    w.event(RESIZE, 80, *place, w.difference("last_id", 105), 96 * MIB, 160 * MIB, 0)
    w.transfer(84, 1, 1, 64 * MIB, 2000, 60)
    w.event(REFUSE, 85, *w.place(0), 2048 * MIB, 22, w.text("kv cache"))
    w.sample(90, 544 * MIB, 980 * MIB, 128 * MIB, 300 * MIB, 64 * MIB, 1024 * MIB, 12, 10)
    for i in range(8):
        w.free(100 + i, 1 + i, 48 * MIB)
    w.alloc(110, 300, 4096, "log\x1b[31m", (), "tab\there")
    w.event(POOL_END, 115, w.pool(1))


def clean(w):
    w.event(POOL_BEGIN, 0, w.pool(0))
    w.alloc(1, 1, MIB, "a")
    w.free(3, 1, MIB)
    w.event(POOL_END, 4, w.pool(0))


def lost(w):
    """Pools that end with blocks in them."""
    for pool in (0, 1):
        w.event(POOL_BEGIN, pool * 5, w.pool(pool))
        w.alloc(pool * 5 + 1, pool * 2 + 1, MIB, "a", (), "", pool)
        w.alloc(pool * 5 + 2, pool * 2 + 2, 2 * MIB, "b", (), "", pool)
        w.free(pool * 5 + 3, pool * 2 + 2, 2 * MIB, pool)
        w.event(POOL_END, pool * 5 + 4, w.pool(pool))


def fold(w):
    """One function that calls from several places, in a module, and in one without names."""
    w.event(POOL_BEGIN, 0, w.pool(0))
    for i, offset in enumerate((0x1c, 0x2f, 0x1c)):
        frames = (f"load_layer+0x{offset:x} (libmodel.so+0x{0x1000 + offset:x})", "main+0x80 (program+0x4080)")
        w.alloc(1 + i, 1 + i, MIB, "weights", frames)
    w.alloc(5, 10, 10 * MIB, "", ("libplain.so+0x10", "main+0x99 (program+0x4099)"))
    w.alloc(6, 11, 11 * MIB, "", ("libplain.so+0x20", "main+0x99 (program+0x4099)"))
    w.event(POOL_END, 9, w.pool(0))


def lines(w):
    """Functions with lines; one without a name, whose line is known."""
    w.event(POOL_BEGIN, 0, w.pool(0))
    for i, (line, offset, caller) in enumerate(((40, 0x1c, 7), (40, 0x2f, 9), (42, 0x44, 9))):
        frames = (f"load_layer+0x{offset:x} (model.c:{line}, libmodel.so+0x{0x1000 + offset:x})",
                  f"main+0x{0x80 + i:x} (main.c:{caller}, program+0x{0x4080 + i:x})")
        w.alloc(1 + i, 1 + i, (1 + i) * MIB, "weights", frames)
    w.alloc(5, 10, 10 * MIB, "", ("libplain.so+0x10 (plain.c:3)", "main+0x99 (main.c:11, program+0x4099)"))
    w.event(POOL_END, 9, w.pool(0))


def main(what):
    writer = Writer()
    {"story": story, "damaged": story, "lost": lost, "fold": fold, "lines": lines}.get(what, clean)(writer)
    if what == "killed":
        writer.alloc(5, 2, 3 * MIB, "left")
        writer.records += b"\0\1\2"  # on its way when the end came: its first byte comes last
    return file(writer, what != "killed", what == "damaged")


if __name__ == "__main__":
    if sys.argv[1:] not in (["story"], ["clean"], ["killed"], ["damaged"], ["lost"], ["fold"], ["lines"]):
        sys.exit(__doc__)
    sys.stdout.buffer.write(main(sys.argv[1]))
