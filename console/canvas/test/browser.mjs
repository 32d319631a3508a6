// Tries the bundle in a browser, Chromium, on the sample server: looking, keyboard, numbers, editing,
// saving, conflicts, copy and paste. Run by make canvas-check where there is a chromium:
//   node --experimental-websocket --test test/browser.mjs

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

const patience = 30_000; // ms, for a slow machine

// matching waits until a program prints what a pattern finds.
function matching(stream, pattern) {
  return new Promise((found, failed) => {
    let text = "";
    stream.on("data", (chunk) => {
      const m = pattern.exec((text += chunk));
      if (m) found(m[0]);
    });
    stream.on("close", () => failed(new Error(`ended without ${pattern}: ${text}`)));
  });
}

// eventually tries until nothing is thrown.
async function eventually(check) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      return await check();
    } catch (e) {
      if (Date.now() > end) throw e;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

const profile = mkdtempSync(join(tmpdir(), "canvas-"));
const programs = [];
const faults = []; // exceptions, and what the page's policy refuses
let base = "";
let send; // calls the DevTools protocol

before(async () => {
  const server = spawn(process.execPath, [new URL("../sample/serve.mjs", import.meta.url).pathname], { stdio: ["ignore", "pipe", "inherit"] });
  programs.push(server);
  base = await matching(server.stdout, /http:\S+/);
  const flags = ["--headless=new", "--no-sandbox", `--user-data-dir=${profile}`, "--remote-debugging-port=0", "--window-size=1400,1000", "about:blank"];
  const browser = spawn("chromium", flags, { stdio: ["ignore", "ignore", "pipe"] });
  programs.push(browser);
  const { port } = new URL(await matching(browser.stderr, /ws:\S+/));
  const targets = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
  const socket = new WebSocket(targets.find((t) => t.type === "page").webSocketDebuggerUrl);
  await new Promise((opened) => socket.addEventListener("open", opened));
  let last = 0;
  const waiting = new Map();
  socket.addEventListener("message", ({ data }) => {
    const m = JSON.parse(data);
    if (m.id) waiting.get(m.id)(m);
    else if (m.method === "Runtime.exceptionThrown") faults.push(m.params.exceptionDetails.exception?.description);
    else if (m.method === "Log.entryAdded" && m.params.entry.source === "security") faults.push(m.params.entry.text);
  });
  send = (method, params = {}) =>
    new Promise((done, failed) => {
      waiting.set(++last, (m) => (m.error ? failed(new Error(`${method}: ${m.error.message}`)) : done(m.result)));
      socket.send(JSON.stringify({ id: last, method, params }));
    });
  for (const part of ["Runtime", "Log", "Page"]) await send(`${part}.enable`);
  // Without motion a click hits where things are.
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-reduced-motion", value: "reduce" }] });
});

after(async () => {
  for (const p of programs) p.kill();
  // Chromium's processes write their files until they have ended.
  await eventually(() => rmSync(profile, { recursive: true, force: true }));
});

async function js(expression) {
  const r = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description ?? r.exceptionDetails.text);
  return r.result.value;
}

const one = (selector) => `document.querySelector(${JSON.stringify(selector)})`;
const node = (id) => one(`.react-flow__node[data-id="${id}"]`);
const labelled = (name) => one(`[aria-label="${name}"]`);
const having = (selector, text) => `[...document.querySelectorAll(${JSON.stringify(selector)})].find((e) => e.textContent.includes(${JSON.stringify(text)}))`;
const is = (expression) => eventually(async () => assert.ok(await js(expression), expression));

async function open(query) {
  await send("Page.navigate", { url: `${base}?${query}` });
  await is(`location.search === ${JSON.stringify("?" + query)} && !!document.querySelector(".react-flow__node")`);
}

// at is the middle of an element, once it has stood in one place for two frames.
async function at(element) {
  await is(`!!(${element})`);
  await js(`(${element}).closest(".wp-panel") && (${element}).scrollIntoViewIfNeeded()`);
  const place = `(() => { const r = (${element}).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`;
  return eventually(async () => {
    const first = await js(place);
    await js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))");
    const second = await js(place);
    assert.deepEqual(second, first);
    return second;
  });
}

const mouse = (type, [x, y], more = {}) => send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" ? "none" : "left", clickCount: 1, ...more });

async function click(element) {
  const place = await at(element);
  await mouse("mouseMoved", place);
  await mouse("mousePressed", place);
  await mouse("mouseReleased", place);
}

