// Icons: strokes on a grid of 24, drawn in the colour of the text around them.

import type { ReactNode } from "react";

const paths: Record<string, ReactNode> = {
  touchpoint: <path d="M21 3 10.5 13.5M21 3l-6.6 18-3.9-7.5L3 9.6z" />,
  delay: (
    <>
      <circle cx="12" cy="12" r="9" />
      <path d="M12 7v5l3.2 2" />
    </>
  ),
  waitUntil: (
    <>
      <rect x="3.5" y="5" width="17" height="15.5" rx="2.5" />
      <path d="M8 3v4M16 3v4M3.5 10h17M9 15l2 2 4-4" />
    </>
  ),
  waitForEvent: <path d="M13 2.5 4.5 13.2a.6.6 0 0 0 .5 1h6l-1 7.3 8.5-10.7a.6.6 0 0 0-.5-1h-6z" />,
  waitFor: (
    <>
      <circle cx="12" cy="12" r="8.8" />
      <path d="m8 12.3 2.8 2.7L16 9.5" />
    </>
  ),
  updateLead: (
    <>
      <circle cx="9" cy="7.5" r="3.6" />
      <path d="M2.8 19.5a6.4 6.4 0 0 1 8.7-5.9M13 20.5l.7-3 5.2-5.2 2.3 2.3-5.2 5.2z" />
    </>
  ),
  emit: <path d="M12 12v.1M8 16a5.8 5.8 0 0 1 0-8M16 8a5.8 5.8 0 0 1 0 8M5 19a10 10 0 0 1 0-14M19 5a10 10 0 0 1 0 14" />,
  branch: (
    <>
      <path d="M6 4v16M6 12h6a5 5 0 0 0 5-5" />
      <path d="m13.5 9.5 3.5-3.5 3.5 3.5" />
    </>
  ),
  split: <path d="M12 21v-7M12 14 5 7M12 14l7-7M5 12V7h5M14 7h5v5" />,
  enroll: (
    <>
      <path d="M14 4h4.5A1.5 1.5 0 0 1 20 5.5v13a1.5 1.5 0 0 1-1.5 1.5H14" />
      <path d="M4 12h10.5M11 8l4 4-4 4" />
    </>
  ),
  exit: <path d="M5 21V4M5 4.5c4-2.5 7 2.5 14 0v9.5c-7 2.5-10-2.5-14 0" />,
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
      {paths[name] ?? <circle cx="12" cy="12" r="4" />}
    </svg>
  );
}
