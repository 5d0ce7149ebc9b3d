#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_test.py BINARY TOOLS: `vram report --serve` on a running program (tests/viewer/living.c in TOOLS), on pages that lie,
and with clients that mean harm.

Exit code 77 (skipped) if this build of the command has no HTTP server.
"""
import contextlib
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import pages  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
MIB = pages.MIB
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def until(what, seconds=20):
    """Waits for a value that is true."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return value


@contextlib.contextmanager
def living(program, *words, **settings):
    """Runs the program until the block ends."""
    with subprocess.Popen([program, "viewer_living", *words], env={**os.environ, "VRAM_LIVE": "on", **settings}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "vram")
            until(lambda: os.path.isdir(folder) and any(n.startswith(f"{child.pid}-") for n in os.listdir(folder)))
            time.sleep(0.2)  # an update after the first allocations
            yield child
        finally:
            child.send_signal(signal.SIGCONT)
            child.stdin.close()
            child.wait(30)


class Server:
    """The command, and its URL."""

    def __init__(self, binary, *words):
        self.child = subprocess.Popen([binary, "report", "--serve", *words], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        line = self.child.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)\n", line)
        if not found:
            said = self.child.communicate()[1]
            if "no HTTP server" in said:
                print(f"skipped: {said.strip()}")
                sys.exit(77)
            raise AssertionError(f"{line!r} {said!r}")
        self.port, self.path = int(found.group(1)), found.group(2)
        self.said = self.child.stdout.readline()

    def ask(self, raw, wait=10):
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as client:
            answer = b""
            with contextlib.suppress(ConnectionError, socket.timeout):
                client.sendall(raw)
                while piece := client.recv(65536):
                    answer += piece
            return answer

    def get(self, route="", host="127.0.0.1", path=None, method="GET", **more):
        lines = [f"{method} {path if path is not None else self.path + route} HTTP/1.1"]
        lines += [f"Host: {host}"] if host is not None else []
        lines += [f"{name}: {value}" for name, value in more.items()]
        head, _, body = self.ask(("\r\n".join(lines) + "\r\n\r\n").encode()).partition(b"\r\n\r\n")
        fields = head.decode("latin-1").split("\r\n")
        status = int(fields[0].split()[1]) if len(fields[0].split()) > 1 else 0
        return status, dict(field.split(": ", 1) for field in fields[1:]), body.decode()

    def live(self, query=""):
        status, _, body = self.get("live.json" + query)
        assert status == 200, (status, body)
        return json.loads(body)

    def end(self, how=signal.SIGINT):
        """Ends it as Ctrl-C does."""
        self.child.send_signal(how)
        out, err = self.child.communicate(timeout=30)
        assert self.child.returncode == 0 and not out and not err, (self.child.returncode, out, err)


# --------------------------------------------------------------- a true process

