// Serves the canvas with sample journeys on 127.0.0.1, to look at it without a gateway:
//   node sample/serve.mjs [PORT] and then open /?journey=win-back
// Parameters: journey=NAME|large, edit, compare, lang=zh, dark, panel. The page has the policy of
// the console. What is edited lives until the server ends.

import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";

const here = new URL(".", import.meta.url);
const file = (path) => readFileSync(new URL(path, here));
const journeys = JSON.parse(file("journeys.json"));
journeys.large = large(200);
journeys.empty = { name: "Empty" };
journeys["win-back-before"] = before(journeys["win-back"]);
const stored = new Map(Object.entries(journeys).map(([name, draft]) => [name, { draft, revision: 1 }]));
const options = {
  webhooks: [{ id: "email", name: "E-mail" }, { id: "sms", name: "SMS" }, { id: "crm", name: "CRM" }],
  segments: [{ id: "seg_06jvh5r0g1s0q2k3m4n5p6q7r8", name: "Gold" }],
  journeys: [{ id: "jrn_06c1x4q9yg4cdnv2e7p5t8a3rm", name: "Welcome" }],
  events: ["login", "purchase", "clicked", "unsubscribed"],
  properties: { purchase: ["amount", "cart"] },
  fields: ["renewalDate", "lastOrder", "plan", "lifetimeValue"],
};

function large(n) {
  const nodes = [];
  const types = ["touchpoint", "delay", "branch", "waitForEvent", "split", "waitUntil"];
  for (let i = 0; i < n; i++) {
    const id = `n${i}`;
    const next = i + 3 < n ? `n${i + 3}` : undefined;
    const other = i + 5 < n ? `n${i + 4}` : undefined;
    const type = types[i % types.length];
    nodes.push(
      {
        touchpoint: { id, type, webhook: "email", params: { subject: `Message ${i}` }, next },
        delay: { id, type, for: `${(i % 5) + 1}h`, next },
        branch: { id, type, cases: [{ when: `lead.region == ${4000 + i}`, next: other }], otherwise: next },
        waitForEvent: { id, type, event: "login", timeout: "P7D", next },
        split: { id, type, arms: [{ weight: 50, next }, { weight: 50, next: other }] },
        waitUntil: { id, type, time: "09:00", next },
      }[type],
    );
  }
  nodes.unshift({ id: "first", type: "split", arms: [{ weight: 1, next: "n0" }, { weight: 1, next: "n1" }, { weight: 1, next: "n2" }] });
  return { name: "Large", start: "first", nodes: nodes.slice(0, n) };
}

function before(d) {
  const older = structuredClone(d);
  older.nodes = older.nodes.filter((n) => n.id !== "gift");
  older.nodes.find((n) => n.id === "offer").arms = [{ weight: 1, next: "discount" }, { weight: 1, next: "call" }];
  older.nodes.push({ id: "call", type: "touchpoint", webhook: "crm", params: { task: "call" }, next: "end" });
  older.nodes.find((n) => n.id === "decide").for = "P7D";
  return older;
}

// statistics sends leads through the journey, by shares that each node draws from its name.
function statistics(d, people) {
  const nodes = new Map(d.nodes.map((n) => [n.id, { nodeId: n.id, entered: 0, standing: 0, waiting: 0, sending: 0, deferred: 0, delivered: 0, failed: 0, skipped: 0, edges: [] }]));
  const counted = (n) => {
    const all = [n.next, n.onFailure, n.onTimeout, n.onMissed, n.otherwise, ...(n.cases ?? []).map((c) => c.next), ...(n.arms ?? []).map((a) => a.next)];
    return [...new Set(all.filter(Boolean))];
  };
  const walk = (id, count, depth) => {
    const n = d.nodes.find((x) => x.id === id);
    if (!n || count < 1 || depth > 60) return;
    const c = nodes.get(id);
    c.entered += count;
    const waits = ["delay", "waitUntil", "waitForEvent"].includes(n.type);
    const stay = n.type === "exit" ? 0 : Math.floor(count * (waits ? 0.12 : 0.005));
    c.standing += stay;
    c[waits ? "waiting" : "sending"] += stay;
    if (n.type === "touchpoint") {
      c.failed += Math.floor(count * 0.02);
      c.delivered += count - stay - Math.floor(count * 0.02);
    }
    let left = count - stay;
    const ways = counted(n);
    ways.forEach((to, i) => {
      const share = i === ways.length - 1 ? left : Math.floor(left * (n.onFailure && i === 0 ? 0.98 : 0.3 + ((id.length * 7 + i * 13) % 40) / 100));
      left -= share;
      const known = c.edges.find((e) => e.next === to);
      if (known) known.count += share;
      else c.edges.push({ next: to, count: share });
      walk(to, share, depth + 1);
    });
  };
  walk(d.start, people, 0);
  return { journeyId: "jrn_x", version: null, nodes: [...nodes.values()], enrollments: { entered: people, completed: 0, exited: 0, failed: 0, canceled: 0, heldOut: 0 }, series: null };
}

