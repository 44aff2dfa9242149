/** Which Python interpreters to try for the server, and in which order. */

import * as path from 'node:path';
import type { Probe } from './probe';

export type Origin =
  | 'setting'
  | 'python-extension'
  | 'workspace'
  | 'path'
  | 'conda'
  | 'pyenv'
  | 'poetry'
  | 'uv'
  | 'virtualenv';

export interface Candidate {
  /** The command, one element an argument. */
  command: string[];
  origin: Origin;
}

export interface InterpreterSources {
  /** The `tapecheck.interpreter` setting, variables already replaced. */
  setting: readonly string[];
  /** The environment that is active in the Python extension, where that extension is present. */
  active: string | undefined;
  /** Folders of the workspace. */
  folders: readonly string[];
  /** In an untrusted workspace nothing that lies inside the workspace is started. */
  trusted: boolean;
  platform: NodeJS.Platform;
  env: Readonly<Record<string, string | undefined>>;
  isFile: (file: string) => boolean;
}

/** Interpreters in the order of preference. A setting stands alone: it is never silently replaced. */
export function candidates(sources: InterpreterSources): Candidate[] {
  if (sources.setting.length > 0) {
    return [{ command: resolveCommand(sources.setting, sources), origin: 'setting' }];
  }
  const found: Candidate[] = [];
  const seen = new Set<string>();
  const add = (command: string[], origin: Origin) => {
    const key = JSON.stringify(command);
    if (!seen.has(key)) {
      seen.add(key);
      found.push({ command, origin });
    }
  };

  const { active } = sources;
  if (active && (sources.trusted || !sources.folders.some((folder) => isInside(active, folder, sources)))) {
    add([active], 'python-extension');
  }
  if (sources.trusted) {
    for (const folder of sources.folders) {
      for (const name of ['.venv', 'venv']) {
        const python = venvPython(path.join(folder, name), sources.platform);
        if (sources.isFile(python)) add([python], 'workspace');
      }
    }
  }
  const onPath = sources.platform === 'win32' ? [['py', '-3'], ['python']] : [['python3'], ['python']];
  for (const [name = '', ...rest] of onPath) {
    const file = which(name, sources);
    const outside =
      file !== undefined &&
      (sources.trusted || !sources.folders.some((folder) => isInside(file, folder, sources)));
    if (outside) add([file, ...rest], 'path');
  }
  return found;
}

/** The interpreter inside a virtual environment. */
export function venvPython(venv: string, platform: NodeJS.Platform): string {
  return platform === 'win32' ? path.join(venv, 'Scripts', 'python.exe') : path.join(venv, 'bin', 'python');
}

/**
 * Where PATH has a program. Relative entries of PATH are skipped, and so is the current folder, which
 * Windows would search first: either can lie inside the workspace.
 */
export function which(
  name: string,
  sources: Pick<InterpreterSources, 'platform' | 'env' | 'isFile'>,
): string | undefined {
  const windows = sources.platform === 'win32';
  const entries = (sources.env.PATH ?? sources.env.Path ?? '').split(windows ? ';' : ':');
  const suffixes = windows && path.extname(name) === '' ? ['.exe'] : [''];
  for (const entry of entries) {
    if (!path.isAbsolute(entry)) continue;
    for (const suffix of suffixes) {
      const file = path.join(entry, name + suffix);
      if (sources.isFile(file)) return file;
    }
  }
  return undefined;
}

/** The command with its program looked up on PATH; a program with a folder in its name stays as written. */
export function resolveCommand(
  command: readonly string[],
  sources: Pick<InterpreterSources, 'platform' | 'env' | 'isFile'>,
): string[] {
  const [program = '', ...rest] = command;
  if (program.includes('/') || program.includes('\\')) return [program, ...rest];
  return [which(program, sources) ?? program, ...rest];
}

function isInside(file: string, folder: string, sources: Pick<InterpreterSources, 'platform'>): boolean {
  const normal = (p: string) => (sources.platform === 'win32' ? p.toLowerCase() : p);
  const relative = path.relative(normal(folder), normal(file));
  return relative === '' || (!relative.startsWith('..') && !path.isAbsolute(relative));
}

/** What is said of an interpreter in a list; undefined where the server cannot run in it, whatever is brought along. */
export function aboutInterpreter(probe: Probe): string | undefined {
  if (!probe.ok && probe.reason !== 'missing-modules' && probe.reason !== 'failed') return undefined;
  if (probe.version === undefined) return undefined;
  const torch =
    probe.torch === undefined ? 'no torch' : `torch ${probe.torch.split('+')[0]} (${probe.device})`;
  return `Python ${probe.version} · ${torch}`;
}
