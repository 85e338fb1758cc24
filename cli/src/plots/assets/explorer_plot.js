// The scatter plot: axes, points, and how a pointer or the keyboard reaches them.
'use strict';

explorer.plot = (() => {
  const { state, number, count, times, percent } = explorer;
  const canvas = document.getElementById('scatter');
  const context = canvas.getContext('2d');
  const SHAPES = ['circle', 'square', 'triangle', 'diamond', 'down', 'plus', 'star', 'bar'];
  const COLOURS = [0, 1, 2, 3, 4, 6, 5, 8];
  const MAX_DISTANCE = 26;
  /** Values of a feature up to which each has a tick, and its points are spread sideways. */
  const MOST_DISTINCT = 10;
  /** Points are drawn in so many turns, so that no category hides the others. */
  const TURNS = 16;
  const MANY = 1500;
  /** Speed-ups that differ by less than this factor have ticks at equal distances. */
  const NARROW = 2.5;
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  let points = [];
  let drawn = [];
  let frame = null;
  let categories = [];
  let focused = null;
  let hovered = null;

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /** The outline of a marker around the origin of `path`. */
  const shape = (path, kind, x, y, r) => {
    const line = (...corners) => {
      corners.forEach(([dx, dy], index) => path[index ? 'lineTo' : 'moveTo'](x + dx * r, y + dy * r));
      path.closePath();
    };
    if (kind === 'circle') { path.moveTo(x + r, y); path.arc(x, y, r, 0, 7); }
    if (kind === 'square') line([-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]);
    if (kind === 'triangle') line([0, -1.2], [1.1, 0.8], [-1.1, 0.8]);
    if (kind === 'down') line([0, 1.2], [1.1, -0.8], [-1.1, -0.8]);
    if (kind === 'diamond') line([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]);
    if (kind === 'plus') line([-0.4, -1.15], [0.4, -1.15], [0.4, -0.4], [1.15, -0.4], [1.15, 0.4], [0.4, 0.4], [0.4, 1.15], [-0.4, 1.15], [-0.4, 0.4], [-1.15, 0.4], [-1.15, -0.4], [-0.4, -0.4]);
    if (kind === 'bar') line([-1.3, -0.5], [1.3, -0.5], [1.3, 0.5], [-1.3, 0.5]);
    if (kind === 'star') {
      line(...Array.from({ length: 10 }, (_, index) => {
        const size = index % 2 ? 0.55 : 1.35;
        return [Math.sin((index * Math.PI) / 5) * size, -Math.cos((index * Math.PI) / 5) * size];
      }));
    }
  };

  /** Ticks of a logarithmic axis: those that fit, with the powers of ten first. */
  const logTicks = (low, high, room) => {
    const decades = Math.log10(high / low);
    const sets = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];
    for (const set of sets) {
      const ticks = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        for (const part of set) {
          const tick = Number((part * 10 ** power).toPrecision(6));
          if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
        }
      }
      const gaps = ticks.slice(1).map((tick, index) => Math.log10(tick / ticks[index]) / decades);
      if (ticks.length > 1 && Math.min(...gaps) >= room) return ticks;
    }
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) * room));
    return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, index) => 10 ** (first + index * step));
  };
  const linearTicks = (low, high, most) => {
    const rough = (high - low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((part) => part * power >= rough * 0.999) * power;
    const ticks = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(10)));
    return ticks;
  };
  const short = (value) => {
    if (state.feature.share) return percent(value);
    if (value >= 1e9) return `${number(value / 1e9)}G`;
    if (value >= 1e6) return `${number(value / 1e6)}M`;
    return value >= 1e4 ? `${number(value / 1e3)}k` : number(value);
  };

  /** Where values lie on the canvas. */
  const layout = (width, height) => {
    const margin = { left: width < 480 ? 54 : 60, right: 14, top: 28, bottom: 50 };
    const positive = points.filter(({ x }) => x > 0).map(({ x }) => x);
    const distinct = [...new Set(points.map(({ x }) => x))].sort((a, b) => a - b);
    const few = distinct.length <= MOST_DISTINCT;
    const hasZeros = state.log && points.some(({ x }) => x <= 0);
    const zero = hasZeros ? 40 : 0;
    const left = margin.left + zero;
    const [right, bottom] = [width - margin.right, height - margin.bottom];
    const log = state.log && positive.length > 0;
    const all = log ? positive : points.map(({ x }) => x);
    let [low, high] = [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), -Infinity)];
    if (!(low <= high)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
    if (log) {
      const pad = Math.max(1.06, (high / low) ** (few ? 0.12 : 0.03));
      [low, high] = [low / pad, high * pad];
    } else {
      const pad = (high - low || Math.abs(high) || 1) * 0.04;
      [low, high] = [Math.max(low - pad, state.feature.share || low >= 0 ? -pad : low - pad), high + pad];
    }
    const ys = points.map(({ y }) => y);
    let [worst, best] = [ys.reduce((a, b) => Math.min(a, b), 0.9), ys.reduce((a, b) => Math.max(a, b), 1.1)];
    const pad = Math.max(1.04, (best / worst) ** 0.04);
    [worst, best] = [worst / pad, best * pad];
    const scale = log ? (x) => Math.log(x / low) / Math.log(high / low) : (x) => (x - low) / (high - low);
    return {
      left, right, bottom, top: margin.top, zero, log, low, high, worst, best,
      discrete: few ? distinct : null,
      x: (x) => (log && x <= 0 ? margin.left + zero / 2 - 6 : left + scale(x) * (right - left)),
      y: (y) => bottom - (Math.log(y / worst) / Math.log(best / worst)) * (bottom - margin.top),
    };
  };

  const axes = (width, height) => {
    const [grid, soft, text, rule] = [ink('rule'), ink('soft'), ink('ink'), ink('faint')];
    const { left, right, top, bottom, zero } = frame;
    const start = left - zero;
    context.font = FONT;
    // Below 1 the kernel is slower than what it is compared with.
    const equal = frame.y(1);
    context.fillStyle = rule;
    context.fillRect(start, equal, right - start, bottom - equal);
    context.lineWidth = 1;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const narrow = frame.best / frame.worst < NARROW;
    const rungs = narrow ? linearTicks(frame.worst, frame.best, (bottom - top) / 56) : logTicks(frame.worst, frame.best, 26 / (bottom - top));
    for (const tick of rungs) {
      const y = Math.round(frame.y(tick)) + 0.5;
      context.strokeStyle = grid;
      context.beginPath();
      context.moveTo(start, y);
      context.lineTo(right, y);
      context.stroke();
      context.fillStyle = soft;
      context.fillText(`${number(tick)}×`, start - 7, y);
    }
    context.textBaseline = 'top';
    context.textAlign = 'center';
    const room = (width < 480 ? 52 : 64) / (right - left);
    const ticks = frame.discrete && frame.discrete.every((value) => value > 0 || !frame.log) ? frame.discrete
      : frame.log ? logTicks(frame.low, frame.high, room) : linearTicks(frame.low, frame.high, 1 / room);
    let free = -Infinity;
    const shown = frame.log && zero ? [0, ...ticks] : ticks;
    for (const tick of shown) {
      const x = Math.round(frame.x(tick)) + 0.5;
      const label = short(tick);
      const half = context.measureText(label).width / 2;
      context.strokeStyle = grid;
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom + 4);
      context.stroke();
      const at = Math.min(x, width - half - 2);
      if (at - half < free) continue;
      free = at + half + 8;
      context.fillStyle = soft;
      context.fillText(label, at, bottom + 8);
    }
    context.strokeStyle = soft;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(start, Math.round(equal) + 0.5);
    context.lineTo(right, Math.round(equal) + 0.5);
    context.stroke();
    context.fillStyle = text;
    context.fillText(`${state.feature.axis}${frame.log ? ', logarithmic' : ''}`, (start + right) / 2, bottom + 29, right - start);
    context.save();
    context.translate(width < 480 ? 2 : 4, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText('speed-up, logarithmic', 0, 0);
    context.restore();
    context.fillStyle = soft;
    context.textAlign = 'right';
    context.fillText(`above 1×: faster than ${state.base.name}`, right, 7, right - start);
  };

  /** A number between −1 and 1 that is the same for the same index. */
  const jitter = (index) => (((index * 2654435761) % 1000) / 500) - 1;

  const whisker = ({ x, point }) => {
    const width = explorer.spread(point);
    if (width === null) return;
    const inside = (y) => frame.y(Math.max(frame.worst, Math.min(frame.best, y)));
    const [top, bottom] = [inside(point.y + width), inside(point.y - width)];
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    for (const y of [top, bottom]) {
      context.moveTo(x - 4, y);
      context.lineTo(x + 4, y);
    }
    context.stroke();
  };

  const ring = (place, radius, width) => {
    context.beginPath();
    context.arc(place.x, place.y, radius, 0, 7);
    context.lineWidth = width;
    context.strokeStyle = ink('ink');
    context.stroke();
  };

  const draw = () => {
    const { width, height } = canvas.getBoundingClientRect();
    if (width === 0) return;
    const density = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
    }
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, width, height);
    frame = layout(width, height);
    axes(width, height);
    const sideways = frame.discrete && points.length > 60 ? Math.min(70, (frame.right - frame.left) / frame.discrete.length / 5) : 0;
    const squeezed = frame.zero ? 12 : 0;
    drawn = points.map((point) => {
      const isZero = frame.log && point.x <= 0;
      return { point, x: frame.x(point.x) + jitter(point.one.index) * (isZero ? squeezed : sideways), y: frame.y(point.y) };
    });
    const radius = (points.length > MANY ? 3.2 : points.length > 300 ? 3.9 : 5) * (width < 480 ? 0.75 : 1);
    const card = ink('card');
    if (points.length <= 120) {
      for (const place of drawn) {
        context.strokeStyle = ink(categories[place.point.category].colour);
        context.globalAlpha = 0.55;
        context.lineWidth = 1.2;
        whisker(place);
      }
    }
    const inks = categories.map(({ colour }) => ink(colour));
    context.globalAlpha = points.length > 300 ? 0.78 : 0.92;
    context.lineWidth = points.length > MANY ? 0.4 : 0.7;
    context.strokeStyle = card;
    for (let turn = 0; turn < TURNS; turn += 1) {
      const paths = categories.map(() => new Path2D());
      for (let at = turn; at < drawn.length; at += TURNS) {
        const { point: { category }, x, y } = drawn[at];
        shape(paths[category], categories[category].shape, x, y, radius);
      }
      paths.forEach((path, index) => {
        context.fillStyle = inks[index];
        context.fill(path);
        context.stroke(path);
      });
    }
    context.globalAlpha = 1;
    const centre = explorer.geomean;
    if (centre !== null) {
      const y = frame.y(centre);
      context.setLineDash([7, 5]);
      context.strokeStyle = ink('ink');
      context.lineWidth = 1.4;
      context.beginPath();
      context.moveTo(frame.left - frame.zero, y);
      context.lineTo(frame.right, y);
      context.stroke();
      context.setLineDash([]);
      const label = `geometric mean ${times(centre)}`;
      context.textAlign = 'left';
      context.textBaseline = 'bottom';
      const at = frame.left - frame.zero + 8;
      context.globalAlpha = 0.88;
      context.fillStyle = card;
      context.fillRect(at - 5, y - 22, context.measureText(label).width + 10, 18);
      context.globalAlpha = 1;
      context.fillStyle = ink('ink');
      context.fillText(label, at, y - 6);
    }
    for (const place of drawn) {
      if (state.chosen && place.point.one.matrix === state.chosen.matrix) ring(place, radius + 2, 1);
      if (state.chosen === place.point.one) {
        context.lineWidth = 1.6;
        context.strokeStyle = ink('ink');
        whisker(place);
        ring(place, radius + 5, 2.4);
      }
      if (place.point === hovered || place.point === focused) {
        context.lineWidth = 1.4;
        context.strokeStyle = ink('ink');
        whisker(place);
        ring(place, radius + 3, 2);
      }
    }
    if (points.length === 0) {
      context.fillStyle = ink('soft');
      context.textAlign = 'center';
      context.textBaseline = 'middle';
      context.fillText('No point passes the filters and has a verified time.', width / 2, height / 2, width - 30);
    }
  };
  let asked = 0;
  const redraw = () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(draw);
  };

  /** The colours and shapes of the categories; those beyond the eighth share the last one. */
  const categorize = () => {
    const values = explorer.values(state.colour);
    const last = SHAPES.length - 1;
    const numbers = new Map(values.map((value, index) => [value, Math.min(index, last)]));
    for (const point of points) point.category = numbers.get(state.colour.of(point.one));
    categories = SHAPES.slice(0, Math.max(1, Math.min(values.length, SHAPES.length)))
      .map((kind, index) => ({ shape: kind, colour: `c${COLOURS[index]}` }));
    const items = categories.map(({ shape: kind, colour }, index) => {
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      svg.setAttribute('viewBox', '-6 -6 12 12');
      svg.setAttribute('aria-hidden', 'true');
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      const steps = [];
      const pen = { moveTo: (x, y) => steps.push(`M${x} ${y}`), lineTo: (x, y) => steps.push(`L${x} ${y}`), closePath: () => steps.push('z'),
        arc: (x, y, r) => steps.push(`M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`) };
      shape(pen, kind, 0, 0, 4.4);
      path.setAttribute('d', steps.join(''));
      path.setAttribute('fill', `var(--${colour})`);
      svg.append(path);
      const rest = values.length - SHAPES.length;
      const name = index === last && rest > 0 ? `${count(rest + 1)} others` : state.colour.label(values[index]);
      return report.make('li', {}, svg, name);
    });
    document.getElementById('legend').replaceChildren(...items);
  };

  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = MAX_DISTANCE;
    for (const place of drawn) {
      const away = Math.hypot(place.x - x, place.y - y);
      if (away < least) [best, least] = [place, away];
    }
    return best;
  };
  const tip = (place) => {
    const { point } = place;
    const box = canvas.getBoundingClientRect();
    report.tip.show(box.left + place.x, box.top + place.y, ...explorer.tip(point));
  };

  canvas.addEventListener('pointermove', (event) => {
    const place = nearest(event);
    if ((place?.point ?? null) === hovered) return;
    hovered = place?.point ?? null;
    if (place) tip(place);
    else report.tip.hide();
    redraw();
  });
  canvas.addEventListener('pointerleave', (event) => {
    if (event.pointerType === 'touch') return;
    hovered = null;
    report.tip.hide();
    redraw();
  });
  canvas.addEventListener('click', (event) => {
    const place = nearest(event);
    if (!place) return;
    focused = place.point;
    tip(place);
    explorer.choose(place.point.one);
  });
  // Two orders of the points: along the axis, and by speed-up.
  const along = (step, key) => {
    const order = [...drawn].sort((a, b) => key(a) - key(b) || a.point.one.index - b.point.one.index);
    if (order.length === 0) return;
    const now = order.findIndex(({ point }) => point === focused);
    const last = order.length - 1;
    const next = now < 0 && Number.isFinite(step) ? (step > 0 ? 0 : last) : now + step;
    focus(order[Math.max(0, Math.min(last, next))]);
  };
  const focus = (place) => {
    focused = place.point;
    tip(place);
    document.getElementById('said').textContent = explorer.sentence(place.point);
    redraw();
  };
  const KEYS = {
    ArrowRight: () => along(1, ({ point }) => point.x), ArrowLeft: () => along(-1, ({ point }) => point.x),
    ArrowUp: () => along(1, ({ point }) => point.y), ArrowDown: () => along(-1, ({ point }) => point.y),
    PageUp: () => along(20, ({ point }) => point.x), PageDown: () => along(-20, ({ point }) => point.x),
    Home: () => along(-Infinity, ({ point }) => point.x), End: () => along(Infinity, ({ point }) => point.x),
    Escape: () => { report.tip.hide(); focused = null; redraw(); },
    Enter: () => { if (focused) explorer.choose(focused.one); },
    ' ': () => { if (focused) explorer.choose(focused.one); },
  };
  canvas.addEventListener('keydown', (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  canvas.addEventListener('blur', () => { focused = null; report.tip.hide(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', redraw);

  return {
    /** Shows these points. */
    show(next) {
      const same = (old) => (old ? next.find(({ one }) => one === old.one) ?? null : null);
      [points, hovered, focused] = [next, null, same(focused)];
      report.tip.hide();
      categorize();
      canvas.setAttribute('aria-label', `${explorer.counted(points.length, 'point', 'points')}: speed-up of ${state.own.name} over ${state.base.name} against ${state.feature.axis}`);
      draw();
    },
    redraw,
    /** Where the point of a case is on the page; for tests. */
    place(index) {
      const found = drawn.find(({ point }) => point.one.index === index);
      const box = canvas.getBoundingClientRect();
      return found ? { x: box.left + found.x, y: box.top + found.y } : null;
    },
  };
})();
