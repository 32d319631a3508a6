// Icons: strokes on a grid of 24, as those of types of nodes (journey/nodes), drawn in the colour of the text around them.

import type { ReactNode } from "react";

import { described } from "./definition.ts";

const paths: Record<string, ReactNode> = {
  settings: (
    <>
      <path d="M4 7h9M19 7h1M4 17h1M11 17h9" />
      <circle cx="16" cy="7" r="2.6" />
      <circle cx="8" cy="17" r="2.6" />
    </>
  ),
  start: <path d="M8 5.5v13l10.5-6.5z" />,
  missing: <path d="M12 8.5v4.5M12 16.5v.1M10.3 4.2 2.8 17.3A2 2 0 0 0 4.5 20.3h15a2 2 0 0 0 1.7-3L13.7 4.2a2 2 0 0 0-3.4 0z" />,
  people: (
    <>
      <circle cx="12" cy="8" r="3.8" />
      <path d="M4.8 20a7.2 7.2 0 0 1 14.4 0" />
    </>
  ),
  passed: <path d="M12 4v15M6 13.5l6 6 6-6" />,
  plus: <path d="M12 5v14M5 12h14" />,
  minus: <path d="M5 12h14" />,
  fit: <path d="M4 9V5.5A1.5 1.5 0 0 1 5.5 4H9M15 4h3.5A1.5 1.5 0 0 1 20 5.5V9M20 15v3.5a1.5 1.5 0 0 1-1.5 1.5H15M9 20H5.5A1.5 1.5 0 0 1 4 18.5V15" />,
  top: <path d="M5 4h14M12 20V9M7 13.5l5-5 5 5" />,
  close: <path d="M6 6l12 12M18 6 6 18" />,
  undo: <path d="M9 7 4.5 11.5 9 16M5 11.5h9.5a5 5 0 0 1 0 10H12" />,
  redo: <path d="m15 7 4.5 4.5L15 16M19 11.5H9.5a5 5 0 0 0 0 10H12" />,
  copy: (
    <>
      <rect x="8.5" y="8.5" width="12" height="12" rx="2.5" />
      <path d="M15.5 8.5V6A2.5 2.5 0 0 0 13 3.5H6A2.5 2.5 0 0 0 3.5 6v7A2.5 2.5 0 0 0 6 15.5h2.5" />
    </>
  ),
  paste: (
    <>
      <rect x="5" y="4.5" width="14" height="16.5" rx="2.5" />
      <path d="M9 4.5a1.5 1.5 0 0 1 1.5-1.5h3A1.5 1.5 0 0 1 15 4.5V7H9zM9 12h6M9 16h4" />
    </>
  ),
  trash: <path d="M4 6.5h16M9.5 6.5V4.5A1 1 0 0 1 10.5 3.5h3a1 1 0 0 1 1 1v2M6 6.5l.9 12.6a1.5 1.5 0 0 0 1.5 1.4h7.2a1.5 1.5 0 0 0 1.5-1.4L18 6.5M10 11v5M14 11v5" />,
  up: <path d="M12 19V6M6.5 11.5 12 6l5.5 5.5" />,
  check: <path d="m5 12.5 4.5 4.5L19 7.5" />,
  note: <path d="M5 4.5h14v11l-4.5 4.5H5zM14.5 20v-4.5H19M8.5 9h7M8.5 12.5h4" />,
};

export type IconName = keyof typeof paths;

export function Icon({ name, size = 18 }: { name: string; size?: number }) {
  return (
    <svg
      className="wp-icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {paths[name] ?? (described(name) ? <path d={described(name)!.icon} /> : <circle cx="12" cy="12" r="4" />)}
    </svg>
  );
}
