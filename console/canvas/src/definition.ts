// What a definition is made of: the members of JourneyDraft in gateway/openapi.yaml. A draft
// can lack any of them, so everything but a node's type is optional here.

export const nodeTypes = ["touchpoint", "delay", "waitUntil", "waitForEvent", "waitFor", "branch", "split", "enroll", "updateLead", "emit", "exit"] as const;
export type NodeType = (typeof nodeTypes)[number];

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
  const one = (kind: SlotKind, target?: string | null): Slot => ({ kind, index: 0, target: target ?? "" });
  const set = (kind: SlotKind, target?: string | null): Slot[] => (target ? [one(kind, target)] : []);
  switch (n.type) {
    case "touchpoint":
    case "updateLead":
    case "emit":
      return [one("next", n.next), ...set("onFailure", n.onFailure)];
    case "waitForEvent":
    case "waitFor":
      if (n.events?.length) return [...n.events.map((e, index): Slot => ({ kind: "event", index, target: e.next ?? "" })), one("onTimeout", n.onTimeout)];
      return [one("next", n.next), ...set("onTimeout", n.onTimeout)];
    case "waitUntil":
      return [one("next", n.next), ...set("onMissed", n.onMissed)];
    case "branch":
      return [
        ...(n.cases ?? []).map((c, index): Slot => ({ kind: "case", index, target: c.next ?? "" })),
        one("otherwise", n.otherwise),
      ];
    case "split":
      return (n.arms ?? []).map((a, index): Slot => ({ kind: "arm", index, target: a.next ?? "" }));
    case "exit":
      return [];
    default:
      // Also of a type that a newer gateway has.
      return [one("next", n.next), ...set("onFailure", n.onFailure), ...set("onTimeout", n.onTimeout), ...set("onMissed", n.onMissed)];
  }
}

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
