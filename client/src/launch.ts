/** Decides how the server process is started. */

import * as path from 'node:path';
import type { Candidate } from './interpreter';
import type { Probe, ProbeSuccess } from './probe';
import type { ImportStrategy } from './settings';

export interface LaunchPlan {
  ok: true;
  command: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Where the Tapecheck that runs comes from. */
  source: 'bundled' | 'environment' | 'path';
  /** What the server's interpreter said about itself; unknown where `tapecheck.path` is set. */
  server: ProbeSuccess | undefined;
  /** The interpreter that runs the user's scripts: the first that can be started, even where it is too old for the server. */
  runInterpreter: string[];
  attempts: Attempt[];
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
  /** The `tapecheck.path` setting, variables already replaced. */
  path: readonly string[];
  importStrategy: ImportStrategy;
  /** Folder with the packages that come with the extension; undefined where there is none. */
  bundled: string | undefined;
  /** A folder that holds no Python file: the server's working directory, since `python -m` puts it on `sys.path`. */
  cwd: string;
  env: NodeJS.ProcessEnv;
  probe: (command: readonly string[], options: { env: NodeJS.ProcessEnv; cwd: string }) => Promise<Probe>;
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
      env: input.env,
      cwd: input.cwd,
      source: 'path',
      server: undefined,
      runInterpreter: firstCommand,
      attempts: [],
    };
  }

  const withBundle = input.bundled === undefined ? undefined : bundledEnvironment(input.env, input.bundled);
  const attempts: Attempt[] = [];
  for (const candidate of input.candidates) {
    const tries: ['bundled' | 'environment', NodeJS.ProcessEnv][] = [];
    if (input.importStrategy === 'fromEnvironment' || withBundle === undefined) {
      tries.push(['environment', input.env]);
    }
    if (withBundle !== undefined) tries.push(['bundled', withBundle]);
    for (const [source, env] of tries) {
      const probe = await input.probe(candidate.command, { env, cwd: input.cwd });
      attempts.push({ candidate, source, probe });
      if (probe.ok) {
        const [command = '', ...args] = candidate.command;
        const runner = attempts.find((attempt) => canRunScripts(attempt.probe)) ?? {
          candidate,
          probe,
        };
        return {
          ok: true,
          command,
          args: [...args, '-m', 'tapecheck', 'serve'],
          env,
          cwd: input.cwd,
          source,
          server: probe,
          runInterpreter: runner.candidate.command,
          attempts,
        };
      }
      if (probe.reason !== 'missing-modules' && probe.reason !== 'failed') break;
    }
  }
  return { ok: false, attempts };
}

/** The environment of the process in which the packages that come with the extension are imported first. */
export function bundledEnvironment(env: NodeJS.ProcessEnv, bundled: string): NodeJS.ProcessEnv {
  const own = env.PYTHONPATH;
  return { ...env, PYTHONPATH: own ? `${bundled}${path.delimiter}${own}` : bundled };
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
