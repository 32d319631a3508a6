// What all editors of texts share: keys, history, the list of completions, problems, the look. Bundled
// apart from the canvas (code.ts, yaml.ts), and loaded only where such a text is edited.

import { autocompletion } from "@codemirror/autocomplete";
import { history, historyKeymap } from "@codemirror/commands";
import { EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType, keymap } from "@codemirror/view";

// A Fault is a problem of a part of the text.
export interface Fault {
  from: number;
  to: number;
  message: string; // shown below its line; "" where the page shows it
}

class Message extends WidgetType {
  constructor(readonly text: string) {
    super();
  }
  override eq(other: Message): boolean {
    return this.text === other.text;
  }
  toDOM(): HTMLElement {
    const e = document.createElement("div");
    e.className = "cm-fault-text";
    e.textContent = this.text;
    return e;
  }
}

const setFaults = StateEffect.define<readonly Fault[]>();

const faults = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, tr) {
    shown = shown.map(tr.changes);
    if (tr.docChanged) {
      // What was said of a line that is written anew is out of date.
      const anew: [number, number][] = [];
      tr.changes.iterChangedRanges((_from, _to, from, to) => anew.push([tr.newDoc.lineAt(from).from, tr.newDoc.lineAt(to).to]));
      shown = shown.update({ filter: (from, to) => !anew.some(([a, b]) => from <= b && to >= a) });
    }
    for (const e of tr.effects) {
      if (!e.is(setFaults)) continue;
      const doc = tr.newDoc;
      const clamp = (n: number): number => Math.max(0, Math.min(n, doc.length));
      shown = Decoration.set(
        e.value.flatMap((f) => {
          const [from, to] = [clamp(f.from), clamp(f.to)];
          const line = doc.lineAt(from);
          const marks = [];
          if (from < to) marks.push(Decoration.mark({ class: "cm-fault" }).range(from, to));
          if (f.message) {
            marks.push(Decoration.line({ class: "cm-fault-line" }).range(line.from));
            marks.push(Decoration.widget({ widget: new Message(f.message), block: true, side: 1 }).range(line.to));
          }
          return marks;
        }),
        true,
      );
    }
    return shown;
  },
  provide: (f) => EditorView.decorations.from(f),
});

// showFaults replaces the problems that are shown.
export const showFaults = (view: EditorView, all: readonly Fault[]): void => view.dispatch({ effects: setFaults.of(all) });

const look = EditorView.theme({
  "&": { fontSize: "12.5px", color: "var(--text)", backgroundColor: "var(--surface)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-line": { padding: "0 10px" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--text)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".tok-name": { color: "light-dark(#0b5c8a, #85c8f2)" },
  ".tok-string": { color: "light-dark(#0c6b41, #6fd6a3)" },
  ".tok-number, .tok-keyword": { color: "light-dark(#7a2fb8, #c9a4ff)" },
  ".tok-comment": { color: "var(--muted)", fontStyle: "italic" },
  ".tok-tag": { color: "light-dark(#8a4b00, #f0b35a)" },
  ".cm-fault": { textDecoration: "underline wavy var(--bad) 1px", textUnderlineOffset: "3px", textDecorationSkipInk: "none" },
  ".cm-fault-line": { backgroundColor: "var(--bad-soft)" },
  ".cm-fault-text": { padding: "1px 10px 3px", font: "12px/16px var(--font)", color: "var(--bad)", backgroundColor: "var(--bad-soft)", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-tooltip": { border: "1px solid var(--line)", borderRadius: "8px", backgroundColor: "var(--raised)", color: "var(--text)", boxShadow: "var(--shadow-high)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "220px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 10px", minHeight: "24px", display: "flex", alignItems: "baseline", gap: "10px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700", color: "var(--accent)" },
  ".cm-completionDetail": { marginLeft: "auto", fontStyle: "normal", fontFamily: "var(--font)", color: "var(--muted)" },
});

// basics are the extensions of every editor. nonce lets the page's policy take its style sheet.
export function basics(nonce: string, complete: Parameters<typeof autocompletion>[0], attributes: Record<string, string>): Extension {
  return [
    EditorView.cspNonce.of(nonce),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ spellcheck: "false", autocapitalize: "off", autocorrect: "off", writingsuggestions: "false", tabindex: "0", ...attributes }),
    history(),
    autocompletion({ icons: false, compareCompletions: () => 0, ...complete }), // in the order that they are offered in
    keymap.of(historyKeymap), // those of completion are in autocompletion
    EditorState.tabSize.of(2),
    faults,
    look,
  ];
}
