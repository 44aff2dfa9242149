/** The graph beside the code: what the server draws of the graphs around the cursor, in a panel that follows it. */

import { randomUUID } from 'node:crypto';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { ExecuteCommandRequest } from 'vscode-languageclient/node';
import { openLine } from './report';
import type { Server } from './server';
import { PYTHON_FILES } from './status';

/** What the server answers: the picture, what is known of the expression, and the run that measured it, if any. */
interface Picture {
  svg: string;
  markdown: string;
  measured: string;
  files: string[];
}

const PAUSE_MS = 120;

export class GraphPanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private listeners: vscode.Disposable | undefined;
  private timer: NodeJS.Timeout | undefined;
  private files: readonly string[] = [];
  private editor: vscode.TextEditor | undefined;
  private asked = 0;

  constructor(private readonly server: Server) {}

  /** Opens the panel beside the active editor, or brings it to the front. */
  async show(): Promise<void> {
    this.editor =
      followed(vscode.window.activeTextEditor) ??
      this.editor ??
      vscode.window.visibleTextEditors.find((editor) => followed(editor) !== undefined);
    if (this.panel === undefined) {
      this.panel = vscode.window.createWebviewPanel(
        'tapecheck.graph',
        'Graph',
        { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
        { enableScripts: true, retainContextWhenHidden: true, localResourceRoots: [] },
      );
      this.panel.webview.html = page(randomUUID());
      this.panel.onDidDispose(() => {
        this.panel = undefined;
        this.listeners?.dispose();
      });
      this.panel.webview.onDidReceiveMessage((message: unknown) => this.open(message));
      this.listeners = vscode.Disposable.from(
        vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => this.follow(textEditor)),
        vscode.window.onDidChangeActiveTextEditor((editor) => this.follow(editor)),
        // After an edit, and after a run: what is drawn may have been measured since.
        vscode.languages.onDidChangeDiagnostics(({ uris }) => {
          const own = this.editor?.document.uri.toString();
          if (uris.some((uri) => uri.toString() === own)) this.follow(this.editor);
        }),
      );
    }
    this.panel.reveal(undefined, true);
    await this.draw();
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.panel?.dispose();
  }

  private follow(editor: vscode.TextEditor | undefined): void {
    const found = followed(editor);
    if (found === undefined) return;
    this.editor = found;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.draw(), PAUSE_MS);
  }

  private async draw(): Promise<void> {
    const { editor } = this;
    if (editor === undefined || this.panel === undefined) return;
    const number = ++this.asked;
    await this.server.settled();
    const position = editor.selection.active;
    const picture: Picture | null | undefined = await this.server.running
      ?.sendRequest(ExecuteCommandRequest.type, {
        command: 'tapecheck.graph',
        arguments: [
          {
            uri: editor.document.uri.toString(),
            position: { line: position.line, character: position.character },
          },
        ],
      })
      .then(undefined, () => undefined);
    // Another place may have been asked for since; a text that cannot be analysed leaves the last picture.
    if (number !== this.asked || this.panel === undefined || !picture) return;
    this.files = picture.files;
    const name = path.basename(editor.document.uri.fsPath);
    const heading = `${name}, line ${position.line + 1} · ${picture.measured || 'before a run'}`;
    const about = await vscode.commands
      .executeCommand('markdown.api.render', picture.markdown)
      .then(undefined, () => undefined);
    this.panel.title = `Graph of ${name}`;
    const told = typeof about === 'string' ? about : '';
    await this.panel.webview.postMessage({ heading, svg: picture.svg, about: told });
  }

  private async open(message: unknown): Promise<void> {
    const [file, line] = typeof message === 'string' ? message.split(':').map(Number) : [];
    const name = this.files[file ?? -1];
    if (name !== undefined && line !== undefined && this.editor !== undefined) {
      await openLine({ path: name, line, column: 1 }, this.editor.document.uri);
    }
  }
}

function followed(editor: vscode.TextEditor | undefined): vscode.TextEditor | undefined {
  return editor !== undefined && vscode.languages.match(PYTHON_FILES, editor.document) > 0
    ? editor
    : undefined;
}

/** The frame of the picture, in the editor's colours; nothing but its one script may run. */
function page(nonce: string): string {
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<style>
/* The page scrolls sideways, not the picture: a bar at the end of a long picture is out of sight. */
body { width: max-content; min-width: 100%; box-sizing: border-box; font-family: var(--vscode-font-family); font-size: var(--vscode-font-size); padding: 0 1em 1em;
  --tc-page: transparent; --tc-text: var(--vscode-foreground); --tc-dim: var(--vscode-descriptionForeground); }
body.vscode-dark, body.vscode-high-contrast:not(.vscode-high-contrast-light) { --tc-none-fill: #21262d; --tc-freed-fill: #0d2847; --tc-freed: #4493f8;
  --tc-kept-fill: #0f2d1a; --tc-kept: #3fb950; --tc-reused-fill: #322608; --tc-reused: #d29922;
  --tc-gone-fill: #3c1216; --tc-gone: #f85149; --tc-stale-fill: #3c1216; --tc-stale: #f85149; }
h1 { font-size: 1em; margin: 0.8em 0; }
h1, #about { position: sticky; left: 1em; max-width: calc(100vw - 3em); }
svg .g { cursor: pointer; outline-offset: 2px; }
code { color: inherit; font-family: var(--vscode-editor-font-family); overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>Put the cursor into a training script.</h1>
<div id="about" aria-live="polite"></div>
<div id="picture"></div>
<script nonce="${nonce}">
const editor = acquireVsCodeApi();
const [heading, about, picture] = ['h1', '#about', '#picture'].map((name) => document.querySelector(name));
window.addEventListener('message', ({ data }) => {
  heading.textContent = data.heading;
  about.innerHTML = data.about;
  picture.innerHTML = data.svg;
  // A picture for screen readers is one thing; each of these boxes leads to its line.
  picture.querySelector('svg')?.setAttribute('role', 'group');
  for (const box of picture.querySelectorAll('.g')) {
    box.setAttribute('role', 'button');
    box.setAttribute('tabindex', '0');
    // Read aloud, the folders of the file would come before what the box says.
    box.setAttribute('aria-label', box.querySelector('title').textContent.replace(/^.*[\\\\/]/, ''));
  }
  // Where the cursor's line built nothing, what makes the call raise is what one looks for.
  (picture.querySelector('.here') ?? picture.querySelector('.gone, .stale'))?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
});
const open = ({ target }) => {
  const box = target.closest('.g');
  if (box) editor.postMessage(box.dataset.at);
};
picture.addEventListener('click', open);
picture.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  open(event);
});
</script>
</body>
</html>`;
}
