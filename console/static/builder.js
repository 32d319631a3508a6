// The form of a segment: rows and groups beside the text of the condition (condition.js), and the
// count of the condition as it stands.
import { complete, faultsOf, partsOf, read, whats, write } from "./condition.js";

const form = document.querySelector("form[data-builder]");
const area = form.elements.when;
const texts = JSON.parse(form.dataset.texts);
const place = document.getElementById("builder");
const plain = document.getElementById("plain");
const options = { fields: [], events: [], journeys: [], segments: [], channels: [] };
const touchpoints = new Map(); // by journey: [{id, name}], undefined until they are read

let tree; // undefined: rows cannot say the text
let ours; // the text that the tree was written as, or read from
let strict = false; // what is not filled in is marked
let fault = ""; // what the gateway says of the condition
let faulty; // the row that it says it of

const say = (key, values = {}) => (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name]);

function element(tag, properties, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c !== undefined));
  return e;
}

const icon = (name) => document.getElementById(`icon-${name}`).content.firstElementChild.cloneNode(true);

// Rows.

const freshRow = () => ({ what: "name", op: "is" });
const freshGroup = () => ({ join: "all", items: [freshRow()] });
const identity = ["name", "event", "journey", "node", "segment"]; // what a row is about, before its operator

// An operator of events has a second one, with In, for a span of time.
const windowed = (op) => op.endsWith("In");
const labelOf = (what, op) => texts[`op.${what}.${op}`] ?? say(`op.${op}`);

function picker(label, key, value, choices, change, bad) {
  const known = choices.flatMap((c) => c.choices ?? [c]).some((c) => c.value === value);
  const all = known || !value ? choices : [...choices, { value, label: value }];
  const option = (c) => {
    const o = element("option", { value: c.value }, c.label);
    o.selected = c.value === value;
    return o;
  };
  return element("select", { "aria-label": label, "data-key": key, ...bad, oninput: (event) => change(event.target.value) },
    ...(value ? [] : [element("option", { value: "" }, say("choose"))]),
    ...all.map((c) => (c.choices ? element("optgroup", { label: c.label }, ...c.choices.map(option)) : option(c))));
}

function input(label, key, value, type, change, bad, more = {}) {
  const e = element("input", { type, "aria-label": label, "data-key": key, autocomplete: "off", dir: type === "text" ? "auto" : undefined, ...bad, ...more, oninput: (event) => change(event.target.value) });
  e.value = value;
  return e;
}

// offsetAt is the offset of the page's zone at the beginning of a day.
function offsetAt(day) {
  const zone = document.documentElement.dataset.zone;
  const of = (at) => new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" }).formatToParts(at).find((p) => p.type === "timeZoneName").value.slice(3) || "+00:00";
  const noon = new Date(`${day}T12:00:00Z`);
  return Number.isNaN(noon.getTime()) ? "Z" : of(new Date(`${day}T00:00:00${of(noon)}`));
}

