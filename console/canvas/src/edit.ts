// Operations on a definition, each of which returns a new one, and the history that undoes them.

import { type Definition, type Node, type NodeType, type Slot, described, itemsOf, maxNodes, nodesById, reachable, slots, tidy, withSlot } from "./definition.ts";
import { parseDuration } from "./duration.ts";

// A Place is where a node is inserted: a way of a node, or before the first node.
export type Place = { at: "start" } | { at: "slot"; source: string; slot: Pick<Slot, "kind" | "index"> };

// inserted is a node as it is put into a definition. What only people can know (webhook, event, journey) is left
// for them to fill in.
export function inserted(type: NodeType, id: string, next: string): Node {
  const to = next || undefined;
  const d = described(type)!;
  const node = { id, type, ...d.inserted } as Record<string, unknown>;
  for (const m of d.members) {
    if (m.kind === "way" && !m.else && !m.with) node[m.name] = to;
    if (m.way && Array.isArray(node[m.name])) node[m.name] = (node[m.name] as object[]).map((item) => tidy({ ...item, next: to }));
  }
  return tidy(node) as unknown as Node;
}

// unusedId is an id that no node has: the base, or the base with a number.
export function unusedId(d: Definition, base: string, also: ReadonlySet<string> = new Set()): string {
  const known = new Set([...d.nodes.map((n) => n.id), ...also]);
  const stem = base.replace(/\d+$/, "").slice(0, 58) || "node";
  if (!known.has(base)) return base;
  for (let i = 2; ; i++) if (!known.has(`${stem}${i}`)) return `${stem}${i}`;
}

// targetOf is the node that stands at a place now; "" is none.
export function targetOf(d: Definition, p: Place): string {
  if (p.at === "start") return d.start ?? "";
  const n = nodesById(d).get(p.source);
  return (n && slots(n).find((s) => s.kind === p.slot.kind && s.index === p.slot.index)?.target) ?? "";
}

// lead makes a place lead to a node; "" ends the journey there.
export function lead(d: Definition, p: Place, target: string): Definition {
  if (p.at === "start") return { ...d, start: target || null };
  return { ...d, nodes: d.nodes.map((n) => (n.id === p.source ? withSlot(n, p.slot, target) : n)) };
}

// insert puts a new node at a place: it goes on where the place led to.
export function insert(d: Definition, p: Place, type: NodeType): { definition: Definition; id: string } | undefined {
  if (d.nodes.length >= maxNodes) return undefined;
  const id = unusedId(d, type);
  const before = targetOf(d, p);
  const led = lead(d, p, id);
  return { definition: { ...led, nodes: after(led.nodes, p, [inserted(type, id, before)]) }, id };
}

// after puts nodes behind the node of a place, so that a file reads in the order of the journey.
function after(nodes: Node[], p: Place, added: Node[]): Node[] {
  const i = p.at === "start" ? 0 : nodes.findIndex((n) => n.id === p.source) + 1;
  return [...nodes.slice(0, i), ...added, ...nodes.slice(i)];
}

// mainSlot is the way that most go: what a removed node is bridged by.
const mainSlot = (n: Node): Slot | undefined => {
  const all = slots(n);
  return all.find((s) => s.kind === "next") ?? all.find((s) => s.kind === "otherwise" && s.target) ?? all.find((s) => s.target);
};

// remove takes nodes out: what led to them leads to where their main way goes on.
export function remove(d: Definition, ids: readonly string[]): Definition {
  const gone = new Set(ids);
  const byId = nodesById(d);
  const onward = (target: string): string => {
    const seen = new Set<string>();
    while (gone.has(target) && !seen.has(target)) {
      seen.add(target);
      const n = byId.get(target);
      target = (n && mainSlot(n)?.target) ?? "";
    }
    return gone.has(target) ? "" : target;
  };
  const nodes = d.nodes
    .filter((n) => !gone.has(n.id))
    .map((n) => slots(n).reduce((m, s) => (gone.has(s.target) ? withSlot(m, s, bridged(n, onward(s.target))) : m), n));
  return { ...d, start: d.start && gone.has(d.start) ? onward(d.start) || null : (d.start ?? null), nodes };
}

