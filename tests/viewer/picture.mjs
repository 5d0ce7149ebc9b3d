// SPDX-License-Identifier: Apache-2.0
// picture.mjs CHROMIUM PAGE PNG WIDTH SCHEME [SECTION [BUTTON...]]: a picture of a page, or of one of its sections after
// some buttons were pressed: their ids, or what follows # in a selector. tools/pictures makes those of the documents by it.
import { chromium } from "playwright-core";

const [executablePath, file, png, width, colorScheme, section, ...buttons] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: Number(width), height: 900 }, colorScheme });
await page.goto(`file://${file}`);
await page.locator("html[data-ready]").waitFor({ state: "attached", timeout: 60000 }); // the page allows no eval
for (const button of buttons) {
  await page.locator(`#${button}`).first().click();
}
await page.mouse.move(2, 2);
await page.waitForTimeout(400);
const target = section ? page.locator(`section[aria-labelledby="${section}"]`) : page;
await target.screenshot({ path: png, ...(section ? {} : { fullPage: true }) });
await browser.close();
