#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shares_test.py VRAM EXAMPLE: `vram info --shares` beside processes that share memory.

EXAMPLE (examples/24_share) publishes a block of host memory and one of a simulated device, which the command
cannot open but sees; then both are killed.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = os.path.join(ROOT, "docs", "schema", "vram.shares-1.schema.json")


def environment(folder, backend):
    return {**os.environ, "VRAM_SHARE_DIR": folder, "VRAM_BACKENDS": backend, "LC_ALL": "C"}


def ask(vram, folder, *codes):
    """The names by JSON; the text says the same, and may know one that was published meanwhile."""
    env = environment(folder, "host")
    form = subprocess.run([vram, "info", "--shares", "--json"], env=env, capture_output=True, text=True, timeout=60)
    text = subprocess.run([vram, "info", "--shares"], env=env, capture_output=True, text=True, timeout=60)
    assert form.returncode in codes and text.returncode in codes, (form, text)
    document = json.loads(form.stdout)
    if jsonschema:
        with open(SCHEMA, encoding="utf-8") as stream:
            jsonschema.validate(document, json.load(stream))
    lines = text.stdout.splitlines()
    for share in document["shares"]:
        fields = [share["name"], str(share["share_version"]), share["owner"]]
        assert any(line.replace(",", "").split()[:3] == fields for line in lines), (fields, lines)
    return document["shares"]


def main():
    vram, example = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        assert ask(vram, folder, 1) == []
        servers = []
        for backend in ("host", "sim"):
            servers.append(subprocess.Popen([example, "serve", f"test/{backend}"], env=environment(folder, backend),
                                            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        end = time.monotonic() + 30
        try:
            shares = {}
            while len(shares) < 2 and time.monotonic() < end:
                shares = {share["name"]: share for share in ask(vram, folder, 0, 1)}
            assert sorted(shares) == ["test/host", "test/sim"], shares
            assert all(share["owner"] == "served" for share in shares.values()), shares
            assert shares["test/host"]["bytes"] == 4 << 20, shares
        finally:
            for server in servers:
                server.kill()
                server.communicate()
        assert [share["owner"] for share in ask(vram, folder, 0)] == ["gone", "gone"]
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
