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
  probe: Ask,
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
  probe: Ask,
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
  entries.push({ label: '$(edit) Enter a path…', ask: () => askPath(current[0], probe) });
  entries.push({ label: '$(folder-opened) Browse…', ask: () => browse(probe) });
  if (current.length > 0) {
    entries.push({
      label: '$(discard) Let Tapecheck choose',
      description: `instead of ${current.join(' ')}`,
      ask: async () => ({ setting: undefined }),
    });
  }
  return entries;
}

type Ask = (command: readonly string[]) => Promise<Probe>;

/** Asks for a path until it is that of an interpreter. It is tried on Enter alone: what is half typed is not started. */
function askPath(before: string | undefined, probe: Ask): Promise<{ setting: string[] } | undefined> {
  const box = vscode.window.createInputBox();
  box.prompt = 'The path of a Python interpreter';
  box.value = before ?? '';
  box.placeholder =
    process.platform === 'win32' ? 'C:\\envs\\train\\python.exe' : '/opt/envs/train/bin/python';
  return new Promise((resolve) => {
    box.onDidChangeValue(() => {
      box.validationMessage = undefined;
    });
    box.onDidAccept(async () => {
      const value = box.value.trim();
      if (box.busy || value === '') return;
      box.busy = true;
      const problem = await refusal([value], probe);
      box.busy = false;
      box.validationMessage = problem;
      if (problem !== undefined) return;
      resolve({ setting: [value] });
      box.hide();
    });
    box.onDidHide(() => {
      resolve(undefined);
      box.dispose();
    });
    box.show();
  });
}

async function browse(probe: Ask): Promise<{ setting: string[] } | undefined> {
  const [file] = (await vscode.window.showOpenDialog({ openLabel: 'Select Interpreter' })) ?? [];
  if (file === undefined) return undefined;
  const problem = await refusal([file.fsPath], probe);
  if (problem === undefined) return { setting: inWorkspace([file.fsPath]) };
  void vscode.window.showErrorMessage(`Tapecheck: ${problem}.`);
  return undefined;
}

/** Why a command is no interpreter for Tapecheck; undefined where it is one. */
async function refusal(command: readonly string[], probe: Ask): Promise<string | undefined> {
  const answer = await probe(command);
  return answer.ok || aboutInterpreter(answer) !== undefined ? undefined : answer.detail;
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
