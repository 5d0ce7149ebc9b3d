// SPDX-License-Identifier: Apache-2.0
// Flame graphs of a moment, of what was never freed, and of the difference between two moments.

import type { Scene } from "./data";
import { byId, make } from "./dom";
import { frameName, frameShort, packageOf, shownFrames } from "./frames";
import { bytesText, countText } from "./format";
import { Moments } from "./moments";
import { frameColour, themeNow } from "./theme";
import type { Shown } from "./window";

interface Node {
  name: string;
  from: string; // its package
  bytes: number;
  children: Map<string, Node>;
}

type Kind = "moment" | "left" | "difference";

const ROW = 20;
const LEAST = 0.002; // of the width: narrower ones are left out
const DEEPEST = 64;

export class Flame {
  private readonly moments: Moments;
  private readonly every = byId<HTMLInputElement>("flame-every"); // all frames
  private readonly search = byId<HTMLInputElement>("flame-search");
  private kind: Kind = "moment";
  private root: string[] = []; // names from the outermost to what is shown whole
  private drawn = "";

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    this.moments = new Moments(scene);
    for (const kind of ["moment", "left", "difference"] as const) {
      byId(`flame-${kind}`).addEventListener("click", () => this.show(kind));
    }
    this.every.addEventListener("change", () => this.show(this.kind));
    this.search.addEventListener("input", () => this.draw());
    byId("flame-peak").addEventListener("click", () => {
      shown.view.moment = scene.axis.at(scene.meta.peak_time, scene.meta.peak_step);
      shown.changed();
      this.show("moment");
    });
    shown.listen(() => this.draw());
  }

  private show(kind: Kind): void {
    this.kind = kind;
    this.root = [];
    this.draw();
  }

  // Live bytes by stack; null: what to compare with has not been chosen.
  private values(): Float64Array | null {
    const { meta } = this.scene;
    const { moment, other, grouping, only } = this.shown.view;
    if (this.kind === "difference" && other === null) {
      return null;
    }
    const at = (part: number) => this.moments.valuesAt(this.moments.of(part));
    const before = this.kind === "difference" && other !== null ? at(other) : null;
    const values = this.kind === "left" ? Float64Array.from(meta.stacks, (stack) => stack.left) : at(moment);
    const alone = only !== null && meta.groupings[grouping].name === "site";
    return values.map((value, i) => (alone && meta.stacks[i].site !== only ? 0 : value - (before?.[i] ?? 0)));
  }

  private title(whole: number): string {
    const { kind, moment, other } = this.shown.view;
    const at = (part: number) => this.moments.nameOf(this.moments.of(part), kind);
    if (this.kind === "difference") {
      return other === null ? "Difference by call stack"
        : `What ${at(moment)} has more than ${at(other)}, by call stack: ${bytesText(whole)}`;
    }
    return `${this.kind === "left" ? "Never freed" : `Live at ${at(moment)}`}, by call stack: ${bytesText(whole)}`;
  }

  private tree(values: Float64Array): Node {
    const root: Node = { name: "all", from: "", bytes: 0, children: new Map() };
    values.forEach((bytes, i) => {
      if (bytes <= 0) {
        return; // of a difference only growth is drawn: the table has the rest
      }
      const all = this.scene.meta.stacks[i].frames;
      const frames = (this.every.checked ? all : shownFrames(all)).slice(0, DEEPEST).reverse();
      let node = root;
      root.bytes += bytes;
      for (const frame of frames.length > 0 ? frames : [i === 0 ? "smaller stacks, or none" : "no stack"]) {
        const name = frameName(frame);
        let child = node.children.get(name);
        if (!child) {
          child = { name, from: packageOf(frame), bytes: 0, children: new Map() };
          node.children.set(name, child);
        }
        child.bytes += bytes;
        node = child;
      }
    });
    return root;
  }

  // The bytes below frames that are searched for, each counted once, and how many such frames there are.
  private found(node: Node): [number, number] {
    if (this.matches(node)) {
      return [node.bytes, 1];
    }
    return [...node.children.values()].map((child) => this.found(child)).reduce((a, b) => [a[0] + b[0], a[1] + b[1]], [0, 0]);
  }

  private matches(node: Node): boolean {
    return node.name.toLowerCase().includes(this.search.value.trim().toLowerCase());
  }

  private note(whole: Node): string {
    if (this.kind === "difference" && this.shown.view.other === null) {
      return "Choose a second moment: on the timeline, a click with the shift key, or shift and Enter.";
    }
    if (this.search.value.trim() === "") {
      return "";
    }
    const [bytes, count] = this.found(whole);
    return count === 0 ? "No frame has that in its name."
      : `${countText(count)} call${count === 1 ? "" : "s"}, ${bytesText(bytes)}, ${((bytes / whole.bytes) * 100).toFixed(1)} %`;
  }

  draw(): void {
    const { kind, moment, other, grouping, only } = this.shown.view;
    const key = [kind, this.kind, this.every.checked, this.search.value, this.moments.of(moment), other && this.moments.of(other),
      grouping, only, themeNow().dark, ...this.root].join("\n");
    if (key === this.drawn) {
      return;
    }
    this.drawn = key;
    const values = this.values();
    const whole = this.tree(values ?? new Float64Array(0));
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
    byId("flame-title").textContent = this.title(whole.bytes);
    byId("flame-note").textContent = this.note(whole);
    for (const one of ["moment", "left", "difference"]) {
      byId(`flame-${one}`).setAttribute("aria-pressed", String(one === this.kind));
    }
    const area = byId("flame");
    const focused = [...area.children].indexOf(document.activeElement as Element);
    area.replaceChildren();
    area.hidden = values === null;
    above.forEach((one, i) => this.cell(area, one, above.slice(1, i + 1).map((n) => n.name), 0, 1, i, whole.bytes));
    const rows = this.below(area, node, this.root, 0, 1, above.length, whole.bytes);
    area.style.height = `${rows * ROW}px`;
    if (focused >= 0) {
      (area.children[above.length - 1] as HTMLElement).focus();
    }
  }

  // How many rows there are then.
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
    const wanted = this.search.value.trim() === "" || this.matches(node);
    const cell = make("button", frameShort(node.name), wanted ? "cell" : "cell faint");
    const share = whole > 0 ? ((node.bytes / whole) * 100).toFixed(1) : "0";
    cell.title = `${node.name}\n${bytesText(node.bytes)}, ${share} %`;
    cell.style.left = `${from * 100}%`;
    cell.style.width = `${width * 100}%`;
    cell.style.top = `${row * ROW}px`;
    cell.style.background = frameColour(node.name, node.from, themeNow());
    cell.addEventListener("click", () => {
      this.root = path;
      this.draw();
    });
    area.append(cell);
  }
}
