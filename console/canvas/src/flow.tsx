// The picture itself: a graph with its layout, moved and chosen by mouse and keyboard.

import { type Connection, MiniMap, Panel, ReactFlow, ReactFlowProvider, type ReactFlowInstance, Position, useReactFlow, useStore } from "@xyflow/react";
import { type Dispatch, type KeyboardEvent, type ReactNode, type SetStateAction, useCallback, useEffect, useMemo, useRef } from "react";

import { useShared, useStale } from "./context.ts";
import { described } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { type WayEdge, Arrows, edgeTypes, labelSize } from "./edges.tsx";
import { type Graph, type GraphNode, startId } from "./graph.ts";
import { Icon } from "./icons.tsx";
import { layout } from "./layout.ts";
import { type AnyNode, nodeTypes, sizeOf } from "./nodes.tsx";
import { fill } from "./texts.ts";
import { edgeLabel, summary, title } from "./words.ts";

export interface FlowProps {
  graph: Graph;
  counted: boolean; // there are statistics
  editing: boolean;
  problems: ReadonlyMap<string, Problem[]>;
  selected: ReadonlySet<string>; // ids of nodes and edges
  select: Dispatch<SetStateAction<ReadonlySet<string>>>;
  first: string; // the node to show first; "" is the start
  connect: (source: string, target: string, at: { x: number; y: number }) => void;
  reconnect: (edge: string, target: string) => void;
  children?: ReactNode;
}

const manyNodes = 30; // from so many on there is an overview
const closest = 1.75;
const farthest = 0.1;
const readable = 0.62; // the zoom below which text is hard to read
const margin = 32;
const unreadable = 0.4; // the zoom below which small text is left out: it only costs time

const calm = (): boolean => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const motion = (): { duration: number } => ({ duration: calm() ? 0 : 250 });

export function Flow(props: FlowProps) {
  return (
    <ReactFlowProvider>
      <Picture {...props} />
    </ReactFlowProvider>
  );
}

