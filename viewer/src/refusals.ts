// SPDX-License-Identifier: Apache-2.0
// Out of memory: each refusal, and its report: who held what, what each step of the ladder gave, what would help.

import type { Note, Refusal, RefusalReport, Scene } from "./data";
import { byId, make } from "./dom";
import { bytesText, countText, timeText } from "./format";
import { byLine } from "./holdings";
import { frameName, shownFrames } from "./frames";
import { nameCell } from "./groups";
import type { Shown } from "./window";

const LISTED_MAX = 100;

function table(heads: string[], rows: string[][], first = (name: string): HTMLElement => make("td", name)): HTMLElement {
  const made = make("table");
  const head = make("tr");
  head.append(...heads.map((text, i) => make("th", text, i > 0 ? "figure" : "")));
  made.append(head, ...rows.map((row) => {
    const line = make("tr");
    line.append(first(row[0]), ...row.slice(1).map((text) => make("td", text, "figure")));
    return line;
  }));
  const box = make("div", "", "scroll");
  box.append(made);
  return box;
}

function share(bytes: number, whole: number): string {
  return whole > 0 ? `${((bytes / whole) * 100).toFixed(1)} %` : "";
}

export class Refusals {
  private readonly notes: Note[];

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    this.notes = scene.meta.notes.filter((note) => note.refusal);
    byId("refusals-section").hidden = this.notes.length === 0;
    const buttons = this.notes.slice(0, LISTED_MAX).map((note) => {
      const button = make("button", `${timeText(scene.meta.begin + note.time)}: ${bytesText(note.bytes)}`);
      button.addEventListener("click", () => this.open(note));
      return button;
    });
    const left = this.notes.length - buttons.length + scene.meta.notes_left_out;
    byId("refusals").replaceChildren(...buttons);
    byId("refusals-note").textContent = left > 0 ? `${countText(left)} more` : "";
  }

  open(note: Note): void {
    const index = this.notes.indexOf(note);
    [...byId("refusals").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
    const { refusal } = note;
    if (refusal) {
      byId("refusal").replaceChildren(...this.report(note, refusal));
    }
    byId("refusals-section").scrollIntoView({ block: "nearest" });
  }

  private report(note: Note, refusal: Refusal): HTMLElement[] {
    const { meta } = this.scene;
    const { report } = refusal;
    const parts: HTMLElement[] = [make("h3", `${timeText(meta.begin + note.time)}: ${bytesText(note.bytes)} refused (${note.status ?? ""})`)];
    parts.push(make("p", report ? report.summary : this.words(note, refusal)));
    const named = (className: string, name: string, text: string) => {
      const line = make("p", "", className);
      line.append(make("strong", `${name}: `), make("span", text));
      return line;
    };
    parts.push(named("", "Limit in force", this.limit(note, refusal)), named("", "Who asked", this.asker(refusal)));
    parts.push(...shownFrames(refusal.frames).slice(0, 8).map((frame) => make("div", frameName(frame), "frame")));
    if (meta.report.format === "snapshot") {
      parts.push(named("", "In PyTorch's words", this.torchWords(note, refusal)));
    }
    parts.push(named("help", "What would help", this.help(note, refusal)));
    const button = make("button", "flame graph of this moment");
    button.addEventListener("click", () => {
      this.shown.view.moment = this.scene.axis.at(note.time, note.step);
      this.shown.changed();
      byId("flame-moment").click();
      byId("flame-section").scrollIntoView({ block: "nearest" });
    });
    const bar = make("div", "", "bar");
    bar.append(button);
    return [
      [...parts, bar],
      [make("h4", "The figures"), this.figures(refusal)],
      [make("h4", "Who held what"), ...this.holders(refusal)],
      [make("h4", "What each step of the ladder gave"), this.steps(report)],
    ].map((half) => {
      const box = make("div");
      box.append(...half);
      return box;
    });
  }

  private limit(note: Note, { held, device_free, report }: Refusal): string {
    if (report) {
      return report.limit === null ? "none: the device's memory is the limit"
        : `${bytesText(report.limit)}${report.cause.includes("limit") ? "" : ", not reached"}`;
    }
    if (held !== null && device_free >= note.bytes) {
      return `one of PyTorch's own, as torch.cuda.set_per_process_memory_fraction sets it, because the device had ` +
        `${bytesText(device_free)} free; it is less than ${bytesText(held + note.bytes)}, which this request would have made it hold`;
    }
    return device_free > 0 ? `the device's memory, of which ${bytesText(device_free)} were free` : "the trace does not say";
  }

  private asker({ tag, pool, frames }: Refusal): string {
    const who = [pool && `pool ${pool}`, tag && `tag ${tag}`].filter((text) => text);
    return who.length > 0 ? who.join(", ") : frames.length > 0 ? "" : "the trace does not say";
  }

  // As its OutOfMemoryError says it, so that who has seen that finds the same figures here.
  private torchWords(note: Note, { live, held, device_free }: Refusal): string {
    return `CUDA out of memory. Tried to allocate ${bytesText(note.bytes)}. ` +
      (device_free > 0 ? `${bytesText(device_free)} is free. ` : "") + `${bytesText(live)} is allocated by PyTorch` +
      (held === null ? "." : `, and ${bytesText(held - live)} is reserved by PyTorch but unallocated.`);
  }

  private words(note: Note, { live, held, device_free }: Refusal): string {
    const unused = held === null ? 0 : held - live;
    return [
      `${bytesText(note.bytes)} were asked for while ${bytesText(live)} were live`,
      held === null ? "" : ` and ${bytesText(held)} held, ${bytesText(unused)} of them in no live block`,
      device_free > 0 ? `; the device had ${bytesText(device_free)} free` : "",
      ".",
    ].join("");
  }

  // The library's own advice, or what the figures say by themselves.
  private help(note: Note, { live, held, device_free, report }: Refusal): string {
    if (report) {
      return report.advice;
    }
    const unused = held === null ? 0 : held - live;
    if (device_free >= note.bytes) {
      return "raise that limit, or hold less of what is listed below.";
    }
    if (unused >= note.bytes) {
      return `${bytesText(unused)} were held and unused, but not in one piece: an allocator that maps pages or moves ` +
        "memory serves this request. `vram replay` shows what others would hold.";
    }
    if (device_free > 0 && unused + device_free >= note.bytes) {
      return `unused and free memory together, ${bytesText(unused + device_free)}, are enough: what is cached has to go ` +
        "back to the device first.";
    }
    const least = note.bytes - unused - device_free;
    return `at least ${bytesText(Math.max(0, least))} more, or that much less of what is listed below.`;
  }

  private figures({ live, held, device_free, report }: Refusal): HTMLElement {
    const known: [string, number | null][] = report
      ? [["live in the pool", report.live], ["of it lost to rounding", report.rounding], ["cached by threads", report.cached],
         ["unused", report.unused], ["largest unused piece", report.largest], ["freed, queues still use it", report.pending],
         ["free, but pinned", report.pinned], ["held by the pool", report.reserved], ["limit in force", report.limit],
         ["unused in other pools", report.stranded], ["held by the process", report.process],
         ["held by other programs", report.others], ["free on the device", report.free], ["the device's memory", report.total]]
      : [["live", live], ["held", held], ["held, in no live block", held === null ? null : held - live], ["free on the device", device_free > 0 ? device_free : null]];
    const rows = known.filter(([, bytes]) => bytes !== null && bytes > 0).map(([name, bytes]) => [name, bytesText(bytes ?? 0)]);
    return table(["", "bytes"], rows);
  }

  private name(by: string): (name: string) => HTMLElement {
    return (name) => nameCell(this.scene, this.shown, by, name);
  }

  private holders(refusal: Refusal): HTMLElement[] {
    const { meta } = this.scene;
    const { live, report } = refusal;
    const tables: HTMLElement[] = [];
    if (refusal.stacks.some(({ stack }) => meta.stacks[stack].frames.length > 0)) {
      const rows = byLine(this.scene, refusal.stacks);
      const rest = live - rows.reduce((sum, [, bytes]) => sum + bytes, 0);
      const all = rest > 0 ? [...rows, ["all others", rest] as [string, number]] : rows;
      tables.push(table(["source line", "live", "share"], all.map(([name, bytes]) => [name, bytesText(bytes), share(bytes, live)]), this.name("site")));
    }
    const tags = refusal.tags.map((bytes, i) => ({ name: meta.groupings[0].columns[i], bytes }))
      .filter(({ bytes }) => bytes > 0).sort((a, b) => b.bytes - a.bytes);
    if (tags.length > 1 || tables.length === 0) {
      tables.push(table(["tag", "live", "share"], tags.map(({ name, bytes }) => [name, bytesText(bytes), share(bytes, live)]), this.name("tag")));
    }
    const same = report?.holders.every((holder) => tags.some(({ name, bytes }) => name === holder.tag && bytes === holder.bytes));
    if (report && !same) {
      tables.push(make("p", "Of the whole device, as the library counted it:", "hint"));
      tables.push(table(["tag", "bytes", "blocks"],
                        report.holders.map(({ tag, bytes, blocks }) => [tag || "no tag", bytesText(bytes), countText(blocks)])));
    }
    return tables;
  }

  private steps(report: RefusalReport | undefined): HTMLElement {
    if (!report) {
      return make("p", "The trace does not say: only libvram's own traces have it.", "hint");
    }
    if (report.steps.length === 0) {
      return make("p", "No step was taken.", "hint");
    }
    return table(["step", "times", "gave", "took"], report.steps.map(({ name, taken, bytes, ns }) =>
      [name, taken > 0 ? countText(taken) : "not taken", taken > 0 ? bytesText(bytes) : "", ns > 0 ? timeText(ns) : ""]));
  }
}
