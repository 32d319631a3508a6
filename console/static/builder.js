// The form of a segment: rows and groups beside the text of the condition (condition.js), and the
// count of the condition as it stands.
import { complete, faultsOf, partsOf, properties, read, whats, write } from "./condition.js";

const form = document.querySelector("form[data-builder]");
const area = form.elements.when;
const texts = JSON.parse(form.dataset.texts);
const place = document.getElementById("builder");
const plain = document.getElementById("plain");
const options = { fields: [], events: [], properties: {}, journeys: [], segments: [], channels: [] };
const touchpoints = new Map(); // by journey: [{id, name}], undefined until they are read

let tree; // undefined: rows cannot say the text
let ours; // the text that the tree was written as, or read from
let strict = false; // what is not filled in is marked
let fault = ""; // what the gateway says of the condition
let faulty; // the row that it is about

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

const newRow = () => ({ what: "name", op: "is" });
const newGroup = () => ({ join: "all", items: [newRow()] });
const identity = ["name", "event", "journey", "node", "segment"]; // what a row is about, before its operator

// Operators of events have two parts that others lack: done, doneIn (within a span of time),
// done.gt and doneIn.gt (of a property that is so).
const windowed = (op) => op.split(".")[0].endsWith("In");
const baseOf = (op) => op.split(".")[0].replace(/In$/, "");
const propertyOf = (op) => op.split(".")[1] ?? "";

// changeOp changes a part of a row's operator.
function changeOp(row, { base = baseOf(row.op), within = windowed(row.op), property = propertyOf(row.op) }) {
  redraw(() => {
    row.op = base + (within ? "In" : "") + (property && `.${property}`);
    if (within) row.span ??= "P30D";
    changed();
  });
}

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
  const e = element("input", {
    type, "aria-label": label, "data-key": key, autocomplete: "off", dir: type === "text" ? "auto" : undefined, ...bad, ...more,
    oninput: (event) => change(event.target.value),
  });
  e.value = value;
  return e;
}

// offsetAt is the offset of the page's zone at the beginning of a day.
function offsetAt(day) {
  const zone = document.documentElement.dataset.zone;
  const format = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" });
  const of = (at) => format.formatToParts(at).find((p) => p.type === "timeZoneName").value.slice(3) || "+00:00"; // of GMT+08:00
  const noon = new Date(`${day}T12:00:00Z`);
  return Number.isNaN(noon.getTime()) ? "Z" : of(new Date(`${day}T00:00:00${of(noon)}`));
}

// momentInputs are those of the beginning of a day in the page's zone.
function momentInputs(value, label, key, bad, set) {
  const offset = element("span", { class: "muted small" }, zone(value));
  const day = input(label, key, value.slice(0, 10), "date", (v) => {
    const at = v && `${v}T00:00:00${offsetAt(v)}`;
    set(at);
    offset.textContent = zone(at);
  }, bad);
  return [day, offset];
}

// spanInputs are those of a span of days, or, where inHours is true or false, of days or hours.
function spanInputs(value, inHours, label, key, bad, set) {
  const compose = (n, hours) => set(hours ? `${n}h` : `P${n}D`);
  const amount = input(label, key, value.replace(/\D/g, ""), "number", (n) => compose(n, inHours), bad, { step: 1, min: 1, class: "short" });
  if (inHours === undefined) return [amount, element("span", {}, say("days"))];
  const choices = [{ value: "days", label: say("days") }, { value: "hours", label: say("hours") }];
  const unit = picker(say("label.unit"), `${key}-unit`, inHours ? "hours" : "days", choices, (u) => {
    inHours = u === "hours";
    compose(amount.value, inHours);
  }, { class: "short" });
  return [amount, unit];
}

