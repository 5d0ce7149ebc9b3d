// SPDX-License-Identifier: Apache-2.0
// Words first: what the process holds now, who has most of it, and what to worry about.

import { byId, make } from "./dom";
import { bytesText, countText } from "./format";
import type { Device, Live, Past, Pool } from "./live_data";
import { secondsText } from "./live_timeline";

const ranks = ["unknown", "low", "medium", "high", "critical"];
const GROWTH_SLOTS = 30; // a shorter past shows no growth

export function sizeText(bytes: number | null): string {
  return bytes === null ? "–" : bytesText(bytes);
}

export function shareText(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part / whole > 0.995 || part / whole < 0.1 ? 1 : 0)}\u00a0%` : "";
}

function tile(name: string, figure: string, more: string, id: string): HTMLElement {
  const box = make("div", "", "tile");
  const value = make("div", figure, "tile-figure");
  value.id = `tile-${id}`;
  box.append(make("div", name, "tile-name"), value, make("div", more, "tile-more"));
  return box;
}

function tiles(live: Live, past: Past): HTMLElement[] {
  const { sum, pressure } = live.process;
  const limit = past.limit[past.count - 1] ?? null;
  const asked = (sum.hits ?? 0) + (sum.misses ?? 0);
  return [
    tile("held", sizeText(sum.held_bytes), sum.cached_bytes === null ? "" : `${bytesText(sum.cached_bytes)} of it cached`, "held"),
    tile("live", sizeText(sum.live_bytes), sum.live_blocks === null ? "" : `${countText(sum.live_blocks)} blocks`, "live"),
    tile("held at most", sizeText(sum.peak_held_bytes), limit === null ? "no limit" : `limit ${bytesText(limit)}`, "peak"),
    tile("pressure", pressure, ranks.indexOf(pressure) >= 3 ? "memory is short" : "", "pressure"),
    tile(
      "allocations a second",
      sum.allocations_per_second === null ? "–" : countText(Math.round(sum.allocations_per_second)),
      asked > 0 ? `${shareText(sum.hits ?? 0, asked)} without the driver` : "",
      "rate",
    ),
    tile("refused", sum.refusals === null ? "–" : countText(sum.refusals), (sum.refusals ?? 0) > 0 ? "see below" : "", "refused"),
  ];
}

function firstSentence(live: Live): string {
  const { sum, pools, origin } = live.process;
  const kinds = origin === "run" ? `in ${pools} ${pools === 1 ? "kind" : "kinds"} of memory` : `by ${pools} ${pools === 1 ? "pool" : "pools"}`;
  return (
    `Process ${live.process.pid} ${live.state === "ended" ? "held" : "holds"} ${sizeText(sum.held_bytes)} ${kinds}; ` +
    `${sizeText(sum.live_bytes)} of it ${live.state === "ended" ? "were" : "are"} live. It held ${sizeText(sum.peak_held_bytes)} at most so far.`
  );
}

// The tag with most memory of its own.
function ownerSentence(live: Live): string | null {
  const most = live.tags.reduce((a, b) => ((b.own_bytes ?? 0) > (a?.own_bytes ?? 0) ? b : a), live.tags[0]);
  const whole = live.process.sum.allocated_bytes ?? live.process.sum.live_bytes ?? 0;
  if (!most || !most.own_bytes) {
    return live.process.sum.live_bytes && live.process.origin !== "run" ? "Nothing has a tag: tags tell what the memory is for." : null;
  }
  return `${most.tag} has most of it: ${bytesText(most.own_bytes)}, ${shareText(most.own_bytes, whole)} of what is live.`;
}

// Where pressure is highest, and how full that is.
function pressureSentence(live: Live): string | null {
  const places: { what: string; one: Device | Pool }[] = [
    ...live.devices.map((one) => ({ what: `${one.backend}:${one.index} ${one.name}`, one })),
    ...live.pools.map((one) => ({ what: `the pool ${one.name}`, one })),
  ];
  const known = places.filter(({ one }) => one.pressure_value !== null);
  if (known.length === 0) {
    return null;
  }
  const worst = known.reduce((a, b) => ((b.one.pressure_value ?? 0) > (a.one.pressure_value ?? 0) ? b : a));
  return `Pressure is ${worst.one.pressure}: ${worst.what} is ${shareText(worst.one.pressure_value ?? 0, 1)} full.`;
}

function advice(weight: "warn" | "bad", found: string, mend: string): HTMLElement {
  const line = make("li", "", weight);
  line.append(make("strong", found), make("span", ` ${mend}`));
  return line;
}

const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b), Infinity);

// Memory that stays higher and higher: the lowest values of the first and of the last third of the time.
function growth(past: Past): HTMLElement | null {
  const third = Math.floor(past.count / 3);
  if (past.count < GROWTH_SLOTS) {
    return null;
  }
  const rise = (values: number[]) => least(values.slice(-third)) - least(values.slice(0, third));
  const live = rise(past.live);
  if (live <= 0.1 * least(past.live.slice(0, third)) || live < 1 << 20) {
    return null;
  }
  const tags = [...past.columns].map(([tag, bytes]) => ({ tag, rise: rise(bytes) })).sort((a, b) => b.rise - a.rise);
  const most = tags.length > 0 && tags[0].rise > 0 ? `; ${tags[0].tag} by ${bytesText(tags[0].rise)}` : "";
  return advice(
    "warn",
    `What stays live has grown by ${bytesText(live)} in ${secondsText(past.span)}${most}.`,
    "If it never stops, something is not freed: look at the oldest blocks below.",
  );
}

function worries(live: Live, past: Past): HTMLElement[] {
  const out: HTMLElement[] = [];
  const last = live.refusals[0];
  if (last) {
    const count = live.process.sum.refusals ?? live.refusals.length;
    out.push(advice("bad", `${countText(count)} ${count === 1 ? "request was" : "requests were"} refused.`, `The last: ${last.text}`));
  }
  const grown = growth(past);
  return grown ? [...out, grown] : out;
}

export function wordsTell(live: Live, past: Past): void {
  const name = live.process.command || `process ${live.process.pid}`;
  document.title = `${live.process.pid}: GPU memory`;
  byId("title").textContent = name;
  byId("story").replaceChildren(
    make("p", [firstSentence(live), ownerSentence(live), pressureSentence(live)].filter(Boolean).join(" ")),
  );
  byId("tiles").replaceChildren(...tiles(live, past));
  byId("advice").replaceChildren(...worries(live, past));
  byId("made").textContent = `libvram ${live.process.library} in the process, ${live.version} here`;
}
