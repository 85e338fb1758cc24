// Tooltips, legends that hide series, sortable tables, copy buttons. The page is readable without this script.
'use strict';

const report = {};

/** Makes an element with properties and children; strings become text nodes, never HTML. */
report.make = (name, properties = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};

/** The tooltip of the page. */
report.tip = (() => {
  const box = document.getElementById('tip');
  const MARGIN = 8;
  const OFFSET = 14;
  const hide = () => { box.hidden = true; };
  // After a tap the tooltip stays until the next tap or until the page scrolls.
  document.addEventListener('pointerdown', hide, true);
  document.addEventListener('scroll', hide, { passive: true });
  return {
    /** Shows a heading and below it lines, or rows of name and value, near a point of the window. */
    show(x, y, heading, lines) {
      box.replaceChildren(report.make('b', {}, heading));
      const rows = lines.filter((line) => Array.isArray(line));
      for (const line of lines) if (!Array.isArray(line)) box.append(report.make('div', {}, line));
      if (rows.length > 0) {
        box.append(report.make('table', {}, ...rows.map((row) => (
          report.make('tr', {}, ...row.map((cell) => report.make('td', {}, cell)))))));
      }
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const { clientWidth, clientHeight } = document.documentElement;
      let left = x + OFFSET;
      if (left + width > clientWidth - MARGIN) left = x - OFFSET - width;
      let top = y + OFFSET;
      if (top + height > clientHeight - MARGIN) top = y - OFFSET - height;
      box.style.left = `${Math.max(MARGIN, Math.min(left, clientWidth - MARGIN - width))}px`;
      box.style.top = `${Math.max(MARGIN, top)}px`;
    },
    hide,
  };
})();

/** Copies text; falls back to a selection where a local file may not use the clipboard API. */
report.copy = async (text, button) => {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = report.make('textarea', { value: text, readOnly: true });
    area.style.position = 'fixed';
    area.style.opacity = '0';
    document.body.append(area);
    area.select();
    done = document.execCommand('copy');
    area.remove();
  }
  const before = button.dataset.name ?? button.textContent;
  button.dataset.name = before;
  button.textContent = done ? 'Copied' : 'Could not copy';
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = before; }, 1500);
};

// Figures.
for (const svg of document.querySelectorAll('.figures svg.plot')) {
  const marks = [...svg.querySelectorAll('.mark')];
  // The page's tooltip replaces the browser's.
  for (const mark of marks) {
    const title = mark.querySelector('title');
    mark.tip = title?.textContent.split('\n') ?? [];
    title?.remove();
  }
  const MAX_DISTANCE = 28;
  const nearest = (x, y) => {
    const hit = document.elementFromPoint(x, y)?.closest('.mark');
    if (hit && svg.contains(hit)) return hit;
    let best = null;
    let least = MAX_DISTANCE;
    for (const mark of marks) {
      if (!mark.hasAttribute('transform') || mark.closest('.off')) continue;
      const box = mark.getBoundingClientRect();
      const away = Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
      if (away < least) [best, least] = [mark, away];
    }
    return best;
  };
  let shown = null;
  const point = (event) => {
    const mark = nearest(event.clientX, event.clientY);
    if (mark !== shown) {
      shown?.classList.remove('near');
      mark?.classList.add('near');
      shown = mark;
    }
    if (mark) report.tip.show(event.clientX, event.clientY, mark.tip[0], mark.tip.slice(1));
    else report.tip.hide();
  };
  svg.addEventListener('pointermove', point);
  svg.addEventListener('pointerdown', point);
  svg.addEventListener('pointerleave', (event) => {
    if (event.pointerType === 'touch') return;
    shown?.classList.remove('near');
    shown = null;
    report.tip.hide();
  });
}

