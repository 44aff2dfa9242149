/** What is shown when a recorded run has ended. */

export interface RunResult {
  /** Exit status of the recorder: 0 nothing found, 1 findings, 2 it could not run. */
  exit: number;
  confirmed: number;
  refuted: number;
  notReached: number;
  /** Findings that only the run has shown. */
  found: number;
  /** How often a backward ran; undefined where the server does not say. */
  backwards: number | undefined;
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
}

/** The server's answer, or undefined where it is none. */
export function readTrialResult(raw: unknown): TrialResult | undefined {
  if (typeof raw !== 'object' || raw === null) return undefined;
  const { ok, helped, summary, markdown } = raw as Record<string, unknown>;
  if (typeof ok !== 'boolean' || typeof summary !== 'string') return undefined;
  return {
    ok,
    helped: helped === true,
    summary,
    markdown: typeof markdown === 'string' ? markdown : undefined,
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
    summary: typeof value.summary === 'string' ? value.summary : '',
  };
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
  const failed = result.exit !== 0 && result.exit !== 1 && total === 0;
  if (failed) return { level: 'error', text: `Tapecheck: ${text}` };
  return { level: result.confirmed + result.found > 0 ? 'warning' : 'info', text: `Tapecheck: ${text}` };
}

function counts(result: RunResult): string {
  const parts = [`${result.confirmed} confirmed`, `${result.refuted} refuted`];
  if (result.notReached > 0) parts.push(`${result.notReached} not reached`);
  if (result.found > 0) parts.push(`${result.found} found at run time`);
  return parts.join(', ');
}
