// The page of a dry run: finds a lead by what one types, drops events on the time line and moves
// them, runs again after each change, and lights the path up on the canvas.
const form = document.getElementById("try");
const rows = form.querySelector("[data-events]");
const units = { days: 86400e3, hours: 3600e3, minutes: 60e3 };
const wait = 400; // milliseconds after a change until it runs again
let timer;
let asked = 0;

// run replaces the outcome of the run by that of the form as it is now.
async function run() {
  const mine = ++asked;
  const place = document.getElementById("run");
  if (!ready()) return;
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked || !page.getElementById("run")) return place.removeAttribute("aria-busy");
    for (const id of ["run", "outcome"]) document.getElementById(id).replaceWith(page.getElementById(id));
    document.querySelector("[data-name]").textContent = page.querySelector("[data-name]").textContent;
    light();
  } catch {
    place.removeAttribute("aria-busy"); // the button runs it, too
  }
}

const ready = () => form.querySelector("[name=who]:checked").value === "invented" || /^\s*\d+\s*$/.test(form.elements.leadsId.value);

function soon() {
  clearTimeout(timer);
  timer = setTimeout(run, wait);
}

// light shows what was passed on the canvas, which names its nodes and edges in data-id.
const lit = new CSSStyleSheet();
document.adoptedStyleSheets.push(lit);
function light() {
  const path = JSON.parse(document.getElementById("run").dataset.lit || "null");
  document.getElementById("canvas").classList.toggle("lit", Boolean(path));
  const all = path ? [...path.nodes.map((id) => ["node", id]), ...path.edges.map((id) => ["edge", id])] : [];
  const looks = {
    edge: (rule) => `${rule} { opacity: 1; } ${rule} .react-flow__edge-path { stroke: var(--accent); stroke-width: 2.5; }`,
    node: (rule) => `${rule} .wp-step { border: 1.5px solid var(--accent); background: var(--accent-soft); } ${rule} .wp-step-title { color: var(--text); font-weight: 600; } ${rule} .wp-step-icon { opacity: 1; }`,
  };
  lit.replaceSync(all.map(([kind, id]) => looks[kind](`#canvas.lit .react-flow__${kind}[data-id="${CSS.escape(id)}"]`)).join("\n"));
}

// add puts a row for an event, at a time in milliseconds from the start on.
function add(name, at) {
  const row = document.getElementById("event-row").content.firstElementChild.cloneNode(true);
  rows.append(row);
  row.querySelector("[name='event.name']").value = name;
  if (at !== undefined) setTime(row, at);
  if (name) row.querySelector("[name='event.properties']").focus({ preventScroll: true });
  else row.querySelector("[name='event.name']").focus();
  if (name) run();
}

// setTime writes a time with the largest unit of which there is a whole one, to a hundredth.
function setTime(row, at) {
  const unit = Object.keys(units).find((u) => at >= units[u]) ?? "minutes";
  row.querySelector("[name='event.unit']").value = unit;
  row.querySelector("[name='event.after']").value = Math.round((at / units[unit]) * 100) / 100;
}

const line = () => document.getElementById("time-line");
const span = () => Number(line().dataset.span);

// timeAt is the time that a point of the time line stands for, in steps of a two-hundredth.
function timeAt(x) {
  const box = line().getBoundingClientRect();
  const share = Math.min(Math.max((x - box.left) / box.width, 0), 1);
  return (Math.round(share * 200) / 200) * span();
}

form.addEventListener("click", (event) => {
  if (event.target.closest("[data-add-event]")) add("");
  const drop = event.target.closest("[data-drop-row]");
  if (drop) {
    drop.closest("li").remove();
    run();
  }
  const chip = event.target.closest("[data-drop-event]");
  if (chip) add(chip.dataset.dropEvent, span() / 4);
});

