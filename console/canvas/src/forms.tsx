// The form of each type of node: its members as gateway/openapi.yaml has them.

import { type ReactNode, createContext, use, useEffect, useId, useState } from "react";

import { Code } from "./codefield.tsx";
import type { ExpressionPlace, Language } from "./complete.ts";
import { useShared } from "./context.ts";
import { type Definition, type Member, type Node, type Param, type Slot, described, maxArms, maxAwaited, maxCases, slots, tidy, weekdays, withSlot } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { Icon } from "./icons.tsx";
import type { Options } from "./load.ts";
import { PanelHead, Problems } from "./panel.tsx";
import { paramOf, paramText, valueOf } from "./param.ts";
import { type Texts, fill } from "./texts.ts";
import { armLetter, armShare, dayName, inWords, placeInWords, title } from "./words.ts";

interface FormProps {
  definition: Definition;
  node: Node;
  options: Options;
  problems: readonly Problem[];
  // change stores the node; changes with one field are one step of undo.
  change: (node: Node, field: string) => void;
  rename: (id: string) => void;
  remove: () => void;
  close: () => void;
}

// Faults are the problems of the node, by their path within it.
const Faults = createContext<ReadonlyMap<string, string>>(new Map());

// Those of conditions and params stand at their fields.
const atField = /^(when|cases\[\d+\]\.when|params\..+)$/;

export function NodeForm(props: FormProps) {
  const { node, problems, change, remove, close } = props;
  const faults = new Map(problems.filter((p) => atField.test(p.target)).map((p) => [p.target, p.message]));
  const { words } = useShared();
  const t = words.texts;
  const text = (field: "label" | "note") => ({ value: node[field] ?? "", onChange: (v: string) => change(tidy({ ...node, [field]: v }), field) });
  return (
    <section className="wp-panel wp-form" aria-label={title(node, words)}>
      <PanelHead node={node} close={close} />
      <div className="wp-panel-body">
        <Problems problems={problems.filter((p) => !atField.test(p.target))} />
        <Text name={t.label} {...text("label")} placeholder={node.id} maxLength={100} />
        <Faults value={faults}>
          <Fields {...props} />
        </Faults>
        <Text name={t.note} {...text("note")} lines={2} maxLength={2000} />
        <Id {...props} />
      </div>
      <footer className="wp-panel-foot">
        <button type="button" className="wp-button is-danger" onClick={remove}>
          <Icon name="trash" size={15} />
          {t.remove}
        </button>
      </footer>
    </section>
  );
}