function Picture({ graph, counted, editing, problems, selected, select, first, connect, reconnect, children }: FlowProps) {
  const { words } = useShared();
  const { texts } = words;
  const far = useStore((s) => s.transform[2] < unreadable);
  const box = useRef<HTMLDivElement>(null);
  const flow = useRef<ReactFlowInstance<AnyNode, WayEdge> | undefined>(undefined);

  const place = useMemo(() => {
    const steps = new Map(graph.nodes.map((n) => [n.id, n]));
    const node = (id: string) => {
      const n = steps.get(id);
      return n?.kind === "node" ? n.node : undefined;
    };
    const label = new Map(graph.edges.map((e) => [e.id, edgeLabel(node(e.source), e, words)]));
    const sizes = new Map(graph.nodes.map((n) => [n.id, sizeOf(n, counted)]));
    const laid = layout(
      graph,
      (id) => sizes.get(id)!,
      (id) => labelSize(label.get(id)!, counted && !id.startsWith(startId), editing),
    );
    return { steps, node, label, sizes, laid };
  }, [graph, counted, editing, words]);

  // Objects of nodes stay the same while nothing about them changes: see StepView.
  const nodes = useMemo(
    () =>
      graph.nodes.map((n): AnyNode => {
        const size = place.sizes.get(n.id)!;
        const common = {
          id: n.id,
          position: place.laid.nodes.get(n.id)!,
          ...size,
          draggable: false,
          // Edges of nodes that are not drawn need to know where these end.
          handles: [
            { type: "target" as const, position: Position.Top, x: size.width / 2, y: 0, width: 1, height: 1 },
            { type: "source" as const, position: Position.Bottom, x: size.width / 2, y: size.height, width: 1, height: 1 },
          ],
        };
        if (n.kind !== "node") {
          return { ...common, type: n.kind, data: { missing: n.kind === "missing" ? n.missing : "" }, selectable: false, focusable: false };
        }
        const data = {
          node: n.node,
          title: title(n.node, words),
          summary: summary(n.node, words),
          change: n.change,
          changed: n.changed,
          problems: problems.get(n.id) ?? [],
          counted,
          connectable: editing,
        };
        return { ...common, type: "step", data, ariaRole: "button", domAttributes: { "aria-roledescription": texts.step } };
      }),
    [graph, place, problems, counted, editing, words, texts],
  );
  const shownNodes = useMemo(() => nodes.map((n) => (selected.has(n.id) ? { ...n, selected: true } : n)), [nodes, selected]);

  const edges = useMemo(() => {
    const named = (id: string): string => {
      const n = place.steps.get(id);
      return n?.kind === "node" ? title(n.node, words) : n?.kind === "missing" ? n.missing : n?.kind === "start" ? texts.start : texts.end;
    };
    return graph.edges.map((e): WayEdge => {
      const text = place.label.get(e.id)!;
      const fromTo = fill(texts.edgeTitle, { from: named(e.source), to: named(e.target) });
      return {
        id: e.id,
        source: e.source,
        target: e.target,
        type: "way",
        focusable: editing && e.slots.length > 0,
        selectable: editing && e.slots.length > 0,
        reconnectable: editing ? "target" : false,
        ariaLabel: [fromTo, text].filter(Boolean).join(": "),
        domAttributes: { "aria-roledescription": texts.way },
        data: {
          edge: e,
          ...place.laid.edges.get(e.id)!,
          text,
          title: [text, fromTo].filter(Boolean).join("\n"),
          from: place.node(e.source),
          place: !editing ? undefined : e.source === startId ? { at: "start" } : { at: "slot", source: e.source, slot: e.slots[0]! },
          good: e.slots.some((s) => s.kind !== "onFailure" && s.kind !== "onTimeout" && s.kind !== "onMissed") || e.slots.length === 0,
        },
      };
    });
  }, [graph, place, editing, words, texts]);
  const shownEdges = useMemo(() => edges.map((e) => (selected.has(e.id) ? { ...e, selected: true } : e)), [edges, selected]);

  // center shows a node in the middle, at a zoom at which it can be read.
  const center = useCallback(
    (id: string, focus: boolean) => {
      const at = place.laid.nodes.get(id);
      const size = place.sizes.get(id);
      const f = flow.current;
      if (!at || !size || !f) return;
      void f.setCenter(at.x + size.width / 2, at.y + size.height / 2, { zoom: Math.max(f.getZoom(), readable), ...motion() });
      // It is not in the document before it is in sight.
      const tryFocus = (left: number): void => {
        const found = box.current?.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"]`);
        if (found) found.focus({ preventScroll: true });
        else if (left > 0) requestAnimationFrame(() => tryFocus(left - 1));
      };
      if (focus) tryFocus(60);
    },
    [place],
  );

  // frame shows all, if that can be read; else the start at the top, as wide as it fits.
  const frame = useCallback(
    (all: boolean, animated = true) => {
      const f = flow.current;
      const room = box.current?.querySelector<HTMLElement>(".react-flow");
      if (!f || !room) return;
      const { width, height } = place.laid.size;
      const [w, h] = [room.clientWidth, room.clientHeight];
      const fits = Math.min((w - 2 * margin) / width, (h - 2 * margin) / height, 1);
      const zoom = Math.max(all ? farthest : readable, fits, all ? 0 : Math.min((w - 2 * margin) / width, 0.85));
      const start = place.laid.nodes.get(startId)!;
      const middle = start.x + place.sizes.get(startId)!.width / 2;
      const x = width * zoom <= w - 2 * margin ? (w - width * zoom) / 2 : w / 2 - middle * zoom;
      const y = height * zoom <= h - 2 * margin ? (h - height * zoom) / 2 : margin;
      void f.setViewport({ x, y, zoom }, animated ? motion() : { duration: 0 });
    },
    [place],
  );

  // A node that the address names is shown first; later, only what has just been inserted is.
  const begun = useRef(false);
  // What is pressed keeps its size on the screen: see .wp-add.
  const tellZoom = (zoom: number): void => box.current?.style.setProperty("--wp-zoom", String(zoom));
  const begin = (f: ReactFlowInstance<AnyNode, WayEdge>): void => {
    flow.current = f;
    tellZoom(f.getZoom());
    frame(false, false);
    if (first && place.steps.has(first)) center(first, false);
    begun.current = true;
  };
  const known = useRef(graph);
  useEffect(() => {
    if (!begun.current || known.current === graph) return;
    const before = new Set(known.current.nodes.map((n) => n.id));
    known.current = graph;
    const added = graph.nodes.filter((n) => n.kind === "node" && !before.has(n.id));
    if (added.length > 0 && added.length < graph.nodes.length / 2) center(added[0]!.id, true);
  }, [graph, center]);

  // A form that opens beside the picture takes its room: the chosen node stays in sight, else the middle.
  // A step that is inserted comes with its form: the width stays known over that.
  const chosen = useRef(selected);
  chosen.current = selected;
  const width = useRef(0);
  useEffect(() => {
    const room = box.current?.querySelector<HTMLElement>(".react-flow");
    if (!room) return;
    width.current ||= room.clientWidth;
    const watch = new ResizeObserver(() => {
      const by = room.clientWidth - width.current;
      width.current += by;
      const f = flow.current;
      if (!f || by === 0) return;
      const [one] = chosen.current;
      if (one !== undefined && chosen.current.size === 1 && place.steps.has(one)) center(one, false);
      else void f.setViewport({ ...f.getViewport(), x: f.getViewport().x + by / 2 });
    });
    watch.observe(room);
    return () => watch.disconnect();
  }, [place, center]);

  // Arrow keys go along the edges, and to the neighbours at the same height.
  const keys = (e: KeyboardEvent): void => {
    const id = (e.target as HTMLElement).closest<HTMLElement>(".react-flow__node")?.dataset["id"];
    if (!id || e.ctrlKey || e.metaKey || e.altKey) return;
    const to = neighbour(graph, place.laid.nodes, id, e.key);
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    if (to) center(to, true);
  };

  // One click can choose a node and let go of an edge, in two calls.
  const choose = (changes: readonly { type: string; id?: string; selected?: boolean }[]): void => {
    const chosen = changes.filter((c) => c.type === "select" && c.id !== undefined);
    if (chosen.length === 0) return;
    select((before) => {
      const next = new Set(before);
      for (const c of chosen) {
        if (c.selected) next.add(c.id!);
        else next.delete(c.id!);
      }
      return next;
    });
  };

  const labels = useMemo(
    () => ({
      "node.a11yDescription.default": editing ? texts.nodeEditHelp : texts.nodeHelp,
      "node.a11yDescription.keyboardDisabled": editing ? texts.nodeEditHelp : texts.nodeHelp,
      "edge.a11yDescription.default": texts.edgeHelp,
      "controls.ariaLabel": texts.controls,
      "controls.zoomIn.ariaLabel": texts.zoomIn,
      "controls.zoomOut.ariaLabel": texts.zoomOut,
      "controls.fitView.ariaLabel": texts.fit,
      "minimap.ariaLabel": texts.minimap,
      "handle.ariaLabel": texts.connectAs,
    }),
    [editing, texts],
  );

  return (
    <div className={far ? "wp-flow is-far" : "wp-flow"} ref={box} onKeyDownCapture={keys} role="region" aria-label={texts.canvas}>
      <Arrows />
      <ReactFlow<AnyNode, WayEdge>
        nodes={shownNodes}
        edges={shownEdges}
        nodeTypes={nodeTypes}
        edgeTypes={edgeTypes}
        onInit={begin}
        onMove={editing ? (_, at) => tellZoom(at.zoom) : undefined}
        onNodesChange={choose}
        onEdgesChange={choose}
        onConnect={(c: Connection) => connect(c.source, c.target, pointer)}
        onReconnect={(edge, c) => reconnect(edge.id, c.target)}
        onlyRenderVisibleElements
        nodesDraggable={false}
        nodesConnectable={editing}
        elementsSelectable
        elevateEdgesOnSelect
        elevateNodesOnSelect={false}
        deleteKeyCode={null}
        multiSelectionKeyCode={editing ? ["Meta", "Control", "Shift"] : null}
        selectionKeyCode={editing ? "Shift" : null}
        minZoom={farthest}
        maxZoom={closest}
        panOnScroll
        zoomOnDoubleClick={false}
        ariaLabelConfig={labels}
        connectionRadius={40}
        proOptions={{ hideAttribution: true }} // it is below
      >
        {graph.nodes.length >= manyNodes && <MiniMap<AnyNode> pannable zoomable ariaLabel={texts.minimap} nodeClassName={(n) => (n.type === "step" ? `wp-mini-${described(n.data.node.type)?.colour ?? "leave"}` : "wp-mini-mark")} nodeBorderRadius={24} />}
        <Stale />
        {children}
      </ReactFlow>
      <Controls frame={frame} />
    </div>
  );
}

