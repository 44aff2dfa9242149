/** "Confirm by running": the file runs under the recorder, and its findings come back confirmed or refuted. */

import { randomUUID } from 'node:crypto';
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  ExecuteCommandRequest,
  WorkDoneProgress,
  WorkDoneProgressCancelNotification,
} from 'vscode-languageclient/node';
import type { Reports } from './report';
import type { RunConfigurations } from './runConfiguration';
import type { Server } from './server';
import { describeRun, type RunMessage, type RunResult, readRunResult } from './summary';

export class Confirmer {
  private readonly underWay = new Set<string>();

  constructor(
    private readonly server: Server,
    private readonly log: vscode.LogOutputChannel,
    private readonly configurations: RunConfigurations,
    private readonly reports: Reports,
  ) {}

  /** Shows the report of the last run of a file, or of the one in the active editor. */
  async showReport(target?: unknown): Promise<boolean> {
    const program = await openTarget(target);
    return program !== undefined && this.reports.show(program.uri);
  }

  /** Asks with which arguments, where and in which environment a file is to be run, and offers to do so. */
  async configure(target?: unknown): Promise<void> {
    const document = await openTarget(target);
    if (document === undefined || document.uri.scheme !== 'file') {
      void vscode.window.showInformationMessage('Tapecheck: open a Python file to configure its runs.');
      return;
    }
    if (!(await this.configurations.ask(document.uri))) return;
    const now = 'Confirm Now';
    const file = path.basename(document.uri.fsPath);
    const chosen = await vscode.window.showInformationMessage(`Tapecheck will run ${file} like that.`, now);
    if (chosen === now) await this.confirm(document.uri);
  }

  /**
   * Runs a file, or the one in the active editor.
   *
   * `target` is a `Uri` (from a menu) or `{uri: string}` (from a code lens). Returns the server's answer, or
   * undefined where nothing ran.
   */
  async confirm(target?: unknown): Promise<RunResult | undefined> {
    if (!vscode.workspace.isTrusted) {
      const manage = 'Manage Workspace Trust';
      const chosen = await vscode.window.showWarningMessage(
        'Confirming findings runs your code, which needs a trusted workspace.',
        manage,
      );
      if (chosen === manage) await vscode.commands.executeCommand('workbench.trust.manage');
      return undefined;
    }
    const document = await openTarget(target);
    if (document === undefined) {
      void vscode.window.showInformationMessage('Tapecheck: open a Python file to confirm its findings.');
      return undefined;
    }
    if (document.uri.scheme !== 'file' && document.uri.scheme !== 'untitled') {
      void vscode.window.showInformationMessage(
        'Tapecheck can run files only: save the code as a .py or .ipynb file and run that.',
      );
      return undefined;
    }
    if ((document.isDirty || document.isUntitled) && !(await document.save())) {
      void vscode.window.showWarningMessage('Tapecheck ran nothing, because the file was not saved.');
      return undefined;
    }
    // Saving an untitled document opens another one, under its new name.
    const saved = document.isUntitled ? await openTarget(undefined) : document;
    if (saved === undefined || saved.isUntitled) return undefined;

    const uri = saved.uri.toString();
    const file = path.basename(saved.uri.fsPath);
    if (this.underWay.has(uri)) {
      void vscode.window.showInformationMessage(`Tapecheck is already running ${file}.`);
      return undefined;
    }
    this.underWay.add(uri);
    try {
      return await this.run(uri, file);
    } finally {
      this.underWay.delete(uri);
    }
  }

  private async run(uri: string, file: string): Promise<RunResult | undefined> {
    await this.server.settled();
    const client = this.server.running;
    if (client === undefined) {
      await this.tell({ level: 'error', text: 'Tapecheck: the server is not running, so nothing was run.' });
      return undefined;
    }
    const token = `tapecheck-run-${randomUUID()}`;
    let cancelled = false;
    let raw: unknown;
    try {
      raw = await vscode.window.withProgress(
        {
          location: vscode.ProgressLocation.Notification,
          title: `Tapecheck: running ${file}`,
          cancellable: true,
        },
        async (progress, cancellation) => {
          // Importing torch takes seconds, in which the server has nothing to report.
          progress.report({ message: 'starting' });
          let reached = 0;
          const reports = client.onProgress(WorkDoneProgress.type, token, (value) => {
            if (cancelled || value.kind === 'end') return;
            const { message, percentage } = value;
            const increment = percentage === undefined ? undefined : Math.max(0, percentage - reached);
            if (percentage !== undefined) reached = Math.max(reached, percentage);
            progress.report({
              ...(message === undefined ? {} : { message }),
              ...(increment === undefined ? {} : { increment }),
            });
          });
          const cancels = cancellation.onCancellationRequested(() => {
            cancelled = true;
            progress.report({ message: 'stopping' });
            void client.sendNotification(WorkDoneProgressCancelNotification.type, { token });
          });
          try {
            return await client.sendRequest(ExecuteCommandRequest.type, {
              command: 'tapecheck.run',
              arguments: [{ uri, token, ...this.configurations.of(vscode.Uri.parse(uri)) }],
              workDoneToken: token,
            });
          } finally {
            reports.dispose();
            cancels.dispose();
          }
        },
      );
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.log.error(`running ${file}: ${reason}`);
      if (!cancelled) await this.tell({ level: 'error', text: `Tapecheck could not run ${file}: ${reason}` });
      return undefined;
    }
    const result = readRunResult(raw);
    if (cancelled && result === undefined) return undefined;
    void this.tell(describeRun(file, result), vscode.Uri.parse(uri));
    void this.reports.refresh(vscode.Uri.parse(uri));
    return result;
  }

  private async tell(message: RunMessage, ran?: vscode.Uri): Promise<void> {
    const output = 'Show Output';
    const report = 'Show Report';
    const show =
      message.level === 'error'
        ? vscode.window.showErrorMessage
        : message.level === 'warning'
          ? vscode.window.showWarningMessage
          : vscode.window.showInformationMessage;
    const failed = ran === undefined || message.level === 'error';
    const chosen = await show(message.text, ...(failed ? [output] : [report, output]));
    if (chosen === output) this.log.show(true);
    if (chosen === report && ran !== undefined) await this.reports.show(ran);
  }
}

type Program = vscode.TextDocument | vscode.NotebookDocument;

/** What is to be run: a Python file, or the notebook that a cell is part of. */
async function openTarget(target: unknown): Promise<Program | undefined> {
  const uri = targetUri(target);
  if (uri !== undefined) {
    const notebook = notebookOf(uri);
    return notebook ?? vscode.workspace.openTextDocument(uri);
  }
  const document = vscode.window.activeTextEditor?.document;
  const notebook = document === undefined ? undefined : notebookOf(document.uri);
  if (notebook !== undefined) return notebook;
  if (document?.languageId === 'python') return document;
  return vscode.window.activeNotebookEditor?.notebook;
}

function notebookOf(uri: vscode.Uri): vscode.NotebookDocument | undefined {
  const named = uri.toString();
  return vscode.workspace.notebookDocuments.find(
    (notebook) =>
      notebook.uri.toString() === named ||
      notebook.getCells().some(({ document }) => document.uri.toString() === named),
  );
}

function targetUri(target: unknown): vscode.Uri | undefined {
  if (target instanceof vscode.Uri) return target;
  if (typeof target === 'object' && target !== null && 'uri' in target && typeof target.uri === 'string') {
    return vscode.Uri.parse(target.uri, true);
  }
  return undefined;
}
