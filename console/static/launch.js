// The form of a launch: counts its audience as it is filled in, and shows what belongs to the
// chosen time only.
const form = document.querySelector("form[data-count]");
let timer;
let asked = 0;

async function count() {
  const mine = ++asked;
  const place = document.getElementById("audience");
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.dataset.count, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("audience");
    if (mine === asked && found) place.replaceWith(found);
  } catch {
    place.removeAttribute("aria-busy"); // the button counts, too
  }
}

function show() {
  const chosen = form.querySelector("[name=when]:checked")?.value;
  for (const part of form.querySelectorAll("[data-when]")) part.hidden = part.dataset.when !== chosen;
  const cron = form.querySelector("[name=cron]").closest(".field");
  cron.hidden = form.querySelector("[name=preset]").value !== "cron";
}

if (form) {
  form.addEventListener("input", (event) => {
    show();
    if (!/^(when|at|preset|cron|timezone|rate|group|testLeads|testAfter|testUndecided)$/.test(event.target.name)) {
      clearTimeout(timer);
      timer = setTimeout(count, 400);
    }
  });
  show();
}
