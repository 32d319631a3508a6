// A file of leads is read, decoded and shown here, in the browser, before anything is sent.
// What is sent is UTF-8, with the names of the gateway's fields, and line by line what the
// file has, so that the lines of faults are those of the file.
const form = document.querySelector("[data-import]");
const part = (name) => form.querySelector(`[data-${name}]`);
const texts = form.dataset;
const fields = JSON.parse(texts.fields);
const most = 64 << 20; // bytes, as the gateway takes them
const shown = 6; // rows of the preview

let bytes; // of the file
let kind; // csv, lines or json
let rows = []; // of a CSV, with the header row first
let columns = []; // what each column is: a field's name, or "" to leave it out
let parsed; // of JSON

// What people call the fields in their spreadsheets.
const names = {
  leadsId: ["leadsid", "lead id", "线索编号", "线索id"], name: ["name", "full name", "lead", "customer", "姓名", "名字", "名称", "客户", "客户姓名", "联系人"],
  mobilePhone: ["mobilephone", "mobile phone", "mobile", "phone", "cell", "phone number", "mobile number", "手机", "手机号", "手机号码", "联系电话", "电话", "电话号码"],
  email: ["email", "e-mail", "mail", "email address", "邮箱", "电子邮箱", "电子邮件", "邮件"], gender: ["gender", "sex", "性别"], birthday: ["birthday", "birth date", "date of birth", "dob", "生日", "出生日期"],
  externalId: ["externalid", "external id", "customer id", "crm id", "id", "外部编号", "客户编号", "会员编号", "会员号"], openId: ["openid", "open id"],
  region: ["region", "地区", "区域"], leadsGroup: ["leadsgroup", "group", "分组", "线索组"], wechat: ["wechat", "微信", "微信号"], qq: ["qq", "qq号"], telephone: ["telephone", "landline", "座机", "固定电话"],
  company: ["company", "organisation", "organization", "公司", "企业", "公司名称"], companyPhone: ["companyphone", "company phone", "公司电话"], companyEmail: ["companyemail", "company email", "公司邮箱"],
  companyWebsite: ["companywebsite", "website", "网站", "公司网站", "网址"], address: ["address", "地址", "详细地址"], remark: ["remark", "remarks", "note", "notes", "comment", "备注", "说明"],
};
const genders = { 0: ["unknown", "未知", "保密"], 1: ["m", "male", "man", "男", "男性", "先生"], 2: ["f", "female", "woman", "女", "女性", "女士"] };
const ignored = ["createdat", "updatedat"]; // of an export

function guess(head) {
  const text = head.trim();
  const plain = text.toLowerCase().replaceAll("_", " ").replace(/\s+/g, " ");
  if (text === "" || ignored.includes(plain)) return "";
  if (text.startsWith("customFields.") || text.startsWith("consents.") || text === "test") return text;
  for (const [field, known] of Object.entries(names)) if (known.includes(plain)) return field;
  return `customFields.${text}`;
}

function fault(message, faults = []) {
  part("fault").hidden = !message;
  part("fault-text").textContent = message ?? "";
  part("faults").replaceChildren(...faults.map((one) => {
    const item = document.createElement("li");
    item.textContent = one.target ? `${one.target}: ${one.message}` : one.message;
    return item;
  }));
}

// charsetOf guesses: a byte order mark, else UTF-8 if it is that, else GB18030 if it is
// that, which spreadsheets write in China, else Windows-1252, in which all bytes are letters.
function charsetOf(data) {
  if (data[0] === 0xff && data[1] === 0xfe) return "utf-16le";
  for (const charset of ["utf-8", "gb18030"]) {
    try {
      new TextDecoder(charset, { fatal: true }).decode(data);
      return charset;
    } catch { /* it is another one */ }
  }
  return "windows-1252";
}

function separatorOf(text) {
  const head = text.slice(0, text.search(/[\r\n]|$/));
  const counts = [",", ";", "\t", "|"].map((one) => [head.split(one).length, one]);
  return counts.sort((a, b) => b[0] - a[0])[0][1];
}

// parse reads a CSV (RFC 4180). A line without anything is a row of one empty cell.
function parse(text, separator) {
  const all = [];
  let row = [], cell = "", quoted = false, i = 0;
  const end = () => { row.push(cell); all.push(row); row = []; cell = ""; };
  while (i < text.length) {
    const c = text[i];
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') { cell += '"'; i++; } else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator) { row.push(cell); cell = ""; } else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      end();
    } else cell += c;
    i++;
  }
  if (cell !== "" || row.length) end();
  return all;
}

