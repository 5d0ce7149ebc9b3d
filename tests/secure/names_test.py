#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names_test.py PROBE VRAM FAKE_CUDA: names from programs, drivers and files deceive nobody who reads an output.

A name may contain anything: sequences that a terminal obeys, line breaks, bytes that are not UTF-8, marks that turn a
line's direction, pieces of HTML, JSON, CSV and of metrics, ten million letters. Each way by which a name gets into an
output of a verb is taken, and each output is read: texts are lines of printable UTF-8, none of them made by a name;
JSON parses; the page has no markup of a name's; metrics are lines of metrics.
"""
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile

EVIL = (b"\x1b]0;owned\x07\x1b[31mred\nFAKE LINE\r\x9b2J\xff\xfe\xe2\x80\xae\xe2\x81\xa6"
        b"<img src=x onerror=alert(1)></script><script>\"'\\,=1+1}")
HUGE = b"h" * 10_000_000
SAMPLE = re.compile(r"^(?:#.*|[a-zA-Z_:][\w:]*(?:\{(?:[a-zA-Z_]\w*=\"(?:[^\"\\\n]|\\[\\n\"])*\",?)*\})? \S+(?: \S+)?)$")
wrong = []
read = 0


def look(what, data):
    """A text for people."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong.append(f"{what}: not UTF-8: {error}")
        return ""
    for line in text.split("\n"):
        bad = [c for c in line if (ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160 or 0x2028 <= ord(c) <= 0x202e
               or 0x2066 <= ord(c) <= 0x2069]
        if bad:
            wrong.append(f"{what}: {bad[0]!r} in {line[:120]!r}")
            break
        if line.startswith("FAKE LINE"):
            wrong.append(f"{what}: a name made a line of its own")
            break
        if len(line) > 100_000:
            wrong.append(f"{what}: a line of {len(line)} characters")
            break
    return text


def look_json(what, data):
    text = look(what, data)
    try:
        json.loads(text)
    except ValueError as error:
        wrong.append(f"{what}: {error}: {text[:200]!r}")


def look_page(what, data):
    for piece in (b"<img src=x", b"</script><script>", b"\x1b]0"):
        if piece in data:
            wrong.append(f"{what}: {piece!r} is in the page")


def look_metrics(what, data):
    for line in look(what, data).splitlines():
        if not SAMPLE.match(line):
            wrong.append(f"{what}: not a metric: {line[:200]!r}")
            break


def look_nothing(what, data):
    del what, data


def run(what, command, check=look, codes=(0, 1), **more):
    global read
    try:
        done = subprocess.run(command, capture_output=True, timeout=100, check=False, **more)
    except subprocess.TimeoutExpired:
        wrong.append(f"{what}: no end")
        return b""
    if done.returncode not in codes:
        wrong.append(f"{what}: exit code {done.returncode}: {done.stderr[:300]!r}")
    check(what, done.stdout)
    look(f"{what}, stderr", done.stderr)
    read += 2
    return done.stdout


# ------------------------------------------------------------------------------------------------ files

def safetensors(name):
    header = json.dumps({name: {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def gguf(name):
    def text(data):
        return struct.pack("<Q", len(data)) + data
    pairs = [(b"general.architecture", name), (b"general.name", name)]
    body = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs))
    for key, value in pairs:
        body += text(key) + struct.pack("<I", 8) + text(value)
    return body + text(name[:60]) + struct.pack("<IQIQ", 1, 4, 0, 0) + bytes(64)


def config(name):
    return json.dumps({"model_type": name, "architectures": [name], "hidden_size": 64, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128}).encode()


def snapshot(name):
    frames = [{"name": name, "filename": name, "line": 3}]
    events = [{"action": "alloc", "addr": 4096 * i, "size": 512, "stream": 0, "frames": frames} for i in (1, 2)]
    return pickle.dumps({"segments": [], "device_traces": [events]})


def memory_json(name):
    return json.dumps({"traceEvents": [{"name": "[memory]", "ph": "i", "ts": i, "pid": 1, "tid": name, "args": {
        "Addr": 4096 * i, "Bytes": 512, "Device Type": 1, "Device Id": 0, "Total Allocated": 512, "op": name}}
        for i in (1, 2)]}).encode()


def rmm(name):
    return b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000000,allocate,0x1000,512,0x0\n" + \
        b"1,10:00:00:000001," + name.replace(b"\n", b" ") + b",0x1000,512,0x0\n"


def csv(name):
    return b"op,id,bytes,stream,t_us\na,0,4096,0,1\n" + name.replace(b"\n", b" ") + b",1,2,3,4\n"


FILES = {"model.safetensors": safetensors, "model.gguf": gguf, "config.json": config, "snapshot.pickle": snapshot,
         "trace.json": memory_json, "rmm.log": rmm, "trace.csv": csv}


def check_files(vram, folder, environment):
    text = EVIL.decode("utf-8", "replace")
    texts = ("model.safetensors", "config.json", "snapshot.pickle", "trace.json")
    for name, make in FILES.items():
        for kind, evil in (("evil", EVIL), ("huge", HUGE)):
            path = os.path.join(folder, kind.encode(), name.encode())
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(make((text if kind == "evil" else evil.decode()) if name in texts else evil))
            verb = ["estimate"] if name.startswith(("model", "config")) else ["report", "replay"]
            for each in verb:
                extra = ["--backend", "sim"] if each == "replay" else []
                more = {"codes": (0, 1, 2), "env": environment}
                run(f"{each} {kind} {name}", [vram, each, path, *extra], **more)
                run(f"{each} {kind} {name} --json", [vram, each, path, *extra, "--json"], look_answer, **more)


def look_answer(what, data):
    """JSON, or nothing where the file was refused."""
    if data:
        look_json(what, data)


# --------------------------------------------------------------------------------------------- programs

def check_trace(probe, vram, folder, environment):
    """A program's own names, in every form of the report and in the reports of the library."""
    plain, trace = os.path.join(folder, b"trace.vrt"), os.path.join(folder, b"\x1b[31mtrace\nFAKE LINE.vrt")
    for kind, evil in (("evil", EVIL), ("long", EVIL * 900), ("tag", b"a\x1b[31m/b\"c")):
        said = run(f"program with {kind} names", [probe, evil[:63], evil, evil[:100], b"0"], look_nothing,
                   env={**environment, b"VRAM_TRACE": plain, b"VRAM_LEAKS": b"text", b"VRAM_LOG": b"debug",
                        b"VRAM_TRACKING": b"on"})
        os.rename(plain, trace)
        parts = said.split(b"\n=====\n")
        look(f"out-of-memory report of {kind}", parts[0])
        look_json(f"out-of-memory report of {kind} as JSON", parts[1] if len(parts) > 1 else b"")
        leaks = os.path.join(folder, b"leaks.json")
        run(f"leaks of {kind}", [probe, evil[:63], evil, b"tag", b"0"], look_nothing,
            env={**environment, b"VRAM_LEAKS": b"json", b"VRAM_LEAK_FILE": leaks})
        with open(leaks, "ab+") as stream:
            stream.seek(0)
            look_json(f"leaks of {kind} as JSON", stream.read())
        os.unlink(leaks)
        for form, check in (("text", look), ("json", look_json), ("html", look_page), ("folded", look), ("csv", look),
                            ("perfetto", look_nothing), ("memory_viz", look_nothing)):
            run(f"report --format {form} of {kind}", [vram, "report", trace, "--format", form], check, env=environment)
        run(f"report of {kind}", [vram, "report", trace], env=environment)
        run(f"report --leaks of {kind}", [vram, "report", trace, "--leaks"], env=environment)
        run(f"report --against of {kind}", [vram, "report", trace, "--against", trace], env=environment)
        run(f"replay of {kind}", [vram, "replay", trace, "--backend", "sim"], env=environment)
        run(f"replay --json of {kind}", [vram, "replay", trace, "--backend", "sim", "--json"], look_json, env=environment)


def check_live(probe, vram, environment):
    """What other processes say of themselves."""
    with subprocess.Popen([probe, EVIL[:63], EVIL, b"a\x1b[31m/b\"c", b"20000"], stdout=subprocess.PIPE,
                          env={**environment, b"VRAM_LIVE": b"on", b"VRAM_TRACKING": b"on"}) as live:
        for line in live.stdout:
            if line == b"=====\n":
                break
        pid = str(live.pid)
        for _ in range(100):  # until the page is there
            if b"pools" in subprocess.run([vram, "top", "--json", "--pages-only", "--once"], capture_output=True,
                                          env=environment, check=False).stdout:
                break
        run("top", [vram, "top", "--once", "--pages-only"], env=environment)
        run("top --pid", [vram, "top", "--once", "--pages-only", "--pid", pid], env=environment)
        run("top --json", [vram, "top", "--json", "--pages-only", "--once"], look_json, env=environment)
        run("top --csv", [vram, "top", "--csv", "--pages-only", "--once"], env=environment)
        metrics = run("exporter", [vram, "exporter", "--once"], look_metrics, env=environment)
        run("report --pid", [vram, "report", "--pid", pid], env=environment)
        run("report --pid --json", [vram, "report", "--pid", pid, "--json"], look_json, env=environment)
        live.kill()
    if b"owned" not in metrics:
        wrong.append("exporter: the pool with the name is not there")


def check_arguments(probe, vram, fake, folder, environment):
    """Words of the command line, in what is said about them, and names of devices."""
    word = EVIL.replace(b"\0", b"")
    for command in ([word], ["help", word], ["info", "--backend", word], ["report", word], ["replay", word],
                    ["check", "--filter", word], ["bench", word], ["estimate", word], ["run", "--", word], ["stress", word],
                    ["top", "--filter", word, "--once", "--pages-only"], ["--" + word.decode("latin1")],
                    ["info", "--color", word], ["completion", word], ["report", "--pid", word], ["exporter", "-l", word]):
        command = [part if isinstance(part, bytes) else part.encode("latin1") for part in command]
        run(f"vram {command[:2]!r}", [vram, *command], codes=(0, 1, 2, 127), env=environment)
    devices = {**environment, b"VRAM_CUDA_LIBRARY": fake, b"VRAM_BACKENDS": b"cuda", b"FAKE_CUDA_NAME": EVIL}
    run("info of a driver with such a name", [vram, "info"], env=devices)
    run("info --json of it", [vram, "info", "--json"], look_json, env=devices)
    run("bench on it", [vram, "bench", "alloc", "--seconds", "0.1"], env=devices, codes=(0, 1, 2))
    for name in (b"VRAM_CONF", b"VRAM_SIM", b"VRAM_LADDER", b"VRAM_QUOTAS", b"VRAM_\x1b[31m"):
        run(f"{name!r} in the environment", [vram, "info"], codes=(0, 1, 2), env={**environment, name: EVIL})
    strange = os.path.join(folder, b"\x1b[31mprogram\nFAKE LINE")
    os.symlink(os.fsencode(probe), strange)
    report = os.path.join(folder, b"run.vrt")
    run("run", [vram, "run", "-o", report, "--leaks", "--", strange, EVIL[:63], EVIL, b"t", b"0"], look_nothing, env=environment)
    run("run --json", [vram, "run", "--json", "-o", report, "--", strange, EVIL[:63], EVIL, b"t", b"0"], look_nothing,
        env=environment)


def main(probe, vram, fake):
    probe, vram, fake = map(os.path.abspath, (probe, vram, fake))
    with tempfile.TemporaryDirectory() as place:
        folder = os.fsencode(place)
        environment = {b"PATH": os.environb[b"PATH"], b"LC_ALL": b"C.UTF-8", b"VRAM_BACKENDS": b"host,sim",
                       b"XDG_RUNTIME_DIR": folder, b"VRAM_LIVE": b"off", b"OCL_ICD_VENDORS": b"/nonexistent"}
        check_files(vram, folder, environment)
        check_trace(probe, vram, folder, environment)
        check_live(probe, vram, environment)
        check_arguments(probe, vram, os.fsencode(fake), folder, environment)
    print("\n".join(wrong) or f"{read} outputs: no name had an effect")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
