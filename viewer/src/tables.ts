// SPDX-License-Identifier: Apache-2.0
// The groups of the chosen grouping as a table that can be sorted and searched.

import type { Group, Scene } from "./data";
import { byId, make } from "./dom";
import { bytesText, countText } from "./format";
import { nameCell } from "./groups";
import { columnColour, themeNow } from "./theme";
import type { Shown } from "./window";

type Key = "name" | "peak" | "left" | "blocks" | "bytes";

const heads: { key: Key; text: string }[] = [
  { key: "name", text: "name" },
  { key: "peak", text: "most live" },
  { key: "left", text: "never freed" },
  { key: "blocks", text: "allocations" },
  { key: "bytes", text: "bytes allocated" },
];
const SHOWN_MAX = 300;

export class Table {
  private key: Key = "peak";
  private down = true;
  private readonly search = byId<HTMLInputElement>("search");

  constructor(private readonly scene: Scene, private readonly shown: Shown) {
    this.search.addEventListener("input", () => this.draw());
    let drawn = "";
    shown.listen(() => {
      const key = `${shown.view.grouping} ${themeNow().dark}`;
      if (key !== drawn) {
        drawn = key;
        this.draw();
      }
    });
  }

  private rows(): Group[] {
    const wanted = this.search.value.trim().toLowerCase();
    const sign = this.down ? -1 : 1;
    return this.scene.meta.groupings[this.shown.view.grouping].rows
      .filter((row) => row.name.toLowerCase().includes(wanted))
      .sort((a, b) => {
        const one = a[this.key];
        const other = b[this.key];
        return one < other ? -sign : one > other ? sign : 0;
      });
  }

  draw(): void {
    const theme = themeNow();
    const head = make("tr");
    for (const { key, text } of heads) {
      const cell = make("th", "", key === "name" ? "" : "figure");
      const button = make("button", text + (key === this.key ? (this.down ? " ▼" : " ▲") : ""));
      cell.setAttribute("aria-sort", key === this.key ? (this.down ? "descending" : "ascending") : "none");
      button.addEventListener("click", () => {
        this.down = key === this.key ? !this.down : key !== "name";
        this.key = key;
        this.draw();
      });
      cell.append(button);
      head.append(cell);
    }
    const rows = this.rows();
    const by = this.scene.meta.groupings[this.shown.view.grouping].name;
    const body = rows.slice(0, SHOWN_MAX).map((row) => {
      const line = make("tr");
      line.append(nameCell(this.scene, this.shown, by, row.name, columnColour(row.column, theme)), ...[bytesText(row.peak), row.left > 0 ? bytesText(row.left) : "", countText(row.blocks),
        bytesText(row.bytes)].map((text) => make("td", text, "figure")));
      return line;
    });
    byId("table-head").replaceChildren(head);
    byId("table-body").replaceChildren(...body);
    byId("table-note").textContent = rows.length > SHOWN_MAX ? `${countText(rows.length - SHOWN_MAX)} more` : "";
  }
}