def moving(binary, program):
    with living(program, VRAM_TRACKING="on", VRAM_TRACK_STACKS="1") as child:
        server = Server(binary, "--pid", str(child.pid))
        status, head, body = server.get()
        assert status == 200 and "<canvas" in body and head["Content-Type"] == "text/html; charset=utf-8", head
        policy = head["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy, policy
        assert head["Referrer-Policy"] == "no-referrer" and head["X-Frame-Options"] == "DENY", head
        first = server.live()
        assert first["state"] == "running" and first["process"]["pid"] == child.pid, first
        assert first["past"]["from"] == 0 and first["pools"][0]["limit_bytes"] == 900 * MIB, first
        # What it does shows: blocks, the past, a refusal.
        later = until(lambda: (now := server.live())["blocks"]["known"] and len(now["past"]["number"]) > 2
                      and now["refusals"] and now)
        assert later["process"]["sum"]["allocations"] > first["process"]["sum"]["allocations"]
        tags = {column["tag"]: column["bytes"] for column in later["past"]["columns"]}
        assert set(tags) >= {"model/weights", "model/activations", "loss"} and tags["loss"][-1] > tags["loss"][0], tags
        past = later["past"]
        for i, live in enumerate(past["live_bytes"]):
            assert sum(column[i] for column in tags.values()) <= live <= past["held_bytes"][i], past
        assert past["limit_bytes"][-1] == 900 * MIB
        assert "1000.00 MiB" in later["refusals"][0]["text"] and later["refusals"][0]["pool"] == "training"
        stacks = [frame for group in later["blocks"]["groups"] for frame in group["stack"]]
        assert any("load_weights" in frame for frame in stacks), stacks
        # Only what is new, for a reader that knows the rest.
        part = server.live(f"?generation={past['generation']}&from={len(past['number']) - 1}")["past"]
        assert part["from"] == len(past["number"]) - 1 and part["number"][0] == past["number"][-1], part
        assert server.live("?generation=77&from=1")["past"]["from"] == 0
        for query in ("?from=x", "?generation=-1", "?from=99999999999999999999", "?from="):
            assert server.get("live.json" + query)[0] == 400, query
        # It stops, and is told; it ends, and is told, and the command ends.
        child.send_signal(signal.SIGSTOP)
        stopped = until(lambda: (now := server.live())["state"] == "silent" and now)
        assert "stopped" in stopped["words"], stopped["words"]
        child.send_signal(signal.SIGCONT)
        until(lambda: server.live()["state"] == "running")
        child.stdin.close()
        assert child.wait(30) == 0
        ended = until(lambda: (now := server.live())["state"] == "ended" and now)
        assert "has ended" in ended["words"] and ended["past"]["number"], ended["words"]
        out, err = server.child.communicate(timeout=30)
        assert server.child.returncode == 0 and not err, err
        assert re.search(rf"process {child.pid} has ended, .* after this began; it held .* at most\n", out), out


def killed_and_interrupted(binary, program):
    with living(program, "steady", VRAM_TRACKING="off") as child:
        server = Server(binary, "--pid", str(child.pid))
        until(lambda: server.live()["blocks"]["problem"])
        assert "VRAM_TRACKING=on" in server.live()["blocks"]["problem"]
        assert server.said == f"process {child.pid}: {program} viewer_living steady; Ctrl-C ends\n", server.said
        began = time.monotonic()
        server.end()
        assert time.monotonic() - began < 10
        document = json.loads(start_json(binary, child.pid))
        assert document["pid"] == child.pid and document["url"].startswith("http://127.0.0.1:"), document
        server = Server(binary, "--pid", str(child.pid))
        child.kill()
        child.wait(30)
        assert f"process {child.pid} has ended" in server.child.communicate(timeout=30)[0]
        assert server.child.returncode == 0


def start_json(binary, pid):
    """What --json says, to the end of the document."""
    with subprocess.Popen([binary, "report", "--serve", "--json", "--pid", str(pid)], stdout=subprocess.PIPE,
                          text=True) as child:
        text = ""
        while not text.endswith("}\n"):
            text += child.stdout.readline()
        child.terminate()
        assert child.wait(30) == 0
    with contextlib.suppress(SystemExit):  # without jsonschema
        import schema_test  # pylint: disable=import-outside-toplevel
        schema_test.schema_of("vram.report.serve/1").validate(json.loads(text))
    return text


# -------------------------------------------------------------------- requests

def refused_requests(server):
    port, path = server.port, server.path
    for host, expected in [("localhost", 200), (f"localhost:{port}", 200), (f"127.0.0.1:{port}", 200), ("127.9.9.9", 200),
                           ("[::1]:80", 200), ("localhost:8080", 200), ("evil.example.org", 403), ("192.0.2.1", 403),
                           ("localhost.evil.org", 403), ("127.0.0.1.evil.org", 403), ("", 403), ("x" * 400, 403),
                           ("localhost:80x", 403), ("0.0.0.0", 403), (socket.gethostname() + ".", 403)]:
        status, _, body = server.get(host=host)
        assert status == expected, (host, status, body[:100])
        assert status == 200 or "use the URL that vram report --serve has printed" in body, body
    assert server.get(host=None)[0] in (400, 403)
    for origin, expected in [(f"http://127.0.0.1:{port}", 200), (f"http://localhost:{port}", 403), ("null", 403),
                             (f"http://127.0.0.1:{port}\r\nOrigin: http://evil.org", 403),
                             ("https://evil.example.org", 403), (f"http://127.0.0.1:{port}.evil.org", 403),
                             (f"https://127.0.0.1:{port}", 403), ("http://", 403)]:
        assert server.get("live.json", host=f"127.0.0.1:{port}", Origin=origin)[0] == expected, origin
    wrong = "/" + ("0" if path[1] != "0" else "1") + path[2:]
    for where, expected in [(path, 200), (path + "?x=1", 200), (wrong, 403), (wrong + "live.json", 403), ("/", 403),
                            ("/live.json", 403), (path[:-1], 403), (path[:-2] + "/", 403), (path + "other", 404),
                            (path + "../../etc/passwd", 403), (path + "%2e%2e/etc/passwd", 403), ("/etc/passwd", 403),
                            (path.upper() if path.upper() != path else wrong, 403), ("/" + "a" * 9000, 403)]:
        status, _, body = server.get(path=where)
        assert status == expected and "root:" not in body, (where, status, body[:100])
    for method, expected in [("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)]:
        status, head, body = server.get(method=method)
        assert status == expected and (method != "HEAD" or not body), (method, status)
        assert "Access-Control-Allow-Origin" not in head, head


def hostile_clients(server):
    """A megabyte of header, a megabyte of body, a client that waits, a thousand connections."""
    start = f"GET {server.path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    assert b" 200 " not in server.ask(start + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n")[:20]
    body = f"POST {server.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n".encode()
    assert b" 405 " in server.ask(body + b"b" * (1 << 20))[:20]
    began = time.monotonic()
    assert b" 200 " not in server.ask(start[:-4], wait=20)[:20]
    assert time.monotonic() - began < 15, "a client that sends nothing more is let go"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    many = []
    for _ in range(1000):
        client = socket.socket()
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            client.connect(("127.0.0.1", server.port))
        many.append(client)
    time.sleep(0.3)
    assert len(os.listdir(f"/proc/{server.child.pid}/fd")) < 200, "connections are bounded"
    for client in many:
        client.close()
    assert until(lambda: server.get("live.json")[0] == 200, 30)
    assert server.child.poll() is None


# -------------------------------------------------------------------- pages that lie

class Liar:
    """A live page of this process, with any contents."""

    def __init__(self):
        with open("/proc/self/stat", encoding="utf-8") as stream:
            self.start = int(stream.read().rsplit(")", 1)[1].split()[19])
        self.space = os.stat("/proc/self/ns/pid").st_ino
        folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "vram")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, f"{os.getpid()}-{self.start}-{self.space}.page")

    def say(self, *rows, pid=None, **values):
        data = bytearray(pages.page(pid or os.getpid(), "a <b>liar</b>", *rows, **values))
        struct.pack_into("=2Q", data, 24, self.start, self.space)
        self.put(data)

    def put(self, data):
        with open(self.path + ".new", "wb") as stream:
            stream.write(data)
        os.rename(self.path + ".new", self.path)


