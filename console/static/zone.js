// Times in the zone of the browser. The server writes them in the zone that the cookie
// names; until the cookie names the browser's zone, they are rewritten here.
const root = document.documentElement;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const secure = location.protocol === "https:";
const differs = zone && zone !== root.dataset.zone;

if (differs) {
  const name = secure ? "__Host-waypost-zone" : "waypost-zone";
  document.cookie = `${name}=${encodeURIComponent(zone)}; path=/; max-age=31536000; samesite=lax${secure ? "; secure" : ""}`;
}

const formats = {
  "zh-CN": new Intl.DateTimeFormat("zh-CN", { dateStyle: "long", timeStyle: "medium" }),
  en: new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" }),
};

// writeTimes rewrites the times below an element.
export function writeTimes(below) {
  if (!differs) return;
  for (const time of below.querySelectorAll("time[datetime]")) {
    time.textContent = (formats[root.lang] ?? formats.en).format(new Date(time.dateTime));
  }
}
