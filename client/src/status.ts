/** The server's state, in the language status menu of Python files, with a menu of what can be done about it. */

import * as vscode from 'vscode';

export type ServerState =
  | { kind: 'starting' }
  | { kind: 'running'; detail: string /** Whether files are checked but cannot be run. */; warning: boolean }
  | { kind: 'off' }
  | { kind: 'failed'; detail: string };

export const PYTHON_FILES: vscode.DocumentSelector = [
  { language: 'python', scheme: 'file' },
  { language: 'python', scheme: 'untitled' },
  { language: 'python', scheme: 'vscode-notebook-cell' },
];

/** The code under which the server notes that a work limit ended an analysis. */
const INCOMPLETE = 'incomplete-analysis';

function codeOf(code: vscode.Diagnostic['code']): string {
  return String(typeof code === 'object' ? code.value : (code ?? ''));
}

export class Status implements vscode.Disposable {
  private readonly item = vscode.languages.createLanguageStatusItem('tapecheck.status', PYTHON_FILES);
  private current: ServerState = { kind: 'off' };
  private incomplete: string | undefined;
  private readonly listeners = vscode.Disposable.from(
    vscode.languages.onDidChangeDiagnostics(() => this.lookAgain()),
    vscode.window.onDidChangeActiveTextEditor(() => this.lookAgain()),
  );

  constructor() {
    this.item.name = 'Tapecheck';
    this.show(this.current);
  }

  get state(): ServerState {
    return this.current;
  }

  show(state: ServerState): void {
    this.current = state;
    const { item } = this;
    item.busy = state.kind === 'starting';
    item.severity =
      state.kind === 'failed'
        ? vscode.LanguageStatusSeverity.Error
        : vscode.LanguageStatusSeverity.Information;
    item.command = { command: 'tapecheck.menu', title: 'Menu' };
    switch (state.kind) {
      case 'starting':
        item.text = 'Tapecheck';
        item.detail = 'starting';
        break;
      case 'running':
        item.text = this.incomplete === undefined ? 'Tapecheck' : 'Tapecheck: analysis incomplete';
        item.detail = this.incomplete ?? state.detail;
        if (this.incomplete !== undefined || state.warning)
          item.severity = vscode.LanguageStatusSeverity.Warning;
        break;
      case 'off':
        item.text = 'Tapecheck: off';
        item.detail = 'tapecheck.enable is false';
        break;
      case 'failed':
        item.text = 'Tapecheck: not running';
        item.detail = state.detail;
        break;
    }
  }

  /** Says of the file in front that its analysis was cut short: "nothing found" would read as "nothing there". */
  private lookAgain(): void {
    const document = vscode.window.activeTextEditor?.document;
    const notes = document === undefined ? [] : vscode.languages.getDiagnostics(document.uri);
    const note = notes.find(({ source, code }) => source === 'tapecheck' && codeOf(code) === INCOMPLETE);
    if (note?.message === this.incomplete) return;
    this.incomplete = note?.message;
    this.show(this.current);
  }

  dispose(): void {
    this.listeners.dispose();
    this.item.dispose();
  }
}
