// What a definition is made of: the members of JourneyDraft in gateway/openapi.yaml. A draft
// can lack any of them, so everything but a node's type is optional here.

import { names, types } from "./nodes.json"; // by go generate ./journey/nodes

export type NodeType = keyof typeof types;
export const nodeTypes = names as readonly NodeType[];

// Said is a text in both languages.
export interface Said {
  en: string;
  zh: string;
}

// A Member of a node, as journey/nodes describes it.
export interface Member {
  name: string;
  kind: string;
  required?: boolean;
  else?: string; // of a way: the one that leads go by where it is not set
  with?: string; // of a way: the member without which it is none
  way?: string; // of a list, whose items lead on: the kind of their slots
  max?: number;
  label?: Said;
  drawn?: Said;
}

export interface Description {
  title: Said;
  hint: Said;
  summary?: Said;
  icon: string;
  colour: string;
  inserted: object;
  members: readonly Member[];
}

// described is what there is to say of a type of nodes: nothing of one that only a newer gateway has.
export const described = (type: string): Description | undefined => (types as Record<string, Description>)[type];

export const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;

// Limits of journey/definition.go and journey/entry.go.
export const maxNodes = 200;
export const maxCases = 50;
export const maxArms = 20;
export const maxExits = 20;
export const maxTags = 20;
export const maxAwaited = 20;
export const maxEntries = 20;
export const maxEntryFields = 20;

// Comments are those of the text, which move with the object that has them.
export type Comments = Record<string, { above?: string; beside?: string; below?: string }>;

export interface Case {
  when?: string | null;
  next?: string | null;
  comments?: Comments | null;
}

export interface Awaited {
  event?: string | null;
  when?: string | null;
  next?: string | null;
  comments?: Comments | null;
}

export interface Arm {
  weight?: number | null;
  next?: string | null;
  comments?: Comments | null;
}

// A number of a param is kept as it is written, if the browser can: see parseJSON.
export type Param = string | number | boolean | object | null;

export interface Node {
  id: string;
  type: NodeType;
  label?: string | null;
  note?: string | null;
  webhook?: string | null;
  params?: Record<string, Param> | null;
  for?: string | null;
  event?: string | null;
  when?: string | null;
  events?: Awaited[] | null;
  set?: Record<string, Param> | null;
  properties?: Record<string, Param> | null;
  timeout?: string | null;
  since?: string | null;
  time?: string | null;
  timezone?: string | null;
  weekdays?: string[] | null;
  lead?: string | null;
  offset?: string | null;
  arms?: Arm[] | null;
  winner?: { by?: string | null; after?: string | null; leads?: number | null } | null;
  journey?: string | null;
  cases?: Case[] | null;
  otherwise?: string | null;
  next?: string | null;
  onFailure?: string | null;
  onTimeout?: string | null;
  onMissed?: string | null;
  comments?: Comments | null;
}

// One of the first four members says what begins the journey.
export interface Entry {
  event?: string | null;
  leadCreated?: boolean | null;
  leadChanged?: string[] | null;
  segment?: string | null;
  on?: string | null; // of a segment: enter
  when?: string | null;
  entryKey?: string | null;
  comments?: Comments | null;
}

export interface Definition {
  name?: string | null;
  description?: string | null;
  tags?: string[] | null;
  start?: string | null;
  reentry?: { policy?: string | null; every?: string | null } | null;
  exitOn?: { event?: string | null; segment?: string | null; on?: string | null; comments?: Comments | null }[] | null;
  quietHours?: { from?: string | null; to?: string | null; timezone?: string | null } | null;
  frequencyCap?: { touchpoints?: number | null; per?: string | null } | null;
  entry?: Entry[] | null;
  goal?: { event?: string | null; when?: string | null; within?: string | null; value?: string | null } | null;
  controlGroup?: number | null;
  comments?: Comments | null;
  nodes: Node[];
}

export type SlotKind = "next" | "event" | "case" | "otherwise" | "arm" | "onFailure" | "onTimeout" | "onMissed";

// A Slot is a place of a node where the id of another node can stand: one way to go on.
export interface Slot {
  kind: SlotKind;
  index: number; // of the event, case or arm, else 0
  target: string; // "" ends the journey
}

