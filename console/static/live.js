// Live parts: while the tab is visible, the content of the page is asked for again every so many
// seconds (X-Live), and its elements with data-live and an id are replaced if it has changed (ETag).
import { writeTimes } from "./zone.js";

const slowest = 15; // seconds between two tries while the console does not answer

export function live() {
  const retry = document.querySelector("[data-retry]");
  let every = Number(retry?.dataset.retry ?? document.body.dataset.liveEvery ?? 0);
  if (!every) return;

  const offline = document.querySelector("[data-offline]");
  let etag = "";
  let failures = 0;
  let timer;

  const wait = () => {
    clearTimeout(timer);
    const seconds = Math.min(every * 2 ** failures, Math.max(slowest, every));
    timer = setTimeout(look, seconds * 1000);
  };

  async function look() {
    if (document.visibilityState !== "visible") return; // until it is
    if (!retry && !document.querySelector("[data-live]")) return;
    try {
      const headers = { "X-Live": "1" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(location.href, { headers, cache: "no-store" });
      if (answer.redirected) return location.reload(); // signed out
      if (answer.status >= 500) throw new Error(answer.statusText);
      if (retry) return location.reload();
      failures = 0;
      if (offline) offline.hidden = true;
      if (answer.status === 200) {
        every = Number(answer.headers.get("X-Live"));
        etag = answer.headers.get("ETag") ?? "";
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      }
    } catch {
      failures++;
      if (offline) offline.hidden = false;
    }
    if (every) wait(); // else nothing more will happen
  }

  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && every && look());
  wait();
}

// replace leaves alone what somebody is using: a part with the focus, and one
// in which a dialog or something folded is open, rows are picked or text is selected.
function replace(page) {
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const now = page.getElementById(part.id);
    if (!now) continue;
    const selected = getSelection();
    const busy = part.contains(document.activeElement) || part.querySelector("dialog[open], [data-pick]:checked, details[open]") ||
      (selected && !selected.isCollapsed && part.contains(selected.anchorNode));
    if (busy) continue;
    writeTimes(now);
    if (now.innerHTML !== part.innerHTML) {
      part.replaceWith(now);
      now.dispatchEvent(new CustomEvent("live", { bubbles: true })); // for modules that draw in it
    }
  }
}
