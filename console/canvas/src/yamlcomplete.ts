// What a definition in YAML can go on with. Pure.

import { type Offer, type Offers, complete } from "./complete.ts";
import { nodeTypes, weekdays } from "./definition.ts";
import type { Options } from "./load.ts";
import header from "./members.json";
import { members } from "./nodes.json";
import { type Where, idsOf, whereIs } from "./yamlpath.ts";

export interface YAMLOffer extends Offer {
  detail?: string;
}

// completeYAML is what can stand at a place of a definition; undefined where nothing is known.
export function completeYAML(source: string, at: number, options: Options): (Offers & { offers: YAMLOffer[] }) | undefined {
  const w = whereIs(source, at);
  if (!w) return undefined;
  const last = w.path[w.path.length - 1];
  const value = (labels: readonly string[]): Offers => ({ from: w.from, offers: labels.map((label) => ({ label, type: "keyword" })) });
  const named = (items: readonly { id: string; name: string }[]): Offers & { offers: YAMLOffer[] } => ({
    from: w.from,
    offers: items.map(({ id, name }) => ({ label: name, apply: id, detail: id, type: "keyword" })),
  });
  if (w.path.at(-2) === "params" && !w.key) return expression(source, at, w, "liquid", options);
  if (w.key && last !== "weekdays" && w.path.at(-2) !== "weekdays" && w.path.at(-2) !== "tags") return keys(w);
  switch (last) {
    case "when":
    case "entryKey":
      return expression(source, at, w, "cel", options);
    case "value":
      return w.path[0] === "goal" ? expression(source, at, w, "cel", options) : undefined;
    case "type":
      return value(nodeTypes);
    case "start":
    case "next":
    case "onFailure":
    case "onTimeout":
    case "onMissed":
    case "otherwise":
      return value(idsOf(source).nodes);
    case "webhook":
      return named(options.webhooks);
    case "journey":
      return named(options.journeys);
    case "segment":
      return named(options.segments);
    case "event":
      return value(options.events);
    case "timezone":
      return value(options.timezones);
    case "policy":
      return value(["afterExit", "never", "always"]);
    case "since":
      return value(["enrollment"]);
    case "lead":
      return value(["birthday", "createdAt", "updatedAt", ...options.fields.map((f) => `customFields.${f}`)]);
  }
  return w.path.at(-2) === "weekdays" ? value(weekdays) : undefined;
}

// keys are the members that the object does not have yet.
function keys(w: Where): Offers | undefined {
  const all: Record<string, string[]> = { ...header, ...members };
  const parts = w.path.filter((p) => typeof p === "string");
  let known: string[] | undefined;
  if (parts.length === 0) known = all["journey"];
  else if (parts.length === 1 && parts[0] === "nodes") {
    const type = w.before.get("type") ?? "";
    known = all[type] ?? ["id", "type", ...Object.entries(all).flatMap(([name, of]) => ((nodeTypes as readonly string[]).includes(name) ? of : []))];
  } else known = all[parts[parts.length - 1] as string];
  if (!known) return undefined;
  const left = [...new Set(known)].filter((name) => !w.before.has(name));
  return { from: w.from, offers: left.map((label) => ({ label, apply: `${label}: `, type: "property" })) };
}

function expression(source: string, at: number, w: Where, language: "cel" | "liquid", options: Options): Offers | undefined {
  const top = w.path[0];
  const place = top === "entry" || top === "goal" ? top : undefined;
  const name = w.before.get("event");
  const event = name !== undefined || place === "goal" || w.before.get("type") === "waitForEvent" ? (options.properties[name ?? ""] ?? []) : undefined;
  const found = complete(language, source.slice(w.from, at), { fields: options.fields, touchpoints: idsOf(source).touchpoints, event, place });
  if (!found) return undefined;
  const escaped = (o: Offer): Offer => (w.quote === "'" && o.apply?.includes("'") ? { ...o, apply: o.apply.replaceAll("'", "''") } : o);
  return { from: w.from + found.from, offers: found.offers.map(escaped) };
}
