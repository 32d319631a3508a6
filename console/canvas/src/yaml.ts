// The page of a draft's text: its textarea becomes an editor that saves by itself, as the canvas does.
// Without this file the page is a form. What the textarea can say is listed in README.md.

import { indentWithTab, standardKeymap } from "@codemirror/commands";
import { yamlLanguage } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { type Fault, basics, showFaults } from "./codemirror.ts";
import { placeOf, wordAt } from "./complete.ts";
import type { Problem } from "./edit.ts";
import { keepCopy } from "./keep.ts";
import { type Options, loadOptions } from "./load.ts";
import { type SaveState, Saver } from "./save.ts";
import { fill, texts } from "./texts.ts";
import { completeYAML } from "./yamlcomplete.ts";
import { placeOfPath } from "./yamlpath.ts";

const colours = HighlightStyle.define([
  { tag: tags.propertyName, class: "tok-name" },
  { tag: [tags.string, tags.special(tags.string)], class: "tok-string" },
  { tag: tags.comment, class: "tok-comment" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], class: "tok-keyword" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], class: "tok-tag" },
]);

function begin(area: HTMLTextAreaElement): void {
  const data = area.dataset;
  const at = (name: string): string => data[name] ?? "";
  const t = texts(document.documentElement.lang);
  const status = document.getElementById("status")!;
  const list = document.getElementById("problems")!;
  const banner = document.getElementById("conflict")!;
  const form = area.form!;
  const etag = form.querySelector<HTMLInputElement>("[name=etag]")!;

  let options: Options | undefined;
  void loadOptions(at("options")).then((o) => (options = o));
  let state: SaveState = { is: "saved" };

  const holder = document.createElement("div");
  holder.className = "yaml";
  area.hidden = true;
  area.after(holder);
  const view = new EditorView({
    parent: holder,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        yamlLanguage,
        indentUnit.of("  "),
        syntaxHighlighting(colours),
        keymap.of([{ key: "Mod-s", run: () => (saver.now(), true) }, indentWithTab, ...standardKeymap]),
        basics(
          area.nonce ?? "",
          {
            override: [
              (c) => {
                const before = c.state.doc.lineAt(c.pos).text.slice(0, c.pos - c.state.doc.lineAt(c.pos).from);
                if (!c.explicit && !/[\w.]$|: $|\|\s*$|\{[{%]-?\s?$|[[{,] ?$/.test(before)) return null;
                const found = options && completeYAML(c.state.doc.toString(), c.pos, options);
                return found && found.offers.length > 0 ? { from: found.from, options: found.offers, validFor: /^\.?[\w-]*$/ } : null;
              },
            ],
          },
          { "aria-labelledby": "text-label", "aria-multiline": "true" },
        ),
        EditorView.updateListener.of((u) => {
          if (!u.docChanged) return;
          area.value = u.state.doc.toString();
          saver.change(area.value);
        }),
      ],
    }),
  });

  const show = (s: SaveState): void => {
    state = s;
    banner.hidden = s.is !== "conflict";
    const text = { saved: t.saved, saving: t.saving, unsaved: t.unsaved, conflict: t.unsaved, refused: "", failed: "" }[s.is];
    status.textContent = "why" in s ? fill(s.is === "refused" ? t.cannotSave : t.saveFailed, { why: s.why }) : text;
    status.className = s.is === "failed" || s.is === "refused" ? "badge bad" : "badge";
  };

  // What is wrong stands below its line, and in the list beside the text.
  const mark = (problems: readonly Problem[], of: string): void => {
    if (of !== view.state.doc.toString()) return; // the next check is of what stands there now
    const doc = view.state.doc;
    const found = problems.map((p): Fault => {
      const line = /^(?:yaml: )?line (\d+):/.exec(p.message);
      if (!p.target && line) {
        const l = doc.line(Math.min(Math.max(1, Number(line[1])), doc.lines));
        return { from: l.from, to: l.to, message: p.message };
      }
      const place = placeOfPath(of, p.target);
      const source = of.slice(place.from, place.to);
      const inside = place.exact && !source.includes("\n") ? placeOf(p.message, source) : -1;
      if (inside < 0) return { from: place.from, to: place.to, message: p.message };
      return { from: place.from + inside, to: place.from + wordAt(source, inside), message: p.message };
    });
    showFaults(view, found);
    list.replaceChildren(
      ...found.map((f, i) => {
        const item = document.createElement("li");
        const go = document.createElement("button");
        go.type = "button";
        const where = document.createElement("span");
        where.className = "mono";
        where.textContent = String(doc.lineAt(f.from).number);
        const what = document.createElement("span");
        what.textContent = [problems[i]!.target, f.message].filter(Boolean).join(": ");
        go.append(where, what);
        go.addEventListener("click", () => {
          view.dispatch({ selection: { anchor: f.from, head: f.to }, effects: EditorView.scrollIntoView(f.from, { y: "center" }) });
          view.focus();
        });
        item.append(go);
        return item;
      }),
    );
    list.hidden = found.length === 0;
    document.getElementById("no-problems")!.hidden = found.length > 0;
  };

  const saver = new Saver<string>(at("save"), at("check"), etag.value, show, mark, area.value, (text) => text, "application/yaml");
  saver.start();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    saver.now();
  });
  form.querySelector("button")!.hidden = true; // it saves by itself
  addEventListener("beforeunload", (event) => {
    if (state.is !== "saved") event.preventDefault();
  });
  show(state);

  // Somebody else has saved: theirs is loaded, mine can be kept as a journey of its own before.
  const takeTheirs = async (): Promise<void> => {
    const answer = await fetch(at("save"), { cache: "no-store" });
    if (!answer.ok) return show({ is: "failed", why: `HTTP ${answer.status}` });
    const text = await answer.text();
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }); // Undo brings mine back
    saver.reset(text, answer.headers.get("ETag") ?? "");
  };
  const [take, keep] = banner.querySelectorAll("button");
  take!.addEventListener("click", () => void takeTheirs());
  keep!.addEventListener("click", async () => {
    const kept = await keepCopy(at("keep"), area.value, "application/yaml");
    if ("why" in kept) return show({ is: "failed", why: kept.why });
    const link = document.getElementById("kept")!;
    link.hidden = false;
    const a = link.querySelector("a")!;
    a.href = kept.path;
    a.textContent = kept.name;
    await takeTheirs();
  });
}

const area = document.querySelector<HTMLTextAreaElement>("textarea[data-save]");
if (area) begin(area);
