#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exporter_test.py BINARY [RULES]: `vram exporter` over HTTP and as a file, with clients that mean harm.

promtool judges the text and the alert rules, Python's prometheus_client the OpenMetrics form, where they are
installed. Exit code 77 (skipped) if this build of the command has no HTTP server.
"""
import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
import pages  # noqa: E402

OPEN = "application/openmetrics-text; version=1.0.0"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def environment():
    return {**os.environ, "LC_ALL": "C"}


def pages_of(runtime):
    """Other processes of the machine may have pages too."""
    return ["--pages", os.path.join(runtime, "vram")]


@contextlib.contextmanager
def exporter(binary, runtime, *arguments):
    """Runs the exporter at a free port; yields it and the port."""
    child = subprocess.Popen([binary, "exporter", "--listen", "127.0.0.1:0", *pages_of(runtime), *arguments], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=environment())
    line = child.stdout.readline()
    match = re.fullmatch(r"metrics at http://127\.0\.0\.1:(\d+)/metrics\n", line)
    if not match:
        words = child.communicate()[1]
        if "no HTTP server" in words:
            print(f"skipped: {words.strip()}")
            sys.exit(77)
        raise AssertionError(f"{line!r} {words!r}")
    try:
        yield child, int(match.group(1))
    finally:
        child.send_signal(signal.SIGTERM)
        words = child.communicate(timeout=30)
        assert child.returncode == 0, (child.returncode, words)


def ask(port, raw, wait=10):
    """Sends bytes and returns what comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as client:
        answer = b""
        with contextlib.suppress(ConnectionError, socket.timeout):
            client.sendall(raw)
            while piece := client.recv(65536):
                answer += piece
        return answer


def get(port, path="/metrics", host="localhost", method="GET", accept=None):
    lines = [f"{method} {path} HTTP/1.1"] + ([f"Host: {host}"] if host is not None else [])
    lines += [f"Accept: {accept}"] if accept else []
    answer = ask(port, ("\r\n".join(lines) + "\r\n\r\n").encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = head.decode("latin-1").split("\r\n")
    status = int(fields[0].split()[1]) if len(fields[0].split()) > 1 else 0
    return status, dict(field.split(": ", 1) for field in fields[1:]), body.decode()


def promtool(text):
    if not shutil.which("promtool"):
        print("not checked by promtool: it is not installed (Debian: prometheus)")
        return
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    broken = subprocess.run(["promtool", "check", "metrics"], input=text + "vram_bad{ 1\n", capture_output=True,
                            text=True, check=False)
    assert broken.returncode != 0, "promtool accepts anything"


def families(text):
    """The families of an OpenMetrics text, by our own reader: {name: (type, {labels: value})}."""
    found, name = {}, None
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-3:]
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name not in found, f"{name} twice"
            found[name] = (kind, {})
        elif not line.startswith("# "):
            match = re.fullmatch(r'([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? ([0-9.]+)', line)
            assert match, line
            kind, samples = found[name]
            suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
            assert match.group(1) == name + suffix, line
            assert match.group(2) not in samples, f"twice: {line}"
            samples[match.group(2)] = float(match.group(3))
    return found


def both_forms(binary, runtime):
    pages.example(runtime)
    with exporter(binary, runtime) as (_, port):
        status, head, plain = get(port)
        assert status == 200 and head["Content-Type"].startswith("text/plain; version=0.0.4"), head
        promtool(plain)
        assert ('vram_pool_held_bytes{device="cuda:0",uuid="01020304-0506-0708-090a-0b0c0d0e0f10",pid="4711",'
                'pool="main"} 23622320128\n') in plain, plain
        status, head, text = get(port, accept=OPEN)
        assert status == 200 and head["Content-Type"].startswith(OPEN), head
        found = families(text)
        assert found["vram_pool_pressure"][0] == "stateset" and found["vram_process"][0] == "info"
        states = {labels: value for labels, value in found["vram_pool_pressure"][1].items() if 'pool="kv"' in labels}
        assert len(states) == 5 and sum(states.values()) == 1
        assert [value for labels, value in states.items() if 'vram_pool_pressure="critical"' in labels] == [1]
        refusals = {labels: value for labels, value in found["vram_process_refusals"][1].items()
                    if 'pid="4711"' in labels and value}
        assert sorted(label.split('cause="')[1].split('"')[0] for label in refusals) == ["full", "limit", "quota"]
        # The same samples in both, one line each.
        samples = sorted(line for line in text.split("\n") if line and not line.startswith("#"))
        assert samples == sorted(line for line in plain.split("\n") if line and not line.startswith("#"))
        try:
            from prometheus_client.openmetrics import parser
        except ImportError:
            print("not read by prometheus_client: it is not installed (Debian: python3-prometheus-client)")
        else:
            assert len(list(parser.text_string_to_metric_families(text))) == len(found)


