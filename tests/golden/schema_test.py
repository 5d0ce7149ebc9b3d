#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema_test.py BINARY: what every verb prints with --json is valid by docs/schema.

Each document is also spoilt in every object (a key more, a key less), and the schema must notice:
a schema that accepts everything would prove nothing. Exit code 77 (skipped) without jsonschema.
"""
import base64
import copy
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

sys.dont_write_bytecode = True
import make_trace  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "monitor"))
import pages  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMAS = os.path.join(ROOT, "docs", "schema")

IN_FOLDER = "folder %s"  # an argument that becomes the path of a file in an empty folder
PAGES = {"XDG_RUNTIME_DIR": "with pages"}  # which becomes a folder with the live pages of three processes

TRACE = "trace %s"  # an argument that becomes a file with what make_trace.py writes

CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus")

CONFIG = os.path.join(ROOT, "tests", "model_configs", "%s.json")

# verb, arguments, environment, exit code
RUNS = [
    ("info", [], {}, 0),
    ("info", ["--backend", "sim"], {"VRAM_SIM": "devices=3,memory=80G,vmm=off,info=off"}, 0),
    ("info", ["--backend", "sim"], {"VRAM_SIM": "fault=device_open:1:6"}, 0),
    ("info", ["--backend", "cuda"], {"VRAM_CUDA_LIBRARY": "/nonexistent"}, 1),
    ("info", ["--backend", "host"], {"VRAM_CONF": "nothing=1,device_limit=lots"}, 2),
    ("check", ["--backend", "host", "--filter", "memory"], {}, 0),
    ("check", ["--backend", "sim", "--filter", "range"], {"VRAM_SIM": "vmm=off"}, 0),
    ("check", ["--backend", "sim", "--filter", "device"], {"VRAM_SIM": "fault=alloc:1:2:forever"}, 1),
    ("tour", ["--backend", "host"], {}, 0),
    ("tour", ["--backend", "sim"], {"VRAM_SIM": "profile=h200"}, 0),
    ("tour", ["--backend", "sim"], {"VRAM_SIM": "vmm=off"}, 0),
    ("tour", ["--backend", "host", "--race"], {}, 0),
    ("tour", ["--backend", "sim"], {"VRAM_SIM": "fault=alloc:1:2:forever"}, 2),
    ("bench", ["alloc", "--backend", "host", "--seconds", "0.1"], {}, 0),
    ("bench", ["alloc", "--backend", "host", "--seconds", "0.1", "--size", "1M", "--live", "1000",
               "--threads", "2"], {}, 0),
    ("bench", ["alloc", "--backend", "sim", "--pattern", "mixed", "--seconds", "0.1"], {}, 0),
    ("bench", ["grow", "--backend", "host", "--from", "1M", "--seconds", "0.1"], {}, 0),
    ("bench", ["grow", "--backend", "sim", "--from", "8G", "--to", "20G", "--seconds", "0.1"],
     {"VRAM_SIM": "memory=16G"}, 0),
    ("bench", ["copy", "--backend", "host", "--size", "64K", "--seconds", "0.1"], {}, 0),
    ("bench", ["copy", "--backend", "sim", "--size", "4K", "--seconds", "0.1"],
     {"VRAM_SIM": "fault=pinned_alloc:1:2:forever"}, 0),
    ("bench", ["track", "--backend", "host", "--seconds", "0.1"], {}, 0),
    ("bench", ["launch", "--backend", "host", "--size", "64K", "--seconds", "0.1"], {}, 0),
    ("bench", ["readback", "--backend", "host", "--size", "64K", "--seconds", "0.1"], {}, 0),
    ("bench", ["matmul", "--backend", "host", "--size", "64", "--seconds", "0.01"], {}, 0),
    ("bench", ["matmul", "--backend", "sim", "--size", "8", "--seconds", "0.01"], {}, 0),
    ("bench", ["distance", "--backend", "host", "--size", "100", "--seconds", "0.01"], {}, 0),
    ("bench", ["ring", "--backend", "host", "--messages", "500"], {}, 0),
    ("bench", ["ring", "--backend", "sim", "--messages", "200", "--size", "8"],
     {"VRAM_SIM": "real=on"}, 0),
    ("bench", ["alloc", "--backend", "sim", "--size", "128M", "--seconds", "0.1"],
     {"VRAM_SIM": "memory=64M"}, 2),
    ("replay", ["--backend", "sim", "--generate", "queues,steps=2,max=64K", "--policy", "caching",
                "--policy", "naive", "--verify", "--repeat", "2"], {"VRAM_SIM": "profile=h200"}, 0),
    ("replay", ["--backend", "host", "--generate", "threads,steps=2,max=64K"], {}, 0),
    ("replay", ["--backend", "sim", "--generate", "varied,steps=3", "--policy", "vram",
                "--policy", "naive", "--repeat", "2", "--picture"], {}, 0),
    ("replay", ["--backend", "sim", "--generate", "steady,steps=1", "--policy", "caching",
                "--memory", "64M"], {}, 1),
    ("replay", ["--backend", "sim", "--generate", "steady,steps=1", "--policy", "expandable",
                "--policy", "async", "--least"], {}, 0),
    ("replay", ["--backend", "sim", "--generate", "steady,steps=1", "--policy", "caching",
                "--memory", "64M", "--least"], {}, 1),
    ("replay", ["--backend", "sim", "--generate", "steady,steps=1", "--policy", "naive"],
     {"VRAM_SIM": "lose=50"}, 2),
    ("stress", ["pressure", "--backend", "sim"], {}, 0),
    ("stress", ["pressure", "--backend", "host"], {}, 0),
    ("stress", ["soak", "--backend", "sim", "--seconds", "1"], {}, 0),
    ("stress", ["soak", "--backend", "sim", "--seconds", "1"], {"VRAM_SIM": "lose=50"}, 1),
    ("report", [TRACE % "story", "--leaks"], {}, 1),
    ("report", [TRACE % "killed"], {}, 0),
    ("report", [os.path.join(ROOT, "traces", "serve_kv_cache.csv.gz")], {}, 0),
    ("report", [os.path.join(CORPUS, "snapshot", "protocol4.pickle"), "--against",
                os.path.join(CORPUS, "rmm_log", "small.csv"), "--fail-if", "peak>+2%"], {}, 1),
    ("report", [os.path.join(CORPUS, "chrome_trace", "torch_xla.json")], {}, 0),
    ("estimate", [CONFIG % "gemma3_4b", "--memory", "24G", "-c", "8192"], {}, 0),
    ("estimate", [CONFIG % "llama3_70b", "--memory", "24G", "--memory", "24G", "--fit"], {}, 0),
    ("estimate", [CONFIG % "llama3_8b", "--memory", "1G"], {}, 1),
    ("estimate", [CONFIG % "gpt_oss_20b", "--memory", "24G", "--memory", "24G", "-ts", "3,1",
                  "-ncmoe", "5", "-c", "256k"], {}, 0),
    ("estimate", [CONFIG % "llama3_8b", "--backend", "sim"], {"VRAM_SIM": "devices=2,memory=80G"}, 0),
    ("estimate", ["--params", "hidden=64,intermediate=64,layers=2,vocab=10,heads=2,kv_heads=1",
                  "--memory", "1G"], {}, 0),
    ("top", ["--pages-only"], PAGES, 0),
    ("top", ["--once"], {"XDG_RUNTIME_DIR": "/nonexistent"}, 0),
    ("exporter", ["--once", "--textfile", IN_FOLDER % "vram.prom"], PAGES, 0),
    ("help", [], {}, 0),
    ("help", ["info"], {}, 0),
    ("completion", ["bash"], {}, 0),
    ("completion", ["zsh"], {}, 0),
    ("completion", ["fish"], {}, 0),
]


def schema_of(name):
    path = os.path.join(SCHEMAS, name.replace("/", "-") + ".schema.json")
    with open(path, encoding="utf-8") as stream:
        schema = json.load(stream)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def no_repeats(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key is there twice: {keys}")
    return dict(pairs)


def objects(value, path=()):
    """The path of every object in a document."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from objects(item, path + (key,))
    elif isinstance(value, list) and value:
        yield from objects(value[0], path + (0,))


