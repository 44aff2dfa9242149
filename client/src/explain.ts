/** "Explain": the page of a rule beside the code, from the server that runs, without any network. */

import * as vscode from 'vscode';
import { ExecuteCommandRequest } from 'vscode-languageclient/node';
import type { Pages } from './pages';
import type { Server } from './server';

interface Page {
  code: string;
  name: string;
  markdown: string;
  url: string;
}

export class Explainer {
  constructor(
    private readonly server: Server,
    private readonly pages: Pages,
  ) {}

  /** Shows the page of a rule; asks which one where `target` names none. */
  async explain(target?: unknown): Promise<void> {
    await this.server.settled();
    const client = this.server.running;
    if (client === undefined) {
      void vscode.window.showInformationMessage('Tapecheck: the server is not running.');
      return;
    }
    const code =
      codeOf(target) ?? (await vscode.window.showInputBox({ prompt: 'Rule, for example TAPE101' }));
    if (!code) return;
    const page: Page | null = await client.sendRequest(ExecuteCommandRequest.type, {
      command: 'tapecheck.explainRule',
      arguments: [{ code: code.trim().toUpperCase() }],
    });
    if (page === null) {
      void vscode.window.showInformationMessage(`Tapecheck has no rule ${code}.`);
      return;
    }
    await this.pages.show(`${page.code} ${page.name}`, page.markdown);
  }
}

/** The rule that a quick fix (`{code}`) or a person (its code) names. */
export function codeOf(target: unknown): string | undefined {
  if (typeof target === 'string') return target;
  if (typeof target === 'object' && target !== null && 'code' in target && typeof target.code === 'string') {
    return target.code;
  }
  return undefined;
}
