// SPDX-License-Identifier: Apache-2.0
// The page of `vram report --html`: reads what it carries, and sets up its views.

import { Addresses } from "./addresses";
import { scenesRead, type Scene } from "./data";
import { Difference } from "./difference";
import { byId, make } from "./dom";
import { Flame } from "./flame";
import { cellsPress } from "./groups";
import type { Trace } from "./holdings";
import { Moments } from "./moments";
import { Overview } from "./overview";
import { Policies } from "./policies";
import { Refusals } from "./refusals";
import { storyTell } from "./story";
import { Table } from "./tables";
import { columnColour, themeNow } from "./theme";
import { Timeline } from "./timeline";
import { Shown } from "./window";

let legendDrawn = "";

// Only when it changes: new elements make the browser lay out the whole page again.
function legendDraw(scene: Scene, shown: Shown): void {
  const theme = themeNow();
  const { kind, grouping, only } = shown.view;
  const key = `${kind} ${grouping} ${only} ${theme.dark}`;
  if (key === legendDrawn) {
    return;
  }
  legendDrawn = key;
  const { columns, rows } = scene.meta.groupings[grouping];
  const named = rows.filter(({ column, group }) => column > 0 || group === only).sort((a, b) => a.column - b.column);
  const legend = byId("legend");
  const focused = [...legend.children].indexOf(document.activeElement as Element);
  legend.replaceChildren(...named.map((row) => {
    const item = make("button", row.name, "legend-item");
    const colour = make("span", "", "swatch");
    colour.style.background = columnColour(row.column, theme);
    item.prepend(colour);
    item.title = row.name;
    item.setAttribute("aria-pressed", String(row.group === only));
    item.addEventListener("click", () => shown.isolate(grouping, row.group));
    return item;
  }));
  if (scene.array(`${scene.meta.groupings[grouping].name}.0`).some((bytes) => bytes > 0)) {
    const rest = make("span", columns[0], "legend-item");
    const colour = make("span", "", "swatch");
    colour.style.background = columnColour(0, theme);
    rest.prepend(colour);
    legend.append(rest);
  }
  (legend.children[focused] as HTMLElement | undefined)?.focus();
  scene.meta.groupings.forEach((one, i) => {
    byId(`by-${one.name}`).setAttribute("aria-pressed", String(i === grouping));
  });
  const alone = rows.find(({ group }) => group === only);
  const how = `Live memory over ${kind}`;
  byId("timeline-title").textContent = alone ? `${how}: ${alone.name} alone` : how;
  cellsPress(shown);
  for (const one of ["time", "events"]) {
    byId(`axis-${one}`).setAttribute("aria-pressed", String(one === kind));
  }
}

// The first grouping that tells anything apart.
function groupingFor(scene: Scene): number {
  const found = scene.meta.groupings.findIndex((grouping) => grouping.rows.length > 1);
  return found < 0 ? 3 : found;
}

let current: Shown | null = null; // of the trace that is shown
let pristine: HTMLElement | null = null; // the part of the page that shows one trace, before anything is in it

// Shows one trace. Its part of the page is made anew, so that nothing of the one before is left.
function traceShow(trace: Trace, chose: (compare: boolean) => void): void {
  const { scene, shown } = trace;
  pristine ??= byId("trace").cloneNode(true) as HTMLElement;
  byId("trace").replaceWith(pristine.cloneNode(true));
  shown.forget();
  current = shown;
  legendDrawn = "";
  storyTell(scene);
  scene.meta.groupings.forEach((grouping, i) => {
    byId(`by-${grouping.name}`).addEventListener("click", () => {
      shown.isolate(i, null);
    });
  });
  for (const kind of ["time", "events"] as const) {
    byId(`axis-${kind}`).addEventListener("click", () => {
      const { axis } = scene;
      const { begin, end, kind: before } = shown.view;
      shown.view.kind = kind;
      shown.range(axis.partOf(kind, axis.atOf(before, begin)), end < 1 ? axis.partOf(kind, axis.atOf(before, end)) : 1);
    });
  }
  byId("zoom-all").addEventListener("click", () => shown.range(0, 1));
  byId("zoom-peak").addEventListener("click", () => shown.range(...scene.axis.aroundPeak(shown.view.kind, scene.array("total"))));
  const refusals = new Refusals(scene, shown);
  new Timeline(scene, shown, { note: (note) => refusals.open(note), chose });
  new Policies(scene, shown);
  new Addresses(scene, shown);
  new Flame(scene, shown);
  new Table(scene, shown);
  shown.listen(() => legendDraw(scene, shown));
  new ResizeObserver(() => shown.changed()).observe(byId("timeline"));
  byId("flame-section").hidden = scene.meta.stacks.every((stack) => stack.frames.length === 0);
  shown.changed();
}

// Short names where they are different, else the whole paths.
function namesOf(scenes: Scene[]): string[] {
  const files = scenes.map((scene) => scene.meta.report.file);
  const short = files.map((file) => file.split("/").pop() ?? file);
  const names = new Set(short).size === short.length ? short : files;
  return names.map((name, i) => (names.indexOf(name) === i ? name : `${name} (${i + 1})`));
}

async function start(): Promise<void> {
  const began = performance.now();
  const scenes = await scenesRead(byId("payload").textContent ?? "");
  byId("payload").remove();
  const names = namesOf(scenes);
  const traces: Trace[] = scenes.map((scene, i) => ({
    scene, name: names[i], moments: new Moments(scene),
    shown: new Shown(scene.axis.at(scene.meta.peak_time, scene.meta.peak_step), groupingFor(scene),
                     scene.axis.kindFor(scene.array("total"))),
  }));
  const difference = new Difference(traces);
  let overview: Overview | null = null;
  byId("main").hidden = false;
  const show = (i: number) => {
    traceShow(traces[i], (compare) => {
      if (compare) {
        difference.compare(traces[i]);
      }
      overview?.shown.changed();
    });
    difference.current = traces[i];
    traces[i].shown.listen(() => difference.draw());
    overview?.list(i);
  };
  if (traces.length > 1) {
    overview = new Overview(traces, show);
    new ResizeObserver(() => overview?.shown.changed()).observe(byId("overview"));
  }
  show(0);
  if (traces.length > 1) {
    document.title = `${traces.length} traces: GPU memory`;
  }
  const draw = (all: boolean) => {
    overview?.shown.draw(all);
    current?.draw(all);
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(false));
  window.addEventListener("beforeprint", () => draw(true));
  byId("wait").hidden = true;
  document.documentElement.dataset.ready = String(Math.round(performance.now() - began));
}

start().catch((error: unknown) => {
  byId("wait").textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
});
