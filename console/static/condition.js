// The conditions of segments as rows and groups. Pure: write makes CEL of a group, read makes a group
// of CEL, or undefined if rows cannot say it. Both go by the same table of forms, so what was written
// is read back.
//
// A group is {join: "all" | "any" | "none", items}; a row {what, op, …} has a member for each hole of its
// form. In a group of kind "none", and in those within it, a condition must not be an error of a lead that
// lacks the field (!error is an error), so there a row asks first whether the field is set.

// Holes of forms, and the members of a row that fill them. F is the field, U and S ask whether it is
// unset or set.
const holes = {
  A: { part: "text", kind: "text" },
  N: { part: "n", kind: "number" },
  M: { part: "m", kind: "number" },
  X: { part: "amount", kind: "number" },
  I: { part: "n", kind: "times" },
  D: { part: "from", kind: "day" },
  E: { part: "to", kind: "day" },
  T: { part: "at", kind: "moment" },
  W: { part: "span", kind: "span" }, // days or hours
  L: { part: "span", kind: "days" },
  K: { part: "name", kind: "name" },
  V: { part: "event", kind: "event" },
  J: { part: "journey", kind: "journey" },
  G: { part: "node", kind: "node" },
  Q: { part: "segment", kind: "segment" },
};

const setOrNot = { set: "S", unset: "U" };
const texts = {
  is: "F == A", isNot: "U || F != A", contains: "F.contains(A)", notContains: "U || !F.contains(A)",
  starts: "F.startsWith(A)", ends: "F.endsWith(A)",
};
const numbers = { eq: "F == N", neq: "U || F != N", gt: "F > N", gte: "F >= N", lt: "F < N", lte: "F <= N", range: "N <= F && F <= M" };
const days = { before: "F < D", after: "F > D", period: "D <= F && F <= E" };
const moments = { within: "F > now - duration(W)", longer: "F < now - duration(W)", earlier: "F < timestamp(T)", since: "F >= timestamp(T)" };
const answers = { yes: "F == true", no: "F == false" };

// Of events, those can be counted of which a property is so; it may be missing.
export const properties = {
  is: "S && F == A", isNot: "U || F != A", contains: "S && F.contains(A)",
  eq: "S && F == X", neq: "U || F != X", gt: "S && F > X", gte: "S && F >= X", lt: "S && F < X", lte: "S && F <= X",
};

// withProperties adds to the forms of events those with a property, by an operator such as done.gt.
const withProperties = (forms) => ({
  ...forms,
  ...Object.fromEntries(Object.entries(forms).flatMap(([op, form]) => Object.entries(properties).map(([how, of]) => [`${op}.${how}`, form.replace(").count()", `).filter(e, ${of}).count()`)]))),
});

const text = { ...texts, ...setOrNot };
const number = { ...numbers, ...setOrNot };

