#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""formats_test.py BINARY [--perfetto]: traces of other programs, read and written.

Snapshots are made, cut and spoilt with Python's own pickle. What `vram report --format` writes is opened by a parser
that is not ours: Python's pickle, and a reader of Protocol Buffers below; with --perfetto the package perfetto (exit
code 77, skipped, where it is not installed).
"""
import base64
import copy
import gzip
import json
import os
import pickle
import pickletools
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SNAPSHOTS = os.path.join(ROOT, "traces", "snapshots")
# What PyTorch itself reported for that program, and what its events add up to.
ALLOCATED, RESERVED, REQUESTED = 616564736, 1235222528, 612628019

# The operations that the JavaScript of pytorch.org/memory_viz reads.
VIEWER_OPS = {"PROTO", "FRAME", "MEMOIZE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "APPEND", "APPENDS",
              "SETITEM", "SETITEMS", "LIST", "DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE",
              "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE",
              "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "STOP"}

binary = os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp()
failures = []
SNAPSHOT = os.path.join(folder, "resnet_leak.pickle")
with gzip.open(os.path.join(SNAPSHOTS, "resnet_leak.pickle.gz")) as packed, open(SNAPSHOT, "wb") as plain:
    plain.write(packed.read())


def expect(fact, what):
    if not fact:
        failures.append(what)
        print("does not hold:", what)


def path_of(name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def vram(*arguments):
    return subprocess.run([binary, *arguments], capture_output=True, timeout=120, check=False)


def report(path, *more):
    run = vram("report", path, "--json", *more)
    expect(run.returncode in (0, 1), f"{path}: {run.stderr.decode(errors='replace')}")
    return json.loads(run.stdout)


def refused(name, data, words):
    """One line that says what is wrong, and exit code 2."""
    run = vram("report", path_of(name, data))
    lines = run.stderr.decode().splitlines()
    expect(run.returncode == 2 and len(lines) == 1 and words in lines[0] and not run.stdout,
           f"{name}: exit {run.returncode}, {lines}")


# ------------------------------------------------------------------- snapshots

def entry(action, addr, size, time, stream=0, **more):
    return dict({"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time,
                 "frames": [{"name": "f", "filename": "own.py", "line": size % 97}]}, **more)


def check_real(whole):
    found = report(SNAPSHOT)
    peak = found["peak"]
    expect((peak["bytes"], peak["held_bytes"], peak["reserved_bytes"]) == (REQUESTED, ALLOCATED, RESERVED),
           f"the peaks are PyTorch's: {peak}")
    expect(found["format"] == "snapshot" and found["partial"] is None, "it is whole")
    growth = found["growth"]
    expect(len(growth) == 1 and growth[0]["site"] == "resnet_leak (train.py:16)" and growth[0]["most_blocks"] == 20,
           f"the list of losses is found: {growth}")
    expect(any("resnet_leak (train.py:16) pile up" in sentence for sentence in found["story"]), "and told")
    replay = json.loads(vram("replay", SNAPSHOT, "-b", "sim", "-p", "vram", "-p", "caching", "--json").stdout)
    held = {row["policy"]: row["peak_reserved_bytes"] for row in replay["passes"]}
    expect(held["caching"] == RESERVED and held["vram"] < 1.05 * REQUESTED, f"the model of PyTorch's allocator holds what it held: {held}")
    part = dict(whole, device_traces=[whole["device_traces"][0][:1500]], segments=whole["segments"][:4])
    parts = [report(path_of("part.pickle", pickle.dumps(part, protocol))) for protocol in (2, 3, 4, 5)]
    expect(all(one == parts[0] for one in parts) and parts[0]["events"] > 500, "all protocols read the same")


def check_packed():
    """gzip and zstd, where the build has them; else the reason is said."""
    peaks = {"resnet_leak.pickle.gz": (REQUESTED, ALLOCATED, RESERVED),
             "gpt2.pickle.zst": (11143718328, 11185480704, 15296626688)}
    for name, wanted in peaks.items():
        run = vram("report", os.path.join(SNAPSHOTS, name), "--json")
        if run.returncode == 2 and b"this build has no" in run.stderr:
            print(name, "is not read:", run.stderr.decode())
            continue
        peak = json.loads(run.stdout)["peak"]
        expect((peak["bytes"], peak["held_bytes"], peak["reserved_bytes"]) == wanted, f"{name}: {peak}")
    refused("cut.zst", b"\x28\xb5\x2f\xfd\x04", "zstd")
    refused("wrong.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 50, "zstd")


def live_at(trace, cut):
    live = {}
    for one in trace[:cut]:
        if one["action"] == "alloc":
            live[one["addr"]] = one["size"]
        elif one["action"] == "free_requested":
            del live[one["addr"]]
    peak, now = sum(live.values()), dict(live)
    for one in trace[cut:]:
        if one["action"] == "alloc":
            now[one["addr"]] = one["size"]
            peak = max(peak, sum(now.values()))
        elif one["action"] == "free_requested":
            now.pop(one["addr"], None)
    return live, peak


def check_rings(whole):
    """A history that lost its beginning: what was live then is found again."""
    trace = whole["device_traces"][0]
    for cut in (2000, 9000, len(trace)):
        while cut < len(trace) and trace[cut]["action"] == "free_completed":
            cut += 1
        ring = dict(whole, device_traces=[trace[cut:]])
        live, peak = live_at(trace, cut)
        found = report(path_of("ring.pickle", pickle.dumps(ring)))
        expect(found["earlier_blocks"] == len(live), f"{found['earlier_blocks']} of {len(live)} blocks are found")
        expect(found["peak"]["bytes"] == peak, f"the peak from {cut} on is {peak}, not {found['peak']['bytes']}")
        reserved = sum(segment["total_size"] for segment in whole["segments"])
        expect(found["peak"]["reserved_bytes"] == reserved, "what was reserved at the start is found")
        expect("begins late" in found["partial"] and found["story"][-1].startswith("Partial"), "and it says so")


def check_places():
    """Several GPUs, streams and private pools are kept apart."""
    base = 0x7f0000000000
    first = [entry("segment_alloc", base, 2 << 20, 10), entry("alloc", base, 1000, 11),
             entry("segment_alloc", base + (4 << 20), 2 << 20, 12, stream=77),
             entry("alloc", base + (4 << 20), 2000, 13, stream=77),
             entry("segment_alloc", base + (8 << 20), 2 << 20, 14), entry("alloc", base + (8 << 20), 3000, 15),
             {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0, "time_us": 16, "frames": []},
             entry("snapshot", 0, 0, 17), entry("annotate", 0, 0, 18)]
    second = [entry("segment_map", base, 2 << 20, 5), entry("alloc", base, 100, 12, user_metadata="weights"),
              entry("segment_unmap", base + (1 << 20), 1 << 20, 20)]
    pool = {"device": 0, "address": base + (8 << 20), "total_size": 2 << 20, "stream": 0, "segment_type": "small",
            "segment_pool_id": (0, 3), "is_expandable": False,
            "blocks": [{"size": 3072, "requested_size": 3000, "state": "active_allocated", "frames": []}]}
    snapshot = {"segments": [pool], "device_traces": [first, second], "host_segments": [dict(pool, total_size=1)]}
    found = report(path_of("places.pickle", pickle.dumps(snapshot)))
    pools = {pool["name"]: pool["peak_bytes"] for pool in found["pools"]}
    expect(pools == {"GPU 0": 1000, "GPU 0, 0x4d": 2000, "GPU 0, pool 0.3": 3000, "GPU 1": 100}, f"pools: {pools}")
    expect(found["churn"]["refusals"] == 1 and found["refusals"][0]["largest_bytes"] == 1 << 40, "the oom")
    expect([mark["text"] for mark in found["marks"]] == ["snapshot"], "the snapshot")
    expect({group["tag"] for group in found["groups"]} == {None, "weights"}, "metadata is a tag")
    run = json.loads(vram("replay", os.path.join(folder, "places.pickle"), "-b", "sim", "--json").stdout)
    expect([(one["trace"], one["peak_requested_bytes"]) for one in run["passes"]] ==
           [("places, GPU 0", 6000), ("places, GPU 1", 100)], "a replay has a table for each GPU")
    untimed = copy.deepcopy(snapshot)
    for one in untimed["device_traces"][0] + untimed["device_traces"][1]:
        del one["time_us"]
    expect("no times" in report(path_of("untimed.pickle", pickle.dumps(untimed)))["partial"], "no times are told")

def segment(address, size, device=0, pool=(0, 0), blocks=(), **more):
    return dict({"device": device, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
                 "segment_pool_id": pool, "is_expandable": False, "blocks": list(blocks)}, **more)


def block(size, state="active_allocated", **more):
    return dict({"size": size, "requested_size": size, "state": state, "frames": []}, **more)


def read_snapshot(name, traces, segments=(), **more):
    return report(path_of(name, pickle.dumps(dict({"segments": list(segments), "device_traces": traces}, **more))))


def check_bounds():
    """More of everything than is kept, and numbers at their ends."""
    base = 0x7f0000000000
    pools = [entry("alloc", base + (i << 20), 1000, i, pool_id=(1 + i // 7, i % 7)) for i in range(300)]
    found = read_snapshot("pools.pickle", [pools])
    expect(len(found["pools"]) <= 256 and found["peak"]["bytes"] == 300000, f"{len(found['pools'])} of 300 pools")
    tagged = [entry("alloc", base + (i << 12), 512, i, stream=i, user_metadata=f"tag {i}") for i in range(70000)]
    found = read_snapshot("tags.pickle", [tagged])
    expect(found["peak"]["bytes"] == 70000 * 512, "70,000 tags and streams")
    found = read_snapshot("devices.pickle", [[entry("alloc", base, 10, 1)]] * 3, [
        segment(base + (i << 22), 1 << 21, device) for i, device in enumerate((1, 0, 70, 1, 1 << 40))])
    expect(found["events"] > 0, "segments of devices that have no history, in any order")
    refused("devices65.pickle", pickle.dumps({"segments": [], "device_traces": [[] for _ in range(65)]}),
            "more than 64 devices")
    times = [entry("alloc", base, 10, 1), entry("alloc", base + 4096, 10, 1 << 59), entry("snapshot", 0, 0, 1 << 59)]
    expect(read_snapshot("times.pickle", [times])["live"]["bytes"] == 20, "a time of years")
    sizes = [entry("segment_alloc", (1 << 64) - 4096, 1 << 20, 1), entry("alloc", (1 << 64) - 1024, 1 << 57, 2),
             entry("free_completed", (1 << 64) - 1024, 1 << 57, 3), entry("alloc", base, 0, 4),
             entry("alloc", base + 4096, 10, 5), entry("free_requested", base + 4096, 0, 6),
             entry("oom", base, (1 << 64) - 1, 7)]
    expect(read_snapshot("sizes.pickle", [sizes])["churn"]["allocs"] == 3, "sizes beyond the addresses there are")
    good = entry("alloc", base, 10, 1)
    for place, key, value, words in (
            ("trace", "size", -1, "size is -1"), ("trace", "size", (1 << 57) + 1, "size is 144115188075855873"),
            ("trace", "size", "12", "size is not"), ("trace", "size", None, "size is not"),
            ("trace", "size", float("nan"), "size is not"), ("trace", "addr", None, "addr is not"),
            ("trace", "time_us", -1, "time_us is -1"), ("segment", "total_size", -1, "total_size is -1"),
            ("block", "size", -1, "size is -1"), ("block", "requested_size", 1 << 58, "requested_size is 2882303")):
        one = {key: value}
        refused(f"{place}_{key}.pickle", pickle.dumps({
            "device_traces": [[good | one if place == "trace" else good]],
            "segments": [segment(base, 1 << 21, blocks=[block(10) | (one if place == "block" else {})]) |
                         (one if place == "segment" else {})]}), words)
    frames = [{"name": 7, "filename": "a.py", "line": 1}, {"name": "f", "filename": 7, "line": 1 << 40},
              {"name": "g", "filename": "b.py", "line": "x"}]
    found = read_snapshot("frames.pickle", [[entry("alloc", base, 10, 1) | {"frames": frames}]])
    expect(found["live"]["bytes"] == 10, "frames without a name, a file or a line")


def check_segments():
    """Segments that are cut, joined, and unmapped in part."""
    base, mib = 0x7f0000000000, 1 << 20
    trace = [entry("segment_map", base, 8 * mib, 1), entry("segment_unmap", base, 2 * mib, 2),
             entry("segment_unmap", base + 6 * mib, 2 * mib, 3), entry("alloc", base + 2 * mib, 3 * mib, 4),
             entry("segment_unmap", base + 2 * mib, mib, 5), entry("segment_unmap", base, 1 << 57, 6),
             entry("free_completed", base + 2 * mib, 3 * mib, 7),
             entry("segment_map", base + 4 * mib, 2 * mib, 9), entry("segment_alloc", base + 16 * mib, 20 * mib, 10),
             entry("alloc", base + 16 * mib, 3 * mib, 11), entry("free_requested", base + 16 * mib, 0, 12),
             entry("free_completed", base + 16 * mib, 0, 13), entry("alloc", base + 16 * mib, 19 * mib + 1, 14)]
    for settings in ({}, {"allocator_settings": {"expandable_segments": True}},
                     {"allocator_settings": {"max_split_size": 2 * mib}}):
        found = read_snapshot("cut.pickle", [trace], **settings)
        expect(found["live"]["bytes"] == 19 * mib + 1 and found["churn"]["frees"] == 2, f"{settings}: {found['live']}")
    large = [entry("segment_alloc", base, 20 * mib, 1), entry("alloc", base, 19 * mib, 2)]
    expect(read_snapshot("large.pickle", [large])["peak"]["held_bytes"] == 20 * mib, "a rest of 1 MiB stays with its block")
    own = segment(base, 4 * mib, blocks=[block(mib), block(mib, "inactive"), block(mib, address=base + 3 * mib)])
    late = [entry("free_completed", base, mib, 1), entry("alloc", base, 2 * mib, 2),
            entry("free_requested", base + 64 * mib, mib, 3), entry("free_completed", base + 64 * mib, mib, 4)]
    found = read_snapshot("late.pickle", [late], [own, segment(base + 8 * mib, mib), segment((1 << 64) - 8, 4096)])
    expect(found["live"]["bytes"] == 3 * mib and found["earlier_blocks"] == 3, f"{found['live']}")
    refused("foreign.pickle", pickle.dumps({"segments": [own, dict(own, blocks=[own["blocks"][1], own["blocks"][0]])],
                                            "device_traces": [late]}), "not its own")
    refused("number.pickle", pickle.dumps({"segments": [dict(own, blocks=[7])], "device_traces": [late]}),
            "not its own")
    twice = [own, segment(base + 8 * mib, mib)]
    found = read_snapshot("twice.pickle", [[]], [twice[1], twice[0], twice[1]])
    expect(found["live"]["bytes"] >= 0, "a segment that is listed twice")


ENTRY = b"\x8c\x06action\x8c\x03ooms"  # makes one of an empty dictionary

# Operations that no pickle of Python has in this order, and what is said of them.
OPERATIONS = (
    (b"2.", "takes a value that is not there"),  # DUP of nothing
    (b"0.", "takes a value that is not there"),
    (b"Ns.", "takes a value that is not there"),
    (b"NNNs.", "adds to an entry that is complete"),
    (b"}(N" b"u.", "a key without a value"),
    (b"N(Nu.", "adds to an entry that is complete"),
    (b"(u.", "takes a value that is not there"),
    (b"e.", "no mark where one is needed"),
    (b"NNa.", "adds to what is not a list"),
    (b"N\x86.", "takes a value that is not there"),
    (b"q\x00.", "takes a value that is not there"),
    (b"N" * ((1 << 22) + 1) + b".", "nests too much"),
    (b"(" * ((1 << 16) + 1) + b".", "nests too much"),
    (b"\x8a\x08" + b"\x01" * 8 + b"\x94h\x00" b"N2\x86.", "not a memory snapshot"),  # too large for the memo
    (b"](}" + ENTRY + b"2e.", "not an entry"),  # one entry twice
    (b"](}" + ENTRY + b"\x94h\x00e.", "not an entry"),
)


def check_operations():
    for number, (data, words) in enumerate(OPERATIONS):
        refused(f"operation{number}.pickle", b"\x80\x04" + data, words)


class Call:
    def __reduce__(self):
        return (os.system, (f"touch {folder}/called",))


def check_hostile(whole):
    small = dict(whole, device_traces=[whole["device_traces"][0][:40]], segments=whole["segments"][:2])
    data = pickle.dumps(small)
    refused("call.pickle", pickle.dumps(dict(small, more=Call())), "would run code")
    refused("call2.pickle", pickle.dumps(dict(small, more=Call()), 2), "would run code")
    expect(not os.path.exists(f"{folder}/called"), "nothing was called")
    refused("list.pickle", pickle.dumps([1, 2]), "not a memory snapshot")
    refused("text.pickle", pickle.dumps("x" * 5000000), "not a memory snapshot")
    refused("memo.pickle", b"\x80\x04}r\xff\xff\xff\xff.", "skips numbers")
    refused("memo9.pickle", b"\x80\x04}r\x09\x00\x00\x00.", "skips numbers")
    refused("get.pickle", b"\x80\x04j\x09\x00\x00\x00.", "is not there")
    refused("deep.pickle", b"\x80\x04" + b"(" * 100000 + b".", "nests too much")
    refused("long.pickle", b"\x80\x04\x8b\xff\xff\xff\x7f", "bytes")
    refused("empty.pickle", b"\x80\x04.", "empty")
    refused("gzip.pickle", gzip.compress(data)[:-20], "gzip")
    for cut in (3, 50, len(data) // 2, len(data) - 1):
        refused("cut.pickle", data[:cut], "ends in the middle")
    for place in range(20, len(data), len(data) // 9):
        spoilt = bytearray(data)
        spoilt[place] ^= 0x41
        run = vram("report", path_of("flip.pickle", bytes(spoilt)))
        expect(run.returncode in (0, 2) and len(run.stderr.splitlines()) == (run.returncode == 2), f"byte {place}")
    nested = {"segments": [], "device_traces": [[entry("alloc", 4096, 10, 1), entry("alloc", 4096, 20, 2)]]}
    found = report(path_of("twice.pickle", pickle.dumps(nested)))
    expect(found["live"]["bytes"] == 20, "an address that is allocated twice was freed between")


# ----------------------------------------------------------------- other formats

RMM = """Thread,Time,Action,Pointer,Size,Stream
11,23:59:59.999990,allocate,0x7f0000000000,1024,0x0
12,00:00:00.000010,allocate,0x7f0000000400,4096,0x5
12,00:00:00.000020,allocate failure,(nil),99999999,0x5
11,00:00:00.000030,free,0x7f0000000000,1024,0x0
11,00:00:00.000040,free,0x7f0000009999,64,0x0
"""

CHROME = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "deep": [[1, {"a": "\u00e9\""}]]}], "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5, "args": {"Input Dims": [[2], [3]]}},
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 30.5,
     "args": {"Addr": 4096, "Bytes": -512, "Device Id": 0, "Device Type": 1, "Total Reserved": 2097152}},
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 10.25,
     "args": {"Addr": 4096, "Bytes": 512, "Device Id": 0, "Device Type": 1, "Total Reserved": 2097152}},
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 20,
     "args": {"Addr": 8192, "Bytes": 1024, "Device Id": 0, "Device Type": 1, "Total Reserved": 2097152}},
    {"ph": "i", "name": "[memory]", "ts": 15, "args": {"Addr": 1, "Bytes": 77, "Device Id": -1, "Device Type": 0}},
    {"ph": "i", "name": "MemoryAllocation", "ts": 21, "args": {
        "allocator_name": "GPU_0_bfc", "requested_bytes": "300", "allocation_bytes": "512", "addr": "77777",
        "bytes_reserved": "1048576", "tf_op": "fusion.7"}},
    {"ph": "i", "name": "MemoryDeallocation", "ts": 22, "args": {
        "allocator_name": "GPU_0_bfc", "requested_bytes": "0", "allocation_bytes": "512", "addr": "77777"}}]}


def check_others():
    found = report(path_of("rmm.log", RMM.encode()))
    expect(found["format"] == "rmm" and found["peak"]["bytes"] == 5120 and found["duration_ns"] == 50000, "RMM's log")
    expect(found["churn"]["refusals"] == 1 and found["churn"]["unknown_frees"] == 1, "its failure and its stranger")
    refused("rmm1.log", RMM.replace("allocate,", "allot,", 1).encode(), "line 2: the action is not one of")
    refused("rmm2.log", RMM.replace("23:59", "2x:59").encode(), "the time")
    for wrong in ("24:00:00.1", "23:60:00.1", "23:59:61.1", "23:59:59;1", "23:59:59", "23:59:59.1x"):
        refused("rmm_time.log", RMM.replace("23:59:59.999990", wrong).encode(), "the time")
    refused("rmm3.log", RMM.replace(",4096,", ",99999999999999999999,").encode(), "the size")
    refused("rmm6.log", RMM.replace(",1024,", f",{(1 << 64) - 1},", 1).encode(), "more than addresses can name")
    refused("rmm4.log", RMM.replace("Stream", "Color").encode(), "not a log of RMM")
    refused("rmm5.log", (RMM + "9" * 1000).encode(), "too long")
    text = json.dumps(CHROME)
    found = report(path_of("chrome.json", text.encode()))
    pools = {pool["name"]: (pool["peak_bytes"], pool["peak_reserved_bytes"]) for pool in found["pools"]}
    expect(pools == {"GPU 0": (1536, 2097152), "GPU_0_bfc": (300, 1048576)}, f"pools of Chrome JSON: {pools}")
    expect(found["live"]["bytes"] == 1024 and "CPU" in found["partial"], "live, and what is left out")
    expect({group["tag"] for group in found["groups"]} == {None, "fusion.7"}, "an operation is a tag")
    expect(report(path_of("list.json", json.dumps(CHROME["traceEvents"]).encode()))["peak"] == found["peak"],
           "a list alone reads the same")
    mark = "\ufeff"
    expect(report(path_of("mark.json", (mark + text).encode()))["peak"] == found["peak"], "a byte order mark")
    check_numbers(found["peak"])
    refused("none.json", b'{"traceEvents":[{"name":"x"}]}', "no memory events")
    refused("cut.json", text[:len(text) // 2].encode(), "invalid JSON")
    refused("wrong.json", b'{"traceEvents":[{]}', "invalid JSON")
    refused("deep.json", b"[" * 1000, "nests too deeply")
    refused("nothing", b"\x00\x01\x02" * 50, "this is not a trace")


def check_numbers(peak):
    """Numbers of Chrome JSON: the same in other spellings, and what is none."""
    text = json.dumps(CHROME)
    for old, new in ((": 512,", ": 5.12e+2,"), (": 512,", ": 512.00,"), (": 512,", ": 5120e-1,"),
                     (": 1024,", ": 0.001024E6,"), (": 10.25,", ": 1.025e1,"), (": 4096,", ': "0x1000",')):
        found = report(path_of("spelt.json", text.replace(old, new).encode()))
        expect(text.count(old) > 0 and found["peak"] == peak, f"{old} as {new}: {found['peak']}")
    for old, new, words in (
            (": 512,", ": 99999999999999999999999,", "Bytes of a memory event"),
            (": 512,", f": {(1 << 57) + 1},", "Bytes of a memory event"), (": 512,", ': "many",', "Bytes of a memory"),
            (": 512,", ": 1.5,", "Bytes of a memory"), (": 512,", ": true,", "Bytes of a memory"),
            (": 512,", ": null,", "Bytes of a memory"), (": 512,", ": 5.e2,", "a number is not complete"),
            ('"300"', '"-300"', "requested_bytes of a memory"), ("2097152", "-1", "Total Reserved of a memory"),
            (": 4096,", ": -4096,", "Addr of a memory"), (": 4096,", ': "0x",', "Addr of a memory"),
            ('"ts": 20', '"ts": -20', "ts of a memory"), ('"ts": 20', '"ts": "now"', "ts of a memory")):
        refused("number.json", text.replace(old, new).encode(), words)


# --------------------------------------------------------------------- writers

def numbers(data):
    """The fields of a message of Protocol Buffers: (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
            assert at <= len(data)


def check_perfetto(path, found):
    names, most, begun, ended, last = {}, {}, 0, 0, 0
    with open(path, "rb") as stream:
        packets = [dict(numbers(packet)) for field, packet in numbers(stream.read()) if field == 1]
    for packet in packets:
        if 60 in packet:
            track = dict(numbers(packet[60]))
            names[track[1]] = track[2].decode()
        if 11 in packet:
            event = dict(numbers(packet[11]))
            expect(event[11] in names, "every event has a track")
            expect(packet[8] >= last, "times never fall")
            last = packet[8]
            begun += event[9] == 1
            ended += event[9] == 2
            if event[9] == 4:
                most[names[event[11]]] = max(most.get(names[event[11]], 0), event[30])
    expect(most["live"] == found["peak"]["bytes"], f"the counter's peak: {most}")
    expect(most.get("held, pool GPU 0") == found["peak"]["reserved_bytes"], "and what was reserved")
    expect(begun == found["churn"]["allocs"] and ended == found["churn"]["frees"], "each block is a slice")


def check_writers(whole):
    out = os.path.join(folder, "out")
    found = report(SNAPSHOT)
    for name in ("memory_viz", "perfetto", "folded", "csv", "text", "json"):
        run = vram("report", SNAPSHOT, "--format", name, "-o", out + "." + name)
        expect(run.returncode == 0 and not run.stdout and not run.stderr, f"{name}: {run.stderr}")
    with open(out + ".memory_viz", "rb") as stream:
        data = stream.read()
    expect({op.name for op, _, _ in pickletools.genops(data)} <= VIEWER_OPS, "the viewer reads every operation")
    written = pickle.loads(data)
    kept = ("action", "addr", "size", "stream")
    pick = [[tuple(one[key] for key in kept) for one in snapshot["device_traces"][0]] for snapshot in (written, whole)]
    expect(pick[0] == pick[1], "the history is the same")
    expect([[block["address"] for block in segment["blocks"]] for segment in written["segments"]] ==
           [[block["address"] for block in segment["blocks"]]
            for segment in sorted(whole["segments"], key=lambda one: one["address"])], "and the segments")
    again = report(out + ".memory_viz")
    for key in found:
        expect(key in ("file", "version") or again[key] == found[key], f"{key} is the same after a round trip")
    check_perfetto(out + ".perfetto", found)
    with open(out + ".folded", encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    expect(all(re.fullmatch(r"[^;]+(;[^;]+)* [0-9]+", line) for line in lines), "collapsed stacks")
    expect(sum(int(line.rsplit(" ", 1)[1]) for line in lines) == found["peak"]["bytes"], "which sum up to the peak")
    for flags, whole_weight in ((["--leaks"], found["live"]["bytes"]), (["--count"], found["churn"]["allocs"])):
        run = vram("report", SNAPSHOT, "--format", "folded", *flags)
        weight = sum(int(line.rsplit(b" ", 1)[1]) for line in run.stdout.splitlines())
        expect(weight == whole_weight, f"{flags}: {weight}")
    expect(report(out + ".csv")["peak"]["bytes"] == found["peak"]["bytes"], "CSV has the same peak")
    with open(out + ".text", encoding="utf-8") as stream:
        text = stream.read()
    expect(all(title in text for title in ("PEAK MEMORY CONSUMERS", "MEMORY LEAKS", "total memory leaked")), "text")
    run = vram("report", out + ".csv", "--format", "csv", "-o", out + ".csv")
    expect(run.returncode == 2 and os.path.getsize(out + ".csv") > 100, "a file is not read and written at once")
    run = vram("report", path_of("bad.csv", b"op,id,bytes,stream,t_us\nf,1,,,0\n"), "--format", "csv", "-o", out + ".x")
    expect(run.returncode == 2 and not os.path.exists(out + ".x"), "a bad input leaves no output")


def check_names():
    """Names that are not UTF-8, and such as would end a line or a field, harm no format."""
    hostile = [entry("alloc", 4096, 10, 1), entry("alloc", 8192, 20, 2)]
    hostile[0]["frames"] = [{"name": "\udc80;a\nb\x1b[31m", "filename": "<script>.py", "line": 3}]
    hostile[1]["user_metadata"] = "x" * 1000 + "\udcff"
    path = path_of("names.pickle", pickle.dumps({"segments": [], "device_traces": [hostile]}))
    out = os.path.join(folder, "names.out")
    for name in ("memory_viz", "perfetto", "folded", "text", "json", "csv"):
        run = vram("report", path, "--format", name, "-o", out)
        expect(run.returncode == 0, f"{name}: {run.stderr}")
        with open(out, "rb") as stream:
            data = stream.read()
        if name == "perfetto":
            texts = [value for _, packet in numbers(data) for field, value in numbers(packet) if field in (12, 60)]
            for text in texts:
                for _, value in numbers(text):
                    if isinstance(value, bytes) and value[:1] >= b" ":
                        value.decode()
        elif name == "memory_viz":
            expect("\udc80" not in repr(pickle.loads(data)), "a pickle has no broken characters")
        else:
            expect(b"\x1b" not in data and len(data.decode()) > 10, f"{name} is plain text")
        if name == "folded":
            expect(len(data.splitlines()) == 2, "one line for each stack")


def check_round_trip():
    """A trace of the library's own, through PyTorch's format and back."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import make_trace
    out = os.path.join(folder, "own.pickle")
    for name in ("story", "clean", "fold", "lines", "killed"):
        path = path_of(name + ".vrt", make_trace.main(name))
        run = vram("report", path, "--format", "memory_viz", "-o", out)
        expect(run.returncode == 0, f"{name}: {run.stderr}")
        one, two = report(path), report(out)
        expect(one["peak"]["bytes"] == two["peak"]["bytes"] and one["peak"]["blocks"] == two["peak"]["blocks"],
               f"{name}: the peak is the same")
        blocks = [sorted((block["bytes"], block["addr"], block["tag"] or "") for block in found["leaks"]
                         if not block["lost"]) for found in (one, two)]
        expect(blocks[0] == blocks[1], f"{name}: what is live at the end is the same: {blocks}")
        groups = [sorted((group["tag"] or "", group["peak_bytes"], group["allocs"]) for group in found["groups"])
                  for found in (one, two)]
        expect(name == "story" or groups[0] == groups[1], f"{name}: tags and stacks have the same")


def check_ends_of_numbers():
    """A number of pickles has a sign: with its highest bit set it needs a byte more."""
    addresses = [1 << bits for bits in (8, 15, 16, 23, 31, 32, 39, 47, 62, 63)] + [(1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1]
    trace = [entry("alloc", addr, 1 << 10, at) for at, addr in enumerate(addresses)]
    out = os.path.join(folder, "ends.pickle")
    vram("report", path_of("numbers.pickle", pickle.dumps({"segments": [], "device_traces": [trace]})), "--format", "memory_viz",
         "-o", out)
    with open(out, "rb") as stream:
        written = [one["addr"] for one in pickle.load(stream)["device_traces"][0] if one["action"] == "alloc"]
    expect(written == addresses, f"addresses are as they were: {written}")


def check_against():
    old = path_of("old.csv", b"op,id,bytes,stream,t_us\na,1,1000,0,0\nf,1,,,10\n")
    new = path_of("new.csv", b"op,id,bytes,stream,t_us\na,1,1030,0,0\nf,1,,,10\n")
    for rules, code in ((["peak>+2%"], 1), (["peak>+3%"], 0), (["peak>+29"], 1), (["peak>1030"], 0),
                        (["live>0", "allocs>+0"], 0), (["peak>+5%", "held>1", "rounded>1K"], 1)):
        flags = [word for rule in rules for word in ("--fail-if", rule)]
        run = vram("report", new, "--against", old, *flags)
        expect(run.returncode == code, f"{rules}: exit {run.returncode}")
    found = report(new, "--against", old, "--fail-if", "peak>+2%")
    expect(found["against"]["peak_bytes"] == 1000 and found["rules"] == [{"rule": "peak>+2%", "broken": True}], "JSON")
    for rule in ("peak", "peek>1", "peak>2%", "peak>+x", "peak>"):
        run = vram("report", new, "--against", old, "--fail-if", rule)
        expect(run.returncode == 2 and len(run.stderr.splitlines()) == 1, f"{rule} is refused")
    expect(vram("report", new, "--fail-if", "peak>+2%").returncode == 2, "a growth needs another trace")


def check_package():
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        print("skipped: the Python package perfetto is not installed")
        sys.exit(77)
    out = os.path.join(folder, "out.perfetto")
    vram("report", SNAPSHOT, "--format", "perfetto", "-o", out)
    trace = perfetto_trace_pb2.Trace()
    with open(out, "rb") as stream:
        trace.ParseFromString(stream.read())
    live = [packet.track_event.counter_value for packet in trace.packet
            if packet.track_event.type == 4 and packet.track_event.track_uuid == 2]
    expect(max(live) == REQUESTED, "the peak by perfetto's own classes")
    slices = sum(packet.track_event.type == 1 for packet in trace.packet)
    expect(slices == 5505, f"{slices} blocks are slices")


if "--perfetto" in sys.argv:
    check_package()
else:
    with open(SNAPSHOT, "rb") as stream:
        WHOLE = pickle.load(stream)
    check_real(WHOLE)
    check_packed()
    check_rings(WHOLE)
    check_places()
    check_bounds()
    check_segments()
    check_operations()
    check_hostile(WHOLE)
    check_others()
    check_writers(WHOLE)
    check_names()
    check_round_trip()
    check_ends_of_numbers()
    check_against()
print(f"{len(failures)} failures")
sys.exit(len(failures) > 0)
