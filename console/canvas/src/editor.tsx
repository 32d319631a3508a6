// Edits a journey: palette, menus, keys, undo, and the form of the chosen node.

import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";

import { Beside, onlyNode, useChosen } from "./app.tsx";
import { type Shared, SharedContext, useShared } from "./context.ts";
import { type Definition, type Node, type NodeType, type Slot, described, maxNodes, nodeTypes, nodesById } from "./definition.ts";
import * as edit from "./edit.ts";
import { dragType } from "./edges.tsx";
import { Flow } from "./flow.tsx";
import { NodeForm } from "./forms.tsx";
import { graph, startId } from "./graph.ts";
import { Icon } from "./icons.tsx";
import { keepCopy } from "./keep.ts";
import type { Loaded } from "./load.ts";
import type { Page } from "./main.tsx";
import type * as code from "./code.ts";
import { type SaveState, Saver } from "./save.ts";
import { Settings } from "./settings.tsx";
import { fill } from "./texts.ts";
import { type Words, inWords, placeInWords, problemInWords, slotLabel, title, typeName } from "./words.ts";

type Step = { do: "change"; change: (d: Definition) => Definition; tag?: string } | { do: "undo" } | { do: "redo" };

function reduce(h: edit.History, s: Step): edit.History {
  switch (s.do) {
    case "change":
      return edit.change(h, s.change(h.present), s.tag);
    case "undo":
      return edit.undo(h);
    case "redo":
      return edit.redo(h);
  }
}

type Menu = { x: number; y: number; button?: HTMLElement } & ({ what: "insert"; place: edit.Place } | { what: "connect"; source: string; target: string } | { what: "problems" });

// What a copy is kept as, where the browser does not let us read the clipboard.
const clipboardKey = "waypost.clipboard";

