#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""arguments_test.py BINARY: arguments at their bounds and beyond, a line each: the exit code, and words that are said.

Words are separated by spaces; @ in one stands for a space. {N*TEXT} is TEXT N times.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

CONFIG = """{"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
 "max_position_embeddings": 131072, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}"""
ONE = """{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 96,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000,
 "max_position_embeddings": 128, "tie_word_embeddings": false, "torch_dtype": "float16"}"""
FAMILIES = os.path.join(os.path.dirname(__file__), os.pardir, "model_configs", "families.json")
CSV = "op,id,bytes,stream,t_us\na,1,9000000,0,0\na,2,3000000,0,1000\nf,1,,,2000\n"

TOKENS = "not a number of tokens from 0 to 4294967295"
SHAPE = "hidden=64,intermediate=96,layers=5,vocab=1000,heads=4,kv_heads=2"
LAYERS = "not a number of layers from 0 on, or all"
SHARES = "not a list of numbers from 0 on"
LISTEN = "--listen takes ADDRESS:PORT"
SECONDS = "not a number from 0.01 to 3600"
INTERVAL = "--interval takes seconds from 0.1 to 3600"
RISING = "--thresholds takes three rising percentages"
FOR_TRACES = "which is for traces"

ROWS = (
    # estimate: sizes, numbers and lists
    ("estimate config.json -m 8G -c 8K", 0, "context 8192,"),
    ("estimate config.json -m 64G -c 1m --fit", 0, "context 1048576,"),
    ("estimate config.json -m 64G -c 1M", 0, "context 1048576,"),
    ("estimate config.json -m 8G -c 4294967296", 2, TOKENS),
    ("estimate config.json -m 8G -c 4294967295k", 2, TOKENS),
    ("estimate config.json -m 8G -c 99999999999999999999", 2, TOKENS),
    ("estimate config.json -m 8G -c /1", 2, TOKENS),
    ("estimate config.json -m 8G -c :1", 2, TOKENS),
    ("estimate config.json -m 8G -c 8kk", 2, TOKENS),
    ("estimate config.json -m 8G -ngl all", 0, "fits:"),
    ("estimate config.json -m 8G -ngl auto", 0, "fits:"),
    ("estimate config.json -m 8G -ngl -2", 0, "fits:"),
    ("estimate config.json -m 8G -ngl -3", 2, LAYERS),
    ("estimate config.json -m 8G -ngl :", 2, LAYERS),
    ("estimate config.json -m 8G -ngl 3x", 2, LAYERS),
    ("estimate config.json -m 8G -ngl 99999999999999999999", 2, LAYERS),
    ("estimate config.json -m 8G -m 8G -ts .5,.5", 0, "fits:"),
    ("estimate config.json -m 8G -m 8G -ts 1/1", 0, "fits:"),
    ("estimate config.json -m 8G -m 8G -ts 0,0", 0, "fits:"),
    ("estimate config.json -m 8G -m 8G -ts :", 2, SHARES),
    ("estimate config.json -m 8G -m 8G -ts 3,1,", 2, SHARES),
    ("estimate config.json -m 8G -m 8G -ts 1e10", 2, SHARES),
    ("estimate config.json -m 8G -m 8G -ts 3;1", 2, SHARES),
    ("estimate config.json -m 8G -fa 0", 0, "flash attention off"),
    ("estimate config.json -m 8G -fa on", 0, "attention on"),
    ("estimate config.json -m 8G -b 64", 0, "micro-batch 64,"),
    ("estimate config.json -m 8G -b 64 -ub 128", 0, "micro-batch 64,"),
    ("estimate config.json -m 8G -b 64 -ub 32", 0, "micro-batch 32,"),
    ("estimate config.json -m 8G -b 0", 2, "--batch-size=0"),
    ("estimate config.json -m 8G -ub none", 2, "--ubatch-size=none"),
    ("estimate config.json -m 8G -np 0", 2, "--parallel=0"),
    ("estimate config.json -m 8G --outputs 0", 2, "--outputs=0"),
    ("estimate config.json -m 8G --activation-bytes 9", 2, "--activation-bytes=9"),
    ("estimate config.json -m 8G -ncmoe many", 2, "--n-cpu-moe=many"),
    ("estimate config.json -m much", 2, "--memory=much"),
    ("estimate config.json -m 8G --overhead much", 2, "--overhead=much"),
    ("estimate config.json {17*-m 8G }", 2, "--memory is given 17 times; at most 16 devices"),
    ("estimate config.json {16*-m 1G }", 1, "memory:15"),
    ("estimate config.json {33*-m 1G }", 2, "at most 32 times"),
    ("estimate config.json --backend sim -d first", 2, "--device=first"),
    ("estimate config.json --backend sim -d 1", 2, "there is no device 1"),
    ("estimate config.json --backend nothing", 2, "nothing"),
    ("estimate config.json --backend host -d 0", 0, "host:0"),
    ("estimate config.json -m 3G", 1, "does not fit"),
    ("estimate --params " + SHAPE + ", -m 1G", 0, "fits"),
    ("estimate --params hidden=64x -m 1G", 2, "is not NAME=NUMBER"),
    ("estimate --params hidden=: -m 1G", 2, "is not NAME=NUMBER"),
    ("estimate --params hidden= -m 1G", 2, "is not NAME=NUMBER"),
    ("estimate --params hidden -m 1G", 2, "is not NAME=NUMBER"),
    ("estimate --params {70*x}=1 -m 1G", 2, "is not NAME=NUMBER"),
    ("estimate --params hidden={70*9} -m 1G", 2, "does not fit in 64 bits"),
    ("estimate --params " + SHAPE + " --backend host", 0, "host:0"),
    ("estimate --params " + SHAPE + " --backend host -d 0 --json", 0, '"fits": true'),
    ("estimate deepseek_v3.json -m 900G", 0, "latent attention stores the latent vector only"),
    ("estimate gemma3_4b.json -m 24G", 0, "store the window and one micro-batch"),
    ("estimate gemma3_4b.json -m 24G --swa-full", 0, "store it, too (--swa-full)"),
    ("estimate gemma3_4b.json -m 24G", 0, "of language)"),
    ("estimate qwen3_next_80b.json -m 200G --json", 0, "states of recurrent layers in f32"),
    ("estimate mixtral_8x7b.json -m 200G -cmoe", 0, "at once)"),
    ("estimate one.json -m 8G", 0, "llama, 1 layer,"),
    ("estimate one.json -m 8G -c 300", 0, "a sequence of 300 tokens is longer than the 128"),
    ("estimate one.json -m 8G -ctv q8_0 -fa off", 0, "only with flash attention"),
    ("estimate one.json -m 8G -ctv f16 -fa off -ctk f16 --json", 0, '"k_type": "f16"'),
    ("estimate one.json -m 8G -ctk q8_0 -ctv q4_0 --json", 0, '"v_type": "q4_0"'),
    ("estimate one.json -m 8G -ncmoe 3", 0, "--n-cpu-moe has no effect"),
    ("estimate one.json -m 8G -cmoe", 0, "--cpu-moe has no effect"),
    ("estimate one.json -m 1M -m 2M -c 1000000", 1, "does not fit: memory:"),
    ("estimate one.json -m 1M -c 64 --fit --overhead 0", 0, "(-c 128)"),
    ("estimate one.json -m 3M -m 1M -ts 1,1 --overhead 2M", 1, "does not fit: memory:1 needs"),
    ("estimate --params " + SHAPE + ",experts=8,top_k=2,expert_intermediate=32 -m 1G", 0, "for a token"),
    ("estimate --params " + SHAPE + " -m 1K --json", 1, '"device": null'),
    ("estimate config.json --backend sim", 0, "as the simulated devices report it"),
    # exporter
    ("exporter --listen", 2, "--listen needs"),
    ("exporter --listen=", 2, LISTEN),
    ("exporter --listen 65536", 2, LISTEN),
    ("exporter --listen :80", 2, LISTEN),
    ("exporter --listen ::1", 2, LISTEN),
    ("exporter --listen localhost", 2, LISTEN),
    ("exporter --listen 127.0.0.1:", 2, LISTEN),
    ("exporter --listen 127.0.0.1:x", 2, LISTEN),
    ("exporter --listen 127.0.0.1:80x", 2, LISTEN),
    ("exporter --listen 127.0.0.1:70000", 2, LISTEN),
    ("exporter --listen 127.0.0.1:80,81", 2, LISTEN),
    ("exporter --listen {130*1}.2:80", 2, LISTEN),
    ("exporter --listen 192.0.2.1:80", 2, "--listen takes another address"),
    ("exporter --interval 0", 2, "--interval=0"),
    ("exporter --once --json", 2, "metrics are not JSON"),
    ("exporter --once --textfile m.prom --listen 80", 2, "serves nothing"),
    ("exporter --once --textfile m.prom --host gpu", 2, "serves nothing"),
    ("exporter --once --textfile m.prom --json", 0, '"file": "m.prom"'),
    ("exporter --once --textfile prom", 0, "only files whose names end in .prom"),
    ("exporter --once --textfile m.text", 0, "only files whose names end in .prom"),
    ("exporter --once --textfile .", 2, "it is not a plain file"),
    ("exporter --once --textfile m.text/x.prom", 2, "Not a directory"),
    ("exporter --once --textfile none/x.prom", 2, "No such file"),
    # top
    ("top --once --interval soon", 2, INTERVAL),
    ("top --once --interval 2s", 2, INTERVAL),
    ("top --once --interval 0.01", 2, INTERVAL),
    ("top --once --interval 4000", 2, INTERVAL),
    ("top --once --interval nan", 2, INTERVAL),
    ("top --once --thresholds 60,80", 2, RISING),
    ("top --once --thresholds 60,80,95x", 2, RISING),
    ("top --once --thresholds 80,60,95", 2, RISING),
    ("top --once --thresholds 60,80,70", 2, RISING),
    ("top --once --thresholds 60,80,101", 2, RISING),
    ("top --once --thresholds 10,20,30 --pages-only --pages .", 0, "0 processes"),
    ("top --once --sort nothing", 2, "--sort=nothing"),
    ("top --once --sort pid --reverse --pages-only --pages .", 0, "0 processes"),
    ("top --once --pid 0", 2, "--pid=0"),
    ("top --once --pid 2147483647 --pages-only", 1, "process 2147483647 has ended"),
    ("top --json --csv", 2, "exclude each other"),
    ("top --csv --filter nothing --pages-only", 0, "pid,"),
    # bench
    ("bench alloc --seconds :", 2, SECONDS),
    ("bench alloc --seconds 1x", 2, SECONDS),
    ("bench alloc --seconds 0.001", 2, SECONDS),
    ("bench alloc --seconds 1e9", 2, SECONDS),
    ("bench alloc --margin=-1", 2, "--margin=-1"),
    ("bench alloc --live many", 2, "--live=many"),
    ("bench alloc --threads 100000", 2, "--threads=100000"),
    ("bench alloc -d 99", 2, "there is no device 99"),
    ("bench alloc --backend sim --pattern handover --threads 2 --seconds .01 --json", 0, '"pattern": "handover"'),
    ("bench grow --seconds 0", 2, SECONDS),
    ("bench grow --from 3", 2, "--from"),
    ("bench grow --from 18446744073709551615", 2, "--from"),
    ("bench grow -b sim -d 99", 2, "there is no device 99"),
    ("bench launch --seconds 0", 2, SECONDS),
    ("bench launch -b sim -d 99", 2, "there is no device 99"),
    ("bench matmul --seconds 0", 2, SECONDS),
    ("bench distance --size 1T", 2, "--size"),
    ("bench copy --threads none", 2, "--threads=none"),
    ("bench copy --seconds 0", 2, SECONDS),
    ("bench copy -b sim -d 99", 2, "there is no device 99"),
    ("bench ring --messages 0", 2, "--messages=0"),
    ("bench ring -b sim -d 99", 2, "there is no device 99"),
    ("bench track -b sim -d 99", 2, "there is no device 99"),
    ("bench readback -b sim -d 99", 2, "there is no device 99"),
    # stress
    ("stress soak --threads 0", 2, "--threads=0"),
    ("stress soak --seed none", 2, "--seed=none"),
    ("stress soak --limit much", 2, "--limit=much"),
    ("stress soak -b sim -d 99", 2, "there is no device 99"),
    ("stress pressure -b sim -d 99", 2, "there is no device 99"),
    ("stress soak -b sim --seconds 1 --limit 4M --json", 0, '"what": "soak"'),
    ("stress pressure -b sim --json", 0, '"wrong": 0'),
    # replay
    ("replay old.csv -p best", 2, "best"),
    ("replay old.csv -b sim -p naive -p naive", 0, "naive"),
    ("replay old.csv -b sim -d 99", 2, "there is no device 99"),
    ("replay {65*old.csv } --print", 2, "old.csv"),
    ("replay --generate steady,steps=1 --generate steady,steps=0", 2, "steps"),
    ("replay old.csv -b sim --verify --least", 2, "--least"),
    ("replay old.csv -b sim --memory 0", 2, "--memory=0"),
    ("replay old.csv -b sim -p naive --html old.csv", 2, "old.csv"),
    ("replay old.csv -b sim -p naive --svg old.csv", 2, "old.csv"),
    # report
    ("report old.csv --html p.html --json", 2, "combined with neither"),
    ("report old.csv --html p.html --format json", 2, "combined with neither"),
    ("report old.csv --html p.html --output q.html", 2, "combined with neither"),
    ("report old.csv --json --format csv", 2, "--json cannot be combined with --format=csv"),
    ("report old.csv --json --format json", 0, '"schema"'),
    ("report old.csv --format csv --stacks", 2, "--stacks cannot be combined"),
    ("report old.csv --html p.html --stacks", 2, "--stacks cannot be combined"),
    ("report old.csv --html old.csv", 2, "it cannot be read and written at once"),
    ("report old.csv new.csv --html new.csv", 2, "it cannot be read and written at once"),
    ("report old.csv - --html p.html", 2, "not standard input"),
    ("report {17*old.csv } --html p.html", 2, "a page has 16 traces at most, but 17 are given"),
    ("report old.csv new.csv --format html", 0, "<!doctype html>"),
    ("report old.csv --against new.csv --html p.html", 0, ""),
    ("report old.csv --against gone.csv", 2, "gone.csv"),
    ("report old.csv --against new.csv --fail-if peak", 2, "--fail-if=peak"),
    ("report old.csv --fail-if live>0", 1, "FAILED: live>0"),
    ("report old.csv --fail-if live>1G", 0, "passed: live>1G"),
    ("report old.csv --stacks --leaks", 1, ""),
    ("report old.csv --stacks --count", 0, ""),
    ("report {65*old.csv } --html p.html", 2, "old.csv"),
    ("report --pid 1 --stacks", 2, "--stacks, " + FOR_TRACES),
    ("report --pid 1 --fail-if live>0", 2, "--fail-if, " + FOR_TRACES),
    ("report --pid 1 old.csv", 2, "leave out the trace"),
    ("report --pid 0", 2, "--pid=0"),
    ("report --pid 1 --top 0", 2, "--top=0"),
    ("report --serve --leaks old.csv", 2, "--serve cannot be combined with --leaks"),
    ("report --serve --pid 0", 2, "--pid=0"),
    ("report --serve --port x", 2, "--port=x"),
    ("report --serve --against old.csv", 2, "--against compares traces: name one"),
    ("report --serve --pid 1 old.csv", 2, "leave out the trace"),
    # run, broker, check, tour, info, completion
    ("run --limit 0 -- true", 2, "--limit=0"),
    ("run --error-exitcode 0 -- true", 2, "--error-exitcode=0"),
    ("run --output {5000*x} -- true", 2, "the path is too long"),
    ("run --suppressions {3000*y} -- true", 2, "File name too long"),
    ("run --error-exitcode {3000*9} -- true", 2, "9: not a whole number from 1 to 255"),
    ("run --", 2, "needs a program"),
    ("broker --idle=-1", 2, "--idle=-1"),
    ("check --list --json", 0, '"cases"'),
    ("check --list --filter no-such-case", 2, "no-such-case"),
    ("check -b sim -d 99", 2, "there is no device 99"),
    ("tour -b sim -d 99", 2, "there is no device 99"),
    ("info --leases --shares", 2, "--shares"),
    ("completion bash --json", 0, '"script"'),
    # arguments
    ("info -jx", 2, "-x"),
    ("info -bsim -j", 0, '"sim"'),
    ("info --json=yes", 2, "--json"),
    ("info -", 2, '"-"'),
    ("info x", 2, "x"),
)


