import assert from "node:assert/strict";
import { test } from "node:test";

import { type Names, complete, placeOf } from "../src/complete.ts";
import { type Definition, definitionOf, parseJSON, reachable, slotKey, slots } from "../src/definition.ts";
import { durationInWords, parseDuration } from "../src/duration.ts";
import * as edit from "../src/edit.ts";
import { backEdges, compare, graph, startId } from "../src/graph.ts";
import { layout, rounded, steps } from "../src/layout.ts";
import { Live, taken } from "../src/live.ts";
import { valueOf } from "../src/param.ts";
import { texts } from "../src/texts.ts";
import { completeYAML } from "../src/yamlcomplete.ts";
import { idsOf, placeOfPath, whereIs } from "../src/yamlpath.ts";
import { spans } from "../src/highlight.ts";
import { armLetter, edgeLabel, percent, placeInWords, short, slotLabel, summary, title, typeName } from "../src/words.ts";

const journey = (): Definition => ({
  name: "Test",
  start: "hello",
  nodes: [
    { id: "hello", type: "touchpoint", webhook: "whk_1", params: { subject: "Hi" }, next: "wait", onFailure: "end" },
    { id: "wait", type: "delay", for: "72h", next: "check" },
    { id: "check", type: "branch", cases: [{ when: "lead.region == 4001", next: "arms" }, { when: "lead.gender == 1", next: "end" }], otherwise: "end" },
    { id: "arms", type: "split", arms: [{ weight: 1, next: "event" }, { weight: 3 }] },
    { id: "event", type: "waitForEvent", event: "buy", timeout: "P7D", next: "end", onTimeout: "wait" },
    { id: "end", type: "exit" },
  ],
});
const more = (): Definition => ({
  name: "More",
  start: "first",
  nodes: [
    { id: "first", type: "waitForEvent", events: [{ event: "buy", when: "event.n > 1", next: "set" }, { event: "leave" }], timeout: "P7D", onTimeout: "until" },
    { id: "set", type: "updateLead", set: { "customFields.stage": "x", gender: 1, remark: null }, next: "tell", onFailure: "end" },
    { id: "tell", type: "emit", event: "told", properties: { list: [1] }, next: "until" },
    { id: "until", type: "waitFor", when: "lead.gender == 1", timeout: "1h", next: "end", onTimeout: "set" },
    { id: "end", type: "exit" },
  ],
});

const w = { lang: "en", texts: texts("en"), names: new Map([["whk_1", "E-mail"]]) };
const node = (d: Definition, id: string) => d.nodes.find((n) => n.id === id)!;

test("steps that wait for several events or a condition, change the lead and emit", () => {
  const d = more();
  const words = (id: string): string[] => [summary(node(d, id), w), ...slots(node(d, id)).map((s) => `${slotKey(s)}>${s.target}: ${slotLabel(node(d, id), s, w)}`)];
  assert.deepEqual(words("first"), ["Wait for “buy / leave”, up to 7 days", "event.0>set: “buy” came · event.n > 1", "event.1>: “leave” came", "onTimeout>until: None within 7 days"]);
  assert.deepEqual(words("set"), ["Set stage, gender, remark", "next>tell: Done", "onFailure>end: Not done"]);
  assert.deepEqual(words("tell"), ["Emit “told”", "next>until: "]);
  assert.deepEqual(words("until"), ["Until lead.gender == 1, up to 1 hour", "next>end: True", "onTimeout>set: None within 1 hour"]);
  assert.deepEqual(edit.quick(d, (what, field) => `${what} ${field}`), []);
  const renamed = edit.update(d, "set", { ...node(d, "set"), id: "put" });
  assert.equal(node(renamed, "first").events?.[0]?.next, "put");
  const grown = edit.connect(d, "first", { kind: "event", index: 2 }, "end");
  assert.deepEqual(node(grown, "first").events?.[2], { next: "end" });
  assert.deepEqual(edit.quick(grown, (what, field) => `${what} ${field}`).map((p) => p.target), ["nodes[0].events[2].event"]);
  assert.deepEqual(["", "true", "1", "01", "{{ a }}", "[1]", "x"].map(valueOf), [null, true, 1, "01", "{{ a }}", [1], "x"]);
});

