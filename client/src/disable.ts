/** "Disable TAPE101 in the workspace": the rule is added to `tapecheck.ignore`. */

import * as vscode from 'vscode';
import { codeOf } from './explain';

export async function disableRule(target?: unknown): Promise<void> {
  const code = codeOf(target);
  if (code === undefined) return;
  const uri =
    typeof target === 'object' && target !== null && 'uri' in target && typeof target.uri === 'string'
      ? vscode.Uri.parse(target.uri)
      : undefined;
  const folder = uri === undefined ? undefined : vscode.workspace.getWorkspaceFolder(uri);
  const several = (vscode.workspace.workspaceFolders?.length ?? 0) > 1;
  const configuration = vscode.workspace.getConfiguration('tapecheck', uri ?? null);
  const known = configuration.inspect<string[]>('ignore');
  const [place, before] =
    vscode.workspace.workspaceFolders === undefined
      ? ([vscode.ConfigurationTarget.Global, known?.globalValue] as const)
      : several && folder !== undefined
        ? ([vscode.ConfigurationTarget.WorkspaceFolder, known?.workspaceFolderValue] as const)
        : ([vscode.ConfigurationTarget.Workspace, known?.workspaceValue] as const);
  const ignored = before ?? configuration.get<string[]>('ignore') ?? [];
  if (ignored.includes(code)) return;
  await configuration.update('ignore', [...ignored, code], place);
  const undo = 'Undo';
  const where = {
    [vscode.ConfigurationTarget.Global]: '',
    [vscode.ConfigurationTarget.Workspace]: ' in this workspace',
    [vscode.ConfigurationTarget.WorkspaceFolder]: ` in the folder ${folder?.name}`,
  };
  const said = await vscode.window.showInformationMessage(
    `${code} is no longer reported${where[place]}.`,
    undo,
  );
  if (said === undo) await configuration.update('ignore', before, place);
}
