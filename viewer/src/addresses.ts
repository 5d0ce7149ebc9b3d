// SPDX-License-Identifier: Apache-2.0
// Blocks over time or events by address. What is too small to be kept on its own lies beneath as grey cells.

import type { AxisKind } from "./axis";
import type { Numbers, Scene } from "./data";
import { byId, make, prepare } from "./dom";
import { shownFrames } from "./frames";
import { bytesText, bytesTexts, countText, ticks, timeText } from "./format";
import { groupsOfBlocks, WHOLE } from "./groups";
import { pixelOf, Raster } from "./raster";
import { columnColour, themeNow, type Theme } from "./theme";
import { AXIS } from "./timeline";
import { tip, tipHide } from "./tip";
import { interact, whenSeen, type Shown } from "./window";

const NEVER = 0xffffffff;

// What the raster shows.
interface Drawn {
  key: string;
  scale: number; // pixels per unit of the axis
  origin: number; // the pixel of the trace that is the first one shown
}

export class Addresses {
  private readonly canvas = byId<HTMLCanvasElement>("addresses");
  private readonly ends: Record<AxisKind, [Numbers, Numbers, number]>; // begins, ends, and the whole axis
  private readonly place: Numbers;
  private readonly bytes: Numbers;
  private readonly tag: Numbers;
  private readonly stack: Numbers;
  private readonly order: Uint32Array; // by area, the largest first
  private groups = new Uint32Array(0); // of each block, by the grouping that is drawn
  private columns = new Uint8Array(0);
  private grouped = -1;
  private readonly raster = new Raster();
  private readonly cells: Partial<Record<AxisKind, HTMLCanvasElement | null>> = {};
  private low = 0; // of the places shown, in bytes
  private high: number;
  private selected = -1;
  private drawn: Drawn = { key: "", scale: 0, origin: 0 };
  private width = 1; // without the axis, CSS pixels
  private height = 1;

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    const { meta } = scene;
    this.ends = {
      time: [scene.array("block.begin"), scene.array("block.end"), WHOLE],
      events: [scene.array("block.begin_step"), scene.array("block.end_step"), meta.steps + 1],
    };
    this.place = scene.array("block.place");
    this.bytes = scene.array("block.bytes");
    this.tag = scene.array("block.tag");
    this.stack = scene.array("block.stack");
    this.high = meta.place_bytes;
    this.order = this.byArea();
    interact(this.canvas, AXIS, shown, {
      hover: (x, y) => this.hover(x, y),
      leave: tipHide,
      choose: (x, y) => this.choose(x, y),
      zoomDown: (factor, y) => this.zoom(factor, y),
      panDown: (pixels) => this.pan(pixels),
    });
    this.canvas.setAttribute(
      "aria-label",
      `${countText(meta.kept)} blocks by address over time. Arrow keys pan, plus and minus zoom in time, ` +
        "shift and the wheel zoom in addresses.",
    );
    byId("addresses-note").textContent = this.noteText();
    whenSeen(this.canvas, shown, () => this.draw());
  }

  private noteText(): string {
    const { meta } = this.scene;
    if (meta.addressed === 0) {
      return "This trace has no addresses, so there is no map of them.";
    }
    const merged = meta.merged > 0
      ? ` ${countText(meta.merged)} smaller blocks are merged into grey cells.`
      : "";
    return `${countText(meta.kept)} blocks, ${bytesText(meta.place_bytes)} of addresses in ${meta.ranges.length} ` +
      `range${meta.ranges.length === 1 ? "" : "s"}; unused addresses between them are left out.${merged}`;
  }

  private byArea(): Uint32Array {
    const [begin, end] = this.ends.time;
    const area = new Float64Array(begin.length);
    for (let i = 0; i < area.length; i++) {
      area[i] = (Math.min(WHOLE, end[i]) - begin[i] + 1) * this.bytes[i];
    }
    return Uint32Array.from(area.keys()).sort((a, b) => area[b] - area[a]);
  }

  // The merged blocks as a picture, with columns of one width on the axis.
  private cellsMake(kind: AxisKind): HTMLCanvasElement | null {
    const { meta, axis } = this.scene;
    const cover = this.scene.array("grid");
    if (cover.length === 0) {
      return null;
    }
    const cells = document.createElement("canvas");
    cells.width = 2 * meta.grid_times;
    cells.height = meta.grid_places;
    const context = cells.getContext("2d");
    const image = context?.createImageData(cells.width, cells.height);
    if (!context || !image) {
      return null;
    }
    for (let x = 0; x < cells.width; x++) {
      const at = Math.min(meta.grid_times - 1, Math.floor(axis.atOf(kind, (x + 0.5) / cells.width) * meta.grid_times));
      for (let y = 0; y < meta.grid_places; y++) {
        const value = Math.min(1, cover[y * meta.grid_times + at]);
        const to = ((meta.grid_places - 1 - y) * cells.width + x) * 4;
        image.data[to] = image.data[to + 1] = image.data[to + 2] = 140;
        image.data[to + 3] = value > 0 ? 40 + 180 * value : 0;
      }
    }
    context.putImageData(image, 0, 0);
    return cells;
  }

  private measure(): void {
    this.width = Math.max(1, this.canvas.clientWidth - AXIS);
    this.height = Math.max(1, this.canvas.clientHeight);
  }

  private zoom(factor: number, y: number): void {
    const all = this.scene.meta.place_bytes;
    const at = this.high - (y / this.height) * (this.high - this.low);
    const width = Math.min(all, Math.max(4096, (this.high - this.low) * factor));
    const low = at - ((at - this.low) / (this.high - this.low)) * width;
    this.low = Math.min(all - width, Math.max(0, low));
    this.high = this.low + width;
    this.shown.changed();
  }

  private pan(pixels: number): void {
    const width = this.high - this.low;
    const low = this.low + (pixels / this.height) * width;
    this.low = Math.min(this.scene.meta.place_bytes - width, Math.max(0, low));
    this.high = this.low + width;
    this.shown.changed();
  }

  draw(): void {
    if (this.scene.meta.addressed === 0) {
      this.canvas.hidden = true;
      return;
    }
    const context = prepare(this.canvas);
    if (!context) {
      return;
    }
    this.measure();
    const theme = themeNow();
    context.clearRect(0, 0, AXIS + this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(AXIS, 0, this.width, this.height);
    context.clip();
    this.drawBlocks(context, theme);
    this.drawCells(context);
    this.drawRanges(context, theme);
    this.drawSelected(context, theme);
    context.restore();
    this.drawAxis(context, theme);
  }

  private drawCells(context: CanvasRenderingContext2D): void {
    const { kind, begin, end } = this.shown.view;
    const all = this.scene.meta.place_bytes;
    const cells = this.cells[kind] === undefined ? (this.cells[kind] = this.cellsMake(kind)) : this.cells[kind];
    if (cells) {
      const { width, height } = cells;
      context.imageSmoothingEnabled = false;
      context.globalCompositeOperation = "destination-over";
      context.drawImage(
        cells, begin * width, (1 - this.high / all) * height, (end - begin) * width,
        ((this.high - this.low) / all) * height, AXIS, 0, this.width, this.height,
      );
      context.globalCompositeOperation = "source-over";
    }
  }

  // Each block in whole device pixels, with a gap between those that are large enough for one. Pixels are counted from
  // the begin of the trace, so that panning moves what was drawn and draws only what comes in.
  private drawBlocks(context: CanvasRenderingContext2D, theme: Theme): void {
    const { kind, begin, end, grouping, only } = this.shown.view;
    const ratio = this.canvas.width / (AXIS + this.width);
    const width = Math.max(1, Math.round(this.width * ratio));
    const whole = this.ends[kind][2];
    const scale = width / ((end - begin) * whole);
    this.group(grouping);
    const key = `${kind} ${grouping} ${only} ${theme.dark} ${width} ${this.height * ratio} ${this.low} ${this.high}`;
    const panned = key === this.drawn.key && Math.abs(scale / this.drawn.scale - 1) < 1e-9;
    const to: Drawn = { key, scale: panned ? this.drawn.scale : scale, origin: 0 };
    to.origin = Math.round(begin * whole * to.scale);
    const by = to.origin - this.drawn.origin;
    if (panned && Math.abs(by) < width) {
      if (by !== 0) {
        this.drawStrip(to, theme, ...this.raster.shift(by));
      }
    } else {
      this.raster.begin(width, this.height * ratio);
      this.drawStrip(to, theme, 0, width);
    }
    this.drawn = to;
    this.raster.end(context, AXIS * ratio, 0);
  }

  private group(grouping: number): void {
    if (grouping !== this.grouped) {
      const columnOf = new Map(this.scene.meta.groupings[grouping].rows.map((row) => [row.group, row.column]));
      this.grouped = grouping;
      this.groups = groupsOfBlocks(this.scene, grouping);
      this.columns = Uint8Array.from(this.groups, (group) => columnOf.get(group) ?? 0);
    }
  }

  // The columns of pixels from `left` to `until`, which are empty.
  private drawStrip({ scale, origin }: Drawn, theme: Theme, left: number, until: number): void {
    const { raster, low, high, place, bytes, columns, groups } = this;
    const { kind, grouping, only } = this.shown.view;
    const [begin, end] = this.ends[kind];
    const [faint, alone] = [pixelOf(theme.soft), pixelOf(theme.text)];
    const first = (origin + left - 1) / scale;
    const last = (origin + until) / scale;
    const perByte = raster.height / (high - low);
    const colours = this.scene.meta.groupings[grouping].columns.map((_, i) => pixelOf(columnColour(i, theme)));
    for (let i = 0; i < begin.length && begin[i] <= last; i++) { // they are in the order of their begin
      if (end[i] < first || place[i] >= high || place[i] + bytes[i] <= low) {
        continue;
      }
      const x = Math.floor(begin[i] * scale) - origin;
      const ends = Math.max(x + 1, Math.floor(end[i] * scale) - origin);
      const y = Math.max(0, Math.floor((high - place[i] - bytes[i]) * perByte));
      const bottom = Math.min(raster.height, Math.max(y + 1, Math.floor((high - place[i]) * perByte)));
      const right = Math.min(until, ends - x > 4 ? ends - 1 : ends);
      raster.fill(Math.max(left, x), y, right, bottom - y > 3 ? bottom - 1 : bottom,
                  only !== null && groups[i] !== only ? faint : only !== null && columns[i] === 0 ? alone : colours[columns[i]]);
    }
  }

  private drawSelected(context: CanvasRenderingContext2D, theme: Theme): void {
    const i = this.selected;
    if (i >= 0) {
      const { kind, begin, end } = this.shown.view;
      const [begins, ends, whole] = this.ends[kind];
      const perTime = this.width / ((end - begin) * whole);
      const perByte = this.height / (this.high - this.low);
      const from = Math.max(begin * whole, begins[i]);
      const to = Math.min(end * whole, ends[i]);
      context.strokeStyle = theme.select;
      context.lineWidth = 2;
      context.strokeRect(AXIS + (from - begin * whole) * perTime,
                         (this.high - this.place[i] - this.bytes[i]) * perByte,
                         Math.max(2, (to - from) * perTime), Math.max(2, this.bytes[i] * perByte));
    }
  }

  private drawRanges(context: CanvasRenderingContext2D, theme: Theme): void {
    context.strokeStyle = theme.soft;
    context.lineWidth = 1;
    context.beginPath();
    let last = Infinity; // dense ones would hide the blocks
    for (const range of this.scene.meta.ranges.slice(1)) {
      const y = this.height - ((range.place - this.low) / (this.high - this.low)) * this.height;
      if (last - y < 8) {
        continue;
      }
      last = y;
      context.moveTo(AXIS, Math.round(y) + 0.5);
      context.lineTo(AXIS + this.width, Math.round(y) + 0.5);
    }
    context.stroke();
  }

  private drawAxis(context: CanvasRenderingContext2D, theme: Theme): void {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.text;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const places = ticks(this.low, this.high, 6, 1024);
    for (const [i, text] of bytesTexts(places).entries()) {
      const y = this.height - ((places[i] - this.low) / (this.high - this.low)) * this.height;
      context.fillText(text, AXIS - 6, Math.min(this.height - 6, Math.max(6, y)));
    }
  }

  private blockAt(x: number, y: number): number {
    const { kind, begin, end } = this.shown.view;
    const [begins, ends, whole] = this.ends[kind];
    const time = (begin + ((x - AXIS) / this.width) * (end - begin)) * whole;
    const place = this.high - (y / this.height) * (this.high - this.low);
    const near = ((end - begin) / this.width) * whole;
    let best = -1;
    for (let at = this.order.length - 1; at >= 0; at--) { // the smallest first: it lies on top
      const i = this.order[at];
      if (begins[i] <= time + near && ends[i] >= time - near && this.place[i] <= place &&
          this.place[i] + this.bytes[i] > place) {
        best = i;
        break;
      }
    }
    return best;
  }

  private addressOf(block: number): string {
    const place = this.place[block];
    let range = this.scene.meta.ranges[0];
    for (const one of this.scene.meta.ranges) {
      range = one.place <= place ? one : range;
    }
    return `0x${(BigInt(range.addr) + BigInt(Math.round(place - range.place))).toString(16)}`;
  }

  private describe(block: number, frames: number): HTMLElement {
    const { meta } = this.scene;
    const box = make("div");
    const [begins, ends] = this.ends.time;
    const begin = (begins[block] / WHOLE) * meta.span;
    const never = ends[block] === NEVER;
    const age = (Math.min(WHOLE, ends[block]) / WHOLE) * meta.span - begin;
    const tag = meta.groupings[0].rows.find((row) => row.group === this.tag[block])?.name ?? "no tag";
    box.append(make("strong", `${bytesText(this.bytes[block])} at ${this.addressOf(block)}`));
    box.append(make("div", `from ${timeText(meta.begin + begin)}, ${never ? `never freed (${timeText(age)})` : `for ${timeText(age)}`}`));
    box.append(make("div", tag));
    for (const frame of shownFrames(meta.stacks[this.stack[block]].frames).slice(0, frames)) {
      box.append(make("div", frame, "frame"));
    }
    return box;
  }

  private hover(x: number, y: number): void {
    const block = x < AXIS ? -1 : this.blockAt(x, y);
    if (block < 0) {
      tipHide();
    } else {
      tip(this.canvas, x, y, this.describe(block, 6));
    }
  }

  private choose(x: number, y: number): void {
    this.selected = this.blockAt(x, y);
    byId("block").replaceChildren(...(this.selected >= 0 ? [this.describe(this.selected, 64)] : []));
    this.draw();
  }
}