def words_of(line):
    line = re.sub(r"\{(\d+)\*([^}]*)\}", lambda found: int(found[1]) * found[2], line)
    return [word.replace("@", " ") for word in line.split()]


def main(binary):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VRAM_")}
        environment.update(LC_ALL="C", TERM="dumb", HOME="/dev/null", OCL_ICD_VENDORS="/nonexistent", COLUMNS="1000",
                           XDG_RUNTIME_DIR=folder, TMPDIR=folder, VRAM_SHARE_DIR=folder)
        files = {"config.json": CONFIG, "one.json": ONE, "old.csv": CSV, "new.csv": CSV, "m.text": ""}
        with open(FAMILIES, encoding="utf-8") as stream:
            files.update({row["model"] + ".json": json.dumps(row["config"]) for row in json.load(stream)["models"]})
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        for line, code, said in ROWS:
            run = subprocess.run([os.path.abspath(binary), *words_of(line)], cwd=folder, env=environment, timeout=60,
                                 stdin=subprocess.DEVNULL, capture_output=True, check=False)
            output, messages = run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")
            if run.returncode != code or said not in output + messages or (code == 2 and not messages):
                failed += 1
                print(f"FAILED vram {line}: exit code {run.returncode}, expected {code} and \"{said}\"")
                print(output[-600:] + messages[-600:])
    print(f"{len(ROWS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
