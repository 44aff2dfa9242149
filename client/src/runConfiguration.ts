/** Arguments, directory and environment for the recorded runs of one file, remembered for the workspace. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { joinArguments, splitArguments } from './shellWords';

export interface RunConfiguration {
  arguments?: string[];
  cwd?: string;
  env?: Record<string, string>;
}

const KEY = 'runConfigurations';

export class RunConfigurations {
  constructor(private readonly memory: vscode.Memento) {}

  /** What a file was last told to run with; nothing where the settings hold. */
  of(uri: vscode.Uri): RunConfiguration {
    return this.all()[uri.toString()] ?? {};
  }

  /** Asks for arguments, directory and environment; answers whether the user went through with it. */
  async ask(uri: vscode.Uri): Promise<boolean> {
    const known = this.of(uri);
    const title = `Recorded runs of ${path.basename(uri.fsPath)}`;
    const words = await vscode.window.showInputBox({
      title: `${title} (1/3)`,
      prompt: 'Arguments, as on a command line; empty: those of the setting tapecheck.run.arguments',
      value: joinArguments(known.arguments ?? []),
      ignoreFocusOut: true,
      validateInput: (value) => (splitArguments(value) === undefined ? 'A quote is not closed' : undefined),
    });
    if (words === undefined) return false;
    const cwd = await vscode.window.showInputBox({
      title: `${title} (2/3)`,
      prompt: 'Directory to run in; empty: that of the setting tapecheck.run.cwd, or the workspace folder',
      value: known.cwd ?? '',
      ignoreFocusOut: true,
    });
    if (cwd === undefined) return false;
    const env = await vscode.window.showInputBox({
      title: `${title} (3/3)`,
      prompt: 'Environment: NAME=value, as many as wanted; empty: that of the setting tapecheck.run.env',
      value: joinArguments(Object.entries(known.env ?? {}).map(([name, value]) => `${name}=${value}`)),
      ignoreFocusOut: true,
      validateInput: (value) =>
        splitArguments(value)?.every((word) => /^[A-Za-z_]\w*=/.test(word))
          ? undefined
          : 'NAME=value, please',
    });
    if (env === undefined) return false;
    const given = splitArguments(words) ?? [];
    const variables = (splitArguments(env) ?? []).map((word) => {
      const at = word.indexOf('=');
      return [word.slice(0, at), word.slice(at + 1)] as const;
    });
    const configuration: RunConfiguration = {
      ...(given.length > 0 ? { arguments: given } : {}),
      ...(cwd.trim() ? { cwd: cwd.trim() } : {}),
      ...(variables.length > 0 ? { env: Object.fromEntries(variables) } : {}),
    };
    const { [uri.toString()]: _before, ...others } = this.all();
    const empty = Object.keys(configuration).length === 0;
    await this.memory.update(KEY, empty ? others : { ...others, [uri.toString()]: configuration });
    return true;
  }

  private all(): Record<string, RunConfiguration> {
    return this.memory.get<Record<string, RunConfiguration>>(KEY) ?? {};
  }
}
