/** Decides how the server process is started. */

import type { Candidate } from './interpreter';
import type { Probe, ProbeOptions, ProbeSuccess } from './probe';
import type { ImportStrategy } from './settings';

export interface LaunchPlan {
  ok: true;
  command: string;
  args: string[];
  cwd: string;
  /** Where the Tapecheck that runs comes from. */
  source: 'bundled' | 'environment' | 'path';
  /** What the server's interpreter said about itself; unknown where `tapecheck.path` is set. */
  server: ProbeSuccess | undefined;
  /** The interpreter that runs the user's scripts: the first that can be started, even where it is too old for the server. */
  runInterpreter: string[];
  /** What that interpreter said: its Python, and the torch of recorded runs; unknown where nothing was asked. */
  runs: { version: string | undefined; torch: string | undefined } | undefined;
  attempts: Attempt[];
  /** Why the interpreter that was set cannot be used, where another one runs the server in its place. */
  broken?: string;
}

export interface LaunchFailure {
  ok: false;
  attempts: Attempt[];
}

export interface Attempt {
  candidate: Candidate;
  source: 'bundled' | 'environment';
  probe: Probe;
}

export interface LaunchInput {
  candidates: readonly Candidate[];
  /** Interpreters for the server alone, where none of the candidates can run it: checking needs no PyTorch. */
  others?: readonly Candidate[];
  /** The `tapecheck.path` setting, variables already replaced. */
  path: readonly string[];
  importStrategy: ImportStrategy;
  /** Folder with the packages that come with the extension; undefined where there is none. */
  bundled: string | undefined;
  /** A folder that holds no Python file: the server's working directory, since `python -m` puts it on `sys.path`. */
  cwd: string;
  env: NodeJS.ProcessEnv;
  probe: (command: readonly string[], options: ProbeOptions) => Promise<Probe>;
}

/** The first interpreter in which the server can run, and how; or why none can. */
export async function planLaunch(input: LaunchInput): Promise<LaunchPlan | LaunchFailure> {
  const [program, ...rest] = input.path;
  const firstCommand = input.candidates[0]?.command ?? [];
  if (program !== undefined) {
    return {
      ok: true,
      command: program,
      args: [...rest, 'serve'],
      cwd: input.cwd,
      source: 'path',
      server: undefined,
      runInterpreter: firstCommand,
      runs: undefined,
      attempts: [],
    };
  }

  const attempts: Attempt[] = [];
  for (const candidate of [...input.candidates, ...(input.others ?? [])]) {
    const tries: Attempt['source'][] = [];
    if (input.importStrategy === 'fromEnvironment' || input.bundled === undefined) tries.push('environment');
    if (input.bundled !== undefined) tries.push('bundled');
    for (const source of tries) {
      const libraries = source === 'bundled' ? input.bundled : undefined;
      const probe = await input.probe(candidate.command, { libraries, cwd: input.cwd, env: input.env });
      attempts.push({ candidate, source, probe });
      if (probe.ok) {
        const [command = '', ...args] = candidate.command;
        const chosen = input.candidates.includes(candidate);
        const usable = attempts.find(
          (attempt) => canRunScripts(attempt.probe) && input.candidates.includes(attempt.candidate),
        );
        // What was set runs the scripts or nothing does: it is never silently replaced.
        const runner = usable ?? (chosen ? { candidate, probe } : attempts[0]) ?? { candidate, probe };
        const failed = chosen ? undefined : attempts.findLast((attempt) => attempt.candidate !== candidate);
        return {
          ok: true,
          command,
          args: [...args, ...moduleArguments(libraries), 'serve'],
          cwd: input.cwd,
          source,
          server: probe,
          runInterpreter: runner.candidate.command,
          runs: { version: runner.probe.version, torch: runner.probe.torch },
          attempts,
          ...(failed === undefined || failed.probe.ok || canRunScripts(failed.probe)
            ? {}
            : { broken: failed.probe.detail }),
        };
      }
      if (probe.reason !== 'missing-modules' && probe.reason !== 'failed') break;
    }
  }
  return { ok: false, attempts };
}

/**
 * How Python is told to run Tapecheck, from `libraries` where that is given.
 *
 * The folder goes on `sys.path` of this one process. In PYTHONPATH it would reach the user's own scripts too,
 * which the server starts for recorded runs, and change the packages they import.
 */
export function moduleArguments(libraries: string | undefined): string[] {
  if (libraries === undefined) return ['-m', 'tapecheck'];
  const start =
    'import sys; sys.path.insert(0, sys.argv.pop(1)); import tapecheck.cli as c; sys.exit(c.main())';
  return ['-c', start, libraries];
}

/** One sentence that says why no server runs, for a message box. */
export function describeFailure(failure: LaunchFailure): string {
  const last = new Map(failure.attempts.map((attempt) => [attempt.candidate, attempt.probe]));
  const reasons = [...last.values()].flatMap((probe) => (probe.ok ? [] : [probe.detail]));
  if (reasons.length === 0) {
    return 'Tapecheck found no Python interpreter. Select one with Python 3.10 or later.';
  }
  return `Tapecheck found no Python interpreter its server can run in: ${reasons.join('; ')}.`;
}

function canRunScripts(probe: Probe): boolean {
  return probe.ok || probe.reason === 'too-old' || probe.reason === 'missing-modules';
}

/**
 * The interpreter of recorded runs: its Python, its torch, and its path, of which least is lost at the end; why there
 * are no runs, where the one that is set cannot be started.
 */
export function describeInterpreter(plan: LaunchPlan): string {
  if (plan.broken !== undefined) return `no recorded runs: ${plan.broken}`;
  const { version, torch } = plan.runs ?? {};
  const parts = version === undefined ? [] : [`Python ${version}`, torch ? `torch ${torch}` : 'no torch'];
  return [parts.join(', '), plan.runInterpreter.join(' ')].filter(Boolean).join(' · ');
}

/** The server that runs, and the interpreter of recorded runs. */
export function describePlan(plan: LaunchPlan): string {
  if (plan.server === undefined) return `${plan.command} (tapecheck.path)`;
  const from = plan.source === 'bundled' ? 'bundled' : 'from the environment';
  const where = plan.broken === undefined ? '' : `, in ${plan.command}`;
  return `${plan.server.tapecheck} ${from}${where} · ${describeInterpreter(plan)}`;
}
