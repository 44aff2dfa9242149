/** A menu of the interpreters that were found, for those who have no Python extension to choose one in. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { aboutInterpreter, type Candidate, type Origin } from './interpreter';
import type { Probe } from './probe';

const ORIGINS: Record<Origin, string> = {
  setting: 'from the settings',
  'python-extension': 'from the Python extension',
  workspace: 'in the workspace',
  path: 'on PATH',
  conda: 'conda',
  pyenv: 'pyenv',
  poetry: 'poetry',
  uv: 'uv',
  virtualenv: 'virtualenv',
};

interface Entry extends vscode.QuickPickItem {
  /** The value that the setting gets, undefined to take it away; nothing where that is asked for first. */
  ask: () => Promise<{ setting: string[] | undefined } | undefined>;
}

/**
 * Asks for an interpreter and writes it to the settings; the server is started anew when they change.
 *
 * `probe` asks one what it has: what is too old for the server, or no Python, is not offered.
 */
export async function pickInterpreter(
  found: readonly Candidate[],
  current: readonly string[],
  probe: (command: readonly string[]) => Promise<Probe>,
): Promise<void> {
  const entries = offered(found, probe, current);
  const chosen = await vscode.window.showQuickPick(entries, {
    title: 'The Python for Tapecheck',
    placeHolder: 'Python 3.10 or later; recorded runs need the one that has your PyTorch',
  });
  const answer = await chosen?.ask();
  if (answer !== undefined) await write(answer.setting);
}

async function offered(
  found: readonly Candidate[],
  probe: (command: readonly string[]) => Promise<Probe>,
  current: readonly string[],
): Promise<Entry[]> {
  const asked = await Promise.all(
    found.map(async ({ command, origin }) => ({
      command,
      origin,
      about: aboutInterpreter(await probe(command)),
    })),
  );
  const entries: Entry[] = asked.flatMap(({ command, origin, about }) =>
    about === undefined
      ? []
      : {
          label: command.join(' '),
          description: `${about} · ${ORIGINS[origin]}`,
          ask: async () => ({ setting: inWorkspace(command) }),
        },
  );
  entries.push({ label: '$(edit) Enter a path…', ask: () => askPath(current[0]) });
  entries.push({ label: '$(folder-opened) Browse…', ask: browse });
  if (current.length > 0) {
    entries.push({
      label: '$(discard) Let Tapecheck choose',
      description: `instead of ${current.join(' ')}`,
      ask: async () => ({ setting: undefined }),
    });
  }
  return entries;
}

async function askPath(before: string | undefined): Promise<{ setting: string[] } | undefined> {
  const typed = await vscode.window.showInputBox({
    prompt: 'The path of a Python interpreter',
    value: before ?? '',
    placeHolder: process.platform === 'win32' ? 'C:\\envs\\train\\python.exe' : '/opt/envs/train/bin/python',
  });
  const value = typed?.trim();
  return value ? { setting: [value] } : undefined;
}

async function browse(): Promise<{ setting: string[] } | undefined> {
  const [file] = (await vscode.window.showOpenDialog({ openLabel: 'Select Interpreter' })) ?? [];
  return file === undefined ? undefined : { setting: inWorkspace([file.fsPath]) };
}

/** A command without the place of the workspace, which others have elsewhere. */
function inWorkspace(command: readonly string[]): string[] {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const [program = '', ...rest] = command;
  if (folder !== undefined && program.startsWith(folder + path.sep)) {
    return [`\${workspaceFolder}/${path.relative(folder, program).split(path.sep).join('/')}`, ...rest];
  }
  return [...command];
}

async function write(value: string[] | undefined): Promise<void> {
  const settings = vscode.workspace.getConfiguration('tapecheck');
  const now = settings.inspect<string[]>('interpreter');
  const { Global, Workspace } = vscode.ConfigurationTarget;
  if (value === undefined) {
    for (const target of [Workspace, Global]) {
      const set = target === Workspace ? now?.workspaceValue : now?.globalValue;
      if (set !== undefined) await settings.update('interpreter', undefined, target);
    }
    return;
  }
  const own = (vscode.workspace.workspaceFolders?.length ?? 0) > 0 && vscode.workspace.isTrusted;
  await settings.update('interpreter', value, own ? Workspace : Global);
}
