// The field of an expression: a plain text until its editor (code.ts) has been loaded, and where it
// cannot be.

import { useEffect, useId, useRef, useState } from "react";

import type { Expression } from "./code.ts";
import type { ExpressionPlace, Language } from "./complete.ts";
import { useShared } from "./context.ts";
import { Icon } from "./icons.tsx";

interface CodeProps {
  name?: string | undefined;
  label?: string | undefined; // for screen readers, where there is no name
  value: string;
  onChange: (value: string) => void;
  placeholder?: string | undefined;
  hint?: string | undefined;
  language: Language;
  event?: string | undefined; // the name of the event that it sees
  place?: ExpressionPlace | undefined;
  fault?: string | undefined;
}

export function Code({ name, label, value, onChange, placeholder = "", hint, language, event, place, fault = "" }: CodeProps) {
  const { expressions } = useShared();
  const id = useId();
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<Expression>(undefined);
  const [ready, setReady] = useState(false);
  const now = useRef({ value, onChange, expressions, event, place });
  now.current = { value, onChange, expressions, event, place };
  // What was typed comes back as value, later: only another value is one from outside.
  const typed = useRef<string[]>([]);

  const load = expressions?.load;
  useEffect(() => {
    let gone = false;
    load?.().then(
      ({ expression }) => {
        const shared = now.current.expressions;
        if (gone || !holder.current || !shared) return;
        const before = document.getElementById(id);
        typed.current = [now.current.value]; // which the editor begins with: the effect below keeps what is typed before it runs
        const caret = before instanceof HTMLTextAreaElement && before === document.activeElement ? [before.selectionStart, before.selectionEnd] : undefined;
        editor.current = expression(holder.current, {
          language,
          value: now.current.value,
          nonce: shared.nonce,
          placeholder,
          attributes: { id, ...(label ? { "aria-label": label } : { "aria-labelledby": `${id}-name` }), "aria-multiline": "true" },
          names: () => {
            const { names, properties } = now.current.expressions!;
            const { event, place } = now.current;
            return { ...names, place, event: event === undefined ? undefined : (properties[event] ?? []) };
          },
          change: (v) => {
            typed.current.push(v);
            now.current.onChange(v);
          },
        });
        setReady(true);
        if (caret) editor.current.focus(caret[0], caret[1]);
      },
      () => {}, // the plain text stays
    );
    return () => {
      gone = true;
      editor.current?.destroy();
      editor.current = undefined;
      setReady(false);
    };
  }, [load, id, language, label, placeholder]);

  useEffect(() => {
    const i = typed.current.indexOf(value);
    typed.current = typed.current.slice(i + 1);
    if (i < 0) {
      typed.current = [];
      editor.current?.set(value);
    }
  }, [value, ready]);
  useEffect(() => {
    editor.current?.problem(fault);
    editor.current?.describe(fault ? { "aria-invalid": "true", "aria-describedby": `${id}-fault` } : {});
  }, [fault, value, ready, id]);

  return (
    <div className="wp-field">
      {name && (
        <label id={`${id}-name`} htmlFor={id} onClick={() => editor.current?.focus()}>
          {name}
        </label>
      )}
      {!ready && (
        <textarea id={id} value={value} rows={2} placeholder={placeholder} spellCheck={false} className="is-code" aria-label={name ? undefined : label} aria-invalid={!!fault || undefined} aria-describedby={fault ? `${id}-fault` : undefined} onChange={(e) => onChange(e.target.value)} />
      )}
      <div ref={holder} className={`wp-code ${fault ? "is-bad" : ""}`} hidden={!ready} />
      {fault && (
        <small id={`${id}-fault`} className="wp-fault">
          <Icon name="missing" size={13} />
          {fault}
        </small>
      )}
      {hint && !fault && <small>{hint}</small>}
    </div>
  );
}