// whats are the things that rows are about, by the group of the picker that they stand in: their forms by
// operator. Those that are always set need no guard.
export const whats = {
  name: { group: "lead", forms: texts, always: true },
  email: { group: "lead", forms: text },
  mobilePhone: {
    group: "lead", always: true,
    forms: { has: "F.exists(p, p.contains(A))", hasNot: "!F.exists(p, p.contains(A))", set: "F.size() > 0", unset: "F.size() == 0" },
  },
  gender: { group: "lead", forms: { eq: "F == N", neq: "U || F != N", ...setOrNot }, choices: ["1", "2", "0"] },
  birthday: {
    group: "lead",
    forms: {
      birthday: "daysUntil(F) == 0", month: "date(F).getMonth() == today.getMonth()",
      ...days, ...setOrNot,
    },
  },
  region: { group: "lead", forms: number },
  leadsGroup: { group: "lead", forms: number },
  externalId: { group: "lead", forms: text },
  company: { group: "lead", forms: text },
  address: { group: "lead", forms: text },
  remark: { group: "lead", forms: text },
  wechat: { group: "lead", forms: text },
  createdAt: { group: "lead", forms: moments, always: true },
  updatedAt: { group: "lead", forms: moments, always: true },
  test: { group: "lead", forms: answers, always: true },
  consents: { group: "lead", forms: { yes: "F == true", notYes: "U || F != true", no: "F == false", unset: "U" }, named: true },
  customFields: {
    group: "custom", named: true,
    forms: {
      ...texts, ...numbers, ...answers, ...days,
      last: "today - duration(L) <= date(F) && date(F) <= today", next: "today <= date(F) && date(F) <= today + duration(L)", ...setOrNot,
    },
  },
  event: {
    group: "behaviour", always: true,
    forms: withProperties({
      done: "events(V).count() >= I", doneIn: "events(V, duration(W)).count() >= I", most: "events(V).count() <= I", mostIn: "events(V, duration(W)).count() <= I",
      exactly: "events(V).count() == I", exactlyIn: "events(V, duration(W)).count() == I", never: "events(V).count() == 0", neverIn: "events(V, duration(W)).count() == 0",
    }),
  },
  delivered: { group: "behaviour", always: true, forms: { yes: "delivered(J, G)", no: "!delivered(J, G)" } },
  entered: { group: "behaviour", always: true, forms: { yes: "entered(J)", no: "!entered(J)" } },
  inSegment: { group: "behaviour", always: true, forms: { yes: "inSegment(Q)", no: "!inSegment(Q)" } },
};

// Operators that are no error of a lead without the field.
const total = new Set(["set", "unset", "isNot", "neq", "notContains", "notYes"]);

// partsOf lists what a row needs beside its operator: {part, kind}, in the order of the form.
export function partsOf(row) {
  const { forms, named } = whats[row.what];
  const found = [...forms[row.op].matchAll(/\b[A-Z]\b/g)].map(([hole]) => holes[hole]).filter((h, i, all) => h && all.indexOf(h) === i);
  return named || row.op.includes(".") ? [holes.K, ...found] : found;
}

const maxExact = 2 ** 53;
const isDay = (s) => /^\d{4}-\d\d-\d\d$/.test(s) && !Number.isNaN(Date.parse(s)) && new Date(`${s}T00:00:00Z`).toISOString().startsWith(s);

// Each kind of value: whether rows can show it, and its literal in CEL. What a text input cannot
// hold, such as a line break, rows cannot show.
const quote = (s) => JSON.stringify(s);
const written = (s) => typeof s === "string" && s !== "" && !/[\0\r\n]/.test(s) && s.isWellFormed();
const isNumber = (s) => written(s) && s.trim() !== "" && Math.abs(Number(s)) <= maxExact;
const kinds = {
  text: [written, quote],
  name: [written, quote],
  number: [isNumber, (s) => String(Number(s) + 0)],
  times: [(s) => isNumber(s) && Number.isInteger(Number(s)) && Number(s) >= 1, (s) => String(Number(s))],
  day: [(s) => written(s) && isDay(s), quote],
  moment: [(s) => written(s) && /T00:00:00(?:Z|[+-]\d\d:\d\d)$/.test(s) && isDay(s.slice(0, 10)) && s.length <= 25, quote],
  span: [(s) => written(s) && /^(?:P[1-9]\d{0,5}D|[1-9]\d{0,5}h)$/.test(s), quote],
  days: [(s) => written(s) && /^P[1-9]\d{0,5}D$/.test(s), quote],
  event: [(s) => written(s) && /^[A-Za-z0-9_.-]{1,64}$/.test(s), quote],
  journey: [(s) => written(s) && /^jrn_[0-9a-z]{26}$/.test(s), quote],
  node: [(s) => written(s) && /^[A-Za-z0-9_-]{1,64}$/.test(s), quote],
  segment: [(s) => written(s) && /^seg_[0-9a-z]{26}$/.test(s), quote],
};

// faultsOf lists the parts of a row that are not filled in, or not as they must be.
export const faultsOf = (row) => partsOf(row).filter(({ part, kind }) => !kinds[kind][0](row[part] ?? ""));

