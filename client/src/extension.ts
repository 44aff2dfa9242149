/** Tapecheck in VS Code: starts the language server and carries its commands. */

import * as vscode from 'vscode';
import { ExecuteCommandRequest } from 'vscode-languageclient/node';
import { Confirmer } from './confirm';
import { showDebugInformation } from './debugInformation';
import { disableRule } from './disable';
import { Explainer } from './explain';
import { GraphPanel } from './graph';
import { showMenu } from './menu';
import { Pages } from './pages';
import { watchInterpreter } from './pythonExtension';
import { Reports } from './report';
import { RunConfigurations } from './runConfiguration';
import { openSettings, Server } from './server';
import { Status } from './status';
import { registerTools } from './tools';

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('Tapecheck', { log: true });
  const status = new Status();
  const current = new Server(context, log, status);
  const reports = new Reports(current);
  const configurations = new RunConfigurations(context.workspaceState);
  const pages = new Pages();
  const confirmer = new Confirmer(current, log, configurations, reports, pages);
  const explainer = new Explainer(current, pages);
  const graph = new GraphPanel(current);
  server = current;

  context.subscriptions.push(
    log,
    status,
    pages,
    reports,
    graph,
    registerTools(current, context.extension.packageJSON),
    vscode.commands.registerCommand('tapecheck.showGraph', () => graph.show()),
    vscode.commands.registerCommand('tapecheck.restart', () => current.restart()),
    vscode.commands.registerCommand('tapecheck.showOutput', () => log.show()),
    vscode.commands.registerCommand('tapecheck.menu', () => showMenu(current, status)),
    vscode.commands.registerCommand('tapecheck.openSettings', () => openSettings('tapecheck')),
    vscode.commands.registerCommand('tapecheck.setArguments', (target?: unknown) =>
      confirmer.setArguments(target),
    ),
    vscode.commands.registerCommand('tapecheck.confirmFile', (target?: unknown) => confirmer.confirm(target)),
    vscode.commands.registerCommand('tapecheck.confirmFix', (target?: unknown) => confirmer.tryFix(target)),
    vscode.commands.registerCommand('tapecheck.configureRun', (target?: unknown) =>
      confirmer.configure(target),
    ),
    vscode.commands.registerCommand('tapecheck.showReport', (target?: unknown) =>
      confirmer.showReport(target),
    ),
    vscode.commands.registerCommand('tapecheck.showComparison', (target?: unknown) =>
      confirmer.showComparison(target),
    ),
    vscode.commands.registerCommand('tapecheck.explain', (target?: unknown) => explainer.explain(target)),
    vscode.commands.registerCommand('tapecheck.disableRule', disableRule),
    vscode.commands.registerCommand('tapecheck.openExample', () => openExample(context)),
    vscode.commands.registerCommand('tapecheck.fixAll', () => fixAll(current)),
    vscode.commands.registerCommand('tapecheck.selectInterpreter', () => current.selectInterpreter()),
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

/** A training script with a finding, as a file that is nobody's yet: the one of the extension stays as it is. */
async function openExample(context: vscode.ExtensionContext): Promise<void> {
  const file = vscode.Uri.joinPath(context.extensionUri, 'examples', 'gan.py');
  const content = new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
  const document = await unsaved('tapecheck_example.py', content);
  const editor = await vscode.window.showTextDocument(document, { preview: false });
  const loop = document.positionAt(content.indexOf('for step in'));
  editor.selection = new vscode.Selection(loop, loop);
  editor.revealRange(editor.selection, vscode.TextEditorRevealType.AtTop);
}

/** A document that is not saved yet, in a workspace under a name that is free there. */
async function unsaved(name: string, content: string): Promise<vscode.TextDocument> {
  const folder = vscode.workspace.workspaceFolders?.find(({ uri }) => uri.scheme === 'file')?.uri;
  const file = folder && vscode.Uri.joinPath(folder, name);
  if (file === undefined || (await exists(file))) {
    return vscode.workspace.openTextDocument({ language: 'python', content });
  }
  const document = await vscode.workspace.openTextDocument(file.with({ scheme: 'untitled' }));
  if (document.getText() === '') {
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(0, 0), content);
    await vscode.workspace.applyEdit(edit);
  }
  return document;
}

function exists(file: vscode.Uri): Thenable<boolean> {
  return vscode.workspace.fs.stat(file).then(
    () => true,
    () => false,
  );
}

/** Makes all safe fixes in the active editor, notebook cells included; the server says so where there are none. */
async function fixAll(server: Server): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const uri = editor?.document.uri ?? vscode.window.activeNotebookEditor?.notebook.uri;
  await server.settled();
  const { running } = server;
  if (running === undefined || uri === undefined) {
    const why = uri === undefined ? 'open a Python file or a notebook first' : 'the server is not running';
    void vscode.window.showWarningMessage(`Tapecheck: nothing was fixed: ${why}.`);
    return;
  }
  await running.sendRequest(ExecuteCommandRequest.type, {
    command: 'tapecheck.fixFile',
    arguments: [{ uri: uri.toString() }],
  });
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
