// Durations as the gateway reads them: Go's form (72h, 1h30m, 300ms) or ISO 8601 (P3D, PT5M).

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const iso = /^P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$/;

// parseDuration returns milliseconds, or undefined for what is no duration.
export function parseDuration(text: string): number | undefined {
  if (text.startsWith("P")) {
    const m = iso.exec(text);
    if (!m || text === "P" || text.endsWith("T")) return undefined;
    return [7 * 86_400, 86_400, 3600, 60, 1].reduce((sum, unit, i) => sum + Number(m[i + 1] ?? 0) * unit * 1000, 0);
  }
  if (text === "0") return 0;
  if (!/^(\d+\.?\d*(ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined;
  let sum = 0;
  for (const m of text.matchAll(/(\d+\.?\d*)(ns|us|µs|ms|s|m|h)/g)) sum += Number(m[1]) * units[m[2]!]!;
  return sum;
}

// durationInWords writes a duration for people: "3 days", "1 hour 30 minutes"; what is no
// duration stays as it is written. Whole days from two days on: 24h is "24 hours" on purpose,
// which is what it says.
export function durationInWords(text: string, lang: string): string {
  const ms = parseDuration(text);
  if (ms === undefined) return text;
  if (ms === 0) return unit(0, "second", lang);
  const parts: [number, string][] = [];
  let rest = ms;
  for (const [name, size] of [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000], ["millisecond", 1]] as const) {
    const n = name === "millisecond" ? rest : Math.floor(rest / size);
    if (n === 0 || (name === "day" && ms === size && !text.startsWith("P"))) continue;
    parts.push([n, name]);
    rest -= n * size;
  }
  return parts.map(([n, name]) => unit(n, name, lang)).join(" ");
}

const unit = (n: number, name: string, lang: string): string =>
  new Intl.NumberFormat(lang, { style: "unit", unit: name, unitDisplay: "long" }).format(n);
