// SPDX-License-Identifier: Apache-2.0
// Live memory over time, stacked by the chosen grouping, with what was held, the limit, the peak and refusals.

import type { Note, Numbers, Scene } from "./data";
import { byId, make, prepare } from "./dom";
import { bytesText, ticks, timeText } from "./format";
import { pixelOf, Raster } from "./raster";
import { columnColour, themeNow } from "./theme";
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
  private readonly columns: Numbers[][];
  private readonly raster = new Raster();
  private readonly highest: number; // bytes at the top of the picture
  private width = 1; // without the axes, CSS pixels
  private height = 1;

  constructor(private readonly scene: Scene, private readonly shown: Shown, private readonly handlers: Chosen) {
    const { meta } = scene;
    this.total = scene.array("total");
    this.held = scene.array("held");
    this.limit = scene.array("limit");
    this.columns = meta.groupings.map((g) => g.columns.map((_, i) => scene.array(`${g.name}.${i}`)));
    this.highest = this.most();
    interact(this.canvas, AXIS, shown, {
      hover: (x, y) => this.hover(x, y),
      leave: tipHide,
      choose: (x, y, compare) => this.choose(x, y, compare),
    });
    this.canvas.setAttribute(
      "aria-label",
      `Live memory over ${timeText(meta.span)}; the peak is ${bytesText(meta.peak_bytes)} at ${timeText(meta.begin + meta.peak_time)}. ` +
        "Arrow keys pan, plus and minus zoom, 0 shows all.",
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

  // The bin with most live memory among those of one pixel.
  private binOf(x: number): number {
    const bins = this.scene.meta.bins;
    const first = Math.min(bins - 1, Math.max(0, Math.floor(this.at(x) * bins)));
    const last = Math.min(bins - 1, Math.max(first, Math.ceil(this.at(x + 1) * bins) - 1));
    let best = first;
    for (let i = first + 1; i <= last; i++) {
      if (this.total[i] > this.total[best]) {
        best = i;
      }
    }
    return best;
  }

  private most(): number {
    const { meta } = this.scene;
    let most = meta.peak_bytes;
    for (let i = 0; i < meta.bins; i++) {
      most = this.held[i] > most ? this.held[i] : most;
    }
    return Math.max(1, most * 1.05);
  }

  draw(): void {
    const context = prepare(this.canvas);
    if (!context) {
      return;
    }
    this.measure();
    const most = this.highest;
    const y = (bytes: number) => this.height - (bytes / most) * this.height;
    context.clearRect(0, 0, AXIS + this.width, this.height + BELOW);
    const pixels: number[] = [];
    for (let x = 0; x < this.width; x++) {
      pixels.push(this.binOf(AXIS + x));
    }
    this.areas(context, most);
    this.lines(context, pixels, y);
    this.axes(context, most, y);
    this.marks(context, y);
  }

  private areas(context: CanvasRenderingContext2D, most: number): void {
    const theme = themeNow();
    const ratio = this.canvas.width / (AXIS + this.width);
    const columns = this.columns[this.shown.view.grouping];
    const colours = columns.map((_, i) => pixelOf(columnColour(i, theme)));
    const raster = this.raster;
    raster.begin(this.width * ratio, this.height * ratio);
    const perByte = raster.height / most;
    for (let x = 0; x < raster.width; x++) {
      const bin = this.binOf(AXIS + x / ratio);
      let below = 0;
      let bottom = raster.height;
      for (let i = columns.length - 1; i >= 0; i--) {
        below += columns[i][bin];
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

  private lines(context: CanvasRenderingContext2D, pixels: number[], y: (b: number) => number): void {
    const theme = themeNow();
    context.lineWidth = 1.5;
    context.strokeStyle = theme.line;
    this.line(context, pixels, this.held, y);
    context.strokeStyle = theme.limit;
    context.setLineDash([6, 4]);
    this.line(context, pixels, this.limit, y);
    context.setLineDash([]);
  }

  private axes(context: CanvasRenderingContext2D, most: number, y: (b: number) => number): void {
    const theme = themeNow();
    const { begin, end } = this.shown.view;
    const { begin: from, span } = this.scene.meta;
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
    for (const time of ticks(from + begin * span, from + end * span, Math.max(2, this.width / 110), 10)) {
      const x = this.x((time - from) / span);
      context.fillText(timeText(time), Math.min(AXIS + this.width - 24, Math.max(AXIS + 14, x)), this.height + 5);
    }
  }

  // The peak, the chosen moments, refusals and the program's own marks.
  private marks(context: CanvasRenderingContext2D, y: (b: number) => number): void {
    const theme = themeNow();
    const { meta } = this.scene;
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
      const x = this.x(note.time / Math.max(1, meta.span));
      context.fillStyle = note.status ? theme.mark : theme.text;
      context.beginPath();
      context.moveTo(x - 5, 0);
      context.lineTo(x + 5, 0);
      context.lineTo(x, 9);
      context.fill();
    }
    const peak = this.x(meta.peak_time / Math.max(1, meta.span));
    context.strokeStyle = theme.text;
    context.beginPath();
    context.arc(peak, y(meta.peak_bytes), 4, 0, 7);
    context.stroke();
    context.fillStyle = theme.text;
    context.textAlign = peak > AXIS + this.width - 120 ? "right" : "left";
    context.textBaseline = "bottom";
    context.fillText(`peak ${bytesText(meta.peak_bytes)}`, peak + (context.textAlign === "left" ? 7 : -7), y(meta.peak_bytes) - 2);
    context.setLineDash([2, 3]);
    vertical(this.shown.view.moment, theme.select);
    if (this.shown.view.other !== null) {
      vertical(this.shown.view.other, theme.limit);
    }
    context.restore();
  }

  private noteAt(x: number, y: number) {
    const { meta } = this.scene;
    return y > 14 ? undefined : meta.notes.find((n) => Math.abs(this.x(n.time / Math.max(1, meta.span)) - x) < 6);
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
    const grouping = meta.groupings[this.shown.view.grouping];
    const held = this.held[bin];
    const time = timeText(meta.begin + ((bin + 0.5) / meta.bins) * meta.span);
    box.append(make("strong", `${time}: ${bytesText(this.total[bin])} live`));
    if (!Number.isNaN(held)) {
      box.append(make("div", `${bytesText(held)} held`));
    }
    const columns = this.columns[this.shown.view.grouping]
      .map((column, i) => ({ name: grouping.columns[i], bytes: column[bin] }))
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
    const part = Math.min(1, Math.max(0, this.at(x)));
    if (compare) {
      this.shown.view.other = part;
    } else {
      this.shown.view.moment = part;
    }
    this.handlers.chose(compare);
    this.shown.changed();
  }
}