// control is the input of one part of a row, or several.
function control(row, { part, kind }, label, key, bad) {
  const value = row[part] ?? "";
  const set = (v) => {
    row[part] = v;
    changed();
  };
  const ids = (list) => list.map(({ id, name }) => ({ value: id, label: name }));
  switch (kind) {
    case "number": {
      const choices = whats[row.what].choices?.map((c) => ({ value: c, label: say(`gender.${c}`) }));
      return [choices ? picker(label, key, value, choices, (v) => redraw(() => set(v)), bad) : input(label, key, value, "number", set, bad, { step: "any" })];
    }
    case "times":
      return [input(label, key, value, "number", set, bad, { step: 1, min: 1, max: 1000, class: "short" }), element("span", {}, say("times"))];
    case "day":
      return [input(label, key, value, "date", set, bad)];
    case "moment": {
      const offset = element("span", { class: "muted small" }, zone(value));
      const day = input(label, key, value.slice(0, 10), "date", (v) => {
        set(v && `${v}T00:00:00${offsetAt(v)}`);
        offset.textContent = zone(row[part]);
      }, bad);
      return [day, offset];
    }
    case "span":
    case "days": {
      const hours = value.endsWith("h");
      const number = value.replace(/\D/g, "");
      const compose = (n, inHours) => set(inHours ? `${n}h` : `P${n}D`);
      const unit = [{ value: "days", label: say("days") }, { value: "hours", label: say("hours") }];
      const amount = input(label, key, number, "number", (n) => compose(n, row[part]?.endsWith("h")), bad, { step: 1, min: 1, class: "short" });
      return kind === "days" ? [amount, element("span", {}, say("days"))] : [amount, picker(say("label.unit"), `${key}-unit`, hours ? "hours" : "days", unit, (u) => compose(amount.value, u === "hours"), { class: "short" })];
    }
    case "event":
      return [input(label, key, value, "text", set, bad, { list: "builder-events", dir: "ltr", spellcheck: "false" })];
    case "name":
      return [input(label, key, value, "text", set, bad, { list: row.what === "consents" ? "builder-channels" : "builder-fields" })];
    case "journey":
      return [picker(label, key, value, ids(options.journeys), (v) => redraw(() => {
        delete row.node;
        set(v);
      }), bad)];
    case "node":
      return [picker(label, key, value, ids(touchpointsOf(row.journey)), (v) => redraw(() => set(v)), bad)];
    case "segment":
      return [picker(label, key, value, ids(options.segments), (v) => redraw(() => set(v)), bad)];
  }
  return [input(label, key, value, "text", set, bad)];
}

// zone is the offset that a time has.
const zone = (at) => at.slice(19).replace("Z", "+00:00");

// touchpointsOf lists the messages of a journey: of its draft, and of what is published.
function touchpointsOf(journey) {
  if (!journey) return [];
  if (!touchpoints.has(journey)) {
    touchpoints.set(journey, []);
    const at = `/journeys/${encodeURIComponent(journey)}/canvas.json`;
    Promise.all([`${at}?draft=true`, at].map(async (url) => {
      const answer = await fetch(url);
      return answer.ok ? await answer.json() : {};
    })).then((all) => {
      const found = new Map();
      for (const n of all.flatMap((j) => (j.draft ?? j.definition)?.nodes ?? [])) if (n.type === "touchpoint") found.set(n.id, { id: n.id, name: n.label || n.id });
      touchpoints.set(journey, [...found.values()]);
      redraw();
    }, () => {}); // their ids can be read, and none can be chosen
  }
  return touchpoints.get(journey);
}

// kindsOfOps are the operators of custom fields, whose values have no type of their own, by what they take.
const kindsOfOps = {
  text: ["is", "isNot", "contains", "notContains", "starts", "ends"],
  number: ["eq", "neq", "gt", "gte", "lt", "lte", "range"],
  boolean: ["yes", "no"],
  date: ["before", "after", "period", "last", "next"],
  any: ["set", "unset"],
};

