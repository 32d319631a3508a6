// The statistics of the journey, asked for again and again while the page is seen.

import { type Node, type Slot, wayOf } from "./definition.ts";

export interface NodeCounts {
  nodeId: string;
  entered: number;
  standing: number;
  waiting: number;
  sending: number;
  deferred: number;
  delivered: number;
  failed: number;
  skipped: number;
  edges: { next: string; way: string; count: number }[];
  ends: { way: string; count: number }[]; // ways that ended the journey
}

export interface Statistics {
  nodes: NodeCounts[];
  enrollments: { entered: number; completed: number; exited: number; failed: number; canceled: number; heldOut: number };
}

const every = 2000; // ms
const longest = 60_000; // ms, between tries that fail

// Live holds the newest statistics. Each node keeps its object while its numbers stay the same, so
// that only what has changed is drawn again.
export class Live {
  private nodes = new Map<string, NodeCounts>();
  private started = 0;
  private known = false;
  private at: Date | undefined; // of the last answer
  private troubled = false; // the last try failed
  private etag = "";
  private delay = every;
  private timer: number | undefined;
  private asking: AbortController | undefined;
  private listeners = new Set<() => void>();

  constructor(private readonly url: string) {}

  readonly subscribe = (f: () => void): (() => void) => {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  };
  readonly node = (id: string): NodeCounts | undefined => this.nodes.get(id);
  readonly entered = (): number | undefined => (this.known ? this.started : undefined);
  // stale is the time of the numbers, if newer ones could not be had.
  readonly stale = (): Date | undefined => (this.troubled ? this.at : undefined);
  readonly has = (): boolean => this.known;

  // start asks now and from then on; the function that it returns ends that.
  start(): () => void {
    const look = (): void => {
      if (document.visibilityState === "visible") void this.ask();
      else this.stop();
    };
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      document.removeEventListener("visibilitychange", look);
      this.stop();
    };
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = undefined;
  }

  private async ask(): Promise<void> {
    this.stop();
    const asking = (this.asking = new AbortController());
    try {
      const headers: Record<string, string> = this.etag ? { "If-None-Match": this.etag } : {};
      const answer = await fetch(this.url, { headers, cache: "no-store", signal: asking.signal });
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
        const statistics = (await answer.json()) as Statistics;
        this.etag = answer.headers.get("ETag") ?? "";
        this.take(statistics);
      }
      this.delay = every;
      this.at = new Date();
      this.tell(false);
    } catch {
      if (asking.signal.aborted) return;
      this.delay = Math.min(this.delay * 2, longest);
      this.tell(true);
    }
    if (!asking.signal.aborted) this.timer = window.setTimeout(() => void this.ask(), this.delay);
  }

  // take keeps statistics.
  take(s: Statistics): void {
    const nodes = new Map<string, NodeCounts>();
    for (const n of s.nodes) {
      const before = this.nodes.get(n.nodeId);
      nodes.set(n.nodeId, before && JSON.stringify(before) === JSON.stringify(n) ? before : n);
    }
    this.nodes = nodes;
    this.started = s.enrollments.entered;
    this.known = true;
    for (const f of this.listeners) f();
  }

  private tell(troubled: boolean): void {
    if (troubled === this.troubled) return;
    this.troubled = troubled;
    for (const f of this.listeners) f();
  }
}

// taken is how many went a way from a node, and how many left the node by any.
export function taken(n: Node, s: Slot, counts: NodeCounts | undefined): { count: number; all: number } {
  const way = wayOf(n, s);
  const ways = [...(counts?.edges ?? []), ...(counts?.ends ?? []).map((e) => ({ ...e, next: "" }))];
  return {
    count: ways.find((e) => e.way === way && e.next === s.target)?.count ?? 0,
    all: ways.reduce((sum, e) => sum + e.count, 0),
  };
}
