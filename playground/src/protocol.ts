// What the page and the worker say to each other.

/** A place: rows and columns count from 1, columns in characters. */
export interface Place {
  row: number;
  column: number;
}

export interface Range {
  location: Place;
  end_location: Place;
}

export interface Fix {
  applicability: 'safe' | 'unsafe';
  message: string;
  changes: string;
  edits: (Range & { content: string })[];
}

export interface Finding extends Range {
  code: string;
  name: string;
  message: string;
  severity: 'error' | 'warning' | 'info' | 'hint';
  url: string | null;
  notes: string[];
  help: string | null;
  related: (Range & { message: string; role: string })[];
}

export interface Hover extends Range {
  markdown: string;
}

export type Question =
  | { kind: 'check'; id: number; text: string }
  | { kind: 'hover'; id: number; row: number; column: number }
  | { kind: 'picture'; id: number };

export type Answer =
  | { kind: 'ready'; version: string; torch: string; milliseconds: number }
  | { kind: 'checked'; id: number; findings: Finding[]; milliseconds: number }
  | { kind: 'fixes'; id: number; index: number; fixes: Fix[]; last: boolean }
  | { kind: 'hover'; id: number; hover: Hover | null }
  | { kind: 'picture'; id: number; svg: string }
  | { kind: 'failed'; id: number | null; message: string };