// slotKey names a slot within its node.
export const slotKey = (s: Slot): string => (s.kind === "event" || s.kind === "case" || s.kind === "arm" ? `${s.kind}.${s.index}` : s.kind);

// wayOf names a slot as statistics do. Awaited events of one name are one way.
export const wayOf = (n: Node, s: Pick<Slot, "kind" | "index">): string =>
  s.kind === "event" ? `event:${n.events?.[s.index]?.event ?? ""}` : s.kind === "case" || s.kind === "arm" ? `${s.kind}:${s.index}` : s.kind;

// slots lists the ways on from a node, in the order of the definition. onFailure, onTimeout and
// onMissed are ways only where they are set: without them the lead goes on with next.
export function slots(n: Node): Slot[] {
  const all: Slot[] = [];
  const members = described(n.type)?.members ?? ["next", "onFailure", "onTimeout", "onMissed"].map((name) => ({ name, kind: "way", else: name === "next" ? undefined : "next" }) as Member);
  for (const m of members) if (m.way) itemsOf(n, m).forEach((item, index) => all.push({ kind: m.way as SlotKind, index, target: item.next ?? "" }));
  const several = n.type === "waitForEvent" && all.length > 0; // each goes on by a next of its own
  for (const m of members) {
    if (m.kind !== "way" || (several && m.name === "next")) continue;
    const target = (n[m.name as keyof Node] as string | null | undefined) ?? "";
    if (target || several || !(m.else || m.with)) all.push({ kind: m.name as SlotKind, index: 0, target });
  }
  return all;
}

// itemsOf lists what a list of a node has.
export const itemsOf = (n: Node, m: Member): { event?: string | null; when?: string | null; next?: string | null }[] => (n[m.name as "cases"] ?? []);

// withSlot returns the node with another target of a slot; "" takes the member out.
export function withSlot(n: Node, s: Pick<Slot, "kind" | "index">, target: string): Node {
  const next = target || undefined;
  switch (s.kind) {
    case "event":
      return { ...n, events: (n.events ?? []).map((e, i) => (i === s.index ? tidy({ ...e, next }) : e)) };
    case "case":
      return { ...n, cases: (n.cases ?? []).map((c, i) => (i === s.index ? tidy({ ...c, next }) : c)) };
    case "arm":
      return { ...n, arms: (n.arms ?? []).map((a, i) => (i === s.index ? tidy({ ...a, next }) : a)) };
    default:
      return tidy({ ...n, [s.kind]: next });
  }
}

// tidy leaves out the members that have no value.
export function tidy<T extends object>(o: T): T {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined && v !== null && v !== "")) as T;
}

// nodesById keeps the first of nodes with one id, as the gateway does.
export function nodesById(d: Definition): Map<string, Node> {
  const byId = new Map<string, Node>();
  for (const n of d.nodes) if (!byId.has(n.id)) byId.set(n.id, n);
  return byId;
}

// reachable lists the ids of the nodes that a lead can come to.
export function reachable(d: Definition): Set<string> {
  const byId = nodesById(d);
  const seen = new Set<string>();
  const open = d.start ? [d.start] : [];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const n = byId.get(id);
    if (!n || seen.has(id)) continue;
    seen.add(id);
    for (const s of slots(n)) if (s.target) open.push(s.target);
  }
  return seen;
}

// definitionOf takes the definition out of what the gateway answers for a journey (draft), for a
// version (definition), or a definition by itself.
export function definitionOf(json: unknown): Definition {
  const o = json as { draft?: Definition; definition?: Definition } & Definition;
  const d = o.draft ?? o.definition ?? o;
  // A draft can be stored without nodes, and a node without an id.
  const nodes = (d.nodes ?? []).map((n, i) => (n.id ? n : { ...n, id: `node${i + 1}` }));
  return { ...d, nodes };
}

// parseJSON keeps numbers that JavaScript would write otherwise (12.50, integers above 2^53) as
// they are, where the browser has JSON.rawJSON (2023 and later).
export function parseJSON(text: string): unknown {
  const raw = (JSON as unknown as { rawJSON?: (source: string) => object }).rawJSON;
  if (!raw) return JSON.parse(text);
  const keep = (_: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source ? raw(context.source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}
