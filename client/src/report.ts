/** The report of the last recorded run, beside the code: its lines open in the editor. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import { ExecuteCommandRequest } from 'vscode-languageclient/node';
import type { Server } from './server';

/** What the page's own script says when a line in it is clicked. */
interface OpenLine {
  type: 'open';
  path: string;
  line: number;
  column: number;
}

export class Reports implements vscode.Disposable {
  private readonly panels = new Map<string, vscode.WebviewPanel>();

  constructor(private readonly server: Server) {}

  /** Shows the last run of a file; says so where there was none. */
  async show(uri: vscode.Uri): Promise<boolean> {
    const html = await this.page(uri);
    const name = path.basename(uri.fsPath);
    if (html === undefined) {
      void vscode.window.showInformationMessage(`Tapecheck has no run of ${name} to show: run it first.`);
      return false;
    }
    const known = this.panels.get(uri.toString());
    const panel =
      known ??
      vscode.window.createWebviewPanel(
        'tapecheck.report',
        `Run of ${name}`,
        { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
        { enableScripts: true, retainContextWhenHidden: true, localResourceRoots: [] },
      );
    if (known === undefined) {
      this.panels.set(uri.toString(), panel);
      panel.onDidDispose(() => this.panels.delete(uri.toString()));
      panel.webview.onDidReceiveMessage((message) => open(message, uri));
    }
    panel.webview.html = withPolicy(html);
    panel.reveal(undefined, true);
    // What a toast offers is this page, which it would cover; the message stays in the notification centre.
    await vscode.commands.executeCommand('notifications.hideToasts');
    return true;
  }

  /** Draws an open report anew after another run of its file. */
  async refresh(uri: vscode.Uri): Promise<void> {
    const panel = this.panels.get(uri.toString());
    const html = panel === undefined ? undefined : await this.page(uri);
    if (panel !== undefined && html !== undefined) panel.webview.html = withPolicy(html);
  }

  dispose(): void {
    for (const panel of this.panels.values()) panel.dispose();
  }

  private async page(uri: vscode.Uri): Promise<string | undefined> {
    await this.server.settled();
    const answer: { html?: unknown } | null | undefined = await this.server.running?.sendRequest(
      ExecuteCommandRequest.type,
      { command: 'tapecheck.runReport', arguments: [{ uri: uri.toString() }] },
    );
    return typeof answer?.html === 'string' ? answer.html : undefined;
  }
}

/** The page needs nothing from outside, and a line of somebody's code in it must not fetch anything either. */
export function withPolicy(html: string): string {
  const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
  return html.replace('<head>', `<head><meta http-equiv="Content-Security-Policy" content="${policy}">`);
}

async function open(message: unknown, owner: vscode.Uri): Promise<void> {
  if (isOpenLine(message)) await openLine(message, owner);
}

/** Shows a line in the editor that has its file; a line of a notebook is in none. */
export async function openLine(place: Omit<OpenLine, 'type'>, owner: vscode.Uri): Promise<void> {
  if (place.path.endsWith('.ipynb')) return;
  const uri = place.path === owner.fsPath ? owner : vscode.Uri.file(place.path);
  const at = new vscode.Position(Math.max(place.line - 1, 0), Math.max(place.column - 1, 0));
  const shown = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.fsPath === uri.fsPath);
  await vscode.window.showTextDocument(uri, {
    viewColumn: shown?.viewColumn ?? vscode.ViewColumn.One,
    selection: new vscode.Range(at, at),
    preserveFocus: true,
  });
}

function isOpenLine(message: unknown): message is OpenLine {
  if (typeof message !== 'object' || message === null) return false;
  const { type, path: file, line, column } = message as Record<string, unknown>;
  return type === 'open' && typeof file === 'string' && Number.isInteger(line) && Number.isInteger(column);
}
