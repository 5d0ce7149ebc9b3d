// SPDX-License-Identifier: Apache-2.0
// All traces of the page: a table to choose from, and their timelines above each other on one time axis.

import { drawTicks } from "./axis";
import { mostIn, type Numbers } from "./data";
import { byId, make, prepare } from "./dom";
import { bytesText, countText, timeText } from "./format";
import type { Trace } from "./holdings";
import { columnColour, themeNow, type Theme } from "./theme";
import { AXIS } from "./timeline";
import { tip, tipHide } from "./tip";
import { interact, Shown, whenSeen } from "./window";

const ROW = 84; // height of one timeline
const BELOW = 20;

interface Row {
  trace: Trace;
  total: Numbers;
  held: Numbers;
  offset: number; // ns from the begin of the axis
}

export class Overview {
  private readonly canvas = byId<HTMLCanvasElement>("overview");
  readonly shown = new Shown(0, 0); // the part of the common axis that is shown
  private readonly rows: Row[];
  private readonly most: number;
  private span = 1; // ns of the whole axis
  private clock: boolean;
  private width = 1;
  private current = 0;

  constructor(private readonly traces: Trace[], private readonly choose: (trace: number) => void) {
    this.rows = traces.map((trace) => ({
      trace, total: trace.scene.array("total"), held: trace.scene.array("held"), offset: 0,
    }));
    this.most = 1.02 * Math.max(1, ...this.rows.map(({ trace, held }) => Math.max(trace.scene.meta.peak_bytes, mostIn(held))));
    this.clock = this.hasClock();
    this.align();
    const apart = this.rows.reduce((sum, { trace }) => sum + trace.scene.meta.span, 0) * 2 + 1e6;
    if (this.clock && this.span > apart) { // not at the same time: the axis would be mostly empty
      this.clock = false;
      this.align();
    }
    this.alignButton();
    this.canvas.style.height = `${ROW * traces.length + BELOW}px`;
    this.canvas.setAttribute("aria-label", `${traces.length} timelines above each other. The buttons above choose one; ` +
      "arrow keys pan, plus and minus zoom, 0 shows all.");
    interact(this.canvas, AXIS, this.shown, {
      hover: (x, y) => this.hover(x, y),
      leave: tipHide,
      choose: (x, y) => this.chosen(x, y),
    });
    byId("traces-section").hidden = false;
    byId("traces-title").textContent = `${traces.length} traces on one time axis`;
    whenSeen(this.canvas, this.shown, () => this.draw());
  }

  private hasClock(): boolean {
    return this.traces.every(({ scene }) => scene.meta.date_us > 0);
  }

  // By the clock if it is known, else each from its own begin.
  private align(): void {
    const first = Math.min(...this.traces.map(({ scene }) => scene.meta.date_us));
    for (const row of this.rows) {
      const { meta } = row.trace.scene;
      row.offset = this.clock ? (meta.date_us - first) * 1000 + meta.begin : 0;
    }
    const least = Math.min(...this.rows.map((row) => row.offset));
    this.rows.forEach((row) => (row.offset -= least));
    this.span = Math.max(1, ...this.rows.map((row) => row.offset + row.trace.scene.meta.span));
  }

  private alignButton(): void {
    const button = byId("traces-align");
    button.hidden = !this.hasClock();
    const show = () => button.setAttribute("aria-pressed", String(this.clock));
    button.addEventListener("click", () => {
      this.clock = !this.clock;
      this.align();
      show();
      this.shown.range(0, 1);
    });
    show();
  }

  // The table: a trace is chosen by its name.
  list(current: number): void {
    this.current = current;
    byId("traces-body").replaceChildren(...this.traces.map(({ name, scene }, i) => {
      const { report } = scene.meta;
      const line = make("tr");
      const cell = make("td");
      const button = make("button", name);
      button.setAttribute("aria-pressed", String(i === current));
      button.addEventListener("click", () => this.choose(i));
      cell.append(button);
      const left = report.live.bytes + report.lost.bytes;
      line.append(cell, ...[
        bytesText(report.peak.bytes), report.peak.reserved_bytes ? bytesText(report.peak.reserved_bytes) : "",
        left > 0 ? bytesText(left) : "", report.churn.refusals > 0 ? countText(report.churn.refusals) : "",
        timeText(scene.meta.span),
      ].map((text) => make("td", text, "figure")));
      return line;
    }));
    this.shown.changed();
  }

  // Time from the begin of the axis, in ns.
  private timeAt(x: number): number {
    const { begin, end } = this.shown.view;
    return (begin + ((x - AXIS) / this.width) * (end - begin)) * this.span;
  }

  private x(time: number): number {
    const { begin, end } = this.shown.view;
    return AXIS + ((time / this.span - begin) / (end - begin)) * this.width;
  }

  // The bins of a row from one time to another; none outside of the trace.
  private bins(row: Row, from: number, to: number): [number, number] | null {
    const { meta, axis } = row.trace.scene;
    const first = (from - row.offset) / (meta.span + 1);
    const last = (to - row.offset) / (meta.span + 1);
    return last < 0 || first >= 1 ? null : axis.bins(axis.atOf("time", Math.max(0, first)), axis.atOf("time", last));
  }

