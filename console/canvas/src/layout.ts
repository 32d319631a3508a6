// Where everything stands: computed from the graph alone, top down, so that no file holds coordinates.

import { Graph as Dagre, layout as dagre } from "@dagrejs/dagre";

import { type Graph, backEdges } from "./graph.ts";

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

const turn = 20; // pixels from a node to where its edges turn
const corner = 12; // the radius of a turn
const lane = 28; // the distance between edges that lead back

// layout places nodes and edges. Edges that close a loop lead back on the right, outside of
// everything that they pass.
export function layout(g: Graph, sizeOf: (id: string) => Size, labelOf: (id: string) => Size): Layout {
  const d = new Dagre({ multigraph: true });
  d.setGraph({ rankdir: "TB", nodesep: 36, edgesep: 28, ranksep: 62, rankalign: "top" });
  d.setDefaultEdgeLabel(() => ({}));
  const back = backEdges(g);
  for (const n of g.nodes) d.setNode(n.id, { ...sizeOf(n.id) });
  for (const e of g.edges) {
    if (back.has(e.id)) continue;
    const label = labelOf(e.id);
    // A way without a condition, such as next, is drawn straighter than the others.
    const weight = e.slots.every((s) => s.kind === "next") ? 3 : 1;
    d.setEdge(e.source, e.target, { width: label.width + 16, height: label.height, labelpos: "c", weight, minlen: 1 }, e.id);
  }
  dagre(d);

  const box = (id: string): { left: number; right: number; top: number; bottom: number; x: number } => {
    const n = d.node(id) as unknown as Point & Size;
    return { left: n.x - n.width / 2, right: n.x + n.width / 2, top: n.y - n.height / 2, bottom: n.y + n.height / 2, x: n.x };
  };
  const nodes = new Map(g.nodes.map((n) => [n.id, { x: box(n.id).left, y: box(n.id).top }]));
  const edges: Layout["edges"] = new Map();
  let lanes = 0;
  for (const e of g.edges) {
    const from = box(e.source);
    const to = box(e.target);
    const labelSize = labelOf(e.id);
    if (back.has(e.id)) {
      const right = Math.max(...g.nodes.map((n) => box(n.id)).filter((b) => b.bottom >= to.top - turn && b.top <= from.bottom + turn).map((b) => b.right));
      const x = right + labelSize.width / 2 + lane * (1 + lanes++);
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
    const placed = d.edge(e.source, e.target, e.id) as unknown as { points: Point[] } & Point;
    const inner = placed.points.slice(1, -1);
    const route = [{ x: from.x, y: from.bottom }, ...inner, { x: to.x, y: to.top }];
    edges.set(e.id, { path: rounded(steps(route)), label: { x: placed.x, y: placed.y }, labelSize });
  }
  const boxes = g.nodes.map((n) => box(n.id));
  return {
    nodes,
    edges,
    size: { width: Math.max(0, ...boxes.map((b) => b.right)), height: Math.max(0, ...boxes.map((b) => b.bottom)) },
  };
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
      if (i === 1) y = Math.min(y, a.y + turn);
      else if (i === route.length - 1) y = Math.max(y, b.y - turn);
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
