// Opens reports in a real browser and uses them as a reader would; .ci/view_report runs this.
import { DESK, SMALL, background, checkGround, scheme, settle, useAll } from './pages.mjs';

/** Pictures without a size, text outside its picture, and texts that lie on one another. */
function faultsOfPictures() {
  const SLACK = 1;
  const faults = [];
  const corners = (text) => {
    const box = text.getBBox();
    const matrix = text.getScreenCTM();
    // A line's box has room for accents and tails; the letters themselves fill less of it.
    const [top, bottom] = [box.y + box.height * 0.22, box.y + box.height * 0.86];
    return [[box.x, top], [box.x + box.width, top], [box.x + box.width, bottom], [box.x, bottom]].map(([x, y]) => {
      const point = new DOMPoint(x, y).matrixTransform(matrix);
      return [point.x, point.y];
    });
  };
  // Two convex shapes are disjoint if their projections on the normal of one side are.
  const apart = (a, b) => [a, b].some((shape) => [0, 1].some((side) => {
    const [[x0, y0], [x1, y1]] = [shape[side], shape[side + 1]];
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const shadow = (points) => points.map(([x, y]) => ((x1 - x0) * x + (y1 - y0) * y) / length);
    const [p, q] = [shadow(a), shadow(b)];
    return Math.max(...p) <= Math.min(...q) + SLACK || Math.max(...q) <= Math.min(...p) + SLACK;
  }));
  for (const svg of document.querySelectorAll('svg.plot')) {
    const frame = svg.getBoundingClientRect();
    if (getComputedStyle(svg).display === 'none') continue;
    const name = svg.getAttribute('aria-label') ?? svg.querySelector('title')?.textContent;
    if (frame.width < 100 || frame.height < 60) faults.push(`"${name}" is ${frame.width} by ${frame.height}`);
    const texts = [...svg.querySelectorAll('text')].map((text) => ({ says: text.textContent, at: corners(text) }));
    for (const { says, at } of texts) {
      const outside = at.some(([x, y]) => x < frame.left - SLACK || x > frame.right + SLACK
        || y < frame.top - SLACK || y > frame.bottom + SLACK);
      if (outside) faults.push(`"${name}": "${says}" leaves the picture`);
    }
    texts.forEach((one, index) => {
      for (const other of texts.slice(index + 1)) {
        if (!apart(one.at, other.at)) faults.push(`"${name}": "${one.says}" lies on "${other.says}"`);
      }
    });
    if (/NaN|Infinity|undefined/.test(svg.innerHTML.replace(/<title>[^]*?<\/title>/g, ''))) {
      faults.push(`"${name}" holds a number that is none`);
    }
  }
  return faults;
}

async function pictures(page, complain, where) {
  const faults = await page.evaluate(faultsOfPictures);
  faults.forEach((fault) => complain(`${where}: ${fault}`));
}

/** No table needs to scroll sideways. */
async function tablesFit(page, complain) {
  const wide = await page.$$eval('.table .box', (boxes) => boxes
    .filter((box) => box.scrollWidth > box.clientWidth)
    .map((box) => `${box.getAttribute('aria-label')}: ${box.scrollWidth} in ${box.clientWidth}`));
  wide.forEach((table) => complain(`a table is cut: ${table}`));
}

async function tips(page, complain) {
  let tried = 0;
  for (const svg of await page.$$('.figures svg.plot.wide')) {
    const mark = await svg.$('.mark');
    if (!mark) continue;
    await mark.scrollIntoView();
    await settle(page);
    const box = await mark.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const tip = await page.$eval('#tip', (one) => (one.hidden ? '' : one.innerText));
    const name = await svg.evaluate((one) => one.getAttribute('aria-label'));
    if (!/\d/.test(tip)) complain(`pointing at a mark of "${name}" shows "${tip}"`);
    await page.mouse.move(1, 1);
    if (!await page.$eval('#tip', (one) => one.hidden)) complain('a tooltip stays after the pointer has left');
    tried += 1;
  }
  return tried;
}

/** After a tap the tooltip stays. */
async function taps(page, complain) {
  const mark = await page.$('.figures svg.plot.narrow .mark');
  if (!mark) return;
  await mark.scrollIntoView();
  await settle(page);
  const box = await mark.boundingBox();
  await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 2);
  const tip = await page.$eval('#tip', (one) => (one.hidden ? '' : one.innerText));
  if (!/\d/.test(tip)) complain(`tapping on a mark shows "${tip}"`);
}

