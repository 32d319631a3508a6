// The form of what the journey says as a whole.

import { useEffect, useState } from "react";

import { useShared } from "./context.ts";
import { type Definition, maxExitEvents, maxTags, tidy } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { Add, Pick, Text, Tool } from "./forms.tsx";
import { Icon } from "./icons.tsx";
import type { Options } from "./load.ts";
import { Problems } from "./panel.tsx";
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
  const { reentry, quietHours: quiet, frequencyCap: cap } = d;
  return (
    <section className="wp-panel wp-form" aria-label={t.journeySettings}>
      <header className="wp-panel-head">
        <span className="wp-step-icon wp-enroll">
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
        <Tags tags={d.tags ?? []} change={(tags) => set("tags", tags.length > 0 ? tags : undefined)} />
        <Pick name={t.beginsWith} value={d.start ?? ""} onChange={(v) => set("start", v)} items={d.nodes.map((n) => ({ id: n.id, name: title(n, words) }))} />
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
              <Text label={`${t.event} ${i + 1}`} value={e.event ?? ""} onChange={(event) => set("exitOn", all.map((x, j) => (j === i ? { ...x, event } : x)))} list={options.events} />
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
          <Add name={t.addEvent} act={() => set("exitOn", [...(d.exitOn ?? []), { event: "" }])} disabled={(d.exitOn?.length ?? 0) >= maxExitEvents} />
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

// Tags are written with commas between them, and stored when the field is left.
function Tags({ tags, change }: { tags: string[]; change: (tags: string[]) => void }) {
  const { texts } = useShared().words;
  const stored = tags.join(", ");
  const [text, setText] = useState(stored);
  useEffect(() => setText(stored), [stored]);
  const all = [...new Set(text.split(/[,，]/).map((x) => x.trim()))].filter(Boolean);
  return <Text name={texts.tags} value={text} onChange={setText} hint={texts.tagsHint} bad={all.length > maxTags || all.some((x) => [...x].length > 40)} onBlur={() => all.join(", ") !== stored && change(all)} />;
}

function Switch({ name, on, change }: { name: string; on: boolean; change: (on: boolean) => void }) {
  return (
    <label className="wp-check">
      <input type="checkbox" checked={on} onChange={(e) => change(e.target.checked)} />
      <span>{name}</span>
    </label>
  );
}
