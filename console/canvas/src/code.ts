// The editor of an expression in a form: a condition (CEL) or a param (Liquid).

import type { CompletionResult } from "@codemirror/autocomplete";
import { Annotation, Compartment, EditorState } from "@codemirror/state";
import { EditorView, ViewPlugin, type ViewUpdate, Decoration, type DecorationSet, keymap, placeholder } from "@codemirror/view";

import { basics, showFaults } from "./codemirror.ts";
import { type Language, type Names, complete, placeOf, wordAt } from "./complete.ts";
import { spans } from "./highlight.ts";

export interface ExpressionOptions {
  language: Language;
  value: string;
  nonce: string;
  attributes: Record<string, string>; // of the element that is typed into
  placeholder: string;
  names: () => Names;
  change: (value: string) => void;
}

// Expression is the editor, as the form sees it.
export interface Expression {
  set(value: string): void;
  describe(attributes: Record<string, string>): void;
  problem(message: string): void; // "" is none
  focus(from?: number, to?: number): void;
  destroy(): void;
}

const outside = Annotation.define<boolean>();

export function expression(parent: HTMLElement, o: ExpressionOptions): Expression {
  const offer = (before: string): CompletionResult | null => {
    const found = complete(o.language, before, o.names());
    return found && found.offers.length > 0 ? { from: found.from, options: found.offers, validFor: /^\.?[\w-]*$/ } : null;
  };
  const described = new Compartment();
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: o.value,
      extensions: [
        basics(
          o.nonce,
          {
            override: [
              (c) => {
                const before = c.state.sliceDoc(0, c.pos);
                // Unasked only behind what begins a name.
                return c.explicit || /[\w.]$|\|\s*$|\{[{%]-?\s?$/.test(before) ? offer(before) : null;
              },
            ],
          },
          o.attributes,
        ),
        described.of([]),
        o.placeholder ? placeholder(o.placeholder) : [],
        coloured(o.language),
        // The browser's own keys do for the rest: CodeMirror's would be 4 KB more.
        keymap.of([{ key: "Enter", run: (v) => (v.dispatch(v.state.replaceSelection("\n"), { scrollIntoView: true, userEvent: "input" }), true) }]),
        EditorView.updateListener.of((u) => {
          if (u.docChanged && !u.transactions.some((t) => t.annotation(outside))) o.change(u.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    set(value) {
      const now = view.state.doc.toString();
      if (now !== value) view.dispatch({ changes: { from: 0, to: now.length, insert: value }, annotations: outside.of(true) });
    },
    describe: (attributes) => view.dispatch({ effects: described.reconfigure(EditorView.contentAttributes.of(attributes)) }),
    problem(message) {
      const source = view.state.doc.toString();
      const at = message ? placeOf(message, source) : -1;
      showFaults(view, at < 0 ? [] : [{ from: Math.min(at, Math.max(0, source.length - 1)), to: wordAt(source, at), message: "" }]);
    },
    focus(from = 0, to = from) {
      view.focus();
      const most = view.state.doc.length;
      view.dispatch({ selection: { anchor: Math.min(from, most), head: Math.min(to, most) } });
    },
    destroy: () => view.destroy(),
  };
}

// coloured marks what an expression is made of.
function coloured(language: Language) {
  const draw = (view: EditorView): DecorationSet =>
    Decoration.set(spans(language, view.state.doc.toString()).map((s) => Decoration.mark({ class: `tok-${s.kind}` }).range(s.from, s.to)));
  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      constructor(view: EditorView) {
        this.decorations = draw(view);
      }
      update(u: ViewUpdate): void {
        if (u.docChanged) this.decorations = draw(u.view);
      }
    },
    { decorations: (p) => p.decorations },
  );
}
