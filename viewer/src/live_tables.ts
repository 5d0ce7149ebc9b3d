// SPDX-License-Identifier: Apache-2.0
// Tags, pools, refusals and blocks of a running process.

import { byId, make } from "./dom";
import { bytesText, countText, timeText } from "./format";
import type { Block, Group, Live, Past, Pool, Tag } from "./live_data";
import { shareText, sizeText } from "./live_words";
import { columnColour, themeNow } from "./theme";

const opened = new Set<string>(); // stacks that the reader has opened: rows are made anew each second

function row(name: HTMLElement, figures: string[]): HTMLElement {
  const line = make("tr");
  const cell = make("td");
  cell.append(name);
  line.append(cell, ...figures.map((text) => make("td", text, "figure")));
  return line;
}

function head(id: string, names: string[]): void {
  const line = make("tr");
  line.append(...names.map((name, i) => make("th", name, i === 0 ? "" : "figure")));
  byId(id).replaceChildren(line);
}

function tagRow(tag: Tag, past: Past, several: boolean): HTMLElement {
  const name = make("span");
  const colour = make("span", "", "swatch");
  colour.style.background = columnColour(past.colourOf(tag.tag), themeNow());
  name.append(colour, make("span", several && tag.device ? `${tag.tag} (${tag.device})` : tag.tag));
  const quota = tag.hard_bytes ?? tag.soft_bytes;
  return row(name, [
    sizeText(tag.own_bytes),
    sizeText(tag.used_bytes),
    sizeText(tag.peak_bytes),
    quota === null ? "" : `${bytesText(quota)}${tag.hard_bytes === null ? " (soft)" : ""}`,
    tag.refusals ? countText(tag.refusals) : "",
  ]);
}

function poolRow(pool: Pool): HTMLElement {
  return row(make("span", pool.device ? `${pool.name} (${pool.device})` : pool.name), [
    sizeText(pool.held_bytes),
    sizeText(pool.live_bytes),
    sizeText(pool.cached_bytes),
    pool.asleep_bytes ? bytesText(pool.asleep_bytes) : "",
    pool.limit_bytes === null ? "" : bytesText(pool.limit_bytes),
    sizeText(pool.peak_held_bytes),
    pool.pressure_value === null ? pool.pressure : `${pool.pressure}, ${shareText(pool.pressure_value, 1)}`,
    pool.allocations_per_second === null ? "–" : countText(Math.round(pool.allocations_per_second)),
    pool.refusals ? countText(pool.refusals) : "",
  ]);
}

// The tag, and the stack behind it if there is one.
function stackCell(key: string, title: string, stack: string[]): HTMLElement {
  if (stack.length === 0) {
    return make("span", title);
  }
  const box = make("details");
  const label = make("summary", `${title}  `);
  label.append(make("span", stack[0], "frame"));
  box.append(label, ...stack.map((frame) => make("div", frame, "frame")));
  box.open = opened.has(key);
  box.addEventListener("toggle", () => (box.open ? opened.add(key) : opened.delete(key)));
  return box;
}

function groupRow(group: Group): HTMLElement {
  const tag = group.rest ? "(all others)" : `${group.tag ?? "(no tag)"}${group.foreign ? " (foreign)" : ""}`;
  return row(stackCell(`${tag}\n${group.stack.join("\n")}`, tag, group.stack), [
    bytesText(group.bytes),
    countText(group.blocks),
    timeText(group.oldest_ns),
    group.old_bytes > 0 ? bytesText(group.old_bytes) : "",
  ]);
}

function blockRow(block: Block): HTMLElement {
  const title = [block.address, block.tag, block.name].filter(Boolean).join(", ");
  return row(stackCell(`block ${block.address}`, title, block.stack), [
    bytesText(block.requested_bytes),
    timeText(block.age_ns),
    block.pool ?? "",
  ]);
}

function blocksShow(live: Live): void {
  const { blocks } = live;
  byId("blocks-note").textContent = blocks.problem
    ?? (blocks.known
      ? `${bytesText(blocks.bytes)} in ${countText(blocks.blocks)} blocks, asked ${Math.round(blocks.age_ns / 1e9)} s ago` +
        (blocks.lost_records > 0 ? `; ${countText(blocks.lost_records)} records were lost, so blocks may be missing` : "")
      : "The process is being asked.");
  byId("groups-table").hidden = byId("largest-table").hidden = !blocks.known;
  head("groups-head", ["tag and call stack", "bytes", "blocks", "oldest", "older than a minute"]);
  byId("groups-body").replaceChildren(...blocks.groups.map(groupRow));
  head("largest-head", ["largest blocks", "bytes", "age", "pool"]);
  byId("largest-body").replaceChildren(...blocks.largest.map(blockRow));
}

function refusalsShow(live: Live): void {
  byId("refusals").replaceChildren(
    ...live.refusals.map((refusal) => {
      const line = make("li", "", "bad");
      const date = new Date(refusal.date_ns / 1e6).toLocaleTimeString();
      const where = `${refusal.pool}${refusal.tag ? `, ${refusal.tag}` : ""}`;
      line.append(make("strong", `${date}: ${bytesText(refusal.bytes)} for ${where}.`), make("span", ` ${refusal.text}`));
      return line;
    }),
  );
  byId("refusals-note").textContent = live.refusals.length === 0 ? "No request was refused." : "";
}

export function tablesShow(live: Live, past: Past): void {
  const more = (shown: number, all: number) => (all > shown ? `${countText(all - shown)} more` : "");
  const byOwn = [...live.tags].sort((a, b) => (b.own_bytes ?? 0) - (a.own_bytes ?? 0));
  head("tags-head", ["tag", "now", "with those below", "at most", "quota", "refused"]);
  byId("tags-body").replaceChildren(...byOwn.map((tag) => tagRow(tag, past, live.devices.length > 1)));
  byId("tags-section").hidden = live.tags.length === 0;
  byId("timeline-title").textContent = `Live memory over time, by ${live.tags.length > 0 ? "tag" : "pool"}`;
  byId("tags-note").textContent = more(live.tags.length, live.process.tags);
  head("pools-head", ["pool", "held", "live", "cached", "asleep", "limit", "at most", "pressure", "allocations/s", "refused"]);
  byId("pools-body").replaceChildren(...live.pools.map(poolRow));
  byId("pools-note").textContent = more(live.pools.length, live.process.pools);
  refusalsShow(live);
  blocksShow(live);
}
