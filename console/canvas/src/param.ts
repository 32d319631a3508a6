// Values of params: texts (Liquid templates) and numbers.

import type { Param } from "./definition.ts";

// paramText is a value as a field shows it.
export function paramText(p: Param): string {
  if (typeof p !== "object") return String(p);
  return "rawJSON" in p ? String(p.rawJSON) : JSON.stringify(p);
}

// paramOf reads a field: what was a number stays one while it is written as JSON writes numbers,
// with its digits where the browser can keep them.
export function paramOf(text: string, before: Param | undefined): Param {
  if (before === undefined || typeof before === "string" || !/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return text;
  const raw = (JSON as unknown as { rawJSON?: (source: string) => object }).rawJSON;
  return String(Number(text)) === text || !raw ? Number(text) : raw(text);
}
