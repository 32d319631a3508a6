// Loads what the page names, and shows it: to look at, to compare, or to edit.

import { Panel } from "@xyflow/react";
import { type Dispatch, type SetStateAction, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { createPortal } from "react-dom";

import { type Shared, SharedContext } from "./context.ts";
import { type Node, nodesById } from "./definition.ts";
import { Editor } from "./editor.tsx";
import { Flow } from "./flow.tsx";
import { type Graph, compare, graph } from "./graph.ts";
import { Live } from "./live.ts";
import { type Loaded, load } from "./load.ts";
import type { Page } from "./main.tsx";
import { NodePanel } from "./panel.tsx";
import { type Words, title } from "./words.ts";

export function App({ page }: { page: Page }) {
  const [loaded, setLoaded] = useState<Loaded>();
  const [failed, setFailed] = useState<string>();
  const reload = useCallback(async () => {
    setFailed(undefined);
    try {
      const l = await load(page);
      setLoaded(l);
      return l;
    } catch (e) {
      setFailed(e instanceof Error ? e.message : String(e));
      return undefined;
    }
  }, [page]);
  useEffect(() => void reload(), [reload]);

  const options = loaded?.options;
  const words = useMemo(
    (): Words => ({
      lang: page.lang,
      texts: page.texts,
      names: new Map([...(options?.webhooks ?? []), ...(options?.journeys ?? []), ...(options?.segments ?? [])].map((o) => [o.id, o.name])),
    }),
    [page, options],
  );

  if (failed !== undefined && !loaded) {
    return (
      <div className="wp-canvas wp-message" role="alert">
        <p>
          {page.texts.loadFailed} <small>{failed}</small>
        </p>
        <button type="button" className="wp-button" onClick={() => void reload()}>
          {page.texts.tryAgain}
        </button>
      </div>
    );
  }
  if (!loaded) {
    return (
      <div className="wp-canvas wp-message" role="status">
        {page.texts.loading}
      </div>
    );
  }
  if (page.edit) return <Editor page={page} loaded={loaded} words={words} reload={reload} />;
  return <Viewer page={page} loaded={loaded} words={words} />;
}

function Viewer({ page, loaded, words }: { page: Page; loaded: Loaded; words: Words }) {
  const { definition, older } = loaded;
  const live = useMemo(() => (page.statistics ? new Live(page.statistics) : undefined), [page]);
  useEffect(() => live?.start(), [live]);
  const shared = useMemo((): Shared => ({ words, live, add: undefined, pick: undefined, drop: undefined }), [words, live]);
  const g = useMemo(() => (older ? compare(older, definition) : graph(definition, "ways")), [older, definition]);
  const nodes = useMemo(() => new Map([...(older ? nodesById(older) : []), ...nodesById(definition)]), [older, definition]);
  const [selected, select] = useChosen(page, nodes);
  const [first] = useState(() => new URLSearchParams(location.search).get("node") ?? "");
  const node = onlyNode(selected, nodes);
  const named = (id: string): string => {
    const n = nodes.get(id);
    return n ? title(n, words) : id;
  };
  return (
    <SharedContext value={shared}>
      <div className="wp-canvas">
        <Flow
          graph={g}
          counted={!!live}
          editing={false}
          problems={noProblems}
          selected={selected}
          select={select}
          first={first}
          connect={() => {}}
          reconnect={() => {}}
        >
          {older && <Legend g={g} words={words} />}
          {definition.nodes.length === 0 && (
            <Panel position="top-left">
              <div className="wp-chip">{words.texts.empty}</div>
            </Panel>
          )}
        </Flow>
        {node && (
          <Beside page={page}>
            <NodePanel key={node.id} node={node} named={named} links={page.links} close={() => select(new Set())} choose={(id) => select(new Set([id]))} />
          </Beside>
        )}
      </div>
    </SharedContext>
  );
}

// Legend counts what two versions differ in.
function Legend({ g, words }: { g: Graph; words: Words }) {
  const t = words.texts;
  const count = (change: string): number => g.nodes.filter((n) => n.kind === "node" && n.change === change).length;
  const changes = (["added", "changed", "removed"] as const).filter((c) => count(c) > 0);
  const same = changes.length === 0 && g.edges.every((e) => e.change === "same");
  return (
    <Panel position="top-left">
      <div className="wp-status">
        {changes.map((c) => (
          <span key={c} className={`wp-chip ${{ added: "is-good", changed: "is-warning", removed: "is-bad" }[c]}`}>
            {t[c]} <b>{count(c)}</b>
          </span>
        ))}
        {same && <span className="wp-chip">{t.compareSame}</span>}
      </div>
    </Panel>
  );
}

const noProblems = new Map<string, never[]>();

// onlyNode is the chosen node, if it is one alone.
export function onlyNode(selected: ReadonlySet<string>, nodes: ReadonlyMap<string, Node>): Node | undefined {
  const [id] = selected;
  return selected.size === 1 && id !== undefined ? nodes.get(id) : undefined;
}

// useChosen holds what is chosen. The address names a node that is chosen alone (?node=), and the
// canvas tells the page of it by the event node, whose detail is {id, node}; id is null for none.
export function useChosen(page: Page, nodes: ReadonlyMap<string, Node>): [ReadonlySet<string>, Dispatch<SetStateAction<ReadonlySet<string>>>] {
  const [selected, select] = useState<ReadonlySet<string>>(() => {
    const named = new URLSearchParams(location.search).get("node");
    return new Set(named && nodes.has(named) ? [named] : []);
  });
  const id = onlyNode(selected, nodes)?.id;
  const announced = useRef<string>(undefined);
  useEffect(() => {
    if (page.panel) page.panel.hidden = id === undefined;
    if (announced.current === id) return;
    announced.current = id;
    const url = new URL(location.href);
    if ((url.searchParams.get("node") ?? undefined) !== id) {
      if (id === undefined) url.searchParams.delete("node");
      else url.searchParams.set("node", id);
      history.replaceState(history.state, "", url);
    }
    page.element.dispatchEvent(new CustomEvent("node", { bubbles: true, detail: { id: id ?? null, node: id === undefined ? null : nodes.get(id) } }));
  }, [page, nodes, id]);
  return [selected, select];
}

// Beside shows its children in the page's panel, or over the right side of the picture if it has none.
export function Beside({ page, children }: { page: Page; children: React.ReactNode }) {
  return page.panel ? createPortal(<div className="wp-canvas wp-beside">{children}</div>, page.panel) : <aside className="wp-aside">{children}</aside>;
}