  private mostOf(row: Row, values: Numbers, x: number): number {
    const found = this.bins(row, this.timeAt(x), this.timeAt(x + 1));
    let most = Number.NaN;
    for (let i = found ? found[0] : 0; found && i <= found[1]; i++) {
      most = most >= values[i] ? most : values[i];
    }
    return most;
  }

  draw(): void {
    const context = prepare(this.canvas);
    if (!context) {
      return;
    }
    this.width = Math.max(1, this.canvas.clientWidth - AXIS);
    const theme = themeNow();
    const height = ROW * this.rows.length;
    context.clearRect(0, 0, AXIS + this.width, height + BELOW);
    this.rows.forEach((row, i) => this.drawRow(context, theme, row, i));
    context.fillStyle = theme.text;
    const { begin, end } = this.shown.view;
    drawTicks(context, "time", begin * this.span, end * this.span, { left: AXIS, width: this.width, top: height + 5 });
  }

  private drawRow(context: CanvasRenderingContext2D, theme: Theme, row: Row, i: number): void {
    const floor = ROW * (i + 1) - 2;
    const y = (bytes: number) => floor - (bytes / this.most) * (ROW - 20);
    context.fillStyle = columnColour(1, theme);
    for (let x = AXIS; x < AXIS + this.width; x++) {
      const bytes = this.mostOf(row, row.total, x);
      if (bytes > 0) {
        context.fillRect(x, y(bytes), 1, floor - y(bytes));
      }
    }
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.beginPath();
    let down = false;
    for (let x = AXIS; x < AXIS + this.width; x++) {
      const bytes = this.mostOf(row, row.held, x);
      if (Number.isNaN(bytes)) {
        down = false;
      } else if (down) {
        context.lineTo(x, y(bytes));
      } else {
        context.moveTo(x, y(bytes));
        down = true;
      }
    }
    context.stroke();
    this.drawMarks(context, theme, row, floor);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.text;
    context.textBaseline = "top";
    context.textAlign = "left";
    const { name, scene } = row.trace;
    const text = `${name}: peak ${bytesText(scene.meta.peak_bytes)}`;
    context.font = i === this.current ? "bold 11px system-ui, sans-serif" : "11px system-ui, sans-serif";
    context.fillText(text.length > 160 ? `${text.slice(0, 159)}…` : text, AXIS + 4, floor - ROW + 4, this.width - 8);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(bytesText(this.most / 1.02), AXIS - 6, y(this.most / 1.02) + 4);
    context.fillText("0", AXIS - 6, floor - 5);
    context.strokeStyle = theme.soft;
    context.beginPath();
    context.moveTo(AXIS, floor + 0.5);
    context.lineTo(AXIS + this.width, floor + 0.5);
    context.stroke();
  }

  // Refusals, and the moment that is chosen in the trace.
  private drawMarks(context: CanvasRenderingContext2D, theme: Theme, row: Row, floor: number): void {
    const { meta } = row.trace.scene;
    context.fillStyle = theme.mark;
    for (const note of meta.notes.filter((one) => one.status)) {
      const x = this.x(row.offset + note.time);
      context.beginPath();
      context.moveTo(x - 4, floor - ROW + 18);
      context.lineTo(x + 4, floor - ROW + 18);
      context.lineTo(x, floor - ROW + 25);
      context.fill();
    }
    const moment = row.trace.scene.axis.partOf("time", row.trace.shown.view.moment) * meta.span;
    const at = Math.round(this.x(row.offset + moment)) + 0.5;
    if (at >= AXIS) {
      context.strokeStyle = theme.select;
      context.setLineDash([2, 3]);
      context.beginPath();
      context.moveTo(at, floor - ROW + 18);
      context.lineTo(at, floor);
      context.stroke();
      context.setLineDash([]);
    }
  }

  private rowAt(y: number): number {
    return Math.min(this.rows.length - 1, Math.max(0, Math.floor(y / ROW)));
  }

  private hover(x: number, y: number): void {
    const row = this.rows[this.rowAt(y)];
    const bytes = x < AXIS ? Number.NaN : this.mostOf(row, row.total, x);
    if (Number.isNaN(bytes)) {
      tipHide();
      return;
    }
    const box = make("div");
    const held = this.mostOf(row, row.held, x);
    const time = timeText(Math.max(0, row.trace.scene.meta.begin + this.timeAt(x) - row.offset));
    box.append(make("strong", row.trace.name), make("div", `${time}: ${bytesText(bytes)} live`));
    if (!Number.isNaN(held)) {
      box.append(make("div", `${bytesText(held)} held`));
    }
    tip(this.canvas, x, y, box);
  }

  private chosen(x: number, y: number): void {
    const i = this.rowAt(y);
    const { trace, offset } = this.rows[i];
    const part = (this.timeAt(x) - offset) / Math.max(1, trace.scene.meta.span);
    trace.shown.view.moment = trace.scene.axis.atOf("time", Math.min(1, Math.max(0, part)));
    this.choose(i);
  }
}