test("durations", () => {
  assert.equal(parseDuration("1h30m"), 5_400_000);
  assert.equal(parseDuration("P1W2DT3H"), (9 * 24 + 3) * 3_600_000);
  assert.equal(parseDuration("300ms"), 300);
  for (const bad of ["", "3", "3 days", "P", "PT", "1h 30m", "P3"]) assert.equal(parseDuration(bad), undefined, bad);
  assert.equal(durationInWords("72h", "en"), "3 days");
  assert.equal(durationInWords("24h", "en"), "24 hours");
  assert.equal(durationInWords("P1D", "en"), "1 day");
  assert.equal(durationInWords("1h30m", "en"), "1 hour 30 minutes");
  assert.equal(durationInWords("72h", "zh"), "3天");
  assert.equal(durationInWords("soon", "en"), "soon");
});

test("a definition comes as a journey, as a version, or by itself", () => {
  const d = journey();
  assert.deepEqual(definitionOf({ id: "jrn_1", draft: d }), d);
  assert.deepEqual(definitionOf({ version: 2, definition: d }), d);
  assert.deepEqual(definitionOf(d), d);
  assert.deepEqual(definitionOf({ draft: { name: "Empty" } }).nodes, []);
});

test("parsing keeps what JSON says", () => {
  assert.deepEqual(parseJSON('{"a":[1,"x",null,2.5]}'), { a: [1, "x", null, 2.5] });
  if ("rawJSON" in JSON) assert.equal(JSON.stringify(parseJSON('{"a":12.50,"b":12345678901234567890}')), '{"a":12.50,"b":12345678901234567890}');
});

test("the graph has a start, an end for each open way, and one edge for each way", () => {
  const g = graph(journey(), "ways");
  const edges = g.edges.map((e) => `${e.source}>${e.target}:${e.slots.map((s) => s.kind + s.index).join(",")}`);
  assert.deepEqual(edges, [
    "start:>hello:",
    "hello>wait:next0",
    "hello>end:onFailure0",
    "wait>check:next0",
    "check>arms:case0",
    "check>end:case1",
    "check>end:otherwise0",
    "arms>event:arm0",
    "arms>end:arms:arm1",
    "event>end:next0",
    "event>wait:onTimeout0",
  ]);
  assert.equal(graph(journey(), "slots").edges.length, edges.length);
  assert.equal(graph(journey(), "targets").edges.length, edges.length - 1);
  assert.deepEqual([...backEdges(g)], ["event:onTimeout>wait"]);
});

test("a journey without nodes has a place for the first", () => {
  assert.deepEqual(graph({ nodes: [] }, "slots").edges.map((e) => `${e.source}>${e.target}`), ["start:>end:"]);
});

test("an edge to nothing shows what is missing", () => {
  const g = graph({ start: "a", nodes: [{ id: "a", type: "delay", for: "1h", next: "b" }] }, "ways");
  assert.deepEqual(g.nodes.map((n) => n.kind), ["start", "node", "missing"]);
});

test("a type of nodes that only a newer gateway has is drawn by its name", () => {
  const d = { start: "a", nodes: [{ id: "a", type: "dance", next: "b" }, { id: "b", type: "exit" }] } as unknown as Definition;
  assert.deepEqual(graph(d, "ways").edges.map((e) => e.id), ["start:", "a:next>b"]);
  assert.deepEqual([title(d.nodes[0]!, w), summary(d.nodes[0]!, w), typeName(d.nodes[0]!.type, w)], ["a", "", "dance"]);
});

test("two versions in one picture", () => {
  const newer = journey();
  newer.nodes[1] = { ...newer.nodes[1]!, for: "24h" };
  newer.nodes = newer.nodes.filter((n) => n.id !== "event");
  newer.nodes[3] = { id: "arms", type: "split", arms: [{ weight: 1, next: "extra" }, { weight: 3 }] };
  newer.nodes.push({ id: "extra", type: "exit" });
  const g = compare(journey(), newer);
  const change = Object.fromEntries(g.nodes.flatMap((n) => (n.kind === "node" ? [[n.id, n.change]] : [])));
  assert.deepEqual(change, { hello: "same", wait: "changed", check: "same", arms: "same", end: "same", extra: "added", event: "removed" });
  assert.deepEqual(g.nodes.flatMap((n) => (n.kind === "node" && n.id === "wait" ? n.changed : [])), ["for"]);
  const edges = g.edges.filter((e) => e.change !== "same").map((e) => `${e.change} ${e.source}>${e.target}`);
  assert.deepEqual(edges.sort(), ["added arms>extra", "removed arms>event", "removed event>end", "removed event>wait"]);
});

