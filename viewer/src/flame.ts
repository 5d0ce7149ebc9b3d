// SPDX-License-Identifier: Apache-2.0
// Flame graphs of a moment, of what was never freed, and of the difference between two moments.

import type { Scene } from "./data";
import { byId, make } from "./dom";
import { frameName, shownFrames } from "./frames";
import { bytesText, timeText } from "./format";
import { Moments } from "./moments";
import { frameColour, themeNow } from "./theme";
import type { Shown } from "./window";

interface Node {
  name: string;
  bytes: number;
  children: Map<string, Node>;
}

const ROW = 18;
const LEAST = 0.002; // of the width: narrower ones are left out
const DEEPEST = 64;

export class Flame {
  private readonly moments: Moments;
  private kind: "moment" | "left" | "difference" = "moment";
  private root: string[] = []; // names from the outermost to what is shown whole
  private every = false; // all frames
  private drawn = "";

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    this.moments = new Moments(scene);
    for (const kind of ["moment", "left", "difference"] as const) {
      byId(`flame-${kind}`).addEventListener("click", () => {
        this.kind = kind;
        this.root = [];
        this.draw();
      });
    }
    const every = byId<HTMLInputElement>("flame-every");
    every.addEventListener("change", () => {
      this.every = every.checked;
      this.root = [];
      this.draw();
    });
    byId("flame-peak").addEventListener("click", () => {
      shown.view.moment = scene.meta.peak_time / Math.max(1, scene.meta.span);
      this.kind = "moment";
      this.root = [];
      shown.changed();
      this.draw();
    });
    shown.listen(() => this.draw());
  }

  private values(): Float64Array {
    const { meta } = this.scene;
    if (this.kind === "left") {
      return Float64Array.from(meta.stacks, (stack) => stack.left);
    }
    const values = this.moments.valuesAt(this.moments.nearest(this.shown.view.moment));
    if (this.kind === "difference" && this.shown.view.other !== null) {
      const other = this.moments.valuesAt(this.moments.nearest(this.shown.view.other));
      return values.map((value, i) => value - other[i]);
    }
    return values;
  }

  private title(): string {
    const at = (part: number) => timeText(this.scene.meta.begin + this.moments.timeOf(this.moments.nearest(part)));
    const { moment, other } = this.shown.view;
    if (this.kind === "left") {
      return "Never freed, by call stack";
    }
    if (this.kind === "difference") {
      return other === null
        ? "Choose a second moment: click on the timeline with the shift key"
        : `What ${at(moment)} has more than ${at(other)}, by call stack`;
    }
    return `Live at ${at(moment)}, by call stack`;
  }

  private tree(): Node {
    const root: Node = { name: "all", bytes: 0, children: new Map() };
    this.values().forEach((bytes, i) => {
      if (bytes <= 0) {
        return; // of a difference only growth is drawn: the table has the rest
      }
      const all = this.scene.meta.stacks[i].frames;
      const frames = this.every ? all : shownFrames(all);
      const names = frames.length > 0 ? frames.slice(0, DEEPEST).map(frameName).reverse()
        : [i === 0 ? "smaller stacks, or none" : "no stack"];
      let node = root;
      root.bytes += bytes;
      for (const name of names) {
        let child = node.children.get(name);
        if (!child) {
          child = { name, bytes: 0, children: new Map() };
          node.children.set(name, child);
        }
        child.bytes += bytes;
        node = child;
      }
    });
    return root;
  }

  draw(): void {
    const { moment, other } = this.shown.view;
    const key = `${this.kind} ${this.every} ${this.moments.nearest(moment)} ${other === null ? "" : this.moments.nearest(other)} ${this.root.join("\n")}`;
    if (key === this.drawn) {
      return;
    }
    this.drawn = key;
    const area = byId("flame");
    const whole = this.tree();
    let node = whole;
    const above = [whole];
    for (const name of this.root) {
      const child = node.children.get(name);
      if (!child) {
        break;
      }
      node = child;
      above.push(node);
    }
    byId("flame-title").textContent = `${this.title()}: ${bytesText(whole.bytes)}`;
    for (const kind of ["moment", "left", "difference"]) {
      byId(`flame-${kind}`).setAttribute("aria-pressed", String(kind === this.kind));
    }
    area.replaceChildren();
    above.forEach((one, i) => this.cell(area, one, above.slice(1, i + 1).map((n) => n.name), 0, 1, i, whole.bytes));
    const depth = this.below(area, node, this.root, 0, 1, above.length, whole.bytes);
    area.style.height = `${(depth + 1) * ROW}px`;
  }

  private below(area: HTMLElement, node: Node, path: string[], from: number, width: number, row: number,
                whole: number): number {
    let deepest = row;
    let at = from;
    const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
    for (const child of children) {
      const part = (child.bytes / node.bytes) * width;
      if (part < LEAST) {
        break;
      }
      const here = [...path, child.name];
      this.cell(area, child, here, at, part, row, whole);
      deepest = Math.max(deepest, this.below(area, child, here, at, part, row + 1, whole));
      at += part;
    }
    return deepest;
  }

  private cell(area: HTMLElement, node: Node, path: string[], from: number, width: number, row: number,
               whole: number): void {
    const cell = make("button", node.name, "cell");
    const share = whole > 0 ? ((node.bytes / whole) * 100).toFixed(1) : "0";
    cell.title = `${node.name}\n${bytesText(node.bytes)}, ${share} %`;
    cell.style.left = `${from * 100}%`;
    cell.style.width = `${width * 100}%`;
    cell.style.top = `${row * ROW}px`;
    cell.style.background = frameColour(node.name, themeNow());
    cell.addEventListener("click", () => {
      this.root = path;
      this.draw();
    });
    area.append(cell);
  }
}
