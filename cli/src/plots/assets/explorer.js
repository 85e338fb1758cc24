// The data of the explorer: cases, what is plotted of them, filters, and the speed-ups that follow.
'use strict';

const explorer = (() => {
  const data = JSON.parse(document.getElementById('explorer-data').textContent);
  const [UNVERIFIED, WRONG, NOT_RUN] = [-1, -2, -3];
  const THIN = '\u202f';
  /** Files up to which each has a filter. */
  const MOST_FILES = 12;

  /** Numbers as text: significant digits, thousands separated. */
  const group = (text) => {
    const [whole, fraction] = text.split('.');
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
    return fraction === undefined ? grouped : `${grouped}.${fraction}`;
  };
  const number = (value, digits = 3) => {
    if (value === 0) return '0';
    const size = Math.floor(Math.log10(Math.abs(value)));
    if (size < -4) return value.toExponential(digits - 1).replace('e-', '×10⁻').replace(/⁻(\d+)$/, (_, power) => `⁻${[...power].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[digit]).join('')}`);
    const text = value.toFixed(Math.max(0, digits - 1 - size));
    return group(text.includes('.') ? text.replace(/\.?0+$/, '') : text).replace('-', '−');
  };
  const count = (value) => group(String(value));
  const counted = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;
  /** Seconds with three significant digits and a unit. */
  const seconds = (value) => {
    const [factor, unit] = value >= 1 ? [1, 's'] : value >= 1e-3 ? [1e3, 'ms'] : value >= 1e-6 ? [1e6, 'µs'] : [1e9, 'ns'];
    const shown = value * factor;
    return `${shown.toFixed(shown < 10 ? 2 : shown < 100 ? 1 : 0)} ${unit}`;
  };
  const times = (ratio) => `${ratio >= 100 ? ratio.toFixed(0) : ratio >= 10 ? ratio.toFixed(1) : ratio.toFixed(2)}×`;
  const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

  const matrices = data.matrices.map(([name, groupOf, argument, rows, cols, nnz, features, across, pattern]) => {
    const [mean, longest, variation, longShare, emptyShare, newColumns, near] = features;
    return { name, group: data.groups[groupOf], argument, rows, cols, nnz, mean, longest, variation, longShare, emptyShare,
      newColumns, near, across, pattern };
  });
  const cases = data.cases.map(([file, matrix, dtype, k, device, flags, chosen, reasons, timed], index) => ({
    index, file, matrix: matrices[matrix], dtype, k, device: data.devices[device], flags: data.flags[flags], chosen, reasons, timed,
  }));

  const FEATURES = [
    { id: 'nnz', name: 'Nonzeros', axis: 'nonzeros of A', log: true, of: (one) => one.matrix.nnz },
    { id: 'rows', name: 'Rows', axis: 'rows of A', log: true, of: (one) => one.matrix.rows },
    { id: 'cols', name: 'Columns', axis: 'columns of A', log: true, of: (one) => one.matrix.cols },
    { id: 'mean', name: 'Mean row length', axis: 'mean row length (nonzeros)', log: true, of: (one) => one.matrix.mean },
    { id: 'longest', name: 'Longest row', axis: 'longest row (nonzeros)', log: true, of: (one) => one.matrix.longest },
    { id: 'variation', name: 'Variation of row length', axis: 'variation of row length (standard deviation / mean)', log: true, of: (one) => one.matrix.variation },
    { id: 'long', name: 'Nonzeros in long rows', axis: 'share of nonzeros in rows longer than 512', share: true, of: (one) => one.matrix.longShare },
    { id: 'empty', name: 'Empty rows', axis: 'share of rows without nonzeros', share: true, of: (one) => one.matrix.emptyShare },
    { id: 'new', name: 'Columns per nonzero of 32 rows (locality)', axis: 'distinct columns per nonzero of 32 rows', share: true, of: (one) => one.matrix.newColumns },
    { id: 'near', name: 'Near columns (locality)', axis: 'share of nonzeros near the median column of 32 rows (± 65 536)', share: true, of: (one) => one.matrix.near },
    { id: 'k', name: 'K, columns of X', axis: 'K, columns of X', log: true, of: (one) => one.k },
  ].filter((feature) => cases.some((one) => Number.isFinite(feature.of(one))));

  /** The last part of a file's name, or all of it where another file ends in the same. */
  const fileName = (index) => {
    const [name] = data.files[index] ?? [''];
    const last = (path) => path.split('/').at(-1);
    return data.files.filter(([other]) => last(other) === last(name)).length > 1 ? name : last(name);
  };
  const COLOURS = [
    { id: 'k', name: 'K', of: (one) => one.k, label: (value) => `K = ${value}` },
    { id: 'dtype', name: 'Type', of: (one) => one.dtype, label: String },
    { id: 'device', name: 'Device', of: (one) => one.device, label: String },
    { id: 'group', name: 'Group', of: (one) => one.matrix.group, label: String },
    ...(data.files.length > MOST_FILES ? [] : [{ id: 'file', name: 'File', of: (one) => one.file, label: fileName }]),
  ];
  /** The values of one facet, in order, of all cases. */
  const values = (facet) => [...new Set(cases.map(facet.of))]
    .sort((a, b) => (typeof a === 'number' ? a - b : String(a).localeCompare(b, 'en', { numeric: true })));

  /** The fastest verified entry among those that `test` accepts, or why there is none. */
  const pick = ({ timed }, test) => {
    let best = -1;
    let state = 0;
    for (let at = 0; at < timed.length; at += 4) {
      if (!test(timed[at])) continue;
      const time = timed[at + 1];
      if (time > 0) {
        if (best < 0 || time < timed[best + 1]) best = at;
      } else if (state === 0 || time > state) state = time;
    }
    return best >= 0 ? { at: best } : { state };
  };
  /** What speed-ups are over where no library is: the default kernel of the CPU on one thread. */
  const BASELINE = 'cpu_csr on 1 thread';
  const isKernel = (name) => data.libraries[name] === null && data.names[name] !== BASELINE;
  const LIBRARIES = { mkl: 'MKL', scipy: 'SciPy', cusparse: 'cuSPARSE' };
  const libraries = [...new Set(data.libraries.filter((library) => library !== null))];
  const used = new Set(cases.flatMap((one) => one.timed.filter((_, at) => at % 4 === 0)));
  const kernels = [...used].filter(isKernel).sort((a, b) => data.names[a].localeCompare(data.names[b], 'en', { numeric: true }));
  /** The threads of a library, where they are the same in all cases: ' on 1 thread'. */
  const threadsOf = (library) => {
    const ends = new Set(data.names.filter((_, name) => data.libraries[name] === library).map((text) => / on \d+ threads?$/.exec(text)?.[0] ?? ''));
    return ends.size === 1 ? [...ends][0] : '';
  };
  /** The baseline of a case, which is `cpu_csr` itself where the CPU has one thread. */
  const isBaseline = (one, name) => data.names[name] === BASELINE || (data.names[name] === 'cpu_csr' && one.device.startsWith('cpu (1 thread)'));
  const kernelChoice = (name) => ({ id: `name:${data.names[name]}`, name: data.names[name], group: 'One kernel', find: (one) => pick(one, (other) => other === name) });
  const OWN = [
    { id: 'chosen', name: 'the planner’s choice', find: (one) => (one.chosen === null ? { state: 0 } : pick(one, (name) => name === one.chosen)) },
    { id: 'fastest', name: 'the fastest kernel', find: (one) => pick(one, isKernel) },
    ...kernels.map(kernelChoice),
  ];
  const BASES = [
    ...(libraries.length > 1 ? [{ id: 'peer', name: 'the fastest library', find: (one) => pick(one, (name) => !isKernel(name)) }] : []),
    ...libraries.map((library) => ({ id: `library:${library}`, name: `${LIBRARIES[library] ?? library}${threadsOf(library)}`, find: (one) => pick(one, (name) => data.libraries[name] === library) })),
    { id: 'baseline', name: BASELINE, find: (one) => pick(one, (name) => isBaseline(one, name)) },
    ...kernels.map((name) => {
      const choice = kernelChoice(name);
      return data.names[name] === 'serial_csr' ? { ...choice, group: undefined } : choice;
    }),
    { id: 'other', name: 'the fastest other kernel', find: (one, own) => pick(one, (name) => isKernel(name) && name !== own) },
    { id: 'best', name: 'the fastest kernel', find: (one) => pick(one, isKernel) },
  ].sort((a, b) => (a.group === undefined ? 0 : 1) - (b.group === undefined ? 0 : 1));

  const missing = (who, { state }) => {
    if (state === UNVERIFIED) return `Y of ${who} was not verified`;
    if (state === WRONG) return `Y of ${who} is wrong`;
    if (state === NOT_RUN) return `${who} did not run`;
    return `${who} was not measured`;
  };
  /** An entry of a case with its time in seconds. */
  const entry = (one, at) => {
    const [name, time, below, above] = one.timed.slice(at, at + 4);
    const end = (share, sign) => (share < 0 ? null : (time * (1 + (sign * share) / 1000)) * 1e-9);
    return { name, text: data.names[name], seconds: time > 0 ? time * 1e-9 : null, state: time > 0 ? 0 : time,
      low: end(below, -1), high: end(above, 1) };
  };
  /** Half the width of an entry's interval, as a share of its time. */
  const halfWidth = ({ seconds: median, low, high }) => (low === null || high === null ? null : (high - low) / 2 / median);

  const state = { own: OWN[0], base: BASES[0], feature: FEATURES[0], log: true, colour: COLOURS[0], search: '', off: new Map(), chosen: null };

  /** The point of a case, or why it has none. */
  const point = (one) => {
    const own = state.own.find(one);
    if (own.at === undefined) return { one, why: missing(state.own.name, own) };
    const base = state.base.find(one, one.timed[own.at]);
    if (base.at === undefined) return { one, why: missing(state.base.name, base) };
    const x = state.feature.of(one);
    if (!Number.isFinite(x)) return { one, why: `${state.feature.name} is not known` };
    const y = one.timed[base.at + 1] / one.timed[own.at + 1];
    return { one, own: own.at, base: base.at, x, y };
  };
  const spread = ({ one, own, base, y }) => {
    const widths = [own, base].map((at) => halfWidth(entry(one, at)));
    return widths.includes(null) ? null : y * Math.hypot(...widths);
  };
  const passes = (one) => {
    for (const [facet, off] of state.off) if (off.has(facet.of(one))) return false;
    return state.search === '' || one.matrix.name.toLowerCase().includes(state.search);
  };
  /** Points of the cases that pass the filters, and those that have no speed-up. */
  const evaluate = () => {
    const points = [];
    const absent = [];
    for (const one of cases) {
      if (!passes(one)) continue;
      const found = point(one);
      (found.why === undefined ? points : absent).push(found);
    }
    return { points, absent };
  };
  const describe = (one) => `${one.matrix.name}, ${one.dtype}, K = ${one.k}, ${one.device}`;

  // The first view compares with the library or the baseline that nearly as many points have as any, and never a time with itself.
  const ENOUGH = 0.9;
  const most = (list, set) => {
    const tried = list.filter((one) => one.group === undefined).map((choice) => {
      set(choice);
      return { choice, points: evaluate().points.filter(({ own, base }) => own !== base).length };
    });
    const enough = Math.max(1, ENOUGH * Math.max(0, ...tried.map(({ points }) => points)));
    const found = tried.find(({ points }) => points >= enough);
    set((found ?? tried[0]).choice);
    return found !== undefined;
  };
  const ofKernels = (choice) => choice.id === 'other' || choice.id === 'best';
  const chooseBase = () => {
    const tiers = [BASES.filter((choice) => !ofKernels(choice)), BASES.filter(({ id }) => id === 'best'), BASES.filter(({ id }) => id === 'other')];
    tiers.find((tier) => most(tier, (choice) => { state.base = choice; }));
  };
  chooseBase();
  most(OWN, (choice) => { state.own = choice; });
  chooseBase();
  state.log = state.feature.log === true;
  state.colour = COLOURS.find((colour) => values(colour).length > 1) ?? COLOURS[0];

  return { MOST_FILES, data, cases, matrices, state, FEATURES, COLOURS, OWN, BASES, UNVERIFIED, WRONG, NOT_RUN, values, evaluate, entry, spread,
    point, describe, missing, isKernel, number, count, counted, seconds, times, percent };
})();