def names_are_escaped(binary, runtime):
    data = pages.page(7, 'a "quoted" \\ command\n\x1b[31m', [pages.device(name="d\udcff\"")],
                      [pages.pool('p"\\\n', held=1), pages.pool("same", number=2), pages.pool("same", number=3)],
                      [pages.tag("x" * 95, 9), pages.tag("x" * 95, 8)], held=1)
    pages.write(runtime, 7, data)
    with exporter(binary, runtime) as (_, port):
        promtool(get(port)[2])
        text = get(port, accept=OPEN)[2]
        found = families(text)
        assert 'command="a \\"quoted\\" \\\\ command??[31m"' in text, text[:3000]
        assert 'pool="same"' in text and 'pool="same#2"' in text and 'pool="p\\"\\\\?"' in text
        assert len([1 for labels in found["vram_tag_used_bytes"][1]]) == 1


def hosts_and_routes(binary, runtime):
    with exporter(binary, runtime, "--host", "gpu1.example.org") as (_, port):
        for host, expected in [("localhost", 200), (f"localhost:{port}", 200), (f"127.0.0.1:{port}", 200),
                               ("[::1]:80", 200), ("GPU1.example.org", 200), (socket.gethostname(), 200),
                               ("evil.example.org", 403), ("localhost.evil.org", 403), ("127.0.0.1.evil.org", 403),
                               ("", 403), ("x" * 400, 403), ("localhost:80x", 403),
                               ("localhost\r\nHost: evil.example.org", 403), ("localhost\r\nhost: localhost", 403)]:
            assert get(port, host=host)[0] == expected, (host, get(port, host=host))
        assert get(port, host=None)[0] in (400, 403)
        for path, expected in [("/", 200), ("/metrics?name=x", 200), ("/-/healthy", 200), ("/nothing", 404),
                               ("/../../etc/passwd", 404), ("/%2e%2e/%2e%2e/etc/passwd", 404), ("/metrics/", 404),
                               ("/" + "a" * 9000, 404)]:
            status, _, body = get(port, path=path)
            assert status == expected and "root:" not in body, (path, status, body[:200])
        assert "Index of" not in get(port, path="/")[2]
        for method, expected in [("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)]:
            status, head, body = get(port, method=method)
            assert status == expected, (method, status, head)
            assert method != "HEAD" or not body


def hostile_clients(binary, runtime):
    with exporter(binary, runtime) as (child, port):
        huge = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n"
        answer = ask(port, huge)
        assert b" 200 " not in answer[:20], answer[:100]
        body = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n" + b"b" * (1 << 20)
        assert b" 405 " in ask(port, body)[:20]
        generator = random.Random(23)
        start = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
        for _ in range(60):
            raw = bytearray(start)
            for _ in range(generator.randrange(1, 6)):
                at = generator.randrange(len(raw))
                raw[at:at + generator.randrange(3)] = generator.randbytes(generator.randrange(4))
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(bytes(raw))
                client.shutdown(socket.SHUT_WR)
                client.settimeout(5)
                client.recv(100)
        # Forty clients that send half a request and wait, and as many that are silent: a scrape waits for none of
        # them to be sent away.
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(80)]
        for client in slow[:40]:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert answer.status == 200
        took = time.monotonic() - begun
        assert select.select(slow, [], [], 0)[0] == [], f"a scrape among 80 slow clients took {took:.1f} s"
        for client in slow:
            client.close()
        assert child.poll() is None
        # Several scrapes at a time.
        failures = []

        def scrape():
            if get(port)[0] != 200:
                failures.append(1)
        threads = [threading.Thread(target=scrape) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def file_for_node_exporter(binary, runtime):
    pages.example(runtime)
    path = os.path.join(runtime, "vram.prom")
    run = [binary, "exporter", *pages_of(runtime), "--once", "--textfile", path]
    subprocess.run(run, check=True, env=environment())
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    promtool(text)
    assert os.stat(path).st_mode & 0o777 == 0o644 and sorted(os.listdir(runtime)) == ["vram", "vram.prom"]
    # A reader never sees half of a file: it is another file each time.
    child = subprocess.Popen([*run[:4], "--textfile", path, "-i", "1"], env=environment())
    first, deadline = os.stat(path).st_ino, time.monotonic() + 20
    while os.stat(path).st_ino == first and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.stat(path).st_ino != first
    with open(path, encoding="utf-8") as stream:
        assert stream.read() == text
    child.terminate()
    assert child.wait(timeout=20) == 0
    bad = subprocess.run([*run[:6], "/nonexistent/x.prom"], capture_output=True, text=True, env=environment(),
                         check=False)
    assert bad.returncode == 2 and "cannot write /nonexistent/x.prom: No such file" in bad.stderr, bad


def many_processes(binary, runtime):
    for pid in range(1, 1001):
        pages.write(runtime, pid, pages.page(pid, f"job {pid}", [pages.device(held=pid)],
                                             [pages.pool("pool", held=pid)], held=pid))
    bad = pages.write(runtime, 2000, b"VRAMPAGE" + b"\xfe" * 3000)
    with exporter(binary, runtime) as (_, port):
        begun = time.monotonic()
        text = get(port)[2]
        print(f"1,000 processes: {len(text) >> 10} KiB in {time.monotonic() - begun:.2f} s")
        assert text.count("vram_process_held_bytes{") == 1000
        assert 'vram_exporter_pages{state="invalid"} 1\n' in text
    os.unlink(bad)


def the_same_id(binary, runtime):
    """Processes of several containers may have one id: it counts once, and first the one that has it here."""
    with open("/proc/self/stat", encoding="utf-8") as stream:
        start = int(stream.read().rsplit(")", 1)[1].split()[19])
    here = os.stat("/proc/self/ns/pid").st_ino
    for pid, ticks, space, command in ((11, 0, 1, "one"), (11, 0, 2, "two"), (12, 0, 2, "three"), (os.getpid(), 0, 1, "other"),
                                       (os.getpid(), start, here, "here"), (os.getpid(), 0, 2, "other")):
        data = bytearray(pages.page(pid, command))
        struct.pack_into("=2Q", data, 24, ticks, space)
        os.rename(pages.write(runtime, pid, data), os.path.join(runtime, "vram", f"{pid}-{ticks}-{space}.page"))
    text = subprocess.run([binary, "exporter", "--once", *pages_of(runtime)], check=True, capture_output=True, text=True,
                          env=environment()).stdout
    assert 'vram_exporter_pages{state="read"} 3\n' in text and 'vram_exporter_pages{state="left_out"} 3\n' in text, text
    assert f'pid="{os.getpid()}",command="here"' in text and '"other"' not in text, text


def misuse(binary, runtime):
    del runtime
    for arguments, words in [(["--listen", "nowhere"], "--listen takes ADDRESS:PORT"),
                             (["--listen", "127.0.0.1:99999"], "--listen takes ADDRESS:PORT"),
                             (["--listen", ":9865"], "--listen takes ADDRESS:PORT"),
                             (["--listen", "::1"], "--listen takes ADDRESS:PORT"),
                             (["--listen", "192.0.2.1:0"], "cannot listen at 192.0.2.1:0: Cannot assign requested address;"),
                             (["--textfile", "x.prom", "--listen", "1"], "--textfile writes a file"),
                             (["--json", "--once"], "metrics are not JSON")]:
        result = subprocess.run([binary, "exporter", *arguments], capture_output=True, text=True, timeout=30,
                                env=environment(), check=False)
        assert result.returncode == 2 and words in result.stderr, (arguments, result)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = subprocess.run([binary, "exporter", "--listen", address], capture_output=True, text=True, timeout=30,
                                env=environment(), check=False)
        assert f"cannot listen at {address}: Address already in use;" in result.stderr, result


def dashboard(binary, runtime):
    """Every metric that the dashboard and the alerts name is one that is exported."""
    pages.example(runtime)
    text = subprocess.run([binary, "exporter", "--once", *pages_of(runtime)], check=True, capture_output=True, text=True,
                          env=environment()).stdout
    exported = set(re.findall(r"^(vram_[a-z_]+)[{ ]", text, re.M))
    for path, least in (("grafana/vram_dashboard.json", 12), ("prometheus/vram_alerts.yml", 4)):
        with open(os.path.join(ROOT, "contrib", path), encoding="utf-8") as stream:
            words = stream.read()
        if path.endswith(".json"):
            words = "\n".join(target["expr"] for panel in json.loads(words)["panels"] for target in panel["targets"])
        named = set(re.findall(r"\b(vram_[a-z_]+)\{", words)) | set(re.findall(r"\((vram_[a-z_]+)\[", words))
        named |= set(re.findall(r"\b(vram_[a-z]+_[a-z_]+_bytes)\b", words))
        assert len(named) >= least and named <= exported, (path, named - exported)


def rules():
    """The alert rules of contrib, with the tests beside them."""
    folder = os.path.join(ROOT, "contrib", "prometheus")
    if not shutil.which("promtool"):
        return
    for command in (["check", "rules", "vram_alerts.yml"], ["test", "rules", "vram_alerts_test.yml"]):
        result = subprocess.run(["promtool", *command], cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    with open(os.path.join(folder, "vram_alerts.yml"), encoding="utf-8") as stream:
        assert stream.read().count("- alert:") == 3


def main(arguments):
    for trial in (both_forms, names_are_escaped, hosts_and_routes, hostile_clients, file_for_node_exporter,
                  many_processes, the_same_id, misuse, dashboard):
        with tempfile.TemporaryDirectory() as runtime:
            trial(arguments[0], runtime)
    rules()
    print("all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