function rowElement(row, path, number, remove) {
  const { forms, named } = whats[row.what];
  const custom = row.what === "customFields";
  const seen = custom && options.fields.some((f) => f.name === row.name) && !row.other;
  const bad = new Map((strict ? faultsOf(row) : []).map(({ part }) => [part, true]));
  const id = `fault-${path}`;
  const says = row === faulty ? fault : bad.size > 0 ? say(`missing.${faultsOf(row)[0].kind}`) : "";
  const marks = (part) => (bad.has(part) || row === faulty ? { "aria-invalid": "true", "aria-describedby": id } : {});
  const what = (name) => ({ value: name, label: say(`what.${name}`) });
  const inGroup = (group) => Object.keys(whats).filter((name) => whats[name].group === group).map(what);
  const choices = [
    { label: say("part.lead"), choices: inGroup("lead") },
    { label: say("part.behaviour"), choices: inGroup("behaviour") },
    { label: say("part.custom"), choices: [...options.fields.map(({ name }) => ({ value: `customFields:${name}`, label: name })), { value: "customFields", label: say("what.customFields") }] },
  ];
  const part = (each) => control(row, each, say(`label.${each.part}`), `${path}:${each.part}`, marks(each.part));
  const parts = partsOf(row).filter((p) => !(p.part === "name" && seen));
  const first = parts.filter((p) => identity.includes(p.part));
  const rest = parts.filter((p) => !identity.includes(p.part));
  const option = (op) => ({ value: op, label: labelOf(row.what, op) });
  const ops = custom ? Object.entries(kindsOfOps).map(([kind, list]) => ({ label: say(`kind.${kind}`), choices: list.map(option) })) : Object.keys(forms).filter((op) => !windowed(op)).map(option);
  const changeOp = (op) => redraw(() => {
    if (row.what === "event" && windowed(row.op)) op += "In";
    row.op = op;
    changed();
  });
  const spans = rest.filter((p) => p.part === "span");
  const within = row.what === "event" && picker(say("label.within"), `${path}:within`, windowed(row.op) ? "in" : "ever", [{ value: "ever", label: say("ever") }, { value: "in", label: say("inLast") }], (v) => redraw(() => {
    row.op = row.op.replace(/In$/, "") + (v === "in" ? "In" : "");
    row.span ??= "P30D";
    changed();
  }), {});
  const values = rest.filter((p) => row.what !== "event" || p.part !== "span").flatMap((p, i) => [...(i > 0 ? [element("span", {}, say("and"))] : []), ...part(p)]);
  const shown = element("div", { class: `rule${says ? " faulty" : ""}`, role: "group", "aria-label": say("condition", { n: number }) },
    element("div", { class: "rule-parts" },
      picker(say("label.what"), `${path}:what`, seen ? `customFields:${row.name}` : row.what, choices, (v) => redraw(() => choose(row, v)), {}),
      ...first.flatMap(part),
      picker(say("label.op"), `${path}:op`, row.op.replace(/In$/, ""), ops, changeOp, {}),
      ...values,
      ...(within ? [within, ...spans.flatMap(part)] : [])),
    element("button", { type: "button", class: "copy", "aria-label": say("remove", { n: number }), "data-key": `${path}:remove`, onclick: remove }, icon("close")),
    says ? element("p", { class: "fault", id }, icon("warning"), says) : undefined);
  rowOf.set(shown, row);
  return shown;
}

const rowOf = new WeakMap(); // by element

// choose makes a row about something else.
function choose(row, value) {
  const [what, ...rest] = value.split(":");
  const name = rest.join(":");
  for (const member of Object.keys(row)) delete row[member];
  row.what = what;
  row.op = Object.keys(whats[what].forms)[0];
  if (what === "customFields") {
    if (name) row.name = name;
    else row.other = true;
    row.op = { number: "eq", boolean: "yes" }[options.fields.find((f) => f.name === name)?.type] ?? "is";
  }
  if (what === "event") row.n = "1";
  if (partsOf(row).some((p) => p.part === "span")) row.span = "P30D";
  changed();
}