test("the layout is top-down, without overlaps, and the same each time", () => {
  const g = graph(journey(), "ways");
  const size = () => ({ width: 200, height: 80 });
  const label = () => ({ width: 60, height: 24 });
  const l = layout(g, size, label);
  const back = backEdges(g);
  for (const e of g.edges) {
    if (!back.has(e.id)) assert.ok(l.nodes.get(e.source)!.y + 80 < l.nodes.get(e.target)!.y, e.id);
    assert.match(l.edges.get(e.id)!.path, /^M[-\d.,LQ ]+$/);
  }
  const places = [...l.nodes.values()];
  for (const [i, a] of places.entries())
    for (const b of places.slice(i + 1)) assert.ok(Math.abs(a.x - b.x) >= 200 || Math.abs(a.y - b.y) >= 80);
  assert.deepEqual(layout(g, size, label), l);
  assert.deepEqual(layout({ nodes: [], edges: [] }, size, label).size, { width: 0, height: 0 });
});

test("a longer way back is outside of a shorter one", () => {
  const g = graph({ start: "a", nodes: [
    { id: "a", type: "delay", for: "1h", next: "b" },
    { id: "b", type: "waitForEvent", event: "x", timeout: "1h", next: "a", onTimeout: "c" },
    { id: "c", type: "delay", for: "1h", next: "a" },
  ] }, "ways");
  const l = layout(g, () => ({ width: 200, height: 80 }), (id) => ({ width: id === "b:next>a" ? 160 : 0, height: 24 }));
  assert.ok(l.edges.get("c:next>a")!.label.x > l.edges.get("b:next>a")!.label.x + 80);
});

test("routes turn at right angles", () => {
  const route = steps([{ x: 0, y: 0 }, { x: 100, y: 50 }, { x: 100, y: 100 }, { x: 20, y: 150 }]);
  for (const [i, p] of route.entries()) if (i > 0) assert.ok(p.x === route[i - 1]!.x || p.y === route[i - 1]!.y);
  assert.equal(rounded([{ x: 0, y: 0 }, { x: 0, y: 5 }, { x: 0, y: 10 }]), "M0,0L0,10");
});

test("words", () => {
  const d = journey();
  assert.equal(summary(node(d, "hello"), w), "Send by E-mail · Hi");
  assert.equal(summary(node(d, "wait"), w), "Wait 3 days");
  assert.equal(summary(node(d, "event"), w), "Wait for “buy”, up to 7 days");
  assert.equal(summary(node(d, "arms"), w), "2 arms: 25% / 75%");
  assert.equal(summary({ id: "x", type: "waitUntil", time: "09:00", weekdays: ["tue", "mon", "wed", "thu", "fri"] }, w), "Until 09:00, Mon–Fri");
  assert.equal(summary({ id: "x", type: "waitUntil", lead: "customFields.renewal", offset: "-72h", time: "09:00" }, w), "Until 3 days before renewal, at 09:00");
  assert.equal(summary({ id: "x", type: "branch", cases: [{ when: "lead.region == 4001" }] }, w), "lead.region == 4001");
  assert.equal(title({ id: "x", type: "delay", label: "Pause" }, w), "Pause");
  assert.equal(slotLabel(node(d, "hello"), { kind: "next", index: 0, target: "wait" }, w), "Delivered");
  assert.equal(edgeLabel(node(d, "check"), graph(d, "targets").edges[5]!, w), "lead.gender == 1 · Otherwise");
  assert.equal(short(12_436, "en"), "12.4k");
  assert.equal(short(12_436, "zh"), "1.2万");
  assert.equal(short(999, "en"), "999");
  assert.equal(percent(1, 3, "en"), "33%");
  assert.equal(percent(1, 1000, "en"), "0.1%");
});

test("both languages have all texts, with the same values to fill in", () => {
  const en = texts("en");
  const zh = texts("zh-CN");
  const braces = (s: string) => (s.match(/\{\w+\}/g) ?? []).sort().join();
  for (const key of Object.keys(en) as (keyof typeof en)[]) assert.equal(braces(zh[key]), braces(en[key]), key);
  assert.equal(texts("en", { start: "Go" }).start, "Go");
});