def lies(binary):
    liar = Liar()
    many = [pages.tag(f"t{i}", 1 << 60) for i in range(64)]
    liar.say([pages.device(level=99, pressure=2**64 - 1)], [pages.pool("<script>", device_row=77, held=2**63, level=250)],
             many, [pages.refusal(2**64 - 1, 4000, "\x1b[31m</script>")] * 8, held=2**63, live=2**55, allocated=2**55)
    server = Server(binary, "--pid", str(os.getpid()))
    now = server.live()
    assert now["process"]["sum"]["held_bytes"] is None and now["process"]["command"] == "a <b>liar</b>", now["process"]
    assert now["pools"][0]["device"] is None and len(now["refusals"]) == 1, now
    columns = now["past"]["columns"]
    assert len(columns) <= 32 and sum(column["bytes"][0] for column in columns) <= 2**55, columns
    # More tags than there are columns: those with most have them.
    liar.say([pages.device()], [pages.pool("p", held=2**40)], [pages.tag(f"new{i}", i << 20) for i in range(64)],
             held=2**40, live=2**40, allocated=2**40)
    for data, words in [(b"", None), (b"VRAMPAGE" + b"\xfe" * 3000, "cannot be read: its version"),
                        (b"x" * (2 << 20), "cannot be read: its size"), (None, "claims to be of another process")]:
        if data is None:
            liar.say(pid=os.getpid() + 1)
        else:
            liar.put(data)
        until(lambda: (server.live()["words"] or "").find(words or "says nothing") >= 0)
        assert server.live()["state"] == "silent"
    liar.say([pages.device()], [pages.pool("p", held=5)], held=5)
    until(lambda: server.live()["state"] == "running")
    liar.say([pages.device()], [pages.pool("device", held=5)], held=5, origin=1)
    until(lambda: "runs under vram run" in (server.live()["blocks"]["problem"] or ""))
    os.unlink(liar.path)
    until(lambda: "no live page any more" in (server.live()["words"] or ""))
    server.end(signal.SIGTERM)


def absent(binary, program):
    def fails(words, *arguments, **more):
        result = subprocess.run([binary, "report", "--serve", *arguments], capture_output=True, text=True, timeout=30,
                                check=False, **more)
        assert result.returncode == 2 and words in result.stderr and not result.stdout, result
    fails("there is no process 2147483646", "--pid", "2147483646")
    fails("has no live page", "--pid", str(os.getpid()))
    with living(program, "steady"), living(program, "steady") as child:
        fails("processes have live pages, choose one by --pid: ")
        if os.geteuid() == 0 and os.access(binary, os.X_OK):
            with contextlib.suppress(PermissionError):  # where others cannot enter the folder of the build
                fails("belongs to another user", "--pid", str(child.pid), user=65534)
        taken = socket.create_server(("127.0.0.1", 0))
        fails("cannot listen at 127.0.0.1:", "--pid", str(child.pid), "--port", str(taken.getsockname()[1]))
        taken.close()


def trace(binary):
    server = Server(binary, os.path.join(ROOT, "traces", "serve_kv_cache.csv.gz"))
    status, head, body = server.get()
    assert status == 200 and "payload" in body and len(body) > 100000, (status, head)
    assert server.get("live.json")[0] == 404 and server.get(path="/")[0] == 403
    assert "frame-ancestors 'none'" in head["Content-Security-Policy"]
    server.end()


def main(binary, program):
    with tempfile.TemporaryDirectory() as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        trace(binary)  # first: without an HTTP server the test ends here
        absent(binary, program)
        moving(binary, program)
        killed_and_interrupted(binary, program)
        with living(program, "steady") as child:
            server = Server(binary, "--pid", str(child.pid))
            refused_requests(server)
            hostile_clients(server)
            server.end()
        lies(binary)
    print("all passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
