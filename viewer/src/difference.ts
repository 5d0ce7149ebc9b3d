// SPDX-License-Identifier: Apache-2.0
// What one moment has more or less than another, of the same trace or of two, by source line.

import { byId, make } from "./dom";
import { bytesText, countText } from "./format";
import { nameCell } from "./groups";
import { bysOf, byText, holdingsAt, type By, type Trace } from "./holdings";

type When = "moment" | "other" | "peak" | "end";

interface Side {
  trace: HTMLSelectElement;
  when: HTMLSelectElement;
}

const whenTexts: Record<When, string> = {
  moment: "at the chosen moment", other: "at the second moment", peak: "at its peak", end: "at its end",
};
const SHOWN_MAX = 200;

function option(value: string, text: string): HTMLOptionElement {
  const made = make("option", text);
  made.value = value;
  return made;
}

export class Difference {
  private readonly now: Side;
  private readonly before: Side;
  private readonly by = byId<HTMLSelectElement>("difference-by");
  private drawn = "";
  current: Trace; // that is shown: names isolate in it

  constructor(private readonly traces: Trace[]) {
    this.current = traces[0];
    this.now = this.side("now", 0, traces.length > 1 ? "peak" : "moment");
    this.before = this.side("before", Math.min(1, traces.length - 1), traces.length > 1 ? "peak" : "end");
    this.by.replaceChildren(...bysOf(traces).map((by) => option(by, `by ${byText[by]}`)));
    this.by.addEventListener("change", () => this.draw());
    byId("difference-section").hidden = false;
  }

  private side(name: string, trace: number, when: When): Side {
    const side: Side = {
      trace: byId<HTMLSelectElement>(`difference-${name}-trace`),
      when: byId<HTMLSelectElement>(`difference-${name}-when`),
    };
    side.trace.replaceChildren(...this.traces.map(({ name: text }, i) => option(String(i), text)));
    side.trace.value = String(trace);
    side.trace.hidden = this.traces.length < 2;
    side.when.replaceChildren(...Object.entries(whenTexts).map(([value, text]) => option(value, text)));
    side.when.value = when;
    side.trace.addEventListener("change", () => this.draw());
    side.when.addEventListener("change", () => this.draw());
    return side;
  }

  // A second moment was chosen on a timeline: it is what the first is compared with.
  compare(trace: Trace): void {
    const index = String(this.traces.indexOf(trace));
    for (const [side, when] of [[this.now, "moment"], [this.before, "other"]] as const) {
      side.trace.value = index;
      side.when.value = when;
    }
    this.draw();
  }

  private chosen(side: Side): { trace: Trace; moment: number } | null {
    const trace = this.traces[Number(side.trace.value)];
    const { meta, axis } = trace.scene;
    const { view } = trace.shown;
    const parts: Record<When, number | null> = {
      moment: view.moment, other: view.other, peak: axis.at(meta.peak_time, meta.peak_step), end: 2,
    };
    const part = parts[side.when.value as When];
    return part === null ? null : { trace, moment: part > 1 ? trace.moments.last : trace.moments.of(part) };
  }

  draw(): void {
    const now = this.chosen(this.now);
    const before = this.chosen(this.before);
    const by = this.by.value as By;
    const key = by + [now, before].map((one) => one &&
      `${this.traces.indexOf(one.trace)} ${one.moment} ${one.trace.shown.view.kind}`).join(", ");
    if (key === this.drawn) {
      return;
    }
    this.drawn = key;
    byId("difference-table").hidden = !now || !before;
    if (!now || !before) {
      byId("difference-title").textContent = `Difference by ${byText[by]}`;
      byId("difference-note").textContent =
        "Choose a second moment: on the timeline, a click with the shift key, or shift and Enter.";
      return;
    }
    this.title(now, before, by);
    this.rows(by, holdingsAt(now.trace, now.moment, by), holdingsAt(before.trace, before.moment, by));
  }

  private title(now: { trace: Trace; moment: number }, before: { trace: Trace; moment: number }, by: By): void {
    const words = ({ trace, moment }: { trace: Trace; moment: number }) => {
      const time = trace.moments.nameOf(moment, trace.shown.view.kind);
      return this.traces.length > 1 ? `${trace.name} at ${time}` : time;
    };
    byId("difference-title").textContent = `Difference by ${byText[by]}: ${words(now)} against ${words(before)}`;
    byId("difference-now").textContent = words(now);
    byId("difference-before").textContent = words(before);
  }

  private rows(by: By, now: Map<string, number>, before: Map<string, number>): void {
    const names = new Set([...now.keys(), ...before.keys()]);
    const rows = [...names].map((name) => ({ name, now: now.get(name) ?? 0, before: before.get(name) ?? 0 }))
      .sort((a, b) => Math.abs(b.now - b.before) - Math.abs(a.now - a.before));
    const sum = (values: Map<string, number>) => [...values.values()].reduce((a, b) => a + b, 0);
    const all = { name: "all", now: sum(now), before: sum(before) };
    const line = (row: { name: string; now: number; before: number }, className = "") => {
      const change = row.now - row.before;
      const made = make("tr", "", className);
      const sign = make("td", `${change > 0 ? "+" : ""}${change === 0 ? "0" : bytesText(change)}`,
                        `figure ${change > 0 ? "more" : change < 0 ? "less" : ""}`);
      made.append(nameCell(this.current.scene, this.current.shown, by, row.name), make("td", bytesText(row.before), "figure"),
                  make("td", bytesText(row.now), "figure"), sign);
      return made;
    };
    const changed = rows.filter((row) => row.now !== row.before);
    byId("difference-body").replaceChildren(line(all, "sum"), ...changed.slice(0, SHOWN_MAX).map((row) => line(row)));
    const same = rows.length - changed.length;
    const more = changed.length - SHOWN_MAX;
    byId("difference-note").textContent =
      [more > 0 ? `${countText(more)} more that changed` : "", same > 0 ? `${countText(same)} the same in both` : ""]
        .filter((text) => text).join(", ");
  }
}
