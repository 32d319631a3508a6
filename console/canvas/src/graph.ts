// From a definition to the nodes and edges of a picture. Nothing here knows React, sizes or places.

import { type Definition, type Node, type Slot, nodesById, slotKey, slots, wayOf } from "./definition.ts";

export type Change = "same" | "added" | "removed" | "changed";

// Ids of what is drawn beside the definition's nodes; a node's id has no colon.
export const startId = "start:";
const endPrefix = "end:";
const missingPrefix = "missing:";

export type GraphNode =
  | { id: string; kind: "node"; node: Node; change: Change; changed: string[] } // changed: the members
  | { id: string; kind: "start" }
  | { id: string; kind: "end" } // where a way ends without an exit
  | { id: string; kind: "missing"; missing: string }; // named by an edge, but there is no such node

export interface GraphEdge {
  id: string;
  source: string;
  target: string;
  slots: Slot[]; // none: the edge of the start marker
  change: Change;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

// What has an edge of its own: each slot, to edit it; each way that statistics count, to show how many
// went it; or each next node of a node, to compare two definitions.
export type Edges = "slots" | "ways" | "targets";

// graph draws a definition.
export function graph(d: Definition, edgesOf: Edges): Graph {
  const byId = nodesById(d);
  const nodes: GraphNode[] = [];
  const edges: GraphEdge[] = [];
  const missing = new Set<string>();

  const targetOf = (id: string): string => {
    if (byId.has(id)) return id;
    if (!missing.has(id)) {
      missing.add(id);
      nodes.push({ id: missingPrefix + id, kind: "missing", missing: id });
    }
    return missingPrefix + id;
  };

  nodes.push({ id: startId, kind: "start" });
  for (const n of byId.values()) nodes.push({ id: n.id, kind: "node", node: n, change: "same", changed: [] });
  const first = d.start ? targetOf(d.start) : endPrefix;
  if (!d.start) nodes.push({ id: endPrefix, kind: "end" });
  edges.push({ id: startId, source: startId, target: first, slots: [], change: "same" });

  for (const n of byId.values()) {
    const drawn = new Map<string, GraphEdge>();
    for (const s of slots(n)) {
      const end = `${endPrefix}${n.id}${edgesOf === "slots" ? `:${slotKey(s)}` : ""}`;
      const target = s.target ? targetOf(s.target) : end;
      const id = { slots: `${n.id}:${slotKey(s)}`, ways: `${n.id}:${wayOf(n, s)}>${target}`, targets: `${n.id}>${target}` }[edgesOf];
      const known = drawn.get(id);
      if (known) {
        known.slots.push(s);
        continue;
      }
      if (target === end && !nodes.some((x) => x.id === end)) nodes.push({ id: end, kind: "end" });
      const edge: GraphEdge = { id, source: n.id, target, slots: [s], change: "same" };
      drawn.set(id, edge);
      edges.push(edge);
    }
  }
  return { nodes, edges };
}

// compare draws two definitions in one picture: what only the newer one has is added, what only
// the older one has is removed.
export function compare(older: Definition, newer: Definition): Graph {
  const a = graph(older, "targets");
  const b = graph(newer, "targets");
  const olderNodes = new Map(a.nodes.map((n) => [n.id, n]));
  const newerIds = new Set(b.nodes.map((n) => n.id));
  const nodes = b.nodes.map((n): GraphNode => {
    if (n.kind !== "node") return n;
    const before = olderNodes.get(n.id);
    if (before?.kind !== "node") return { ...n, change: "added" };
    const changed = changedMembers(before.node, n.node);
    return { ...n, change: changed.length ? "changed" : "same", changed };
  });
  for (const n of a.nodes) if (!newerIds.has(n.id)) nodes.push(n.kind === "node" ? { ...n, change: "removed" } : n);

  const olderEdges = new Map(a.edges.map((e) => [e.source + " " + e.target, e]));
  const edges = b.edges.map((e): GraphEdge => ({ ...e, change: olderEdges.delete(e.source + " " + e.target) ? "same" : "added" }));
  for (const e of olderEdges.values()) edges.push({ ...e, id: `removed ${e.id}`, change: "removed" });
  return { nodes, edges };
}

// changedMembers lists the members in which two nodes differ, apart from the ways on, which are
// edges: of cases and arms it compares all but their next.
export function changedMembers(a: Node, b: Node): string[] {
  const bare = (n: Node): Record<string, unknown> => {
    const { next: _next, otherwise: _otherwise, onFailure: _f, onTimeout: _t, onMissed: _m, cases, arms, ...rest } = n;
    return { ...rest, cases: cases?.map((c) => c.when ?? ""), arms: arms?.map((x) => x.weight ?? 0) };
  };
  const x = bare(a);
  const y = bare(b);
  return [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((k) => canonical(x[k]) !== canonical(y[k])).sort();
}

// canonical writes a value with the members of objects in a fixed order; null is as absent.
function canonical(v: unknown): string {
  if (v === null || v === undefined) return "";
  return JSON.stringify(v, (_, value: unknown) =>
    value && typeof value === "object" && !Array.isArray(value) && Object.getPrototypeOf(value) !== null
      ? Object.fromEntries(Object.entries(value).sort(([p], [q]) => (p < q ? -1 : 1)))
      : value,
  );
}

// backEdges lists the ids of the edges that close a loop, seen from the start on.
export function backEdges(g: Graph): Set<string> {
  const out = new Map<string, GraphEdge[]>();
  for (const e of g.edges) out.set(e.source, [...(out.get(e.source) ?? []), e]);
  const state = new Map<string, "open" | "done">();
  const back = new Set<string>();
  for (const root of g.nodes) {
    if (state.has(root.id)) continue;
    state.set(root.id, "open");
    const path = [{ id: root.id, edges: [...(out.get(root.id) ?? [])] }];
    while (path.length > 0) {
      const here = path[path.length - 1]!;
      const e = here.edges.shift();
      if (!e) {
        state.set(here.id, "done");
        path.pop();
      } else if (state.get(e.target) === "open") {
        back.add(e.id);
      } else if (!state.has(e.target)) {
        state.set(e.target, "open");
        path.push({ id: e.target, edges: [...(out.get(e.target) ?? [])] });
      }
    }
  }
  return back;
}