export function Editor({ page, loaded, words, reload }: { page: Page; loaded: Loaded; words: Words; reload: () => Promise<Loaded | undefined> }) {
  const t = words.texts;
  const [history, dispatch] = useReducer(reduce, loaded.definition, edit.begin);
  const definition = history.present;
  const nodes = useMemo(() => nodesById(definition), [definition]);
  const [selected, select] = useChosen(page, nodes);
  const [first] = useState(() => new URLSearchParams(location.search).get("node") ?? "");
  const [menu, setMenu] = useState<Menu>();
  const [state, setState] = useState<SaveState>({ is: "saved" });
  const [found, setFound] = useState<ReadonlyMap<string, edit.Problem[]>>(new Map());
  const [said, say] = useState("");
  const [settings, openSettings] = useState(() => new URLSearchParams(location.search).has("settings")); // the page of publishing links there
  const [kept, setKept] = useState<{ name: string; path: string }>();
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => say(""), 4000);
    return () => clearTimeout(timer);
  }, [said]);
  const closeMenu = useCallback(() => setMenu(undefined), []);

  // The definition that is stored, or was given to the saver.
  const stored = useRef(loaded.definition);
  const [saver] = useState(
    () => new Saver<Definition>(page.save, page.check, loaded.etag, setState, (p, of) => setFound(edit.problemsByNode(of, p)), loaded.definition),
  );
  useEffect(() => saver.start(), [saver]);
  useEffect(() => {
    if (definition === stored.current) return;
    stored.current = definition;
    saver.change(definition);
    page.element.dispatchEvent(new CustomEvent("definition", { bubbles: true, detail: definition }));
  }, [definition, saver, page]);

  const quick = useMemo(() => {
    const named = (field: string): string => (field === "condition" ? typeName("branch", words) : placeInWords(field, words.lang));
    return edit.quick(definition, (what, field) => fill(t[what], { field: named(field) }));
  }, [definition, t, words]);
  const problems = useMemo(() => {
    // What was found of nodes that are gone by now is over.
    const left = new Map([...found].filter(([id]) => id === "" || nodes.has(id)));
    return edit.joined(left, edit.problemsByNode(definition, quick));
  }, [definition, nodes, found, quick]);

  const listed = useMemo(() => {
    const of = (id: string): string | undefined => (nodes.has(id) ? title(nodes.get(id)!, words) : undefined);
    return [...problems].flatMap(([id, found]) => found.map((p): Listed => ({ id, text: problemInWords(p, words.lang, of(id)) })));
  }, [problems, nodes, words]);

  const change = useCallback((c: (d: Definition) => Definition, tag?: string) => dispatch({ do: "change", change: c, tag }), []);
  const g = useMemo(() => graph(definition, "slots"), [definition]);

  const insert = useCallback(
    (place: edit.Place, type: NodeType) => {
      const made = edit.insert(definition, place, type);
      setMenu(undefined);
      if (!made) return say(fill(t.tooMany, { n: maxNodes }));
      change(() => made.definition);
      select(new Set([made.id]));
    },
    [definition, change, select, t],
  );
  const load = useMemo(() => {
    let loading: Promise<typeof code> | undefined;
    return page.code ? () => (loading ??= import(page.code) as Promise<typeof code>) : undefined;
  }, [page]);
  const names = useMemo(
    () => ({ fields: loaded.options.fields, touchpoints: definition.nodes.filter((n) => n.type === "touchpoint").map((n) => n.id) }),
    [loaded, definition],
  );
  const shared = useMemo(
    (): Shared => ({
      words,
      live: undefined,
      add: (place, button) => {
        const at = button.getBoundingClientRect();
        setMenu({ what: "insert", place, x: at.left + at.width / 2, y: at.bottom + 8, button });
      },
      pick: (edge) => select(new Set([edge])),
      drop: (place, type) => insert(place, type as NodeType),
      expressions: load && { load, nonce: page.nonce, names, properties: loaded.options.properties },
    }),
    [words, insert, select, load, page, names, loaded],
  );

  // Where a step of the palette goes: behind the chosen node, into the chosen way, else to the end
  // of the main way.
  const placeHere = (): edit.Place => {
    for (const e of g.edges) if (selected.has(e.id)) return e.source === startId ? { at: "start" } : { at: "slot", source: e.source, slot: e.slots[0]! };
    let id = onlyNode(selected, nodes)?.id;
    const chosen = id !== undefined && nodes.get(id)?.type !== "exit";
    if (!chosen) id = definition.start ?? undefined;
    let place: edit.Place = { at: "start" };
    const seen = new Set<string>();
    for (let n = id === undefined ? undefined : nodes.get(id); n && n.type !== "exit" && !seen.has(n.id); n = nodes.get(edit.targetOf(definition, place))) {
      seen.add(n.id);
      const slot: Pick<Slot, "kind" | "index"> = { kind: n.type === "branch" ? "otherwise" : n.type === "split" ? "arm" : "next", index: 0 };
      place = { at: "slot", source: n.id, slot };
      if (chosen) break;
    }
    return place;
  };

  const chosenNodes = [...selected].filter((id) => nodes.has(id));
  const remove = (): void => {
    const ways = g.edges.filter((e) => selected.has(e.id) && e.slots[0]?.target);
    change((d) => {
      const cut = ways.reduce((x, e) => edit.lead(x, { at: "slot", source: e.source, slot: e.slots[0]! }, ""), d);
      return chosenNodes.length ? edit.remove(cut, chosenNodes) : cut;
    });
    select(new Set());
  };

  const copied = (): string => JSON.stringify(edit.clip(definition, chosenNodes));
  const keep = (text: string): void => {
    try {
      localStorage.setItem(clipboardKey, text);
    } catch {
      // Private windows have none; the clipboard itself is enough there.
    }
    say(fill(t.copied, { n: chosenNodes.length }));
  };
  const paste = (text: string, place?: edit.Place): void => {
    let clip: edit.Clip | undefined;
    try {
      clip = edit.readClip(JSON.parse(text));
    } catch {
      clip = undefined;
    }
    if (!clip) return say(t.nothingToPaste);
    const way = g.edges.some((e) => selected.has(e.id));
    const pasted = edit.paste(definition, clip, place ?? (way || definition.nodes.length === 0 ? placeHere() : undefined));
    if (!pasted) return say(fill(t.tooMany, { n: maxNodes }));
    change(() => pasted.definition);
    select(new Set(pasted.ids));
    say(fill(t.pasted, { n: pasted.ids.length }));
  };
  const fromClipboard = async (place?: edit.Place): Promise<void> => {
    const text = await navigator.clipboard?.readText().catch(() => "");
    paste(text?.includes('"waypost"') ? text : keptClip(), place);
  };

  // The browser's own copy and paste, wherever nothing is typed.
  const clipboard = useRef({ copied, keep, paste, remove, count: 0 });
  clipboard.current = { copied, keep, paste, remove, count: chosenNodes.length };
  useEffect(() => {
    const elsewhere = (): boolean => typing(document.activeElement) || !(document.activeElement === document.body || page.element.contains(document.activeElement));
    const copy = (e: ClipboardEvent): void => {
      const c = clipboard.current;
      if (elsewhere() || c.count === 0 || !e.clipboardData) return;
      e.preventDefault();
      const text = c.copied();
      e.clipboardData.setData("text/plain", text);
      c.keep(text);
      if (e.type === "cut") c.remove();
    };
    const put = (e: ClipboardEvent): void => {
      if (elsewhere() || !e.clipboardData) return;
      e.preventDefault();
      clipboard.current.paste(e.clipboardData.getData("text/plain"));
    };
    document.addEventListener("copy", copy);
    document.addEventListener("cut", copy);
    document.addEventListener("paste", put);
    return () => {
      document.removeEventListener("copy", copy);
      document.removeEventListener("cut", copy);
      document.removeEventListener("paste", put);
    };
  }, [page]);

  const keys = (e: KeyboardEvent): void => {
    const back = asked(e);
    // Where text is typed, the browser undoes that.
    if (back ? writing(e.target as Element) : typing(e.target as Element)) return;
    if (back) dispatch({ do: back });
    else if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "a") select(new Set(nodes.keys()));
    else if ((e.key === "Delete" || e.key === "Backspace") && selected.size) remove();
    else return;
    e.preventDefault();
  };

  // The focus goes with a step that is deleted: what is undone is asked of the page then.
  useEffect(() => {
    const undo = (e: globalThis.KeyboardEvent): void => {
      const back = asked(e);
      if (e.target !== document.body || !back) return;
      e.preventDefault();
      dispatch({ do: back });
    };
    document.addEventListener("keydown", undo);
    return () => document.removeEventListener("keydown", undo);
  }, []);

  const connect = (source: string, target: string, at: { x: number; y: number }): void => {
    const n = nodes.get(source);
    if (source === startId) change((d) => edit.lead(d, { at: "start" }, target));
    else if (n && nodes.has(target)) {
      const ways = edit.ways(n);
      if (ways.length === 1) change((d) => edit.connect(d, source, ways[0]!, target));
      else setMenu({ what: "connect", source, target, ...at });
    }
  };
  const reconnect = (id: string, target: string): void => {
    const e = g.edges.find((x) => x.id === id);
    if (!e || !nodes.has(target)) return;
    const place: edit.Place = e.source === startId ? { at: "start" } : { at: "slot", source: e.source, slot: e.slots[0]! };
    change((d) => edit.lead(d, place, target));
  };

  const node = onlyNode(selected, nodes);
  const close = (): void => select(new Set());
  useEffect(() => {
    if (node) openSettings(false);
  }, [node]);
  const show = (id: string): void => {
    select(new Set(id ? [id] : []));
    openSettings(id === "");
  };
  const openProblems = (button: HTMLElement): void => {
    const at = button.getBoundingClientRect();
    if (listed.length === 1) show(listed[0]!.id);
    else setMenu({ what: "problems", x: at.left + at.width / 2, y: at.bottom + 8, button });
  };
  const takeTheirs = async (): Promise<void> => {
    const theirs = await reload();
    if (!theirs) return;
    stored.current = theirs.definition;
    change(() => theirs.definition); // Undo brings mine back
    saver.reset(theirs.definition, theirs.etag);
  };
  const keepMine = async (): Promise<void> => {
    const copy = await keepCopy(page.keep, JSON.stringify(definition), "application/json");
    if ("why" in copy) return say(fill(t.saveFailed, { why: copy.why }));
    setKept(copy);
    await takeTheirs();
  };

  return (
    <SharedContext value={shared}>
      <div className="wp-canvas is-editing" onKeyDown={keys}>
        <Palette insert={(type) => insert(placeHere(), type)} />
        <div className="wp-work">
          <div className="wp-bar">
            <div className="wp-tools" role="toolbar" aria-label={t.steps}>
              <Tool icon="undo" name={t.undo} act={() => dispatch({ do: "undo" })} disabled={history.past.length === 0} />
              <Tool icon="redo" name={t.redo} act={() => dispatch({ do: "redo" })} disabled={history.future.length === 0} />
              <span className="wp-line" />
              <Tool
                icon="copy"
                name={t.copy}
                disabled={chosenNodes.length === 0}
                act={() => {
                  const text = copied();
                  keep(text);
                  void navigator.clipboard?.writeText(text).catch(() => {}); // localStorage has it
                }}
              />
              <Tool icon="paste" name={t.paste} act={() => void fromClipboard()} />
              <Tool icon="trash" name={t.remove} act={remove} disabled={selected.size === 0} />
              <span className="wp-line" />
              <Tool icon="settings" name={t.journeySettings} act={() => show("")} />
            </div>
            <Status words={words} state={state} problems={listed} open={openProblems} saves={page.save !== ""} />
          </div>
          <Flow graph={g} counted={false} editing problems={problems} selected={selected} select={select} first={first} connect={connect} reconnect={reconnect} />
        </div>
        {(state.is === "conflict" || state.is === "refused") && (
          <div className="wp-banner" role="alert">
            <Icon name="missing" size={16} />
            <span>{state.is === "conflict" ? t.conflict : fill(t.cannotSave, { why: "why" in state ? state.why : "" })}</span>
            <button type="button" className="wp-button" onClick={() => void takeTheirs()}>
              {t.takeTheirs}
            </button>
            {state.is === "conflict" && page.keep && (
              <button type="button" className="wp-button" onClick={() => void keepMine()}>
                {t.keepMine}
              </button>
            )}
          </div>
        )}
        {kept && (
          <div className="wp-banner is-good" role="status">
            <Icon name="check" size={16} />
            <span>
              {t.kept} <a href={kept.path}>{kept.name}</a>
            </span>
            <button type="button" className="wp-tool" aria-label={t.close} title={t.close} onClick={() => setKept(undefined)}>
              <Icon name="close" size={16} />
            </button>
          </div>
        )}
        {!node && settings && (
          <Beside page={page}>
            <Settings
              definition={definition}
              options={loaded.options}
              problems={problems.get("") ?? []}
              change={(d, field) => change(() => d, `journey ${field}`)}
              close={() => openSettings(false)}
            />
          </Beside>
        )}
        {node && (
          <Beside page={page}>
            <NodeForm
              key={node.id}
              definition={definition}
              node={node}
              options={loaded.options}
              problems={problems.get(node.id) ?? []}
              change={(n, field) => change((d) => edit.update(d, n.id, n), field && `${n.id} ${field}`)}
              rename={(id) => {
                change((d) => edit.update(d, node.id, { ...node, id }));
                select(new Set([id]));
              }}
              remove={remove}
              close={close}
            />
          </Beside>
        )}
        {menu && (
          <Popup menu={menu} close={closeMenu}>
            {menu.what === "problems" &&
              listed.map((p, i) => (
                <MenuItem key={i} act={() => show(p.id)} close={closeMenu}>
                  {p.text}
                </MenuItem>
              ))}
            {menu.what === "insert"
              ? nodeTypes.map((type) => (
                  <button key={type} type="button" role="menuitem" className={`wp-menu-item wp-${type} wp-of-${described(type)!.colour}`} onClick={() => insert(menu.place, type)}>
                    <TypeName type={type} hint />
                  </button>
                ))
              : menu.what === "connect" && edit.ways(nodes.get(menu.source)!).map((s, i) => (
                  <MenuItem key={i} act={() => change((d) => edit.connect(d, menu.source, s, menu.target))} close={closeMenu}>
                    {wayName(nodes.get(menu.source)!, s, words)}
                  </MenuItem>
                ))}
            {menu.what === "insert" && keptClip() && (
              <MenuItem act={() => void fromClipboard(menu.place)} close={closeMenu}>
                <span className="wp-step-icon wp-of-leave">
                  <Icon name="paste" size={17} />
                </span>
                {t.paste}
              </MenuItem>
            )}
          </Popup>
        )}
        <div className="wp-said" role="status">
          {said}
        </div>
      </div>
    </SharedContext>
  );
}