// Where the pointer is: the menu of a new connection opens there.
const pointer = { x: 0, y: 0 };
addEventListener("pointermove", (e) => Object.assign(pointer, { x: e.clientX, y: e.clientY }), { passive: true });

// neighbour is the node that an arrow key goes to: undefined for other keys, "" where there is none.
function neighbour(g: Graph, places: ReadonlyMap<string, { x: number; y: number }>, id: string, key: string): string | undefined {
  const step = (n: string): boolean => g.nodes.some((x: GraphNode) => x.id === n && x.kind === "node");
  const at = places.get(id)!;
  const left = (ids: string[]): string => ids.filter(step).sort((a, b) => places.get(a)!.x - places.get(b)!.x)[0] ?? "";
  switch (key) {
    case "ArrowDown":
      return left(g.edges.filter((e) => e.source === id).map((e) => e.target));
    case "ArrowUp":
      return left(g.edges.filter((e) => e.target === id).map((e) => e.source));
    case "ArrowLeft":
    case "ArrowRight": {
      const sign = key === "ArrowLeft" ? -1 : 1;
      const beside = g.nodes.filter((n) => n.kind === "node" && Math.abs(places.get(n.id)!.y - at.y) < 40 && (places.get(n.id)!.x - at.x) * sign > 0);
      return beside.map((n) => n.id).sort((a, b) => (places.get(a)!.x - places.get(b)!.x) * sign)[0] ?? "";
    }
    default:
      return undefined;
  }
}