function Fields(props: FormProps) {
  const { node, change, options } = props;
  const { words } = useShared();
  const t = words.texts;
  const set = (field: keyof Node, value: unknown): void => change(tidy({ ...node, [field]: value }), field);
  const text = (field: "for" | "event" | "when" | "timeout" | "time" | "timezone" | "lead" | "offset") => ({
    value: node[field] ?? "",
    onChange: (v: string) => set(field, v),
  });
  const fields = ["birthday", "createdAt", "updatedAt", ...options.fields.map((f) => `customFields.${f}`)];
  switch (node.type) {
    case "waitUntil":
      return (
        <>
          <fieldset className="wp-choice">
            <legend>{t.waitKind}</legend>
            {[t.waitTime, t.waitDate].map((name, i) => (
              <label key={name}>
                <input
                  type="radio"
                  checked={(node.lead !== undefined && node.lead !== null) === (i === 1)}
                  onChange={() => change(i === 1 ? { ...node, lead: "birthday" } : tidy({ ...node, lead: undefined, offset: undefined, onMissed: undefined }), "lead kind")}
                />
                <span>{name}</span>
              </label>
            ))}
          </fieldset>
          {node.lead !== undefined && node.lead !== null && (
            <>
              <Text name={t.lead} {...text("lead")} onChange={(v) => change({ ...node, lead: v }, "lead")} list={fields} />
              <Text name={t.offset} {...text("offset")} hint={t.offsetHint} />
            </>
          )}
          <Text name={t.time} {...text("time")} type="time" />
          <fieldset className="wp-days">
            <legend>{t.weekdays}</legend>
            {weekdays.map((d) => {
              const days = node.weekdays ?? [];
              const on = days.includes(d);
              const next = weekdays.filter((x) => (x === d ? !on : days.includes(x)));
              return (
                <label key={d}>
                  <input type="checkbox" checked={on} onChange={() => set("weekdays", next.length ? next : undefined)} />
                  <span>{dayName(d, words.lang)}</span>
                </label>
              );
            })}
          </fieldset>
          <Text name={t.timezone} {...text("timezone")} placeholder={t.timezoneHint} list={options.timezones} />
          <Way {...props} kind="next" name={t.next} />
          {node.lead && <Way {...props} kind="onMissed" name={t.onMissedField} optional />}
        </>
      );
    case "waitForEvent": {
      const events = node.events ?? [];
      const several = events.length > 0;
      const put = (next: typeof events, field: string): void => change({ ...node, events: next }, field);
      // From one event to several and back, with the first of them kept.
      const turn = (): void => {
        const { event, when, next, events: _, ...rest } = node;
        change(several ? tidy({ ...rest, ...events[0] }) : { ...rest, events: [tidy({ event, when, next }), {}] }, "");
      };
      return (
        <>
          <label className="wp-check">
            <input type="checkbox" checked={several} onChange={turn} />
            <span>{t.several}</span>
          </label>
          {several ? (
            <fieldset className="wp-list">
              <legend>{t.events}</legend>
              {events.map((e, i) => (
                <div className="wp-list-item" key={i}>
                  <Text name={`${i + 1}`} label={`${t.event} ${i + 1}`} value={e.event ?? ""} onChange={(v) => put(events.map((x, j) => (j === i ? tidy({ ...x, event: v }) : x)), `event ${i}`)} list={options.events} />
                  <Text name={t.when} value={e.when ?? ""} onChange={(v) => put(events.map((x, j) => (j === i ? tidy({ ...x, when: v }) : x)), `event when ${i}`)} placeholder={t.whenHint} language="cel" target={`events[${i}].when`} event={e.event ?? ""} />
                  <div className="wp-row">
                    <Way {...props} kind="event" index={i} name={t.goesTo} inline />
                    <Tool icon="up" name={t.up} disabled={i === 0} act={() => put(events.map((x, j) => (j === i - 1 ? events[i]! : j === i ? events[i - 1]! : x)), "")} />
                    <Tool icon="trash" name={t.remove} disabled={events.length === 1} act={() => put(events.filter((_, j) => j !== i), "")} />
                  </div>
                </div>
              ))}
              <Add name={t.addEvent} act={() => put([...events, {}], "")} disabled={events.length >= maxAwaited} />
            </fieldset>
          ) : (
            <>
              <Text name={t.event} {...text("event")} list={options.events} />
              <Text name={t.when} {...text("when")} placeholder={t.whenHint} language="cel" target="when" event={node.event ?? ""} />
            </>
          )}
          <Text name={t.timeout} {...text("timeout")} hint={t.durationHint} />
          <label className="wp-check">
            <input type="checkbox" checked={node.since === "enrollment"} onChange={(e) => set("since", e.target.checked ? "enrollment" : undefined)} />
            <span>{t.since}</span>
          </label>
          {!several && <Way {...props} kind="next" name={t.next} />}
          <Way {...props} kind="onTimeout" name={t.onTimeoutField} optional={!several} />
        </>
      );
    }
    case "branch": {
      const cases = node.cases ?? [];
      const put = (next: typeof cases, field: string): void => change({ ...node, cases: next }, field);
      return (
        <>
          <fieldset className="wp-list">
            <legend>{t.cases}</legend>
            {cases.map((c, i) => (
              <div className="wp-list-item" key={i}>
                <Text name={`${i + 1}`} value={c.when ?? ""} onChange={(v) => put(cases.map((x, j) => (j === i ? tidy({ ...x, when: v }) : x)), `case ${i}`)} placeholder={t.caseHint} language="cel" target={`cases[${i}].when`} />
                <div className="wp-row">
                  <Way {...props} kind="case" index={i} name={t.goesTo} inline />
                  <Tool icon="up" name={t.up} disabled={i === 0} act={() => put(cases.map((x, j) => (j === i - 1 ? cases[i]! : j === i ? cases[i - 1]! : x)), "")} />
                  <Tool icon="trash" name={t.remove} disabled={cases.length === 1} act={() => put(cases.filter((_, j) => j !== i), "")} />
                </div>
              </div>
            ))}
            <Add name={t.addCase} act={() => put([...cases, {}], "")} disabled={cases.length >= maxCases} />
          </fieldset>
          <Way {...props} kind="otherwise" name={placeInWords("otherwise", words.lang)} />
        </>
      );
    }
    case "split": {
      const arms = node.arms ?? [];
      const put = (next: typeof arms, field: string): void => change({ ...node, arms: next }, field);
      return (
        <>
          <fieldset className="wp-list">
            <legend>{t.arms}</legend>
            {arms.map((a, i) => (
              <div className="wp-list-item" key={i}>
                <div className="wp-row">
                  <Text
                    name={`${armLetter(i)} · ${armShare(node, i, words.lang)}`}
                    label={t.weight}
                    type="number"
                    value={String(a.weight ?? "")}
                    onChange={(v) => put(arms.map((x, j) => (j === i ? { ...x, weight: v ? Math.trunc(Number(v)) : null } : x)), `arm ${i}`)}
                  />
                  <Way {...props} kind="arm" index={i} name={t.goesTo} />
                  <Tool icon="trash" name={t.remove} disabled={arms.length <= 2} act={() => put(arms.filter((_, j) => j !== i), "")} />
                </div>
              </div>
            ))}
            <Add name={t.addArm} act={() => put([...arms, { weight: 50 }], "")} disabled={arms.length >= maxArms} />
          </fieldset>
          <Winner {...props} />
        </>
      );
    }
    default:
      return described(node.type)?.members.map((m) => <Row key={m.name} {...props} member={m} />);
  }
}

