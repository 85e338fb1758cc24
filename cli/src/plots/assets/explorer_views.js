// The controls, the summary, the chosen point, the table and the lists of the explorer.
'use strict';

{
  const { data, cases, state, FEATURES, COLOURS, OWN, BASES, entry, spread, number, count, counted, seconds, times, percent } = explorer;
  const { make } = report;
  const find = (id) => document.getElementById(id);
  const SLOWER_BELOW = 0.95;
  const ROWS = 50;
  const MOST_NAMED = 200;
  const PLUS_MINUS = '\u202f±\u202f';
  let shown = { points: [], absent: [] };

  const ratio = (point) => {
    const width = spread(point);
    return width === null ? times(point.y) : `${times(point.y).slice(0, -1)}${PLUS_MINUS}${width < 0.01 ? '0.01' : width.toFixed(2)}×`;
  };
  /** A ratio in words that say who wins. */
  const verdict = (point) => {
    const [own, base] = [entry(point.one, point.own), entry(point.one, point.base)];
    const words = point.y >= 1 ? `${times(point.y)} faster than` : `${times(1 / point.y)} slower than`;
    return { own, base, words };
  };
  const interval = ({ seconds: median, low, high }) => {
    if (low === null || high === null) return 'one run, interval unknown';
    return high - low < median * 0.001 ? 'interval below 0.1 %' : `95 %: ${seconds(low)} to ${seconds(high)}`;
  };

  explorer.sentence = (point) => {
    const { own, base, words } = verdict(point);
    return `${explorer.describe(point.one)}: ${own.text} is ${words} ${base.text}`;
  };
  explorer.tip = (point) => {
    const { own, base } = verdict(point);
    const { one } = point;
    return [one.matrix.name, [
      `${one.dtype}, K = ${one.k}, ${one.device}`,
      ['speed-up', ratio(point)],
      [own.text, seconds(own.seconds)],
      [base.text, seconds(base.seconds)],
      [state.feature.name, state.feature.share ? percent(point.x) : number(point.x)],
    ]];
  };

  // Controls.
  const fill = (id, list, key) => {
    const select = find(id);
    const groups = new Map();
    for (const one of list) {
      const option = make('option', { value: one.id }, one.name.replace(/^the /, ''));
      if (one.group === undefined) select.append(option);
      else {
        if (!groups.has(one.group)) {
          groups.set(one.group, make('optgroup', { label: one.group }));
          select.append(groups.get(one.group));
        }
        groups.get(one.group).append(option);
      }
    }
    select.value = state[key].id;
    select.addEventListener('change', () => {
      state[key] = list.find((one) => one.id === select.value);
      if (key === 'feature') {
        state.log = state.feature.log === true;
        find('log').checked = state.log;
      }
      update();
    });
  };
  fill('own', OWN, 'own');
  fill('base', BASES, 'base');
  fill('feature', FEATURES, 'feature');
  fill('colour', COLOURS, 'colour');
  find('log').checked = state.log;
  find('log').addEventListener('change', () => { state.log = find('log').checked; update(); });
  find('search').addEventListener('input', () => { state.search = find('search').value.trim().toLowerCase(); update(); });

  // Filters: a button for each value; one that is not pressed is left out.
  for (const facet of COLOURS) {
    const values = explorer.values(facet);
    if (values.length < 2) continue;
    const off = new Set();
    state.off.set(facet, off);
    const chips = values.map((value) => {
      const chip = make('button', { type: 'button', ariaPressed: 'true' }, facet.label(value));
      chip.addEventListener('click', () => {
        if (!off.delete(value)) off.add(value);
        chip.ariaPressed = String(!off.has(value));
        update();
      });
      return chip;
    });
    const whole = (name, pressed) => {
      const button = make('button', { type: 'button', className: 'all', ariaLabel: `${facet.name}: ${name.toLowerCase()}` }, name);
      button.addEventListener('click', () => {
        off.clear();
        if (!pressed) values.forEach((value) => off.add(value));
        chips.forEach((chip) => { chip.ariaPressed = String(pressed); });
        update();
      });
      return button;
    };
    const row = make('div', { className: 'chips' }, ...chips);
    if (values.length > 2) row.prepend(whole('All', true), whole('None', false));
    const set = make('fieldset', {}, make('legend', {}, facet.name), row);
    find('facets').append(set);
  }
  if (state.off.size === 0) find('filters').hidden = true;
  if (matchMedia('(max-width: 560px)').matches) find('filters').open = false;

  const link = (text, one) => {
    const button = make('button', { type: 'button', className: 'link' }, text);
    button.addEventListener('click', () => explorer.choose(one, true));
    return button;
  };

  // The summary.
  const summarize = () => {
    const { points, absent } = shown;
    const line = find('summary');
    const dot = () => make('span', { className: 'dot' }, '·');
    explorer.geomean = null;
    const parts = [];
    if (points.length > 0) {
      explorer.geomean = Math.exp(points.reduce((sum, { y }) => sum + Math.log(y), 0) / points.length);
      const worst = points.reduce((a, b) => (b.y < a.y ? b : a));
      const below = points.filter(({ y }) => y < SLOWER_BELOW).length;
      const matrices = new Set(points.map(({ one }) => one.matrix)).size;
      parts.push(make('b', {}, times(explorer.geomean)), ` geometric mean of ${counted(points.length, 'point', 'points')}, ${counted(matrices, 'matrix', 'matrices')}`);
      parts.push(dot(), `worst ${times(worst.y)} `, link(explorer.describe(worst.one), worst.one));
      parts.push(dot(), `${count(below)} below ${SLOWER_BELOW}×`);
    } else parts.push('0 points');
    if (absent.length > 0) parts.push(dot(), make('a', { href: '#absent' }, `${count(absent.length)} left out`));
    line.replaceChildren(...parts);
    const off = [...state.off.values()].reduce((sum, set) => sum + set.size, 0);
    find('filtered').textContent = off > 0 ? `: ${counted(off, 'value', 'values')} left out` : '';
  };

  /** What the view leaves out, by reason, and what the files hold without a verified result. */
  const listAbsent = () => {
    const reasons = new Map();
    for (const { one, why } of shown.absent) reasons.set(why, [...(reasons.get(why) ?? []), [explorer.describe(one), one]]);
    const folded = (title, items) => make('details', {}, make('summary', {}, title), make('ul', {},
      ...items.slice(0, MOST_NAMED).map(([text, one]) => make('li', {}, one ? link(text, one) : text)),
      ...(items.length > MOST_NAMED ? [make('li', {}, `and ${count(items.length - MOST_NAMED)} more`)] : [])));
    const lists = [...reasons].sort((a, b) => b[1].length - a[1].length)
      .map(([why, items]) => folded(`${counted(items.length, 'point', 'points')} left out of this view: ${why}`, items));
    find('absent').replaceChildren(...lists, ...unverified);
  };
  const withoutCheck = cases.flatMap((one) => {
    const found = [];
    for (let at = 0; at < one.timed.length; at += 4) {
      const { text, state: how } = entry(one, at);
      if (how === explorer.UNVERIFIED) found.push([`${text}, not verified: ${explorer.describe(one)}`, one]);
      if (how === explorer.WRONG) found.push([`${text}, wrong Y: ${explorer.describe(one)}`, one]);
    }
    return found;
  });
  const unverified = [];
  if (withoutCheck.length > 0) {
    unverified.push(make('details', {}, make('summary', {}, `${counted(withoutCheck.length, 'result', 'results')} in the files without a verified Y: never shown as speed`),
      make('ul', {}, ...withoutCheck.slice(0, MOST_NAMED).map(([text, one]) => make('li', {}, link(text, one))),
        ...(withoutCheck.length > MOST_NAMED ? [make('li', {}, `and ${count(withoutCheck.length - MOST_NAMED)} more`)] : []))));
  }
  if (data.left_out.length > 0) {
    unverified.push(make('details', {}, make('summary', {}, 'Results in the files that are no measured product of a sparse matrix'),
      make('ul', {}, ...data.left_out.map((text) => make('li', {}, text)))));
  }

  // The chosen point.
  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  /** The nonzeros of a matrix in cells. */
  const picture = (matrix) => {
    const levels = [...matrix.pattern].flatMap((letter) => {
      const pair = ALPHABET.indexOf(letter);
      return [pair >> 3, pair & 7];
    });
    const down = Math.floor(levels.length / matrix.across);
    const shape = Math.max(0.25, Math.min(4, matrix.rows / matrix.cols));
    const side = matchMedia('(max-width: 560px)').matches ? 112 : 148;
    const canvas = make('canvas', { width: matrix.across, height: down });
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `Where the nonzeros are: ${down} by ${matrix.across} cells, darker with more nonzeros`);
    canvas.style.width = `${shape > 1 ? side / shape : side}px`;
    canvas.style.height = `${shape > 1 ? side : side * shape}px`;
    const context = canvas.getContext('2d');
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
    levels.slice(0, down * matrix.across).forEach((level, index) => {
      if (level === 0) return;
      context.globalAlpha = 0.16 + (0.84 * level) / 7;
      context.fillRect(index % matrix.across, Math.floor(index / matrix.across), 1, 1);
    });
    return canvas;
  };
  const facts = (matrix) => {
    const known = [
      ['rows', count(matrix.rows)], ['columns', count(matrix.cols)], ['nonzeros', count(matrix.nnz)],
      ['mean row', matrix.mean, (value) => number(value)], ['longest row', matrix.longest, count],
      ['variation', matrix.variation, (value) => value.toFixed(2)], ['columns per nonzero of 32 rows', matrix.newColumns, percent],
    ].filter(([, value]) => value !== null && value !== undefined);
    return make('dl', {}, ...known.flatMap(([name, value, text]) => [make('dt', {}, name), make('dd', {}, text ? text(value) : value)]));
  };
  /** All times of a case on one logarithmic axis, the fastest first. */
  const timesOf = (one, point) => {
    const all = [];
    for (let at = 0; at < one.timed.length; at += 4) all.push({ at, ...entry(one, at) });
    const timed = all.filter((each) => each.seconds !== null).sort((a, b) => a.seconds - b.seconds);
    const rest = all.filter((each) => each.seconds === null);
    const ends = timed.flatMap(({ seconds: median, low, high }) => [median, low ?? median, high ?? median]);
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    const x = (value) => (most > least ? 5 + (Math.log(value / least) / Math.log(most / least)) * 108 : 5);
    const drawing = (each) => {
      const node = (name, attributes) => {
        const element = document.createElementNS('http://www.w3.org/2000/svg', name);
        for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
        return element;
      };
      const svg = node('svg', { viewBox: '0 0 118 14', 'aria-hidden': 'true', class: explorer.isKernel(each.name) ? 'kernel' : 'peer' });
      svg.append(node('line', { x1: 0, x2: 118, y1: 7, y2: 7, stroke: 'var(--rule)' }));
      if (each.low !== null) svg.append(node('line', { x1: x(each.low), x2: x(each.high), y1: 7, y2: 7, stroke: 'currentColor', 'stroke-width': 3, opacity: 0.5 }));
      svg.append(explorer.isKernel(each.name) ? node('circle', { cx: x(each.seconds), cy: 7, r: 4, fill: 'currentColor' })
        : node('path', { d: `M${x(each.seconds)} 2l5 5l-5 5l-5 -5z`, fill: 'currentColor' }));
      return svg;
    };
    const words = { [explorer.UNVERIFIED]: 'not verified', [explorer.WRONG]: 'Y is wrong', [explorer.NOT_RUN]: 'did not run' };
    const marked = (each) => `${each.text}${each.name === one.chosen ? ' (chosen)' : ''}`;
    return make('table', { className: 'times' }, make('tbody', {}, ...timed.map((each) => make('tr',
      { className: each.at === point.own ? 'own' : each.at === point.base ? 'base' : '', title: interval(each) },
      make('td', {}, marked(each)), make('td', {}, drawing(each)), make('td', {}, seconds(each.seconds)))),
    ...rest.map((each) => make('tr', { className: 'other' }, make('td', {}, marked(each)), make('td', {}), make('td', {}, words[each.state])))));
  };
  const commandOf = (one) => {
    const [command, flags] = one.flags.split(' | ');
    if (!command || !one.matrix.argument) return null;
    return `rowloom ${command} ${one.matrix.argument} -k ${one.k} --dtype ${one.dtype} ${flags}`;
  };
  const reasonsOf = (one) => one.reasons.map((part) => data.reasons[part]);
  const detail = () => {
    const box = find('detail');
    const one = state.chosen;
    if (!one) {
      box.replaceChildren(make('p', { className: 'nothing' }, 'Choose a point of the plot or a row of the table: its matrix, its times and the command that repeats it appear here.'));
      return;
    }
    const point = explorer.point(one);
    const nodes = [make('h3', {}, one.matrix.name), make('p', { className: 'where' }, `${one.matrix.group} · ${one.dtype} · K = ${one.k} · ${one.device}`)];
    if (point.why === undefined) {
      const { own, base, words } = verdict(point);
      nodes.push(make('p', { className: 'verdict' }, `${own.text} is `, make('b', {}, words), ` ${base.text}: ${seconds(base.seconds)} → ${seconds(own.seconds)} (${ratio(point)})`));
      nodes.push(make('p', { className: 'where' }, `${own.text} ${interval(own)}; ${base.text} ${interval(base)}`));
    } else nodes.push(make('p', { className: 'verdict' }, `No speed-up: ${point.why}.`));
    const look = make('div', { className: 'look' }, facts(one.matrix));
    if (one.matrix.across > 0) look.prepend(picture(one.matrix));
    else look.classList.add('bare');
    nodes.push(look);
    const reasons = reasonsOf(one);
    if (one.chosen !== null || reasons.length > 0) {
      nodes.push(make('h4', {}, `Why the planner chooses ${data.names[one.chosen] ?? 'it'}`));
      if (reasons.length > 1) nodes.push(make('ul', { className: 'reasons' }, ...reasons.map((reason) => make('li', {}, reason))));
      else nodes.push(make('p', { className: 'reasons' }, reasons[0] ?? 'The file does not hold the reason.'));
    }
    nodes.push(make('h4', {}, 'Times, logarithmic; bars are 95 % intervals'), timesOf(one, point));
    const command = commandOf(one);
    nodes.push(make('h4', {}, 'Repeat it'));
    if (command) {
      const button = make('button', { type: 'button' }, 'Copy');
      button.addEventListener('click', () => report.copy(command, button));
      nodes.push(make('div', { className: 'copied' }, make('pre', { tabIndex: 0 }, make('code', {}, command)), button));
    } else nodes.push(make('p', { className: 'reasons' }, 'The file does not hold the arguments of the command.'));
    nodes.push(make('p', { className: 'where' }, `from ${data.files[one.file]?.[0] ?? 'an unknown file'}`));
    box.replaceChildren(...nodes);
    box.scrollTop = 0;
  };
  /** Shows a case; with `visit`, moves the page to it. */
  explorer.choose = (one, visit = false) => {
    state.chosen = one;
    detail();
    explorer.plot.redraw();
    for (const row of find('rows').rows) row.classList.toggle('chosen', row.dataset.index === String(one.index));
    if (!visit) return;
    find('detail').scrollIntoView({ block: 'nearest' });
    find('detail').focus({ preventScroll: true });
  };

  // The table.
  const sorting = { column: null, sign: 1, page: 0 };
  const COLUMNS = [
    { name: 'Matrix', text: ({ one }) => one.matrix.name },
    { name: 'Type', text: ({ one }) => one.dtype },
    { name: 'K', value: ({ one }) => one.k, shown: String },
    { name: 'Speed-up', value: ({ y }) => y, shown: times },
    { name: '±', value: (point) => spread(point), shown: (value) => (value < 0.01 ? '0.01' : value.toFixed(2)) },
    { name: 'Device', text: ({ one }) => one.device },
    { name: 'Kernel', text: ({ one, own }) => data.names[one.timed[own]] },
    { name: 'Time', value: ({ one, own }) => one.timed[own + 1] * 1e-9, shown: seconds },
    { name: 'Compared with', text: ({ one, base }) => data.names[one.timed[base]] },
    { name: 'Its time', value: ({ one, base }) => one.timed[base + 1] * 1e-9, shown: seconds },
    { name: 'Group', text: ({ one }) => one.matrix.group },
    { name: 'Axis', value: ({ x }) => x, shown: (value) => (state.feature.share ? percent(value) : number(value)) },
  ];
  const order = new Intl.Collator('en', { numeric: true }).compare;
  let ordered = [];
  const heads = COLUMNS.map((column, index) => {
    const button = make('button', { type: 'button' }, column.name);
    const head = make('th', { scope: 'col', className: column.value ? 'numeric' : '' }, button);
    head.setAttribute('aria-sort', 'none');
    button.addEventListener('click', () => {
      const ascending = head.getAttribute('aria-sort') !== 'ascending';
      for (const other of heads) other.setAttribute('aria-sort', 'none');
      head.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
      Object.assign(sorting, { column: index, sign: ascending ? 1 : -1, page: 0 });
      sort();
      rows();
    });
    return head;
  });
  find('heads').append(...heads);
  const sort = () => {
    ordered = [...shown.points];
    if (sorting.column === null) return;
    const { value, text } = COLUMNS[sorting.column];
    const keys = new Map(ordered.map((point) => [point, (value ?? text)(point)]));
    ordered.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sorting.sign * (value ? x - y : order(x, y));
    });
  };
  const rows = () => {
    heads.at(-1).firstChild.textContent = state.feature.name;
    const pages = Math.max(1, Math.ceil(ordered.length / ROWS));
    sorting.page = Math.min(sorting.page, pages - 1);
    const first = sorting.page * ROWS;
    const part = ordered.slice(first, first + ROWS);
    const cell = (column, point, index) => {
      if (index === 0) return make('td', {}, link(column.text(point), point.one));
      if (!column.value) return make('td', {}, column.text(point));
      const value = column.value(point);
      return make('td', { className: 'numeric' }, value === null ? '' : column.shown(value));
    };
    const lines = part.map((point) => {
      const row = make('tr', { className: point.one === state.chosen ? 'chosen' : '' }, ...COLUMNS.map((column, index) => cell(column, point, index)));
      row.dataset.index = point.one.index;
      return row;
    });
    const none = make('tr', {}, make('td', { colSpan: COLUMNS.length, className: 'none' }, 'No points'));
    find('rows').replaceChildren(...(lines.length > 0 ? lines : [none]));
    find('page').textContent = ordered.length > 0 ? `${count(first + 1)} to ${count(first + part.length)} of ${count(ordered.length)}` : '';
    find('back').disabled = sorting.page === 0;
    find('next').disabled = sorting.page >= pages - 1;
  };
  for (const [id, step] of [['back', -1], ['next', 1]]) find(id).addEventListener('click', () => { sorting.page += step; rows(); });
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  find('copy').addEventListener('click', () => {
    const names = COLUMNS.map((column, index) => (index === COLUMNS.length - 1 ? state.feature.name : column.name.replace('±', 'spread').replace(/^(T|Its t)ime$/, '$& (s)')));
    const lines = ordered.map((point) => COLUMNS.map(({ value, text }) => (value ? value(point) ?? '' : text(point))));
    report.copy([names, ...lines].map((line) => `${line.map((each) => quote(String(each))).join(',')}\n`).join(''), find('copy'));
  });

  const update = () => {
    shown = explorer.evaluate();
    summarize();
    explorer.plot.show(shown.points);
    sorting.page = 0;
    sort();
    rows();
    listAbsent();
    detail();
  };

  find('files').append(...data.files.map(([name, about]) => make('li', {}, make('b', {}, name), ` ${about}`)));
  find('sources').open = data.files.length <= explorer.MOST_FILES;
  find('subtitle').textContent = `${counted(cases.length, 'case', 'cases')} of ${counted(explorer.matrices.length, 'matrix', 'matrices')} from ${counted(data.files.length, 'file', 'files')}`;
  find('explorer').hidden = false;
  update();
  explorer.ready = performance.now();
}