test("ways that meet at one node, or end the journey, are drawn and counted apart", () => {
  const a: Definition["nodes"][number] = { id: "a", type: "waitForEvent", timeout: "1h", events: [{ event: "x", next: "b" }, { event: "x", when: "true", next: "b" }, { event: "y" }], onTimeout: "b" };
  const g = graph({ start: "a", nodes: [a, { id: "b", type: "exit" }] }, "ways");
  assert.deepEqual(g.edges.slice(1).map((e) => e.id), ["a:event:x>b", "a:event:y>end:a", "a:onTimeout>b"]);
  const counts = {
    nodeId: "a", entered: 9, standing: 0, waiting: 0, sending: 0, deferred: 0, delivered: 0, failed: 0, skipped: 0,
    edges: [{ next: "b", way: "event:x", count: 2 }, { next: "b", way: "onTimeout", count: 4 }], ends: [{ way: "event:y", count: 3 }],
  };
  assert.deepEqual(g.edges.slice(1).map((e) => taken(a, e.slots[0]!, counts)), [{ count: 2, all: 9 }, { count: 3, all: 9 }, { count: 4, all: 9 }]);
  assert.deepEqual(taken(a, { kind: "onTimeout", index: 0, target: "c" }, counts), { count: 0, all: 9 });
  assert.deepEqual(taken(a, { kind: "onTimeout", index: 0, target: "b" }, undefined), { count: 0, all: 0 });
});

test("statistics keep the objects of nodes that have not changed", () => {
  const live = new Live("");
  const counts = (id: string, entered: number) => ({ nodeId: id, entered, standing: 0, waiting: 0, sending: 0, deferred: 0, delivered: 0, failed: 0, skipped: 0, edges: [], ends: [] });
  const enrollments = { entered: 1, completed: 0, exited: 0, failed: 0, canceled: 0, heldOut: 0 };
  let told = 0;
  live.subscribe(() => told++);
  live.take({ nodes: [counts("a", 1), counts("b", 1)], enrollments });
  const a = live.node("a");
  live.take({ nodes: [counts("a", 1), counts("b", 2)], enrollments });
  assert.equal(live.node("a"), a);
  assert.equal(live.node("b")!.entered, 2);
  assert.equal(told, 2);
});

test("insert puts a node into a way", () => {
  const d = journey();
  const r = edit.insert(d, { at: "slot", source: "hello", slot: { kind: "next", index: 0 } }, "delay")!;
  assert.equal(r.id, "delay");
  assert.equal(node(r.definition, "hello").next, "delay");
  assert.deepEqual(node(r.definition, "delay"), { id: "delay", type: "delay", for: "P1D", next: "wait" });
  assert.deepEqual(r.definition.nodes.map((n) => n.id).slice(0, 3), ["hello", "delay", "wait"]);
  assert.deepEqual(d, journey());
  const s = edit.insert(r.definition, { at: "start" }, "split")!;
  assert.equal(s.definition.start, "split");
  assert.deepEqual(node(s.definition, "split").arms, [{ weight: 50, next: "hello" }, { weight: 50, next: "hello" }]);
  const e = edit.insert(d, { at: "slot", source: "check", slot: { kind: "case", index: 1 } }, "branch")!;
  assert.deepEqual(node(e.definition, "check").cases![1], { when: "lead.gender == 1", next: "branch" });
  assert.equal(node(e.definition, "branch").otherwise, "end");
});

test("no journey gets more nodes than it may have", () => {
  const d: Definition = { start: "n0", nodes: Array.from({ length: 200 }, (_, i) => ({ id: `n${i}`, type: "exit" as const })) };
  assert.equal(edit.insert(d, { at: "start" }, "exit"), undefined);
  assert.equal(edit.paste(d, { waypost: "nodes", nodes: [{ id: "x", type: "exit" }] }), undefined);
});

test("remove bridges what it takes out", () => {
  const d = edit.remove(journey(), ["wait", "check"]);
  assert.equal(node(d, "hello").next, "end");
  assert.equal(node(d, "event").onTimeout, "end");
  assert.equal(edit.remove(journey(), ["hello"]).start, "wait");
  const loop = edit.remove({ start: "a", nodes: [{ id: "a", type: "delay", for: "1h", next: "b" }, { id: "b", type: "delay", for: "1h", next: "a" }] }, ["b"]);
  assert.deepEqual(loop.nodes, [{ id: "a", type: "delay", for: "1h" }]);
  const all = edit.remove(journey(), journey().nodes.map((n) => n.id));
  assert.deepEqual([all.start, all.nodes], [null, []]);
});

