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

export function timeText(ns: number): string {
  if (ns < 1e3) {
    return `${ns.toFixed(0)} ns`;
  }
  if (ns < 1e6) {
    return `${(ns / 1e3).toFixed(1)} µs`;
  }
  if (ns < 1e9) {
    return `${(ns / 1e6).toFixed(1)} ms`;
  }
  if (ns < 60e9) {
    return `${(ns / 1e9).toFixed(2)} s`;
  }
  const seconds = Math.floor(ns / 1e9);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const two = (n: number) => String(n).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)} h` : `${minutes}:${two(seconds % 60)} min`;
}

export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

// About `wanted` round numbers from `low` to `high`; `base` 1024 for bytes.
export function ticks(low: number, high: number, wanted: number, base: 10 | 1024): number[] {
  const span = high - low;
  if (!(span > 0)) {
    return [low];
  }
  let step: number;
  if (base === 10) {
    const power = 10 ** Math.floor(Math.log10(span / wanted));
    step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= wanted) ?? power * 10;
  } else {
    step = 2 ** Math.max(0, Math.ceil(Math.log2(span / wanted)));
  }
  const out: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    out.push(at);
  }
  return out;
}
