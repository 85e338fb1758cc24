// Opens performance explorers in a real browser and uses them as a reader would; .ci/view_explorer runs this.
import { statSync } from 'node:fs';
import { DESK, SMALL, background, checkGround, scheme, settle, useAll } from './pages.mjs';

const MAX_BYTES = 3_000_000;
/** Until the page is drawn and answers, and until a change of a filter is drawn. */
const MAX_READY_MS = 1000;
const MAX_UPDATE_MS = 500;
/** Pages are opened so many times; the fastest counts, since other programs may be running. */
const OPENED = 3;

const text = (page, selector) => page.$eval(selector, (one) => one.innerText);
const summary = (page) => text(page, '#summary');
const shownPoints = async (page) => Number((/of ([\d\s\u202f]+) points?/.exec(await summary(page))?.[1] ?? '0').replace(/\D/g, ''));
/** The index of the first case that is drawn. */
const anyCase = (page) => page.evaluate(() => explorer.evaluate().points[0]?.one.index ?? null);

async function opened(page, url) {
  await page.goto(url);
  await settle(page);
  return page.evaluate(() => explorer.ready);
}

/** The first view compares different times. */
async function firstView(page, complain) {
  const isSelf = await page.evaluate(() => {
    const { points } = explorer.evaluate();
    return points.length > 0 && points.every(({ own, base }) => own === base);
  });
  if (isSelf) complain('the page opens with times that are compared with themselves');
}

/** The numbers of the summary and of the chosen point, computed again from the data of the page. */
async function numbers(page, complain) {
  const [said, expected] = await page.evaluate(() => {
    const ratios = explorer.cases.flatMap((one) => {
      const own = explorer.state.own.find(one);
      const base = own.at === undefined ? own : explorer.state.base.find(one, one.timed[own.at]);
      return own.at === undefined || base.at === undefined || !Number.isFinite(explorer.state.feature.of(one)) ? []
        : [one.timed[base.at + 1] / one.timed[own.at + 1]];
    });
    const mean = Math.exp(ratios.map(Math.log).reduce((sum, one) => sum + one, 0) / ratios.length);
    return [document.getElementById('summary').innerText, { mean: explorer.times(mean), worst: explorer.times(Math.min(...ratios)),
      count: explorer.counted(ratios.length, 'point', 'points') }];
  });
  for (const [what, value] of Object.entries(expected)) {
    if (!said.includes(value)) complain(`the summary "${said}" lacks the ${what} ${value}`);
  }
  const wrong = await page.evaluate(() => explorer.evaluate().points.some(({ one, own, base, y }) => (
    !(one.timed[own + 1] > 0) || !(one.timed[base + 1] > 0) || !(y > 0))));
  if (wrong) complain('a point has a speed without a verified time');
}

async function filters(page, complain) {
  const before = await shownPoints(page);
  const chip = await page.$('.chips button[aria-pressed="true"]');
  if (!chip) return 0;
  await chip.click();
  const fewer = await shownPoints(page);
  if (fewer >= before) complain(`without "${await chip.evaluate((one) => one.textContent)}" there are ${fewer} of ${before} points`);
  await chip.focus();
  await page.keyboard.press('Space');
  if (await shownPoints(page) !== before) complain('a filter that is pressed twice changes the points');
  const word = await page.evaluate(() => explorer.cases[0].matrix.name.slice(0, 9));
  await page.type('#search', word);
  const names = await page.$$eval('#rows td:first-child', (cells) => cells.map((cell) => cell.innerText));
  if (names.length === 0 || names.some((name) => !name.toLowerCase().includes(word.toLowerCase()))) complain(`the search for "${word}" shows ${names.slice(0, 3)}`);
  await page.$eval('#search', (one) => { one.value = ''; one.dispatchEvent(new Event('input')); });
  return page.$$eval('.chips button', (all) => all.length);
}

/** Every choice of every list is drawn without an error. */
async function choices(page, complain) {
  let tried = 0;
  for (const id of ['own', 'base', 'feature', 'colour']) {
    const values = await page.$$eval(`#${id} option`, (all) => all.map((option) => option.value));
    const first = await page.$eval(`#${id}`, (one) => one.value);
    for (const value of [...values, first]) {
      await page.select(`#${id}`, value);
      const label = await page.$eval('#scatter', (one) => one.ariaLabel ?? one.getAttribute('aria-label'));
      if (/undefined|NaN/.test(label + await summary(page))) complain(`${id} ${value}: ${label}`);
      tried += 1;
    }
  }
  await page.click('#log');
  await settle(page);
  await page.click('#log');
  return tried;
}

async function points(page, complain) {
  const index = await anyCase(page);
  if (index === null) return;
  const canvas = await page.$('#scatter');
  await canvas.scrollIntoView();
  await settle(page);
  const place = await page.evaluate((one) => explorer.plot.place(one), index);
  await page.mouse.move(place.x, place.y);
  await settle(page);
  const tip = await text(page, '#tip');
  if (!/speed-up/.test(tip)) complain(`pointing at a point shows "${tip}"`);
  await page.mouse.click(place.x, place.y);
  const chosen = await text(page, '#detail');
  const name = await page.evaluate(() => explorer.state.chosen?.matrix.name);
  if (!name || !chosen.includes(name) || !/faster|slower/.test(chosen)) complain(`a click shows "${chosen.slice(0, 200)}"`);
  const command = await page.$eval('#detail pre', (one) => one.textContent).catch(() => '');
  if (!/^rowloom (bench|run) .* -k \d+ --dtype f(64|32)/.test(command)) complain(`the command is "${command}"`);
  await page.mouse.move(1, 1);

  await canvas.focus();
  await page.keyboard.press('Home');
  const first = await text(page, '#said');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const third = await text(page, '#said');
  if (!/faster|slower/.test(first) || (await shownPoints(page) > 2 && first === third)) complain(`the arrow keys say "${first}", then "${third}"`);
  await page.keyboard.press('Enter');
  const entered = await page.evaluate(() => explorer.describe(explorer.state.chosen));
  if (!third.startsWith(entered)) complain(`Enter on "${third}" shows ${entered}`);
  await page.keyboard.press('Escape');
  if (!await page.$eval('#tip', (one) => one.hidden)) complain('Escape leaves the tooltip');
}