def at(value, path):
    for step in path:
        value = value[step]
    return value


def spoilt(document):
    for path in objects(document):
        more = copy.deepcopy(document)
        at(more, path)["unheard_of"] = 1
        yield f"a key more at {path}", more
        if at(document, path):
            less = copy.deepcopy(document)
            target = at(less, path)
            del target[next(iter(target))]
            yield f"a key less at {path}", less


def check_meaning(document):
    """What a schema cannot say."""
    if document["schema"] == "vram.check/1":
        results = [case["result"] for case in document["cases"]]
        for result in ("passed", "failed", "skipped"):
            assert document[result] == results.count(result), f"{result} is not their number"
        assert len(results) > 0, "no case was run"
    if document["schema"] == "vram.replay/1":
        for one in document["passes"]:
            calls = dict(one["driver_calls"])
            assert calls.pop("total") == sum(calls.values()), "the calls do not add up"
            assert (one["result"] == "done") == (one["reason"] is None), "no reason"
            assert one["ratio"] is None or one["ratio"] >= 1, "less held than asked for"
            if "held_bytes" in one:
                assert len(one["held_bytes"]) == len(one["asked_bytes"]) == 240, "parts are missing"
                assert max(one["held_bytes"]) == one["peak_reserved_bytes"], "the peak is not drawn"
                assert max(one["asked_bytes"]) == one["peak_requested_bytes"], "nor is this one"
    if document["schema"] == "vram.report/1":
        for key in ("peak", "live"):
            known = sum(group[f"{key}_bytes"] for group in document["groups"])
            assert known == document[key]["bytes"], f"{key}: the groups do not add up"
        assert len(document["leaks"]) == document["live"]["blocks"], "leaks are not what is live"
        assert document["peak"]["bytes"] == max(x["peak_bytes"] for x in document["timeline"])
    if document["schema"] == "vram.info/1":
        counts = sum(backend["device_count"] for backend in document["backends"])
        assert counts == len(document["devices"]), "device_count does not add up"
        for backend in document["backends"]:
            assert backend["present"] == (backend["reason"] is None), "absent without a reason"
    if document["schema"] == "vram.stress/1" and document["what"] == "pressure":
        lines = document["lines"]
        assert document["wrong"] == sum(x["planned"] != x["found"] for x in lines), "wrong"
        assert len(lines) > 100 and document["skipped"] == 0, "not all was tried"
    if document["schema"] == "vram.bench.readback/1":
        assert document["frames_checked"] > 0 and document["frames_wrong"] == 0, "wrong frames"
    if document["schema"] in ("vram.bench.grow/1", "vram.bench.launch/1", "vram.bench.readback/1",
                              "vram.bench.matmul/1", "vram.bench.distance/1"):
        for one in document["ways"]:
            assert (one["ns_median"] is None) == (one["reason"] is not None), "no reason"
            assert one["reason"] or one["ns_p10"] <= one["ns_median"] <= one["ns_p90"], "order"
    if document["schema"] == "vram.bench.ring/1":
        for one in document["strategies"]:
            low, middle, high = (one[f"round_trip_{key}_ns"] for key in ("p10", "median", "p90"))
            assert (middle is None) == (one["reason"] is not None), "no reason"
            assert middle is None or low <= middle <= high, "percentiles are out of order"
    if document["schema"] == "vram.bench/1":
        peers = {peer["name"]: peer for peer in document["peers"]}
        assert (document["ns_median"] is None) == (document["reason"] is not None), "no reason"
        for figures in [document, *peers.values()]:
            low, middle, high = (figures[f"ns_{key}"] for key in ("p10", "median", "p90"))
            assert middle is None or low <= middle <= high, "percentiles are out of order"
        if document["pattern"] == "pair":
            assert document["driver_calls"] in (None, 0), "a hit calls the driver"
        assert peers["malloc"]["found"], "the C library has malloc"
        best = peers.get(document["ratio_peer"])
        assert best is None or best["comparable"] and best["ratio"] == document["ratio"], "ratio"