function groupElement(group, path, number, depth, remove) {
  const joins = ["all", "any", "none"].map((join) => ({ value: join, label: say(`join.${join}`) }));
  const add = (item) => () => {
    group.items.push(item());
    redraw(changed, `${path}.${group.items.length - 1}`);
  };
  const items = group.items.map((item, i) => {
    const n = number ? `${number}.${i + 1}` : `${i + 1}`;
    const drop = () => {
      group.items.splice(i, 1);
      if (group.items.length === 0 && depth === 0) group.items.push(freshRow());
      redraw(changed, group.items.length > 0 ? `${path}.${Math.min(i, group.items.length - 1)}` : path);
    };
    return element("li", {}, item.join ? groupElement(item, `${path}.${i}`, n, depth + 1, drop) : rowElement(item, `${path}.${i}`, n, drop));
  });
  return element("div", { class: `rules-of ${group.join}`, role: "group", "aria-label": number ? say("groupN", { n: number }) : say("conditions") },
    element("div", { class: "rule-head" },
      element("div", { class: "rule-parts" },
        element("span", {}, say("join.before")),
        picker(say("label.join"), `${path}:join`, group.join, joins, (v) => redraw(() => {
          group.join = v;
          changed();
        }), {})),
      ...(remove ? [element("button", { type: "button", class: "copy", "aria-label": say("removeGroup", { n: number }), "data-key": `${path}:remove`, onclick: remove }, icon("close"))] : [])),
    element("ol", { class: "rules" }, ...items),
    strict && group.items.length === 0 ? element("p", { class: "fault" }, icon("warning"), say("missing.group")) : undefined,
    element("div", { class: "rule-add" },
      element("button", { type: "button", class: "button small", "data-key": `${path}:add`, onclick: add(freshRow) }, icon("plus"), say("add")),
      ...(depth < 3 ? [element("button", { type: "button", class: "button small quiet", "data-key": `${path}:add-group`, onclick: add(freshGroup) }, icon("plus"), say("addGroup"))] : [])));
}

// redraw shows the tree as it is after a change; the focus stays, or goes to the first control of a path.
function redraw(change, path) {
  const before = document.activeElement;
  const key = before?.dataset.key;
  const caret = before?.type === "text" ? [before.selectionStart, before.selectionEnd] : undefined;
  change?.();
  const list = (id, values) => element("datalist", { id }, ...values.map((value) => element("option", { value })));
  place.replaceChildren(
    ...(tree
      ? [groupElement(tree, "0", "", 0), ...(fault && !faulty ? [element("p", { class: "fault", role: "alert" }, icon("warning"), fault)] : [])]
      : [element("div", { class: "note info" }, icon("pen"), element("p", {}, say("byHand")))]),
    list("builder-events", options.events), list("builder-channels", options.channels), list("builder-fields", options.fields.map((f) => f.name)));
  const focus = path ? place.querySelector(`[data-key^="${path}:"], [data-key^="${path}."]`) : key && [...place.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key);
  focus?.focus();
  if (caret && focus?.type === "text" && focus.dataset.key === key) focus.setSelectionRange(...caret);
}

// changed writes the tree, once it is complete, and counts what it says.
function changed() {
  fault = "";
  faulty = undefined;
  // What has been mended is no longer marked; the controls stay, since one of them is in use.
  for (const bad of place.querySelectorAll(".rule.faulty")) {
    if (faultsOf(rowOf.get(bad)).length > 0) continue;
    bad.classList.remove("faulty");
    bad.querySelector(".fault").remove();
    for (const e of bad.querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid");
  }
  if (complete(tree)) {
    area.value = ours = write(tree).text;
    soon();
  } else {
    stop();
    told(say("incomplete"));
  }
}

// The count: after a pause, one call at a time, of the condition as it is then.

const pause = 500; // milliseconds
let timer;
let counting = false;
let again = false;

function soon() {
  clearTimeout(timer);
  timer = setTimeout(count, pause);
}

function stop() {
  clearTimeout(timer);
  again = false;
}

// told says in place of the count why there is none.
function told(text) {
  const card = document.getElementById("count");
  card.querySelector(".stat-value").textContent = "–";
  card.querySelectorAll(".stat-value ~ *").forEach((e) => e.remove());
  card.append(element("p", { class: "muted" }, text));
}

async function count() {
  if (counting) return void (again = true);
  if (area.value.trim() === "") return told(say("incomplete"));
  const counted = area.value;
  counting = true;
  document.getElementById("count").setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.dataset.count, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("count");
    if (found && counted === area.value && !unfinished()) {
      document.getElementById("count").replaceWith(found);
      showFault(page.getElementById("fault-when")?.textContent ?? "");
    }
  } catch {
    // the button counts, too
  }
  document.getElementById("count").removeAttribute("aria-busy");
  counting = false;
  if (again) {
    again = false;
    count();
  }
}