const escape = (s) => s.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function page(query) {
  const name = query.get("journey") ?? "win-back";
  const data = {
    journey: `/journeys/${name}/canvas.json`,
    options: "/options.json",
    lang: query.get("lang") ?? "en",
    edit: String(query.has("edit")),
    links: JSON.stringify({ standing: `/enrollments?nodeId={node}`, failed: `/deliveries?nodeId={node}&status=failed`, deliveries: `/deliveries?nodeId={node}` }),
  };
  if (query.has("edit")) Object.assign(data, { save: `/journeys/${name}/canvas.json`, check: `/journeys/${name}/check.json`, keep: `/journeys/${name}/keep.json`, code: "/code.js" });
  else if (query.has("compare")) data.compare = `/journeys/${name}-before/canvas.json`;
  else data.statistics = `/journeys/${name}/statistics.json`;
  if (query.has("panel")) data.panel = "node-panel";
  const attributes = Object.entries(data).map(([k, v]) => ` data-${k}="${escape(v)}"`).join("");
  const look = existsSync(new URL("../../static/console.css", here)) ? '<link rel="stylesheet" href="/console.css">' : "";
  const scheme = query.has("dark") ? "dark" : "light";
  return `<!doctype html><html lang="${data.lang}" class="${scheme}"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Canvas</title>${look}<link rel="stylesheet" href="/canvas.css"><link rel="stylesheet" href="/page.css">
<div id="page"><div id="canvas" nonce="${nonce}"${attributes}></div><aside id="node-panel" hidden></aside></div><script src="/canvas.js" type="module"></script></html>`;
}

const nonce = "sample"; // one for all: nobody is here to guess it
const style = `html.light { color-scheme: light } html.dark { color-scheme: dark } body { margin: 0 } #page { display: flex; height: 100vh } #canvas { flex: 1; min-width: 0; height: 100% } #node-panel { width: 360px }`;

const server = createServer((request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  const send = (status, type, body, headers = {}) => {
    response.writeHead(status, {
      "Content-Type": type,
      "Cache-Control": "no-store",
      "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-sample'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'",
      ...headers,
    });
    response.end(body);
  };
  const json = (status, value, headers) => send(status, "application/json", JSON.stringify(value), headers);
  if (url.pathname === "/") return send(200, "text/html; charset=utf-8", page(url.searchParams));
  if (url.pathname === "/page.css") return send(200, "text/css", style);
  if (url.pathname === "/console.css") return send(200, "text/css", file("../../static/console.css"));
  if (url.pathname === "/canvas.js") return send(200, "text/javascript", file("../../static/canvas.js"));
  if (url.pathname === "/code.js") return send(200, "text/javascript", file("../../static/code.js"));
  if (url.pathname === "/canvas.css") return send(200, "text/css", file("../../static/canvas.css"));
  if (url.pathname === "/options.json") return json(200, options);
  const [, name, what] = /^\/journeys\/([\w-]+)\/(canvas|statistics|check|keep)\.json$/.exec(url.pathname) ?? [];
  const s = stored.get(name);
  if (!s) return json(404, { code: "NotFound", message: "there is no such journey", target: "", detail: [] });
  const etag = { ETag: `"${s.revision}"` };
  if (what === "statistics") {
    const body = statistics(s.draft, 12_400 + (Math.floor(Date.now() / 4000) % 100));
    const tag = `"${body.enrollments.entered}"`;
    return request.headers["if-none-match"] === tag ? send(304, "application/json", "") : json(200, body, { ETag: tag });
  }
  if (what === "check") {
    const problems = (s.draft.nodes ?? []).flatMap((n, i) => (n.when?.includes("=>") ? [{ code: "InvalidFormat", target: `nodes[${i}].when`, message: `line 1, column ${n.when.indexOf("=>") + 1}: unexpected =>` }] : []));
    return json(200, { problems });
  }
  if (request.method === "GET") return json(200, { id: name, draft: s.draft }, etag);
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    if (what === "keep") {
      stored.set("kept", { draft: { ...JSON.parse(body), name: "Kept" }, revision: 1 });
      return json(200, { name: "Kept", path: "/?journey=kept&edit" });
    }
    const wanted = request.headers["if-match"];
    if (wanted && wanted !== etag.ETag) return json(412, { code: "PreconditionFailed", message: "the journey has changed", target: "", detail: [] });
    s.draft = JSON.parse(body);
    s.revision++;
    json(200, { id: name, draft: s.draft }, { ETag: `"${s.revision}"` });
  });
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
