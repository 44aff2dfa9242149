/** The server's state, in the language status menu of Python files, with a menu of what can be done about it. */

import * as vscode from 'vscode';

export type ServerState =
  | { kind: 'starting' }
  | { kind: 'running'; detail: string }
  | { kind: 'off' }
  | { kind: 'failed'; detail: string };

export const PYTHON_FILES: vscode.DocumentSelector = [
  { language: 'python', scheme: 'file' },
  { language: 'python', scheme: 'untitled' },
  { language: 'python', scheme: 'vscode-notebook-cell' },
];

export class Status implements vscode.Disposable {
  private readonly item = vscode.languages.createLanguageStatusItem('tapecheck.status', PYTHON_FILES);
  private current: ServerState = { kind: 'off' };

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
        item.text = 'Tapecheck';
        item.detail = state.detail;
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

  dispose(): void {
    this.item.dispose();
  }
}
