// What a definition says, in words: summaries of nodes, labels of edges, numbers.

import { type Node, type NodeType, type Said, type Slot, described, itemsOf, slots, weekdays } from "./definition.ts";
import places from "../../i18n/places.json";
import { durationInWords } from "./duration.ts";
import type { Problem } from "./edit.ts";
import type { GraphEdge } from "./graph.ts";
import { type Texts, fill } from "./texts.ts";

// Names are what webhooks and journeys are called, by id.
export type Names = ReadonlyMap<string, string>;

export interface Words {
  lang: string;
  texts: Texts;
  names: Names;
}

export const title = (n: Node, w: Words): string => n.label || (n.type === "exit" && /^(end|exit)$/i.test(n.id) ? typeName(n.type, w) : n.id);

// summary is one line that says what the node does.
export function summary(n: Node, w: Words): string {
  const t = w.texts;
  const name = (id: string): string => w.names.get(id) ?? id;
  switch (n.type) {
    case "touchpoint": {
      const by = n.webhook ? fill(t.sumTouchpoint, { webhook: name(n.webhook) }) : t.sumNone;
      const what = n.params?.["subject"] ?? n.params?.["template"] ?? n.params?.["text"];
      return n.webhook && typeof what === "string" ? `${by} · ${what}` : by;
    }
    case "waitUntil":
      return untilInWords(n, w);
    case "waitForEvent": {
      const names = [...new Set((n.events?.length ? n.events : [n]).map((e) => e.event).filter(Boolean))];
      if (!names.length) return t.sumNone;
      const wait = fill(t.sumEvent, { event: names.join(" / "), timeout: n.timeout ? durationInWords(n.timeout, w.lang) : "…" });
      return n.when ? `${wait} · ${n.when}` : wait;
    }
    case "updateLead": {
      const fields = Object.keys(n.set ?? {}).map((f) => f.replace(/^customFields\./, ""));
      return fields.length ? fill(t.sumUpdate, { fields: fields.join(", ") }) : t.sumNone;
    }
    case "branch": {
      const cases = n.cases ?? [];
      if (cases.length === 1 && cases[0]!.when) return cases[0]!.when;
      return cases.length ? (cases.length === 1 ? t.sumBranch1 : fill(t.sumBranch, { n: cases.length })) : t.sumNone;
    }
    case "split": {
      const arms = n.arms ?? [];
      if (!arms.length) return t.sumNone;
      const weights = arms.map((_, i) => armShare(n, i, w.lang));
      const shown = weights.length > 4 ? [...weights.slice(0, 4), "…"] : weights;
      return fill(t.sumSplit, { n: arms.length, weights: shown.join(" / ") });
    }
    default:
      return described(n.type) ? summed(n, w) : "";
  }
}

// summed is the summary as the type's description has it, filled in with what the node has.
function summed(n: Node, w: Words): string {
  const { members, summary: said } = described(n.type)!;
  const values: Record<string, string> = {};
  for (const m of members) {
    const value = n[m.name as keyof Node];
    if (m.required && m.kind !== "duration" && !value) return w.texts.sumNone;
    if (m.required && m.name === "for" && !value) return w.texts.sumNone;
    const text = typeof value === "string" ? value : "";
    values[m.name] = m.kind === "duration" ? (text ? durationInWords(text, w.lang) : "…") : (w.names.get(text) ?? text);
  }
  return said ? fill(inWords(said, w.lang), values) : "";
}

// inWords is a text in the page's language.
export const inWords = (said: Said, lang: string): string => (lang.startsWith("zh") ? said.zh : said.en);

// typeName is what a type of nodes is called; one that only a newer gateway has is called by its name.
export const typeName = (type: NodeType, w: Words): string => inWords(described(type)?.title ?? { en: type, zh: type }, w.lang);

function untilInWords(n: Node, w: Words): string {
  const t = w.texts;
  const days = n.weekdays?.length ? daysInWords(n.weekdays, w) : "";
  if (n.lead) {
    const lead = n.lead.replace(/^customFields\./, "");
    const offset = n.offset?.replace(/^[+-]/, "") ?? "";
    const date = offset ? fill(n.offset!.startsWith("-") ? t.sumBefore : t.sumAfter, { for: durationInWords(offset, w.lang), lead }) : lead;
    const at = [days, n.time].filter(Boolean).join(" ");
    return at ? fill(t.sumUntilLeadTime, { lead: date, time: at }) : fill(t.sumUntilLead, { lead: date });
  }
  if (!n.time) return t.sumNone;
  return days ? fill(t.sumUntilDays, { time: n.time, days }) : fill(t.sumUntilTime, { time: n.time });
}