// Row is the field of a member, by its kind.
function Row({ member: m, ...props }: FormProps & { member: Member }) {
  const { node, change, options } = props;
  const { words } = useShared();
  const t = words.texts;
  const name = m.label ? inWords(m.label, words.lang) : placeInWords(m.name, words.lang);
  const value = node[m.name as keyof Node];
  const set = (v: unknown): void => change(tidy({ ...node, [m.name]: v }), m.name);
  const text = { name, value: typeof value === "string" ? value : "", onChange: set };
  switch (m.kind) {
    case "webhook":
      return <Pick {...text} items={options.webhooks} />;
    case "journey":
      return <Pick {...text} items={options.journeys} />;
    case "duration":
      return <Text {...text} hint={t.durationHint} />;
    case "event":
      return <Text {...text} list={options.events} />;
    case "condition":
      return <Text {...text} placeholder={t.caseHint} language="cel" target={m.name} />;
    case "clock":
      return <Text {...text} type="time" />;
    case "zone":
      return <Text {...text} placeholder={t.timezoneHint} list={options.timezones} />;
    case "templates":
      return <Params member={m.name} params={(value ?? {}) as Record<string, Param>} change={(p) => set(m.required || Object.keys(p).length ? p : undefined)} key={node.id} title={name} {...templatesOf(m.name, t, options)} />;
    case "way":
      return <Way {...props} kind={m.name as Slot["kind"]} name={name} optional={!!(m.else || m.with)} />;
    default:
      return <Text {...text} />;
  }
}

// templatesOf is what a list of templates says of its names, beside its title.
function templatesOf(member: string, t: Texts, options: Options): Partial<ParamsProps> {
  if (member === "set") return { name: t.field, add: t.addField, list: options.fields.map((f) => `customFields.${f}`), typed: true };
  if (member === "properties") return { add: t.addProperty, typed: true };
  return {};
}

