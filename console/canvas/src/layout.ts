// Where everything stands: computed from the graph alone, top down, so that no file holds coordinates.

import { Graph as Dagre, layout as dagre } from "@dagrejs/dagre";

import { type Graph, type GraphEdge, backEdges } from "./graph.ts";

export interface Size {
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  nodes: Map<string, Point>; // the upper left corner
  edges: Map<string, { path: string; label: Point; labelSize: Size }>; // label: the centre
  size: Size;
}

const labelId = (edge: string): string => `label ${edge}`; // no node's id has a blank
const turn = 16; // pixels from a node to where its edges turn
const corner = 12; // the radius of a turn
const spacing = 28; // pixels between ways that lead back
const between = 32; // pixels between two ranks

// dagre doubles the length of each edge, in ranks, for a label in its middle, and halves what is
// between two ranks. With labels that are nodes, that would be twice as many ranks to lay out.
const minlen = 0.5;

// From so many nodes on, drawing soon counts more than the last crossing: of 200, the layout takes
// less than half as long.
const many = 100;

// layout places nodes and edges. Edges that close a loop lead back on the right, outside of
// everything that they pass.
export function layout(g: Graph, sizeOf: (id: string) => Size, labelOf: (id: string) => Size): Layout {
  const d = new Dagre();
  d.setGraph({ rankdir: "TB", nodesep: 36, edgesep: 28, ranksep: 2 * between, rankalign: "top", ranker: g.nodes.length > many ? "tight-tree" : "network-simplex" });
  const back = backEdges(g);
  for (const n of g.nodes) d.setNode(n.id, { ...sizeOf(n.id) });
  for (const e of g.edges) {
    if (back.has(e.id)) continue;
    // A label is a node of its own, in the rank below the node that its way leaves: dagre would put
    // it half-way. A way without a condition, such as next, is drawn straighter than the others.
    const size = labelOf(e.id);
    const weight = e.slots.every((s) => s.kind === "next") ? 3 : 1;
    d.setNode(labelId(e.id), { width: size.width, height: size.height });
    d.setEdge(e.source, labelId(e.id), { weight: 4 * weight, minlen });
    d.setEdge(labelId(e.id), e.target, { weight, minlen });
  }
  dagre(d, {
    customOrder: (ranked, order) => {
      // dagre expects that each edge passes a rank, and fails where one has no point there.
      for (const e of ranked.edges()) Object.assign(ranked.edge(e), { points: [{ x: 0, y: 0 }] });
      inOrder(ranked as Dagre, g, order as Order);
    },
  });

  const box = (id: string): { left: number; right: number; top: number; bottom: number; x: number; rank: number } => {
    const n = d.node(id) as unknown as Point & Size & { rank: number };
    return { left: n.x - n.width / 2, right: n.x + n.width / 2, top: n.y - n.height / 2, bottom: n.y + n.height / 2, x: n.x, rank: n.rank };
  };
  const nodes = new Map(g.nodes.map((n) => [n.id, { x: box(n.id).left, y: box(n.id).top }]));
  const edges: Layout["edges"] = new Map();
  let outside = 0; // the right end of the labels of the ways back so far
  // The longer a way back is, the farther outside: so they do not cross.
  const length = (e: GraphEdge): number => box(e.source).bottom - box(e.target).top;
  for (const e of [...g.edges].sort((a, b) => length(a) - length(b))) {
    const from = box(e.source);
    const to = box(e.target);
    const labelSize = labelOf(e.id);
    if (back.has(e.id)) {
      const right = Math.max(...g.nodes.map((n) => box(n.id)).filter((b) => b.bottom >= to.top - turn && b.top <= from.bottom + turn).map((b) => b.right));
      const x = Math.max(right, outside) + spacing + labelSize.width / 2;
      outside = x + labelSize.width / 2;
      const points = [
        { x: from.x, y: from.bottom },
        { x: from.x, y: from.bottom + turn },
        { x, y: from.bottom + turn },
        { x, y: to.top - turn },
        { x: to.x, y: to.top - turn },
        { x: to.x, y: to.top },
      ];
      edges.set(e.id, { path: rounded(points), label: { x, y: (from.bottom + to.top) / 2 }, labelSize });
      continue;
    }
    const label = box(labelId(e.id));
    const below = d.edge(labelId(e.id), e.target) as unknown as { points: Point[] };
    const centre = { x: label.x, y: (label.top + label.bottom) / 2 };
    const passed = to.rank > label.rank + 1 ? below.points.slice(1, -1) : [];
    const route = [{ x: from.x, y: from.bottom }, centre, ...passed, { x: to.x, y: to.top }];
    edges.set(e.id, { path: rounded(steps(route)), label: centre, labelSize });
  }
  const boxes = g.nodes.map((n) => box(n.id));
  return {
    nodes,
    edges,
    size: { width: Math.max(0, ...boxes.map((b) => b.right)), height: Math.max(0, ...boxes.map((b) => b.bottom)) },
  };
}