async function choose(file) {
  fault();
  part("review").hidden = true;
  part("name").textContent = file.name;
  if (file.size > most) return fault(texts.large);
  bytes = new Uint8Array(await file.arrayBuffer());
  if (!bytes.length) return fault(texts.empty);
  kind = /\.(ndjson|jsonl)$/i.test(file.name) ? "lines" : /\.json$/i.test(file.name) ? "json" : "csv";
  part("charset").value = charsetOf(bytes);
  part("separator").value = separatorOf(new TextDecoder(part("charset").value).decode(bytes.subarray(0, 65536)));
  read();
}

function read() {
  fault();
  let text;
  try {
    text = new TextDecoder(part("charset").value, { fatal: true }).decode(bytes);
  } catch {
    return fault(texts.encoding);
  }
  for (const one of form.querySelectorAll("[data-text-only]")) one.hidden = kind !== "csv";
  let leads;
  try {
    if (kind === "json") {
      parsed = JSON.parse(text);
      leads = Array.isArray(parsed) ? parsed : parsed.leads;
      parsed = { leads };
    } else if (kind === "lines") {
      parsed = text;
      leads = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line)).filter((one) => !one.end);
    }
    if (kind !== "csv") return preview(leads);
  } catch {
    return fault(texts.json);
  }
  rows = parse(text, part("separator").value);
  if (rows.length < 2) return fault(texts.empty);
  part("result").replaceChildren();
  columns = rows[0].map(guess);
  for (const [i, name] of columns.entries()) if (columns.indexOf(name) < i) columns[i] = ""; // the first one of a name counts
  table();
}

function head(text) {
  const cell = document.createElement("th");
  cell.scope = "col";
  const name = document.createElement("bdi");
  name.textContent = text;
  cell.append(name);
  return cell;
}

function line(cells, used = () => true) {
  const row = document.createElement("tr");
  for (const [i, text] of cells.entries()) {
    const cell = document.createElement("td");
    const inner = document.createElement("bdi");
    inner.textContent = [...String(text)].slice(0, 120).join("");
    cell.classList.toggle("muted", !used(i));
    cell.append(inner);
    row.append(cell);
  }
  return row;
}

function total(n) {
  part("total").textContent = (n === 1 ? texts.rowsOne : texts.rows).replace("{n}", n.toLocaleString("en"));
  part("review").hidden = false;
}

function preview(leads) {
  if (!leads?.length) return fault(texts.empty);
  const keys = [...new Set(leads.slice(0, shown).flatMap((one) => Object.keys(one)))];
  part("heads").replaceChildren(...keys.map(head));
  part("lines").replaceChildren(...leads.slice(0, shown).map((one) => line(keys.map((key) => (one[key] === undefined || one[key] === null ? "" : typeof one[key] === "object" ? JSON.stringify(one[key]) : one[key])))));
  total(leads.length);
}

function table() {
  part("heads").replaceChildren(...rows[0].map((text, i) => {
    const cell = head(text);
    const select = document.createElement("select");
    select.setAttribute("aria-label", texts.column.replace("{name}", text));
    select.append(new Option(texts.skip, ""));
    const known = document.createElement("optgroup");
    known.label = texts.known;
    for (const field of fields) known.append(new Option(field.label, field.value));
    select.append(known);
    const custom = /^(customFields|consents)\.|^test$/.test(text) ? text : `customFields.${text.trim()}`;
    if (text.trim() && ![...select.options].some((one) => one.value === custom)) select.append(new Option(custom.startsWith("customFields.") ? texts.custom.replace("{name}", custom.slice(13)) : custom, custom));
    select.value = columns[i];
    select.addEventListener("change", () => { columns[i] = select.value; table(); });
    cell.append(select);
    return cell;
  }));
  part("lines").replaceChildren(...rows.slice(1, 1 + shown).map((row) => line(row, (i) => columns[i])));
  total(rows.slice(1).filter((row) => row.some((cell) => cell.trim())).length);
  check();
}

// match is what names the lead of a row, "" for the lead number, else the external id.
function match() {
  return form.elements.mode.value === "create" ? "" : form.elements.match.value;
}

