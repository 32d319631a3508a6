// Every member that a definition may have (members.json, nodes.json) has a field in the form of the journey, or in
// that of its type of node, which shows its value.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server.edge";

import { SharedContext } from "../src/context.ts";
import { type Definition, type Member, type Node, described, nodeTypes } from "../src/definition.ts";
import { NodeForm } from "../src/forms.tsx";
import type { Options } from "../src/load.ts";
import header from "../src/members.json";
import { members } from "../src/nodes.json";
import { Settings } from "../src/settings.tsx";
import { texts } from "../src/texts.ts";

// Each value is another one, so that it is found only where it is shown.
const definition: Definition = {
  name: "A name",
  description: "A description",
  tags: ["tag-1"],
  start: "start-1",
  reentry: { policy: "always", every: "1h" },
  exitOn: [{ event: "exit-event" }, { segment: "exit-segment", on: "enter" }],
  quietHours: { from: "21:01", to: "08:01", timezone: "Asia/Tokyo" },
  frequencyCap: { touchpoints: 3, per: "2h" },
  entry: [{ event: "entry-event", when: "entry.when", entryKey: "entry.key" }, { leadCreated: true }, { leadChanged: ["changed-field"] }, { segment: "entry-segment", on: "enter" }],
  goal: { event: "goal-event", when: "goal.when", within: "3h", value: "goal.value" },
  controlGroup: 0.07,
  nodes: [{ id: "start-1", type: "exit" }],
};
const about = (id: string) => ({ id, label: "A label", note: "A note" });
const nodes: Node[] = [
  { ...about("n3"), type: "waitUntil", lead: "birthday", offset: "-2h", time: "09:01", weekdays: ["mon", "tue"], timezone: "Asia/Tokyo", next: "a-next", onMissed: "a-miss" },
  { ...about("n4"), type: "waitForEvent", event: "an-event", when: "a.when", timeout: "1h", since: "enrollment", next: "a-next", onTimeout: "a-timeout" },
  { ...about("n5"), type: "waitForEvent", events: [{ event: "one-event", when: "one.when", next: "one-next" }], timeout: "1h", since: "enrollment", onTimeout: "a-timeout" },
  { ...about("n7"), type: "branch", cases: [{ when: "case.when", next: "case-next" }], otherwise: "an-otherwise" },
  { ...about("n8"), type: "split", arms: [{ weight: 41, next: "arm-next" }], winner: { by: "goal", after: "2h" } },
  { ...about("n9"), type: "split", arms: [{ weight: 41, next: "arm-next" }], winner: { by: "goal", leads: 1007 } },
];

// The other types have a row for each member.
for (const type of nodeTypes) {
  if (nodes.some((n) => n.type === type)) continue;
  const value = (m: Member): unknown => (m.kind === "templates" ? { [`${m.name}-name`]: `${m.name}-value` } : m.kind === "duration" ? "1h" : m.kind === "clock" ? "09:01" : `a-${m.name}`);
  nodes.push({ ...about(type), type, ...Object.fromEntries(described(type)!.members.map((m) => [m.name, value(m)])) });
}

// given lists what members have a value, as members.json names them, and the values.
function given(name: string, of: object, into: Map<string, Set<string>>): string[] {
  const known = into.get(name) ?? new Set();
  into.set(name, known);
  return Object.entries(of).flatMap(([member, value]) => {
    known.add(member);
    if (member === "type" || member === "on" || member === "by") return []; // each has one value, which no field chooses
    if (member === "params" || member === "set" || member === "properties") return Object.entries(value).flat() as string[];
    if (member === "leadCreated") return [member];
    if (member === "controlGroup") return ["7"];
    if (member === "since") return ["checked"];
    if (Array.isArray(value)) return value.flatMap((v) => (typeof v === "object" ? given(member, v, into) : member === "weekdays" ? "checked" : v));
    return typeof value === "object" ? given(member, value, into) : String(value);
  });
}

// shown lists the values of a form's controls; "checked" of those that are.
function shown(form: Parameters<typeof renderToStaticMarkup>[0]): string[] {
  const shared = { words: { lang: "en", texts: texts("en"), names: new Map() }, live: undefined, add: undefined, pick: undefined, drop: undefined };
  const markup = renderToStaticMarkup(createElement(SharedContext, { value: shared }, form));
  const controls = [...markup.matchAll(/<input[^>]*|<option [^>]*selected=""[^>]*|<textarea[^>]*>[^<]*/g)].map(([tag]) => tag);
  return controls.map((tag) => (/ type="(checkbox|radio)"/.test(tag) ? (tag.includes(" checked") ? "checked" : "") : (/ value="([^"]*)"/.exec(tag)?.[1] ?? tag.replace(/^<textarea[^>]*>/, ""))));
}

test("every member of a definition has a field", () => {
  const options: Options = { webhooks: [], journeys: [], segments: [], events: [], fields: [], timezones: [], properties: {} };
  const nothing = (): void => {};
  const known = new Map<string, Set<string>>();
  const has = (name: string, values: string[], controls: string[]): void => {
    const missing = values.filter((v) => {
      const at = controls.indexOf(v);
      if (at >= 0) controls.splice(at, 1); // each control shows one
      return at < 0;
    });
    assert.deepEqual(missing, [], `${name} shows ${controls.join(" | ")}`);
  };
  const { nodes: _, ...settings } = definition;
  has("journey", given("journey", settings, known), shown(createElement(Settings, { definition, options, problems: [], change: nothing, close: nothing })));
  known.get("journey")!.add("nodes"); // which have forms of their own
  for (const node of nodes) {
    const d: Definition = { ...definition, nodes: [...definition.nodes, node] };
    has(node.id, given(node.type, node, known), shown(createElement(NodeForm, { definition: d, node, options, problems: [], change: nothing, rename: nothing, remove: nothing, close: nothing })));
  }
  assert.deepEqual(
    new Map(Array.from(known, ([name, of]) => [name, [...of].sort()])),
    new Map(Object.entries<string[]>({ ...header, ...members }).map(([name, of]) => [name, [...of].sort()])),
  );
});
