// The form of what the journey says as a whole.

import { useEffect, useState } from "react";

import { useShared } from "./context.ts";
import { type Definition, type Entry, maxEntries, maxEntryFields, maxExits, maxTags, tidy } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { Add, Pick, Text, Tool } from "./forms.tsx";
import { Icon } from "./icons.tsx";
import type { Options } from "./load.ts";
import { Problems } from "./panel.tsx";
import { fill } from "./texts.ts";
import { title } from "./words.ts";

interface SettingsProps {
  definition: Definition;
  options: Options;
  problems: readonly Problem[];
  // change stores the definition; changes of one field are one step of undo.
  change: (definition: Definition, field: string) => void;
  close: () => void;
}

export function Settings({ definition: d, options, problems, change, close }: SettingsProps) {
  const { words } = useShared();
  const t = words.texts;
  const set = (member: keyof Definition, value: unknown): void => change({ ...tidy({ ...d, [member]: value }), nodes: d.nodes }, member);
  // part stores a member that is an object; without members it is none.
  const part = <T extends object>(member: keyof Definition, value: T): void => {
    const left = tidy(value);
    set(member, Object.keys(left).length > 0 ? left : undefined);
  };
  const { reentry, quietHours: quiet, frequencyCap: cap, goal } = d;
  const entries = d.entry ?? [];
  const putEntries = (next: Entry[]): void => set("entry", next.length > 0 ? next : undefined);
  return (
    <section className="wp-panel wp-form" aria-label={t.journeySettings}>
      <header className="wp-panel-head">
        <span className="wp-step-icon wp-of-other">
          <Icon name="settings" size={19} />
        </span>
        <div>
          <small>{t.canvas}</small>
          <h2>{t.journeySettings}</h2>
        </div>
        <button type="button" className="wp-tool" aria-label={t.close} title={t.close} onClick={close}>
          <Icon name="close" size={16} />
        </button>
      </header>
      <div className="wp-panel-body">
        <Problems problems={problems} />
        <Text name={t.journeyName} value={d.name ?? ""} onChange={(v) => set("name", v)} maxLength={200} />
        <Text name={t.description} value={d.description ?? ""} onChange={(v) => set("description", v)} lines={3} maxLength={2000} />
        <Listed name={t.tags} hint={t.tagsHint} max={maxTags} length={40} items={d.tags ?? []} change={(tags) => set("tags", tags.length > 0 ? tags : undefined)} />
        <Pick name={t.beginsWith} value={d.start ?? ""} onChange={(v) => set("start", v)} items={d.nodes.map((n) => ({ id: n.id, name: title(n, words) }))} />
        <fieldset className="wp-group">
          <legend>{t.entry}</legend>
          {entries.map((e, i) => (
            <Begin
              key={i}
              n={i + 1}
              entry={e}
              options={options}
              change={(next) => putEntries(entries.map((x, j) => (j === i ? next : x)))}
              remove={() => putEntries(entries.filter((_, j) => j !== i))}
            />
          ))}
          <Add name={t.addEntry} act={() => putEntries([...entries, { event: "" }])} disabled={entries.length >= maxEntries} />
        </fieldset>
        <fieldset className="wp-group">
          <legend>{t.goal}</legend>
          <Switch name={t.goalOn} on={!!goal} change={(on) => set("goal", on ? { event: "" } : undefined)} />
          {goal && (
            <>
              <Text name={t.event} value={goal.event ?? ""} onChange={(event) => set("goal", { ...goal, event })} list={options.events} />
              <Text name={t.when} value={goal.when ?? ""} onChange={(when) => set("goal", tidy({ ...goal, when }))} placeholder={t.whenHint} language="cel" event={goal.event ?? ""} place="goal" />
              <Text name={t.capPer} value={goal.within ?? ""} onChange={(within) => set("goal", tidy({ ...goal, within }))} placeholder="P7D" hint={t.durationHint} />
              <Text name={t.worth} value={goal.value ?? ""} onChange={(value) => set("goal", tidy({ ...goal, value }))} placeholder="event.total" language="cel" event={goal.event ?? ""} place="goal" />
            </>
          )}
          <Text name={t.controlGroup} type="number" value={percent(d.controlGroup)} onChange={(v) => set("controlGroup", v ? Number(v) / 100 : undefined)} hint={t.controlGroupHint} />
        </fieldset>
        <fieldset className="wp-group">
          <legend>{t.reentry}</legend>
          <Pick
            name={t.mayReenter}
            value={reentry?.policy ?? "afterExit"}
            required
            onChange={(policy) => part("reentry", { ...reentry, policy: policy === "afterExit" && !reentry?.every ? undefined : policy, every: policy === "never" ? undefined : reentry?.every })}
            items={[
              { id: "afterExit", name: t.afterExit },
              { id: "always", name: t.always },
              { id: "never", name: t.never },
            ]}
          />
          {reentry?.policy !== "never" && <Text name={t.every} value={reentry?.every ?? ""} onChange={(every) => part("reentry", { ...reentry, every })} placeholder={t.anyTime} hint={t.durationHint} />}
        </fieldset>
        <fieldset className="wp-group">
          <legend>{t.exitOn}</legend>
          {(d.exitOn ?? []).map((e, i, all) => (
            <div className="wp-row" key={i}>
              {e.segment == null ? (
                <Text label={`${t.event} ${i + 1}`} value={e.event ?? ""} onChange={(event) => set("exitOn", all.map((x, j) => (j === i ? { ...x, event } : x)))} list={options.events} />
              ) : (
                <Pick name={`${t.entersSegment} ${i + 1}`} value={e.segment} onChange={(segment) => set("exitOn", all.map((x, j) => (j === i ? { ...x, segment, on: "enter" } : x)))} items={options.segments} />
              )}
              <Tool
                icon="trash"
                name={t.remove}
                act={() => {
                  const left = all.filter((_, j) => j !== i);
                  set("exitOn", left.length > 0 ? left : undefined);
                }}
              />
            </div>
          ))}
          <Add name={t.addEvent} act={() => set("exitOn", [...(d.exitOn ?? []), { event: "" }])} disabled={(d.exitOn?.length ?? 0) >= maxExits} />
          <Add name={t.addSegment} act={() => set("exitOn", [...(d.exitOn ?? []), { segment: "", on: "enter" }])} disabled={(d.exitOn?.length ?? 0) >= maxExits} />
        </fieldset>
        <fieldset className="wp-group">
          <legend>{t.quietHours}</legend>
          <Switch name={t.quietHoursOn} on={!!quiet} change={(on) => set("quietHours", on ? { from: "21:00", to: "08:00" } : undefined)} />
          {quiet && (
            <>
              <div className="wp-row">
                <Text name={t.quietFrom} value={quiet.from ?? ""} onChange={(from) => set("quietHours", tidy({ ...quiet, from }))} type="time" />
                <Text name={t.quietTo} value={quiet.to ?? ""} onChange={(to) => set("quietHours", tidy({ ...quiet, to }))} type="time" />
              </div>
              <Text name={t.timezone} value={quiet.timezone ?? ""} onChange={(timezone) => set("quietHours", tidy({ ...quiet, timezone }))} placeholder={t.timezoneHint} list={options.timezones} />
            </>
          )}
        </fieldset>
        <fieldset className="wp-group">
          <legend>{t.frequencyCap}</legend>
          <Switch name={t.frequencyCapOn} on={!!cap} change={(on) => set("frequencyCap", on ? { touchpoints: 3, per: "24h" } : undefined)} />
          {cap && (
            <div className="wp-row">
              <Text name={t.capTouchpoints} type="number" value={String(cap.touchpoints ?? "")} onChange={(v) => set("frequencyCap", { ...cap, touchpoints: v ? Math.trunc(Number(v)) : null })} />
              <Text name={t.capPer} value={cap.per ?? ""} onChange={(per) => set("frequencyCap", tidy({ ...cap, per }))} />
            </div>
          )}
        </fieldset>
      </div>
    </section>
  );
}