// Legends: one entry hides a series in all drawings of a figure.
for (const figure of document.querySelectorAll('.figures figure')) {
  const toggle = (number) => {
    const hidden = !figure.querySelector(`.series[data-series="${number}"]`)?.classList.contains('off');
    for (const series of figure.querySelectorAll(`.series[data-series="${number}"]`)) {
      series.classList.toggle('off', hidden);
    }
    for (const entry of figure.querySelectorAll(`.legend[data-series="${number}"]`)) {
      entry.setAttribute('aria-pressed', String(!hidden));
    }
  };
  for (const entry of figure.querySelectorAll('.legend')) {
    const number = entry.dataset.series;
    entry.setAttribute('role', 'button');
    entry.setAttribute('tabindex', '0');
    entry.setAttribute('aria-pressed', 'true');
    entry.setAttribute('aria-label', entry.querySelector('title').textContent);
    entry.addEventListener('click', () => toggle(number));
    entry.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      toggle(number);
    });
  }
}

// Tables.
const MANY_ROWS = 20;
/** The sort key of a cell: numbers before text, empty cells last in both directions. */
const key = (cell) => {
  if (cell.dataset.value !== undefined) return { rank: 0, value: Number(cell.dataset.value) };
  const text = cell.textContent;
  return text === '' ? { rank: 2, value: '' } : { rank: 1, value: text };
};
const order = new Intl.Collator('en', { numeric: true }).compare;
const compare = (a, b, sign) => {
  if (a.rank === 2 || b.rank === 2) return a.rank - b.rank;
  if (a.rank !== b.rank) return sign * (a.rank - b.rank);
  return sign * (a.rank === 0 ? a.value - b.value : order(a.value, b.value));
};
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

for (const card of document.querySelectorAll('.table')) {
  const table = card.querySelector('table');
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows].filter((row) => !row.classList.contains('none'));
  if (rows.length === 0) continue;
  const names = heads.map((head) => head.textContent);

  heads.forEach((head, column) => {
    const button = report.make('button', { type: 'button' });
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute('aria-sort', 'none');
    const keys = new Map(rows.map((row) => [row, key(row.cells[column])]));
    button.addEventListener('click', () => {
      const ascending = head.getAttribute('aria-sort') !== 'ascending';
      for (const other of heads) other.setAttribute('aria-sort', 'none');
      head.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
      const sign = ascending ? 1 : -1;
      body.append(...[...rows].sort((a, b) => compare(keys.get(a), keys.get(b), sign)));
    });
  });

  // The cases of an answer are few: no filter, no copy.
  if (card.classList.contains('answer')) continue;
  const tools = report.make('div', { className: 'tools' });
  if (rows.length > MANY_ROWS) {
    const filter = report.make('input', { type: 'search', placeholder: 'Filter rows', ariaLabel: 'Filter rows' });
    const count = report.make('output', {}, `${rows.length} rows`);
    const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(' ').toLowerCase());
    filter.addEventListener('input', () => {
      const words = filter.value.toLowerCase().split(/\s+/);
      let left = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        if (!row.hidden) left += 1;
      });
      count.textContent = left === rows.length ? `${rows.length} rows` : `${left} of ${rows.length} rows`;
    });
    tools.append(filter, count);
  }
  const copy = report.make('button', { type: 'button' }, 'Copy as CSV');
  copy.addEventListener('click', () => {
    const shown = [...body.rows].filter((row) => !row.hidden);
    const cells = shown.map((row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent));
    report.copy([names, ...cells].map((line) => `${line.map(quoted).join(',')}\n`).join(''), copy);
  });
  tools.prepend(copy);
  card.querySelector('.box').before(tools);
}

// Commands and the configuration.
for (const pre of document.querySelectorAll('.command pre')) {
  const button = report.make('button', { type: 'button' }, 'Copy');
  const line = report.make('div', { className: 'copied' });
  pre.replaceWith(line);
  line.append(pre, button);
  button.addEventListener('click', () => report.copy(pre.textContent, button));
}
