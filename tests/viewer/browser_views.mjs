// SPDX-License-Identifier: Apache-2.0
// The views of browser.mjs that show several traces, policies and refusals. `use` has its helpers.

export async function several(use) {
  const { expect, colours, bytesOf, text } = use;
  const { page, errors } = await use.open("ranks");
  expect((await page.locator("#traces-body tr").count()) === 3, "the chooser has three traces");
  expect((await colours(page, "overview")) > 4, "timelines are drawn above each other");
  expect(/3 traces/.test(await page.title()), "the title says how many");
  const first = await text(page, "title");
  await page.locator("#traces-body button").nth(1).click();
  await page.waitForTimeout(300);
  const second = await text(page, "title");
  expect(second !== first, "the chooser shows another trace");
  expect((await colours(page, "timeline")) > 6, "and its timeline is drawn");
  expect((await page.locator("#flame .cell").count()) > 8, "and its flame graph");
  await page.locator("#overview").click({ position: { x: 700, y: 20 } });
  await page.waitForTimeout(300);
  expect((await text(page, "title")) === first, "a click on a timeline chooses its trace");
  const before = await bytesOf(page, "timeline");
  await page.locator("#timeline").focus();
  await page.keyboard.press("+");
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "timeline")) !== before, "a trace that was chosen again listens");

  const whole = await bytesOf(page, "overview");
  await page.locator("#overview").hover({ position: { x: 90, y: 40 } }); // the first one begins where the axis does
  await page.mouse.wheel(0, -400);
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "overview")) !== whole, "the wheel zooms all of them");
  expect(await page.locator("#tip").isVisible(), "hovering names the trace");
  await page.locator("#overview").focus();
  await page.keyboard.press("0");
  await page.mouse.move(5, 5);
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "overview")) === whole, "the key 0 shows all again");
  if (await page.locator("#traces-align").isVisible()) {
    await page.locator("#traces-align").click();
    await page.waitForTimeout(200);
    expect((await bytesOf(page, "overview")) !== whole, "traces can begin at one time");
  }

  expect(/against/.test(await text(page, "difference-title")), "two traces are compared");
  await page.locator("#difference-by").selectOption("stack");
  await page.waitForTimeout(100);
  const rows = await text(page, "difference-body");
  expect(/keep_loss/.test(rows) && /\+\d/.test(rows), "by call stack, with what there is more of");
  const least = await page.locator("#difference-body tr").count();
  await page.locator("#difference-before-trace").selectOption("0");
  await page.locator("#difference-before-when").selectOption("end");
  await page.waitForTimeout(100);
  expect((await page.locator("#difference-body tr").count()) >= 1 && least > 1, "other traces and moments can be chosen");
  await page.emulateMedia({ media: "print" });
  expect((await page.pdf()).length > 10000, "it prints");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

export async function policies(use) {
  const { expect, colours, bytesOf, text } = use;
  const { page, errors } = await use.open("policies");
  expect(await page.locator("#policies").isVisible(), "policies are shown");
  expect((await page.locator("#policies-body tr").count()) === 3, "three of them");
  expect(/vram holds .* at most: .* than expandable, .* than caching\./.test(await text(page, "policies-words")),
         "the saving is a number in words");
  await page.locator("#policies").scrollIntoViewIfNeeded();
  await page.waitForTimeout(200);
  expect((await colours(page, "policies")) > 5, "each has a line");
  const whole = await bytesOf(page, "policies");
  await page.locator("#policies").hover({ position: { x: 800, y: 100 } });
  await page.waitForTimeout(100);
  expect(/caching holds/.test(await text(page, "tip")), "hovering says what each holds");
  await page.mouse.wheel(0, -400);
  await page.waitForTimeout(200);
  expect((await bytesOf(page, "policies")) !== whole, "they zoom with the timeline");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

// The first x at which the timeline has a mark of a refusal.
const markAt = (page) =>
  page.evaluate(() => {
    const canvas = document.getElementById("timeline");
    const { data, width } = canvas.getContext("2d").getImageData(0, 2, canvas.width, 1);
    for (let x = 64; x < width; x++) {
      if (data[4 * x] === 0xb3 && data[4 * x + 1] === 0 && data[4 * x + 2] === 0x1b) {
        return x + 3;
      }
    }
    return -1;
  });

export async function refusals(use) {
  const { expect, text } = use;
  const { page, errors } = await use.open("training");
  const x = await markAt(page);
  expect(x > 0, "the timeline has a mark for the refusal");
  await page.locator("#timeline").hover({ position: { x, y: 4 } });
  await page.waitForTimeout(100);
  expect(/refused/.test(await text(page, "tip")), "hovering over it says what was refused");
  await page.locator("#timeline").click({ position: { x, y: 4 } });
  await page.waitForTimeout(200);
  const report = await text(page, "refusal");
  expect(/600 MiB refused \(VRAM_ERR_LIMIT\)/.test(report), "a click opens the report");
  expect(/What would help: .*raise/.test(report), "with what would help");
  expect(/keep_loss/.test(report) && /model\/weights/.test(report), "who held what");
  expect(/cleanup\s*1\s*1\d\d MiB/.test(report), "and what each step gave");
  await page.locator("#refusals button").nth(1).focus();
  await page.keyboard.press("Enter");
  expect(/900 MiB/.test(await text(page, "refusal")), "the keyboard opens the next");
  const title = await text(page, "flame-title");
  await page.getByText("flame graph of this moment").click();
  await page.waitForTimeout(200);
  expect((await text(page, "flame-title")) !== title, "its flame graph is one step away");
  expect(errors.length === 0, `no errors: ${errors[0]}`);
  await page.close();
}

// Names that are HTML, in every view that shows names.
export async function hostileViews(use) {
  const { expect, text } = use;
  for (const [name, trace] of [["hostile", 0], ["ranks", 2]]) {
    const { page } = await use.open(name);
    if (trace > 0) {
      await page.locator("#traces-body button").nth(trace).click();
      await page.waitForTimeout(200);
    }
    await page.locator("#refusals button").first().click();
    expect(/onerror/.test(await text(page, "refusal")), `${name}: the report of a refusal shows names as text`);
    await page.locator("#difference-now-when").selectOption("peak");
    await page.locator("#overview, #timeline").last().hover({ position: { x: 600, y: 100 } });
    await page.waitForTimeout(200);
    expect((await page.title()) !== "run", `${name}: no name of a trace runs`);
    expect((await page.locator("img").count()) === 0, `${name}: no name of a trace becomes an element`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
    expect(!wide, `${name}: long names do not widen the page`);
    await page.close();
  }
}