test("connect sets a way, or adds one", () => {
  const d = journey();
  assert.equal(node(edit.connect(d, "hello", { kind: "onFailure", index: 0 }, "wait"), "hello").onFailure, "wait");
  assert.deepEqual(node(edit.connect(d, "check", { kind: "case", index: 2 }, "wait"), "check").cases![2], { next: "wait" });
  assert.deepEqual(node(edit.connect(d, "arms", { kind: "arm", index: 2 }, "end"), "arms").arms![2], { weight: 50, next: "end" });
  assert.equal("next" in node(edit.connect(d, "wait", { kind: "next", index: 0 }, ""), "wait"), false);
  assert.deepEqual(edit.ways(node(d, "wait")).map((s) => s.kind), ["next"]);
  assert.deepEqual(edit.ways(node(d, "check")).map((s) => s.kind + s.index), ["case0", "case1", "otherwise0", "case2"]);
});

test("another id is one everywhere", () => {
  const d = edit.update(journey(), "end", { id: "bye", type: "exit" });
  assert.deepEqual(d.nodes.flatMap((n) => [n.next, n.onFailure, n.otherwise, ...(n.cases ?? []).map((c) => c.next)]).filter((x) => x === "end"), []);
  assert.equal(node(d, "check").cases![1]!.next, "bye");
  assert.equal(edit.update(journey(), "hello", { ...node(journey(), "hello"), id: "hi" }).start, "hi");
});

test("copy and paste, within a journey and into another", () => {
  const c = edit.readClip(JSON.parse(JSON.stringify(edit.clip(journey(), ["wait", "check"]))))!;
  assert.deepEqual(c.nodes, [
    { id: "wait", type: "delay", for: "72h", next: "check" },
    { id: "check", type: "branch", cases: [{ when: "lead.region == 4001" }, { when: "lead.gender == 1" }] },
  ]);
  const free = edit.paste(journey(), c)!;
  assert.deepEqual(free.ids, ["wait2", "check2"]);
  assert.equal(node(free.definition, "wait2").next, "check2");
  assert.equal(reachable(free.definition).has("wait2"), false);
  const there = edit.paste(journey(), c, { at: "slot", source: "hello", slot: { kind: "next", index: 0 } })!;
  assert.equal(node(there.definition, "hello").next, "wait2");
  assert.equal(node(there.definition, "check2").otherwise, "wait");
  const other = edit.paste({ start: null, nodes: [] }, c, { at: "start" })!;
  assert.deepEqual([other.definition.start, other.ids], ["wait", ["wait", "check"]]);
  for (const bad of [null, "x", { nodes: [] }, { waypost: "nodes", nodes: [{ id: 1 }] }]) assert.equal(edit.readClip(bad), undefined);
});

test("problems stand at their nodes", () => {
  const d = journey();
  const by = edit.problemsByNode(d, [{ target: "nodes[2].cases[0].when", message: "no" }, { target: "name", message: "empty" }]);
  assert.deepEqual([...by], [["check", [{ target: "cases[0].when", message: "no" }]], ["", [{ target: "name", message: "empty" }]]]);
  const both = edit.joined(by, new Map([["check", [{ target: "cases[0].when", message: "the same" }]], ["end", [{ target: "", message: "more" }]]]));
  assert.deepEqual([...both.keys()], ["check", "", "end"]);
  assert.equal(both.get("check")!.length, 1);
  assert.deepEqual(edit.quick(d, (what, field) => `${what} ${field}`), []);
  const broken: Definition = { start: "a", nodes: [{ id: "a", type: "delay", for: "soon" }, { id: "b", type: "touchpoint" }] };
  assert.deepEqual(edit.quick(broken, (what, field) => `${what} ${field}`).map((p) => `${p.target}: ${p.message}`), [
    "nodes[0].for: badDuration for",
    "nodes[1].webhook: required webhook",
    "nodes[1]: unreachable ",
  ]);
});

