#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""arguments_test.py BINARY: arguments at their bounds and beyond, a line each: the exit code, and words that are said.

Where they begin with "vram: ", they are all that is said. Words are separated by spaces; @ in one stands for a space.
{N*TEXT} is TEXT N times.
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
    ("estimate config.json -m 8G --overhead much", 2, "vram: --overhead=much: \"much\" is not a size; write bytes, or "
     "a unit as in 64K, 1.5GiB, 2 MB"),
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
    # bench: the whole message
    ("bench alloc -b host --seconds 0.05 --baseline nowhere", 2, "vram: cannot read nowhere: No such file or "
     "directory"),
    ("bench alloc -b host --seconds 0.05 --baseline /dev/null", 2, "vram: /dev/null has no line for this run; "
     "--save=/dev/null adds it"),
    ("bench copy --live 3", 2, "vram: `vram bench copy` takes no --live"),
    ("bench copy --size 100", 2, "vram: --size=100: the largest copy must have at least 4096 bytes"),
    ("bench distance --size 3", 2, "vram: --size=3: not a number of vectors from 10 to 100000000"),
    ("bench grow --pattern burst", 2, "vram: `vram bench grow` takes no --pattern"),
    ("bench grow --from 2M --to 1M", 2, "vram: --from=2097152 --to=1048576: --to must be larger than --from, and "
     "--from at least 4"),
    ("bench matmul --size 40000", 2, "vram: --size=40000: not a number of rows from 1 to 32768"),
    ("bench alloc --pattern mixed --size 1K", 2, "vram: --pattern=mixed has its own sizes; leave out --size"),
    ("bench", 2, "vram: say what to measure: vram bench alloc, copy, distance, grow, launch, matmul, readback, "
     "ring or track"),
    ("bench alloc --pattern pairs", 2, "vram: --pattern=pairs: not one of pair, burst, mixed, handover"),
    ("bench readback -b host --size 100", 2, "vram: --size=100: a frame must have 4096 bytes to 8 GiB"),
    ("bench ring --seconds 1", 2, "vram: `vram bench ring` takes no --seconds"),
    ("bench ring --backend host --size 1M", 2, "vram: --size=1M: a message has at most 4096 bytes"),
    ("bench alloc --seconds=-1", 2, "vram: --seconds=-1: not a number from 0.01 to 3600"),
    ("bench alloc --size many", 2, "vram: --size=many: not a size like 4096, 64K or 1.5GiB"),
    ("bench alloc --size 0", 2, "vram: --size=0: not a size like 4096, 64K or 1.5GiB"),
    ("bench alloc --threads 0", 2, "vram: --threads=0: not a whole number from 1 to 256"),
    ("bench speed", 2, "vram: \"speed\" is not one of alloc, copy, distance, grow, launch, matmul, readback, "
     "ring, track"),
    # broker: the whole message
    ("broker --idle soon", 2, "vram: --idle=soon: not a whole number from 0 to 1000000000"),
    # command: the whole message
    ("tour --backend metal", 2, "vram: backend metal is absent: Metal was not found: it is a part of macOS, and "
     "nowhere else"),
    ("tour --backend sim,,host", 2, "vram: cannot start: unknown backend \"\"; there are cuda, hip, metal, "
     "vulkan, opencl, sim and host (VRAM_ERR_INVALID)"),
    ("info --backend cdua", 2, "vram: cannot list the devices: unknown backend \"cdua\"; there are cuda, hip, "
     "metal, vulkan, opencl, sim and host (VRAM_ERR_INVALID)"),
    ("--json info", 2, "vram: unknown flag --json before the verb; `vram --help` shows the order"),
    ("--versoin", 2, "vram: unknown flag --versoin; did you mean --version?"),
    ("--frobnicate", 2, "vram: unknown flag --frobnicate before the verb; `vram --help` shows the order"),
    ("tour --backend", 2, "vram: --backend needs an argument: --backend=NAME"),
    ("tour -d", 2, "vram: --device needs an argument: --device=N"),
    ("info --color", 2, "vram: --color needs an argument: --color=WHEN"),
    ("info --color=sometimes", 2, "vram: --color=sometimes: not one of auto, always, never"),
    ("info -q", 2, "vram: unknown flag -q; `vram info --help` lists them"),
    ("info --bakend=sim", 2, "vram: unknown flag --bakend; did you mean --backend?"),
    ("info --back sim", 2, "vram: unknown flag --back; did you mean --backend?"),
    ("info --frobnicate", 2, "vram: unknown flag --frobnicate; `vram info --help` lists them"),
    ("info -- --json", 2, "vram: `vram info` takes no argument \"--json\""),
    ("info everything", 2, "vram: `vram info` takes no argument \"everything\""),
    ("ifno", 2, "vram: unknown verb \"ifno\"; did you mean \"info\"?"),
    ("comp", 2, "vram: unknown verb \"comp\"; did you mean \"completion\"?"),
    ("frobnicate", 2, "vram: unknown verb \"frobnicate\"; `vram --help` lists them"),
    # completion: the whole message
    ("completion", 2, "vram: `vram completion` needs one shell: bash, zsh or fish"),
    ("completion bash zsh", 2, "vram: `vram completion` needs one shell: bash, zsh or fish"),
    ("completion tcsh", 2, "vram: \"tcsh\" is not one of bash, zsh, fish"),
    # estimate: the whole message
    ("estimate gone.gguf -m 8G", 2, "vram: cannot read the model: gone.gguf: there is no such file (VRAM_ERR_IO)"),
    ("estimate", 2, "vram: `vram estimate` needs one model: a .gguf or .safetensors file, a config.json or a "
     "folder with one; or --params"),
    ("estimate x --params layers=1", 2, "vram: `vram estimate --params` takes no model"),
    ("estimate --params hidden=4096,deep=7 -m 8G", 2, "vram: --params: \"deep=7\" is not NAME=NUMBER; names are "
     "hidden, intermediate, layers, vocab, heads, kv_heads, tokens, bytes, and for experts experts, "
     "shared_experts, top_k, expert_intermediate, first_expert_layer"),
    ("estimate --params hidden=18446744073709551616,intermediate=9999999999,layers=32,vocab=32000,heads=32,kv_heads=8 -m 8G", 2,
     "vram: --params: hidden=18446744073709551616 does not fit in 64 bits"),
    ("estimate --params hidden=18446744073709551615,intermediate=9999999999,layers=32,vocab=32000,heads=32,kv_heads=8 -m 8G", 2,
     "vram: --params: a model of 32 layers of 18446744073709551615 x 9999999999 does not fit in 64 bits "
     "(VRAM_ERR_OVERFLOW)"),
    ("estimate --params hidden=4096,intermediate=14336,layers=32,vocab=32000,heads=0,kv_heads=8,tokens=4096 -m 8G", 2,
     "vram: --params: heads is 0 (VRAM_ERR_INVALID)"),
    ("estimate --params hidden=9999999999,intermediate=9999999999,layers=32,vocab=32000,heads=32,kv_heads=8 -m 8G", 2,
     "vram: --params: a model of 32 layers of 9999999999 x 9999999999 does not fit in 64 bits (VRAM_ERR_OVERFLOW)"),
    ("estimate a b", 2, "vram: `vram estimate` needs one model: a .gguf or .safetensors file, a config.json or a "
     "folder with one; or --params"),
    ("estimate config.json -m 8G -ctk q9", 2, "vram: cannot estimate: \"q9\" is not a type of a cache; use f32, "
     "f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl (VRAM_ERR_INVALID)"),
    ("estimate config.json -m 8G -c 128g", 2, "vram: --ctx-size=128g: not a number of tokens from 0 to "
     "4294967295, as 131072, 128k or 1M"),
    ("estimate config.json --backend host -d 7", 2, "vram: there is no device 7; `vram info` lists them"),
    ("estimate config.json -ngl most -m 8G", 2, "vram: --gpu-layers=most: not a number of layers from 0 on, or all"),
    ("estimate config.json -ngl", 2, "vram: --gpu-layers needs an argument: --gpu-layers=N"),
    ("estimate config.json -m lots", 2, "vram: --memory=lots: \"lots\" is not a size; write bytes, or a unit as "
     "in 64K, 1.5GiB, 2 MB"),
    ("estimate config.json -m 8G -c 4 -np 5", 2, "vram: cannot estimate: 5 sequences cannot share a context of 4 "
     "tokens; each needs at least one (VRAM_ERR_INVALID)"),
    ("estimate config.json -m 8G -m 8G -ts 3,-1", 2, "vram: --tensor-split=3,-1: not a list of numbers from 0 on, "
     "as 3,1"),
    ("estimate config.json -m 8G -ts 3,1", 2, "vram: --tensor-split=3,1: there are more shares than devices, "
     "which are 1; add one with --memory, or leave out a share"),
    ("estimate config.json --weights q4_Z -m 2G", 2, "vram: cannot read the model: \"q4_Z\" is not a type of "
     "weights; use F32, F16, BF16, fp8, mxfp8, nvfp4, mxfp4, int4, int8, awq, gptq, Q8_0, Q6_K, Q5_K_M/S, "
     "Q4_K_M/S, Q4/5_0/1, Q3_K_L/M/S, Q2_K/_S, IQ4_NL/XS, IQ2/3_M/S/XS/XXS, IQ1_M/S, TQ1_0, TQ2_0, MXFP4_MOE "
     "(VRAM_ERR_INVALID)"),
    # help: the whole message
    ("help info tour", 2, "vram: `vram help` takes one verb at most"),
    ("help tuor", 2, "vram: unknown verb \"tuor\"; did you mean \"tour\"?"),
    # replay: the whole message
    ("replay absent.csv --backend sim", 2, "vram: absent.csv: No such file or directory"),
    ("replay / --backend sim", 2, "vram: /: Is a directory"),
    ("replay --generate steady,size=4", 2, "vram: --generate: \"size\" is none of steps, blocks, weights, min, "
     "max, vary, queues, uses, threads, handover, step_us, seed, with =VALUE"),
    ("replay --generate storm", 2, "vram: --generate: \"storm\" is none of steady, varied, queues, ahead, threads"),
    ("replay --generate steady --memory much", 2, "vram: --memory=much: not a size; write 80G, 141GiB or bytes"),
    ("replay", 2, "vram: `vram replay` needs a trace: a CSV file, - for standard input, or --generate"),
    ("replay x.csv --policy best", 2, "vram: --policy=best: not one of vram, expandable, async, caching, naive"),
    ("replay --generate steady --generate steady --print", 2, "vram: --print writes one trace, but 2 are given"),
    ("replay --generate steady --repeat 0", 2, "vram: --repeat=0: not a whole number from 1 to 1000"),
    # report: the whole message
    ("report nowhere.vrt", 2, "vram: nowhere.vrt: No such file or directory"),
    ("report /", 2, "vram: /: Is a directory"),
    ("report /dev/null", 2, "vram: /dev/null:1: this is not a trace: neither one of libvram (VRAM_TRACE), nor a "
     "memory snapshot of PyTorch, nor Chrome JSON, nor a log of RMM, nor CSV that begins with "
     "op,id,bytes,stream,t_us; plain, gzip'd or zstd'd"),
    ("report", 2, "vram: `vram report` needs a trace: a file, or - for standard input; run the program with "
     "VRAM_TRACE=FILE to write one"),
    ("report --serve --pid 2147483646", 2, "vram: there is no process 2147483646"),
    ("report --serve --format=html", 2, "vram: --serve cannot be combined with --format"),
    ("report --serve --port 70000 --pid 1", 2, "vram: --port=70000: not a whole number from 1 to 65535"),
    ("report --pid 1 --port 8080", 2, "vram: --port goes with --serve"),
    ("report --serve absent.vrt", 2, "vram: absent.vrt: No such file or directory"),
    ("report x --top 0", 2, "vram: --top=0: not a whole number from 1 to 1000000"),
    ("report a b", 2, "vram: several traces make one page: add --html FILE; to compare two in words, `vram report "
     "NEW --against OLD`"),
    # run: the whole message
    ("run --limit=lots -- true", 2, "vram: --limit=lots: not a size: use a number with K, M, G or T, such as 8G"),
    ("run", 2, "vram: `vram run` needs a program: vram run -- PROGRAM [ARGUMENT]..."),
    ("run --tree -- true", 2, "vram: --tree needs --limit: it says for whom the limit is"),
    # stress: the whole message
    ("stress soak --limit 5", 2, "vram: --limit=5: not a size from 1M on, like 64M or 1.5GiB"),
    ("stress", 2, "vram: say which test to run: vram stress soak, or vram stress pressure"),
    ("stress pressure --backend sim --seconds 3", 2, "vram: --seconds is only for `vram stress soak`"),
    ("stress soak --seconds 0", 2, "vram: --seconds=0: not a whole number from 1 to 604800"),
    ("stress soke", 2, "vram: \"soke\" is not one of soak, pressure"),
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
            whole = not said.startswith("vram: ") or (output, messages) == ("", said + "\n")
            if not whole or run.returncode != code or said not in output + messages or (code == 2 and not messages):
                failed += 1
                print(f"FAILED vram {line}: exit code {run.returncode}, expected {code} and \"{said}\"")
                print(output[-600:] + messages[-600:])
    print(f"{len(ROWS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
