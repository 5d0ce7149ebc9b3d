// SPDX-License-Identifier: Apache-2.0
// The page of `vram report --html`: reads what it carries, and sets up its views.

import { Addresses } from "./addresses";
import { sceneRead, type Scene } from "./data";
import { byId, make } from "./dom";
import { Flame } from "./flame";
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

async function start(): Promise<void> {
  const began = performance.now();
  const scene = await sceneRead(byId("payload").textContent ?? "");
  byId("payload").remove();
  const shown = new Shown(scene.meta.peak_time / Math.max(1, scene.meta.span), groupingFor(scene));
  storyTell(scene);
  scene.meta.groupings.forEach((grouping, i) => {
    byId(`by-${grouping.name}`).addEventListener("click", () => {
      shown.view.grouping = i;
      shown.changed();
    });
  });
  new Timeline(scene, shown);
  new Addresses(scene, shown);
  new Flame(scene, shown);
  new Table(scene, shown);
  shown.listen(() => legendDraw(scene, shown));
  new ResizeObserver(() => shown.changed()).observe(byId("timeline"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.changed());
  window.addEventListener("beforeprint", () => shown.draw(true));
  shown.changed();
  byId("flame-section").hidden = scene.meta.stacks.every((stack) => stack.frames.length === 0);
  byId("main").hidden = false;
  byId("wait").hidden = true;
  document.documentElement.dataset.ready = String(Math.round(performance.now() - began));
}

start().catch((error: unknown) => {
  byId("wait").textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
});
