// SPDX-License-Identifier: Apache-2.0
// The memory of a running process over time: live bytes stacked by tag, with what is held, the limit and refusals. It
// grows while it is looked at.

import { byId, make, prepare } from "./dom";
import { bytesText, ticks, timeText } from "./format";
import type { Past, Refusal } from "./live_data";
import { pixelOf, Raster } from "./raster";
import { columnColour, themeNow } from "./theme";
import { tip, tipHide } from "./tip";
import { interact, Shown } from "./window";

const AXIS = 64; // width of the axis of bytes
const BELOW = 20; // height of the axis of time
const levels = ["unknown", "low", "medium", "high", "critical"];

export class LiveTimeline {
  private readonly canvas = byId<HTMLCanvasElement>("timeline");
  private readonly raster = new Raster();
  private readonly shown = new Shown(0, 0);
  private span = 0;
  private refusals: { time: number; refusal: Refusal }[] = [];

  constructor(private readonly past: Past) {
    interact(this.canvas, AXIS, this.shown, {
      hover: (x, y) => this.hover(x, y),
      leave: tipHide,
      choose: (x, y) => this.hover(x, y),
    });
    this.shown.listen(() => this.draw());
    new ResizeObserver(() => this.shown.changed()).observe(this.canvas);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.shown.changed());
    window.addEventListener("beforeprint", () => this.draw());
  }

  // Times of refusals are ns since the beginning. A part that was chosen stays, unless it ends now: then it follows.
  update(refusals: { time: number; refusal: Refusal }[]): void {
    const { view } = this.shown;
    const before = this.span;
    this.span = this.past.span;
    this.refusals = refusals;
    if (before > 0 && view.end - view.begin < 1) {
      const factor = before / this.span;
      const width = (view.end - view.begin) * factor;
      const begin = view.end > 1 - 1e-9 ? 1 - width : view.begin * factor;
      this.shown.range(begin, begin + width);
    }
    this.shown.changed();
    this.canvas.setAttribute(
      "aria-label",
      `Live memory over the last ${timeText(this.span)}. Arrow keys pan, plus and minus zoom, 0 shows all.`,
    );
  }

  private get width(): number {
    return Math.max(1, this.canvas.clientWidth - AXIS);
  }

  private get height(): number {
    return Math.max(1, this.canvas.clientHeight - BELOW);
  }

  private timeAt(x: number): number {
    const { begin, end } = this.shown.view;
    return (begin + ((x - AXIS) / this.width) * (end - begin)) * this.span;
  }

  private x(ns: number): number {
    const { begin, end } = this.shown.view;
    return AXIS + ((ns / this.span - begin) / (end - begin)) * this.width;
  }

  // The slot with most live memory among those of one pixel; -1: none.
  private slotOf(x: number): number {
    const first = this.past.slotAt(this.timeAt(x));
    const last = this.past.slotAt(Math.min(this.timeAt(x + 1), this.span - 1));
    let best = first;
    for (let i = Math.max(0, first + 1); i < last; i++) {
      if (best < 0 || this.past.live[i] > this.past.live[best]) {
        best = i;
      }
    }
    return best;
  }

  private most(): number {
    let most = 1;
    for (let i = 0; i < this.past.count; i++) {
      most = Math.max(most, this.past.held[i], this.past.live[i]);
    }
    const limit = this.past.limit[this.past.count - 1];
    return (limit != null && limit > most && limit < most * 2 ? limit : most) * 1.08;
  }

  draw(): void {
    const context = prepare(this.canvas);
    if (!context || this.past.count === 0 || this.canvas.clientWidth <= AXIS) {
      return;
    }
    const most = this.most();
    const y = (bytes: number) => this.height - (bytes / most) * this.height;
    context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    this.areas(context, most);
    const slots = Array.from({ length: Math.ceil(this.width) }, (_, x) => this.slotOf(AXIS + x));
    this.lines(context, slots, y);
    this.axes(context, most, y);
    this.marks(context);
  }

  private areas(context: CanvasRenderingContext2D, most: number): void {
    const theme = themeNow();
    const ratio = this.canvas.width / this.canvas.clientWidth;
    const tags = this.past.shown();
    const columns = tags.map((tag) => this.past.columns.get(tag) ?? []);
    const colours = tags.map((tag) => pixelOf(columnColour(this.past.colourOf(tag), theme)));
    const rest = pixelOf(columnColour(0, theme));
    const raster = this.raster;
    raster.begin(this.width * ratio, this.height * ratio);
    const perByte = raster.height / most;
    for (let x = 0; x < raster.width; x++) {
      const slot = this.slotOf(AXIS + x / ratio);
      if (slot < 0) {
        continue;
      }
      let below = 0;
      let bottom = raster.height;
      const add = (bytes: number, colour: number) => {
        below += bytes;
        const top = Math.max(0, Math.round(raster.height - below * perByte));
        raster.column(x, top, bottom, colour);
        bottom = top;
      };
      columns.forEach((column, i) => add(column[slot] ?? 0, colours[i]));
      add(Math.max(0, this.past.live[slot] - below), rest);
    }
    raster.end(context, AXIS * ratio, 0);
  }

  private line(context: CanvasRenderingContext2D, slots: number[], values: (number | null)[], y: (b: number) => number): void {
    context.beginPath();
    let down = false;
    slots.forEach((slot, x) => {
      const bytes = slot < 0 ? null : values[slot];
      if (bytes === null) {
        down = false;
      } else if (down) {
        context.lineTo(AXIS + x, y(bytes));
      } else {
        context.moveTo(AXIS + x, y(bytes));
        down = true;
      }
    });
    context.stroke();
  }

  private lines(context: CanvasRenderingContext2D, slots: number[], y: (b: number) => number): void {
    const theme = themeNow();
    context.save();
    context.beginPath();
    context.rect(AXIS, 0, this.width, this.height);
    context.clip();
    context.lineWidth = 1.5;
    context.strokeStyle = theme.line;
    this.line(context, slots, this.past.held, y);
    context.strokeStyle = theme.limit;
    context.setLineDash([6, 4]);
    this.line(context, slots, this.past.limit, y);
    context.restore();
  }

  private axes(context: CanvasRenderingContext2D, most: number, y: (b: number) => number): void {
    const theme = themeNow();
    const { begin, end } = this.shown.view;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.text;
    context.strokeStyle = theme.soft;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const bytes of ticks(0, most, 6, 1024)) {
      context.fillText(bytesText(bytes), AXIS - 6, Math.max(6, y(bytes)));
      context.globalAlpha = 0.4;
      context.beginPath();
      context.moveTo(AXIS, Math.round(y(bytes)) + 0.5);
      context.lineTo(AXIS + this.width, Math.round(y(bytes)) + 0.5);
      context.stroke();
      context.globalAlpha = 1;
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const time of ticks(begin * this.span, end * this.span, Math.max(2, this.width / 110), 10)) {
      context.fillText(secondsText(time), Math.min(AXIS + this.width - 24, Math.max(AXIS + 14, this.x(time))), this.height + 5);
    }
  }

  private marks(context: CanvasRenderingContext2D): void {
    context.fillStyle = themeNow().mark;
    for (const { time } of this.refusals) {
      const x = this.x(time);
      if (x >= AXIS && x <= AXIS + this.width) {
        context.beginPath();
        context.moveTo(x - 5, 0);
        context.lineTo(x + 5, 0);
        context.lineTo(x, 9);
        context.fill();
      }
    }
  }

  private hover(x: number, y: number): void {
    const refused = y < 14 ? this.refusals.find(({ time }) => Math.abs(this.x(time) - x) < 6) : undefined;
    const slot = x < AXIS ? -1 : this.slotOf(x);
    const box = make("div");
    if (refused) {
      box.append(make("strong", `refused: ${bytesText(refused.refusal.bytes)}`), make("div", refused.refusal.text));
    } else if (slot >= 0) {
      this.describe(box, slot);
    } else {
      tipHide();
      return;
    }
    tip(this.canvas, x, y, box);
  }

  private describe(box: HTMLElement, slot: number): void {
    const { past } = this;
    const time = secondsText(past.number[slot] * past.interval);
    const limit = past.limit[slot];
    box.append(
      make("strong", `${time}: ${bytesText(past.live[slot])} live`),
      make("div", `${bytesText(past.held[slot])} held${limit === null ? "" : `, limit ${bytesText(limit)}`}`),
      make("div", `pressure ${levels[past.level[slot]] ?? "unknown"}`),
    );
    const tags = [...past.columns]
      .map(([tag, bytes]) => ({ tag, bytes: bytes[slot] ?? 0 }))
      .filter((column) => column.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes);
    const named = tags.reduce((sum, column) => sum + column.bytes, 0);
    for (const { tag, bytes } of tags.slice(0, 8)) {
      box.append(make("div", `${bytesText(bytes)}  ${tag}`));
    }
    if (past.live[slot] > named) {
      box.append(make("div", `${bytesText(past.live[slot] - named)}  the rest`));
    }
  }
}

// Slots are whole seconds.
export function secondsText(ns: number): string {
  return ns < 60e9 ? `${Math.round(ns / 1e9)} s` : timeText(ns);
}
