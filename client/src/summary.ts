/** What is shown when a recorded run has ended. */

/** What helps where nothing was looked at. */
export type Next = 'arguments' | 'configure' | 'program' | 'interpreter';

const NEXT: readonly string[] = ['arguments', 'configure', 'program', 'interpreter'] satisfies Next[];

export interface RunResult {
  /** Exit status of the recorder: 0 no problem seen, 1 findings, 2 it could not run, 3 nothing was looked at. */
  exit: number;
  confirmed: number;
  refuted: number;
  notReached: number;
  /** Findings that only the run has shown. */
  found: number;
  /** How often a backward ran; undefined where the server does not say. */
  backwards: number | undefined;
  next: Next | undefined;
  summary: string;
}

/** What trying a fix has shown. */
export interface TrialResult {
  ok: boolean;
  /** Whether what was wrong no longer happens. */
  helped: boolean;
  summary: string;
  /** Both runs beside each other. */
  markdown: string | undefined;
  next: Next | undefined;
}

/** The server's answer, or undefined where it is none. */
export function readTrialResult(raw: unknown): TrialResult | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined;
  const { ok, helped, summary, markdown, next } = raw as Record<string, unknown>;
  if (typeof ok !== 'boolean' || typeof summary !== 'string') return undefined;
  return {
    ok,
    helped: helped === true,
    summary,
    markdown: typeof markdown === 'string' ? markdown : undefined,
    next: readNext(next),
  };
}

/** The server's answer, or undefined where it is none. */
export function readRunResult(raw: unknown): RunResult | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined;
  const value = raw as Record<string, unknown>;
  const count = (name: string) => (typeof value[name] === 'number' ? (value[name] as number) : 0);
  if (typeof value.exit !== 'number') return undefined;
  return {
    exit: value.exit,
    confirmed: count('confirmed'),
    refuted: count('refuted'),
    notReached: count('notReached'),
    found: count('found'),
    backwards: typeof value.backwards === 'number' ? value.backwards : undefined,
    next: readNext(value.next),
    summary: typeof value.summary === 'string' ? value.summary : '',
  };
}

function readNext(raw: unknown): Next | undefined {
  return typeof raw === 'string' && NEXT.includes(raw) ? (raw as Next) : undefined;
}

export interface RunMessage {
  level: 'info' | 'warning' | 'error';
  text: string;
}

/** The message for a person: the server's own sentence, else the counts. */
export function describeRun(file: string, result: RunResult | undefined): RunMessage {
  if (result === undefined) {
    return { level: 'error', text: `Tapecheck: the run of ${file} returned no result.` };
  }
  const total = result.confirmed + result.refuted + result.notReached + result.found;
  const said = result.summary.trim() || counts(result);
  const text = said.includes(file) ? said : `${file}: ${said}`;
  const failed = result.exit !== 0 && result.exit !== 1 && result.exit !== 3 && total === 0;
  if (failed) return { level: 'error', text: `Tapecheck: ${text}` };
  const notable = result.confirmed + result.found > 0 || result.exit === 3;
  return { level: notable ? 'warning' : 'info', text: `Tapecheck: ${text}` };
}

function counts(result: RunResult): string {
  const parts = [`${result.confirmed} confirmed`, `${result.refuted} refuted`];
  if (result.notReached > 0) parts.push(`${result.notReached} not reached`);
  if (result.found > 0) parts.push(`${result.found} found at run time`);
  return parts.join(', ');
}
