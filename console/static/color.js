// What all plots have in common.

// color is what a colour of console.css is in the theme that the page has now.
export function color(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export const locale = document.documentElement.lang === "zh-CN" ? "zh-CN" : "en-GB";

// timesOf formats times, in seconds, that are so many seconds apart: short for an axis, whole
// for a legend.
export function timesOf(every) {
  const days = every >= 86400;
  const short = new Intl.DateTimeFormat(locale, days ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" });
  const whole = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: days ? undefined : "short" });
  return { short: (s) => short.format(s * 1000), whole: (s) => (s === null ? "–" : whole.format(s * 1000)) };
}

// quiet hides the values of a legend while the pointer is at none.
export const quiet = {
  ready: [(plot) => plot.root.classList.add("idle")],
  setLegend: [(plot) => plot.root.classList.toggle("idle", plot.legend.idx === null || plot.legend.idx === undefined)],
};