type Order = (graph: Dagre, options: { disableOptimalOrderHeuristic?: boolean }) => void;

// inOrder decides who stands left of whom in a rank. dagre keeps the ways apart, but does not keep
// their order: of its orders, and their mirror images, this takes the one with the fewest
// crossings, and of those the one in which the ways of a node stand as the definition has them. Of
// many nodes it takes dagre's first order, or its mirror image.
function inOrder(ranked: Dagre, g: Graph, order: Order): void {
  const attributes = (v: string) => ranked.node(v) as unknown as { rank: number; order: number };
  const read = (): Map<string, number> => new Map(ranked.nodes().map((v) => [v, attributes(v).order]));
  const between = new Map<number, [string, string][]>();
  for (const e of ranked.edges()) between.set(attributes(e.v).rank, [...(between.get(attributes(e.v).rank) ?? []), [e.v, e.w]]);
  const ways = new Map<string, [number, string][]>();
  for (const [i, e] of g.edges.entries()) if (ranked.hasNode(labelId(e.id))) ways.set(e.source, [...(ways.get(e.source) ?? []), [i, labelId(e.id)]]);
  const pairs = <T>(all: T[], wrong: (a: T, b: T) => boolean): number => all.reduce((sum, a, i) => sum + all.slice(i + 1).filter((b) => wrong(a, b)).length, 0);
  const faults = (at: Map<string, number>): number => {
    const o = (v: string): number => at.get(v)!;
    const crossings = [...between.values()].reduce((sum, edges) => sum + pairs(edges, ([a, b], [c, d]) => (o(a) - o(c)) * (o(b) - o(d)) < 0), 0);
    const swapped = [...ways.values()].reduce((sum, w) => sum + pairs(w, ([i, a], [j, b]) => (i - j) * (o(a) - o(b)) < 0), 0);
    return crossings * 1000 + swapped;
  };
  const mirrored = (at: Map<string, number>): Map<string, number> => {
    const last = new Map<number, number>();
    for (const [v, o] of at) last.set(attributes(v).rank, Math.max(last.get(attributes(v).rank) ?? 0, o));
    return new Map([...at].map(([v, o]) => [v, last.get(attributes(v).rank)! - o]));
  };
  order(ranked, { disableOptimalOrderHeuristic: true });
  const orders = [read()];
  if (g.nodes.length <= many) {
    order(ranked, {});
    orders.push(read());
  }
  const least = [...orders, ...orders.map(mirrored)].map((at) => ({ at, faults: faults(at) })).reduce((a, b) => (b.faults < a.faults ? b : a));
  for (const [v, o] of least.at) attributes(v).order = o;
}

// steps makes a route of vertical and horizontal pieces: it turns close to the nodes at its ends,
// and half-way between the points in the middle.
export function steps(route: Point[]): Point[] {
  const out: Point[] = [route[0]!];
  for (let i = 1; i < route.length; i++) {
    const a = out[out.length - 1]!;
    const b = route[i]!;
    if (Math.abs(a.x - b.x) > 1) {
      let y = (a.y + b.y) / 2;
      if (i === 1) y = a.y + Math.min(turn, (b.y - a.y) / 2);
      else if (i === route.length - 1) y = b.y - Math.min(turn, (b.y - a.y) / 2);
      out.push({ x: a.x, y }, { x: b.x, y });
    }
    out.push(b);
  }
  return out;
}

// rounded is the SVG path through the points, its corners rounded.
export function rounded(points: Point[]): string {
  const turns = points.filter((p, i) => {
    const a = points[i - 1];
    const b = points[i + 1];
    return !a || !b || !((a.x === p.x && p.x === b.x) || (a.y === p.y && p.y === b.y));
  });
  const n = (v: number): string => String(Math.round(v * 10) / 10);
  const at = (p: Point): string => `${n(p.x)},${n(p.y)}`;
  let path = `M${at(turns[0]!)}`;
  for (let i = 1; i < turns.length - 1; i++) {
    const p = turns[i]!;
    const r = Math.min(corner, distance(turns[i - 1]!, p) / 2, distance(p, turns[i + 1]!) / 2);
    path += `L${at(toward(p, turns[i - 1]!, r))}Q${at(p)} ${at(toward(p, turns[i + 1]!, r))}`;
  }
  return path + `L${at(turns[turns.length - 1]!)}`;
}

const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y);

function toward(a: Point, b: Point, by: number): Point {
  const all = distance(a, b) || 1;
  return { x: a.x + ((b.x - a.x) * by) / all, y: a.y + ((b.y - a.y) * by) / all };
}
