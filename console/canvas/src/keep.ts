// Keeps a definition that cannot be saved, because somebody else has saved another one, as a journey
// of its own.

import { whyNot } from "./load.ts";

export async function keepCopy(url: string, body: string, kind: string): Promise<{ name: string; path: string } | { why: string }> {
  try {
    const answer = await fetch(url, { method: "POST", headers: { "Content-Type": kind }, body });
    return answer.ok ? ((await answer.json()) as { name: string; path: string }) : { why: await whyNot(answer) };
  } catch (e) {
    return { why: e instanceof Error ? e.message : String(e) };
  }
}
