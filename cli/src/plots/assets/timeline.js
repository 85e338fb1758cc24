// Interactive timelines: wheel, pinch, buttons and keys zoom; dragging moves; pointing shows details. Times are microseconds.
'use strict';

{
  const ROW = 24;
  const BAR = 14;
  const OUTLINE = 5;
  const HEADING = 23;
  const OVERVIEW = 18;
  const RULER = 26;
  /** Shortest visible interval, as a share of the run and in microseconds. */
  const MIN_SHARE = 1e-6;
  const MIN_US = 0.002;
  const UNITS = [[1e6, 's'], [1e3, 'ms'], [1, 'µs'], [1e-3, 'ns']];
  const unitOf = (us) => UNITS.find(([size]) => us >= size) ?? UNITS.at(-1);
  const timeText = (us) => {
    if (us === 0) return '0 s';
    const [size, name] = unitOf(Math.abs(us));
    return `${Number((us / size).toPrecision(4))} ${name}`;
  };

  /** Spans of one lane in order of time, with an index for those in view. */
  const indexed = (spans) => {
    const furthest = new Float64Array(spans.length);
    let end = -Infinity;
    spans.forEach((span, index) => {
      end = Math.max(end, span.end, span.predictedEnd ?? -Infinity);
      furthest[index] = end;
    });
    const earliest = new Float64Array(spans.length);
    let start = Infinity;
    for (let index = spans.length - 1; index >= 0; index -= 1) {
      start = Math.min(start, spans[index].start, spans[index].predictedStart ?? Infinity);
      earliest[index] = start;
    }
    /** Calls `visit` for each span that may be visible between two times. */
    const between = (from, to, visit) => {
      let [low, high] = [0, spans.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (furthest[middle] < from) low = middle + 1;
        else high = middle;
      }
      for (let index = low; index < spans.length && earliest[index] <= to; index += 1) visit(spans[index]);
    };
    return { between };
  };

  const unpacked = (data) => {
    const spans = data.spans.map(([lane, row, kind, name, start, end, predictedStart, predictedEnd, details]) => (
      { lane, row, kind, name: data.words[name], start, end, predictedStart, predictedEnd, details }));
    const lanes = data.lanes.map((lane, index) => ({
      ...lane, ...indexed(spans.filter((span) => span.lane === index)),
    }));
    let y = 0;
    lanes.forEach((lane, index) => {
      lane.headed = index === 0 || lanes[index - 1].process !== lane.process;
      if (lane.headed) y += HEADING;
      lane.top = y;
      y += lane.rows * ROW + 2;
    });
    return { ...data, spans, lanes, height: y, predicts: spans.some((span) => span.predictedStart !== null) };
  };

  const start = (figure, data) => {
    const title = figure.querySelector('h3').textContent;
    const button = (text, label, act) => {
      const made = report.make('button', { type: 'button', title: label, ariaLabel: label }, text);
      made.addEventListener('click', act);
      return made;
    };
    const canvas = report.make('canvas', { tabIndex: 0, role: 'img' });
    canvas.setAttribute('aria-label', `${title}: ${data.spans.length} spans in ${data.lanes.length} lanes. `
      + 'Plus and minus zoom, arrows move, 0 shows everything.');
    const ruler = report.make('canvas', { className: 'overview', title: 'The whole run; click to go there' });
    const window_ = report.make('output');
    const kinds = report.make('ul', { className: 'kinds' });
    for (const kind of data.kinds) {
      const colour = report.make('i');
      colour.style.background = `var(--c${kind.colour})`;
      kinds.append(report.make('li', {}, colour, kind.name));
    }
    if (data.predicts) kinds.append(report.make('li', {}, report.make('i', { className: 'predicted' }), 'predicted'));

    let view = { from: 0, to: data.end };
    let predicted = data.predicts;
    let pointed = null;
    let theme = null;
    let overview = null;
    let gutter = 0;
    let width = 0;
    let scheduled = false;

    const least = Math.max(data.end * MIN_SHARE, MIN_US);
    const look = (from, to) => {
      const length = Math.min(Math.max(to - from, least), data.end);
      const middle = (from + to) / 2;
      const begin = Math.min(Math.max(middle - length / 2, 0), data.end - length);
      view = { from: begin, to: begin + length };
      schedule();
    };
    const zoom = (factor, at = (view.from + view.to) / 2) => {
      const length = Math.min(Math.max((view.to - view.from) * factor, least), data.end);
      const share = (at - view.from) / (view.to - view.from);
      look(at - share * length, at + (1 - share) * length);
    };
    const move = (us) => look(view.from + us, view.to + us);
    const reset = () => look(0, data.end);

    const readTheme = () => {
      const style = getComputedStyle(document.documentElement);
      const of = (name) => style.getPropertyValue(`--${name}`).trim();
      theme = {
        ink: of('ink'), soft: of('soft'), rule: of('rule'), faint: of('faint'), card: of('card'), accent: of('accent'), onBar: of('on-bar'),
        kinds: data.kinds.map((kind) => of(`c${kind.colour}`)), font: getComputedStyle(document.body).fontFamily,
      };
      overview = null;
    };
    const sized = (element, height) => {
      const scale = window.devicePixelRatio || 1;
      const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
      if (element.width !== wide || element.height !== high) {
        [element.width, element.height] = [wide, high];
        element.style.height = `${height}px`;
      }
      const context = element.getContext('2d');
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.textBaseline = 'alphabetic';
      return context;
    };
    /** `text` shortened to `limit` pixels; empty if fewer characters than `fewest` would be left. */
    const fitted = (context, text, limit, fewest = 1) => {
      if (context.measureText(text).width <= limit) return text;
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(`${text.slice(0, middle)}…`).width <= limit) low = middle;
        else high = middle - 1;
      }
      return low < fewest ? '' : `${text.slice(0, low)}…`;
    };

    const ticks = () => {
      const length = view.to - view.from;
      const wanted = length / Math.max((width - gutter) / 96, 2);
      const power = 10 ** Math.floor(Math.log10(wanted));
      const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= wanted * 0.999);
      const [size, name] = unitOf(Math.max(view.to, step));
      const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)), 9);
      const found = [];
      for (let count = Math.ceil(view.from / step - 1e-9); count * step <= view.to; count += 1) {
        found.push([count * step, `${(count * step / size).toFixed(digits)} ${name}`]);
      }
      return found;
    };

    const drawOverview = () => {
      const picture = document.createElement('canvas');
      const scale = window.devicePixelRatio || 1;
      picture.width = Math.max(1, Math.round((width - gutter) * scale));
      picture.height = Math.round(OVERVIEW * scale);
      const context = picture.getContext('2d');
      const strip = picture.height / Math.max(data.lanes.length, 1);
      for (const span of data.spans) {
        context.fillStyle = theme.kinds[span.kind];
        const x = span.start / data.end * picture.width;
        context.fillRect(x, span.lane * strip, Math.max((span.end - span.start) / data.end * picture.width, 0.7), Math.max(strip * 0.8, 1));
      }
      return picture;
    };

    const draw = () => {
      scheduled = false;
      if (!theme) readTheme();
      const inside = width - gutter;
      const x = (us) => gutter + (us - view.from) / (view.to - view.from) * inside;
      const marks = ticks();

      overview ??= drawOverview();
      const top = sized(ruler, OVERVIEW + RULER);
      top.fillStyle = theme.faint;
      top.fillRect(gutter, 0, inside, OVERVIEW);
      top.drawImage(overview, gutter, 0, inside, OVERVIEW);
      const [left, right] = [view.from, view.to].map((us) => gutter + us / data.end * inside);
      top.globalAlpha = 0.72;
      top.fillStyle = theme.card;
      top.fillRect(gutter, 0, left - gutter, OVERVIEW);
      top.fillRect(right, 0, width - right, OVERVIEW);
      top.globalAlpha = 1;
      top.strokeStyle = theme.accent;
      top.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 2), OVERVIEW - 1);
      top.font = `11px ${theme.font}`;
      top.fillStyle = theme.soft;
      for (const [us, text] of marks) {
        const half = top.measureText(text).width / 2;
        const at = x(us);
        if (at + half <= width && at - half >= gutter - 20) top.fillText(text, at - half, OVERVIEW + 18);
      }

      const context = sized(canvas, data.height + 4);
      for (const lane of data.lanes) {
        context.fillStyle = theme.faint;
        context.fillRect(gutter, lane.top, inside, lane.rows * ROW);
      }
      context.fillStyle = theme.rule;
      for (const [us] of marks) context.fillRect(Math.round(x(us)), 0, 1, data.height);
      context.save();
      context.beginPath();
      context.rect(gutter, 0, inside, data.height + 4);
      context.clip();
      context.font = `10.5px ${theme.font}`;
      for (const lane of data.lanes) {
        // Spans narrower than a pixel are drawn once for each pixel and kind.
        const lastBar = new Map();
        const lastOutline = new Map();
        const fresh = (last, span, at, wide) => {
          if (wide >= 1) return true;
          const place = span.row * data.kinds.length + span.kind;
          const pixel = Math.floor(at * 2);
          if (last.get(place) === pixel) return false;
          last.set(place, pixel);
          return true;
        };
        lane.between(view.from, view.to, (span) => {
          const y = lane.top + span.row * ROW + 1;
          const at = Math.max(x(span.start), gutter - 4);
          const wide = Math.min(x(span.end), width + 4) - at;
          if (wide >= 0 && at <= width && fresh(lastBar, span, at, wide)) {
            context.fillStyle = theme.kinds[span.kind];
            // A gap separates wide neighbours.
            context.fillRect(at, y, Math.max(wide > 4 ? wide - 1 : wide, 0.8), BAR);
            if (wide > 26) {
              const visible = Math.max(at, gutter);
              const text = fitted(context, span.name, at + wide - visible - 8, 8);
              context.fillStyle = theme.onBar;
              if (text) context.fillText(text, visible + 4, y + 10.5);
            }
          }
          if (predicted && span.predictedStart !== null) {
            const from = Math.max(x(span.predictedStart), gutter - 4);
            const long = Math.min(x(span.predictedEnd), width + 4) - from;
            if (long >= 0 && from <= width && fresh(lastOutline, span, from, long)) {
              context.strokeStyle = theme.kinds[span.kind];
              context.strokeRect(from + 0.5, y + BAR + 2.5, Math.max(long - 1.5, 0.5), OUTLINE - 1);
            }
          }
        });
      }
      if (pointed) {
        context.strokeStyle = theme.ink;
        context.lineWidth = 1.5;
        const y = data.lanes[pointed.lane].top + pointed.row * ROW + 1;
        context.strokeRect(x(pointed.start), y, Math.max(x(pointed.end) - x(pointed.start) - 1, 1.5), BAR);
        context.lineWidth = 1;
      }
      context.restore();
      for (const lane of data.lanes) {
        if (lane.headed) {
          context.font = `600 12px ${theme.font}`;
          context.fillStyle = theme.ink;
          context.fillText(fitted(context, lane.process, width), 0, lane.top - 6);
        }
        context.font = `11px ${theme.font}`;
        context.fillStyle = theme.soft;
        const text = fitted(context, lane.name, gutter - 10);
        context.fillText(text, gutter - 8 - context.measureText(text).width, lane.top + 12);
      }
      window_.textContent = `${timeText(view.from)} to ${timeText(view.to)}`;
      figure.dataset.view = `${view.from} ${view.to}`;
    };
    const schedule = () => {
      if (scheduled) return;
      scheduled = true;
      requestAnimationFrame(draw);
    };

    const timeAt = (clientX) => {
      const box = canvas.getBoundingClientRect();
      return view.from + (clientX - box.left - gutter) / (width - gutter) * (view.to - view.from);
    };
    const spanAt = (clientX, clientY) => {
      const box = canvas.getBoundingClientRect();
      const y = clientY - box.top;
      const lane = data.lanes.find((one) => y >= one.top && y < one.top + one.rows * ROW);
      if (!lane || clientX - box.left < gutter) return null;
      const row = Math.floor((y - lane.top) / ROW);
      const at = timeAt(clientX);
      const reach = 3 * (view.to - view.from) / (width - gutter);
      let found = null;
      let away = reach;
      lane.between(at - reach, at + reach, (span) => {
        if (span.row !== row) return;
        const distance = Math.max(span.start - at, at - span.end, 0);
        if (distance < away || (distance === 0 && !found)) [found, away] = [span, distance];
      });
      return found;
    };
    const tell = (event) => {
      const span = spanAt(event.clientX, event.clientY);
      if (span !== pointed) {
        pointed = span;
        schedule();
      }
      if (!span) return report.tip.hide();
      const lasted = span.end - span.start;
      const rows = [['kind', data.kinds[span.kind].name]];
      if (span.predictedStart === null) rows.push(['start', timeText(span.start)], ['lasted', timeText(lasted)]);
      else {
        const late = span.start - span.predictedStart;
        const predictedTime = span.predictedEnd - span.predictedStart;
        rows.push(
          ['start', `${timeText(span.start)}, ${timeText(Math.abs(late))} ${late < 0 ? 'earlier' : 'later'} than predicted`],
          ['lasted', `${timeText(lasted)}, predicted ${timeText(predictedTime)}`]);
      }
      for (let index = 0; index < span.details.length; index += 2) {
        rows.push([data.words[span.details[index]], data.words[span.details[index + 1]]]);
      }
      return report.tip.show(event.clientX, event.clientY, span.name, rows);
    };

    const pointers = new Map();
    canvas.addEventListener('pointerdown', (event) => {
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event.clientX);
      if (event.pointerType === 'touch') tell(event);
    });
    canvas.addEventListener('pointermove', (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return tell(event);
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
      pointers.set(event.pointerId, event.clientX);
      if (others.length > 0) {
        const [gapBefore, gapNow] = [before, event.clientX].map((x) => Math.max(Math.abs(x - others[0]), 8));
        return zoom(gapBefore / gapNow, timeAt((event.clientX + others[0]) / 2));
      }
      report.tip.hide();
      return move((before - event.clientX) / (width - gutter) * (view.to - view.from));
    });
    for (const end of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
    }
    canvas.addEventListener('pointerleave', (event) => {
      if (event.pointerType === 'touch') return;
      pointed = null;
      report.tip.hide();
      schedule();
    });
    // The page scrolls over a timeline that has no focus.
    canvas.addEventListener('wheel', (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      report.tip.hide();
      const pixels = event.deltaMode === 0 ? 1 : 30;
      if (sideways) move((event.deltaX || event.deltaY) * pixels / width * (view.to - view.from));
      else zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * pixels)) * 0.004), timeAt(event.clientX));
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const quarter = (view.to - view.from) / 4;
      const acts = {
        '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), _: () => zoom(1 / 0.6),
        ArrowLeft: () => move(-quarter), ArrowRight: () => move(quarter), 0: reset, Home: reset,
      };
      if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      acts[event.key]();
    });
    const go = (event) => {
      const box = ruler.getBoundingClientRect();
      const at = (event.clientX - box.left - gutter) / (width - gutter) * data.end;
      move(at - (view.from + view.to) / 2);
    };
    ruler.addEventListener('pointerdown', (event) => {
      ruler.setPointerCapture(event.pointerId);
      go(event);
    });
    ruler.addEventListener('pointermove', (event) => { if (event.buttons === 1) go(event); });

    const tools = report.make('div', { className: 'tools' },
      button('+', 'Zoom in', () => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)),
      button('Reset', 'Show the whole run', reset));
    if (data.predicts) {
      const toggle = button('Predicted', 'Show the predicted tasks', () => {
        predicted = !predicted;
        toggle.setAttribute('aria-pressed', String(predicted));
        schedule();
      });
      toggle.setAttribute('aria-pressed', 'true');
      tools.append(toggle);
    }
    const hint = matchMedia('(pointer: coarse)').matches
      ? 'Two fingers zoom, one moves' : 'Click first: the wheel zooms, dragging moves; keys + − ← → 0';
    tools.append(report.make('span', { className: 'hint' }, hint), window_);
    const stage = report.make('div', { className: 'stage' }, canvas);
    figure.querySelector('.still').before(kinds, tools, ruler, stage);
    figure.classList.add('live');

    new ResizeObserver(() => {
      if (stage.clientWidth === width || stage.clientWidth === 0) return;
      width = stage.clientWidth;
      const context = canvas.getContext('2d');
      context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      const widest = Math.max(40, ...data.lanes.map((lane) => context.measureText(lane.name).width));
      gutter = Math.round(Math.min(widest + 12, width * 0.28));
      ruler.style.width = `${width}px`;
      overview = null;
      // Draw immediately: a canvas is blank after its size has changed.
      draw();
    }).observe(stage);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      theme = null;
      schedule();
    });
  };

  const all = JSON.parse(document.getElementById('timeline-data').textContent);
  for (const figure of document.querySelectorAll('.timeline')) {
    const data = all[Number(figure.dataset.timeline)];
    // A run of length zero keeps the static figure.
    if (data.spans.length > 0 && data.end > 0) start(figure, unpacked(data));
  }
}