// showFault says what is wrong at the row that it is about, and at the text.
function showFault(message) {
  fault = message;
  faulty = undefined;
  if (tree && message && area.value === ours && complete(tree)) {
    const { text, places } = write(tree);
    const position = /line (\d+), column (\d+)/.exec(message);
    const ids = message.match(/(?:jrn|seg)_[0-9a-z]{26}/g) ?? [];
    if (position && text === ours) {
      const before = text.split("\n").slice(0, Number(position[1]) - 1).reduce((n, line) => n + line.length + 1, 0);
      const line = text.slice(before).split("\n", 1)[0];
      const at = before + [...line].slice(0, Number(position[2]) - 1).join("").length;
      faulty = places.find(({ from, to }) => at >= from && at < to)?.row;
    }
    faulty ??= places.find(({ row }) => ids.some((id) => id === row.journey || id === row.segment))?.row;
    redraw();
  }
  const shown = document.getElementById("fault-when");
  shown?.remove();
  area.removeAttribute("aria-invalid");
  if (message) {
    plain.querySelector(".field").append(element("p", { class: "fault", id: "fault-when" }, icon("warning"), message));
    area.setAttribute("aria-invalid", "true");
    area.setAttribute("aria-describedby", "fault-when");
  } else area.setAttribute("aria-describedby", "hint-when");
  editor?.problem(message);
  plain.classList.toggle("faulty", Boolean(message));
}

// The text, in an editor that is loaded once it is looked at.

let editor;
let loading;

async function edit() {
  loading ??= import(form.dataset.code);
  try {
    const { expression } = await loading;
    if (editor) return;
    const holder = element("div", { class: "expression" });
    area.after(holder);
    editor = expression(holder, {
      language: "cel", value: area.value, nonce: form.nonce, placeholder: "",
      attributes: { "aria-labelledby": "tab-text", "aria-describedby": "hint-when", "aria-multiline": "true" },
      names: () => ({ fields: options.fields.map((f) => f.name), touchpoints: [], segment: true }),
      change: (value) => {
        area.value = value;
        soon();
      },
    });
    area.hidden = true;
    editor.problem(fault);
  } catch {
    // the plain text stays
  }
}

// Tabs.

const tabs = [...form.querySelectorAll("[role=tab]")];

function show(name) {
  for (const tab of tabs) {
    const here = tab.dataset.tab === name;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !here;
  }
  area.required = false; // it may be hidden; the gateway asks for it
  if (name === "text") {
    editor?.set(area.value);
    edit();
    return;
  }
  if (area.value !== ours) {
    ours = area.value;
    tree = area.value.trim() === "" ? freshGroup() : read(area.value);
    strict = false;
    showFault(fault); // at its row
  }
  redraw();
}

// unfinished tells whether rows are shown that are not in the text yet.
const unfinished = () => tabs[0].getAttribute("aria-selected") === "true" && tree && !complete(tree);

for (const tab of tabs) {
  tab.addEventListener("click", () => show(tab.dataset.tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = tabs.find((t) => t !== tab);
    show(other.dataset.tab);
    other.focus();
  });
}

area.addEventListener("input", soon);

form.addEventListener("submit", (event) => {
  const counts = event.submitter?.hasAttribute("formaction");
  if (unfinished()) {
    event.preventDefault();
    strict = true;
    redraw();
    place.querySelector("[aria-invalid]")?.focus();
  } else if (counts) {
    event.preventDefault();
    count();
  }
});

form.querySelector("[data-tabs]").hidden = false;
tree = area.value.trim() === "" ? freshGroup() : read(area.value);
ours = area.value;
show(tree ? "rows" : "text");
const said = document.getElementById("fault-when")?.textContent.trim();
if (said) showFault(said);
if (area.value.trim() !== "" && !said) count();

fetch(form.dataset.options).then(async (answer) => {
  if (!answer.ok) return;
  Object.assign(options, await answer.json());
  redraw();
}, () => {}); // names can be typed