// dayName is the short name of a weekday.
export function dayName(day: string, lang: string): string {
  const i = weekdays.indexOf(day as (typeof weekdays)[number]);
  // 1 January 2024 was a Monday.
  return i < 0 ? day : new Intl.DateTimeFormat(lang, { weekday: "short", timeZone: "UTC" }).format(Date.UTC(2024, 0, 1 + i));
}

function daysInWords(days: string[], w: Words): string {
  const sorted = weekdays.filter((d) => days.includes(d));
  if (sorted.length === 7) return w.texts.everyDay;
  if (sorted.join() === "mon,tue,wed,thu,fri") return w.texts.workdays;
  return sorted.map((d) => dayName(d, w.lang)).join(w.lang.startsWith("zh") ? "、" : ", ");
}

// armShare is the share of leads that an arm gets by its weight.
export function armShare(n: Node, index: number, lang: string): string {
  const all = (n.arms ?? []).reduce((sum, a) => sum + (a.weight ?? 0), 0);
  return percent(n.arms?.[index]?.weight ?? 0, all, lang);
}

// armLetter is what people call an arm, of which the first is 0: A.
export const armLetter = (index: number): string => (index < 26 ? String.fromCharCode(65 + index) : String(index + 1));

const placesIn = (lang: string): Record<string, string> => (lang.startsWith("zh") ? places.zh : places.en);

// problemInWords is a problem in one line, with what it is of, and the step where one is named.
export const problemInWords = (p: Problem, lang: string, step = ""): string => [step, placeInWords(p.target, lang), p.message].filter(Boolean).join(placesIn(lang)[""]);

// placeInWords says what a path of a definition, or of a node, is of: Goal: Within. From the first
// member on that has no name, which people have named, the path is written as it is. places.go of
// the console does the same.
export function placeInWords(target: string, lang: string): string {
  const names = placesIn(lang);
  const words: string[] = [];
  let above = "";
  for (let rest = target; rest; ) {
    const dot = rest.indexOf(".");
    const member = dot < 0 ? rest : rest.slice(0, dot);
    const after = dot < 0 ? "" : rest.slice(dot + 1);
    const index = /\[(\d{1,4})\]$/.exec(member);
    const key = index ? `${member.slice(0, index.index)}[]` : member;
    const text = key ? (names[`${above}.${key}`] ?? names[key]) : undefined;
    if (text === undefined) return [...words, rest].join(names[""]);
    const i = Number(index?.[1] ?? 0);
    if (text) words.push(fill(text, { n: i + 1, a: armLetter(i) }));
    if (after && ["params", "set", "properties"].includes(key)) return [...words, after].join(names[""]); // their members are of people's choice
    above = key;
    rest = after;
  }
  return words.join(names[""]);
}

// slotLabel says when a lead takes a way; "" where there is no other.
export function slotLabel(n: Node, s: Slot, w: Words): string {
  const m = described(n.type)?.members.find((m) => (m.way ? m.way === s.kind : m.kind === "way" && m.name === s.kind));
  if (s.kind === "case") return n.cases?.[s.index]?.when ?? "";
  if (!m?.drawn || (s.kind === "next" && slots(n).length === 1)) return "";
  const item = m.way ? itemsOf(n, m)[s.index] : n;
  const said = fill(inWords(m.drawn, w.lang), {
    event: item?.event ?? "…",
    timeout: n.timeout ? durationInWords(n.timeout, w.lang) : "…",
    n: armLetter(s.index),
    share: armShare(n, s.index, w.lang),
  });
  return s.kind === "event" && item?.when ? `${said} · ${item.when}` : said;
}

// edgeLabel joins the labels of the ways that an edge stands for; all ways of a node need none.
export const edgeLabel = (n: Node | undefined, e: GraphEdge, w: Words): string =>
  n ? e.slots.map((s) => slotLabel(n, s, w)).filter(Boolean).join(" · ") : "";

// short writes a number in little room: 12.4k, and 1.2万 in Chinese.
export function short(n: number, lang: string): string {
  if (n < 1000) return String(n);
  return new Intl.NumberFormat(lang, { notation: "compact", maximumFractionDigits: 1 }).format(n).replace("K", "k");
}

export const full = (n: number, lang: string): string => new Intl.NumberFormat(lang).format(n);

export function percent(n: number, all: number, lang: string): string {
  const share = all > 0 ? n / all : 0;
  const digits = share > 0 && share < 0.1 ? 1 : 0;
  return new Intl.NumberFormat(lang, { style: "percent", maximumFractionDigits: digits }).format(share);
}
