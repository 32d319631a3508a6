// The nodes of the picture. Each is drawn again only when it or its numbers change.

import { Handle, type Node as FlowNode, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";

import { useCounts, useEntered, useShared } from "./context.ts";
import { type Node, described } from "./definition.ts";
import type { Problem } from "./edit.ts";
import type { Change, GraphNode } from "./graph.ts";
import { Icon } from "./icons.tsx";
import type { Size } from "./layout.ts";
import { fill } from "./texts.ts";
import { full, problemInWords, short, typeName } from "./words.ts";

export interface StepData extends Record<string, unknown> {
  node: Node;
  title: string;
  summary: string;
  change: Change;
  changed: string[];
  problems: Problem[];
  counted: boolean; // there are statistics
  connectable: boolean;
}

export type StepNode = FlowNode<StepData, "step">;
export type MarkNode = FlowNode<{ missing: string } & Record<string, unknown>, "start" | "end" | "missing">;
export type AnyNode = StepNode | MarkNode;

// sizeOf is how large a node is drawn; canvas.css keeps to it.
export function sizeOf(n: GraphNode, counted: boolean): Size {
  switch (n.kind) {
    case "start":
      return { width: 168, height: 42 };
    case "end":
      return { width: 64, height: 26 };
    case "missing":
      return { width: 220, height: 42 };
    case "node":
      return n.node.type === "exit" ? { width: 210, height: 54 } : { width: 276, height: counted ? 108 : 72 };
  }
}

function Handles({ source = true, target = true, connectable = false }: { source?: boolean; target?: boolean; connectable?: boolean }) {
  return (
    <>
      {target && <Handle type="target" position={Position.Top} isConnectable={connectable} />}
      {source && <Handle type="source" position={Position.Bottom} isConnectable={connectable} />}
    </>
  );
}

function Count({ n, word, title, icon, className = "" }: { n: number; word: string; title: string; icon: string; className?: string }) {
  const { lang } = useShared().words;
  return (
    <span className={`wp-count ${className} ${n === 0 ? "is-zero" : ""}`} title={fill(title, { n: full(n, lang) })}>
      <Icon name={icon} size={13} />
      <b>{short(n, lang)}</b>
      <span className="wp-count-word">{word}</span>
    </span>
  );
}

const StepView = memo(function StepView({ data, selected }: NodeProps<StepNode>) {
  const { node, title, summary, change, changed, problems, counted, connectable } = data;
  const { words } = useShared();
  const { texts } = words;
  const counts = useCounts(node.id);
  const exit = node.type === "exit";
  const classes = ["wp-step", `wp-${node.type}`, `wp-of-${described(node.type)?.colour ?? "leave"}`, `is-${change}`];
  if (selected) classes.push("is-selected");
  if (problems.length) classes.push("has-problems");
  return (
    <div className={classes.join(" ")}>
      <Handles connectable={connectable} source={!exit} />
      <div className="wp-step-head">
        <span className="wp-step-icon">
          <Icon name={node.type} size={exit ? 16 : 19} />
        </span>
        <span className="wp-step-words">
          <span className="wp-hidden">{typeName(node.type, words)}:</span>
          <span className="wp-step-title" title={title}>
            {title}
          </span>
          {!exit && (
            <span className="wp-step-summary" title={summary}>
              {summary}
            </span>
          )}
        </span>
        {node.note && (
          <span className="wp-step-note" title={node.note}>
            <Icon name="note" size={14} />
          </span>
        )}
        {exit && counted && <Count n={counts?.entered ?? 0} word="" title={texts.enteredTitle} icon="people" />}
      </div>
      {!exit && counted && (
        <div className="wp-step-counts">
          <Count n={counts?.standing ?? 0} word={texts.standing} title={texts.standingTitle} icon="people" className="wp-standing" />
          <Count n={Math.max(0, (counts?.entered ?? 0) - (counts?.standing ?? 0))} word={texts.passed} title={texts.passedTitle} icon="passed" />
          {counts && counts.failed > 0 && <Count n={counts.failed} word={texts.failed} title={texts.failedTitle} icon="missing" className="wp-failed" />}
        </div>
      )}
      {change !== "same" && (
        <span className="wp-badge" title={change === "changed" ? fill(texts.changedMembers, { members: changed.join(", ") }) : undefined}>
          {texts[change]}
        </span>
      )}
      {problems.length > 0 && (
        <span className="wp-badge wp-badge-problem" title={problems.map((p) => problemInWords(p, words.lang)).join("\n")}>
          <Icon name="missing" size={12} />
          {problems.length}
        </span>
      )}
    </div>
  );
});

const StartView = memo(function StartView() {
  const { words } = useShared();
  const entered = useEntered();
  return (
    <div className="wp-start">
      <Handles target={false} />
      <Icon name="start" size={14} />
      <span>{words.texts.start}</span>
      {entered !== undefined && (
        <b title={fill(words.texts.enrolledTitle, { n: full(entered, words.lang) })}>
          <Icon name="people" size={13} />
          {short(entered, words.lang)}
        </b>
      )}
    </div>
  );
});

const EndView = memo(function EndView() {
  return (
    <div className="wp-end">
      <Handles source={false} />
      {useShared().words.texts.end}
    </div>
  );
});

const MissingView = memo(function MissingView({ data }: NodeProps<MarkNode>) {
  return (
    <div className="wp-missing">
      <Handles source={false} />
      <Icon name="missing" size={15} />
      <span>{fill(useShared().words.texts.missingNode, { id: data.missing })}</span>
    </div>
  );
});

export const nodeTypes = { step: StepView, start: StartView, end: EndView, missing: MissingView };
