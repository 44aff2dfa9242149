/** How the recorded runs of one file are made: program, launcher, arguments, directory, environment. Remembered. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { joinArguments, splitArguments } from './shellWords';

export interface RunConfiguration {
  /** What is run instead of a file that others import: a script, from the directory, or `-m module`. */
  program?: string;
  launcher?: string[];
  arguments?: string[];
  cwd?: string;
  env?: Record<string, string>;
}

const KEY = 'runConfigurations';
const MAX_PROGRAMS = 500;

interface Entry extends vscode.QuickPickItem {
  act: (configuration: RunConfiguration) => Promise<RunConfiguration | undefined>;
  run?: boolean;
}

export class RunConfigurations {
  constructor(private readonly memory: vscode.Memento) {}

  /** What a file was last told to run with; nothing where the settings hold. */
  of(uri: vscode.Uri): RunConfiguration {
    return this.all()[uri.toString()] ?? {};
  }

  /** A menu of what can be said of a file's runs, until it is closed; answers whether it is to be run now. */
  async ask(uri: vscode.Uri): Promise<boolean> {
    for (;;) {
      const chosen = await vscode.window.showQuickPick(entries(uri, this.of(uri)), {
        title: `Recorded runs of ${path.basename(uri.fsPath)}`,
        placeHolder: 'Anything not set here comes from the settings',
        ignoreFocusOut: true,
      });
      if (chosen === undefined) return false;
      if (chosen.run) return true;
      const changed = await chosen.act(this.of(uri));
      if (changed !== undefined) await this.keep(uri, changed);
    }
  }

  /** Asks for the arguments alone; answers whether they were given. */
  async askArguments(uri: vscode.Uri): Promise<boolean> {
    const before = this.of(uri);
    const prompt = `Arguments of ${path.basename(uri.fsPath)}, as on a command line`;
    const line = await askWords(prompt, before.arguments ?? []);
    if (line === undefined) return false;
    await this.keep(uri, set(before, 'arguments', line.length > 0 ? line : undefined));
    return true;
  }

  private async keep(uri: vscode.Uri, configuration: RunConfiguration): Promise<void> {
    const { [uri.toString()]: _before, ...others } = this.all();
    const empty = Object.keys(configuration).length === 0;
    await this.memory.update(KEY, empty ? others : { ...others, [uri.toString()]: configuration });
  }

  private all(): Record<string, RunConfiguration> {
    return this.memory.get<Record<string, RunConfiguration>>(KEY) ?? {};
  }
}

function entries(uri: vscode.Uri, now: RunConfiguration): Entry[] {
  const settings = vscode.workspace.getConfiguration('tapecheck.run', uri);
  const words = (name: string) => joinArguments(settings.get<string[]>(name) ?? []);
  const environment = (env: Record<string, string> | undefined) =>
    joinArguments(Object.entries(env ?? {}).map(([name, value]) => `${name}=${value}`));
  const shown = (own: string | undefined, setting: string) =>
    own ? own : setting ? `${setting} (from the settings)` : 'none';
  return [
    {
      label: '$(play) Run now',
      run: true,
      act: async () => undefined,
    },
    {
      label: '$(file-code) Program',
      description: now.program ?? 'this file',
      detail: 'For a file that others import: the script to run in its place',
      act: async (before) => {
        const program = await askProgram(uri, before.program);
        return program === undefined ? undefined : set(before, 'program', program || undefined);
      },
    },
    {
      label: '$(rocket) Launcher',
      description: shown(now.launcher && joinArguments(now.launcher), words('launcher')),
      act: async (before) => {
        const line = await askWords('For example: torchrun --nproc-per-node 2', before.launcher ?? []);
        return line === undefined ? undefined : set(before, 'launcher', line.length > 0 ? line : undefined);
      },
    },
    {
      label: '$(terminal) Arguments',
      description: shown(now.arguments && joinArguments(now.arguments), words('arguments')),
      act: async (before) => {
        const line = await askWords('Arguments, as on a command line', before.arguments ?? []);
        return line === undefined ? undefined : set(before, 'arguments', line.length > 0 ? line : undefined);
      },
    },
    {
      label: '$(folder) Directory',
      description:
        now.cwd || settings.get<string>('cwd')
          ? shown(now.cwd, settings.get<string>('cwd') ?? '')
          : 'the workspace folder',
      act: async (before) => {
        const cwd = await vscode.window.showInputBox({
          prompt: 'Directory to run in, absolute or from the workspace folder',
          value: before.cwd ?? '',
          ignoreFocusOut: true,
        });
        return cwd === undefined ? undefined : set(before, 'cwd', cwd.trim() || undefined);
      },
    },
    {
      label: '$(list-unordered) Environment',
      description: shown(environment(now.env), environment(settings.get<Record<string, string>>('env'))),
      act: async (before) => {
        const line = await askWords('NAME=value, as many as wanted', split(environment(before.env)), (word) =>
          /^[A-Za-z_]\w*=/.test(word),
        );
        const pairs = line?.map((word) => {
          const at = word.indexOf('=');
          return [word.slice(0, at), word.slice(at + 1)] as const;
        });
        return pairs && set(before, 'env', pairs.length > 0 ? Object.fromEntries(pairs) : undefined);
      },
    },
    ...(Object.keys(now).length > 0
      ? [
          {
            label: '$(discard) Reset',
            description: 'use the settings',
            act: async () => ({}),
          } satisfies Entry,
        ]
      : []),
  ];
}

/** A configuration with one member set, or without it. */
function set<K extends keyof RunConfiguration>(
  before: RunConfiguration,
  key: K,
  value: RunConfiguration[K] | undefined,
): RunConfiguration {
  const { [key]: _before, ...others } = before;
  return value === undefined ? others : { ...others, [key]: value };
}

function split(line: string): string[] {
  return splitArguments(line) ?? [];
}

async function askWords(
  prompt: string,
  value: readonly string[],
  valid: (word: string) => boolean = () => true,
): Promise<string[] | undefined> {
  const line = await vscode.window.showInputBox({
    prompt: `${prompt}; empty: as in the settings`,
    value: joinArguments(value),
    ignoreFocusOut: true,
    validateInput: (given) => {
      const words = splitArguments(given);
      if (words === undefined) return 'A quote is not closed';
      return words.every(valid) ? undefined : 'NAME=value, please';
    },
  });
  return line === undefined ? undefined : split(line);
}

/** The script or module to run: empty for the file itself, undefined where the user cancels. */
async function askProgram(uri: vscode.Uri, before: string | undefined): Promise<string | undefined> {
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  const pattern = new vscode.RelativePattern(folder ?? vscode.Uri.joinPath(uri, '..'), '**/*.py');
  const files = await vscode.workspace.findFiles(pattern, '**/{.venv,venv,node_modules}/**', MAX_PROGRAMS);
  const programs = files
    .filter((file) => file.toString() !== uri.toString())
    .map((file) => ({ label: vscode.workspace.asRelativePath(file, false), file: file.fsPath }))
    .sort((a, b) => a.label.localeCompare(b.label));
  const own = { label: '$(file) This file', file: '' };
  const named = { label: '$(edit) A module, or another script…', file: '' };
  const chosen = await vscode.window.showQuickPick([own, named, ...programs], {
    placeHolder: 'The program to run instead of this file',
    ignoreFocusOut: true,
  });
  if (chosen !== named) return chosen?.file;
  return vscode.window.showInputBox({
    prompt: 'A script, from the directory of the run, or "-m package.module"',
    value: before ?? '',
    ignoreFocusOut: true,
  });
}
