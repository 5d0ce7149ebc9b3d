// SPDX-License-Identifier: Apache-2.0
// Where moments lie on the two axes, by time and by events. "At" is a part of the trace as cli/viewer/scene.h has it:
// half the sum of how far the time is, from 0 to 1, and how many of the events were.

import { mostIn, type Meta, type Numbers } from "./data";
import { countText, tickStep, ticks, timeText } from "./format";

export type AxisKind = "time" | "events";

export class Axis {
  private readonly edges: Record<AxisKind, Float64Array>; // where each bin begins, as parts of the axis

  constructor(private readonly meta: Meta, past: Numbers) {
    const events = new Float64Array(past.length);
    let sum = 0;
    for (let i = 0; i < past.length; i++) {
      sum += past[i];
      events[i] = sum / meta.past_parts;
    }
    const time = events.map((part, i) => Math.min(1, Math.max(0, (2 * i) / meta.bins - part)));
    this.edges = { time: time.map((part, i) => (time[i] = Math.max(part, time[i - 1] ?? 0))), events };
  }

  // Of a moment whose time (ns from the begin) and event are known.
  at(time: number, step: number): number {
    return (this.exact("time", time, step) + this.exact("events", time, step)) / 2;
  }

  exact(kind: AxisKind, time: number, step: number): number {
    return kind === "time" ? time / (this.meta.span + 1) : step / (this.meta.steps + 1);
  }

  // What a part of an axis is called: ns since the trace began, or a number of an event.
  value(kind: AxisKind, part: number): number {
    return kind === "time" ? this.meta.begin + part * (this.meta.span + 1) : part * (this.meta.steps + 1);
  }

  // The part of an axis at a part of the trace.
  partOf(kind: AxisKind, at: number): number {
    const edges = this.edges[kind];
    const bin = Math.min(this.meta.bins - 1, Math.floor(at * this.meta.bins));
    return edges[bin] + (edges[bin + 1] - edges[bin]) * (at * this.meta.bins - bin);
  }

  // The last event that a bin shows.
  eventOf(bin: number): number {
    const part = this.partOf("events", Math.min(1, (bin + 0.5) / this.meta.bins));
    return Math.min(this.meta.steps, Math.floor(this.value("events", part)));
  }

  // The first part of the trace that lies there.
  atOf(kind: AxisKind, part: number): number {
    const edges = this.edges[kind];
    let low = 0;
    let high = this.meta.bins;
    while (low < high) {
      const middle = (low + high) >> 1;
      [low, high] = edges[middle] < part ? [middle + 1, high] : [low, middle];
    }
    const before = edges[low - 1];
    return low === 0 ? 0 : (low - 1 + Math.min(1, (part - before) / (edges[low] - before))) / this.meta.bins;
  }

  // The bins between two parts of the trace, at least one.
  bins(from: number, to: number): [number, number] {
    const { bins } = this.meta;
    const first = Math.min(bins - 1, Math.floor(from * bins));
    return [first, Math.min(bins - 1, Math.max(first, Math.ceil(to * bins) - 1))];
  }

  // The part of an axis that has the peak and what rises to it and falls from it, with as much around it.
  aroundPeak(kind: AxisKind, total: Numbers): [number, number] {
    let first = Math.max(0, total.indexOf(mostIn(total)));
    let last = first;
    const high = (bin: number) => bin >= 0 && bin < this.meta.bins && total[bin] > 0.6 * this.meta.peak_bytes;
    while (high(first - 1)) {
      first--;
    }
    while (high(last + 1)) {
      last++;
    }
    const [from, to] = [this.edges[kind][first], this.edges[kind][last + 1]];
    return [from - 2 * (to - from), to + 2 * (to - from)];
  }

  // How much of the time axis has most of the peak; a peak that nobody would see is shown by events.
  kindFor(total: Numbers): AxisKind {
    let width = 0;
    for (let i = 0; i < this.meta.bins; i++) {
      width += total[i] > 0.8 * this.meta.peak_bytes ? this.edges.time[i + 1] - this.edges.time[i] : 0;
    }
    return this.meta.peak_bytes > 0 && width < 1 / 300 ? "events" : "time";
  }
}

export interface Box {
  left: number;
  width: number;
  top: number;
}

// Labels below a picture, for values of the axis from `low` to `high`.
export function drawTicks(context: CanvasRenderingContext2D, kind: AxisKind, low: number, high: number, box: Box): void {
  const wanted = Math.max(3.5, box.width / 110);
  const step = tickStep(high - low, wanted);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of ticks(low, high, wanted, 10)) {
    if (kind === "time" || Number.isInteger(value)) {
      const text = kind === "time" ? timeText(value, step, high) : countText(value);
      const half = context.measureText(text).width / 2;
      const x = box.left + ((value - low) / (high - low)) * box.width;
      context.fillText(text, Math.min(box.left + box.width - half, Math.max(box.left + half, x)), box.top);
    }
  }
}