// complete tells whether a group, and all that is in it, can be written.
export const complete = (item) => (item.join ? item.items.length > 0 && item.items.every(complete) : faultsOf(item).length === 0);

// Words that cannot stand behind a dot, or that CEL keeps for itself.
const reserved = new Set("as break const continue else false for function if import in let loop null package namespace return true var void while".split(" "));
const plain = (name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !reserved.has(name);

// ofNames is what has fields, or properties, by names of people's choice; undefined for all others.
const ofNames = (what) => (whats[what].named ? `lead.${what}` : what === "event" ? "e" : undefined);

// fieldOf is how a row's field is written, and how CEL asks whether it is set.
function fieldOf({ what, name }) {
  const of = ofNames(what);
  if (!of || name === undefined) return { F: `lead.${what}`, S: `lead.${what} != null`, U: `lead.${what} == null` };
  if (plain(name)) return { F: `${of}.${name}`, S: `has(${of}.${name})`, U: `!has(${of}.${name})` };
  const has = `${quote(name)} in ${of}`;
  return { F: `${of}[${quote(name)}]`, S: has, U: `!(${has})` };
}

const formOf = (what, op, guarded) => {
  const { forms, always } = whats[what];
  return guarded && !always && !total.has(op) ? `S && ${forms[op]}` : forms[op];
};

function writeRow(row, guarded) {
  const field = fieldOf(row);
  return formOf(row.what, row.op, guarded).replace(/\b[A-Z]\b/g, (hole) => {
    if (field[hole] !== undefined) return field[hole];
    const { part, kind } = holes[hole];
    return kinds[kind][1](row[part]);
  });
}

// write is the CEL of a complete group, with where each row stands in it: [{row, from, to}]. A group
// of one has a neutral second operand, so that it is a group when it is read; the outermost "all"
// needs none, unless its only item is a group.
export function write(group) {
  let out = "";
  const places = [];
  const item = (it, guarded, alone) => {
    const parens = !alone && (it.join ? it.join !== "none" : / (?:&&|\|\|) /.test(formOf(it.what, it.op, guarded).replace(/filter\(.*\)\./, "")));
    if (parens) out += "(";
    if (it.join) members(it, guarded);
    else {
      const from = out.length;
      out += writeRow(it, guarded);
      places.push({ row: it, from, to: out.length });
    }
    if (parens) out += ")";
  };
  const members = ({ join, items }, guarded, outermost) => {
    const none = join === "none";
    const single = items.length === 1;
    const alone = single && outermost && join === "all" && !items[0].join; // the row is the whole text
    if (none) out += "!(";
    items.forEach((it, i) => {
      if (i > 0) out += `${outermost && !none ? "\n" : " "}${join === "all" ? "&&" : "||"} `;
      item(it, guarded || none, alone);
    });
    if (single && !alone) out += join === "all" ? " && true" : " || false";
    if (none) out += ")";
  };
  members(group, false, true);
  return { text: out, places };
}

// tokensOf cuts CEL into texts, numbers, words and signs; it throws at everything else, comments
// too, which rows would lose.
function tokensOf(source) {
  const tokens = [];
  const pattern = /\s*(?:("(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')|((?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(&&|\|\||[=!<>]=|[-<>!+.,()[\]]))/y;
  const end = source.trimEnd().length;
  while (pattern.lastIndex < end) {
    const m = pattern.exec(source);
    if (!m) throw new SyntaxError("unknown");
    const after = source[pattern.lastIndex] ?? "";
    // r"…", 5u and 0x5 are other literals; """ begins one of several lines.
    const other = (m[2] && /[\w.]/.test(after)) || (m[3] && /["']/.test(after)) || ((m[1] === '""' || m[1] === "''") && after === m[1][0]);
    if (other) throw new SyntaxError("another literal");
    if (m[1]) tokens.push({ k: "text", v: unquote(m[1]) });
    else if (m[2]) tokens.push({ k: "number", v: Number(m[2]) });
    else tokens.push({ k: m[3] ? "word" : "sign", v: m[3] ?? m[4] });
  }
  return tokens;
}

// parse makes a tree of the part of CEL that forms are made of; it throws at everything else. Each
// function reads what its name says, from the loosest operator, or, to the tightest, member.
function parse(source) {
  const tokens = tokensOf(source);
  let at = 0;
  let deep = 0;
  const is = (...signs) => {
    const t = tokens[at];
    return t !== undefined && (t.k === "sign" || (t.k === "word" && t.v === "in")) && signs.includes(t.v);
  };
  const take = (sign) => {
    if (!is(sign)) throw new SyntaxError(`no ${sign}`);
    at++;
  };
  const word = () => {
    if (tokens[at]?.k !== "word" || reserved.has(tokens[at].v)) throw new SyntaxError("no name");
    return tokens[at++].v;
  };
  const chain = (sign, next) => () => {
    const items = [next()];
    while (is(sign)) {
      at++;
      items.push(next());
    }
    return items.length === 1 ? items[0] : { k: sign, items };
  };
  const list = () => {
    const items = [];
    take("(");
    while (!is(")")) {
      if (items.length > 0) take(",");
      items.push(or());
    }
    take(")");
    return items;
  };
  const primary = () => {
    const t = tokens[at];
    if (is("(")) {
      if (++deep > 50) throw new SyntaxError("too deep");
      at++;
      const inner = or();
      take(")");
      deep--;
      return inner;
    }
    if (t?.k === "text" || t?.k === "number") return tokens[at++];
    if (t?.k === "word" && /^(?:true|false|null)$/.test(t.v)) {
      at++;
      return { k: "constant", v: t.v };
    }
    const name = word();
    return is("(") ? { k: "call", name, of: undefined, items: list() } : { k: "name", v: name };
  };
  const member = () => {
    let e = primary();
    for (;;) {
      if (is(".")) {
        at++;
        const name = word();
        e = is("(") ? { k: "call", name, of: e, items: list() } : { k: "get", of: e, name };
      } else if (is("[")) {
        at++;
        const index = or();
        if (index.k !== "text") throw new SyntaxError("no name");
        take("]");
        e = { k: "get", of: e, name: index.v };
      } else return e;
    }
  };
  const unary = () => {
    if (is("!")) {
      if (++deep > 50) throw new SyntaxError("too deep");
      at++;
      const of = unary();
      deep--;
      return { k: "!", of };
    }
    if (is("-")) {
      at++;
      const n = primary();
      if (n.k !== "number" || n.v < 0) throw new SyntaxError("no number");
      return { k: "number", v: 0 - n.v };
    }
    return member();
  };
  const pair = (signs, next) => () => {
    let e = next();
    while (is(...signs)) {
      const sign = tokens[at++].v;
      e = { k: "pair", sign, items: [e, next()] };
    }
    return e;
  };
  const sum = pair(["+", "-"], unary);
  const relation = pair(["==", "!=", "<", "<=", ">", ">=", "in"], sum);
  const and = chain("&&", relation);
  const or = chain("||", and);
  const whole = or();
  if (at < tokens.length) throw new SyntaxError("more");
  return whole;
}

const escapes = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v", "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`" };

function unquote(literal) {
  const escaped = /\\(?:x([\da-fA-F]{2})|X([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))/g;
  return literal.slice(1, -1).replace(escaped, (_, x, bigX, u, bigU, octal, other) => {
    const hex = x ?? bigX ?? u ?? bigU;
    if (hex !== undefined || octal !== undefined) return String.fromCodePoint(hex === undefined ? parseInt(octal, 8) : parseInt(hex, 16));
    if (!(other in escapes)) throw new SyntaxError("unknown escape");
    return escapes[other];
  });
}

// matches tells whether an expression has a form, and notes in found what fills its holes.
function matches(form, e, found) {
  const hole = form.k === "name" && form.v.length === 1 && holes[form.v];
  if (hole) {
    const want = /^(?:number|times)$/.test(hole.kind) ? "number" : "text";
    return e.k === want && note(hole, String(e.v), found);
  }
  if (form.k !== e.k) return false;
  const all = (a, b) => a.length === b.length && a.every((f, i) => matches(f, b[i], found));
  switch (form.k) {
    case "get":
      return (form.name === "K" ? note(holes.K, e.name, found) : form.name === e.name) && matches(form.of, e.of, found);
    case "call":
      return form.name === e.name && !form.of === !e.of && (!form.of || matches(form.of, e.of, found)) && all(form.items, e.items);
    case "!":
      return matches(form.of, e.of, found);
    case "pair":
      return form.sign === e.sign && all(form.items, e.items);
    case "&&":
    case "||":
      return all(form.items, e.items);
  }
  return form.v === e.v;
}

function note({ part }, value, found) {
  found[part] ??= value;
  return found[part] === value;
}

// Forms that are read beside those that are written: a number of events that is written another way,
// an answer that stands alone, and a birthday by its month and day, which misses 29 February.
const others = {
  birthday: { birthday: "date(F).getMonth() == today.getMonth() && date(F).getDate() == today.getDate()" },
  event: withProperties({ done: "events(V).count() > I", doneIn: "events(V, duration(W)).count() > I" }),
  test: { yes: "F" },
  consents: { yes: "F" },
};

// trees are the forms as trees, by whether they are guarded: [{what, op, tree, more}]. more is added to
// the number of events that the form names: "> 2" is a row of at least 3.
const trees = new Map();
function treesOf(guarded) {
  if (trees.has(guarded)) return trees.get(guarded);
  const list = [];
  for (const [what, { forms }] of Object.entries(whats)) {
    const of = ofNames(what);
    const fields = of
      ? [{ F: `${of}.K`, S: `has(${of}.K)`, U: `!has(${of}.K)` }, { F: `${of}.K`, S: `K in ${of}`, U: `!(K in ${of})` }]
      : [fieldOf({ what })];
    const add = (op, form, more) => {
      for (const field of fields) list.push({ what, op, more, tree: parse(form.replace(/\b[FSU]\b/g, (hole) => field[hole])) });
    };
    for (const op of Object.keys(forms)) add(op, formOf(what, op, guarded), 0);
    for (const [op, form] of Object.entries(others[what] ?? {})) {
      add(op, guarded && !whats[what].always ? `S && ${form}` : form, what === "event" ? 1 : 0);
    }
  }
  trees.set(guarded, list);
  return list;
}

function readRow(e, guarded) {
  for (const { what, op, tree, more } of treesOf(guarded)) {
    const row = { what, op };
    if (!matches(tree, e, row)) continue;
    if (more) row.n = String(Number(row.n) + more);
    if (faultsOf(row).length === 0) return row;
  }
  return undefined;
}

const isConstant = (e, v) => e.k === "constant" && e.v === v;

// readItem is a row or a group; it throws where rows cannot say it.
function readItem(e, guarded) {
  const whole = readRow(e, guarded);
  if (whole) return whole;
  const group = (join, list, neutral, within) => {
    if (list.length === 2 && isConstant(list[1], neutral)) list = [list[0]];
    return { join, items: list.map((each) => readItem(each, within)) };
  };
  if (e.k === "&&") return group("all", e.items, "true", guarded);
  if (e.k === "||") return group("any", e.items, "false", guarded);
  if (e.k === "!") {
    const row = readRow(e.of, true);
    return row ? { join: "none", items: [row] } : group("none", e.of.k === "||" ? e.of.items : [e.of], "false", true);
  }
  throw new SyntaxError("no row");
}

// read is the group that a condition says, undefined if rows cannot say it.
export function read(source) {
  try {
    const item = readItem(parse(source), false);
    return item.join ? item : { join: "all", items: [item] };
  } catch (e) {
    if (e instanceof SyntaxError || e instanceof RangeError) return undefined;
    throw e;
  }
}
