/** Pages in markdown beside the code, from texts that the server gave: no file, no network. */

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';

const SCHEME = 'tapecheck';

export class Pages implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly panels = new Map<string, vscode.WebviewPanel>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  readonly onDidChange = this.changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.path) ?? 'Tapecheck: this page is gone; ask for it again.';
  }

  /** Shows a text under a title, anew where it is open already. */
  async show(title: string, markdown: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${title}.md` });
    this.texts.set(uri.path, markdown);
    this.changed.fire(uri);
    await vscode.commands.executeCommand('markdown.showPreviewToSide', uri);
  }

  /** Shows a text with a button above it, which is greyed out once `act` has done its work. */
  async showWith(
    title: string,
    markdown: string,
    button: string,
    act: () => Promise<boolean>,
  ): Promise<void> {
    const body: unknown = await vscode.commands
      .executeCommand('markdown.api.render', markdown)
      .then(undefined, () => undefined);
    // The preview of the editor's own markdown extension takes no buttons; without that extension there is a text.
    if (typeof body !== 'string') return this.show(title, markdown);
    this.panels.get(title)?.dispose();
    const panel = vscode.window.createWebviewPanel(
      'tapecheck.page',
      title,
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, localResourceRoots: [] },
    );
    this.panels.set(title, panel);
    panel.onDidDispose(() => {
      if (this.panels.get(title) === panel) this.panels.delete(title);
    });
    panel.webview.onDidReceiveMessage(async () => {
      if (await act()) void panel.webview.postMessage('done');
    });
    panel.webview.html = page(body, button, randomUUID());
  }

  dispose(): void {
    for (const panel of this.panels.values()) panel.dispose();
    this.registration.dispose();
    this.changed.dispose();
  }
}

/** A page around rendered markdown, in the editor's colours; nothing but its one script may run. */
function page(body: string, button: string, nonce: string): string {
  const policy = `default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<style nonce="${nonce}">
body { font-family: var(--vscode-font-family); font-size: var(--vscode-font-size); padding: 0 1.5em 1.5em; line-height: 1.5; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--vscode-panel-border, #8884); padding: 0.3em 1.2em 0.3em 0; text-align: left; }
pre { background: var(--vscode-textCodeBlock-background); padding: 0.8em; overflow-x: auto; }
code { font-family: var(--vscode-editor-font-family); }
button { background: var(--vscode-button-background); color: var(--vscode-button-foreground); border: 0;
  margin-top: 1.2em; padding: 0.45em 1.1em; cursor: pointer; }
button:disabled { opacity: 0.6; cursor: default; }
</style>
</head>
<body>
<button id="act">${button}</button>
${body}
<script nonce="${nonce}">
const editor = acquireVsCodeApi();
const act = document.getElementById('act');
act.addEventListener('click', () => editor.postMessage('act'));
window.addEventListener('message', () => { act.disabled = true; act.textContent = 'Applied'; });
</script>
</body>
</html>`;
}