// bridged keeps a node from leading to itself by the removal of all that stood between.
const bridged = (n: Node, target: string): string => (target === n.id ? "" : target);

// ways lists the places of a node to which a connection that is drawn from it can go: those that
// it has, those that are not set, and a new case or arm.
export function ways(n: Node): Slot[] {
  const has = slots(n);
  for (const m of described(n.type)?.members ?? []) {
    const kind = (m.way ?? m.name) as Slot["kind"];
    if (m.kind === "way" && (m.else || m.with) && !has.some((s) => s.kind === kind) && (!m.with || n[m.with as keyof Node])) has.push({ kind, index: 0, target: "" });
    if (m.way && (m.required || itemsOf(n, m).length > 0)) has.push({ kind, index: itemsOf(n, m).length, target: "" });
  }
  return has;
}

// connect makes a way of a node lead to another, and adds a case or arm where the way is new.
export function connect(d: Definition, source: string, slot: Pick<Slot, "kind" | "index">, target: string): Definition {
  const grown = d.nodes.map((n) => {
    if (n.id !== source) return n;
    for (const m of described(n.type)?.members ?? []) {
      const items = itemsOf(n, m);
      const first = ((described(n.type)!.inserted as Record<string, object[]>)[m.name] ?? [{}])[0];
      if (m.way === slot.kind && slot.index === items.length) return { ...n, [m.name]: [...items, { ...first }] };
    }
    return n;
  });
  return lead({ ...d, nodes: grown }, { at: "slot", source, slot }, target);
}

// update replaces a node; under another id, everything that led to it leads to the new id.
export function update(d: Definition, id: string, node: Node): Definition {
  const renamed = (target?: string | null): string => (target === id ? node.id : (target ?? ""));
  const nodes = d.nodes.map((n) => {
    const m = n.id === id ? node : n;
    return node.id === id ? m : slots(m).reduce((x, s) => (s.target === id ? withSlot(x, s, renamed(s.target)) : x), m);
  });
  return { ...d, start: renamed(d.start) || null, nodes };
}

// A Clip is what the clipboard holds: nodes of a journey as JSON.
export interface Clip {
  waypost: "nodes";
  nodes: Node[];
}

// clip copies nodes. Ways out of them are cut: another journey has not what they lead to.
export function clip(d: Definition, ids: readonly string[]): Clip {
  const chosen = new Set(ids);
  const nodes = d.nodes
    .filter((n) => chosen.has(n.id))
    .map((n) => slots(n).reduce((m, s) => (s.target && !chosen.has(s.target) ? withSlot(m, s, "") : m), n));
  return { waypost: "nodes", nodes };
}

// readClip returns what a text of the clipboard holds, if that is nodes.
export function readClip(json: unknown): Clip | undefined {
  const c = json as Clip | null;
  if (!c || typeof c !== "object" || c.waypost !== "nodes" || !Array.isArray(c.nodes) || c.nodes.length === 0) return undefined;
  return c.nodes.every((n) => n && typeof n === "object" && typeof n.id === "string" && n.id && typeof n.type === "string") ? c : undefined;
}

// paste puts copied nodes in, under new ids where theirs are taken. At a place, the first of them
// stands there, and their open main ways go on where the place led to.
export function paste(d: Definition, c: Clip, p?: Place): { definition: Definition; ids: string[] } | undefined {
  if (d.nodes.length + c.nodes.length > maxNodes) return undefined;
  const ids = new Map<string, string>();
  for (const n of c.nodes) ids.set(n.id, unusedId(d, n.id, new Set(ids.values())));
  let added = c.nodes.map((n) => slots(n).reduce((m, s) => withSlot(m, s, ids.get(s.target) ?? ""), { ...n, id: ids.get(n.id)! }));
  if (!p) return { definition: { ...d, nodes: [...d.nodes, ...added] }, ids: [...ids.values()] };
  const before = targetOf(d, p);
  const led = new Set(added.flatMap((n) => slots(n).map((s) => s.target)));
  const first = (added.find((n) => !led.has(n.id)) ?? added[0]!).id;
  added = added.map((n) => slots(n).reduce((m, s) => (!s.target && before ? withSlot(m, s, before) : m), n));
  const leading = lead(d, p, first);
  return { definition: { ...leading, nodes: after(leading.nodes, p, added) }, ids: [...ids.values()] };
}