test("undo and redo; typing into one field is one step", () => {
  const named = (name: string): Definition => ({ name, nodes: [] });
  const [a, b, c, d] = [named("1"), named("2"), named("3"), named("4")] as const;
  let h = edit.change(edit.begin(a), b, "name");
  h = edit.change(h, c, "name");
  h = edit.change(h, d);
  h = edit.undo(h);
  assert.equal(h.present, c);
  h = edit.undo(h);
  assert.equal(h.present, a);
  assert.equal(edit.undo(h), h);
  h = edit.redo(edit.redo(h));
  assert.equal(h.present, d);
  assert.equal(edit.redo(h), h);
  assert.deepEqual(edit.change(edit.undo(h), a).future, []);
  assert.equal(edit.change(h, h.present), h);
});

test("the start marker is no node's id", () => assert.ok(!/^[A-Za-z0-9_-]+$/.test(startId)));

const names: Names = { fields: ["plan", "renewalDate"], touchpoints: ["hello"], event: ["amount", "first name"] };
// offered is what completes a text, and the text that the first of it makes.
const offered = (language: "cel" | "liquid", before: string, has = names): string[] => complete(language, before, has)?.offers.map((o) => o.label) ?? [];
const first = (language: "cel" | "liquid", before: string, has = names): string => {
  const c = complete(language, before, has)!;
  return before.slice(0, c.from) + (c.offers[0]!.apply ?? c.offers[0]!.label);
};

test("a condition is completed with what there is", () => {
  assert.deepEqual(offered("cel", "").slice(0, 3), ["lead", "event", "touchpoints"]);
  assert.ok(!offered("cel", "", { ...names, event: undefined }).includes("event"));
  assert.ok(offered("cel", "lead.gender == 1 && lead.").includes("customFields"));
  const segment = { ...names, event: undefined, place: "segment" as const };
  assert.deepEqual(complete("cel", "", segment)!.offers.filter((o) => o.type === "variable").map((o) => o.label), ["lead", "now", "today"]);
  assert.deepEqual(["touchpoints.", "enrollment.", "journey.", "touchpoints.hello."].flatMap((before) => offered("cel", before, segment)), []);
  assert.ok(offered("cel", "lead.", segment).includes("customFields"));
  assert.ok(["", "!"].every((before) => offered("cel", before).includes("events") && offered("cel", before, segment).includes("events")));
  const at = (place: "entry" | "goal"): string[] => offered("cel", "", { ...names, place });
  assert.deepEqual(at("entry").slice(0, 3), ["lead", "event", "journey"]);
  assert.deepEqual(at("goal").slice(0, 4), ["lead", "event", "enrollment", "journey"]);
  assert.ok(!at("entry").includes("events") && !at("goal").includes("inSegment") && at("goal").includes("has"));
  assert.deepEqual(offered("cel", "enrollment.", { ...names, place: "entry" }), []);
  assert.deepEqual(offered("cel", "lead.customFields.").slice(0, 2), ["plan", "renewalDate"]);
  assert.deepEqual(offered("cel", "touchpoints.").slice(0, 1), ["hello"]);
  assert.deepEqual(offered("cel", "!touchpoints.hello.su").slice(0, 4), ["succeed", "httpStatus", "message", "attempts"]);
  assert.equal(first("cel", "touchpoints.hello.su"), "touchpoints.hello.succeed");
  assert.deepEqual(offered("cel", "event."), [".amount", ".first name"]);
  assert.equal(first("cel", "event.", { ...names, event: ["first name"] }), "event['first name']");
  assert.deepEqual(offered("cel", "event.", { ...names, event: undefined }), []);
  assert.ok(offered("cel", "now.get").includes("getHours"));
  assert.ok(offered("cel", "lead.name.").includes("startsWith"));
  assert.deepEqual(offered("cel", "lead.name == 'lead."), []);
  assert.deepEqual([offered("cel", "lead.region > 3"), offered("liquid", "{{ 1.")], [[], []]);
  assert.ok(offered("cel", "lead.name == 'it' && lead.").length > 0);
  assert.equal(first("cel", "lead.customFields.", { ...names, fields: ["it's"] }), "lead.customFields['it\\'s']");
  assert.equal(first("cel", "touchpoints.", { ...names, touchpoints: ["a-b"] }), "touchpoints['a-b']");
});

