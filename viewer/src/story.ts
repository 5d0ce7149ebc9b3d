// SPDX-License-Identifier: Apache-2.0
// Words first: what the trace says, before any picture.

import type { Scene } from "./data";
import { byId, make } from "./dom";
import { bytesText, countText, timeText } from "./format";

function tile(name: string, figure: string, more: string): HTMLElement {
  const box = make("div", "", "tile");
  box.append(make("div", name, "tile-name"), make("div", figure, "tile-figure"), make("div", more, "tile-more"));
  return box;
}

function blocksText(count: number): string {
  return `${countText(count)} block${count === 1 ? "" : "s"}`;
}

export function storyTell(scene: Scene): void {
  const { meta } = scene;
  const { report } = meta;
  const name = report.file.split("/").pop() ?? report.file;
  const left = report.live.bytes + report.lost.bytes;
  const leftBlocks = report.live.blocks + report.lost.blocks;
  const reserved = report.peak.reserved_bytes;
  const tiles = [
    tile("peak", bytesText(report.peak.bytes), `${blocksText(report.peak.blocks)} at ${timeText(report.peak.time_ns)}`),
  ];
  if (reserved) {
    const ratio = report.peak.bytes > 0 ? reserved / report.peak.bytes : 1;
    tiles.push(tile("held at most", bytesText(reserved), `${ratio.toFixed(3)} times the peak`));
  }
  tiles.push(
    tile("never freed", left > 0 ? bytesText(left) : "nothing", left > 0 ? blocksText(leftBlocks) : ""),
    tile("allocations", countText(report.churn.allocs), `${bytesText(report.churn.alloc_bytes)} in ${timeText(meta.span)}`),
  );
  if (report.churn.refusals > 0) {
    tiles.push(tile("refused", countText(report.churn.refusals), "see the marks on the timeline"));
  }
  document.title = `${name}: GPU memory`;
  byId("title").textContent = name;
  byId("story").replaceChildren(...report.story.map((sentence) => make("p", sentence)));
  byId("tiles").replaceChildren(...tiles);
  byId("advice").replaceChildren(
    ...report.advice.map((advice) => {
      const line = make("li", "", advice.weight);
      line.append(make("strong", advice.found), make("span", ` ${advice.mend}`));
      return line;
    }),
  );
  byId("made").textContent = `libvram ${meta.version}, ${countText(report.events)} events`;
}