// Winner says when a split compares its arms by the journey's goal: after a time, or after so many leads.
function Winner({ definition, node, change }: FormProps) {
  const t = useShared().words.texts;
  const { winner } = node;
  const put = (next: Node["winner"], field: string): void => change(tidy({ ...node, winner: next }), field);
  const byLeads = !!winner && winner.leads !== undefined;
  return (
    <fieldset className="wp-group">
      <legend>{t.winner}</legend>
      <label className="wp-check">
        <input type="checkbox" checked={!!winner} onChange={(e) => put(e.target.checked ? { by: "goal", after: "P7D" } : undefined, "winner")} />
        <span>{t.winnerOn}</span>
      </label>
      {winner && (
        <>
          <Pick
            name={t.compared}
            value={byLeads ? "leads" : "after"}
            required
            onChange={(by) => put(by === "leads" ? { by: "goal", leads: 1000 } : { by: "goal", after: "P7D" }, "winner")}
            items={[
              { id: "after", name: t.afterTime },
              { id: "leads", name: t.afterLeads },
            ]}
          />
          {byLeads ? (
            <Text name={t.winnerLeads} type="number" max={10_000_000} value={String(winner.leads ?? "")} onChange={(v) => put({ ...winner, leads: v ? Math.trunc(Number(v)) : null }, "winner.leads")} />
          ) : (
            <Text name={t.winnerAfter} value={winner.after ?? ""} onChange={(after) => put({ ...winner, after }, "winner.after")} hint={t.durationHint} />
          )}
          {!definition.goal && (
            <div className="wp-field">
              <small className="wp-fault">
                <Icon name="missing" size={13} />
                {t.winnerGoal}
              </small>
            </div>
          )}
        </>
      )}
    </fieldset>
  );
}

// Id changes only when the field is left: each letter would be another node.
function Id({ definition, node, rename }: FormProps) {
  const { texts } = useShared().words;
  const [id, setId] = useState(node.id);
  useEffect(() => setId(node.id), [node.id]);
  const bad = !/^[A-Za-z0-9_-]{1,64}$/.test(id) || (id !== node.id && definition.nodes.some((n) => n.id === id));
  return <Text name={texts.id} value={id} onChange={setId} bad={bad} code maxLength={64} onBlur={() => (bad ? setId(node.id) : id !== node.id && rename(id))} />;
}

interface TextProps {
  name?: string; // none: label says it
  label?: string; // for screen readers, where the name says too little
  value: string;
  onChange: (value: string) => void;
  onBlur?: () => void;
  placeholder?: string;
  hint?: string;
  type?: "text" | "time" | "number";
  max?: number; // of a number
  list?: readonly string[];
  lines?: number;
  maxLength?: number;
  code?: boolean;
  bad?: boolean;
  language?: Language; // of an expression
  target?: string; // its path within the node
  event?: string; // it sees an event of this name
  place?: ExpressionPlace; // of an expression that belongs to no node
}

export function Text({ name, label, value, onChange, onBlur, placeholder, hint, type = "text", max = 10_000, list, lines, maxLength, code, bad, language, target = "", event, place }: TextProps) {
  const id = useId();
  const fault = use(Faults).get(target);
  if (language) return <Code name={name} label={label} value={value} onChange={onChange} placeholder={placeholder} hint={hint} language={language} event={event} place={place} fault={fault} />;
  const common = {
    id,
    value,
    placeholder,
    maxLength,
    onBlur,
    spellCheck: !code,
    className: code ? "is-code" : undefined,
    "aria-invalid": bad || undefined,
    "aria-label": label,
    "aria-describedby": hint ? `${id}-hint` : undefined,
  };
  return (
    <div className="wp-field">
      {name && <label htmlFor={id}>{name}</label>}
      {lines ? (
        <textarea {...common} rows={lines} onChange={(e) => onChange(e.target.value)} />
      ) : (
        <input {...common} type={type} min={type === "number" ? 1 : undefined} max={type === "number" ? max : undefined} list={list?.length ? `${id}-list` : undefined} autoComplete="off" onChange={(e) => onChange(e.target.value)} />
      )}
      {list && list.length > 0 && (
        <datalist id={`${id}-list`}>
          {list.map((v) => (
            <option key={v} value={v} />
          ))}
        </datalist>
      )}
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  );
}

// Pick chooses from a list; without one, the id is typed.
export function Pick({ name, value, onChange, items, required = false }: { name: string; value: string; onChange: (v: string) => void; items: readonly { id: string; name: string }[]; required?: boolean }) {
  const { texts } = useShared().words;
  const id = useId();
  if (items.length === 0) return <Text name={name} value={value} onChange={onChange} code />;
  return (
    <div className="wp-field">
      <label htmlFor={id}>{name}</label>
      <select id={id} value={value} onChange={(e) => onChange(e.target.value)}>
        {!required && <option value="">{texts.choose}</option>}
        {value && !items.some((i) => i.id === value) && <option value={value}>{fill(texts.notListed, { id: value })}</option>}
        {items.map((i) => (
          <option key={i.id} value={i.id}>
            {i.name}
          </option>
        ))}
      </select>
    </div>
  );
}