test("a template is completed within its tags", () => {
  assert.deepEqual(offered("liquid", "Hi lead."), []);
  assert.deepEqual(offered("liquid", "Hi {{ "), ["lead", "touchpoints", "enrollment", "journey", "now", "today"]);
  assert.ok(offered("liquid", "Hi {{ lead.").includes("company"));
  assert.ok(offered("liquid", "{{ lead.name | def").includes("default"));
  assert.ok(!offered("liquid", "{{ lead.name | def").includes("lead"));
  assert.ok(offered("liquid", "{% el").includes("elsif") && offered("liquid", "{%- end").includes("endif"));
  assert.ok(offered("liquid", "{% if lead.customFields.").includes("plan"));
  assert.deepEqual(offered("liquid", "{{ lead.name }} and lead."), []);
  assert.equal(offered("liquid", "{% assign first = 1 %}{{ ")[0], "first");
  assert.equal(first("liquid", "{{ touchpoints.", { ...names, touchpoints: ["a-b"] }), "{{ touchpoints.a-b");
});

test("a path is said in words", () => {
  const both = (target: string): string[] => [placeInWords(target, "en"), placeInWords(target, "zh-CN")];
  assert.deepEqual(both("entry[1].when"), ["Entry 2: Only if", "进入方式 2：仅当"]);
  assert.deepEqual(both("exitOn[1]"), ["Exit 2", "退出条件 2"]);
  assert.deepEqual(both("goal.within"), ["Goal: Within", "目标：时间范围"]);
  assert.deepEqual(both("quietHours.from"), ["Quiet hours: From", "免打扰时段：从"]);
  assert.deepEqual(both("cases[0].when"), ["Condition 1", "条件 1"]);
  assert.deepEqual(both("arms[1].weight"), ["Arm B: Weight", "分组 B：权重"]);
  assert.deepEqual(both("params.name"), ["Parameters: name", "参数：name"]);
  assert.deepEqual(both("newer.name"), ["newer.name", "newer.name"]);
  assert.deepEqual(both(""), ["", ""]);
  assert.deepEqual([armLetter(0), armLetter(19)], ["A", "T"]);
});

test("a problem names its place", () => {
  assert.equal(placeOf("line 1, column 6: lead has no member", "lead.nmae"), 5);
  assert.equal(placeOf("line 2, column 3: x", "😀\n😀ab"), 6);
  assert.equal(placeOf("must be true or false, not string", "lead.name"), -1);
  assert.equal(placeOf("line 9, column 1: x", "a"), -1);
});

test("parts of expressions have colours", () => {
  const kinds = (language: "cel" | "liquid", text: string): string[] => spans(language, text).map((s) => `${s.kind} ${text.slice(s.from, s.to)}`);
  assert.deepEqual(kinds("cel", "lead.x == 'a' && event.n in [1.5] // 2"), ["string 'a'", "keyword in", "number 1.5", "comment // 2"]);
  assert.deepEqual(kinds("liquid", "1 {{ lead.name | default: 'x' }} {% if"), ["tag {{", "string 'x'", "tag }}", "tag {%", "keyword if"]);
});

const yaml = `name: Test
start: hello
nodes:
  - id: hello
    type: touchpoint
    webhook: whk_1
    params:
      a.b: "Hi {{ lead.nmae }}"
    next: check
  - {id: check, type: branch, cases: [{when: "lead.x", next: hello}], otherwise: end}
`;

test("a path leads to its place in YAML", () => {
  const at = (target: string): string => {
    const p = placeOfPath(yaml, target);
    return `${yaml.slice(0, p.from).split("\n").length} ${yaml.slice(p.from, p.to)}`;
  };
  assert.equal(at("name"), "1 Test");
  assert.equal(at("nodes[0].params.a.b"), "8 Hi {{ lead.nmae }}");
  assert.equal(at("nodes[1].cases[0].when"), "10 lead.x");
  assert.equal(at("nodes[0].onFailure"), "4 id: hello");
  assert.equal(at("nodes[1]"), "10 {id: check, type: branch, cases: [{when: \"lead.x\", next: hello}], otherwise: end}");
  assert.equal(at("nodes[7].for"), "3 nodes:");
  assert.equal(at("quietHours.from"), "1 name: Test");
  assert.equal(at(""), "1 name: Test");
  assert.equal(placeOfPath("", "name").from, 0);
  assert.deepEqual(idsOf(yaml), { nodes: ["hello", "check"], touchpoints: ["hello"] });
  assert.deepEqual(whereIs(yaml, yaml.indexOf("lead.x") + 5)?.path, ["nodes", 1, "cases", 0, "when"]);
});

