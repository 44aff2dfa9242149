/** What somebody who reports a problem is asked for, as text in a new editor. */

import * as vscode from 'vscode';
import type { Server } from './server';
import type { Status } from './status';

export async function showDebugInformation(
  context: vscode.ExtensionContext,
  server: Server,
  status: Status,
): Promise<void> {
  const plan = server.launched;
  const information = {
    extension: context.extension.packageJSON.version,
    editor: `${vscode.env.appName} ${vscode.version}`,
    platform: `${process.platform} ${process.arch}`,
    remote: vscode.env.remoteName ?? null,
    trusted: vscode.workspace.isTrusted,
    state: status.state,
    server: plan && {
      command: [plan.command, ...plan.args],
      source: plan.source,
      python: plan.server?.version ?? null,
      tapecheck: plan.server?.tapecheck ?? null,
      runInterpreter: plan.runInterpreter,
    },
    folders: await Promise.all(
      (vscode.workspace.workspaceFolders ?? []).map(async ({ uri }) => ({
        folder: uri.fsPath,
        runInterpreter: await server.runInterpreter(uri),
        settings: server.settings(uri),
      })),
    ),
    capabilities: server.running?.initializeResult?.capabilities ?? null,
    PYTHONPATH: process.env.PYTHONPATH ?? null,
    attempts: server.asked,
    settings: server.settings(),
  };
  const document = await vscode.workspace.openTextDocument({
    language: 'json',
    content: `${JSON.stringify(information, null, 2)}\n`,
  });
  await vscode.window.showTextDocument(document, { preview: true });
}
