// Draws what stands under `data-source` as columns, with uPlot; until then, and without it, the page shows a small line.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const KINDS = {
  throughput: [["pages", "Pages", "one"], ["items", "Items", "two"]],
  errors: [["errors_per_min", "Errors", "three"]],
  queue: [["pending", "Wait", "four"], ["active", "Run", "one"]],
  speed: [["pages_per_min", "Pages", "one"], ["items_per_min", "Items", "two"]],
  counts: [["pages", "Pages", "one"], ["items", "Items", "two"]],
  job_errors: [["errors", "Errors", "three"]],
  memory: [["memory", "MB", "four"]],
};
const MIN_GAP_MS = 4000;
const drawn = new Map();
const columns = new Map();
let library = null, fetchedAt = 0;

const load = () => (library ??= brought().catch((error) => { library = null; throw error; }));

const brought = () => Promise.all([
  new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src: document.body.dataset.uplot, onload: done, onerror: failed });
    document.head.append(script);
  }),
  new Promise((done) => {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: document.body.dataset.uplotCss, onload: done, onerror: done });
    document.head.append(sheet);
  }),
]);

async function fetched(source, isFresh) {
  if (!columns.has(source) || isFresh) {
    const answer = await fetch(source, { headers: { Accept: "application/json" } });
    if (answer.ok) columns.set(source, await answer.json());
  }
  return columns.get(source);
}

// `isAnew`: the colours have changed, or nothing was drawn yet. What cannot be had now is tried again the next time.
export const draw = (isAnew) => drawAll(isAnew).catch(() => { fetchedAt = 0; });

async function drawAll(isAnew) {
  const isFresh = Date.now() - fetchedAt > MIN_GAP_MS;
  if (!isAnew && !isFresh) return;
  if (isFresh) fetchedAt = Date.now();
  await load();
  const places = [...document.querySelectorAll("[data-plot]")];
  const sources = [...new Set(places.map((place) => place.dataset.source))];
  await Promise.all(sources.map((source) => fetched(source, isFresh)));
  for (const place of places) {
    const known = columns.get(place.dataset.source);
    if (!known || known.at.length < 2) continue;
    const series = KINDS[place.dataset.plot];
    const values = [known.at, ...series.map(([name]) => known[name])];
    const plot = drawn.get(place);
    if (plot && !isAnew) { plot.setData(values); continue; }
    plot?.destroy();
    place.replaceChildren();
    drawn.set(place, new uPlot(options(place, series), values, place));
  }
}

const last = (values) => values.findLast((value) => value != null);

function options(place, series) {
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width: place.clientWidth, height: 160, padding: [8, 8, 0, 0],
    cursor: { points: { size: 6 } },
    axes: [{ ...axis, size: 28, space: 64, values: (_, moments, at, space, gap_s) => moments.map((moment) => clock(moment, gap_s < 60)) }, { ...axis, size: 46, values: (_, ticks) => ticks.map(short) }],
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    series: [{ label: "At", value: (plot, at) => clock(at ?? last(plot.data[0])) },
      ...series.map(([, label, name], at) => ({
        label, stroke: colour(name), width: 1.6, spanGaps: true, points: { show: false }, dash: at ? [9, 3] : undefined,
        fill: at ? undefined : `${colour(name)}1f`, value: (plot, value, place, index) => short(index == null ? last(plot.data[place]) : value),
      }))],
  };
}

// In UTC, as all moments on the pages.
const clock = (at, isExact) => (at == null ? "–" : new Date(at * 1000).toLocaleTimeString([], {
  hour: "2-digit", minute: "2-digit", second: isExact ? "2-digit" : undefined, hourCycle: "h23", timeZone: "UTC",
}));

function short(value) {
  if (value == null) return "–";
  if (Math.abs(value) >= 1e6) return `${+(value / 1e6).toFixed(1)} M`;
  if (Math.abs(value) >= 1e4) return `${+(value / 1e3).toFixed(1)} k`;
  return `${+value.toFixed(value < 10 ? 2 : 1)}`;
}

new ResizeObserver(() => { for (const [place, plot] of drawn) plot.setSize({ width: place.clientWidth, height: 160 }); }).observe(document.body);