async function drag(from, to) {
  const [a, b] = [await at(from), await at(to)];
  await mouse("mouseMoved", a);
  await mouse("mousePressed", a);
  for (let i = 1; i <= 10; i++) await mouse("mouseMoved", [a[0] + ((b[0] - a[0]) * i) / 10, a[1] + ((b[1] - a[1]) * i) / 10], { button: "left", buttons: 1 });
  await mouse("mouseReleased", b);
}

const codes = { Enter: 13, Escape: 27, ArrowUp: 38, ArrowDown: 40, Delete: 46, Control: 17 };
async function key(name, type = "press", modifiers = 0) {
  const k = { key: name, code: name.length === 1 ? `Key${name.toUpperCase()}` : name, modifiers, windowsVirtualKeyCode: codes[name] ?? name.toUpperCase().charCodeAt(0), ...(name === "Enter" && { text: "\r" }) };
  if (type !== "up") await send("Input.dispatchKeyEvent", { type: "keyDown", ...k });
  if (type !== "down") await send("Input.dispatchKeyEvent", { type: "keyUp", ...k });
}
const control = (name) => key(name, "press", 2);

async function type(element, text) {
  await click(element);
  await js("document.activeElement.select?.()");
  if (await js("document.activeElement.isContentEditable")) await control("a");
  await send("Input.insertText", { text });
}

const draft = async (name) => (await (await fetch(`${base}journeys/${name}/canvas.json`)).json()).draft;
// stored waits until the draft on the server is as a check wants it.
const stored = (name, check) => eventually(async () => check(await draft(name), (id, d) => d.nodes.find((n) => n.id === id)));
const field = (name) => `document.getElementById([...document.querySelectorAll(".wp-form label")].find((l) => l.textContent === ${JSON.stringify(name)})?.htmlFor)`;

test("a click opens the page's panel, changes the address, and tells the page", async () => {
  await open("journey=win-back&panel");
  await js(`window.told = []; document.addEventListener("node", (e) => told.push(e.detail.id))`);
  await click(node("quiet"));
  await is(`!document.getElementById("node-panel").hidden && /Until 60 days after lastOrder/.test(document.getElementById("node-panel").textContent)`);
  await is(`location.search.includes("node=quiet") && told.join() === "quiet"`);
  await click(labelled("Close"));
  await is(`document.getElementById("node-panel").hidden && !location.search.includes("node=")`);
});

test("numbers are those of the statistics, and follow them", async () => {
  await open("journey=win-back");
  const shown = `${one(".wp-start b")}?.title`;
  await is(`/^12,4\\d\\d enrolled$/.test(${shown})`);
  const before = await js(shown);
  await is(`${shown} !== ${JSON.stringify(before)}`);
  const { nodes } = await (await fetch(`${base}journeys/win-back/statistics.json`)).json();
  assert.match(await js(`${node("missed")}.querySelector(".wp-failed").title`), new RegExp(`^${nodes.find((n) => n.nodeId === "missed").failed} failed$|^2\\d\\d failed$`));
});

test("arrow keys go along the ways, Enter opens", async () => {
  await open("journey=win-back");
  await js(`${node("quiet")}.focus()`);
  await key("ArrowDown");
  await is(`document.activeElement.dataset.id === "missed"`);
  await key("ArrowDown");
  await is(`document.activeElement.dataset.id === "think"`);
  await key("Enter");
  await is(`location.search.includes("node=think")`);
  await key("ArrowUp");
  await is(`document.activeElement.dataset.id === "missed"`);
});

test("two versions in one picture", async () => {
  await open("journey=win-back&compare");
  await is(`/Added 1Changed 1Removed 1/.test(${one(".wp-status")}.textContent)`);
  await click(labelled("Show all"));
  await is(`${node("decide")}?.querySelector(".wp-badge").title === "Changed: for"`);
});