// percent is a share of 1 as a percentage, without the digits that only floats have.
function percent(share: number | null | undefined): string {
  return share ? String(Number((share * 100).toFixed(4))) : "";
}

// Begin is the form of one thing that begins the journey.
function Begin({ n, entry: e, options, change, remove }: { n: number; entry: Entry; options: Options; change: (entry: Entry) => void; remove: () => void }) {
  const t = useShared().words.texts;
  const kind = e.leadCreated ? "leadCreated" : e.leadChanged ? "leadChanged" : e.segment != null ? "segment" : "event";
  const turn = (to: string): void => {
    const kinds: Record<string, Entry> = { event: { event: "" }, leadCreated: { leadCreated: true }, leadChanged: { leadChanged: [] }, segment: { segment: "", on: "enter" } };
    change({ ...kinds[to], ...tidy({ when: e.when, entryKey: e.entryKey, comments: e.comments }) });
  };
  const event = kind === "event" ? (e.event ?? "") : undefined;
  return (
    <div className="wp-list-item">
      <div className="wp-row">
        <Pick
          name={fill(t.entryN, { n })}
          value={kind}
          required
          onChange={turn}
          items={[
            { id: "event", name: t.event },
            { id: "leadCreated", name: t.leadCreated },
            { id: "leadChanged", name: t.leadChanged },
            { id: "segment", name: t.entersSegment },
          ]}
        />
        <Tool icon="trash" name={t.remove} act={remove} />
      </div>
      {kind === "event" && <Text name={t.event} value={e.event ?? ""} onChange={(v) => change({ ...e, event: v })} list={options.events} />}
      {kind === "leadChanged" && <Listed name={t.leadFields} hint={t.leadFieldsHint} max={maxEntryFields} length={200} items={e.leadChanged ?? []} change={(leadChanged) => change({ ...e, leadChanged })} />}
      {kind === "segment" && <Pick name={t.segment} value={e.segment ?? ""} onChange={(segment) => change({ ...e, segment, on: "enter" })} items={options.segments} />}
      <Text name={t.when} value={e.when ?? ""} onChange={(when) => change(tidy({ ...e, when }))} placeholder={t.caseHint} language="cel" event={event} place="entry" />
      <Text name={t.entryKey} value={e.entryKey ?? ""} onChange={(entryKey) => change(tidy({ ...e, entryKey }))} placeholder={t.entryKeyExample} hint={t.entryKeyHint} language="cel" event={event} place="entry" />
    </div>
  );
}

// Listed is a field of words with commas between them, which are stored when it is left.
function Listed({ name, hint, max, length, items, change }: { name: string; hint: string; max: number; length: number; items: string[]; change: (items: string[]) => void }) {
  const stored = items.join(", ");
  const [text, setText] = useState(stored);
  useEffect(() => setText(stored), [stored]);
  const all = [...new Set(text.split(/[,，]/).map((x) => x.trim()))].filter(Boolean);
  return <Text name={name} value={text} onChange={setText} hint={hint} bad={all.length > max || all.some((x) => [...x].length > length)} onBlur={() => all.join(", ") !== stored && change(all)} />;
}

function Switch({ name, on, change }: { name: string; on: boolean; change: (on: boolean) => void }) {
  return (
    <label className="wp-check">
      <input type="checkbox" checked={on} onChange={(e) => change(e.target.checked)} />
      <span>{name}</span>
    </label>
  );
}
