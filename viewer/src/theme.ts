// SPDX-License-Identifier: Apache-2.0
// Colours. The twelve were searched for: with and without each of the three colour blindnesses (simulated), any two
// differ by a CIEDE2000 distance of 12 or more, and from the grey of the rest and the paper likewise.
// tests/viewer/colour_test.py computes it.

const named = [
  "#5275a9", "#d9695e", "#53aa89", "#c39e0c", "#c6ace8", "#903f76", "#9dd281", "#8187ea",
  "#c5315d", "#58dbb9", "#887603", "#40624d",
];

export interface Theme {
  dark: boolean;
  text: string;
  soft: string; // axes and grid
  line: string; // held
  limit: string;
  mark: string;
  rest: string;
  paper: string;
  select: string;
}

const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
const prints = window.matchMedia("print");

export function themeNow(): Theme {
  const dark = wantsDark.matches && !prints.matches;
  return dark
    ? { dark, text: "#e6e6e6", soft: "#4a4f57", line: "#ffffff", limit: "#ff6b6b", mark: "#ff6b6b", rest: "#7a818c",
        paper: "#14171b", select: "#ffffff" }
    : { dark, text: "#1b1f24", soft: "#c9ced6", line: "#111111", limit: "#b3001b", mark: "#b3001b", rest: "#9aa2ad",
        paper: "#ffffff", select: "#000000" };
}

// The colour of a column; 0 is the rest.
export function columnColour(column: number, theme: Theme): string {
  return column === 0 ? theme.rest : named[(column - 1) % named.length];
}

function hash(text: string): number {
  return [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7);
}

// A stable colour for a frame of a flame graph: the hue is its package's, the program's own frames are warm.
export function frameColour(name: string, from: string, theme: Theme): string {
  const hue = from === "" ? 32 : 150 + (hash(from) % 160);
  const full = from === "none" ? 0 : theme.dark ? 32 : from === "" ? 70 : 38;
  const shade = hash(name) % 8;
  return `hsl(${hue} ${full}% ${theme.dark ? 24 + shade : 78 + shade}%)`;
}