async function table(page, complain) {
  const heads = await page.$$('#heads button');
  for (const [column, head] of heads.entries()) {
    for (const direction of ['ascending', 'descending']) {
      if (direction === 'ascending') await head.click();
      else {
        await head.focus();
        await page.keyboard.press('Enter');
      }
      const says = await page.$$eval('#heads th', (all) => all.map((one) => one.getAttribute('aria-sort')));
      if (says[column] !== direction || says.filter((one) => one !== 'none').length !== 1) complain(`column ${column}: aria-sort says ${says}`);
    }
  }
  await heads[3].click();
  const shown = await page.$$eval('#rows tr', (rows) => rows.map((row) => Number.parseFloat(row.cells[3]?.innerText)));
  if (shown.some((value, index) => index > 0 && value < shown[index - 1])) complain(`speed-ups are not ascending: ${shown.slice(0, 9)}`);
  const next = await page.$('#next:not(:disabled)');
  if (next) {
    const before = await text(page, '#rows');
    await next.click();
    if (await text(page, '#rows') === before) complain('the next page of the table is the same');
  }
  const button = await page.$('#rows button');
  if (button) {
    const name = await button.evaluate((one) => one.innerText);
    await button.click();
    if (!(await text(page, '#detail')).startsWith(name)) complain(`a row of ${name} shows another point`);
  }
  const csv = await page.evaluate(async () => {
    let copied = '';
    report.copy = (all) => { copied = all; };
    document.getElementById('copy').click();
    return copied;
  });
  const lines = csv.trim().split('\n').length - 1;
  if (lines !== await shownPoints(page)) complain(`the CSV has ${lines} rows of ${await shownPoints(page)} points`);
}

/** What assistive programs need: names of controls, and nothing wider than the page. */
async function accessible(page, complain) {
  const nameless = await page.$$eval('#explorer :is(button, select, input, canvas)', (all) => all
    .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).map((one) => one.outerHTML.slice(0, 90)));
  nameless.forEach((one) => complain(`a control without a name: ${one}`));
}

async function explore(page, url, file, complain, save) {
  if (statSync(file).size > MAX_BYTES) complain(`${statSync(file).size} bytes, more than ${MAX_BYTES}`);
  await page.setViewport(DESK);
  await scheme(page, 'light');
  let ready = Infinity;
  for (let turn = 0; turn < OPENED; turn += 1) ready = Math.min(ready, await opened(page, url));
  if (!(ready <= MAX_READY_MS)) complain(`ready after ${ready.toFixed(0)} ms`);
  let update = Infinity;
  for (let turn = 0; turn < OPENED; turn += 1) {
    update = Math.min(update, await page.evaluate(() => {
      const start = performance.now();
      document.getElementById('own').dispatchEvent(new Event('change'));
      return performance.now() - start;
    }));
  }
  if (!(update <= MAX_UPDATE_MS)) complain(`a choice takes ${update.toFixed(0)} ms`);
  await firstView(page, complain);
  await numbers(page, complain);
  await accessible(page, complain);
  const tried = await choices(page, complain);
  const chips = await filters(page, complain);
  await table(page, complain);
  await points(page, complain);
  const colours = await page.$eval('#scatter', (one) => {
    const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
  if (colours < 10) complain(`only ${colours} colours are drawn`);
  await page.evaluate(() => window.scrollTo(0, 0));
  await settle(page);
  const light = await background(page);
  await save('light');
  await scheme(page, 'dark');
  await settle(page);
  const dark = await background(page);
  checkGround(light, dark, complain);
  await save('dark');

  await scheme(page, 'light');
  for (const [name, size] of SMALL) {
    await page.setViewport(size);
    await opened(page, url);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > size.width) complain(`the page is ${wide} wide on a ${name}`);
    if (name === 'phone') {
      const index = await anyCase(page);
      const canvas = await page.$('#scatter');
      await canvas.scrollIntoView();
      await settle(page);
      const place = index === null ? null : await page.evaluate((one) => explorer.plot.place(one), index);
      if (place) {
        await page.touchscreen.tap(place.x, place.y);
        if (!/faster|slower/.test(await text(page, '#detail'))) complain('a tap on a point shows nothing');
      }
      const now = await page.evaluate(() => document.documentElement.scrollWidth);
      if (now > size.width) complain(`the page is ${now} wide on a phone once a point is chosen`);
    }
    await save(name);
  }
  await page.setViewport(DESK);
  await page.setJavaScriptEnabled(false);
  await page.goto(url);
  if (!/script/.test(await page.evaluate(() => document.querySelector('noscript')?.innerText ?? ''))) complain('without a script the page says nothing');
  await page.setJavaScriptEnabled(true);
  return `${statSync(file).size} bytes, ready after ${ready.toFixed(0)} ms, a choice takes ${update.toFixed(0)} ms, ${tried} choices, ${chips} filters`;
}

await useAll('view_explorer [--pictures FOLDER] EXPLORER.html...', explore);
