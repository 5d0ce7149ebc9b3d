// SPDX-License-Identifier: Apache-2.0
// The page of `vram report --serve`: asks each second, and shows what it is told.

import { byId, make } from "./dom";
import { Past, type Live } from "./live_data";
import { tablesShow } from "./live_tables";
import { LiveTimeline, secondsText } from "./live_timeline";
import { wordsTell } from "./live_words";
import { columnColour, themeNow } from "./theme";

const EACH_MS = 1000;
const RETRY_MS = 2000;

const past = new Past();
const timeline = new LiveTimeline(past);
let updates = 0;
let paused = false;
let ended = false;

function statusShow(text: string, state: string): void {
  const status = byId("status");
  if (status.textContent !== text) {
    status.textContent = text;
  }
  document.documentElement.dataset.state = state;
}

function legendDraw(): void {
  const theme = themeNow();
  const item = (name: string, colour: number) => {
    const box = make("span", "", "legend-item");
    const swatch = make("span", "", "swatch");
    swatch.style.background = columnColour(colour, theme);
    box.append(swatch, make("span", name));
    return box;
  };
  byId("legend").replaceChildren(
    ...past.shown().map((tag) => item(tag, past.colourOf(tag))),
    item("the rest", 0),
    make("span", "line: held, dashed: limit, red marks: refused", "legend-item"),
  );
}

function show(live: Live): void {
  past.take(live.past);
  const time = (date: number) => live.since_ns - (live.date_ns - date);
  timeline.update(live.refusals.map((refusal) => ({ time: time(refusal.date_ns), refusal })));
  wordsTell(live, past);
  tablesShow(live, past);
  legendDraw();
  statusShow(live.words ?? `Live: watched for ${secondsText(live.since_ns)}.`, live.state);
  ended = live.state === "ended";
  byId("main").hidden = false;
  byId("wait").hidden = true;
  document.documentElement.dataset.updates = String(++updates);
}

async function ask(): Promise<void> {
  const answer = await fetch(`live.json?generation=${past.generation}&from=${past.wanted}`, { cache: "no-store" });
  if (!answer.ok) {
    throw new Error(await answer.text());
  }
  show((await answer.json()) as Live);
}

async function run(): Promise<void> {
  let wait = EACH_MS;
  if (!paused) {
    try {
      await ask();
    } catch (error) {
      wait = RETRY_MS;
      console.info(error);
      statusShow("vram report --serve does not answer: it has ended, or is busy. What is shown is the last that it said.", "lost");
      byId("wait").textContent = "vram report --serve does not answer.";
    }
  }
  if (!ended) {
    setTimeout(() => void run(), wait);
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "go on" : "pause";
});
void run();
