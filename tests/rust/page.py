#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py SOURCE BUILD CARGO: docs/rust.md is followed literally, in a home folder of its own.

The `sh` blocks run one after the other in one shell, the `rust` block is app/src/main.rs, and each `text` block is in
what the block before it printed. Only the first command differs: what `make install` would build is there already.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

INSTALL = "make install PREFIX=$HOME/.local\n"


def main():
    source, build, cargo = sys.argv[1:4]
    if not shutil.which("pkg-config"):
        print("skipped: no pkg-config")
        return 77
    with open(os.path.join(source, "docs", "rust.md"), encoding="utf-8") as file:
        found = re.findall(r"^```(\w+)\n(.*?)^```$", file.read(), re.M | re.S)
    if {kind for kind, _ in found} != {"sh", "rust", "text"} or found[0] != ("sh", INSTALL):
        print("the page has other blocks than expected")
        return 1
    with tempfile.TemporaryDirectory() as home:
        script, wanted = [f'cmake --install "{build}" --prefix "$HOME/.local" >/dev/null'], []
        for kind, text in found[1:]:
            if kind == "sh":
                script.append(text)
            elif kind == "rust":
                script.append(f"cat > app/src/main.rs <<'PAGE'\n{text}PAGE")
            else:
                wanted.append(text)
        tools = {name: os.environ.get(name) or os.path.join(os.environ["HOME"], folder)
                 for name, folder in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"))}
        env = {**os.environ, **tools, "HOME": home, "VRAM_BACKENDS": "host",
               "PATH": os.path.dirname(cargo) + os.pathsep + os.environ["PATH"]}
        for name in ("VRAM_LIB_DIR", "CARGO_TARGET_DIR", "LD_LIBRARY_PATH", "DESTDIR", "RUSTFLAGS"):
            env.pop(name, None)
        run = subprocess.run(["bash", "-euc", "\n".join(script)], cwd=home, env=env, capture_output=True, text=True,
                             check=False)
        # The program runs three times: shared, static, and with pooling off.
        right = run.returncode == 0 and all(run.stdout.count(text) == 3 for text in wanted)
        print(run.stdout if right else run.stdout + run.stderr)
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