// control has the inputs of one part of a row.
function control(row, { part, kind }, label, key, bad) {
  const value = row[part] ?? "";
  const set = (v) => {
    row[part] = v;
    changed();
  };
  const choice = (choices) => picker(label, key, value, choices, (v) => redraw(() => set(v)), bad);
  const ids = (list) => list.map(({ id, name }) => ({ value: id, label: name }));
  switch (kind) {
    case "number": {
      const choices = whats[row.what].choices?.map((c) => ({ value: c, label: say(`gender.${c}`) }));
      return [choices ? choice(choices) : input(label, key, value, "number", set, bad, { step: "any" })];
    }
    case "times":
      return [input(label, key, value, "number", set, bad, { step: 1, min: 1, max: 1000, class: "short" }), element("span", {}, say("times"))];
    case "day":
      return [input(label, key, value, "date", set, bad)];
    case "moment":
      return momentInputs(value, label, key, bad, set);
    case "span":
      return spanInputs(value, value.endsWith("h"), label, key, bad, set);
    case "days":
      return spanInputs(value, undefined, label, key, bad, set);
    case "event":
      return [input(label, key, value, "text", set, bad, { list: "builder-events", dir: "ltr", spellcheck: "false" })];
    case "name":
      return [input(label, key, value, "text", set, bad, { list: { consents: "builder-channels", event: "builder-properties" }[row.what] ?? "builder-fields" })];
    case "journey":
      return [picker(label, key, value, ids(options.journeys), (v) => redraw(() => {
        delete row.node;
        set(v);
      }), bad)];
    case "node":
      return [choice(ids(touchpointsOf(row.journey)))];
    case "segment":
      return [choice(ids(options.segments))];
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
      for (const { id, type, label } of all.flatMap((j) => (j.draft ?? j.definition)?.nodes ?? [])) {
        if (type === "touchpoint") found.set(id, { id, name: label || id });
      }
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

// listed tells whether the picker lists the custom field that a row is about: its name needs no input.
const listed = (row) => row.what === "customFields" && !row.other && options.fields.some((f) => f.name === row.name);

function whatPicker(row, path) {
  const what = (name) => ({ value: name, label: say(`what.${name}`) });
  const inGroup = (group) => Object.keys(whats).filter((name) => whats[name].group === group).map(what);
  const fields = options.fields.map(({ name }) => ({ value: `customFields:${name}`, label: name }));
  const choices = [
    { label: say("part.lead"), choices: inGroup("lead") },
    { label: say("part.behaviour"), choices: inGroup("behaviour") },
    { label: say("part.custom"), choices: [...fields, ...inGroup("custom")] },
  ];
  const value = listed(row) ? `customFields:${row.name}` : row.what;
  return picker(say("label.what"), `${path}:what`, value, choices, (v) => redraw(() => choose(row, v)), {});
}

function opPicker(row, path) {
  const option = (op) => ({ value: op, label: texts[`op.${row.what}.${op}`] ?? say(`op.${op}`) });
  const choices = row.what === "customFields"
    ? Object.entries(kindsOfOps).map(([kind, ops]) => ({ label: say(`kind.${kind}`), choices: ops.map(option) }))
    : Object.keys(whats[row.what].forms).filter((op) => op === baseOf(op)).map(option);
  return picker(say("label.op"), `${path}:op`, baseOf(row.op), choices, (base) => changeOp(row, { base }), {});
}

// withinPicker says whether all events count, or those of a span of time.
function withinPicker(row, path) {
  const choices = [{ value: "ever", label: say("ever") }, { value: "in", label: say("inLast") }];
  return picker(say("label.within"), `${path}:within`, windowed(row.op) ? "in" : "ever", choices, (v) => changeOp(row, v === "in" ? { within: true } : { within: false, property: "" }), {});
}

// Operators of properties, by the type that they compare.
const propertyKinds = ["text", "number"].map((kind) => [kind, kindsOfOps[kind].filter((op) => op in properties)]);

// wherePicker says whether all events count, or those with a property. Properties are read of events that
// are kept, so these have a span of time.
function wherePicker(row, path) {
  const choices = [{ value: "any", label: say("whatever") }, { value: "with", label: say("where") }];
  return picker(say("label.where"), `${path}:where`, propertyOf(row.op) ? "with" : "any", choices, (v) => changeOp(row, v === "with" ? { property: "is", within: true } : { property: "" }), {});
}

function propertyPicker(row, path) {
  const choices = propertyKinds.map(([kind, ops]) => ({ label: say(`kind.${kind}`), choices: ops.map((op) => ({ value: op, label: say(`op.${op}`) })) }));
  return picker(say("label.op"), `${path}:property`, propertyOf(row.op), choices, (property) => changeOp(row, { property }), {});
}

const removeButton = (label, path, remove) => element("button", {
  type: "button", class: "copy", "aria-label": label, "data-key": `${path}:remove`, onclick: remove,
}, icon("close"));

const rowOf = new WeakMap(); // by element

function rowElement(row, path, number, remove) {
  const faults = strict ? faultsOf(row) : [];
  const says = row === faulty ? fault : faults.length > 0 ? say(`missing.${faults[0].kind}`) : "";
  const id = `fault-${path}`;
  const marks = (part) => (row === faulty || faults.some((f) => f.part === part) ? { "aria-invalid": "true", "aria-describedby": id } : {});
  const inputs = (parts) => parts.flatMap((p) => control(row, p, say(`label.${p.part}`), `${path}:${p.part}`, marks(p.part)));
  const parts = partsOf(row).filter((p) => p.part !== "name" || !listed(row));
  const ofEvent = row.what === "event" ? parts.filter((p) => ["span", "name", "text", "amount"].includes(p.part)) : [];
  const [spans, names, compared] = [["span"], ["name"], ["text", "amount"]].map((of) => ofEvent.filter((p) => of.includes(p.part)));
  const first = parts.filter((p) => identity.includes(p.part) && !ofEvent.includes(p));
  const values = parts.filter((p) => !first.includes(p) && !ofEvent.includes(p));
  const shown = element("div", { class: `rule${says ? " faulty" : ""}`, role: "group", "aria-label": say("condition", { n: number }) },
    element("div", { class: "rule-parts" },
      whatPicker(row, path),
      ...inputs(first),
      opPicker(row, path),
      ...values.flatMap((p, i) => [...(i > 0 ? [element("span", {}, say("and"))] : []), ...inputs([p])]),
      ...(row.what === "event" ? [withinPicker(row, path), ...inputs(spans), wherePicker(row, path), ...inputs(names)] : []),
      propertyOf(row.op) ? propertyPicker(row, path) : undefined,
      ...inputs(compared)),
    removeButton(say("remove", { n: number }), path, remove),
    says ? element("p", { class: "fault", id }, icon("warning"), says) : undefined);
  rowOf.set(shown, row);
  return shown;
}

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

const deepest = 3; // groups that a group can be in

function groupElement(group, path, number, depth, remove) {
  const joins = ["all", "any", "none"].map((join) => ({ value: join, label: say(`join.${join}`) }));
  const add = (item) => () => {
    group.items.push(item());
    redraw(changed, `${path}.${group.items.length - 1}`);
  };
  const addButton = (label, key, item, quiet) => element("button", {
    type: "button", class: `button small${quiet}`, "data-key": `${path}:${key}`, onclick: add(item),
  }, icon("plus"), say(label));
  const items = group.items.map((item, i) => {
    const n = number ? `${number}.${i + 1}` : `${i + 1}`;
    const drop = () => {
      group.items.splice(i, 1);
      if (group.items.length === 0 && depth === 0) group.items.push(newRow());
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
      remove ? removeButton(say("removeGroup", { n: number }), path, remove) : undefined),
    element("ol", { class: "rules" }, ...items),
    strict && group.items.length === 0 ? element("p", { class: "fault" }, icon("warning"), say("missing.group")) : undefined,
    element("div", { class: "rule-add" },
      addButton("add", "add", newRow, ""),
      depth < deepest ? addButton("addGroup", "add-group", newGroup, " quiet") : undefined));
}

// redraw shows the tree as it is after a change; the focus stays, or goes to the first control of a path.
function redraw(change, path) {
  const before = document.activeElement;
  const key = before?.dataset.key;
  const caret = before?.type === "text" ? [before.selectionStart, before.selectionEnd] : undefined;
  change?.();
  const list = (id, values) => element("datalist", { id }, ...values.map((value) => element("option", { value })));
  const shown = tree ? [groupElement(tree, "0", "", 0)] : [element("div", { class: "note info" }, icon("pen"), element("p", {}, say("byHand")))];
  if (tree && fault && !faulty) shown.push(element("p", { class: "fault", role: "alert" }, icon("warning"), fault));
  place.replaceChildren(...shown,
    list("builder-events", options.events), list("builder-channels", options.channels), list("builder-fields", options.fields.map((f) => f.name)),
    list("builder-properties", [...new Set(Object.values(options.properties).flat())]));
  const focus = path
    ? place.querySelector(`[data-key^="${path}:"], [data-key^="${path}."]`)
    : key && [...place.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key);
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
    explain(say("incomplete"));
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

// explain says in place of the count why there is none.
function explain(text) {
  const card = document.getElementById("count");
  card.querySelector(".stat-value").textContent = "–";
  card.querySelectorAll(".stat-value ~ *").forEach((e) => e.remove());
  card.append(element("p", { class: "muted" }, text));
}

async function count() {
  if (counting) return void (again = true);
  if (area.value.trim() === "") return explain(say("incomplete"));
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

// offsetOf is where a line and a column of a text are. The gateway counts characters from 1, and scripts
// count UTF-16 units.
function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
  return before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
}

// rowAbout is the row that a message of the gateway is about, by its position or an id in it.
function rowAbout(message) {
  const { text, places } = write(tree);
  const position = /line (\d+), column (\d+)/.exec(message);
  const at = position && text === ours ? offsetOf(text, Number(position[1]), Number(position[2])) : -1;
  const ids = message.match(/(?:jrn|seg)_[0-9a-z]{26}/g) ?? [];
  const found = places.find(({ from, to }) => at >= from && at < to)
    ?? places.find(({ row }) => ids.includes(row.journey) || ids.includes(row.segment));
  return found?.row;
}

// showFault says what is wrong at the row that it is about, and at the text.
function showFault(message) {
  fault = message;
  faulty = undefined;
  if (tree && message && area.value === ours && complete(tree)) {
    faulty = rowAbout(message);
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
      names: () => ({ fields: options.fields.map((f) => f.name), touchpoints: [], place: "segment" }),
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
    tree = area.value.trim() === "" ? newGroup() : read(area.value);
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
tree = area.value.trim() === "" ? newGroup() : read(area.value);
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
