// SPDX-License-Identifier: Apache-2.0
// Live memory over time or over events, stacked by the chosen grouping, with what was held, the limit, the peak and
// refusals; or one group alone.

import { drawTicks } from "./axis";
import { mostIn, type Note, type Numbers, type Scene } from "./data";
import { byId, make, prepare } from "./dom";
import { bytesText, countText, ticks, timeText } from "./format";
import { partsOf, type Part } from "./groups";
import { pixelOf, Raster } from "./raster";
import { themeNow, type Theme } from "./theme";
import { tip, tipHide } from "./tip";
import { interact, whenSeen, type Shown } from "./window";

export const AXIS = 64; // width of the axis of bytes
const BELOW = 20; // height of the axis of time

// Told when a reader chooses something: a note, or a moment, which may be one to compare with.
export interface Chosen {
  note(note: Note): void;
  chose(compare: boolean): void;
}

export class Timeline {
  private readonly canvas = byId<HTMLCanvasElement>("timeline");
  private readonly total: Numbers;
  private readonly held: Numbers;
  private readonly limit: Numbers;
  private parts: Part[] = []; // what is drawn,
  private drawn = ""; // what it is of,
  private sums: Numbers; // its bytes by bin,
  private peak = 0; // and the most of them
  private readonly raster = new Raster();
  private width = 1; // without the axes, CSS pixels
  private height = 1;

