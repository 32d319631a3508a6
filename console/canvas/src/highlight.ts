// The parts of an expression that are coloured. Pure.

import type { Language } from "./complete.ts";

export interface Span {
  from: number;
  to: number;
  kind: "string" | "number" | "keyword" | "comment" | "tag";
}

const words = /('(?:[^'\\\n]|\\.)*'?|"(?:[^"\\\n]|\\.)*"?)|(\/\/[^\n]*)|\b(\d+(?:\.\d+)?)\b|\b(true|false|null|nil|in|and|or|contains|blank|empty|if|elsif|else|unless|case|when|for|endif|endfor|endunless|endcase|assign|capture|endcapture)\b/g;

// spans finds them: in a template, only within {{ … }} and {% … %}, which are tags.
export function spans(language: Language, text: string): Span[] {
  if (language === "cel") return within(text, 0, true);
  return [...text.matchAll(/\{\{[\s\S]*?(?:\}\}|$)|\{%[\s\S]*?(?:%\}|$)/g)].flatMap((m) => {
    const end = m.index + m[0].length;
    const closed = /[%}]\}$/.test(m[0]) ? 2 : 0;
    const inner = within(m[0].slice(2, m[0].length - closed), m.index + 2, false);
    const edge = (from: number, to: number): Span[] => (from < to ? [{ from, to, kind: "tag" }] : []);
    return [...edge(m.index, m.index + 2), ...inner, ...edge(end - closed, end)];
  });
}

function within(text: string, at: number, comments: boolean): Span[] {
  return [...text.matchAll(words)].flatMap((m): Span[] => {
    const kind = m[1] ? "string" : m[2] ? "comment" : m[3] ? "number" : "keyword";
    return kind === "comment" && !comments ? [] : [{ from: at + m.index, to: at + m.index + m[0].length, kind }];
  });
}
