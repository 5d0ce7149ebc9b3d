#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_test.py BUILD [TEST | --pairs | --sanitized WHICH]: `vram run` with programs that use the fake drivers.

With --pairs it measures what the recorder adds to a driver allocation instead. Of a sanitizer's build the tests run
that have threads, forks or memory of their own; what the command says is the same there.
"""
import contextlib
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "viewer"))
import page_data  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = None
if jsonschema:
    with open(os.path.join(ROOT, "docs", "schema", "vram.run-1.schema.json"), encoding="utf-8") as stream:
        SCHEMA = jsonschema.Draft202012Validator(json.load(stream))
BUILD = os.path.abspath(sys.argv[1])
VRAM = os.path.join(BUILD, "vram")
TESTS = os.path.join(BUILD, "tests")
FOUND, LINKED = os.path.join(TESTS, "run_program"), os.path.join(TESTS, "run_program_linked")
MIB = 1 << 20
SANITIZED = sys.argv[3] if sys.argv[2:3] == ["--sanitized"] else ""
IN_SANITIZED = {"test_children", "test_kill", "test_kinds", "test_leak", "test_limit", "test_now", "test_serve",
                "test_threads"}
if "address" in SANITIZED:
    IN_SANITIZED.add("test_hang")  # a library that lies about its devices
PROGRAMS = (FOUND,) if SANITIZED else (FOUND, LINKED)

ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.join(TESTS, "fake"), NO_COLOR="1", LC_ALL="C",
                   OCL_ICD_VENDORS="/nonexistent",
                   # The library comes before the sanitizer's runtime; LeakSanitizer looks at the program's own memory.
                   ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")


def vram(*words, code=0, more=None, **options):
    result = subprocess.run([VRAM, "run", *words], env=dict(ENVIRONMENT, **(more or {})), text=True,
                            capture_output=True, timeout=60, check=False, **options)
    assert result.returncode == code, (words, result.returncode, result.stdout, result.stderr)
    return result


def report(*words, code=0, more=None):
    document = json.loads(vram("--json", *words, code=code, more=more).stdout)
    if SCHEMA:
        SCHEMA.validate(document)
    return document


def one(document):
    assert len(document["processes"]) == 1, document
    return document["processes"][0]


def test_leak(folder):
    """Three blocks, found with the function that leaked them, however the program finds its driver."""
    for program in PROGRAMS:
        document = report("--leaks", "-o", f"{folder}/leak.vrt", "--", program, "use", "leak")
        assert (document["never_freed_blocks"], document["never_freed_bytes"]) == (3, 6 * MIB), document
        groups = one(document)["device_memory"]["groups"]
        assert all(any("leak_three" in frame for frame in group["frames"]) for group in groups), groups
        assert {group["library"] for group in groups} == {os.path.basename(program)}
        text = vram("--leaks", "-o", f"{folder}/leak.vrt", "--", program, "use", "leak").stderr
        assert "never freed   6.00 MiB in 3 blocks" in text and "leak_three" in text, text
        assert f"next: vram report {folder}/leak.vrt --leaks" in text, text
        again = subprocess.run([VRAM, "report", f"{folder}/leak.vrt", "--leaks"], env=ENVIRONMENT, text=True,
                               capture_output=True, check=False)
        assert again.returncode == 1 and "3 blocks, 6.00 MiB" in again.stdout, again
        again = subprocess.run([VRAM, "replay", f"{folder}/leak.vrt", "--backend", "sim"], env=ENVIRONMENT, text=True,
                               capture_output=True, check=False)
        assert again.returncode == 0, again


def test_kinds(folder):
    for program in PROGRAMS:
        process = one(report("-o", f"{folder}/kinds.vrt", "--", program, "use", "kinds", "virtual"))
        kinds = {kind: peak for kind, peak in process["devices"][0]["peak_bytes_by_kind"].items() if peak}
        assert kinds == {"device": 8 * MIB + 1024 * 100, "stream-ordered": 2 * MIB, "physical": 2 * MIB,
                         "managed": MIB, "array": 65536, "pinned host": MIB, "registered": MIB}, kinds
        assert process["devices"][0]["counted_bytes"] == 0, process
        assert process["unknown_frees"] == 1 and process["frees"] == 9, process
        assert process["host_memory"]["peak_bytes"] == 2 * MIB, process


def test_context(folder):
    """What was in use before comes from NVML; the rest is the driver's and ours."""
    process = one(report("-o", f"{folder}/context.vrt", "--", FOUND, "use", "leak"))
    driver = process["devices"][0]["driver"]
    assert driver["context_bytes"] == 0 and driver["unexplained_bytes"] == driver["used_bytes"] - driver[
        "counted_bytes"], driver
    assert driver["used_bytes"] >= driver["counted_bytes"] > 0, driver
    # More than a context can take is what another process took meanwhile: it does not count against the limit.
    for ahead, context in ((300 * MIB, 300 * MIB), (2048 * MIB, 0)):
        process = one(report("--limit", "2050M", "-o", f"{folder}/context.vrt", "--", FOUND, "use", "leak",
                             more={"FAKE_NVML_USED": "0", "FAKE_CUDA_AHEAD": str(ahead)}))
        assert process["devices"][0]["peak_bytes_by_kind"]["context"] == context, process["devices"]
        assert process["limit_refusals"] == 0, process