// A chip is dragged onto the time line.
form.addEventListener("dragstart", (event) => {
  const chip = event.target.closest?.("[data-drop-event]");
  if (chip) event.dataTransfer.setData("text/x-waypost-event", chip.dataset.dropEvent);
});
form.addEventListener("dragover", (event) => {
  const over = event.target.closest?.(".time-line");
  if (over && event.dataTransfer.types.includes("text/x-waypost-event")) event.preventDefault();
  document.querySelector(".time-line")?.classList.toggle("over", Boolean(over));
});
form.addEventListener("drop", (event) => {
  if (!event.target.closest?.(".time-line")) return;
  event.preventDefault();
  document.querySelector(".time-line").classList.remove("over");
  add(event.dataTransfer.getData("text/x-waypost-event"), timeAt(event.clientX));
});

// An event on the time line is moved along it.
form.addEventListener("pointerdown", (event) => {
  const mark = event.target.closest?.(".mark.event");
  if (!mark) return;
  event.preventDefault();
  const row = rows.querySelectorAll(".event-row")[Number(mark.dataset.row)];
  const move = (moved) => {
    const at = timeAt(moved.clientX);
    mark.setAttribute("x", `${(100 * at) / span()}%`);
    setTime(row, at);
  };
  const end = () => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", end);
    run();
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
});

form.addEventListener("input", (event) => {
  if (event.target.type !== "radio" && !/^(draft|any|leadsId)$/.test(event.target.name)) soon();
});
form.addEventListener("change", (event) => {
  if (event.target.name === "draft") form.requestSubmit(form.querySelector(".submit-try button"));
  if (event.target.name === "who") run();
});

form.addEventListener("click", (event) => event.target.closest("[data-drop]") && soon()); // pairs.js has emptied the row

// The search for a lead: a combobox whose value is the lead's number.
const picker = form.querySelector("[data-picker]");
const input = picker.querySelector("input");
const list = Object.assign(document.createElement("ul"), { id: "found-leads", className: "found", hidden: true });
let searching;
let searched = 0;
list.setAttribute("role", "listbox");
list.setAttribute("aria-label", picker.dataset.found);
input.after(list);
for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "found-leads", "aria-autocomplete": "list" })) input.setAttribute(name, value);

function open(shown) {
  list.hidden = !shown;
  input.setAttribute("aria-expanded", String(shown));
  if (!shown) input.removeAttribute("aria-activedescendant");
}

async function search() {
  const mine = ++searched;
  const q = input.value.trim();
  if (q === "") return open(false);
  try {
    const answer = await fetch(picker.dataset.picker, { method: "POST", body: new URLSearchParams({ q, stage: form.elements.stage.value }) });
    if (!answer.ok || mine !== searched) return;
    const { items } = await answer.json();
    list.replaceChildren(...items.map((lead, i) => {
      const option = Object.assign(document.createElement("li"), { id: `found-${i}` });
      option.setAttribute("role", "option");
      option.dataset.id = lead.id;
      option.append(Object.assign(document.createElement("bdi"), { className: "strong", textContent: lead.name }), Object.assign(document.createElement("bdi"), { className: "muted small", textContent: [lead.id, lead.detail].filter(Boolean).join(" · ") }));
      return option;
    }));
    if (items.length === 0) {
      const none = Object.assign(document.createElement("li"), { className: "muted", textContent: picker.dataset.none });
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      list.append(none);
    }
    open(true);
  } catch {
    open(false);
  }
}

function choose(option) {
  if (!option?.dataset.id) return;
  input.value = option.dataset.id;
  picker.querySelector("[data-name]").textContent = option.querySelector("bdi").textContent;
  picker.querySelector(".fault")?.remove();
  open(false);
  run();
}

input.addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(search, 200);
});
input.addEventListener("keydown", (event) => {
  const options = [...list.querySelectorAll("[data-id]")];
  const at = options.findIndex((o) => o.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") open(false);
  if (event.key === "Enter" && !list.hidden && (at >= 0 || options.length > 0)) {
    event.preventDefault();
    choose(options[Math.max(at, 0)]);
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  event.preventDefault();
  if (options.length === 0) return;
  const next = options[(at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length];
  for (const o of options) o.setAttribute("aria-selected", String(o === next));
  input.setAttribute("aria-activedescendant", next.id);
  open(true);
});
input.addEventListener("blur", () => setTimeout(open, 150, false)); // after the click on an option
list.addEventListener("pointerdown", (event) => event.preventDefault()); // the focus stays where one types
list.addEventListener("click", (event) => choose(event.target.closest("li")));

light();