async function legends(page, complain) {
  for (const figure of await page.$$('.figures figure')) {
    const entry = await figure.$('svg.wide .legend');
    if (!entry) continue;
    const state = () => figure.evaluate((one) => [
      ...new Set([...one.querySelectorAll('.series[data-series="0"]')].map((series) => getComputedStyle(series).display)),
      one.querySelector('.legend').getAttribute('aria-pressed')].join());
    const before = await state();
    await entry.click();
    const hidden = await state();
    await entry.evaluate((one) => one.focus());
    await page.keyboard.press('Enter');
    if (before !== 'inline,true' || hidden !== 'none,false' || await state() !== before) {
      complain(`a legend shows ${before}, after a click ${hidden}, after Enter ${await state()}`);
    }
  }
}

/** Sorts every column of every table both ways, by mouse and by keyboard. */
async function tables(page, complain) {
  let sorted = 0;
  for (const table of await page.$$('.table table')) {
    const heads = await table.$$('th button');
    for (const [column, head] of heads.entries()) {
      for (const direction of ['ascending', 'descending']) {
        if (direction === 'ascending') await head.click();
        else {
          await head.focus();
          await page.keyboard.press('Space');
        }
        const shown = await table.evaluate((one, index) => ({
          says: one.tHead.rows[0].cells[index].getAttribute('aria-sort'),
          others: one.querySelectorAll('th:not([aria-sort="none"])').length,
          cells: [...one.tBodies[0].rows].map((row) => row.cells[index])
            .map((cell) => ({ value: cell.dataset.value, text: cell.textContent })),
        }), column);
        if (shown.says !== direction || shown.others !== 1) complain(`aria-sort says ${shown.says} instead of ${direction}`);
        const full = shown.cells.filter((cell) => cell.text !== '');
        if (shown.cells.slice(0, full.length).some((cell) => cell.text === '')) complain('empty cells are not last');
        const numbers = full.filter((cell) => cell.value !== undefined).map((cell) => Number(cell.value));
        const sign = direction === 'ascending' ? 1 : -1;
        if (numbers.some((value, index) => index > 0 && sign * (value - numbers[index - 1]) < 0)) {
          complain(`column ${column} is not ${direction}: ${numbers.slice(0, 8)}`);
        }
        const words = full.filter((cell) => cell.value === undefined).map((cell) => cell.text);
        const order = (a, b) => a.localeCompare(b, 'en', { numeric: true });
        if (words.some((text, index) => index > 0 && sign * order(text, words[index - 1]) < 0)) {
          complain(`column ${column} is not ${direction}: ${words.slice(0, 8)}`);
        }
      }
      sorted += 1;
    }
  }
  for (const card of await page.$$('.table')) {
    const filter = await card.$('input');
    if (!filter) continue;
    const word = await card.$eval('tbody td', (cell) => cell.textContent.slice(0, 6).trim());
    await filter.type(word);
    const rows = await card.$$eval('tbody tr', (all) => all.filter((row) => !row.hidden).map((row) => row.innerText));
    if (rows.length === 0 || rows.some((row) => !row.toLowerCase().includes(word.toLowerCase()))) {
      complain(`the filter "${word}" leaves ${rows.length} rows, some without the word`);
    }
    await filter.evaluate((one) => { one.value = ''; one.dispatchEvent(new Event('input')); });
  }
  return sorted;
}

/** Fields of CSV text, by RFC 4180. */
function parsed(text) {
  const rows = [[]];
  for (const [, field, quoted, end] of text.matchAll(/((?:"((?:[^"]|"")*)")|[^,"\n]*)(,|\n|$)/g)) {
    rows.at(-1).push(quoted === undefined ? field : quoted.replaceAll('""', '"'));
    if (end === '\n') rows.push([]);
    if (end === '') break;
  }
  return rows.slice(0, -1);
}

async function copies(page, complain) {
  await page.evaluate(() => { report.copy = (text) => { window.copied = text; }; });
  const click = async (button) => {
    await button.evaluate((one) => one.click());
    return page.evaluate(() => window.copied);
  };
  for (const card of await page.$$('.table')) {
    const button = await card.$('.tools button');
    if (!button) continue;
    const rows = parsed(await click(button));
    const shown = await card.$$eval('tbody tr', (all) => all.map((row) => (
      [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent))));
    if (JSON.stringify(rows.slice(1)) !== JSON.stringify(shown)) complain('the CSV is not what the table shows');
  }
  for (const line of await page.$$('.command .copied')) {
    const text = await click(await line.$('button'));
    if (text !== await line.$eval('code', (code) => code.textContent)) complain(`a command is copied as "${text}"`);
  }
}

