#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pages.py SOURCE BUILD [COMPILER [SANITIZERS]]: what the guide, troubleshooting and migration say is tried.

Blocks marked `c` are compiled into one program for each page: those that begin with a definition or a
directive stand at file scope, the others are the bodies of functions that have a context, a device, a queue
and a pool. The program runs on a simulated device and leaves one block behind. Blocks marked `sh` are run line
by line in a folder where `./program` is that program; `# exit code N` behind a line is what is expected. Each
line of a block marked `text`, where * stands for anything, is in what the last command said.
"""
import os
import re
import subprocess
import sys
import tempfile

PAGES = ("guide", "troubleshooting", "migration")
KNOWN = {"c", "sh", "text", "cuda", "rmm"}

PROLOGUE = """#include <stdio.h>
#include <stdlib.h>
#include <vram/auto.h>
#include <vram/compat.h>
#include <vram/compute.h>
#include <vram/model.h>
#include <vram/vram.h>
__attribute__((unused)) static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\\n", vram_status_name(status), vram_error_get()->text);
        exit(3);
    }
}
#define GIVEN vram_context *context, vram_device *device, vram_queue *queue, vram_pool *pool
"""
MAIN = """int main(void) {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr left;
    vram_alloc_options options = {.size = sizeof options, .tag = "left behind"};
    must(vram_context_create(NULL, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));
    must(vram_alloc_with(pool, 1 << 20, queue, &options, &left));
%s    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    vram_context_destroy(context);
    return 0;
}
"""


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def blocks(text):
    """(language, line, contents) of every fenced block."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        yield match.group(1), text[:match.start()].count("\n") + 2, match.group(2)


def is_outside(code):
    return re.match(r"(static|#)", code) is not None


def program_of(path, text):
    source, calls = PROLOGUE, ""
    for number, (language, line, code) in enumerate(blocks(text)):
        if language != "c":
            continue
        place = f'#line {line} "{path}"\n'
        if is_outside(code):
            source += place + code
        else:
            source += (f"static void part_{number}(GIVEN) {{\n(void)context, (void)device, (void)queue, "
                       f"(void)pool;\n{place}{code}}}\n")
            calls += f"    part_{number}(context, device, queue, pool);\n"
    return source + MAIN % calls


def compile_page(source, build, path, text, folder):
    code = os.path.join(folder, "program.c")
    with open(code, "w", encoding="utf-8") as stream:
        stream.write(program_of(path, text))
    libraries = [os.path.join(build, name) for name in ("libvram-compute.a", "libvram-model.a", "libvram.a")]
    compiler, sanitizers = (sys.argv[3:] + ["", ""])[:2]
    flags = [f"-fsanitize={sanitizers}"] if sanitizers else []
    return subprocess.run([compiler or "cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DVRAM_STATIC",
                           *flags, "-I", os.path.join(source, "include"), "-o",
                           os.path.join(folder, "program"), code, *libraries, "-lpthread", "-ldl", "-lm"],
                          capture_output=True, text=True, check=False)


def run_line(line, build, folder):
    """(what is wrong, what was said)"""
    wanted = re.search(r"# exit code (\d+)$", line)
    env = {**os.environ, "PATH": build + os.pathsep + os.environ["PATH"], "VRAM_BACKENDS": "sim",
           "VRAM_SIM": "memory=2G,real=on"}
    said = subprocess.run(line, shell=True, cwd=folder, env=env, capture_output=True, text=True,
                          timeout=120, check=False)
    good = said.returncode == (int(wanted.group(1)) if wanted else 0) and "warning" not in said.stderr
    wrong = [] if good else [f"{line}: exit code {said.returncode}: {said.stderr}{said.stdout}"]
    return wrong, said.stdout


def compare(text, said, place):
    lines = [" ".join(line.split()) for line in said.split("\n")]
    found = []
    for line in text.split("\n"):
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("*"))
        if pattern and not any(re.fullmatch(pattern, given) for given in lines):
            found.append(f"{place}: no command said {line!r}: {said}")
    return found


def check_page(source, build, path):
    text = read(os.path.join(source, path))
    found = [f"{path}:{line}: no language is called {language!r}"
             for language, line, _ in blocks(text) if language not in KNOWN]
    with tempfile.TemporaryDirectory() as folder:
        made = compile_page(source, build, path, text, folder)
        if made.returncode != 0:
            return found + [f"{path}: {made.stderr}"]
        found += run_line("./program", build, folder)[0]
        said = ""
        for language, line, body in blocks(text):
            if language == "sh":
                for command in filter(None, body.split("\n")):
                    wrong, said = run_line(command, build, folder)
                    found += [f"{path}:{line}: {what}" for what in wrong]
            elif language == "text":
                found += compare(body, said, f"{path}:{line}")
    return found


findings = []
for page in PAGES:
    findings += check_page(sys.argv[1], os.path.abspath(sys.argv[2]), f"docs/{page}.md")
print("\n".join(findings + [f"{len(PAGES)} pages, {len(findings)} findings"]))
sys.exit(1 if findings else 0)
