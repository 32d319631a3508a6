// Rows of names and values: one more, one less.
document.addEventListener("click", (event) => {
  const add = event.target.closest("[data-add]");
  if (add) {
    const rows = add.closest("[data-pairs]").querySelectorAll(".pair");
    const last = rows[rows.length - 1];
    const fresh = last.cloneNode(true);
    for (const input of fresh.querySelectorAll("input")) input.value = "";
    fresh.querySelector(".fault")?.remove();
    last.after(fresh);
    fresh.querySelector("input").focus();
  }
  const drop = event.target.closest("[data-drop]");
  if (drop) {
    const row = drop.closest(".pair");
    if (row.parentElement.querySelectorAll(".pair").length > 1) row.remove();
    else for (const input of row.querySelectorAll("input")) input.value = "";
  }
});
