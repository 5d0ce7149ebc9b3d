// SPDX-License-Identifier: Apache-2.0
// What each policy would have held: the lines of a replay in one picture, with the saving as a number.

import { drawTicks } from "./axis";
import { mostIn, type Numbers, type Policy, type Scene } from "./data";
import { byId, make, prepare } from "./dom";
import { bytesText, countText, ticks, timeText } from "./format";
import { columnColour, themeNow, type Theme } from "./theme";
import { AXIS } from "./timeline";
import { tip, tipHide } from "./tip";
import { interact, whenSeen, type Shown } from "./window";

const BELOW = 20;
const DASHES = [[], [12, 4], [4, 3], [12, 3, 3, 3], [2, 5], [20, 4], [7, 7], [1, 2]]; // lines that lie on each other

export class Policies {
  private readonly canvas = byId<HTMLCanvasElement>("policies");
  private readonly policies: Policy[];
  private readonly lines: Numbers[] = [];
  private readonly asked: Numbers | null = null;
  private readonly most: number = 1;
  private width = 1;
  private height = 1;

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    this.policies = scene.meta.policies;
    byId("policies-section").hidden = this.policies.length === 0;
    if (this.policies.length === 0) {
      return;
    }
    this.lines = this.policies.map((_, i) => scene.array(`policy.${i}`));
    this.asked = scene.array("policy.asked");
    this.most = 1.05 * Math.max(1, ...this.policies.map((policy) => policy.held_bytes));
    byId("policies-words").textContent = this.words();
    byId("policies-body").replaceChildren(...this.rows());
    byId("policies-problems").replaceChildren(...this.policies.filter((policy) => policy.problem)
      .map((policy) => make("p", `${policy.name}: ${policy.problem}`)));
    byId("policies-took").textContent = this.policies.some((policy) => policy.spent_ns > 0) ? "took" : "";
    this.canvas.setAttribute("aria-label", `What ${this.policies.length} policies held over time. ${this.words()}`);
    interact(this.canvas, AXIS, shown, { hover: (x, y) => this.hover(x, y), leave: tipHide, choose: () => {} });
    whenSeen(this.canvas, shown, () => this.draw());
  }

  // Those that played the whole trace, what holds least first.
  private done(): Policy[] {
    return this.policies.filter((policy) => !policy.problem).sort((a, b) => a.held_bytes - b.held_bytes);
  }

  private words(): string {
    const done = this.done();
    if (done.length < 2) {
      return done.length === 0 ? "No policy played the whole trace." : `${done[0].name} holds ${bytesText(done[0].held_bytes)} at most.`;
    }
    const best = done.find((policy) => policy.name === "vram") ?? done[0];
    const against = done.filter((policy) => policy !== best).map((policy) => {
      const saved = policy.held_bytes - best.held_bytes;
      const part = policy.held_bytes > 0 ? Math.abs(saved / policy.held_bytes) * 100 : 0;
      return saved === 0 ? `as much as ${policy.name}`
        : `${bytesText(Math.abs(saved))} (${part.toFixed(1)} %) ${saved > 0 ? "less" : "more"} than ${policy.name}`;
    });
    return `${best.name} holds ${bytesText(best.held_bytes)} at most: ${against.join(", ")}.`;
  }

  private rows(): HTMLElement[] {
    const theme = themeNow();
    const worst = Math.max(...this.policies.map((policy) => policy.held_bytes));
    const peak = this.asked ? mostIn(this.asked) : 0;
    return this.policies.map((policy, i) => {
      const line = make("tr");
      const name = make("td");
      const colour = make("span", "", "swatch");
      colour.style.background = columnColour(i + 1, theme);
      name.append(colour, make("span", policy.problem ? `${policy.name} (not done)` : policy.name));
      const saved = worst - policy.held_bytes;
      line.append(name, ...[
        bytesText(policy.held_bytes),
        policy.problem || peak === 0 ? "" : (policy.held_bytes / peak).toFixed(3),
        policy.problem || saved === 0 ? "" : `${bytesText(saved)} (${((saved / worst) * 100).toFixed(1)} %)`,
        countText(policy.calls),
        policy.spent_ns > 0 ? timeText(policy.spent_ns) : "",
      ].map((text) => make("td", text, "figure")));
      return line;
    });
  }

  // The point of a curve that is at an x.
  private point(x: number): number {
    const { meta } = this.scene;
    const { kind, begin, end } = this.shown.view;
    const part = begin + ((x - AXIS) / this.width) * (end - begin);
    const { axis } = this.scene;
    const time = (kind === "time" ? part : axis.partOf("time", axis.atOf(kind, part))) * meta.span + meta.policy_begin;
    const count = this.lines[0].length;
    return Math.min(count - 1, Math.max(0, Math.floor((time / Math.max(1, meta.policy_span)) * count)));
  }

  // The most of those that one pixel covers.
  private valueAt(values: Numbers, x: number): number {
    const last = this.point(x + 1);
    let most = values[this.point(x)];
    for (let i = this.point(x) + 1; i < last; i++) {
      most = values[i] > most ? values[i] : most;
    }
    return most;
  }

  draw(): void {
    const context = prepare(this.canvas);
    if (!context || !this.asked) {
      return;
    }
    this.width = Math.max(1, this.canvas.clientWidth - AXIS);
    this.height = Math.max(1, this.canvas.clientHeight - BELOW);
    const theme = themeNow();
    context.clearRect(0, 0, AXIS + this.width, this.height + BELOW);
    context.fillStyle = theme.rest;
    context.globalAlpha = 0.35;
    this.trace(context, this.asked, true);
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    this.lines.forEach((values, i) => {
      context.strokeStyle = columnColour(i + 1, theme);
      context.setLineDash(DASHES[i % DASHES.length]);
      this.trace(context, values, false);
      context.stroke();
    });
    context.setLineDash([]);
    this.axes(context, theme);
  }

  private trace(context: CanvasRenderingContext2D, values: Numbers, area: boolean): void {
    const y = (bytes: number) => this.height - (bytes / this.most) * this.height;
    let down = false;
    let x = AXIS;
    context.beginPath();
    for (; x < AXIS + this.width; x++) {
      const bytes = this.valueAt(values, x);
      if (Number.isNaN(bytes)) {
        break; // the pass ended here
      }
      if (!down && area) {
        context.moveTo(x, this.height);
      }
      if (down || area) {
        context.lineTo(x, y(bytes));
      } else {
        context.moveTo(x, y(bytes));
      }
      down = true;
    }
    if (area) {
      context.lineTo(x, this.height);
    }
  }

  private axes(context: CanvasRenderingContext2D, theme: Theme): void {
    const { kind, begin, end } = this.shown.view;
    const { axis } = this.scene;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = theme.text;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const bytes of ticks(0, this.most, 5, 1024)) {
      context.fillText(bytesText(bytes), AXIS - 6, Math.max(6, this.height - (bytes / this.most) * this.height));
    }
    drawTicks(context, kind, axis.value(kind, begin), axis.value(kind, end), { left: AXIS, width: this.width, top: this.height + 5 });
  }

  private hover(x: number, y: number): void {
    if (x < AXIS || !this.asked) {
      tipHide();
      return;
    }
    const { meta } = this.scene;
    const box = make("div");
    const time = (this.point(x) / this.lines[0].length) * meta.policy_span - meta.policy_begin;
    box.append(make("strong", `${timeText(Math.max(0, meta.begin + time))}: ${bytesText(this.valueAt(this.asked, x))} asked for`));
    this.policies.forEach((policy, i) => {
      const bytes = this.valueAt(this.lines[i], x);
      box.append(make("div", Number.isNaN(bytes) ? `${policy.name}: ended` : `${policy.name} holds ${bytesText(bytes)}`));
    });
    tip(this.canvas, x, y, box);
  }
}