function keptClip(): string {
  try {
    return localStorage.getItem(clipboardKey) ?? "";
  } catch {
    return "";
  }
}

// asked is what keys ask for: undo by Ctrl+Z, redo by Ctrl+Y or Ctrl+Shift+Z.
function asked(e: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey">): "undo" | "redo" | undefined {
  if (!e.ctrlKey && !e.metaKey) return undefined;
  const key = e.key.toLowerCase();
  if (key === "y") return "redo";
  return key === "z" ? (e.shiftKey ? "redo" : "undo") : undefined;
}

const typing = (e: Element | null): boolean => !!e?.closest("input, textarea, select, [contenteditable]");
const writing = (e: Element): boolean => typing(e) && !e.matches("select, [type=checkbox], [type=radio]");

function wayName(n: Node, s: Slot, words: Words): string {
  const t = words.texts;
  if (s.kind === "event" && s.index >= (n.events?.length ?? 0)) return t.newEvent;
  if (s.kind === "case" && s.index >= (n.cases?.length ?? 0)) return t.newCase;
  if (s.kind === "arm" && s.index >= (n.arms?.length ?? 0)) return t.newArm;
  return slotLabel(n, s, words) || (s.kind === "next" ? t.next : s.kind);
}

function TypeName({ type, hint = false }: { type: NodeType; hint?: boolean }) {
  const { words } = useShared();
  return (
    <>
      <span className="wp-step-icon">
        <Icon name={type} size={17} />
      </span>
      <span className="wp-type">
        <b>{typeName(type, words)}</b>
        {hint && <small>{inWords(described(type)!.hint, words.lang)}</small>}
      </span>
    </>
  );
}

