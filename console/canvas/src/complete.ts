// What an expression can go on with: conditions (CEL) and params (Liquid). Pure.

import known from "./vocabulary.json";

export type Language = "cel" | "liquid";

// Names are what a journey and its stage have beside what every condition and template knows.
export interface Names {
  fields: readonly string[]; // custom fields of leads
  touchpoints: readonly string[]; // ids of nodes
  event?: readonly string[] | undefined; // the expression sees an event, which had these properties
  place?: ExpressionPlace | undefined; // where the condition stands, if it is none of a node
}

// ExpressionPlace is where a condition stands that sees less than those of nodes.
export type ExpressionPlace = "segment" | "entry" | "goal";

export interface Offer {
  label: string;
  apply?: string; // what is written, where it is not the label
  type: "variable" | "property" | "function" | "keyword";
}

export interface Offers {
  from: number; // what stands from here on is replaced
  offers: Offer[];
}

const of = (type: Offer["type"], labels: readonly string[], apply?: (label: string) => string): Offer[] =>
  labels.map((label) => (apply ? { label, apply: apply(label), type } : { label, type }));

// complete is what can stand at the end of a text; undefined where nothing is known.
export function complete(language: Language, before: string, names: Names): Offers | undefined {
  return language === "cel" ? completeCondition(before, names) : completeTemplate(before, names);
}

