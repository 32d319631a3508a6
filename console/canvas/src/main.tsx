// The canvas: draws the journey that the page names, in its element with the id canvas. What the
// element can say is listed in README.md.

import { createRoot } from "react-dom/client";

import "./canvas.css";
import { App } from "./app.tsx";
import type { Links } from "./panel.tsx";
import { type Texts, texts } from "./texts.ts";

export interface Page {
  element: HTMLElement;
  lang: string;
  texts: Texts;
  journey: string; // addresses; "" where the page names none
  statistics: string;
  compare: string;
  options: string;
  save: string;
  check: string;
  keep: string;
  code: string;
  nonce: string;
  edit: boolean;
  panel: HTMLElement | undefined;
  links: Links;
}

function readPage(element: HTMLElement): Page {
  const data = element.dataset;
  const object = <T extends object>(text: string | undefined): Partial<T> => (text ? (JSON.parse(text) as Partial<T>) : {});
  const lang = data["lang"] || document.documentElement.lang || "en";
  return {
    element,
    lang: lang.startsWith("zh") ? "zh-CN" : lang,
    texts: texts(lang, object<Texts>(data["texts"])),
    journey: data["journey"] ?? "",
    statistics: data["statistics"] ?? "",
    compare: data["compare"] ?? "",
    options: data["options"] ?? "",
    save: data["save"] ?? "",
    check: data["check"] ?? "",
    keep: data["keep"] ?? "",
    code: data["code"] ?? "",
    nonce: element.nonce ?? "",
    edit: data["edit"] === "true",
    panel: (data["panel"] && document.getElementById(data["panel"])) || undefined,
    links: object<Record<keyof Links, string>>(data["links"]),
  };
}

const element = document.getElementById("canvas");
if (element) createRoot(element).render(<App page={readPage(element)} />);
