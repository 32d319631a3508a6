// color is what a colour of console.css is in the theme that the page has now.
export function color(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