// Way chooses the node that comes next. An optional way that is not set goes on like next.
function Way({ definition, node, change, kind, index = 0, name, optional = false, inline = false }: FormProps & { kind: Slot["kind"]; index?: number; name: string; optional?: boolean; inline?: boolean }) {
  const { words } = useShared();
  const id = useId();
  const target = slots(node).find((s) => s.kind === kind && s.index === index)?.target ?? "";
  return (
    <div className={`wp-field ${inline ? "is-inline" : ""}`}>
      <label htmlFor={id}>{name}</label>
      <select id={id} value={target} onChange={(e) => change(withSlot(node, { kind, index }, e.target.value), "")}>
        <option value="">{optional ? words.texts.asNext : words.texts.theEnd}</option>
        {target && !definition.nodes.some((n) => n.id === target) && <option value={target}>{fill(words.texts.notListed, { id: target })}</option>}
        {definition.nodes
          .filter((n) => n.id !== node.id || n.id === target)
          .map((n) => (
            <option key={n.id} value={n.id}>
              {n.label ? `${n.label} (${n.id})` : title(n, words)}
            </option>
          ))}
      </select>
    </div>
  );
}

interface ParamsProps {
  params: Record<string, Param>;
  change: (params: Record<string, Param>) => void;
  member?: string; // of the node
  title?: string;
  name?: string; // what stands where a name is missing
  add?: string;
  list?: readonly string[]; // names to choose from
  typed?: boolean; // what looks like a number is one
}

function Params({ params, change, member = "params", title, name: hint, add, list, typed }: ParamsProps) {
  const { texts } = useShared().words;
  const id = useId();
  const [rows, setRows] = useState<[string, Param][]>(() => Object.entries(params));
  // Rows without a name, or with one that stands above, are not stored yet.
  const stored = (r: [string, Param][]): Record<string, Param> => Object.fromEntries(r.filter(([name], i) => name && r.findIndex(([n]) => n === name) === i));
  const outside = JSON.stringify(params);
  useEffect(() => {
    setRows((r) => (JSON.stringify(stored(r)) === outside ? r : Object.entries(params)));
  }, [outside]);
  const put = (next: [string, Param][]): void => {
    setRows(next);
    change(stored(next));
  };
  return (
    <fieldset className="wp-list">
      <legend>{title ?? texts.params}</legend>
      {member === "params" && rows.length === 0 && (
        <div className="wp-field">
          <small>{texts.paramsHint}</small>
        </div>
      )}
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((v) => (
            <option key={v} value={v} />
          ))}
        </datalist>
      )}
      {rows.map(([name, value], i) => (
        <div className="wp-param" key={i}>
          <input aria-label={texts.paramName} placeholder={hint ?? texts.paramName} value={name} maxLength={typed ? 77 : 64} list={list ? `${id}-list` : undefined} className="is-code" spellCheck={false} onChange={(e) => put(rows.map((r, j) => (j === i ? [e.target.value, r[1]] : r)))} />
          <Tool icon="trash" name={texts.remove} act={() => put(rows.filter((_, j) => j !== i))} />
          <Text label={`${name}: ${texts.paramValue}`} placeholder={texts.paramValue} value={paramText(value)} language="liquid" target={`${member}.${name}`} onChange={(v) => put(rows.map((r, j) => (j === i ? [r[0], typed ? valueOf(v) : paramOf(v, value)] : r)))} />
        </div>
      ))}
      <Add name={add ?? texts.addParam} act={() => setRows([...rows, ["", ""]])} disabled={rows.length >= 64} />
    </fieldset>
  );
}

export function Tool({ icon, name, act, disabled = false }: { icon: string; name: string; act: () => void; disabled?: boolean }): ReactNode {
  return (
    <button type="button" className="wp-tool" aria-label={name} title={name} onClick={act} disabled={disabled}>
      <Icon name={icon} size={15} />
    </button>
  );
}

export function Add({ name, act, disabled = false }: { name: string; act: () => void; disabled?: boolean }): ReactNode {
  return (
    <button type="button" className="wp-button is-quiet" onClick={act} disabled={disabled}>
      <Icon name="plus" size={14} />
      {name}
    </button>
  );
}