function Controls({ frame }: { frame: (all: boolean) => void }) {
  const { texts, lang } = useShared().words;
  const flow = useReactFlow();
  const zoom = useStore((s) => s.transform[2]);
  const button = (icon: string, label: string, act: () => void, disabled = false) => (
    <button type="button" className="wp-tool" aria-label={label} title={label} onClick={act} disabled={disabled}>
      <Icon name={icon} size={16} />
    </button>
  );
  return (
    <div className="wp-foot">
      <div className="wp-tools" role="toolbar" aria-label={texts.controls}>
        {button("minus", texts.zoomOut, () => void flow.zoomOut(motion()), zoom <= farthest)}
        <span className="wp-zoom">{new Intl.NumberFormat(lang, { style: "percent" }).format(zoom)}</span>
        {button("plus", texts.zoomIn, () => void flow.zoomIn(motion()), zoom >= closest)}
        <span className="wp-line" />
        {button("fit", texts.fit, () => frame(true))}
        {button("top", texts.toStart, () => frame(false))}
      </div>
      <a href="https://reactflow.dev" target="_blank" rel="noopener noreferrer">
        React Flow
      </a>
    </div>
  );
}

function Stale() {
  const { texts, lang } = useShared().words;
  const at = useStale();
  if (!at) return null;
  return (
    <Panel position="top-right">
      <div className="wp-chip is-warning" role="status">
        {fill(texts.asOf, { time: new Intl.DateTimeFormat(lang, { timeStyle: "short" }).format(at) })}
      </div>
    </Panel>
  );
}