// Palette has all types of nodes: a click inserts one, and they can be dragged onto the "+" of a way.
function Palette({ insert }: { insert: (type: NodeType) => void }) {
  const { texts, lang } = useShared().words;
  return (
    <nav className="wp-palette" aria-label={texts.addStep}>
      <h2>{texts.addStep}</h2>
      {nodeTypes.map((type) => (
        <button
          key={type}
          type="button"
          className={`wp-palette-item wp-${type} wp-of-${described(type)!.colour}`}
          title={inWords(described(type)!.hint, lang)}
          draggable
          onDragStart={(e) => {
            e.dataTransfer.setData(dragType, type);
            e.dataTransfer.effectAllowed = "copy";
          }}
          onClick={() => insert(type)}
        >
          <TypeName type={type} />
        </button>
      ))}
    </nav>
  );
}

// Listed is a problem in words, with the id of the step that it is of; "" is the journey.
interface Listed {
  id: string;
  text: string;
}

// Status tells what is stored, and opens what keeps it from being published.
function Status({ words, state, problems, open, saves }: { words: Words; state: SaveState; problems: readonly Listed[]; open: (button: HTMLElement) => void; saves: boolean }) {
  const t = words.texts;
  const n = problems.length;
  const text = { saved: t.saved, saving: t.saving, unsaved: t.unsaved, conflict: t.unsaved, refused: t.unsaved, failed: "why" in state ? fill(t.saveFailed, { why: state.why }) : "" }[state.is];
  return (
    <div className="wp-status" role="status">
      {n === 0 ? (
        <span className="wp-chip is-good">
          <Icon name="check" size={13} />
          {t.noProblems}
        </span>
      ) : (
        <button type="button" className="wp-chip is-warning" title={problems.map((p) => p.text).join("\n")} onClick={(e) => open(e.currentTarget)}>
          <Icon name="missing" size={13} />
          {n === 1 ? t.problems1 : fill(t.problems, { n })}
        </button>
      )}
      {saves && (
        <span className={`wp-chip ${state.is === "failed" ? "is-bad" : ""}`} title={state.is === "failed" ? text : undefined}>
          {text}
        </span>
      )}
    </div>
  );
}

