// SPDX-License-Identifier: Apache-2.0
// Builds the pages into cli/viewer/generated; run it by tools/viewer.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const generated = join(here, "../cli/viewer/generated");
const sha = (text) => createHash("sha256").update(text).digest("base64");
const hashes = sourceHash();

// The script and everything that it imports, as one text.
async function scriptOf(entry) {
  const bundle = await build({
    entryPoints: [join(here, entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target: ["chrome111", "firefox113", "safari16.4"],
    charset: "ascii",
    legalComments: "none",
    write: false,
  });
  return bundle.outputFiles[0].text.trim();
}

// A page with its script and style inside, and the hashes of both.
async function pageOf(entry, html, styles) {
  const script = await scriptOf(entry);
  const style = styles.map((name) => readFileSync(join(here, name), "utf8")).join("\n")
    .replace(/\/\*.*?\*\//gs, "").replace(/\s+/g, " ").trim();
  const text = readFileSync(join(here, html), "utf8")
    .replace("SCRIPT_HASH", () => sha(script))
    .replace("STYLE_HASH", () => sha(style))
    .replace("STYLE", () => style)
    .replace(">SCRIPT<", () => `>${script}<`);
  return { text, script: sha(script), style: sha(style) };
}

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

function headerOf(name, entry, what, body) {
  const guard = `VIEWER_${name.toUpperCase()}_H`;
  return `/* Made by tools/viewer from viewer/src/${entry}. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ${name}.h: ${what} lint.viewer
 * compares the next line with what lies in viewer/.
 *
 * sources ${hashes}
 */
#ifndef ${guard}
#define ${guard}

#include <stddef.h>

/* clang-format off */
${body}/* clang-format on */

#endif
`;
}

const [head, tail] = (await pageOf("src/main.ts", "page.html", ["style.css"])).text.split("PAYLOAD");
const live = await pageOf("src/live.ts", "live.html", ["style.css", "live.css"]);
const files = {
  viewer_page: headerOf("viewer_page", "main.ts",
    "the page of `vram report --html`, up to its data and from there on.",
    `/* The page up to its data, and from there on. */
${literals("viewer_head", head)}
${literals("viewer_tail", tail)}`),
  serve_page: headerOf("serve_page", "live.ts", "the page of `vram report --serve`.",
    `/* What the page may do, as a header of HTTP. */
#define SERVE_PAGE_POLICY \\
    "Content-Security-Policy: default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; " \\
    "form-action 'none'; frame-ancestors 'none'; script-src 'sha256-${live.script}'; " \\
    "style-src 'sha256-${live.style}'\\r\\n"

${literals("serve_page_text", live.text)}`),
};

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

for (const [name, text] of Object.entries(files)) {
  const target = join(generated, `${name}.h`);
  if (!process.argv.includes("--check")) {
    writeFileSync(target, text);
    console.log(`${target}: ${text.length} bytes`);
  } else if (readFileSync(target, "utf8") !== text) {
    console.error(`cli/viewer/generated/${name}.h is not what viewer/ gives: run tools/viewer`);
    process.exit(1);
  }
}
