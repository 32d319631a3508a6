// Charts of series: <div data-chart="ID of a table"> draws the columns of the table that have
// data-tone, by uPlot: as lines, or as data-kind says, as bars beside or on top of each other. The table stays: it has the same numbers for those who cannot see a chart.
import { color, locale, quiet, timesOf } from "./color.js";

const files = new URL("./uplot/", import.meta.url);
let library; // the promise that uPlot is there

function load() {
  library ??= new Promise((done, failed) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("uplot.css", files) });
    const script = Object.assign(document.createElement("script"), { src: new URL("uplot.js", files), onload: () => done(window.uPlot), onerror: failed });
    document.head.append(style, script);
  });
  return library;
}

async function draw(place) {
  const table = document.getElementById(place.dataset.chart);
  const at = (row) => {
    const time = row.querySelector("time");
    return Date.parse(time.dateTime || `${time.dataset.day}T00:00`) / 1000; // a day of any zone is drawn as one of here
  };
  const rows = [...(table?.querySelectorAll("tbody > tr") ?? [])].sort((a, b) => at(a) - at(b));
  if (rows.length === 0) return;
  const columns = [...table.querySelectorAll("thead th")].flatMap((head, i) => (head.dataset.tone ? [{ i, label: head.textContent, tone: head.dataset.tone }] : []));
  const times = rows.map(at);
  const numbers = columns.map(({ i }) => rows.map((row) => Number(row.cells[i].dataset.n)));
  const stack = place.dataset.kind === "stack";
  // On top of each other, the first is the sum of all and stands behind the others.
  const data = [times, ...(stack ? numbers.map((_, k) => times.map((_, row) => numbers.slice(k).reduce((sum, one) => sum + one[row], 0))) : numbers)];
  const uPlot = await load();
  const every = times.length > 1 ? times[1] - times[0] : 3600;
  const time = timesOf(every);
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
  const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `12px ${getComputedStyle(document.body).fontFamily}` };
  const bars = stack || place.dataset.kind === "bars";
  const width = place.clientWidth;
  place.replaceChildren();
  const chart = new uPlot(
    {
      width,
      height: 220,
      padding: [12, 8, 0, 0],
      cursor: { y: false, points: { size: 7 } },
      legend: { live: true },
      hooks: quiet,
      scales: { x: { range: bars || times.length === 1 ? (u, low, high) => [low - every / 2, high + every / 2] : undefined }, y: { range: (u, low, high) => [0, Math.max(high * 1.1, 4)] } },
      axes: [
        { ...axis, grid: { show: false }, space: 72, size: 28, values: (u, all) => all.map(time.short) },
        { ...axis, size: 52, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7], values: (u, all) => all.map((n) => whole.format(n)) },
      ],
      series: [
        { label: table.querySelector("thead th").textContent, value: (u, s) => time.whole(s) },
        ...columns.map(({ label, tone }, k) => ({
          label,
          stroke: color(tone),
          width: bars ? 0 : 2,
          fill: bars ? color(tone) : k === 0 ? `color-mix(in srgb, ${color(tone)} 10%, transparent)` : undefined,
          paths: bars ? uPlot.paths.bars(stack ? { size: [0.7, 28] } : { size: [0.36, 18], align: k === 0 ? -1 : 1 }) : undefined,
          points: { show: !bars && times.length < 3 },
          value: (u, n, series, row) => (n === null || row === null ? "–" : whole.format(numbers[k][row])),
        })),
      ],
    },
    data,
    place,
  );
  new ResizeObserver(() => place.clientWidth !== chart.width && chart.setSize({ width: place.clientWidth, height: 220 })).observe(place);
}

const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
all();
document.addEventListener("live", all);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
