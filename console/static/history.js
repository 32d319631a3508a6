// The history of a webhook as two plots: attempts as bars, how long they took as lines. The
// numbers stand in the table beside them. uPlot is a script of its own, which has run before.
/* global uPlot */
import { color, quiet, timesOf } from "./color.js";

const box = document.querySelector("[data-plots]");
const height = 180; // pixels

let plots = [];

function draw() {
  for (const plot of plots) plot.destroy();
  const series = JSON.parse(box.dataset.plots);
  const times = series.map((one) => Date.parse(one.from) / 1000);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `12px ${getComputedStyle(document.body).fontFamily}` };
  const every = times.length > 1 ? times[1] - times[0] : 3600; // seconds
  const time = timesOf(every);
  // A span of days has days at its axis, whatever its intervals.
  const days = times.length > 1 && times.at(-1) - times[0] > 86400 ? timesOf(86400) : time;
  const when = { ...axis, grid: { show: false }, space: 64, values: (_, all) => all.map(days.short) };
  const common = (target) => ({
    width: Math.max(240, target.clientWidth), height, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), zone),
    cursor: { y: false, points: { size: 6 } }, legend: { live: true }, hooks: quiet,
  });
  const x = { range: (_, low, high) => [low - every / 2, high + every / 2] }; // bars are whole
  const make = (name, options, values) => {
    const target = box.querySelector(`[data-plot="${name}"]`);
    return new uPlot({ ...common(target), ...options }, values, target);
  };
  const bars = uPlot.paths.bars({ size: [0.7, 24] });
  const ms = (value) => (value === null || value === undefined ? "–" : value < 1000 ? `${value} ms` : `${(value / 1000).toFixed(1)} s`);
  const whole = series.map((one) => one.succeeded + one.failed);
  plots = [
    make("attempts", {
      scales: { x, y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [when, { ...axis, size: 56 }],
      series: [
        { label: box.dataset.time, value: (_, s) => time.whole(s) },
        { label: box.dataset.failed, stroke: color("bad"), fill: color("bad"), paths: bars, points: { show: false }, value: (_, v, __, i) => (i === null ? "–" : series[i].failed) },
        { label: box.dataset.succeeded, stroke: color("ok"), fill: color("ok"), paths: bars, points: { show: false } },
      ],
    }, [times, whole, series.map((one) => one.succeeded)]),
    make("latency", {
      scales: { x, y: { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] } },
      axes: [when, { ...axis, size: 56, values: (_, ticks) => ticks.map(ms) }],
      series: [
        { label: box.dataset.time, value: (_, s) => time.whole(s) },
        { label: box.dataset.p50, stroke: color("accent"), width: 2, points: { show: true, size: 5 }, value: (_, v) => ms(v) },
        { label: box.dataset.p99, stroke: color("warn"), width: 2, points: { show: true, size: 5 }, value: (_, v) => ms(v) },
      ],
    }, [times, series.map((one) => one.p50Ms), series.map((one) => one.p99Ms)]),
  ];
}

if (box) {
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
}
