// SPDX-License-Identifier: Apache-2.0
// One group of a grouping: which blocks it has, what it had over time, and the cell of a table that shows it alone.

import type { Numbers, Scene } from "./data";
import { make } from "./dom";
import { columnColour, type Theme } from "./theme";
import type { Shown } from "./window";

export const WHOLE = 4294967294; // of block.begin and block.end
const arrays: Record<string, string> = { tag: "block.tag", site: "block.stack", stream: "block.stream", size: "block.bytes" };

// The group of each block.
export function groupsOfBlocks(scene: Scene, grouping: number): Uint32Array {
  const { name } = scene.meta.groupings[grouping];
  return Uint32Array.from(scene.array(arrays[name]), (value) => (name === "site" ? scene.meta.stacks[value].site
    : name === "size" ? Math.max(0, Math.floor(Math.log2(value || 1))) : value));
}

// Where each block begins and ends, as parts of the trace.
function blockSpan(scene: Scene, i: number): [number, number] {
  const { meta, axis } = scene;
  const at = (end: string) =>
    axis.at((scene.array(`block.${end}`)[i] / WHOLE) * meta.span, scene.array(`block.${end}_step`)[i]);
  return [at("begin"), Math.min(1, at("end"))];
}

// What is shown of a grouping, by column: all of them, or one group alone.
export interface Part {
  name: string;
  colour: string;
  values: Numbers;
}

export function partsOf(scene: Scene, shown: Shown, theme: Theme): Part[] {
  const { grouping, only } = shown.view;
  const { name, columns, rows } = scene.meta.groupings[grouping];
  const all = columns.map((text, i) => ({
    name: text, colour: columnColour(i, theme), values: scene.array(`${name}.${i}`),
  }));
  const row = rows.find(({ group }) => group === only);
  if (!row) {
    return all;
  }
  // What has no colour is drawn from its blocks, if all blocks are there.
  const { meta } = scene;
  if (row.column > 0 || meta.kept < meta.blocks) {
    return [all[row.column]];
  }
  const values = new Float64Array(meta.bins + 2);
  groupsOfBlocks(scene, grouping).forEach((group, i) => {
    if (group === only) {
      const [begin, end] = blockSpan(scene, i).map((at) => Math.floor(at * meta.bins));
      values[begin] += scene.array("block.bytes")[i];
      values[end + 1] -= scene.array("block.bytes")[i];
    }
  });
  for (let i = 1; i < values.length; i++) {
    values[i] += values[i - 1];
  }
  return [{ name: row.name, colour: theme.rest, values }];
}

// The first cell of a row: a name that shows its group alone, if there is one of that name.
export function nameCell(scene: Scene, shown: Shown, by: string, name: string, colour?: string): HTMLElement {
  const cell = make("td");
  const grouping = scene.meta.groupings.findIndex((one) => one.name === by);
  const row = scene.meta.groupings[grouping]?.rows.find((one) => one.name === name);
  if (!row) {
    cell.textContent = name;
    return cell;
  }
  const button = make("button", name, "only");
  if (colour) {
    const swatch = make("span", "", "swatch");
    swatch.style.background = colour;
    button.prepend(swatch);
  }
  button.dataset.only = `${grouping} ${row.group}`;
  button.addEventListener("click", () => shown.isolate(grouping, row.group));
  press(button, shown);
  cell.append(button);
  return cell;
}

function press(button: HTMLElement, { view }: Shown): void {
  button.setAttribute("aria-pressed", String(button.dataset.only === `${view.grouping} ${view.only}`));
}

// After another group was chosen. The buttons stay, so that none loses the focus.
export function cellsPress(shown: Shown): void {
  document.querySelectorAll<HTMLElement>(".only").forEach((button) => press(button, shown));
}