def test_limit(folder):
    document = report("--limit", "8M", "-o", f"{folder}/limit.vrt", "--", FOUND, "use", "limit")
    assert document["limit_bytes"] == 8 * MIB and one(document)["limit_refusals"] == 3, document
    assert one(document)["devices"][0]["counted_peak_bytes"] <= 8 * MIB, document
    subprocess.run([VRAM, "report", f"{folder}/limit.vrt", "--html", f"{folder}/limit.html"], check=True)
    with open(f"{folder}/limit.html", encoding="utf-8") as page:
        notes = page_data.read(page.read())[0]["notes"]
    refused = notes[0]["refusal"]
    assert len(notes) == 3 and refused["report"]["limit"] == 8 * MIB, notes
    assert "the limit of 8.00 MiB (vram run --limit) is reached" in refused["report"]["summary"], refused
    assert any("run_program" in frame for frame in refused["frames"]), refused
    assert refused["pool"].startswith("cuda:0") and refused["tag"].startswith("run_program"), refused
    vram("-q", "--limit", "8M", "--tree", "-o", f"{folder}/tree.vrt", "--", FOUND, "tree")
    vram("--tree", "--", FOUND, code=2)
    vram("--limit", "much", "--", FOUND, code=2)


ASKED = """
import ctypes
driver, context, addr = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
for _ in range(500):
    assert driver.cuMemAlloc_v2(ctypes.byref(addr), ctypes.c_size_t(2 << 20)) == 0
    assert driver.cuMemFree_v2(addr) == 0
driver.fake_cuda_control.restype = ctypes.POINTER(ctypes.c_void_p)
calls = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p)(driver.fake_cuda_control()[8])
print(calls(b"cuMemGetInfo"))
"""


def test_asked(folder):
    """Free memory is asked for at new peaks, not at each allocation: also if the driver's figure does not fall."""
    for ahead in ("0", str(64 * MIB)):
        began = time.time()
        text = vram("-q", "-o", f"{folder}/asked.vrt", "--", sys.executable, "-c", ASKED,
                    more={"FAKE_CUDA_AHEAD": ahead}).stdout
        assert 1 <= int(text) <= 5 + 10 * (time.time() - began), text


NVML = """
import ctypes, sys
class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]
nvml, device, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), Memory()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
print(memory.total, memory.free, memory.used)
"""


def test_nvml(folder):
    words = ["-q", "-o", f"{folder}/nvml.vrt", "--", "env", "FAKE_NVML_USED=0", sys.executable, "-c", NVML]
    assert vram(*words).stdout.split() == [str(4 << 30), str(4 << 30), "0"]
    assert vram("--limit", "1G", *words).stdout.split() == [str(1 << 30), str(1 << 30), "0"]


HIP = """
import ctypes
hip, one, two = ctypes.CDLL("libamdhip64.so.6"), ctypes.c_void_p(), ctypes.c_void_p()
assert hip.hipInit(0) == 0
assert hip.hipMalloc(ctypes.byref(one), ctypes.c_size_t(3 << 20)) == 0
assert hip.hipHostMalloc(ctypes.byref(two), ctypes.c_size_t(1 << 20), 0) == 0
assert hip.hipFree(one) == 0
print(hip.hipMalloc(ctypes.byref(one), ctypes.c_size_t(9 << 20)))
"""


def test_hip(folder):
    words = ["-o", f"{folder}/hip.vrt", "--", sys.executable, "-c", HIP]
    process = one(report(*words))
    assert process["devices"][0]["api"] == "hip", process
    assert process["device_memory"]["never_freed_bytes"] == 9 * MIB, process
    assert process["host_memory"]["never_freed_bytes"] == MIB, process
    assert vram("-q", "--limit", "8M", *words).stdout == "2\n"


def test_serve(folder):
    plain = vram("-q", "-o", f"{folder}/plain.vrt", "--", FOUND, "use", "serve")
    assert "used 0 reserved 0" in plain.stdout, plain
    for program in PROGRAMS:
        served = vram("-q", "--serve", "-o", f"{folder}/serve.vrt", "--", program, "use", "serve")
        assert "used 4194304 reserved 4194304\nreused\n" in served.stdout, served
        document = report("--serve", "-o", f"{folder}/serve.vrt", "--", program, "use", "serve")
        process = one(document)
        assert document["never_freed_blocks"] == 0 and process["served_memory"]["peak_bytes"] == 4 * MIB, document
        assert process["devices"][0]["peak_bytes_by_kind"]["device"] == MIB, process
        assert process["device_memory"]["groups"][0]["library"] == "libvram pool", process
        document = report("--serve", "-o", f"{folder}/serve.vrt", "--", program, "use", "default")
        assert "used 1048576\n" in vram("-q", "--serve", "--", program, "use", "default").stdout
        assert document["never_freed_blocks"] == 0 and one(document)["served_memory"]["peak_bytes"] == 2 * MIB, document
    # The pool asks the driver, and the driver is limited.
    vram("-q", "--serve", "--limit", "3M", "-o", f"{folder}/serve.vrt", "--", FOUND, "use", "serve", code=5)
    for words in (["--serve"], []):
        vram("-q", "--limit", "64M", *words, "-o", f"{folder}/serve.vrt", "--", FOUND, "use", "refill")