test("a step is added, set up, undone and removed", async () => {
  await open("journey=win-back&edit");
  await click(labelled("Add a step here: From Start to quiet"));
  await is(`document.activeElement.role === "menuitem"`);
  await key("ArrowDown");
  await key("Enter");
  await stored("win-back", (d, n) => assert.deepEqual([d.start, n("delay", d).next], ["delay", "quiet"]));
  await type(field("How long"), "P");
  await send("Input.insertText", { text: "2D" });
  await is(`/Wait 2 days/.test(${node("delay")}.textContent)`);
  await stored("win-back", (d, n) => assert.equal(n("delay", d).for, "P2D"));
  await click(labelled("Undo"));
  await stored("win-back", (d, n) => assert.equal(n("delay", d).for, "P1D"));
  await js(`${node("delay")}.focus()`);
  await key("Delete");
  await stored("win-back", (d) => assert.equal(d.start, "quiet"));
  await js(`${node("quiet")}.focus()`);
  await control("z");
  await stored("win-back", (d) => assert.equal(d.start, "delay"));
  await control("y");
  await stored("win-back", (d) => assert.equal(d.start, "quiet"));
});

test("ways are connected and moved by dragging", async () => {
  await open("journey=win-back&edit");
  await click(labelled("Show all"));
  await drag(`${node("missed")}.querySelector(".source")`, `${node("value")}.querySelector(".target")`);
  await click(having(".wp-menu-item", "Not delivered"));
  await stored("win-back", (d, n) => assert.equal(n("missed", d).onFailure, "value"));
  await click(`${having(".wp-label", "Not delivered")}.querySelector(".wp-label-text")`);
  await is(`!!${one(".wp-way.is-selected")}`);
  await drag(`${one('.react-flow__edge[data-id="missed:onFailure"] .react-flow__edgeupdater-target')}`, `${node("end")}.querySelector(".target")`);
  await stored("win-back", (d, n) => assert.equal(n("missed", d).onFailure, "end"));
});

test("several steps are copied, within a journey and into another", async () => {
  await open("journey=win-back&edit");
  await click(labelled("Show all"));
  await click(node("offer"));
  await key("Control", "down", 2);
  await click(node("discount"));
  await click(node("gift"));
  await key("Control", "up");
  await is(`document.querySelectorAll(".react-flow__node.selected").length === 3`);
  await click(labelled("Copy"));
  await click(labelled("Paste"));
  await stored("win-back", (d, n) => assert.deepEqual(n("offer2", d)?.arms.map((a) => a.next), ["discount2", "gift2"]));
  await is(`/3 problems/.test(${one(".wp-status")}.textContent)`);
  await click(one(".wp-status .wp-chip"));
  await is(`document.querySelectorAll(".wp-menu .wp-menu-item").length === 3 && !/\\w\\[\\d/.test(${one(".wp-menu")}.textContent)`);
  const asked = await js(`${one(".wp-menu-item")}.textContent`);
  await click(one(".wp-menu-item"));
  await is(`!document.querySelector(".wp-menu") && ${JSON.stringify(asked)}.startsWith(document.querySelector(".wp-form h2").textContent)`);
  await click(labelled("Undo"));
  await open("journey=birthday&edit");
  await click(labelled("Add a step here: From Start to birthday"));
  await click(having(".wp-menu-item", "Paste"));
  await stored("birthday", (d, n) => assert.deepEqual([d.start, n("gift", d)?.next], ["offer", "birthday"]));
});

test("a change of somebody else is not overwritten unasked", async () => {
  await open("journey=abandoned-cart&edit&node=remind");
  await is(`!!${field("Name of the step")}`);
  const mine = await draft("abandoned-cart");
  await fetch(`${base}journeys/abandoned-cart/canvas.json`, { method: "PUT", body: JSON.stringify({ ...mine, name: "Theirs" }) });
  await type(field("Name of the step"), "Mine");
  await is(`!!${one(".wp-banner")}`);
  assert.equal((await draft("abandoned-cart")).name, "Theirs");
  await type(field("Name of the step"), "Mine still");
  await click(having(".wp-banner button", "Keep mine as a copy"));
  await is(`/Yours is kept as Kept/.test(${one(".wp-banner.is-good")}?.textContent)`);
  await stored("kept", (d, n) => assert.deepEqual([d.name, n("remind", d).label], ["Kept", "Mine still"]));
  assert.deepEqual([(await draft("abandoned-cart")).name, mine.name], ["Theirs", mine.name]);
  await is(`${field("Name of the step")}.value !== "Mine still"`);
  await js(`${node("remind")}.focus()`);
  await control("z"); // brings mine back, over theirs that is known now
  await stored("abandoned-cart", (d, n) => assert.deepEqual([d.name, n("remind", d).label], [mine.name, "Mine still"]));
});

