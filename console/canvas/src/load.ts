// What the page names is fetched here.

import { type Definition, definitionOf, parseJSON } from "./definition.ts";
import type { Problem } from "./edit.ts";
import type { Page } from "./main.tsx";

// Options are what the pickers offer; only their names matter where nothing is edited.
export interface Options {
  webhooks: { id: string; name: string }[];
  journeys: { id: string; name: string }[];
  segments: { id: string; name: string }[];
  events: string[];
  fields: string[]; // custom fields of leads
  timezones: string[];
  properties: Record<string, string[]>; // of events, by their names
}

export interface Loaded {
  definition: Definition;
  etag: string;
  older: Definition | undefined;
  options: Options;
}

const none: Options = { webhooks: [], journeys: [], segments: [], events: [], fields: [], timezones: [], properties: {} };

async function get(url: string): Promise<{ json: unknown; etag: string }> {
  const answer = await fetch(url, { cache: "no-store", headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(await whyNot(answer));
  return { json: parseJSON(await answer.text()), etag: answer.headers.get("ETag") ?? "" };
}

// loadOptions reads what pickers offer. Without names, ids are shown: that is no reason to show nothing.
export async function loadOptions(url: string): Promise<Options> {
  const answer = url ? await get(url).catch(() => undefined) : undefined;
  const given = answer?.json as Partial<Options> | undefined;
  return { ...none, ...given, timezones: given?.timezones ?? Intl.supportedValuesOf("timeZone") };
}

export async function load(page: Page): Promise<Loaded> {
  const [journey, older, options] = await Promise.all([get(page.journey), page.compare ? get(page.compare) : undefined, loadOptions(page.options)]);
  return {
    definition: definitionOf(journey.json),
    etag: journey.etag,
    older: older && definitionOf(older.json),
    options,
  };
}

interface ErrorBody {
  message?: string;
  detail?: (Problem & { code?: string })[];
  problems?: Problem[];
}

// whyNot is the message of an answer that is an error.
export async function whyNot(answer: Response): Promise<string> {
  const { message, detail } = await errorBody(answer.clone());
  return detail?.[0] ? `${detail[0].target}: ${detail[0].message}` : message || `HTTP ${answer.status}`;
}

async function errorBody(answer: Response): Promise<ErrorBody> {
  try {
    return ((await answer.json()) as ErrorBody | null) ?? {};
  } catch {
    return {}; // a proxy's page
  }
}

// problemsOf takes problems out of the answer of a check ({"problems": […]}), or out of an error ({"detail": […]}).
export async function problemsOf(answer: Response): Promise<Problem[]> {
  const { problems, detail } = await errorBody(answer);
  return problems ?? detail ?? [];
}
