// SPDX-License-Identifier: Apache-2.0
// browser.mjs CHROMIUM FOLDER [--frames NAME]: opens the pages in FOLDER and uses them as a reader would. Exit code 1 and
// a line for each thing that is not as it should be. --frames measures one page alone.
import { chromium } from "playwright-core";
import { reading } from "./browser_reading.mjs";
import { hostileViews, policies, refusals, several } from "./browser_views.mjs";

const [executablePath, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let failures = 0;

function expect(good, what) {
  if (!good) {
    failures++;
    console.log(`FAILED: ${what}`);
  }
}

async function open(name, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1600, height: 1000 }, ...options });
  const errors = [];
  await page.addInitScript(() => { // a text in a canvas can be read only while it is drawn
    const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
    window.drawn = new Map();
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
      window.drawn.set(this.canvas.id, []);
      clearRect.apply(this, box);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
      const { width } = this.measureText(text);
      const left = x - (this.textAlign === "right" ? width : this.textAlign === "center" ? width / 2 : 0);
      window.drawn.get(this.canvas.id)?.push({ text, y, left, right: left + width, width: this.canvas.clientWidth });
      fillText.call(this, text, x, y, ...more);
    };
  });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => !/^(file|data|blob):/.test(request.url()) && errors.push(request.url()));
  const began = Date.now();
  await page.goto(`file://${folder}/${name}.html`);
  await page.locator("html[data-ready]").waitFor({ state: "attached", timeout: 60000 }); // the page allows no eval
  await page.waitForTimeout(300);
  console.log(`${name}: open after ${Date.now() - began} ms`);
  return { page, errors };
}

// Different colours in a canvas: 1 or 2 means that nothing was drawn.
const colours = (page, id) =>
  page.evaluate((id) => {
    const canvas = document.getElementById(id);
    const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(data).size;
  }, id);

const bytesOf = (page, id) => page.evaluate((id) => document.getElementById(id).toDataURL(), id);
const text = (page, id) => page.evaluate((id) => document.getElementById(id).textContent, id);

async function views() {
  const { page, errors } = await open("training");
  expect((await colours(page, "timeline")) > 6, "the timeline is drawn");
  expect((await colours(page, "addresses")) > 5, "the map of addresses is drawn");
  expect((await page.locator("#flame .cell").count()) > 8, "the flame graph has cells");
  expect((await page.locator("#table-body tr").count()) === 5, "the table has five tags");
  expect(/peak/i.test(await text(page, "story")), "the story comes first");

  const whole = await bytesOf(page, "timeline");
  await page.locator("#timeline").hover({ position: { x: 800, y: 200 } });
  await page.waitForTimeout(100);
  expect(await page.locator("#tip").isVisible(), "hovering shows what is under the pointer");
  expect(/live/.test(await text(page, "tip")), "and says how much is live");
  await page.mouse.wheel(0, -600);
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "timeline")) !== whole, "the wheel zooms");
  await page.locator("#timeline").focus();
  await page.keyboard.press("0");
  await page.waitForTimeout(200);
  await page.mouse.move(5, 5);
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "timeline")) === whole, "the key 0 shows all again");
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowLeft");
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "timeline")) !== whole, "keys zoom and pan");
  await page.keyboard.press("0");

  await page.locator("#flame-left").click();
  expect(/keep_loss/.test(await text(page, "flame")), "the flame graph of leaks names the function that leaks");
  await page.locator("#by-site").click();
  await page.waitForTimeout(200);
  await page.locator("#search").fill("take");
  expect((await page.locator("#table-body tr").count()) === 1, "searching leaves one row");
  await page.locator("#search").fill("");
  await page.locator("#timeline").click({ position: { x: 400, y: 200 } });
  await page.locator("#timeline").click({ position: { x: 1400, y: 200 }, modifiers: ["Shift"] });
  await page.locator("#flame-difference").click();
  await page.waitForTimeout(200);
  expect(/more than/.test(await text(page, "flame-title")), "two moments are compared");
  await page.locator("#addresses").click({ position: { x: 900, y: 400 } });
  await page.waitForTimeout(100);
  expect(/0x[0-9a-f]+/.test(await text(page, "block")), "a click on a block shows its life");
  await page.emulateMedia({ media: "print" });
  expect(!(await page.locator(".bar").first().isVisible()), "buttons are not printed");
  expect((await page.pdf()).length > 10000, "it prints");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

async function sizes() {
  for (const name of ["training", "ranks", "policies"]) {
    for (const [width, colorScheme] of [[390, "light"], [390, "dark"], [1600, "dark"]]) {
      const { page, errors } = await open(name, { viewport: { width, height: 844 }, colorScheme });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
      expect(!wide, `${name}: nothing is wider than a window of ${width} pixels`);
      expect(errors.length === 0, `${name}: no errors at ${width}: ${errors[0]}`);
      await page.close();
    }
  }
}

async function hostileNames() {
  const { page } = await open("hostile");
  expect((await page.title()) !== "run", "no name of a trace runs");
  expect((await page.locator("img").count()) === 0, "no name of a trace becomes an element");
  expect(/onerror/.test(await text(page, "main")), "the name is shown as text");
  await page.close();
}

const part = (values, at) => [...values].sort((a, b) => a - b)[Math.floor(values.length * at)] ?? Number.NaN;

// Zooms and pans by the wheel: how long until the next frame is there, and how much of the processor's time the page's
// own script needs for it. The first depends on what else the machine does, the second does not.
async function frames(name, id = "timeline") {
  const { page } = await open(name);
  await page.locator(`#${id}`).scrollIntoViewIfNeeded();
  await page.waitForTimeout(300);
  await browser.startTracing(page, { categories: ["devtools.timeline"] });
  const costs = await page.evaluate(async (id) => {
    const canvas = document.getElementById(id);
    const box = canvas.getBoundingClientRect();
    const costs = [];
    for (let i = 0; i < 120; i++) {
      const pan = i >= 20;
      canvas.dispatchEvent(new WheelEvent("wheel", {
        deltaX: pan ? 30 : 0, deltaY: pan ? 0 : -60, clientX: box.left + 700, clientY: box.top + 50, cancelable: true,
      }));
      const began = performance.now();
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
      costs.push(performance.now() - began);
    }
    return costs;
  }, id);
  const events = JSON.parse((await browser.stopTracing()).toString()).traceEvents;
  const script = events.filter((event) => event.name === "FireAnimationFrame" && event.tdur).map((event) => event.tdur / 1000)
    .slice(-100);
  console.log(`${name}, ${id}: frames ${part(costs, 0.5).toFixed(1)} ms, 95 % within ${part(costs, 0.95).toFixed(1)} ms; ` +
    `script of a panned frame ${part(script, 0.5).toFixed(1)} ms, 95 % within ${part(script, 0.95).toFixed(1)} ms`);
  await page.close();
  return script.length > 0 ? part(script, 0.95) : 0; // a system may not count the time of threads
}

if (process.argv.includes("--frames")) {
  const name = process.argv[process.argv.indexOf("--frames") + 1];
  await frames(name);
  await frames(name, "addresses");
} else {
  await views();
  await sizes();
  await hostileNames();
  const use = { open, expect, colours, bytesOf, text };
  await several(use);
  await policies(use);
  await refusals(use);
  await hostileViews(use);
  await reading(use);
  expect((await frames("million")) < 12, "panning the timeline leaves time for 60 frames a second");
  expect((await frames("million", "addresses")) < 12, "and so does panning the map");
}
await browser.close();
console.log(failures === 0 ? "all as it should be" : `${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
