// Saves what is edited, a moment after the last change, and never over a change of somebody else.

import type { Definition } from "./definition.ts";
import type { Problem } from "./edit.ts";
import { problemsOf, whyNot } from "./load.ts";

export type SaveState =
  | { is: "saved" | "unsaved" | "saving" | "conflict" }
  | { is: "failed" | "refused"; why: string }; // failed: by the network or the definition, refused: the journey's state

const pause = 800; // ms from the last change to saving
const retry = 5000; // ms after a try that failed
const outliving = 60_000; // bytes: browsers send no more than 64 KiB after the page is gone

export class Saver {
  private wanted: Definition | undefined; // not yet sent
  private sending = false;
  private timer: number | undefined;
  private checking = 0; // the number of the newest check

  constructor(
    private readonly url: string,
    private readonly check: string,
    private etag: string,
    private readonly onState: (s: SaveState) => void,
    // of is what was checked: paths of problems count its nodes.
    private readonly onProblems: (p: Problem[], of: Definition) => void,
    private stored: Definition,
  ) {}

  // start checks what is stored already, and saves at once when the page is left.
  start(): () => void {
    void this.look();
    const leave = (): void => {
      if (document.visibilityState === "hidden" && this.wanted) void this.send(true);
    };
    document.addEventListener("visibilitychange", leave);
    return () => {
      document.removeEventListener("visibilitychange", leave);
      clearTimeout(this.timer);
    };
  }

  change(d: Definition): void {
    if (!this.url) return;
    this.wanted = d;
    this.onState({ is: "unsaved" });
    this.later(pause);
  }

  // overwrite saves although somebody else has changed the journey: over that change.
  async overwrite(d: Definition): Promise<void> {
    this.wanted = d;
    this.etag = "";
    await this.send(false);
  }

  // reset goes on from what was loaded anew.
  reset(d: Definition, etag: string): void {
    this.stored = d;
    this.etag = etag;
    this.wanted = undefined;
    clearTimeout(this.timer);
    this.onState({ is: "saved" });
    void this.look();
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.send(false), ms);
  }

  private async send(leaving: boolean): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const d = this.wanted;
    if (!d || this.sending) return; // the end of what is sent now sends the rest
    this.sending = true;
    this.wanted = undefined;
    this.onState({ is: "saving" });
    try {
      const headers: Record<string, string> = { "Content-Type": "application/json" };
      if (this.etag) headers["If-Match"] = this.etag;
      const body = JSON.stringify(d);
      const keepalive = leaving && new Blob([body]).size < outliving;
      const answer = await fetch(this.url, { method: "PUT", headers, body, keepalive });
      if (answer.ok) {
        this.etag = answer.headers.get("ETag") ?? "";
        this.stored = d;
        this.onState({ is: this.wanted ? "unsaved" : "saved" });
        void this.look();
      } else if (answer.status === 412) {
        this.onState({ is: "conflict" });
        this.wanted = undefined;
      } else if (answer.status === 409) {
        this.onState({ is: "refused", why: await whyNot(answer) });
      } else {
        this.onState({ is: "failed", why: await whyNot(answer.clone()) });
        if (answer.status === 400) this.onProblems(await problemsOf(answer), d);
        else this.again(d);
      }
    } catch (e) {
      this.onState({ is: "failed", why: e instanceof Error ? e.message : String(e) });
      this.again(d);
    } finally {
      this.sending = false;
    }
    if (this.wanted && this.timer === undefined) this.later(pause);
  }

  private again(d: Definition): void {
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
