// The edges of the picture: their path comes from the layout, their share from the statistics.

import { BaseEdge, type Edge, EdgeLabelRenderer, type EdgeProps } from "@xyflow/react";
import { type DragEvent, memo, useState } from "react";

import { useCounts, useEntered, useShared } from "./context.ts";
import type { Node } from "./definition.ts";
import type { Place } from "./edit.ts";
import { type GraphEdge, startId } from "./graph.ts";
import { Icon } from "./icons.tsx";
import type { Point, Size } from "./layout.ts";
import { taken } from "./live.ts";
import { fill } from "./texts.ts";
import { full, percent } from "./words.ts";

export interface WayData extends Record<string, unknown> {
  edge: GraphEdge;
  path: string;
  label: Point;
  labelSize: Size;
  text: string;
  title: string;
  from: Node | undefined; // undefined of the start marker
  place: Place | undefined; // where "+" inserts
  good: boolean; // a failure, a time-out and a missing date are not
}

export type WayEdge = Edge<WayData, "way">;

// What a node is dragged from the palette as.
export const dragType = "application/x-waypost-node";

const fontWidth = (text: string): number => [...text].reduce((sum, c) => sum + (c > "\u2e7f" ? 12 : 6.4), 0);
const widest = 216; // pixels of a label's text

// labelSize estimates how much room a label needs, before it is drawn.
export function labelSize(text: string, shared: boolean, editing: boolean): Size {
  const parts = [text && Math.min(widest, fontWidth(text)) + 4, shared && 34, editing && 22].filter((w): w is number => !!w);
  return { width: parts.length ? parts.reduce((a, b) => a + b, 0) + 16 : 0, height: 24 };
}

// A "+" that is cut off at the edge of the picture cannot be pressed well: canvas.css hides it.
const borders = new IntersectionObserver((seen) => seen.forEach((e) => (e.target as HTMLElement).toggleAttribute("data-cut", e.intersectionRatio < 0.98)), { threshold: [0, 0.98] });
const watched = (button: HTMLElement | null): (() => void) | undefined => {
  if (!button) return undefined;
  borders.observe(button);
  return () => borders.unobserve(button);
};

const WayView = memo(function WayView({ id, data, selected, source }: EdgeProps<WayEdge>) {
  const { words, live, add, pick, drop } = useShared();
  const counts = useCounts(source);
  const entered = useEntered();
  const [over, setOver] = useState(false);
  if (!data) return null;
  const { edge, path, label, text, title, from, place, good } = data;

  const flow = from && edge.slots[0] && counts && taken(from, edge.slots[0], counts);
  const count = edge.source === startId ? (entered ?? 0) : (flow?.count ?? 0);
  const weight = live?.has() && entered ? Math.min(1, count / entered) : 0;
  const kind = selected ? "selected" : edge.change;
  const share = live && flow && flow.all > 0 ? percent(flow.count, flow.all, words.lang) : "";
  const tip = [title, share && flow && fill(words.texts.shareTitle, { n: full(flow.count, words.lang), all: full(flow.all, words.lang) })].filter(Boolean).join("\n");
  const accepts = (e: DragEvent): boolean => !!drop && !!place && e.dataTransfer.types.includes(dragType);
  return (
    <>
      <BaseEdge path={path} markerEnd={`url(#wp-arrow-${kind})`} className={`wp-way is-${kind}`} style={{ strokeWidth: 1.5 + 2.5 * Math.sqrt(weight) }} interactionWidth={16} />
      {(text || share || place) && (
        <EdgeLabelRenderer>
          <div
            className={`wp-label nodrag nopan is-${kind} ${good ? "" : "is-bad"} ${text || share ? "" : "is-bare"} ${over ? "is-over" : ""}`}
            style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
            title={tip || undefined}
            onClick={pick && edge.slots.length > 0 ? () => pick(id) : undefined}
            onDragOver={(e) => {
              if (!accepts(e)) return;
              e.preventDefault();
              setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(e) => {
              if (!accepts(e)) return;
              e.preventDefault();
              setOver(false);
              drop!(place!, e.dataTransfer.getData(dragType));
            }}
          >
            {text && <span className="wp-label-text">{text}</span>}
            {share && <span className="wp-label-share">{share}</span>}
            {place && add && (
              <button type="button" className="wp-add" ref={watched} aria-label={`${words.texts.addHere}: ${title}`} title={words.texts.addHere} onClick={(e) => {
                  e.stopPropagation();
                  add(place, e.currentTarget);
                }}>
                <Icon name="plus" size={13} />
              </button>
            )}
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
});

export const edgeTypes = { way: WayView };

// Arrows are the heads of edges, one for each colour: an SVG marker has none of its own.
export function Arrows() {
  return (
    <svg className="wp-arrows" aria-hidden="true">
      <defs>
        {["same", "added", "removed", "selected"].map((kind) => (
          <marker key={kind} id={`wp-arrow-${kind}`} className={`is-${kind}`} viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M1 1 9 5 1 9z" />
          </marker>
        ))}
      </defs>
    </svg>
  );
}