async function timelines(page, complain) {
  const figures = await page.$$('.timeline.live');
  for (const figure of figures) {
    const canvas = await figure.$('.stage canvas');
    await canvas.scrollIntoView();
    await settle(page);
    const view = async () => {
      await settle(page);
      const [from, to] = (await figure.evaluate((one) => one.dataset.view)).split(' ').map(Number);
      return { from, to, length: to - from };
    };
    const whole = await view();
    const press = async (label) => (await figure.$(`button[title="${label}"]`)).click();
    const expect = (holds, what) => { if (!holds) complain(`timeline: ${what}`); };
    await press('Zoom in');
    const closer = await view();
    expect(closer.length < whole.length * 0.9, 'the button does not zoom in');
    await press('Zoom out');
    expect((await view()).length > closer.length, 'the button does not zoom out');
    await canvas.focus();
    await page.keyboard.press('+');
    expect((await view()).length < whole.length, 'the key + does not zoom in');
    await page.keyboard.press('0');
    expect((await view()).length === whole.length, 'the key 0 does not show everything');

    const box = await canvas.boundingBox();
    const [x, y] = [box.x + box.width * 0.6, Math.min(box.y + 40, DESK.height - 10)];
    await page.mouse.move(x, y);
    for (let turn = 0; turn < 8; turn += 1) await page.mouse.wheel({ deltaY: -100 });
    const zoomed = await view();
    expect(zoomed.length < whole.length * 0.2, 'the wheel does not zoom in');
    await page.mouse.down();
    await page.mouse.move(x - 120, y, { steps: 4 });
    await page.mouse.up();
    const moved = await view();
    expect(moved.from > zoomed.from && Math.abs(moved.length - zoomed.length) < whole.length * 1e-9,
      'dragging does not move the view');
    await press('Show the whole run');
    const again = await view();
    expect(again.from === whole.from && again.to === whole.to, 'reset does not show everything');

    // Every fourth pixel: on a loaded machine a run has few and narrow spans.
    const right = box.x + box.width - 4;
    let tip = '';
    for (let y = box.y + 12; y < box.y + 240 && !tip; y += 13) {
      for (let x = box.x + box.width * 0.08; x < right && !tip; x += 4) {
        await page.mouse.move(x, y);
        tip = await page.$eval('#tip', (one) => (one.hidden ? '' : one.innerText));
      }
    }
    expect(/lasted/.test(tip), `pointing at spans shows "${tip}"`);
    const colours = await canvas.evaluate((one) => {
      const { data } = one.getContext('2d').getImageData(0, 0, one.width, one.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });
    expect(colours > 3, `only ${colours} colours are drawn`);
    await page.mouse.move(1, 1);
  }
  return figures.length;
}

async function report(page, url, complain, save) {
  await page.setViewport(DESK);
  await scheme(page, 'light');
  await page.goto(url);
  await settle(page);
  await pictures(page, complain, 'desk');
  await tablesFit(page, complain);
  const light = await background(page);
  await save('light');
  const counts = {
    figures: await tips(page, complain),
    columns: await tables(page, complain),
    timelines: await timelines(page, complain),
  };
  await legends(page, complain);
  await copies(page, complain);
  for (const figure of await page.$$('.timeline.live')) {
    for (let turn = 0; turn < 3; turn += 1) await (await figure.$('button[title="Zoom in"]')).click();
  }
  await settle(page);
  await save('zoomed', '.timeline.live');
  await scheme(page, 'dark');
  await page.goto(url);
  await settle(page);
  const dark = await background(page);
  checkGround(light, dark, complain);
  await save('dark');

  await scheme(page, 'light');
  for (const [name, size] of SMALL) {
    await page.setViewport(size);
    await page.goto(url);
    await settle(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > size.width) complain(`the page is ${wide} wide on a ${name}`);
    await pictures(page, complain, name);
    await save(name);
  }
  await taps(page, complain);

  await page.setViewport(DESK);
  await page.setJavaScriptEnabled(false);
  await page.goto(url);
  await pictures(page, complain, 'without JavaScript');
  await page.setJavaScriptEnabled(true);
  return `${counts.figures} figures with tips, ${counts.columns} columns sorted, ${counts.timelines} timelines`;
}

async function picture(page, url, complain, save) {
  await page.setViewport(DESK);
  for (const value of ['light', 'dark']) {
    await scheme(page, value);
    await page.goto(url);
    await save(value, 'svg');
  }
  await pictures(page, complain, 'alone');
  return 'a picture';
}

await useAll('view_report [--pictures FOLDER] REPORT.html|PICTURE.svg...', (page, url, file, complain, save) => (
  (file.endsWith('.svg') ? picture : report)(page, url, complain, save)));
