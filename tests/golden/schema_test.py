#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema_test.py BINARY: what every verb prints with --json is valid by docs/schema, and says what its text says.

Each document is also spoilt in every object (a key more, a key less), and the schema must notice:
a schema that accepts everything would prove nothing. It accepts wrong numbers: sums are added up here, and the figures
of a document are looked for in what the same words print without --json; with other numbers they must not be found.
Exit code 77 (skipped) without jsonschema.
"""
import copy
import json
import os
import re
import subprocess
import sys
import tarfile
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

UNPACKED = tempfile.TemporaryDirectory()  # the seeds of tests/fuzz
CORPUS = os.path.join(UNPACKED.name, "corpus")
with tarfile.open(os.path.join(ROOT, "tests", "fuzz", "corpus.tar.gz")) as seeds:
    seeds.extractall(UNPACKED.name)

CONFIG = os.path.join(UNPACKED.name, "%s.json")
with open(os.path.join(ROOT, "tests", "model_configs", "families.json"), encoding="utf-8") as families:
    for model in json.load(families)["models"]:
        with open(CONFIG % model["model"], "w", encoding="utf-8") as config:
            json.dump(model["config"], config)

# verb, arguments, environment, exit code
RUNS = [
    ("info", [], {}, 0),
    ("info", ["--backend", "sim"], {"VRAM_SIM": "devices=3,memory=80G,vmm=off,info=off"}, 0),
    ("info", ["--backend", "sim"], {"VRAM_SIM": "devices=2,profile=h200"}, 0),
    ("info", ["--backend", "sim"], {"VRAM_SIM": "fault=memory_info:1:77"}, 0),
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
    ("estimate", [CONFIG % "mistral_7b", "--memory", "1G"], {}, 1),
    ("estimate", [CONFIG % "gpt_oss_20b", "--memory", "24G", "--memory", "24G", "-ts", "3,1",
                  "-ncmoe", "5", "-c", "256k"], {}, 0),
    ("estimate", [CONFIG % "mistral_7b", "--backend", "sim"], {"VRAM_SIM": "devices=2,memory=80G"}, 0),
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
    if document["schema"] == "vram.estimate/1" and "devices" in document:
        for key in ("weight", "kv", "compute", "overhead", "total"):
            parts = [one[f"{key}_bytes"] for one in document["devices"] + [document["host"]]]
            assert sum(parts) == document["total"][f"{key}_bytes"], f"{key}: the devices do not add up"
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


def size(value):
    """As the command writes it."""
    if value < 1024:
        return f"{value} B"
    power = min(4, (value.bit_length() - 1) // 10)
    return f"{int(value * 100 / 1024 ** power + 0.5) / 100:.2f} {'KMGT'[power - 1]}iB"


def figures(document):
    """What the text of the same verb says, with its spaces squeezed; nothing of verbs whose figures are times."""
    kind = document["schema"].split("/")[0][5:]
    if kind == "info":
        for one in document["devices"]:
            yield f"{one['index']} {one['backend']}:{one['backend_index']} {one['name']}"
            yield f"memory {size(one['memory_total_bytes'])}"
            yield f"granules alloc {size(one['alloc_granule_bytes'])}"
            if one["memory_free_bytes"] is not None and one["backend"] == "sim":
                yield f"{size(one['memory_free_bytes'])} free"
    elif kind == "check":
        yield "{passed} passed, {failed} failed, {skipped} skipped".format(**document)
    elif kind == "tour":
        yield from (f"{i} {one['name']} {one['story']}" for i, one in enumerate(document["steps"], 1))
    elif kind == "replay" and document["backend"] == "sim":
        for one in document["passes"]:
            yield f"at most {size(one['peak_requested_bytes'])} live"
            if any("held_bytes" in each for each in document["passes"]):
                yield f"peak {size(one['peak_reserved_bytes'])}"
            elif one["result"] == "done" and "least" not in document:
                yield f"{size(one['peak_reserved_bytes'])} {one['ratio']:.3f}"
        for one in document.get("least", []):
            if one["result"] == "done":
                yield " ".join(f"{size(one[key]['memory_bytes'])} {one[key]['ratio']:.4f}"
                               for key in ("unlimited", "least"))
    elif kind == "stress" and document["what"] == "pressure":
        yield from (f"{one['name']} {one['found']}" for one in document["lines"])
    elif kind == "report" and document["against"] is None:
        peak, live, churn = document["peak"], document["live"], document["churn"]
        yield f"{document['events']} events"
        yield f"peak {size(peak['bytes'])} live in {peak['blocks']} block"
        yield f"live {size(live['bytes'])} in {live['blocks']} block" if live["blocks"] else "live"
        yield f"churn {churn['allocs']} allocation"
        yield f"of {size(churn['alloc_bytes'])} in all, the largest {size(churn['largest_bytes'])}"
        for one in sorted(document["groups"], key=lambda one: -one["peak_bytes"])[:3]:
            if one["peak_bytes"]:
                yield f"{size(one['peak_bytes'])} {100 * one['peak_bytes'] / peak['bytes']:.1f} % {one['peak_blocks']}"
        for one in document["transfers"]:
            yield f"{one['direction']} {one['route']} {one['operations']} {size(one['bytes'])}"
        yield from (one["found"] for one in document["advice"])
    elif kind == "estimate":
        yield document["verdict"]
        for one in document.get("devices", []):
            yield " ".join(size(one[f"{key}_bytes"])
                           for key in ("weight", "kv", "compute", "overhead", "total"))
        yield from document["assumptions"] + document["warnings"]
    elif kind == "top":
        for one in [each for each in document["processes"] if each["held_bytes"] >= 1 << 30]:  # others come and go
            yield " ".join(f"{one['sum'][key] / 2 ** 30:.1f}G" for key in ("held_bytes", "live_bytes"))
    elif kind == "help":
        for verb in document["verbs"]:
            yield f"{verb['name']} {verb['summary']}" if len(document["verbs"]) > 1 else verb["summary"]
    elif kind == "completion":
        yield document["script"]
    elif kind == "bench.ring":
        yield "ring of {capacity} messages of {message_bytes} bytes, {messages} each way".format(**document)
    elif kind == "bench.grow":
        yield f"grow from {size(document['from_bytes'])} to {size(document['to_bytes'])}"


def unsaid(document, text):
    """Figures that are not in the text."""
    def squeezed(words):
        return " ".join(re.sub("[\0-\x08\x0e-\x1f\x7f]", "?", words).split())
    text = squeezed(text)
    return [words for words in figures(document) if squeezed(words) not in text]


def larger(value):
    """A document with other numbers."""
    if isinstance(value, dict):
        return {key: larger(item) for key, item in value.items()}
    if isinstance(value, list):
        return [larger(item) for item in value]
    return value if isinstance(value, (bool, str)) or value is None else 3 * value + 5


def made_trace(folder, word):
    if word.startswith(IN_FOLDER % ""):
        return os.path.join(folder, word.split()[1])
    if not word.startswith(TRACE % ""):
        return word
    path = os.path.join(folder, "t.vrt")
    with open(path, "wb") as stream:
        stream.write(make_trace.main(word.split()[1]))
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
        text = ""
        if result.returncode == code and list(figures(json.loads(result.stdout))):
            words = [verb, *(word for word in arguments if word != "--leaks"), *(["--once"] if verb == "top" else [])]
            text = subprocess.run([binary, *words], env={**env, "COLUMNS": "1000"}, capture_output=True, text=True,
                                  timeout=300, check=False).stdout
    assert result.returncode == code, f"exit code {result.returncode}: {result.stderr}"
    document = json.loads(result.stdout, object_pairs_hook=no_repeats)
    kinds = ("copy", "distance", "grow", "launch", "matmul", "readback", "ring", "track")
    kind = f".{arguments[0]}" if arguments and arguments[0] in kinds else ""
    assert document["schema"].split("/")[0] == f"vram.{verb}{kind}", "another verb's schema"
    validator = schema_of(document["schema"])
    validator.validate(document)
    check_meaning(document)
    missing = unsaid(document, text)
    assert not missing, f"the text does not say {missing[:3]}:\n{text}"
    others = larger(document)
    assert list(figures(others)) == list(figures(document)) or unsaid(others, text), "other numbers are in the text, too"
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
