// SPDX-License-Identifier: Apache-2.0
// Who had how much of a trace's memory at a moment, by source line where the trace has stacks.

import type { Scene, Stack } from "./data";
import { frameName, shownFrames } from "./frames";
import type { Moments } from "./moments";
import type { Shown } from "./window";

// A trace of the page, with what is shown of it.
export interface Trace {
  scene: Scene;
  shown: Shown;
  moments: Moments;
  name: string;
}

export type By = "site" | "stack" | "tag" | "size";

const CALLERS = 5; // frames of a stack in its name
const OTHERS = "smaller ones, or without a name";

function isNamed(stack: Stack): boolean {
  return stack.frames.length > 0;
}

// What can be told apart in all of the traces, the most useful first.
export function bysOf(traces: Trace[]): By[] {
  const stacks = traces.every(({ scene }) => scene.meta.stacks.some(isNamed));
  const tags = traces.every(({ scene }) => scene.meta.groupings[0].rows.length > 1);
  const lines = traces.some(({ scene }) => new Set(scene.meta.stacks.filter(isNamed).map((stack) => stack.site)).size > 1);
  const first: By[] = lines ? ["site", "stack"] : ["stack", "site"]; // a wrapper may be the one line of them all
  return [...(stacks ? first : []), ...(tags ? ["tag"] as const : []), "size"];
}

export const byText: Record<By, string> = { site: "source line", stack: "call stack", tag: "tag", size: "size" };

function namesOf(scene: Scene, by: By): Map<number, string> {
  const grouping = scene.meta.groupings.find((one) => one.name === by);
  return new Map(grouping?.rows.map((row) => [row.group, row.name]) ?? []);
}

function stackName(frames: string[]): string {
  return shownFrames(frames).slice(0, CALLERS).map(frameName).join(" < ");
}

function add(to: Map<string, number>, name: string, bytes: number): void {
  if (bytes > 0) {
    to.set(name, (to.get(name) ?? 0) + bytes);
  }
}

// At a stored moment.
export function holdingsAt({ scene, moments }: Trace, moment: number, by: By): Map<string, number> {
  const found = new Map<string, number>();
  if (by === "site" || by === "stack") {
    const names = namesOf(scene, "site");
    moments.valuesAt(moment).forEach((bytes, i) => {
      const { site, frames } = scene.meta.stacks[i];
      const name = by === "site" ? names.get(site) : stackName(frames);
      add(found, (frames.length > 0 && name) || OTHERS, bytes);
    });
    return found;
  }
  const bin = moments.binOf(moment);
  const columns = scene.meta.groupings.find((one) => one.name === by)?.columns ?? [];
  columns.forEach((name, i) => add(found, i > 0 ? name : OTHERS, scene.array(`${by}.${i}`)[bin]));
  return found;
}

// Live bytes of some stacks by source line; by call stack if a wrapper is the one line of them all.
export function byLine(scene: Scene, stacks: { stack: number; bytes: number }[]): [string, number][] {
  const names = namesOf(scene, "site");
  const sites = new Set(stacks.map(({ stack }) => scene.meta.stacks[stack].site));
  const found = new Map<string, number>();
  for (const { stack, bytes } of stacks) {
    const { site, frames } = scene.meta.stacks[stack];
    const name = sites.size > 1 ? names.get(site) : stackName(frames);
    add(found, (frames.length > 0 && name) || OTHERS, bytes);
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}