def test_children(folder):
    text = vram("-o", f"{folder}/child.vrt", "--", FOUND, "fork").stderr
    assert "was not recorded: --follow-children records it" in text, text
    document = report("--follow-children", "-o", f"{folder}/%p.vrt", "--", FOUND, "use", "leak", "fork")
    assert len(document["processes"]) == 2 and document["never_freed_bytes"] == 11 * MIB, document
    assert all(os.path.isfile(process["trace"]) for process in document["processes"]), document
    document = report("--follow-children", "-o", f"{folder}/sh.vrt", "--", "/bin/sh", "-c", f"{FOUND} use leak; exit 3",
                      code=3)
    assert document["programs"] == 2 and document["never_freed_blocks"] == 3, document
    assert re.search(r"/sh\.vrt\.[0-9]+$", one(document)["trace"]), document


def test_threads(folder):
    """A thread that allocates while main returns: the trace is whole, whatever it was doing."""
    for _ in range(1 if SANITIZED else 3):
        process = one(report("-o", f"{folder}/thread.vrt", "--", FOUND, "use", "thread"))
        assert process["allocs"] > 0 and "device_memory" in process, process
    for _ in range(5):  # on a very busy machine a thread may wait for the disk for too long, and the report says so
        process = one(report("-o", f"{folder}/threads.vrt", "--", FOUND, "use", "threads"))
        memory = process["device_memory"]
        assert process["allocs"] == process["frees"] and process["devices"][0]["counted_bytes"] == 0, process
        assert 2 * 8 * 200 - memory["allocs"] - memory["frees"] <= process["lost_events"], process
        if process["lost_events"] == 0:
            break
    assert memory["allocs"] == memory["frees"] == 8 * 200 and memory["never_freed_blocks"] == 0, process


