// SPDX-License-Identifier: Apache-2.0
// Figures for people.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytesText(bytes: number): string {
  let unit = 0;
  let value = Math.abs(bytes);
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${bytes < 0 ? "-" : ""}${value.toFixed(digits)} ${units[unit]}`;
}

const scales: [number, string, number][] = [[1, "ns", 0], [1e3, "µs", 1], [1e6, "ms", 1], [1e9, "s", 2]];

// `step`: what two such texts differ by, at least; they then have as many digits as that takes. `most`: the unit is that
// of this time.
export function timeText(ns: number, step = 0, most = ns): string {
  const [unit, name, usual] = scales.findLast(([one]) => most >= one) ?? scales[0];
  const clock = most >= 60e9;
  const digits = step > 0 ? Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-6)) : clock ? 0 : usual;
  if (!clock) {
    return `${(ns / unit).toFixed(digits)} ${name}`;
  }
  const power = 10 ** digits;
  const all = Math.floor((ns / 1e9) * power + 1e-6); // seconds, with their digits
  const minutes = Math.floor(all / (60 * power));
  const rest = ((all % (60 * power)) / power).toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  return minutes < 60 ? `${minutes}:${rest} min`
    : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest} h`;
}

export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

// A round number of which about `wanted` fit into `span`.
export function tickStep(span: number, wanted: number): number {
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  return [1, 2, 5].map((m) => m * power).find((step) => span / step <= wanted) ?? power * 10;
}

// About `wanted` round numbers from `low` to `high`; `base` 1024 for bytes.
export function ticks(low: number, high: number, wanted: number, base: 10 | 1024): number[] {
  const span = high - low;
  if (!(span > 0)) {
    return [low];
  }
  const step = base === 10 ? tickStep(span, wanted) : 2 ** Math.max(0, Math.ceil(Math.log2(span / wanted)));
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, i) => (first + i) * step);
}

// Texts for numbers of bytes that all differ: where they would not, the first says where they are, the others how much
// further.
export function bytesTexts(values: number[]): string[] {
  const texts = values.map(bytesText);
  return new Set(texts).size === texts.length ? texts
    : texts.map((text, i) => (i === 0 ? text : `+${bytesText(values[i] - values[0])}`));
}
