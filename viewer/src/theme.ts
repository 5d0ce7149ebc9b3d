// SPDX-License-Identifier: Apache-2.0
// Colours. The twelve were searched for: with and without each of the three colour blindnesses (simulated), any two
// differ by a CIEDE2000 distance of 12 or more, and from the grey of the rest and the paper likewise.
// tests/viewer/colour_test.py computes it.

const named = [
  "#5979df", "#de675e", "#53b48e", "#d7b4f9", "#906e01", "#f6e45b", "#8f1362", "#85e9a8",
  "#c32657", "#3951b0", "#bfac0a", "#4d5119",
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

// A stable colour for a frame of a flame graph.
export function frameColour(name: string, theme: Theme): string {
  let hash = 0;
  for (let i = 0; i < name.length; i++) {
    hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  }
  const hue = 18 + (hash % 40);
  return `hsl(${hue} ${55 + (hash % 25)}% ${theme.dark ? 34 + (hash % 8) : 66 + (hash % 10)}%)`;
}