// A Problem is what keeps a definition from being published.
export interface Problem {
  target: string; // the path, such as nodes[2].when
  message: string;
}

// problemsByNode sorts problems by the id of the node that they are of; "" are those of the journey.
export function problemsByNode(d: Definition, problems: readonly Problem[]): Map<string, Problem[]> {
  const by = new Map<string, Problem[]>();
  for (const p of problems) {
    const m = /^nodes\[(\d+)\]\.?(.*)$/.exec(p.target);
    const id = m ? (d.nodes[Number(m[1])]?.id ?? "") : "";
    by.set(id, [...(by.get(id) ?? []), id ? { ...p, target: m![2]! } : p]);
  }
  return by;
}

// joined adds problems to those that the server has found, unless it has found the same, in other words.
export function joined(found: ReadonlyMap<string, Problem[]>, more: ReadonlyMap<string, Problem[]>): Map<string, Problem[]> {
  const by = new Map(found);
  for (const [id, problems] of more) {
    const known = found.get(id) ?? [];
    by.set(id, [...known, ...problems.filter((p) => !known.some((k) => k.target === p.target))]);
  }
  return by;
}

// quick finds the problems that need no server, so that they show while one types: members that are
// missing, durations that are none, nodes that nothing leads to. say puts them in words.
export function quick(d: Definition, say: (what: "required" | "badDuration" | "unreachable", field: string) => string): Problem[] {
  const out: Problem[] = [];
  const reached = reachable(d);
  d.nodes.forEach((n, i) => {
    const at = (member: string): string => `nodes[${i}]${member && "."}${member}`;
    const need = (member: string, value: unknown, kind = "text", name = member): void => {
      if (!value || (kind === "templates" && !Object.keys(value)[0])) out.push({ target: at(member), message: say("required", name) });
      else if (kind === "duration" && parseDuration(value as string) === undefined) out.push({ target: at(member), message: say("badDuration", name) });
    };
    if (n.type === "waitForEvent" && !n.events?.length) need("event", n.event);
    for (const m of described(n.type)?.members ?? []) {
      const items = m.way ? itemsOf(n, m) : [];
      if (m.way === "event") items.forEach((e, j) => need(`events[${j}].event`, e.event, "text", "event"));
      if (m.way === "case") items.forEach((c, j) => need(`cases[${j}].when`, c.when, "text", "condition"));
      if (m.required && m.kind !== "list") need(m.name, n[m.name as keyof Node], m.kind);
    }
    if (!reached.has(n.id)) out.push({ target: at(""), message: say("unreachable", "") });
  });
  return out;
}

// History is a definition with what it was before, and what it was before an undo.
export interface History {
  past: Definition[];
  present: Definition;
  future: Definition[];
  tag: string; // of the last change; changes of one tag are one step of undo
}

const deepest = 200; // steps of undo

export const begin = (d: Definition): History => ({ past: [], present: d, future: [], tag: "" });

// change makes a step. Typing into one field is one step: it has the same tag again and again.
export function change(h: History, d: Definition, tag = ""): History {
  if (d === h.present) return h;
  const past = tag && tag === h.tag ? h.past : [...h.past, h.present].slice(-deepest);
  return { past, present: d, future: [], tag };
}

export function undo(h: History): History {
  const before = h.past[h.past.length - 1];
  return before ? { past: h.past.slice(0, -1), present: before, future: [h.present, ...h.future], tag: "" } : h;
}

export function redo(h: History): History {
  const next = h.future[0];
  return next ? { past: [...h.past, h.present], present: next, future: h.future.slice(1), tag: "" } : h;
}
