// What the checks of pages in a real browser share: its windows, and a run over files that counts their defects.
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const puppeteer = createRequire(path.join(path.resolve(process.env.VIEWERS), 'package.json'))('puppeteer-core');
export const DESK = { width: 1280, height: 900 };
const TABLET = { width: 800, height: 1000 };
const PHONE = { width: 360, height: 740, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
export const SMALL = Object.entries({ tablet: TABLET, phone: PHONE });
const MOST_COMPLAINTS = 12;

export const scheme = (page, value) => page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
export const settle = (page) => page.evaluate(() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
}));
export const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** The ground is bright, and dark where the reader asks for it. */
export function checkGround(light, dark, complain) {
  const brightness = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0);
  if (brightness(dark) > 150 || brightness(light) < 600) complain(`the ground is ${light}, and ${dark} in the dark`);
}

/** Uses each file of the command line with `use(page, url, file, complain, save)`, and ends the process; `usage` says what is typed. */
export async function useAll(usage, use) {
  const words = process.argv.slice(2);
  const folder = words[0] === '--pictures' ? words.splice(0, 2)[1] : undefined;
  if (words.length === 0) {
    console.error(`usage: ${usage}`);
    process.exit(2);
  }
  if (folder) mkdirSync(folder, { recursive: true });
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  let faults = 0;
  for (const file of words) {
    const page = await browser.newPage();
    let complaints = 0;
    const complain = (what) => {
      complaints += 1;
      if (complaints <= MOST_COMPLAINTS) console.error(`${file}: ${what}`);
    };
    const url = pathToFileURL(path.resolve(file)).href;
    page.on('pageerror', (error) => complain(`an error in the page: ${error.message}`));
    page.on('console', (message) => {
      if (['error', 'warn', 'warning'].includes(message.type())) complain(`the console says: ${message.text()}`);
    });
    page.on('dialog', (dialog) => { complain(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on('request', (request) => {
      if (request.url() !== url) complain(`asks for ${request.url()}`);
    });
    const save = async (name, selector) => {
      if (!folder) return;
      const target = path.join(folder, `${path.basename(file).replace(/\.\w+$/, '')}-${name}.png`);
      const element = selector ? await page.$(selector) : null;
      if (element) await element.screenshot({ path: target });
      else if (!selector) await page.screenshot({ path: target, fullPage: true });
    };
    let done = '';
    try {
      done = await use(page, url, file, complain, save);
    } catch (error) {
      complain(error.stack);
    }
    await page.close();
    faults += complaints;
    if (complaints === 0) console.log(`${file}: ${done}`);
  }
  await browser.close();
  process.exit(faults === 0 ? 0 : 1);
}
