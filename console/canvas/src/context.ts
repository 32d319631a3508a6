// What all parts of the picture need, given by app.tsx.

import { createContext, use, useSyncExternalStore } from "react";

import type * as code from "./code.ts";
import type { Names } from "./complete.ts";
import type { Place } from "./edit.ts";
import type { Live, NodeCounts } from "./live.ts";
import type { Words } from "./words.ts";

export interface Shared {
  words: Words;
  live: Live | undefined;
  // add opens the menu of node types for a place, below the button that was pressed; undefined
  // where nothing is edited.
  add: ((place: Place, button: HTMLElement) => void) | undefined;
  pick: ((edge: string) => void) | undefined; // chooses an edge by its label
  drop: ((place: Place, type: string) => void) | undefined;
  expressions?: Expressions | undefined; // where something is edited
}

// Expressions is what fields of conditions and templates need. Their editor is loaded with the first
// of them.
export interface Expressions {
  load: () => Promise<typeof code>;
  nonce: string;
  names: Omit<Names, "event" | "place">;
  properties: Record<string, string[]>; // of events, by their names
}

export const SharedContext = createContext<Shared | undefined>(undefined);

export function useShared(): Shared {
  const shared = use(SharedContext);
  if (!shared) throw new Error("no SharedContext");
  return shared;
}

const never = (): (() => void) => () => {};

// useCounts draws a component again when the numbers of its node change.
export function useCounts(id: string): NodeCounts | undefined {
  const { live } = useShared();
  return useSyncExternalStore(live?.subscribe ?? never, () => live?.node(id));
}

// useEntered is how many enrollments were made; undefined until it is known.
export function useEntered(): number | undefined {
  const { live } = useShared();
  return useSyncExternalStore(live?.subscribe ?? never, () => live?.entered());
}

export function useStale(): Date | undefined {
  const { live } = useShared();
  return useSyncExternalStore(live?.subscribe ?? never, () => live?.stale());
}
