// Passkeys: a form with data-passkey (create or get) asks the browser for one, and is sent with its
// answer. It is hidden where the browser knows no passkeys.
for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) continue;
  form.hidden = false;
  const { credential: answer } = form.elements;
  const failed = form.querySelector("[data-failed]");
  form.addEventListener("submit", async (event) => {
    if (answer.value) return;
    event.preventDefault();
    failed.hidden = true;
    try {
      const { publicKey } = JSON.parse(form.dataset.options);
      const made = form.dataset.passkey === "create"
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
      answer.value = JSON.stringify(made.toJSON());
      form.requestSubmit();
    } catch {
      failed.hidden = false; // the person has canceled it, or it took too long
    }
  });
  // An answer is taken once: one that the browser has kept with the page is worth nothing.
  addEventListener("pageshow", () => (answer.value = ""));
}
