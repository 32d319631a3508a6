// The text of a draft: asks before it is left unsaved; Ctrl+S saves; Tab indents, and after
// Escape leaves the text.
const text = document.querySelector("textarea[data-unsaved]");
if (text) {
  let saving = false;
  let leaves = false;
  const stored = text.defaultValue;
  addEventListener("beforeunload", (event) => {
    if (!saving && text.value !== stored) event.preventDefault();
  });
  text.form.addEventListener("submit", () => (saving = true));
  text.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      text.form.requestSubmit();
    } else if (event.key === "Escape") {
      leaves = true;
    } else if (event.key === "Tab" && !event.shiftKey && !leaves) {
      event.preventDefault();
      text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
    } else if (event.key !== "Shift") {
      leaves = false;
    }
  });
}
