// Values of params: texts (Liquid templates) and numbers.

import type { Param } from "./definition.ts";

const isNumber = (text: string): boolean => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text);

function numberOf(text: string): Param {
  const raw = (JSON as unknown as { rawJSON?: (source: string) => object }).rawJSON;
  return String(Number(text)) === text || !raw ? Number(text) : raw(text);
}

// valueOf reads a field of what a step sets: what looks like a number, a boolean, a list or an object is
// one, and nothing is null.
export function valueOf(text: string): Param {
  if (text === "") return null;
  if (text === "true" || text === "false") return text === "true";
  if (isNumber(text)) return numberOf(text);
  if (/^[[{][^{%]/.test(text)) {
    try {
      return JSON.parse(text) as object;
    } catch {
      // still being typed, or a text
    }
  }
  return text;
}

// paramText is a value as a field shows it.
export function paramText(p: Param): string {
  if (p === null) return "";
  if (typeof p !== "object") return String(p);
  return "rawJSON" in p ? String(p.rawJSON) : JSON.stringify(p);
}

// paramOf reads a field: what was a number stays one while it is written as JSON writes numbers,
// with its digits where the browser can keep them.
export function paramOf(text: string, before: Param | undefined): Param {
  return before === undefined || typeof before === "string" || !isNumber(text) ? text : numberOf(text);
}