def test_kill(folder):
    document = report("-o", f"{folder}/kill.vrt", "--", FOUND, "use", "kill", code=137)
    assert document["signal"] == 9 and document["never_freed_blocks"] == 3, document
    # At any moment: what is there can be read.
    for delay in (0.0, 0.01, 0.02, 0.04):
        run = subprocess.Popen([VRAM, "run", "--json", "-o", f"{folder}/any.vrt", "--", FOUND, "use", "forever"],
                               env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(delay)
        child = children_of(run.pid)
        for pid in child:
            os.kill(pid, signal.SIGKILL)
        if not child:
            run.kill()
        out = run.communicate(timeout=30)[0]
        if child:
            assert run.returncode == 137 and json.loads(out)["signal"] == 9, (run.returncode, out)


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def test_now(folder):
    """SIGUSR1 to vram run: a report, and the program does not notice."""
    run = subprocess.Popen([VRAM, "run", "-o", f"{folder}/now.vrt", "--", FOUND, "use", "leak", "wait"],
                           env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGUSR1)
    lines = []
    while not lines or not lines[-1].startswith("next: "):
        lines.append(run.stderr.readline())
        assert lines[-1], lines
    assert "running for" in lines[0] and any("live now      6.00 MiB in 3 blocks" in line for line in lines), lines
    out, err = run.communicate("\n", timeout=30)
    assert run.returncode == 0 and "exit code 0" in err, (run.returncode, out, err)


def test_live_page(folder):
    """The program has a live page while it runs, and `vram top` shows it; it is gone afterwards, however it ended."""
    pages = os.path.join(folder, "vram")
    env = dict(ENVIRONMENT, XDG_RUNTIME_DIR=folder, VRAM_LIVE="on")
    for ending in (None, signal.SIGKILL):
        run = subprocess.Popen([VRAM, "run", "-q", "-o", f"{folder}/page.vrt", "--", FOUND, "use", "leak", "wait"],
                               env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        assert run.stdout.readline() == "ready\n"
        child = children_of(run.pid)[0]
        row = None
        for _ in range(200):
            shown = json.loads(subprocess.run([VRAM, "top", "--once", "--json"], env=env, capture_output=True, text=True,
                                              timeout=60, check=True).stdout)
            rows = [one for one in shown["processes"] if one["pid"] == child]
            row = rows[0] if rows else None
            if row and row["held_bytes"]:
                break
            time.sleep(0.05)
        assert row and row["held_bytes"] >= MIB, row
        refused = subprocess.run([VRAM, "report", "--pid", str(child)], env=env, capture_output=True, text=True,
                                 timeout=60, check=False)
        assert refused.returncode == 2 and "SIGUSR1" in refused.stderr, refused
        if ending:
            os.kill(child, ending)
        run.communicate(timeout=30)
        assert os.listdir(pages) == [], os.listdir(pages)
    for name, mode in (("open", 0o777), ("link", 0o700)):  # another user could put a folder in its place
        os.mkdir(f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", mode)
        where = f"{folder}/{name}"
        if name == "link":
            where = f"{folder}/to_link"
            os.symlink(f"{folder}/{name}", where)
        subprocess.run([VRAM, "run", "-q", "-o", f"{folder}/page.vrt", "--", FOUND, "use"], env=dict(env, XDG_RUNTIME_DIR=where),
                       timeout=60, check=True, stdout=subprocess.DEVNULL)
        assert not os.listdir(f"{folder}/{name}"), name
    quiet = dict(env, VRAM_LIVE="off")
    subprocess.run([VRAM, "run", "-q", "-o", f"{folder}/page.vrt", "--", FOUND, "use"], env=quiet, timeout=60, check=True,
                   stdout=subprocess.DEVNULL)
    assert os.listdir(pages) == [], os.listdir(pages)


def test_codes(folder):
    words = ("-q", "-o", f"{folder}/code.vrt")
    vram(*words, "--", FOUND, "use", "=7", code=7)
    vram(*words, FOUND, "use", "=7", code=7)  # -- may be left out
    vram(*words, "--error-exitcode", "99", "--", FOUND, "use", "leak", code=99)
    vram(*words, "--error-exitcode", "99", "--", FOUND, "use", "kinds")
    suppress = f"{folder}/suppress"
    with open(suppress, "w", encoding="ascii") as file:
        file.write("# ours\nrace:x\nleak:^leak_*\n")
    vram(*words, "--error-exitcode", "99", "--suppressions", suppress, "--", FOUND, "use", "leak")
    for text in ("\ufeffleak:^leak_*\r\n", " leak:^leak_* \t\n", "leak:^leak_*"):
        with open(suppress, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        vram(*words, "--error-exitcode", "99", "--suppressions", suppress, "--", FOUND, "use", "leak")
    with open(suppress, "w", encoding="ascii", newline="") as file:
        file.write("leak:another\nleak:\r\nleak: \nleaks:^leak_*\n")
    done = vram(*words, "--error-exitcode", "99", "--suppressions", suppress, "--", FOUND, "use", "leak", code=99)
    assert "3 lines are not leak:PATTERN" in done.stderr, done.stderr
    with open(suppress, "w", encoding="ascii") as file:
        file.write("leak:another\n")
    vram(*words, "--error-exitcode", "99", "--suppressions", suppress, "--", FOUND, "use", "leak", code=99)
    vram(*words, "--suppressions", f"{folder}/gone", "--", FOUND, code=2)
    run = subprocess.Popen([VRAM, "run", *words, "--", "sleep", "60"], env=ENVIRONMENT)
    deadline = time.time() + 20
    while not children_of(run.pid) and time.time() < deadline:
        time.sleep(0.01)
    run.terminate()
    assert run.wait(timeout=30) == 128 + signal.SIGTERM


def test_doubt(folder):
    """Where it is not known whether anything was never freed, --error-exitcode fails, and says why."""
    def gate(*words, code=99, **options):
        done = vram("-q", "--leaks", "--error-exitcode", "99", *words, code=code, **options)
        assert ("it is not known" in done.stderr) == (code == 99), done.stderr
        return done.stderr

    assert "there is no trace at /dev/null" in gate("-o", "/dev/null", "--", FOUND, "use", "leak")
    gate("-o", "/dev/null", "--", FOUND, "use", "virtual", code=0)  # the counters know that all was freed
    gone = f"import os, sys; os.rmdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    os.mkdir(f"{folder}/gone")
    assert "there is no trace at" in gate("-o", f"{folder}/gone/%p.vrt", "--", sys.executable, "-c", gone,
                                          f"{folder}/gone", FOUND, "use", "leak")
    child = ("-o", f"{folder}/doubt.vrt", "--", "/bin/sh", "-c", f"'{FOUND}' use leak; true")
    assert "the child run_program was not recorded" in gate(*child)
    assert "it is not known" not in vram("-q", "--error-exitcode", "99", "--follow-children", *child, code=99).stderr
    gate("-o", f"{folder}/doubt.vrt", "--", "/bin/true", code=0)
    static = os.path.join(TESTS, "run_static")
    if os.path.exists(static):
        assert "did not load the library" in gate("-o", f"{folder}/doubt.vrt", "--", static)
    document = report("--leaks", "--error-exitcode", "99", "-o", "/dev/null", "--", FOUND, "use", "leak", code=99)
    assert "there is no trace" in document["in_doubt"], document
    assert report("-o", f"{folder}/doubt.vrt", "--", FOUND, "use", "leak")["in_doubt"] is None


def test_report_is_lost(folder):
    """The exit code is the program's, whoever does not take the report."""
    words = [VRAM, "run", "-o", f"{folder}/lost.vrt", "--", FOUND, "use", "=7"]
    with open("/dev/full", "w", encoding="ascii") as full:
        for options in ({"preexec_fn": lambda: os.close(2)}, {"stderr": full}):
            assert subprocess.run(words, env=ENVIRONMENT, timeout=60, check=False, **options).returncode == 7, options
        words.insert(2, "--json")
        assert subprocess.run(words, env=ENVIRONMENT, timeout=60, check=False, stdout=full,
                              stderr=subprocess.DEVNULL).returncode == 7
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run(words, env=ENVIRONMENT, timeout=60, check=False, stdout=writer,
                          stderr=writer).returncode == 7
    # The program does not ignore what `vram run` ignores. 32 and 33 are the C library's own: it takes them in `vram`.
    ignored = ["grep", "SigIgn", "/proc/self/status"]
    inside, plain = (int(said.stdout.split()[1], 16) & 0x7FFFFFFF for said in (
        vram("-q", "--", *ignored), subprocess.run(ignored, text=True, capture_output=True, check=True)))
    assert inside == plain, (inside, plain)


def test_elsewhere(folder):
    """The limit holds as another user, and in other namespaces of users and processes."""
    os.chmod(folder, 0o777)
    words = ("--limit", "8M", "--follow-children", "-o", f"{folder}/elsewhere-%p.vrt", "--")
    tried = 0
    for before in (("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), ("unshare", "-Ur"),
                   ("unshare", "-pf", "--mount-proc"), ("unshare", "-Urpf", "--mount-proc")):
        can = shutil.which(before[0]) and subprocess.run([*before, "/bin/true"], capture_output=True,
                                                         check=False).returncode == 0
        if not can or before[0] == "setpriv" and os.stat(FOUND).st_mode & 0o005 != 5:
            continue
        document = report(*words, *before, FOUND, "use", "limit", "=5", code=5)
        process = one(document)
        assert process["limit_refusals"] > 0, (before, document)
        # Also if a program closes every descriptor before: the next one that finds the page passes it on.
        for first, use, code in ((3, "leak", 99), (0, "leak", 99), (0, "kinds", 0)):
            done = vram("-q", "--error-exitcode", "99", *words[2:], sys.executable, "-c", CLOSES, str(first), *before, FOUND,
                        "use", use, code=code)
            assert not done.stderr, (before, first, use, done)
        vram("-q", "--error-exitcode", "99", *words[2:], *before, FOUND, "use", "leak", code=99,
             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        tried += 1
    # A program that has closed the descriptor and become another user at once says so, to `vram run` as well.
    if os.geteuid() == 0:
        words = ("--error-exitcode", "99", "-o", f"{folder}/closed.vrt", "--", sys.executable, "-c",
                 "import os, sys; os.setgid(65534); os.setuid(65534)\n" + CLOSES)
        text = vram("--limit", "3M", *words, "3", "/bin/true", code=99).stderr
        assert "nothing of it is recorded, and no limit holds" in text and "not recorded  1 program of" in text, text
        text = vram("-q", *words, "0", "/bin/true", code=99).stderr
        assert text.startswith("vram: --error-exitcode: it is not known") and "lost the page's descriptor: 1" in text, text
    return tried


CLOSES = "import os, sys; os.closerange(int(sys.argv[1]), 1024); os.execvp(sys.argv[2], sys.argv[2:])"


CHANGES_PAGE = """\
import mmap, os, sys
fd = int(os.environ["LIBVRAM_RUN"].split(":")[0])
page = mmap.mmap(fd, os.fstat(fd).st_size)
while (at := page.find(sys.argv[1].encode())) >= 0:
    page[at:at + len(sys.argv[2])] = sys.argv[2].encode()
os.execv(sys.argv[3], sys.argv[3:])
"""


def test_hostile_page(folder):
    """Who can write the page cannot choose what a process of root writes over: it has no path that is believed."""
    mine, victim = f"{folder}/mine.vrt", f"{folder}/evil.vrt"
    with open(victim, "w", encoding="ascii") as file:
        file.write("precious")
    document = report("--follow-children", "-o", mine, "--", sys.executable, "-c", CHANGES_PAGE, mine, victim, FOUND,
                      "use", "leak")
    assert one(document)["trace"] == mine and os.path.getsize(mine) > 0, document
    with open(victim, encoding="ascii") as file:
        assert file.read() == "precious"


def test_starts(folder):
    """Programs that start without `vram run` start with it: a script without #!, one with a shared ASan."""
    script = f"{folder}/script"
    with open(script, "w", encoding="ascii") as file:
        file.write('exit "$1"\n')
    os.chmod(script, 0o755)
    vram("-q", "--", script, "6", code=6)
    source = f"{folder}/asan.c"
    with open(source, "w", encoding="ascii") as file:
        file.write("int main(void) { return 4; }\n")
    built = subprocess.run(["gcc", "-fsanitize=address", "-o", f"{folder}/asan", source], capture_output=True,
                           check=False).returncode == 0 if shutil.which("gcc") else False
    runtime = built and subprocess.run(["gcc", "-print-file-name=libasan.so"], text=True, capture_output=True,
                                       check=True).stdout.strip()
    for more in ({"ASAN_OPTIONS": ""}, {"ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": runtime}) if built else ():
        vram("-q", "--", f"{folder}/asan", code=4, more=more)


def test_small_stack(folder):
    """A thread with the smallest stack has its allocations recorded with their stacks."""
    process = one(report("-o", f"{folder}/small.vrt", "--", FOUND, "use", "small"))
    groups = process["device_memory"]["groups"]
    assert any("small_run" in frame for group in groups for frame in group["frames"]), groups


def test_ignored_children(folder):
    """A parent that ignores SIGCHLD: the exit code is the program's all the same, and the program ignores it too."""
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
    vram("-q", "-o", f"{folder}/ignored.vrt", "--", FOUND, "use", "=7", code=7, **ignoring)
    vram("-q", "-o", f"{folder}/ignored.vrt", "--", sys.executable, "-c",
         "import signal, sys; sys.exit(signal.getsignal(signal.SIGCHLD) != signal.SIG_IGN)", **ignoring)


def test_output(folder):
    vram("-q", "-o", f"{folder}/%h-%p.vrt", "--", FOUND, "use", "leak")
    names = [name for name in os.listdir(folder) if name.startswith(socket.gethostname())]
    assert len(names) == 1 and re.fullmatch(r".*-[0-9]+\.vrt", names[0]), names
    vram("-q", "--", FOUND, "use", cwd=folder)
    vram("-q", "--", FOUND, "use", "leak", cwd=folder)
    assert [name for name in os.listdir(folder) if re.fullmatch(r"vram\.run_program\.[0-9]+\.vrt", name)]
    os.mkdir(f"{folder}/temporary")  # nobody can write to /proc, not even root
    text = vram("--", FOUND, "use", "leak", cwd="/proc", more={"TMPDIR": f"{folder}/temporary"}).stderr
    assert f"/proc cannot be written; the trace goes to {folder}/temporary" in text and "never freed   6.00 MiB" in text, text
    text = vram("--", "/bin/true", cwd=folder).stderr
    assert "no device was used" in text, text
    text = vram("--", FOUND, "use", cwd=folder).stderr
    assert "nothing       was allocated from a device\n" in text and "0 B" not in text.replace("0 B of ", ""), text
    off = one(report("--stacks", "off", "-o", f"{folder}/off.vrt", "--", FOUND, "use", "leak"))
    assert [group["frames"] for group in off["device_memory"]["groups"]] == [[]], off
    assert off["device_memory"]["groups"][0]["library"] == "run_program", off
    assert vram("--json", "-o", f"{folder}/o.vrt", "--", "/bin/echo", "hello").stderr == "hello\n"


def test_unwritable(folder):
    """A file that cannot be written is told before the program starts; one that is lost later, at the end."""
    os.mkdir(f"{folder}/dir")
    kept, link = f"{folder}/kept.vrt", f"{folder}/link.vrt"
    for path in (kept, f"{folder}/closed"):
        with open(path, "w", encoding="ascii") as file:
            file.write("precious")
    os.symlink(f"{folder}/dir/made.vrt", link)
    full = [([], path, why) for path, why in (
        (f"{folder}/no/folder.vrt", "No such file"), (f"{folder}/no/%p.vrt", "No such file"),
        (f"{folder}/dir", "Is a directory"), (f"{folder}/dir/", "Is a directory"), (f"{kept}/x", "Not a directory"),
        ("/dev/full", "not a plain file"), ("/proc/%p.vrt", "No such file"), ("x" * 300, "File name too long"),
        (f"{folder}/dir/{'x' * 300}", "too long"))]
    full.append((["prlimit", "--fsize=4096"], f"{folder}/large.vrt", "too large"))
    if os.geteuid() == 0 and shutil.which("setpriv"):
        os.chmod(folder, 0o755)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*user, VRAM, "--version"], capture_output=True, check=False).returncode == 0:
            full += [(user, f"{folder}/%p.vrt", "Permission denied"), (user, f"{folder}/closed", "Permission denied")]
    with open(kept, "r+", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for before, path, why in [*full, ([], kept, "another program writes it")]:
            done = subprocess.run([*before, VRAM, "run", "-q", "-o", path, "--", "/bin/sh", "-c", "echo started"], text=True,
                                  env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
            assert done.returncode == 2 and not done.stdout and why in done.stderr, (path, done)
    with open(kept, encoding="ascii") as file:
        assert file.read() == "precious"
    assert sorted(os.listdir(folder)) == ["closed", "dir", "kept.vrt", "link.vrt"] and not os.listdir(f"{folder}/dir")
    vram("-q", "-o", kept, "--", "/bin/true")  # uses no device: nothing is written
    assert os.path.getsize(kept) == len("precious")
    assert one(report("-o", link, "--", FOUND, "use", "leak"))["trace"] == link and os.listdir(f"{folder}/dir")
    os.mkdir(f"{folder}/gone")
    remove = (sys.executable, "-c", "import os, sys; os.rmdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])",
              f"{folder}/gone", FOUND, "use", "leak", "=7")
    for quiet in (["-q"], ["--json"], []):
        done = vram(*quiet, "-o", f"{folder}/gone/%p.vrt", "--", *remove, code=7)
        assert "no trace" in done.stderr and "No such file" in done.stderr, done
        os.mkdir(f"{folder}/gone")
    assert not vram("-q", "-o", "/dev/null", "--", FOUND, "use", "leak").stderr  # wanted


def test_disk_full(folder):
    """A disk that is full at the start is told then; one that fills up, at the end, and the exit code can tell."""
    alone = ["unshare", "-Urm"] if os.geteuid() else ["unshare", "-m"]
    if subprocess.run([*alone, "mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True,
                      check=False).returncode:
        return
    for kib, words, code, says in (
            (64, ("-q",), 2, "No space left"), (320, ("-q",), 0, "lost "), (320, ("-q", "--error-exitcode", "99"), 99, "lost ")):
        done = subprocess.run([*alone, "sh", "-c", 'mount -t tmpfs -o size=$1k none "$2" && shift 2 && exec "$@"', "sh",
                               str(kib), folder, VRAM, "run", *words, "-o", f"{folder}/full.vrt", "--", FOUND, "use",
                               "threads", "leak"], env=ENVIRONMENT, text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == code and says in done.stderr, (kib, words, done)


def test_refused(folder):
    """What cannot be executed or intercepted is said."""
    assert "cannot be executed: No such file" in vram("--", f"{folder}/none", code=127).stderr
    assert "cannot be executed" in vram("--", folder, code=126).stderr
    assert "cannot be executed" in vram("--", "no-such-program-at-all", code=127).stderr
    assert "needs a program" in vram(code=2).stderr
    plain = f"{folder}/plain"
    with open(plain, "w", encoding="ascii") as file:
        file.write("#!/nonexistent/interpreter\n")
    os.chmod(plain, 0o755)
    assert "cannot be executed: No such file" in vram("--", plain, code=127).stderr
    static = os.path.join(TESTS, "run_static")
    if os.path.exists(static):
        text = vram("--", static).stderr
        assert "is statically linked" in text and "the library was not loaded" in text, text
    if os.geteuid() == 0:
        copy = f"{folder}/setuid"
        shutil.copy("/bin/true", copy)
        os.chown(copy, 65534, 65534)
        os.chmod(copy, stat.S_ISUID | 0o755)
        assert "the loader refuses the library" in vram("--", copy).stderr


def test_found(folder):
    """Programs are found as the shell finds them."""
    for name, mode in (("own", 0o755), ("text", 0o600)):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(f"{folder}/{name}", mode)
    far = "x" * 9000
    for path, name, code in (("", "own", 3), (":/nonexistent", "own", 3), ("/nonexistent:", "own", 3), (folder, "own", 3),
                             ("/nonexistent::/", "own", 3), ("/nonexistent", "own", 127), ("", "true", 127),
                             (f"{folder}:/nonexistent", "text", 126), (f"{far}:/nonexistent:", "true", 126),
                             ("", f"{folder}/own/below", 127)):
        vram("-q", "--", name, code=code, cwd=folder, more={"PATH": path})
    del ENVIRONMENT["PATH"]
    try:
        vram("-q", "--", "true")
    finally:
        ENVIRONMENT["PATH"] = os.environ["PATH"]


def test_loader(folder):
    """What the loader will refuse is said before the program starts; files that lie do no harm."""
    def said(path, mode=0o755):
        os.chmod(path, mode)
        return subprocess.run([VRAM, "run", "-q", "-o", f"{folder}/loader.vrt", "--", path], env=ENVIRONMENT, text=True, capture_output=True, timeout=30,
                              check=False, errors="replace").stderr

    with open(VRAM, "rb") as file:
        elf = file.read(8192)
    parts, count = struct.unpack_from("=Q", elf, 32)[0], struct.unpack_from("=H", elf, 56)[0]
    loader = next(at for at in range(parts, parts + 56 * count, 56) if struct.unpack_from("=I", elf, at)[0] == 3)
    static, none = "elf is statically linked", None
    for at, change, says in ((0, b"", none), (loader, b"\4", static), (54, b"\1", static), (4, b"\1", "another word size"),
                             (0, b"x", none), (loader, None, static)):
        data = elf[:at] if change is None else elf[:at] + change + elf[at + len(change):]
        with open(f"{folder}/elf", "wb") as file:
            file.write(data)
        text = said(f"{folder}/elf")
        assert says in text if says else "vram: warning" not in text, (at, change, text)
    os.mkfifo(f"{folder}/fifo")  # nobody will ever write there
    os.rename(f"{folder}/elf", f"{folder}/static")
    for first, says in (("", none), ("#", none), ("#!", none), ("#x ", none), ("#!sh\n", none), ("#!/none/x\n", none),
                        ("#! \t/bin/sh -e\n", none), (f"#!{folder}/fifo\n", none),
                        (f"#!{folder}/static\n", "static is statically linked")):
        with open(f"{folder}/script", "w", encoding="ascii") as file:
            file.write(first)
        text = said(f"{folder}/script")
        assert says in text if says else "vram: warning" not in text, (first, text)
    if os.geteuid() == 0:
        shutil.copy("/bin/true", f"{folder}/rights")
        for owner, mode, gains in ((65534, 0o4755, True), (65534, 0o2755, True), (65534, 0o755, False), (0, 0o6755, False)):
            os.chown(f"{folder}/rights", owner, owner)
            assert ("the loader refuses" in said(f"{folder}/rights", mode)) == gains, (owner, mode)
        with contextlib.suppress(OSError):  # where root is not root
            os.setxattr(f"{folder}/rights", "security.capability", struct.pack("=5I", 0x02000001, 1 << 10, 0, 0, 0))
            assert "the loader refuses" in said(f"{folder}/rights")


def test_installed(folder):
    """The library is found beside the command or as installed, and its path must be one that the loader takes."""
    library = os.path.join(BUILD, "libvram-run.so")
    for place, beside, says in (("a", None, "libvram-run.so is not beside vram"), ("b", "bin", ""), ("c", "lib/vram", ""),
                                ("with blank", "bin", "the loader takes no path with a blank or a colon")):
        os.makedirs(f"{folder}/{place}/bin")
        os.symlink(BUILD, f"{folder}/{place}/build")
        shutil.copy(VRAM, f"{folder}/{place}/bin/vram")
        if beside:
            os.makedirs(f"{folder}/{place}/{beside}", exist_ok=True)
            shutil.copy(library, f"{folder}/{place}/{beside}/libvram-run.so")
        done = subprocess.run([f"{folder}/{place}/bin/vram", "run", "-q", "--", "env"], env=ENVIRONMENT, text=True,
                              capture_output=True, timeout=60, check=False)
        assert done.returncode == (2 if says else 0) and says in done.stderr, done
        assert says or f"LD_PRELOAD={os.path.realpath(folder)}/{place}/{beside}/libvram-run.so\n" in done.stdout, done


def test_environment(folder):
    """The program's own settings of loaders are kept, behind or before ours; nobody takes the page from others."""
    def inside(**more):
        lines = vram("-q", "--", "env", more=more).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    library = os.path.realpath(os.path.join(BUILD, "libvram-run.so"))
    layers = os.path.join(os.path.dirname(library), "vulkan")
    plain = inside(ASAN_OPTIONS="")
    assert plain["LD_PRELOAD"] == plain["OPENCL_LAYERS"] == library and plain["VK_ADD_LAYER_PATH"] == layers, plain
    assert plain["VK_INSTANCE_LAYERS"] == "VK_LAYER_VRAM_run" and plain["ASAN_OPTIONS"] == "verify_asan_link_order=0", plain
    assert re.fullmatch(r"\d{3}:vram-run-[0-9a-f]{32}:/proc/\d+/fd/\d+", plain["LIBVRAM_RUN"]), plain
    own = inside(LD_PRELOAD="", OPENCL_LAYERS="/a.so", VK_LAYER_PATH="/layers", VK_INSTANCE_LAYERS="VK_LAYER_other")
    assert own["LD_PRELOAD"] == library and own["OPENCL_LAYERS"] == f"{library}:/a.so", own
    assert own["VK_LAYER_PATH"] == f"{layers}:/layers" and "VK_ADD_LAYER_PATH" not in own, own
    assert own["VK_INSTANCE_LAYERS"] == "VK_LAYER_other:VK_LAYER_VRAM_run", own
    assert inside(VK_LAYER_PATH="")["VK_ADD_LAYER_PATH"] == layers
    cuts = "import os; os.ftruncate(int(os.environ['LIBVRAM_RUN'].split(':')[0]), 0)"
    assert "Operation not permitted" in vram("-q", "--", sys.executable, "-c", cuts, code=1).stderr


def test_hang(folder):
    """NVML does not answer: the program runs all the same, without the figures of before."""
    path = f"{folder}/hang"
    with open(path, "w", encoding="ascii"):
        pass
    began = time.time()
    vram("-q", "-o", f"{folder}/hang.vrt", "--", FOUND, "use", "=7", code=7, more={"FAKE_NVML_HANG": path})
    assert time.time() - began < 30
    for call in ("init", "count", "device", "uuid", "memory"):  # it fails, and nothing is made up
        process = one(report("-o", f"{folder}/hang.vrt", "--", FOUND, "use", "leak", more={"FAKE_NVML_FAIL": call}))
        assert process["devices"][0]["driver"]["context_bytes"] in (None, 0), process["devices"]
    for lie in ("devices", "uuid"):  # more than there is room for, and none of a GPU
        report("-o", f"{folder}/hang.vrt", "--", FOUND, "use", "leak", more={"FAKE_NVML_LIE": lie})


def test_newer(folder):
    """A driver later than the table: what has another meaning is passed through and counted."""
    process = one(report("-o", f"{folder}/newer.vrt", "--", FOUND, "use", "leak",
                         more={"FAKE_CUDA_NEWER": "cuMemAllocPitch", "RUN_VERSION": "14000"}))
    assert process["unknown_entry_points"] == 1 and process["device_memory"]["never_freed_blocks"] == 3, process
    text = vram("-o", f"{folder}/newer.vrt", "--", FOUND, "use",
                more={"FAKE_CUDA_NEWER": "cuMemAllocPitch", "RUN_VERSION": "14000"}).stderr
    assert "cuMemAllocPitch: an entry point that is not known here" in text, text


def measure():
    """What one driver allocation and its free take more, in ns of CPU time; the driver is the fake one."""
    def seconds(*words):
        with tempfile.TemporaryDirectory() as folder:
            words = [VRAM, "run", "-q", "-o", f"{folder}/p.vrt", *words, "--", FOUND] if words else [FOUND]
            out = subprocess.run([*words, "use", "pairs"], env=ENVIRONMENT, text=True, capture_output=True, check=True)
            return float(out.stdout)
    rows = {"without": lambda: seconds(), "--stacks off": lambda: seconds("--stacks", "off"),
            "--stacks native": lambda: seconds("--stacks", "native")}
    best = {name: min(run() for _ in range(30)) for name, run in rows.items()}
    for name, value in best.items():
        print(f"{name:18} {value:8.0f} ns a pair, {value - best['without']:6.0f} more")


if __name__ == "__main__":
    if "--pairs" in sys.argv:
        measure()
        sys.exit(0)
    for name, test in sorted(globals().items()):
        wanted = name in IN_SANITIZED if SANITIZED else len(sys.argv) < 3 or sys.argv[2] == name
        if name.startswith("test_") and wanted:
            began = time.time()
            with tempfile.TemporaryDirectory() as folder_:
                test(folder_)
            print(f"{name}: passed in {time.time() - began:.2f} s", flush=True)
