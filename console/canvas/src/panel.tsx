// What is known of the chosen node, beside the picture.

import type { ReactNode } from "react";

import { useCounts, useShared } from "./context.ts";
import type { Node } from "./definition.ts";
import { slots } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { Icon } from "./icons.tsx";
import { taken } from "./live.ts";
import { type TextKey } from "./texts.ts";
import { paramText } from "./param.ts";
import { full, percent, placeInWords, slotLabel, summary, title, typeName } from "./words.ts";

// Links are addresses of the console, in which {node} stands for the id of the node.
export type Links = Partial<Record<"standing" | "failed" | "deliveries", string>>;

export function PanelHead({ node, close }: { node: Node; close: () => void }) {
  const { words } = useShared();
  return (
    <header className="wp-panel-head">
      <span className={`wp-step-icon wp-${node.type}`}>
        <Icon name={node.type} size={19} />
      </span>
      <div>
        <small>{typeName(node.type, words)}</small>
        <h2>{title(node, words)}</h2>
      </div>
      <button type="button" className="wp-tool" aria-label={words.texts.close} title={words.texts.close} onClick={close}>
        <Icon name="close" size={16} />
      </button>
    </header>
  );
}

export function Problems({ problems }: { problems: readonly Problem[] }) {
  const { lang } = useShared().words;
  if (problems.length === 0) return null;
  return (
    <ul className="wp-problems">
      {problems.map((p, i) => (
        <li key={i}>
          <Icon name="missing" size={14} />
          <span>
            {p.target && <b>{placeInWords(p.target, lang)}</b>} {p.message}
          </span>
        </li>
      ))}
    </ul>
  );
}

const partNames: Record<string, TextKey> = { waiting: "waiting", sending: "sending", deferred: "deferred", delivered: "deliveredCount", failed: "failed", skipped: "skipped" };

// NodePanel shows a node's numbers, ways and settings.
export function NodePanel({ node, named, links, close, choose }: { node: Node; named: (id: string) => string; links: Links; close: () => void; choose: (id: string) => void }) {
  const { words, live } = useShared();
  const { texts, lang } = words;
  const counts = useCounts(node.id);
  const ways = slots(node);
  const link = (kind: keyof Links): string => links[kind]!.replaceAll("{node}", encodeURIComponent(node.id));
  const settings = settingsOf(node);
  return (
    <section className="wp-panel" aria-label={title(node, words)}>
      <PanelHead node={node} close={close} />
      <div className="wp-panel-body">
        <p className="wp-lead">{summary(node, words)}</p>
        {node.note && <p className="wp-note">{node.note}</p>}
        {live && (
          <>
            <h3>{texts.people}</h3>
            <div className="wp-figures">
              <Figure n={counts?.standing ?? 0} word={texts.standing} lang={lang} strong />
              <Figure n={counts?.entered ?? 0} word={texts.entered} lang={lang} strong />
              {Object.entries(partNames).map(([part, key]) => {
                const n = counts?.[part as "waiting"] ?? 0;
                return n > 0 && <Figure key={part} n={n} word={texts[key]} lang={lang} bad={part === "failed"} />;
              })}
            </div>
            {(links.standing || (node.type === "touchpoint" && (links.deliveries || links.failed))) && (
              <p className="wp-links">
                {links.standing && <a href={link("standing")}>{texts.showStanding}</a>}
                {node.type === "touchpoint" && links.deliveries && <a href={link("deliveries")}>{texts.showDeliveries}</a>}
                {node.type === "touchpoint" && links.failed && !!counts?.failed && <a href={link("failed")}>{texts.showFailed}</a>}
              </p>
            )}
          </>
        )}
        {ways.length > 0 && (
          <>
            <h3>{texts.ways}</h3>
            <ul className="wp-ways">
              {ways.map((s, i) => {
                const { count: n, all: went } = taken(node, s, counts);
                return (
                  <li key={i}>
                    <span className="wp-ways-label">{slotLabel(node, s, words)}</span>
                    {s.target ? (
                      <button type="button" className="wp-link" onClick={() => choose(s.target)}>
                        {named(s.target)}
                      </button>
                    ) : (
                      <span>{texts.theEnd}</span>
                    )}
                    {live && went > 0 && (
                      <span className="wp-ways-share" title={full(n, lang)}>
                        {percent(n, went, lang)}
                      </span>
                    )}
                  </li>
                );
              })}
            </ul>
          </>
        )}
        <h3>{texts.settings}</h3>
        <dl className="wp-settings">
          <dt>{texts.id}</dt>
          <dd>
            <code>{node.id}</code>
          </dd>
          {settings.map(([key, value]) => (
            <Setting key={key} name={key in texts ? texts[key as TextKey] : key}>
              {value}
            </Setting>
          ))}
        </dl>
      </div>
    </section>
  );
}

function Setting({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Figure({ n, word, lang, strong = false, bad = false }: { n: number; word: string; lang: string; strong?: boolean; bad?: boolean }) {
  return (
    <div className={`wp-figure ${strong ? "is-strong" : ""} ${bad ? "is-bad" : ""}`}>
      <b>{full(n, lang)}</b>
      <span>{word}</span>
    </div>
  );
}

function settingsOf(n: Node): [string, ReactNode][] {
  const out: [string, ReactNode][] = [];
  for (const key of ["webhook", "journey", "for", "event", "when", "timeout", "lead", "offset", "time", "timezone"] as const) {
    if (n[key]) out.push([key, <code>{n[key]}</code>]);
  }
  if (n.weekdays?.length) out.push(["weekdays", n.weekdays.join(", ")]);
  if (n.since) out.push(["since", "✓"]);
  for (const [name, value] of Object.entries(n.params ?? {})) out.push([name, <code>{paramText(value)}</code>]);
  return out;
}