test("YAML is completed by where it stands", () => {
  const options = { webhooks: [{ id: "whk_1", name: "E-mail" }], journeys: [], segments: [], events: ["buy"], fields: ["plan"], timezones: ["UTC"], properties: { buy: ["amount"] } };
  // after completes a text at the place of ‸; first is what the first offer makes of its line.
  const after = (text: string): string[] => completeYAML(text.replace("‸", ""), text.indexOf("‸"), options)?.offers.map((o) => o.label) ?? [];
  const first = (text: string): string => {
    const at = text.indexOf("‸");
    const source = text.replace("‸", "");
    const c = completeYAML(source, at, options)!;
    return (source.slice(0, c.from) + (c.offers[0]!.apply ?? c.offers[0]!.label)).split("\n").at(-1)!;
  };
  assert.ok(after("na‸").includes("name"));
  assert.ok(!after("name: x\n‸").includes("name"));
  assert.equal(first("name: x\nnodes:\n  - id: a\n    type: delay\n    ‸"), "    label: ");
  assert.deepEqual(after("nodes:\n  - id: a\n    type: delay\n    ‸"), ["label", "note", "for", "next"]);
  assert.ok(after("nodes:\n  - i‸").includes("id"));
  assert.ok(after("nodes:\n  - {id: a, type: ‸}").includes("waitForEvent"));
  assert.equal(first("nodes:\n  - id: a\n    webhook: ‸"), "    webhook: whk_1");
  assert.deepEqual(after("nodes:\n  - id: a\n    next: ‸\n  - id: b\n"), ["a", "b"]);
  assert.deepEqual(after("nodes:\n  - id: a\n    type: waitForEvent\n    event: ‸"), ["buy"]);
  assert.ok(after('nodes:\n  - id: a\n    type: branch\n    cases:\n      - when: "lead.‸"').includes("gender"));
  assert.ok(!after('nodes:\n  - id: a\n    type: branch\n    cases:\n      - when: "‸"').includes("event"));
  assert.ok(after("nodes:\n  - id: a\n    type: waitForEvent\n    when: ‸").includes("event"));
  assert.deepEqual(after("nodes:\n  - {id: a, type: waitForEvent, event: buy, when: event.‸}"), ["amount"]);
  assert.deepEqual(after("nodes:\n  - {id: a, type: waitForEvent, events: [{event: buy, when: event.‸}]}"), ["amount"]);
  assert.deepEqual(after("goal: {event: buy, value: event.‸}"), ["amount"]);
  assert.deepEqual(after("entry:\n  - event: buy\n    entryKey: event.‸"), ["amount"]);
  assert.ok(!after("entry: [{leadCreated: true, when: ‸}]").some((o) => ["event", "enrollment", "events"].includes(o)));
  assert.ok(after("nodes:\n  - id: a\n    type: touchpoint\n    params:\n      text: |\n        Hi {{ lead.‸\n").includes("company"));
  assert.deepEqual(after("nodes:\n  - id: a\n    type: touchpoint\n    params:\n      text: Hi ‸"), []);
  assert.deepEqual(after("nodes:\n  - id: a\n    type: touchpoint\n    params:\n      ‸"), []);
  assert.deepEqual(after("reentry: {‸}"), ["policy", "every"]);
  assert.deepEqual(after("nodes:\n  - weekdays: [‸]").slice(0, 2), ["mon", "tue"]);
  assert.deepEqual(after("tags: [‸]"), []);
});

test("comments of the text go where their step goes", () => {
  const said = { for: { beside: "three days" } };
  const d: Definition = { name: "x", start: "a", nodes: [{ id: "a", type: "delay", for: "72h", next: "b", comments: said }, { id: "b", type: "exit" }], comments: { "": { above: "all" } } };
  const renamed = edit.update(d, "a", { ...node(d, "a"), id: "wait" });
  assert.deepEqual([node(renamed, "wait").comments, renamed.comments], [said, d.comments]);
  assert.deepEqual(node(definitionOf(JSON.parse(JSON.stringify(d))), "a").comments, said);
});
