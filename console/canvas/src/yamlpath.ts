// Places in a YAML text: what stands where, and where a member stands. Pure.

import type { SyntaxNode, Tree } from "@lezer/common";
import { parser } from "@lezer/yaml";

export type Path = (string | number)[];

// Where is what surrounds a place of a text.
export interface Where {
  path: Path; // of the value that is typed, or of the object that a member is typed into
  key: boolean; // a member's name is typed
  from: number; // where what is typed begins, behind its quote
  quote: string; // ' or " or none
  before: ReadonlyMap<string, string>; // the members beside it that are texts or numbers
}

const texts = ["Literal", "QuotedLiteral", "BlockLiteralContent"];

// whereIs tells what stands at a place: as if something were written there.
export function whereIs(source: string, at: number): Where | undefined {
  const text = `${source.slice(0, at)}zz${source.slice(at)}`;
  const node: SyntaxNode | null = parser.parse(text).resolveInner(at + 1, 0);
  if (!texts.includes(node.name)) return undefined;
  const quote = node.name === "QuotedLiteral" ? text[node.from]! : "";
  const from = node.name === "BlockLiteralContent" ? at - (/[^\n]*$/.exec(source.slice(0, at))![0].length) : node.from + quote.length;
  const inKey = node.parent?.name === "Key";
  const alone = !inKey && (node.parent?.name === "Document" || node.parent?.name === "Item");
  const holder = inKey ? node.parent!.parent!.parent! : node;
  const pair = holder.name.endsWith("Mapping") ? holder : owner(node, ["BlockMapping", "FlowMapping"]);
  const before = new Map<string, string>();
  for (const [name, value] of pair ? membersOf(pair, text) : []) before.set(name, value ? unquoted(text.slice(value.from, value.to)).replace("zz", "") : "");
  return { path: pathOf(inKey ? holder : node, text), key: inKey || (alone && !quote), from, quote, before };
}

// pathOf is the path of a node's value, from the top of the text.
function pathOf(node: SyntaxNode, text: string): Path {
  const path: Path = [];
  for (let n: SyntaxNode | null = node; n; n = n.parent) {
    if (n.name === "Pair") path.unshift(nameOf(n, text));
    if (n.name === "Item") path.unshift(n.parent!.getChildren("Item").findIndex((i) => i.from === n!.from));
  }
  return path;
}

function owner(node: SyntaxNode, names: readonly string[]): SyntaxNode | undefined {
  for (let n = node.parent; n; n = n.parent) if (names.includes(n.name)) return n;
  return undefined;
}

const nameOf = (pair: SyntaxNode, text: string): string => {
  const key = pair.getChild("Key");
  return key ? unquoted(text.slice(key.from, key.to)) : "";
};

function unquoted(s: string): string {
  if (s.startsWith('"')) {
    try {
      return String(JSON.parse(s));
    } catch {
      return s.slice(1, -1); // with an escape that only YAML has
    }
  }
  return s.startsWith("'") ? s.slice(1, -1).replaceAll("''", "'") : s;
}

// membersOf lists the members of an object with the nodes of their values.
function membersOf(mapping: SyntaxNode, text: string): [string, SyntaxNode | undefined][] {
  return mapping.getChildren("Pair").map((p) => {
    let value: SyntaxNode | undefined;
    for (let c = p.firstChild; c; c = c.nextSibling) if (c.name !== "Key" && c.name !== ":" && c.name !== "Comment") value = c;
    return [nameOf(p, text), value];
  });
}

// Span is a part of a text.
export interface Span {
  from: number;
  to: number;
  quote: string; // its quote, which does not count
  exact: boolean; // it is the member itself, not what it is missing in
}

// placeOfPath finds what a path such as nodes[2].cases[0].when names; where that is missing, the
// line of what it is missing in.
export function placeOfPath(source: string, target: string): Span {
  const tree: Tree = parser.parse(source);
  const line = (at: number): Span => {
    const rest = /^[^\n]*/.exec(source.slice(at))![0].trimEnd();
    return { from: at + rest.length - rest.trimStart().length, to: at + rest.length, quote: "", exact: false };
  };
  let here = tree.topNode.getChild("Document")?.firstChild ?? undefined;
  let begin = here?.from ?? 0;
  let rest = target;
  while (rest && here) {
    const m = /^\[(\d+)\]\.?/.exec(rest);
    if (m) {
      const item = here.getChildren("Item")[Number(m[1])];
      if (!item) return line(begin);
      here = item.firstChild ?? undefined;
      begin = (here ?? item).from;
      rest = rest.slice(m[0].length);
      continue;
    }
    // A param's name can have dots itself: the longest name that fits counts.
    const fits: [string, SyntaxNode | undefined][] = membersOf(here, source).filter(([name]) => name && (rest === name || rest.startsWith(`${name}.`) || rest.startsWith(`${name}[`)));
    const found = fits.sort(([a], [b]) => b.length - a.length)[0];
    if (!found) return line(begin);
    const pair = here.getChildren("Pair").find((p) => nameOf(p, source) === found[0])!;
    begin = pair.from;
    here = found[1];
    rest = rest.slice(found[0].length).replace(/^\./, "");
  }
  if (!here || rest || !target) return line(begin);
  if (!texts.includes(here.name)) return line(begin);
  const quote = here.name === "QuotedLiteral" ? source[here.from]! : "";
  return { from: here.from + quote.length, to: here.to - (quote && source[here.to - 1] === quote ? 1 : 0), quote, exact: true };
}

// idsOf lists the ids of the nodes of a definition, and those of its touchpoints.
export function idsOf(source: string): { nodes: string[]; touchpoints: string[] } {
  const root = parser.parse(source).topNode.getChild("Document")?.firstChild;
  const list = root && membersOf(root, source).find(([name]) => name === "nodes")?.[1];
  const nodes = (list?.getChildren("Item") ?? []).flatMap((item) => {
    const members = item.firstChild ? new Map(membersOf(item.firstChild, source)) : undefined;
    const text = (name: string): string => {
      const v = members?.get(name);
      return v ? unquoted(source.slice(v.from, v.to)) : "";
    };
    return text("id") ? [{ id: text("id"), type: text("type") }] : [];
  });
  return { nodes: nodes.map((n) => n.id), touchpoints: nodes.filter((n) => n.type === "touchpoint").map((n) => n.id) };
}