  constructor(private readonly scene: Scene, private readonly shown: Shown, private readonly handlers: Chosen) {
    const { meta } = scene;
    this.sums = this.total = scene.array("total");
    this.held = scene.array("held");
    this.limit = scene.array("limit");
    interact(this.canvas, AXIS, shown, {
      hover: (x, y) => this.hover(x, y),
      leave: tipHide,
      choose: (x, y, compare) => this.choose(x, y, compare),
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        this.choose(AXIS + this.width / 2, this.height, event.shiftKey);
      }
    });
    this.canvas.setAttribute(
      "aria-label",
      `Live memory over ${timeText(meta.span)}; the peak is ${bytesText(meta.peak_bytes)} at ${timeText(meta.begin + meta.peak_time)}. ` +
        "Arrow keys pan, plus and minus zoom, 0 shows all. Enter chooses the moment in the middle, with shift to compare.",
    );
    whenSeen(this.canvas, shown, () => this.draw());
  }

  // Asked of the element once a frame: each question after a change of the page makes the browser lay it out again.
  private measure(): void {
    this.width = Math.max(1, this.canvas.clientWidth - AXIS);
    this.height = Math.max(1, this.canvas.clientHeight - BELOW);
  }

  private at(x: number): number {
    const { begin, end } = this.shown.view;
    return begin + ((x - AXIS) / this.width) * (end - begin);
  }

  private x(part: number): number {
    const { begin, end } = this.shown.view;
    return AXIS + ((part - begin) / (end - begin)) * this.width;
  }

  // Where a moment is of which the time and the event are known.
  private exactly({ time, step }: { time: number; step: number }): number {
    return this.x(this.scene.axis.exact(this.shown.view.kind, time, step));
  }

  // The bin with most live memory among those of one pixel.
  private binOf(x: number): number {
    const { axis } = this.scene;
    const { kind } = this.shown.view;
    return this.highest(axis.atOf(kind, this.at(x)), axis.atOf(kind, this.at(x + 1)));
  }

  // The same of each of so many columns.
  private binsOf(count: number): number[] {
    const { kind, begin, end } = this.shown.view;
    let at = this.scene.axis.atOf(kind, begin);
    return Array.from({ length: count }, (_, x) => {
      const from = at;
      at = this.scene.axis.atOf(kind, begin + ((x + 1) / count) * (end - begin));
      return this.highest(from, at);
    });
  }

  private highest(from: number, to: number): number {
    const [first, last] = this.scene.axis.bins(from, to);
    let best = first;
    for (let i = first + 1; i <= last; i++) {
      if (this.sums[i] > this.sums[best]) {
        best = i;
      }
    }
    return best;
  }

  draw(): void {
    const context = prepare(this.canvas);
    if (!context) {
      return;
    }
    this.measure();
    const theme = themeNow();
    const { grouping, only } = this.shown.view;
    const key = `${grouping} ${only} ${theme.dark}`;
    if (key !== this.drawn) {
      this.drawn = key;
      this.parts = partsOf(this.scene, this.shown, theme);
      this.sums = only === null ? this.total : this.parts[0].values;
      this.peak = mostIn(this.sums);
    }
    const alone = only !== null;
    const most = 1.05 * Math.max(1, this.peak, alone ? 0 : mostIn(this.held));
    const y = (bytes: number) => this.height - (bytes / most) * this.height;
    context.clearRect(0, 0, AXIS + this.width, this.height + BELOW);
    this.areas(context, most);
    if (!alone) {
      this.lines(context, theme, y);
    }
    this.axes(context, theme, most, y);
    this.marks(context, theme, y);
  }

  private areas(context: CanvasRenderingContext2D, most: number): void {
    const ratio = this.canvas.width / (AXIS + this.width);
    const colours = this.parts.map(({ colour }) => pixelOf(colour));
    const raster = this.raster;
    raster.begin(this.width * ratio, this.height * ratio);
    const perByte = raster.height / most;
    const bins = this.binsOf(raster.width);
    for (let x = 0; x < raster.width; x++) {
      const bin = bins[x];
      let below = 0;
      let bottom = raster.height;
      for (let i = this.parts.length - 1; i >= 0; i--) {
        below += this.parts[i].values[bin];
        const top = Math.max(0, Math.round(raster.height - below * perByte));
        raster.column(x, top, bottom, colours[i]);
        bottom = top;
      }
    }
    raster.end(context, AXIS * ratio, 0);
  }

  private line(context: CanvasRenderingContext2D, pixels: number[], values: Numbers, y: (b: number) => number): void {
    context.beginPath();
    let down = false;
    pixels.forEach((bin, x) => {
      const bytes = values[bin];
      if (Number.isNaN(bytes)) {
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

  private lines(context: CanvasRenderingContext2D, theme: Theme, y: (b: number) => number): void {
    const pixels = this.binsOf(Math.round(this.width));
    context.lineWidth = 1.5;
    context.strokeStyle = theme.line;
    this.line(context, pixels, this.held, y);
    context.strokeStyle = theme.limit;
    context.setLineDash([6, 4]);
    this.line(context, pixels, this.limit, y);
    context.setLineDash([]);
  }

  private axes(context: CanvasRenderingContext2D, theme: Theme, most: number, y: (b: number) => number): void {
    const { kind, begin, end } = this.shown.view;
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
    const { axis } = this.scene;
    drawTicks(context, kind, axis.value(kind, begin), axis.value(kind, end), { left: AXIS, width: this.width, top: this.height + 5 });
  }

  // The peak, the chosen moments, refusals and the program's own marks.
  private marks(context: CanvasRenderingContext2D, theme: Theme, y: (b: number) => number): void {
    const { meta, axis } = this.scene;
    const { kind, only, moment, other } = this.shown.view;
    const vertical = (part: number, colour: string) => {
      const x = Math.round(this.x(part)) + 0.5;
      context.strokeStyle = colour;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, this.height);
      context.stroke();
      return x;
    };
    context.save();
    context.beginPath();
    context.rect(AXIS, 0, this.width, this.height);
    context.clip();
    for (const note of meta.notes) {
      const x = this.exactly(note);
      context.fillStyle = note.status ? theme.mark : theme.text;
      context.beginPath();
      context.moveTo(x - 5, 0);
      context.lineTo(x + 5, 0);
      context.lineTo(x, 9);
      context.fill();
    }
    context.setLineDash([2, 3]);
    vertical(axis.partOf(kind, moment), theme.select);
    if (other !== null) {
      vertical(axis.partOf(kind, other), theme.limit);
    }
    context.setLineDash([]);
    const peak = only === null ? this.exactly({ time: meta.peak_time, step: meta.peak_step })
      : this.x(axis.partOf(kind, (this.sums.indexOf(this.peak) + 0.5) / meta.bins));
    if (peak >= AXIS && peak <= AXIS + this.width) {
      this.peakLabel(context, theme, peak, y(this.peak));
    }
    context.restore();
  }

  // Beside the peak, where there is room for all of it.
  private peakLabel(context: CanvasRenderingContext2D, theme: Theme, x: number, y: number): void {
    const text = `peak ${bytesText(this.peak)}`;
    const right = x + 9 + context.measureText(text).width > AXIS + this.width;
    context.strokeStyle = theme.text;
    context.beginPath();
    context.arc(x, y, 4, 0, 7);
    context.stroke();
    context.textAlign = right ? "right" : "left";
    context.textBaseline = "middle";
    context.strokeStyle = theme.paper;
    context.lineWidth = 3;
    context.strokeText(text, x + (right ? -9 : 9), Math.max(7, y));
    context.fillStyle = theme.text;
    context.fillText(text, x + (right ? -9 : 9), Math.max(7, y));
  }

  private noteAt(x: number, y: number) {
    const { meta } = this.scene;
    return y > 14 ? undefined : meta.notes.find((note) => Math.abs(this.exactly(note) - x) < 6);
  }

  private hover(x: number, y: number): void {
    if (x < AXIS) {
      tipHide();
      return;
    }
    const { meta } = this.scene;
    const note = this.noteAt(x, y);
    const box = make("div");
    if (note) {
      const what = note.status ? `refused: ${bytesText(note.bytes)} (${note.status})` : note.text;
      box.append(make("strong", `${timeText(meta.begin + note.time)}: ${what}`));
      if (note.refusal) {
        box.append(make("div", "a click opens its report"));
      }
      tip(this.canvas, x, y, box);
      return;
    }
    const bin = this.binOf(x);
    const held = this.held[bin];
    const { axis } = this.scene;
    const { kind, begin, end } = this.shown.view;
    const time = axis.value("time", axis.partOf("time", (bin + 0.5) / meta.bins));
    const step = (axis.value("time", end) - axis.value("time", begin)) / this.width;
    box.append(make("strong", `${timeText(time, kind === "time" ? step : 0)}: ${bytesText(this.total[bin])} live`));
    if (kind === "events") {
      box.append(make("div", `event ${countText(axis.eventOf(bin))} of ${countText(meta.steps)}`));
    }
    if (!Number.isNaN(held)) {
      box.append(make("div", `${bytesText(held)} held`));
    }
    const columns = this.parts.map(({ name, values }) => ({ name, bytes: values[bin] }))
      .filter((c) => c.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes);
    for (const column of columns.slice(0, 8)) {
      box.append(make("div", `${bytesText(column.bytes)}  ${column.name}`));
    }
    tip(this.canvas, x, y, box);
  }

  private choose(x: number, y: number, compare: boolean): void {
    const note = this.noteAt(x, y);
    if (note?.refusal) {
      this.handlers.note(note);
      return;
    }
    const part = (this.binOf(x) + 0.5) / this.scene.meta.bins;
    if (compare) {
      this.shown.view.other = part;
    } else {
      this.shown.view.moment = part;
    }
    this.handlers.chose(compare);
    this.shown.changed();
  }
}