// Popup is a menu: arrow keys go through it, Escape and a click elsewhere close it.
function Popup({ menu, close, children }: { menu: Menu; close: () => void; children: React.ReactNode }) {
  const { texts } = useShared().words;
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState({ left: menu.x, top: menu.y });
  useEffect(() => {
    const b = box.current!;
    const { width, height } = b.getBoundingClientRect();
    setAt({ left: Math.max(8, Math.min(menu.x - width / 2, innerWidth - width - 8)), top: Math.max(8, Math.min(menu.y, innerHeight - height - 8)) });
    b.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const elsewhere = (e: Event): void => {
      if (!b.contains(e.target as globalThis.Node)) close();
    };
    document.addEventListener("pointerdown", elsewhere, true);
    return () => document.removeEventListener("pointerdown", elsewhere, true);
  }, [menu, close]);
  const keys = (e: KeyboardEvent): void => {
    const items = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const i = items.indexOf(document.activeElement as HTMLElement);
    if (e.key === "Escape" || e.key === "Tab") {
      close();
      menu.button?.focus();
    } else if (e.key === "ArrowDown") items[(i + 1) % items.length]?.focus();
    else if (e.key === "ArrowUp") items[(i - 1 + items.length) % items.length]?.focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const name = { insert: texts.addStep, connect: texts.connectAs, problems: texts.problemsTitle }[menu.what];
  return (
    <div className="wp-menu" role="menu" aria-label={name} ref={box} style={at} onKeyDown={keys}>
      <h2>{name}</h2>
      {children}
    </div>
  );
}

// MenuItem closes the menu that it is in, and acts.
function MenuItem({ act, close, children }: { act: () => void; close: () => void; children: ReactNode }) {
  return (
    <button
      type="button"
      role="menuitem"
      className="wp-menu-item"
      onClick={() => {
        close();
        act();
      }}
    >
      {children}
    </button>
  );
}

function Tool({ icon, name, act, disabled = false }: { icon: string; name: string; act: () => void; disabled?: boolean }) {
  return (
    <button type="button" className="wp-tool" aria-label={name} title={name} onClick={act} disabled={disabled}>
      <Icon name={icon} size={16} />
    </button>
  );
}
