// The page of a segment: has it counted once the page is there, since that may take seconds.
const place = document.querySelector("#count[data-count]");

async function count() {
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(place.dataset.count);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("count");
    if (found) place.replaceWith(found);
  } catch {
    // the link counts, too
  }
  place.removeAttribute("aria-busy");
}

if (place) count();
