// SPDX-License-Identifier: Apache-2.0
// The page of `vram report --html`: reads what it carries, and sets up its views.

import { Addresses } from "./addresses";
import { scenesRead, type Scene } from "./data";
import { Difference } from "./difference";
import { byId, make } from "./dom";
import { Flame } from "./flame";
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
  const key = `${shown.view.grouping} ${theme.dark}`;
  if (key === legendDrawn) {
    return;
  }
  legendDrawn = key;
  const grouping = scene.meta.groupings[shown.view.grouping];
  byId("legend").replaceChildren(
    ...grouping.columns.map((name, i) => {
      const item = make("span", "", "legend-item");
      const colour = make("span", "", "swatch");
      colour.style.background = columnColour(i, theme);
      item.append(colour, make("span", name));
      return item;
    }),
  );
  scene.meta.groupings.forEach((one, i) => {
    byId(`by-${one.name}`).setAttribute("aria-pressed", String(i === shown.view.grouping));
  });
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
      shown.view.grouping = i;
      shown.changed();
    });
  });
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
    shown: new Shown(scene.meta.peak_time / Math.max(1, scene.meta.span), groupingFor(scene)),
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
