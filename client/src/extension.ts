/** Tapecheck in VS Code: starts the language server and carries its commands. */

import * as vscode from 'vscode';
import { Confirmer } from './confirm';
import { showDebugInformation } from './debugInformation';
import { watchInterpreter } from './pythonExtension';
import { Server } from './server';
import { Status } from './status';

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('Tapecheck', { log: true });
  const status = new Status();
  const current = new Server(context, log, status);
  const confirmer = new Confirmer(current, log);
  server = current;

  context.subscriptions.push(
    log,
    status,
    vscode.commands.registerCommand('tapecheck.restart', () => current.restart()),
    vscode.commands.registerCommand('tapecheck.showOutput', () => log.show()),
    vscode.commands.registerCommand('tapecheck.confirmFile', (target?: unknown) => confirmer.confirm(target)),
    vscode.commands.registerCommand('tapecheck.debugInformation', () =>
      showDebugInformation(context, current, status),
    ),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('tapecheck')) void current.settingsChanged();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => current.restart()),
  );

  await current.restart();

  const watch = await watchInterpreter(() => {
    if (current.settings().interpreter.length === 0) void current.restart();
  });
  if (watch !== undefined) context.subscriptions.push(watch);
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
