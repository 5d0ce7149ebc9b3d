// SPDX-License-Identifier: Apache-2.0
// What a reader finds in the pictures: the axes, one group alone, the flame graph's names and search, a refusal of
// PyTorch's. `use` has the helpers of browser.mjs. The page "torch" is that of browser_test.py: its peak lasts 12 us.

const settled = (page) => page.waitForTimeout(150);

// The texts that were drawn last on a canvas, each with where it begins and ends.
const drawn = (page, id) => page.evaluate((id) => window.drawn.get(id).filter(({ text }) => text !== ""), id);

async function axes({ expect, text, open }) {
  const { page, errors } = await open("torch");
  expect((await text(page, "timeline-title")) === "Live memory over events", "a peak that nobody would see is shown by events");
  const wide = await page.evaluate(() => { // the pixels in which two thirds of the peak are live
    const canvas = document.getElementById("timeline");
    const { data } = canvas.getContext("2d").getImageData(64, 210, canvas.width - 64, 1);
    return data.filter((_, i) => i % 4 === 3 && data[i] > 0).length;
  });
  expect(wide > 200, `it is ${wide} pixels wide there`);
  const before = await text(page, "flame-title");
  await page.locator("#axis-time").focus();
  await page.keyboard.press("Enter");
  await settled(page);
  expect((await text(page, "timeline-title")) === "Live memory over time", "the keyboard switches to time");
  expect((await page.getAttribute("#axis-time", "aria-pressed")) === "true", "and the button says so");
  expect((await text(page, "flame-title")).replace(/.*: /, "") === before.replace(/.*: /, ""), "the chosen moment stays");
  for (const [kind, steps] of [["time", 1], ["time", 12], ["time", 30], ["events", 1], ["events", 12]]) {
    await page.locator(`#axis-${kind}`).click();
    await page.locator("#timeline").focus();
    await page.keyboard.press("0");
    for (let i = 0; i < steps; i++) {
      await page.keyboard.press("+");
    }
    await settled(page);
    const labels = (await drawn(page, "timeline")).filter(({ y }) => y > 300).map((label) => label.text);
    expect(labels.length > 1 && new Set(labels).size === labels.length, `labels over ${kind} differ: ${labels.join(", ")}`);
  }
  await page.locator("#addresses").scrollIntoViewIfNeeded();
  await page.locator("#addresses").hover({ position: { x: 500, y: 200 } });
  await page.keyboard.down("Shift");
  for (let i = 0; i < 12; i++) {
    await page.mouse.wheel(0, -300);
  }
  await page.keyboard.up("Shift");
  await settled(page);
  const places = (await drawn(page, "addresses")).map((label) => label.text);
  expect(places.length > 1 && new Set(places).size === places.length, `labels of addresses differ: ${places.join(", ")}`);
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

async function peakIsWhole({ expect, open }) {
  for (const [name, width] of [["torch", 1600], ["torch", 390], ["training", 390], ["ends", 390], ["ends", 1000]]) {
    const { page } = await open(name, { viewport: { width, height: 800 } });
    const peak = (await drawn(page, "timeline")).find((label) => label.text.startsWith("peak "));
    const inside = peak && peak.left >= 64 && peak.right <= peak.width && peak.y > 4;
    expect(inside, `${name}, ${width}: all of the peak's label is there: ${JSON.stringify(peak)}`);
    await page.locator("#zoom-peak").click();
    await settled(page);
    expect((await drawn(page, "timeline")).some((label) => label.text.startsWith("peak ")), `${name}: the peak is in its own part`);
    await page.close();
  }
}

async function alone({ expect, text, open, bytesOf }) {
  const { page, errors } = await open("torch");
  const seen = async (id) => { // what is out of sight is not drawn
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    await settled(page);
    return bytesOf(page, id);
  };
  const [map, timeline] = [await seen("addresses"), await seen("timeline")];
  const named = /forward \(torch\/nn\/linear\.py:7\)/;
  await page.locator("#legend button").filter({ hasText: named }).click();
  await settled(page);
  expect(/: forward .* alone$/.test(await text(page, "timeline-title")), "the legend shows what it names alone");
  expect((await seen("addresses")) !== map && (await seen("timeline")) !== timeline, "in both pictures");
  expect(!/backward/.test(await text(page, "flame")) && /forward/.test(await text(page, "flame")), "and in the flame graph");
  expect((await page.locator("#table-body [aria-pressed=true]").count()) === 1, "its row is pressed");
  await page.keyboard.press("Enter"); // the button that was pressed still has the focus
  expect((await seen("timeline")) === timeline, "once more, and all are shown");
  for (const table of ["table-body", "difference-body"]) {
    await page.locator(`#${table} button`).filter({ hasText: named }).focus();
    await page.keyboard.press("Enter");
    await settled(page);
    expect(/alone$/.test(await text(page, "timeline-title")), `a row of ${table} does it too`);
    const kept = await page.evaluate(() => document.activeElement.textContent);
    expect(named.test(kept), `and keeps the focus: ${kept}`);
    await page.keyboard.press("Enter");
    await settled(page);
  }
  const small = page.locator("#table-body button").last(); // it has no colour of its own
  await small.click();
  await seen("timeline");
  expect((await drawn(page, "timeline")).some((label) => label.text === "peak 1.00 MiB"), "what has no colour is drawn from its blocks");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

async function flames({ expect, text, open }) {
  const { page, errors } = await open("torch");
  const flame = await text(page, "flame");
  expect(!/_call_impl|wrapper generic/.test(flame), "what passes a call on is folded");
  expect(/wrapper mine\.py:3/.test(flame), "but not the program's own function of that name");
  expect(/forward linear\.py:7/.test(flame), "cells say file and line");
  const title = await page.locator("#flame .cell").filter({ hasText: "forward linear" }).first().getAttribute("title");
  expect(title.startsWith("forward (torch/nn/linear.py:7)\n"), `paths begin at the package: ${title}`);
  await page.locator("#flame-every").check();
  expect(/_call_impl module\.py:9/.test(await text(page, "flame")), "all frames are one step away");
  await page.locator("#flame-search").fill("LINEAR");
  const note = await text(page, "flame-note");
  expect(/^\d+ calls?, .*iB, \d+\.\d %$/.test(note), `searching says how much was found: ${note}`);
  const faint = await page.locator("#flame .cell.faint").count();
  expect(faint > 0 && faint < (await page.locator("#flame .cell").count()), "and leaves only that bright");
  await page.locator("#flame-search").fill("nothing like it");
  expect(/^No frame/.test(await text(page, "flame-note")), "or that nothing was");
  await page.locator("#flame-search").fill("");
  await page.locator("#flame .cell").nth(2).focus();
  await page.keyboard.press("Enter");
  expect((await page.evaluate(() => document.activeElement.className)) === "cell", "a cell that was opened keeps the focus");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

async function differences({ expect, text, open }) {
  const { page } = await open("torch");
  await page.locator("#flame-difference").click();
  expect((await text(page, "flame-title")) === "Difference by call stack", "without a second moment there is a heading");
  expect(/second moment/.test(await text(page, "flame-note")), "and what to do");
  expect(!(await page.locator("#flame .cell").first().isVisible()), "but no other moment's graph");
  await page.locator("#difference-now-when").selectOption("other");
  expect(!/against|Choose/.test(await text(page, "difference-title")), "the same holds for the table");
  expect(!(await page.locator("#difference-body").isVisible()), "whose columns would be of no moment");
  await page.locator("#timeline").focus();
  await page.keyboard.press("Shift+Enter");
  await settled(page);
  expect(/ more than /.test(await text(page, "flame-title")), "the keyboard chooses the second moment");
  expect(/ against /.test(await text(page, "difference-title")), "for both");
  await page.close();
}

async function refused({ expect, text, open }) {
  const { page } = await open("torch");
  await page.locator("#refusals button").first().click();
  const report = await text(page, "refusal");
  expect(/Limit in force: .*set_per_process_memory_fraction.*70\.0 GiB free/.test(report), `the limit in force: ${report}`);
  expect(/Who asked: pool GPU 0/.test(report) && /asks \(train\.py:8\)/.test(report), "who asked");
  expect(/Tried to allocate 1\.00 GiB\. .*is allocated by PyTorch, and .*reserved by PyTorch but unallocated\./.test(report),
         "and PyTorch's words");
  await page.close();
  const own = (await open("training")).page;
  await own.locator("#refusals button").first().click();
  expect(/Limit in force: 700 MiB/.test(await text(own, "refusal")), "the library's limit");
  expect(/Who asked: pool training/.test(await text(own, "refusal")) && /refuse \(training\.c:\d+\)/.test(await text(own, "refusal")),
         "and who asked it");
  expect(!/alloc_cold|vram_alloc/.test(await text(own, "refusal")), "without what the library called");
  await own.close();
}

export async function reading(use) {
  await axes(use);
  await peakIsWhole(use);
  await alone(use);
  await flames(use);
  await differences(use);
  await refused(use);
}