test("a condition is completed, and its problem is shown where it is", async () => {
  await open("journey=abandoned-cart&edit&node=first");
  await is(`${field("Only if")}?.isContentEditable`);
  await type(field("Only if"), "lead.customFields.");
  await is(`/lifetimeValue/.test(${one(".cm-tooltip-autocomplete")}?.textContent)`);
  await send("Input.insertText", { text: "pl" });
  await is(`${one(".cm-tooltip-autocomplete li[aria-selected]")}?.textContent === "plan"`);
  await click(one(".cm-tooltip-autocomplete li[aria-selected]"));
  await send("Input.insertText", { text: " => 'gold'" });
  await stored("abandoned-cart", (d, n) => assert.equal(n("first", d).when, "lead.customFields.plan => 'gold'"));
  await is(`${one(".cm-fault")}?.textContent === "=" && /unexpected =>/.test(${one(".wp-fault")}.textContent)`);
  await is(`${field("Only if")}.getAttribute("aria-invalid") === "true"`);
  await control("z");
  await is(`!${field("Only if")}.textContent.includes("gold")`);
  await click(labelled("Undo")); // that of the canvas: all of the typing is one step
  await is(`!${field("Only if")}.textContent.includes("lead.")`);
});

test("the settings of the journey have a form", async () => {
  await open("journey=empty&edit");
  await click(labelled("Settings of the journey"));
  await type(field("Name of the journey"), "Birthdays");
  await type(field("Tags"), "gifts, 生日，gifts");
  await js("document.activeElement.blur()");
  await js(`{ const s = ${field("A lead may enter again")}; s.value = "never"; s.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await click(having(".wp-check", "Hold messages back at night"));
  await type(field("Time zone"), "Asia/Shanghai");
  await click(having(".wp-check", "Skip messages beyond a number"));
  await click(having(".wp-form button", "Add an event"));
  await type(labelled("Event 1"), "unsubscribed");
  await click(having(".wp-form button", "Add a segment"));
  await js(`{ const s = ${field("Entering a segment 2")}; s.value = "seg_06jvh5r0g1s0q2k3m4n5p6q7r8"; s.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await click(having(".wp-form button", "Add what begins it"));
  await js(`{ const s = ${field("Entry 1")}; s.value = "leadChanged"; s.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await type(field("Fields"), "email, customFields.plan");
  await js("document.activeElement.blur()");
  await click(having(".wp-form button", "Add what begins it"));
  await js(`{ const s = ${field("Entry 2")}; s.value = "segment"; s.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await js(`{ const s = ${field("Segment")}; s.value = "seg_06jvh5r0g1s0q2k3m4n5p6q7r8"; s.dispatchEvent(new Event("change", { bubbles: true })); }`);
  await click(having(".wp-check", "Count who reaches a goal"));
  await type(field("Event"), "purchase");
  await type(field("Control group (%)"), "7");
  const gold = { segment: "seg_06jvh5r0g1s0q2k3m4n5p6q7r8", on: "enter" };
  await stored("empty", (d) => {
    assert.deepEqual(d.reentry, { policy: "never" });
    assert.deepEqual([d.entry, d.goal, d.controlGroup], [[{ leadChanged: ["email", "customFields.plan"] }, gold], { event: "purchase" }, 0.07]);
    assert.deepEqual([d.name, d.tags, d.quietHours, d.frequencyCap, d.exitOn], ["Birthdays", ["gifts", "生日"], { from: "21:00", to: "08:00", timezone: "Asia/Shanghai" }, { touchpoints: 3, per: "24h" }, [{ event: "unsubscribed" }, gold]]);
  });
  await click(having(".wp-check", "Hold messages back at night"));
  await stored("empty", (d) => assert.equal(d.quietHours, undefined));
});

test("another id is one everywhere, and what the server finds stands at its step", async () => {
  await open("journey=abandoned-cart&edit&node=first");
  await type(field("Id"), "second");
  await js("document.activeElement.blur()");
  await stored("abandoned-cart", (d, n) => assert.equal(n("remind", d).next, "second"));
  await type(field("Only if"), "event.amount => 3");
  await is(`/unexpected =>/.test(${node("second")}.querySelector(".wp-badge-problem")?.title)`);
});

test("a journey without steps gets its first", async () => {
  await open("journey=empty&edit");
  await click(one(".wp-add"));
  await key("Enter");
  await stored("empty", (d) => assert.deepEqual([d.start, d.nodes?.length], ["touchpoint", 1]));
});

test("the page's policy refused nothing, and nothing was thrown", () => assert.deepEqual(faults, []));
