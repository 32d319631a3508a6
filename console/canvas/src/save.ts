// Saves what is edited, a moment after the last change, and never over a change of somebody else.

import type { Problem } from "./edit.ts";
import { problemsOf, whyNot } from "./load.ts";

export type SaveState =
  | { is: "saved" | "unsaved" | "saving" | "conflict" }
  | { is: "failed" | "refused"; why: string }; // failed: by the network or the definition, refused: the journey's state

const pause = 800; // ms from the last change to saving
const retry = 5000; // ms after a try that failed
const outliving = 60_000; // bytes: browsers send no more than 64 KiB after the page is gone

// Saver saves a T: a definition, or the text of one.
export class Saver<T> {
  private wanted: T | undefined; // not yet sent
  private sending = false;
  private sent: Promise<void> = Promise.resolve(); // the newest try
  private timer: number | undefined;
  private checking = 0; // the number of the newest check
  private stopped = false; // somebody else has saved: nothing is sent until reset
  private state: SaveState = { is: "saved" };

  constructor(
    private readonly url: string,
    private readonly check: string,
    private etag: string,
    private readonly tell: (s: SaveState) => void,
    // of is what was checked: paths of problems count its nodes.
    private readonly onProblems: (p: Problem[], of: T) => void,
    private stored: T,
    private readonly written: (d: T) => string = JSON.stringify,
    private readonly kind = "application/json",
  ) {}

  // start checks what is stored already, and saves at once when the page is left. A link waits for
  // that: the next page would show what was stored before.
  start(): () => void {
    void this.look();
    const leave = (): void => {
      if (document.visibilityState === "hidden" && this.wanted !== undefined) void this.send(true);
    };
    document.addEventListener("visibilitychange", leave);
    const follow = (e: MouseEvent): void => {
      const link = e.target instanceof Element ? e.target.closest("a") : null;
      if (!link?.href || link.target || link.download || link.origin !== location.origin) return;
      if (e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || this.stopped || !(this.sending || this.wanted !== undefined)) return;
      e.preventDefault();
      void this.settled().then((saved) => saved && location.assign(link.href));
    };
    document.addEventListener("click", follow);
    // What could not be saved is lost with the page; what was not sent yet is sent as it goes.
    const lose = (e: BeforeUnloadEvent): void => {
      if (this.state.is === "failed" || this.state.is === "refused" || this.state.is === "conflict") e.preventDefault();
    };
    addEventListener("beforeunload", lose);
    return () => {
      removeEventListener("beforeunload", lose);
      document.removeEventListener("click", follow);
      document.removeEventListener("visibilitychange", leave);
      clearTimeout(this.timer);
    };
  }

  change(d: T): void {
    if (!this.url) return;
    this.wanted = d;
    if (this.stopped) return;
    this.onState({ is: "unsaved" });
    this.later(pause);
  }

  // now saves at once what has changed.
  now(): void {
    if (!this.sending) this.sent = this.send(false);
  }

  // reset goes on from what was loaded anew.
  reset(d: T, etag: string): void {
    this.stored = d;
    this.etag = etag;
    this.wanted = undefined;
    this.stopped = false;
    clearTimeout(this.timer);
    this.onState({ is: "saved" });
    void this.look();
  }

  // settled sends what is left, and tells whether all of it could be.
  private async settled(): Promise<boolean> {
    await this.sent;
    this.sent = this.send(false);
    await this.sent;
    return this.wanted === undefined && !this.stopped;
  }

  private onState(s: SaveState): void {
    this.state = s;
    this.tell(s);
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.now(), ms);
  }

  private async send(leaving: boolean): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const d = this.wanted;
    if (d === undefined || this.sending || this.stopped) return; // the end of what is sent now sends the rest
    this.sending = true;
    this.wanted = undefined;
    this.onState({ is: "saving" });
    try {
      const headers: Record<string, string> = { "Content-Type": this.kind };
      if (this.etag) headers["If-Match"] = this.etag;
      const body = this.written(d);
      const keepalive = leaving && new Blob([body]).size < outliving;
      const answer = await fetch(this.url, { method: "PUT", headers, body, keepalive });
      if (answer.ok) {
        this.etag = answer.headers.get("ETag") ?? "";
        this.stored = d;
        this.onState({ is: this.wanted === undefined ? "saved" : "unsaved" });
        void this.look();
      } else if (answer.status === 412) {
        this.stopped = true;
        this.onState({ is: "conflict" });
      } else if (answer.status === 409) {
        this.onState({ is: "refused", why: await whyNot(answer) });
      } else {
        const why = await whyNot(answer.clone());
        this.onState({ is: "failed", why });
        const problems = answer.status === 400 ? await problemsOf(answer) : [];
        if (answer.status === 400) this.onProblems(problems.length > 0 ? problems : [{ target: "", message: why }], d);
        else this.again(d);
      }
    } catch (e) {
      this.onState({ is: "failed", why: e instanceof Error ? e.message : String(e) });
      this.again(d);
    } finally {
      this.sending = false;
    }
    if (this.wanted !== undefined && this.timer === undefined) this.later(pause);
  }

  private again(d: T): void {
    this.wanted ??= d;
    this.later(retry);
  }

  // look asks what would keep the draft from being published.
  private async look(): Promise<void> {
    if (!this.check) return;
    const mine = ++this.checking;
    const of = this.stored;
    try {
      const problems = await problemsOf(await fetch(this.check, { cache: "no-store" }));
      if (mine === this.checking) this.onProblems(problems, of);
    } catch {
      // The next save checks again.
    }
  }
}