def made_trace(folder, word):
    if word.startswith(IN_FOLDER % ""):
        return os.path.join(folder, word.split()[1])
    if not word.startswith(TRACE % ""):
        return word
    path = os.path.join(folder, "t.vrt")
    with open(path, "wb") as stream:
        stream.write(base64.b64decode(make_trace.main(word.split()[1])))
    return path


def check_run(binary, verb, arguments, settings, code):
    env = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
    env.update(settings)
    with tempfile.TemporaryDirectory() as folder:
        arguments = [made_trace(folder, word) for word in arguments]
        env["XDG_RUNTIME_DIR"] = folder  # for live pages
        if settings == PAGES:
            pages.example(folder)
        result = subprocess.run([binary, verb, *arguments, "--json"], env=env, capture_output=True,
                                text=True, timeout=300, check=False)
    assert result.returncode == code, f"exit code {result.returncode}: {result.stderr}"
    document = json.loads(result.stdout, object_pairs_hook=no_repeats)
    kinds = ("copy", "distance", "grow", "launch", "matmul", "readback", "ring", "track")
    kind = f".{arguments[0]}" if arguments and arguments[0] in kinds else ""
    assert document["schema"].split("/")[0] == f"vram.{verb}{kind}", "another verb's schema"
    validator = schema_of(document["schema"])
    validator.validate(document)
    check_meaning(document)
    for what, wrong in spoilt(document):
        assert not validator.is_valid(wrong), f"the schema accepts {what}"


def number_addresses(schema):
    """Properties that are an address and a number: readers that know only doubles lose its last bits."""
    if isinstance(schema, list):
        yield from (found for part in schema for found in number_addresses(part))
    if isinstance(schema, dict):
        for key, value in schema.get("properties", {}).items():
            if key in ("addr", "address") and "integer" in value.get("type", []):
                yield key
        yield from (found for part in schema.values() for found in number_addresses(part))


def check_addresses():
    for name in sorted(os.listdir(SCHEMAS)):
        if name.endswith(".json"):
            with open(os.path.join(SCHEMAS, name), encoding="utf-8") as stream:
                assert not list(number_addresses(json.load(stream))), f"{name}: an address is a number"


def main(binary):
    check_addresses()
    failed = 0
    for run in RUNS:
        try:
            check_run(binary, *run)
        except (AssertionError, ValueError, KeyError, jsonschema.ValidationError) as error:
            failed += 1
            print(f"FAILED vram {run[0]} {' '.join(run[1])} {run[2]}: {error}")
    print(f"{len(RUNS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
