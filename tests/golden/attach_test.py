#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attach_test.py BINARY PROGRAM: `vram report --pid` on a running program (holding.c), and on one that lies.

The second is this script: it writes a live page of its own and answers requests with what a test says.
"""
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest.mock

HEAD, REQUEST, SEQUENCE = 1552, 360, 368


def report(binary, pid, *words, code=0):
    for _ in range(20):
        done = subprocess.run([binary, "report", "--pid", str(pid), *words], capture_output=True, text=True,
                              timeout=60, check=False)
        if code == 2 or "starved of processor time" not in done.stderr:
            break  # on a busy machine a process that answers may take longer than it has
    assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout if code != 2 else done.stderr


@contextlib.contextmanager
def running(program, *words, **settings):
    with subprocess.Popen([program, *words], env={**os.environ, "VRAM_LIVE": "on", **settings}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            pages = os.path.join(os.environ["XDG_RUNTIME_DIR"], "vram")
            for _ in range(1000 if settings.get("VRAM_LIVE") != "off" else 0):
                if os.path.isdir(pages) and any(name.startswith(f"{child.pid}-") for name in os.listdir(pages)):
                    break
                time.sleep(0.01)
            time.sleep(0.25)  # an update after the last allocation
            yield child
        finally:
            child.send_signal(signal.SIGCONT)
            child.stdin.close()
            child.wait(60)


# ------------------------------------------------------------ a true program

def check_program(binary, program):
    with running(program, VRAM_TRACKING="on", VRAM_TRACK_STACKS="1") as child:
        text = report(binary, child.pid)
        assert f"process {child.pid}: {program}" in text, text
        assert "tracked     3.04 MiB in 11 blocks of 1 pool" in text, text
        assert "model/weights" in text and "(no tag)" in text, text
        assert "hold_blocks+0x" in text and 'pool "main", tag "model/weights"' in text, text
        document = json.loads(report(binary, child.pid, "--json"))
        assert document["tracked_blocks"] == 11 and document["live_blocks"] == 11, document
        group = document["groups"][0]
        assert group["tag"] == "model/weights" and group["bytes"] == 3 << 20 and group["blocks"] == 1, group
        assert any(frame.startswith("hold_blocks") for frame in group["stack"]), group
        assert [block["requested_bytes"] for block in document["largest"]] == [3 << 20] + 10 * [4096]
        check_schema(document)
        assert "no block is a minute old" in report(binary, child.pid, "--leaks")
        check_many(binary, child.pid)
        child.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        assert "does not answer within a second" in report(binary, child.pid, code=2)
        assert time.monotonic() - begun < 5
        child.send_signal(signal.SIGCONT)
        assert "11 blocks" in report(binary, child.pid)
    assert child.returncode == 0
    assert "there is no process" in report(binary, child.pid, code=2)


def check_many(binary, pid):
    """Several at once: each is answered, or told that it is not."""
    asking = [subprocess.Popen([binary, "report", "--pid", str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
              for _ in range(4)]
    codes = [one.wait(60) for one in asking]
    for one in asking:
        one.stdout.close()
        one.stderr.close()
    assert 0 in codes and set(codes) <= {0, 2}, codes


def check_untracked(binary, program):
    with running(program, "threads", VRAM_TRACKING="off") as child:
        text = report(binary, child.pid)
        assert "run the program with" in text and "VRAM_TRACKING=on" in text, text
        report(binary, child.pid)
    with running(program, VRAM_LIVE="off") as child:
        assert "has no live page" in report(binary, child.pid, code=2)


def check_schema(document):
    try:
        import schema_test  # pylint: disable=import-outside-toplevel
    except SystemExit:
        return  # without jsonschema
    validator = schema_test.schema_of(document["schema"])
    validator.validate(document)
    for what, wrong in schema_test.spoilt(document):
        assert not validator.is_valid(wrong), f"the schema accepts {what}"


# ------------------------------------------------------------------ one that lies

class Liar:
    """A live page of this process, and an answer to the next request."""

    def __init__(self, answer):
        with open("/proc/self/stat", encoding="utf-8") as stream:
            start = int(stream.read().rsplit(")", 1)[1].split()[19])
        space = os.stat("/proc/self/ns/pid").st_ino
        folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "vram")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.stem = os.path.join(folder, f"{os.getpid()}-{start}-{space}")
        head = bytearray(HEAD)
        struct.pack_into("=8sIIQQQQ", head, 0, b"VRAMPAGE", 1, HEAD, os.getpid(), start, space, os.getuid())
        struct.pack_into("=QQ", head, SEQUENCE, 2, time.monotonic_ns())
        with open(self.stem + ".page", "wb") as stream:
            stream.write(head)
        self.answer = answer
        self.thread = threading.Thread(target=self.serve if answer is not None else lambda: None)
        self.thread.start()

    def serve(self):
        """Waits for the request word, listens, and sends the answer to the first that comes."""
        for _ in range(500):
            with open(self.stem + ".page", "rb") as stream:
                if struct.unpack_from("=I", stream.read(), REQUEST)[0]:
                    break
            time.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.stem + ".sock")
            listener.listen()
            listener.settimeout(5)
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(self.answer)

    def end(self):
        self.thread.join()
        for ending in (".page", ".sock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.stem + ending)


OLD = b"""vram-live 1
sum 3000 3 1 0
group 2000 2 2000 2 90000000000 1500 0 leaky\x1b[2J
frame leak+0x1 (main.c:7, prog+0x10)
group 1000 1 0 0 5000000 1000 0 young
block 7 4096 1500 1536 90000000000 1
tag leaky
pool main
name big
later 1 2 3
end
"""
DEEP = b"""vram-live 1
sum 1000 1 1 0
group 1000 1 0 0 5000000 1000 0 deep
""" + b"".join(b"frame f%d\n" % i for i in range(10)) + b"""frame fit (net.py:7)
end
"""
WRONG = [b"", b"end\n", b"vram-live 2\nend\n", b"vram-live 1\nsum 1\nend\n", b"vram-live 1\nsum 1 2 3 4\nframe x\nend\n",
         b"vram-live 1\nsum 1 2 3 4\ngroup 1 2 3\nend\n", b"vram-live 1\nsum 99999999999999999999999 2 3 4\nend\n",
         b"vram-live 1\nsum 1 2 3 4\nblock 1 2 3 4 5 6\nend\n", b"vram-live 1\nsum 1 2 3 4\n" + b"x" * 100000,
         b"vram-live 1\nsum 1 2 3 4\n" + b"group 1 1 1 1 1 1 0 \n" * 10000 + b"\nend\n"]


MANY = b"""vram-live 1
sum 900 9 3 5
group 400 4 400 1 70000000000 100 0 model
group 300 3 0 0 5 100 1 data
group 100 1 0 0 5 100 0 other
rest 100 1 0 0 5 100 0 x
block 1 2 100 128 70000000000 3
tag model
pool main
name w
block 2 3 90 128 5 3
tag x
pool main
name x
end
"""


def check_shown(binary):
    """Every part of an answer, as text and as JSON; of --leaks only what is old."""
    for words, code, says, lacks in (
            (["-n", "2"], 0, ("lost        5 records: blocks may be missing here", "data (foreign)", "and 2 more",
                              'pool "main", tag "model", "w"', "5 ns old", "tracked     900 B in 9 blocks of 3 pools",
                              "No stacks were taken"), ("(all others)", "other")),
            ([], 0, ("(all others)", "other"), ("more",)),
            (["--leaks"], 1, ("1 block is a minute old or older", "model"), ("data", "5 ns old")),
            (["--json"], 0, ('"foreign": true', '"rest": true', '"lost_records": 5', '"age_ns": 5'), ()),
            (["--json", "--leaks"], 1, ('"tag": "model"',), ('"data"', '"age_ns": 5,'))):
        liar = Liar(MANY)
        text = report(binary, os.getpid(), *words, code=code)
        liar.end()
        assert all(word in text for word in says) and not any(word in text for word in lacks), (words, text)


def check_paths(binary):
    """A page that is cut, or of another process, and one of a folder whose path is too long for a socket."""
    for change, words in ((lambda data: data[:700], "a page that cannot: "), (lambda data: data[:24] + bytes(8) + data[32:],
                          "it claims to be of another process"), (lambda data: data, "does not answer within a second")):
        liar = Liar(None)
        with open(liar.stem + ".page", "rb+") as stream:
            data = change(stream.read())
            stream.seek(0)
            stream.truncate()
            stream.write(data)
        text = report(binary, os.getpid(), code=2)
        liar.end()
        assert words in text, text
    liar = Liar(b"vram-live 1\n" + b"x" * (65 << 20) + b"\nend\n")  # more than it may take of the reader's memory
    assert "does not answer completely" in report(binary, os.getpid(), code=2)
    liar.end()
    liar = Liar(OLD)  # while another container has a process with the same id
    others = [re.sub(r"-\d+$", f"-{space}", liar.stem) + ".page" for space in (1, 2)]
    with open(liar.stem + ".page", "rb") as stream:
        head = bytearray(stream.read())
    for space, path in enumerate(others, 1):
        struct.pack_into("=Q", head, 32, space)
        with open(path, "wb") as stream:
            stream.write(head)
    assert "in 3 blocks of 1 pool" in report(binary, os.getpid())
    liar.end()
    for path in others:
        os.unlink(path)
    deep = os.path.join(os.environ["XDG_RUNTIME_DIR"], "d" * 90)
    os.mkdir(deep, 0o700)
    with unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=deep):
        liar = Liar(None)
        assert "does not answer within a second" in report(binary, os.getpid(), code=2)
        liar.end()


def check_answers(binary):
    liar = Liar(OLD)
    text = report(binary, os.getpid(), "--leaks", code=1)
    liar.end()
    assert "2 blocks are a minute old or older" in text and "young" not in text, text
    assert "leaky?[2J" in text and "leak+0x1 (main.c:7, prog+0x10)" in text and "\x1b" not in text, text
    liar = Liar(DEEP)
    text = report(binary, os.getpid())
    liar.end()
    assert [line.strip() for line in text.split("\n") if line.startswith("    f")] == ["f0", "f1", "f2", "fit (net.py:7)"], text
    for answer in WRONG:
        liar = Liar(answer)
        text = report(binary, os.getpid(), code=2)
        liar.end()
        assert "does not answer" in text or "is not valid" in text, text


def main(binary, program):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        check_program(binary, program)
        check_untracked(binary, program)
        check_answers(binary)
        check_shown(binary)
        check_paths(binary)
        left = os.listdir(os.path.join(folder, "vram"))
        assert not left, left
    print("passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
