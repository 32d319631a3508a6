// Rows of names and values: one more, one less.
document.addEventListener("click", (event) => {
  const add = event.target.closest("[data-add]");
  if (add) {
    const rows = add.closest("[data-pairs]").querySelectorAll(".pair");
    const last = rows[rows.length - 1];
    const added = last.cloneNode(true);
    for (const input of added.querySelectorAll("input")) input.value = "";
    added.querySelector(".fault")?.remove();
    last.after(added);
    added.querySelector("input").focus();
  }
  const drop = event.target.closest("[data-drop]");
  if (drop) {
    const row = drop.closest(".pair");
    if (row.parentElement.querySelectorAll(".pair").length > 1) row.remove();
    else for (const input of row.querySelectorAll("input")) input.value = "";
  }
});