// check says what is wrong with the columns for the mode that is chosen.
function check() {
  if (kind !== "csv") return true;
  const chosen = columns.filter(Boolean);
  const twice = chosen.find((name, i) => chosen.indexOf(name) < i);
  const mode = form.elements.mode.value;
  let message = "";
  if (twice) message = texts.twice.replace("{name}", fields.find((one) => one.value === twice)?.label ?? twice.slice(13));
  else if (mode !== "update" && !chosen.includes("name")) message = texts.needName;
  else if (mode !== "create" && match() && !chosen.includes(match())) message = texts.needMatch.replace("{name}", fields.find((one) => one.value === match()).label);
  else if (mode === "update" && !match() && !chosen.includes("leadsId") && !chosen.includes("externalId")) message = texts.needId;
  fault(message);
  return !message;
}

const quote = (text) => (/[",\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text);

function written() {
  const used = columns.map((name, i) => [name, i]).filter(([name]) => name);
  const cell = (name, text) => {
    if (name !== "gender") return text;
    const said = text.trim().toLowerCase();
    return Object.keys(genders).find((n) => genders[n].includes(said)) ?? text;
  };
  const out = [used.map(([name]) => quote(name)).join(",")];
  const breaks = rows[0].join("").split(/\r\n|\r|\n/).length - 1; // a header over several lines: the faults' lines stay the file's
  for (let i = 0; i < breaks; i++) out.push("");
  for (const row of rows.slice(1)) {
    const cells = used.filter(([, i]) => i < row.length).map(([name, i]) => quote(cell(name, row[i])));
    // What stands beyond the header row fails at the gateway, as in a file that it gets as it is.
    if (row.slice(rows[0].length).some((text) => text.trim())) cells.push(...row.slice(rows[0].length).map(quote));
    out.push(row.every((text) => !text.trim()) ? "" : cells.join(","));
  }
  return out.join("\n") + "\n";
}

// follow shows what a check comes to, and makes the import the next thing to do.
async function follow(path) {
  part("sending").hidden = true;
  for (let ended = false; !ended; await new Promise((later) => setTimeout(later, 700))) {
    const page = new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
    const result = page.getElementById("import");
    ended = "ended" in result.dataset;
    result.removeAttribute("data-live");
    part("result").replaceChildren(result);
  }
  part("dry").checked = false;
  part("dry").dispatchEvent(new Event("change"));
  part("send").disabled = false;
}

function send() {
  part("result").replaceChildren();
  const query = new URLSearchParams({ mode: form.elements.mode.value, stage: document.documentElement.dataset.stage });
  if (match()) query.set("match", match());
  if (part("dry").checked) query.set("dryRun", "yes");
  const request = new XMLHttpRequest(); // fetch does not tell how much has been sent
  request.open("POST", `/leads/import?${query}`);
  const [body, type] = kind === "csv" ? [written(), "text/csv;charset=UTF-8"] : kind === "lines" ? [parsed, "application/x-ndjson"] : [JSON.stringify(parsed), "application/json"];
  request.setRequestHeader("Content-Type", type);
  part("sending").hidden = false;
  part("send").disabled = true;
  request.upload.addEventListener("progress", (event) => { part("sending").querySelector("progress").value = (100 * event.loaded) / event.total; });
  const failed = (message, faults) => {
    part("sending").hidden = true;
    part("send").disabled = false;
    fault(message, faults);
    part("fault").scrollIntoView({ block: "center" });
  };
  request.addEventListener("error", () => failed(texts.lost));
  request.addEventListener("load", () => {
    let answer;
    try {
      answer = JSON.parse(request.responseText);
    } catch {
      return failed(texts.lost);
    }
    if (answer.location && query.has("dryRun")) return follow(answer.location).catch(() => failed(texts.lost));
    if (answer.location) return location.assign(answer.location);
    failed(`${answer.message} (${texts.request} ${answer.request})`, answer.faults);
  });
  request.send(body);
}

part("file").addEventListener("change", () => part("file").files[0] && choose(part("file").files[0]));
part("charset").addEventListener("change", read);
part("separator").addEventListener("change", read);
for (const mode of form.querySelectorAll("[name=mode]")) mode.addEventListener("change", check);
form.elements.match.addEventListener("change", check);
part("dry").addEventListener("change", () => {
  part("check").hidden = !part("dry").checked;
  part("go").hidden = part("dry").checked;
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (check()) send();
});
const zone = part("drop-zone");
zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
zone.addEventListener("dragleave", () => zone.classList.remove("over"));
zone.addEventListener("drop", (event) => {
  event.preventDefault();
  zone.classList.remove("over");
  if (event.dataTransfer.files[0]) choose(event.dataTransfer.files[0]);
});
