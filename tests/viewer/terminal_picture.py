#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""terminal_picture.py BUILD CHROMIUM PNG: a picture of `vram top`, which watches two processes with a simulated GPU
each for a while. tools/pictures makes that of the documents by it. Needs tmux."""
import html
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "monitor"))
from top_test import Terminal  # noqa: E402

COLUMNS, ROWS, SECONDS = 118, 16, 30
COLOURS = ["#1c1e21", "#e05d5d", "#6cc070", "#d9b44a", "#6ea3e0", "#c18be0", "#5fc4c4", "#d8dce2"]
STYLE = ("body{margin:0;background:#1c1e21;color:#d8dce2;padding:10px 12px}"
         "pre{margin:0;font:15px/18px 'DejaVu Sans Mono',monospace}")


def page(screen):
    """The screen with its colours, from what tmux says of them."""
    out, bold, reverse, front, back = [], False, False, None, None
    for part in re.split(r"(\x1b\[[\d;]*m)", screen):
        codes = re.fullmatch(r"\x1b\[([\d;]*)m", part)
        if not codes:
            colours = (back or COLOURS[0], front or COLOURS[7]) if reverse else (front or "inherit", back or "inherit")
            style = "color:{};background:{}".format(*colours) + (";font-weight:bold" if bold else "")
            out.append(f'<span style="{style}">{html.escape(part)}</span>')
            continue
        for code in map(int, (codes.group(1) or "0").split(";")):
            if code == 0:
                bold, reverse, front, back = False, False, None, None
            bold = code == 1 or bold and code != 22
            reverse = code == 7 or reverse and code != 27
            front = COLOURS[code - 30] if 30 <= code < 38 else None if code == 39 else front
            back = COLOURS[code - 40] if 40 <= code < 48 else None if code == 49 else back
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style><pre>{"".join(out)}</pre>'


def main(build, chromium, png):
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "VRAM_BACKENDS": "sim", "VRAM_SIM": "memory=1G", "XDG_RUNTIME_DIR": folder}
        started = [subprocess.Popen(words, cwd=build, env=settings, stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for words in (["tests/tools", "viewer_living"], ["./vram", "stress", "soak", "-s", "120", "-l", "800M"])]
        top = f"'{build}/vram' top --pages '{folder}/vram' --pages-only -i 0.5"
        terminal = Terminal(top, folder, COLUMNS, ROWS, TERM="xterm")
        try:
            time.sleep(SECONDS)
            shown = terminal.screen("-e")
        finally:
            terminal.end()
            for process in started:
                process.kill()
                process.wait()
        source = os.path.join(folder, "top.html")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(page(shown))
        subprocess.run([chromium, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={png}",
                        f"--window-size={COLUMNS * 9 + 30},{ROWS * 18 + 20}", f"file://{source}"],
                       check=True, capture_output=True)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3]))
