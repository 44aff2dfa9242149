/** Tapecheck's tools for language models: what each does is the server's part; here they are offered, and asked for. */

import * as vscode from 'vscode';
import { ExecuteCommandRequest } from 'vscode-languageclient/node';
import type { Server } from './server';

const PREFIX = 'tapecheck_';

type Input = Record<string, unknown>;

/** Registers the tools that the manifest declares. */
export function registerTools(server: Server, manifest: unknown): vscode.Disposable {
  return vscode.Disposable.from(
    ...declared(manifest).map((name) =>
      vscode.lm.registerTool(name, new Tool(server, name.slice(PREFIX.length))),
    ),
  );
}

class Tool implements vscode.LanguageModelTool<Input> {
  constructor(
    private readonly server: Server,
    private readonly name: string,
  ) {}

  prepareInvocation({
    input,
  }: vscode.LanguageModelToolInvocationPrepareOptions<Input>): vscode.PreparedToolInvocation {
    const what = String(input.script ?? input.path ?? input.rule ?? input.paths ?? '');
    const prepared = { invocationMessage: `Tapecheck: ${this.name} ${what}` };
    const message = consequence(this.name, input);
    if (message === undefined) return prepared;
    return { ...prepared, confirmationMessages: { title: `Tapecheck: ${this.name} ${what}`, message } };
  }

  async invoke({
    input,
  }: vscode.LanguageModelToolInvocationOptions<Input>): Promise<vscode.LanguageModelToolResult> {
    if (executes(this.name, input) && !vscode.workspace.isTrusted) {
      throw new Error('This executes the program: the workspace has to be trusted first.');
    }
    await this.server.settled();
    const client = this.server.running;
    if (client === undefined) throw new Error('The Tapecheck server is not running.');
    const answer: { text?: unknown } | null = await client.sendRequest(ExecuteCommandRequest.type, {
      command: 'tapecheck.tool',
      arguments: [{ tool: this.name, input: JSON.stringify(input), folder: folder() }],
    });
    return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(String(answer?.text ?? ''))]);
  }
}

/** The folder that paths are relative to: that of the active file, else the first. */
function folder(): string | undefined {
  const active = vscode.window.activeTextEditor?.document.uri;
  const own = active && vscode.workspace.getWorkspaceFolder(active);
  return (own ?? vscode.workspace.workspaceFolders?.[0])?.uri.fsPath;
}

function executes(name: string, input: Input): boolean {
  return name === 'run' || (name === 'fix' && input.verify === true);
}

/** What a call does that its user is asked about first. */
function consequence(name: string, input: Input): string | undefined {
  if (executes(name, input)) return 'This executes the program, with all its effects.';
  return name === 'fix' && input.write === true ? 'This changes files.' : undefined;
}

function declared(manifest: unknown): string[] {
  const { contributes } = manifest as { contributes?: { languageModelTools?: { name: string }[] } };
  return (contributes?.languageModelTools ?? []).map(({ name }) => name);
}