// Paths, and what has been typed of their last part: lead.customFields.pl
const celPath = /((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*)?$/;
const liquidPath = /((?:[A-Za-z_][\w-]*\.)*)([A-Za-z_][\w-]*)?$/;

const number = /(?:^|[^\w.])\d[\w.]*$/;

function completeCondition(before: string, names: Names): Offers | undefined {
  if (inText(before) || number.test(before)) return undefined;
  const m = celPath.exec(before)!;
  const from = before.length - (m[2]?.length ?? 0);
  const parts = m[1]!.split(".").slice(0, -1);
  const place = names.place;
  const hidden = place ? unseen[place] : [];
  if (parts.length === 0) {
    // Behind a value: ")." or "'a'.".
    if (before[from - 1] === ".") return { from, offers: of("function", known.methods, call) };
    const variables = ["lead", ...(names.event ? ["event"] : []), ...ofJourney.filter((v) => !hidden.includes(v)), "now", "today"];
    const functions = place === "entry" || place === "goal" ? known.functions : [...known.record, ...known.functions];
    return { from, offers: [...of("variable", variables), ...of("function", functions, call), ...of("keyword", ["true", "false", "null", "in"])] };
  }
  // Functions whose names have a dot: math.round.
  const prefix = `${parts[0]}.`;
  const dotted = known.functions.filter((f) => parts.length === 1 && f.startsWith(prefix)).map((f) => f.slice(prefix.length));
  if (dotted.length > 0) return { from, offers: of("function", dotted, call) };
  if (hidden.includes(parts[0]!)) return undefined;
  const plain = /^[A-Za-z_]\w*$/;
  const members = parts.length === 1 && parts[0] === "event" && names.event ? named(names.event, from, plain) : membersOf(parts, from, names, plain);
  const methods = parts.length === 1 && parts[0] !== "now" && parts[0] !== "today" ? [] : of("function", known.methods, call);
  return { from: members?.from ?? from, offers: [...(members?.offers ?? []), ...methods] };
}

const ofJourney = ["touchpoints", "enrollment", "journey"];

// unseen are the variables that conditions elsewhere than at nodes do not see.
const unseen: Record<ExpressionPlace, readonly string[]> = { segment: ofJourney, entry: ["touchpoints", "enrollment"], goal: ["touchpoints"] };

const call = (name: string): string => `${name}(`;

// inText tells whether a condition ends within a text or a comment.
function inText(before: string): boolean {
  const line = before.replace(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g, "");
  return /['"]/.test(line) || /\/\/[^\n]*$/.test(line);
}

function completeTemplate(before: string, names: Names): Offers | undefined {
  const open = Math.max(before.lastIndexOf("{{"), before.lastIndexOf("{%"));
  if (open < 0) return undefined;
  const tag = before.slice(open + 2).replace(/^-/, "");
  if (/[%}]\}/.test(tag) || inText(tag) || number.test(tag)) return undefined;
  const word = /[A-Za-z_]\w*$/.exec(tag)?.[0] ?? "";
  const start = before.length - word.length;
  if (/\|\s*\w*$/.test(tag)) return { from: start, offers: of("function", known.filters) };
  if (before[open + 1] === "%" && /^\s*\w*$/.test(tag)) {
    return { from: start, offers: of("keyword", [...known.tags, ...blocks.map((b) => `end${b}`)]) };
  }
  const m = liquidPath.exec(tag)!;
  const from = before.length - (m[2]?.length ?? 0);
  const parts = m[1]!.split(".").slice(0, -1);
  if (parts.length > 0) return membersOf(parts, from, names, /^[A-Za-z_][\w-]*$/);
  if (before[from - 1] === ".") return undefined;
  const assigned = [...before.matchAll(/\{%-?\s*(?:assign|capture|for|tablerow)\s+([A-Za-z_][\w-]*)/g)].map((a) => a[1]!);
  const words = before[open + 1] === "%" ? ["and", "or", "contains", "blank", "empty", "nil", "true", "false"] : [];
  return { from, offers: [...of("variable", [...new Set([...assigned, "lead", "touchpoints", "enrollment", "journey", "now", "today"])]), ...of("keyword", words)] };
}

const blocks = ["if", "unless", "case", "for", "tablerow", "capture", "comment", "raw", "ifchanged", "doc"];

// membersOf lists what a path has. Names that cannot stand behind a dot replace it: ['first name'].
function membersOf(parts: readonly string[], from: number, names: Names, plain: RegExp): Offers | undefined {
  const [root, second] = parts;
  const property = (labels: readonly string[]): Offers => ({ from, offers: of("property", labels) });
  if (parts.length === 1) {
    switch (root) {
      case "lead":
        return property(known.lead);
      case "journey":
        return property(known.journey);
      case "enrollment":
        return property(known.enrollment);
      case "touchpoints":
        return named(names.touchpoints, from, plain);
    }
  }
  if (parts.length === 2 && root === "lead" && second === "customFields") return named(names.fields, from, plain);
  if (parts.length === 2 && root === "touchpoints") return property(known.touchpoint);
  return undefined;
}

// named offers names of people's choice: all with a dot, or all in brackets if one of them needs these.
function named(labels: readonly string[], from: number, plain: RegExp): Offers {
  if (labels.every((l) => plain.test(l))) return { from, offers: of("property", labels) };
  const quoted = (l: string): string => (plain.test(l) ? `.${l}` : `['${l.replace(/[\\']/g, (c) => `\\${c}`)}']`);
  return { from: from - 1, offers: labels.map((l) => ({ label: `.${l}`, apply: quoted(l), type: "property" })) };
}

// placeOf is where in an expression a problem is, as its message says: -1 if it does not.
export function placeOf(message: string, source: string): number {
  const m = /line (\d+), column (\d+): /.exec(message);
  const lines = source.split("\n");
  const line = m ? Number(m[1]) : 0;
  if (!m || line < 1 || line > lines.length) return -1;
  const before = lines.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
  // The gateway counts characters; some of them are two units here.
  const column = [...lines[line - 1]!].slice(0, Number(m[2]) - 1).join("").length;
  return Math.min(before + column, source.length);
}

// wordAt is the end of the word that begins at a place, or of the one character there.
export function wordAt(source: string, at: number): number {
  const word = /^[\w.]+/.exec(source.slice(at))?.[0] ?? "";
  return Math.min(source.length, at + Math.max(word.length, 1));
}
