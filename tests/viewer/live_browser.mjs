// SPDX-License-Identifier: Apache-2.0
// live_browser.mjs CHROMIUM URL [PICTURES]: opens the page of `vram report --serve` and uses it as a reader would, while
// the process goes on. Writes "end it" when the process shall end. Exit code 1 and a line for each thing that is not as
// it should be. With a folder PICTURES it leaves screenshots there.
import { once } from "node:events";
import { chromium } from "playwright-core";

const [executablePath, url, pictures] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let failures = 0;

function expect(good, what) {
  if (!good) {
    failures++;
    console.log(`FAILED: ${what}`);
  }
}

// The page forbids evaluating text, so that playwright's own waiting does not work on it.
async function until(page, what, seconds = 20) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await page.waitForTimeout(100)) {
    if (await page.evaluate(what)) {
      return true;
    }
  }
  return false;
}

async function open(options = {}) {
  const page = await browser.newPage({ viewport: { width: 1600, height: 1000 }, ...options });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => !request.url().startsWith(url) && !/^data:/.test(request.url()) && errors.push(request.url()));
  await page.goto(url);
  expect(await until(page, () => Number(document.documentElement.dataset.updates) >= 2), "the page is updated");
  return { page, errors };
}

const text = (page, id) => page.evaluate((id) => document.getElementById(id).textContent, id);
const picture = (page) => page.evaluate(() => document.getElementById("timeline").toDataURL());
const shot = (page, name, fullPage = true) => pictures && page.screenshot({ path: `${pictures}/${name}.png`, fullPage });
const colours = (page) =>
  page.evaluate(() => {
    const canvas = document.getElementById("timeline");
    const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(data).size;
  });

async function moves() {
  const { page, errors } = await open();
  const before = { live: await text(page, "tile-live"), picture: await picture(page), tags: await text(page, "tags-body") };
  expect(/holds .* by 1 pool; .* are live/.test(await text(page, "story")), "words come first");
  expect(/has most of it/.test(await text(page, "story")), "and name who has most");
  expect(/Pressure is (low|medium|high)/.test(await text(page, "story")), "and the pressure");
  expect((await colours(page)) > 4, "the timeline is drawn");
  const updates = await page.evaluate(() => Number(document.documentElement.dataset.updates));
  await page.waitForTimeout(3200);
  const now = await page.evaluate(() => Number(document.documentElement.dataset.updates));
  expect(now - updates >= 2 && now - updates <= 5, `it is updated each second: ${now - updates} times in 3.2 s`);
  expect((await text(page, "tile-live")) !== before.live, "live bytes move");
  expect((await picture(page)) !== before.picture, "the timeline grows");
  expect((await text(page, "tags-body")) !== before.tags, "the table of tags moves");
  expect(await until(page, () => /1000 MiB for training/.test(document.getElementById("refusals").textContent)), "a refusal is told in words");
  expect(await until(page, () => /load_weights/.test(document.getElementById("groups-body").textContent)), "stacks of blocks are shown");
  await page.locator("#groups-body summary").first().click();
  await page.waitForTimeout(2500);
  expect((await page.locator("#groups-body details[open]").count()) === 1, "a stack that was opened stays open");
  await uses(page);
  await shot(page, "live", false);
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  return page;
}

async function uses(page) {
  await page.locator("#pause").click();
  await page.waitForTimeout(1500);
  const stopped = await picture(page);
  await page.waitForTimeout(1500);
  expect((await picture(page)) === stopped, "pause holds it");
  await page.locator("#timeline").hover({ position: { x: 800, y: 200 } });
  await page.waitForTimeout(100);
  expect(/live/.test(await text(page, "tip")) && /held/.test(await text(page, "tip")), "hovering shows a moment");
  await page.mouse.wheel(0, -600);
  await page.waitForTimeout(200);
  expect((await picture(page)) !== stopped, "the wheel zooms");
  await page.locator("#timeline").focus();
  await page.keyboard.press("0");
  await page.mouse.move(5, 5);
  await page.waitForTimeout(200);
  expect((await picture(page)) === stopped, "the key 0 shows all again");
  await page.locator("#pause").click();
}

// Opened later, at the width of a phone, in the dark: it has the past.
async function later() {
  const { page, errors } = await open({ viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
  expect(!wide, "nothing is wider than a phone");
  expect(/over the last (\d\d|[3-9]) ?s|over the last \d+\.\d+ s/.test(await page.locator("#timeline").getAttribute("aria-label")),
    "a page that is opened later has the past");
  await shot(page, "live-phone-dark");
  expect(errors.length === 0, `no errors on a phone: ${errors[0]}`);
  await page.close();
}

// A foreign page can neither read what is served nor frame it.
async function foreign() {
  const page = await browser.newPage();
  await page.goto("about:blank");
  const read = await page.evaluate((url) => fetch(url + "live.json").then((a) => a.status, () => "refused"), url);
  expect(read !== 200, `a foreign page reads nothing: ${read}`);
  await page.setContent(`<iframe src="${url}"></iframe>`);
  await page.waitForTimeout(1000);
  const frame = page.frames().find((f) => f !== page.mainFrame());
  const shown = frame ? await frame.evaluate(() => document.getElementById("main") !== null).catch(() => false) : false;
  expect(!shown, "a foreign page cannot frame it");
  await page.close();
}

const page = await moves();
await later();
await foreign();
console.log("end it");
await once(process.stdin, "end", process.stdin.resume());
expect(await until(page, () => document.documentElement.dataset.state === "ended"), "the page tells that the process has ended");
expect(/has ended/.test(await text(page, "status")), "in words");
expect((await colours(page)) > 4, "and what was there stays");
await shot(page, "live-ended");
await browser.close();
console.log(failures === 0 ? "all as it should be" : `${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
