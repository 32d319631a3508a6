// The module of every page: menus, dialogs, copying, times, tables that grow, live parts.
import { writeTimes } from "./zone.js";
import { live } from "./live.js";

writeTimes(document);
live();

// Where places and tabs are rows that scroll, at phone width, those that are shown are in sight.
for (const bar of document.querySelectorAll(".sidebar, .tabs")) {
  const here = bar.querySelector("[aria-current]");
  if (!here || bar.scrollWidth <= bar.clientWidth) continue;
  const at = here.getBoundingClientRect();
  bar.scrollLeft += at.left - (bar.clientWidth - at.width) / 2; // scrollIntoView would scroll the page, too
}

// What is wrong with a form may stand far below what is seen first, above all on a phone.
const wrong = [...document.querySelectorAll("main form [aria-invalid]")];
for (const field of wrong) field.closest("details")?.setAttribute("open", "");
wrong[0]?.focus({ preventScroll: true });
wrong[0]?.scrollIntoView({ block: "center" });

// One menu is open at a time; a click elsewhere and Escape close it.
const menus = () => document.querySelectorAll("details[data-menu][open]");
document.addEventListener("click", (event) => {
  for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of menus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.addEventListener("click", async (event) => {
  const opens = event.target.closest("[data-dialog]");
  if (opens) document.getElementById(opens.dataset.dialog).showModal();

  const closes = event.target.closest("[data-close]");
  if (closes) closes.closest("dialog").close();

  const copies = event.target.closest("[data-copy]");
  if (copies) {
    await navigator.clipboard.writeText(copies.dataset.copy);
    const label = copies.getAttribute("aria-label");
    copies.classList.add("done");
    copies.setAttribute("aria-label", copies.dataset.copied);
    copies.title = copies.dataset.copied;
    setTimeout(() => {
      copies.classList.remove("done");
      copies.setAttribute("aria-label", label);
      copies.removeAttribute("title");
    }, 1500);
  }

  const more = event.target.closest("[data-more]");
  if (more) {
    event.preventDefault();
    await append(more);
  }
});

// A form is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Forms with one select are sent when it changes.
document.addEventListener("change", (event) => event.target.closest("form[data-on-change]")?.requestSubmit());

// Filters apply as they are chosen; empty ones stay out of the URL.
for (const form of document.querySelectorAll("form[data-filters]")) {
  form.addEventListener("change", (event) => event.target.tagName === "SELECT" && form.requestSubmit());
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}

// Several choices of one filter apply when their menu closes.
for (const menu of document.querySelectorAll("details.several")) {
  const chosen = () => [...menu.querySelectorAll("input:checked")].map((box) => box.value).join();
  const before = chosen();
  menu.addEventListener("toggle", () => !menu.open && chosen() !== before && menu.closest("form").requestSubmit());
}

// Picked rows: a bar tells how many there are and what can be done with them.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-picks]");
  if (!form) return;
  if (event.target.matches("[data-pick-all]")) {
    for (const box of form.querySelectorAll("[data-pick]")) box.checked = event.target.checked;
  }
  const n = form.querySelectorAll("[data-pick]:checked").length;
  form.querySelector("[data-picked]").hidden = n === 0;
  for (const text of form.querySelectorAll("[data-count]")) text.textContent = (n === 1 && text.dataset.one || text.dataset.count).replace("{n}", n);
});

// The answer of a form that is a page of its own, such as a secret that is shown once, is
// not sent anew by a reload.
const place = document.querySelector("[data-place]");
if (place) history.replaceState(null, "", place.dataset.place);

// append adds the rows of the next page to the table above the link. The list is then no
// longer live: its first page alone is looked for.
async function append(link) {
  const answer = await fetch(link.href);
  if (!answer.ok) return location.assign(link.href);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const table = link.closest("p").previousElementSibling;
  const next = page.getElementById(table.id);
  if (!next) return location.assign(link.href);
  link.closest("[data-live]")?.removeAttribute("data-live");
  const rows = [...next.querySelectorAll("tbody > tr")];
  writeTimes(next);
  table.querySelector("tbody").append(...rows);
  const further = next.nextElementSibling?.querySelector("[data-more]");
  if (further) link.href = further.getAttribute("href");
  else link.closest("p").remove();
}
