// SPDX-License-Identifier: Apache-2.0
// Builds the page into cli/viewer/generated/viewer_page.h; run it by tools/viewer.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../cli/viewer/generated/viewer_page.h");
const sha = (text) => createHash("sha256").update(text).digest("base64");

const bundle = await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox113", "safari16.4"],
  charset: "ascii",
  legalComments: "none",
  write: false,
});
const script = bundle.outputFiles[0].text.trim();
const style = readFileSync(join(here, "style.css"), "utf8").replace(/\/\*.*?\*\//gs, "").replace(/\s+/g, " ").trim();
const page = readFileSync(join(here, "page.html"), "utf8")
  .replace("SCRIPT_HASH", () => sha(script))
  .replace("STYLE_HASH", () => sha(style))
  .replace("STYLE", () => style)
  .replace(">SCRIPT<", () => `>${script}<`);
const [head, tail] = page.split("PAYLOAD");

// String literals of at most 3,000 bytes: C promises 4,095.
function literals(name, text) {
  const parts = [];
  for (let at = 0; at < text.length; at += 3000) {
    const part = text.slice(at, at + 3000);
    parts.push('    "' + part.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n").replace(/\?\?/g, "?\\?")
      .replace(/\t/g, "\\t") + '",');
  }
  return `static const char *const ${name}[] = {\n${parts.join("\n")}\n    NULL};\n`;
}

const text = `/* Made by tools/viewer from viewer/src/main.ts. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * viewer_page.h: the page of \`vram report --html\`, up to its data and from there on. lint.viewer
 * compares the next line with what lies in viewer/.
 *
 * sources ${sourceHash()}
 */
#ifndef VIEWER_VIEWER_PAGE_H
#define VIEWER_VIEWER_PAGE_H

#include <stddef.h>

/* clang-format off */
/* The page up to its data, and from there on. */
${literals("viewer_head", head)}
${literals("viewer_tail", tail)}
/* clang-format on */

#endif
`;

// As tests/lint/viewer.py does it: names and contents, in the order of names.
function sourceHash() {
  const names = readdirSync(here, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "package-lock.json")
    .map((entry) => relative(here, join(entry.parentPath ?? entry.path, entry.name)))
    .filter((name) => !name.startsWith("node_modules"));
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    hash.update(name + "\0").update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("cli/viewer/generated/viewer_page.h is not what viewer/ gives: run tools/viewer");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
  console.log(`${target}: ${text.length} bytes`);
}
