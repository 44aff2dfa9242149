/** "Confirm by running": the file runs under the recorder, and its findings come back confirmed or refuted. */

import { randomUUID } from 'node:crypto';
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  ErrorCodes,
  ExecuteCommandRequest,
  ResponseError,
  WorkDoneProgress,
  WorkDoneProgressCancelNotification,
} from 'vscode-languageclient/node';
import type { Pages } from './pages';
import type { Reports } from './report';
import type { RunConfigurations } from './runConfiguration';
import type { Server } from './server';
import {
  describeRun,
  type Next,
  type RunMessage,
  type RunResult,
  readRunResult,
  readTrialResult,
  type TrialResult,
} from './summary';

export class Confirmer {
  private readonly underWay = new Set<string>();

  constructor(
    private readonly server: Server,
    private readonly log: vscode.LogOutputChannel,
    private readonly configurations: RunConfigurations,
    private readonly reports: Reports,
    private readonly pages: Pages,
  ) {}

  /** Shows the report of the last run of a file, or of the one in the active editor. */
  async showReport(target?: unknown): Promise<boolean> {
    const program = await openTarget(target);
    return program !== undefined && this.reports.show(program.uri);
  }

  /** Asks how a file is to be run, and runs it where that is wished for. */
  async configure(target?: unknown): Promise<void> {
    const document = await openTarget(target);
    if (document === undefined || document.uri.scheme !== 'file') {
      void vscode.window.showInformationMessage('Tapecheck: open a Python file to configure its runs.');
      return;
    }
    if (await this.configurations.ask(document.uri)) await this.confirm(document.uri);
  }

  /** Asks for the arguments of a file's runs, and runs it with them. */
  async setArguments(target?: unknown): Promise<void> {
    const document = await openTarget(target);
    if (document === undefined || document.uri.scheme !== 'file') return;
    if (await this.configurations.askArguments(document.uri)) await this.confirm(document.uri);
  }

  /**
   * Runs a file, or the one in the active editor.
   *
   * `target` is a `Uri` (from a menu) or `{uri: string}` (from a code lens). Returns the server's answer, or
   * undefined where nothing ran.
   */
  async confirm(target?: unknown): Promise<RunResult | undefined> {
    return this.once(target, async (uri) => {
      const file = path.basename(uri.fsPath);
      const ran = await this.request(uri, `running ${file}`, 'tapecheck.run', {});
      if (ran === undefined) return undefined;
      const result = readRunResult(ran.answer);
      if (ran.cancelled && result === undefined) return undefined;
      if (result !== undefined && result.confirmed + result.found > 0) {
        // The walkthrough's last step is done.
        void vscode.commands.executeCommand('setContext', 'tapecheck.confirmed', true);
      }
      void this.tell(describeRun(file, result), uri, result);
      void this.reports.refresh(uri);
      return result;
    });
  }

  /**
   * Runs a file as it is and with the preferred fix of a finding, and shows what changed.
   *
   * `target` is `{uri, finding}` from a quick fix; without it the finding under the cursor is meant.
   */
  async tryFix(target?: unknown): Promise<TrialResult | undefined> {
    const wanted = findingOf(target) ?? (await pickFinding());
    if (wanted === undefined) return undefined;
    return this.once(wanted, async (uri) => {
      const file = path.basename(uri.fsPath);
      const { finding } = wanted;
      const ran = await this.request(uri, `trying a fix of ${file}`, 'tapecheck.tryFix', { finding });
      const result = ran === undefined ? undefined : readTrialResult(ran.answer);
      if (ran === undefined || (ran.cancelled && !result?.ok)) return undefined;
      void this.tellTrial(uri, finding, result);
      return result;
    });
  }

  /**
   * Shows a program with and without a fix that was tried beside each other, and says so where none was.
   *
   * `target` is `{uri, finding}` from a quick fix; without it the last trial of the active file is meant.
   */
  async showComparison(target?: unknown): Promise<boolean> {
    const program = await openTarget(target);
    if (program === undefined) return false;
    const { uri } = program;
    await this.server.settled();
    const answer: { markdown?: unknown; finding?: unknown } | null | undefined =
      await this.server.running?.sendRequest(ExecuteCommandRequest.type, {
        command: 'tapecheck.comparison',
        arguments: [{ uri: uri.toString(), ...findingOf(target) }],
      });
    const { markdown, finding } = answer ?? {};
    if (typeof markdown !== 'string' || !Array.isArray(finding)) {
      void vscode.window.showInformationMessage(
        `Tapecheck: no fix of ${path.basename(uri.fsPath)} was tried: choose "Confirm fix by running" in the quick fixes of a finding.`,
      );
      return false;
    }
    await this.compare(uri, finding, markdown);
    return true;
  }

  private async compare(uri: vscode.Uri, finding: readonly unknown[], markdown: string): Promise<void> {
    await this.pages.showWith(`Fix of ${path.basename(uri.fsPath)}`, markdown, 'Apply This Fix', () =>
      this.applyFix(uri, finding),
    );
  }

  /** Sees to it that a program may be run, is saved, and is run once at a time. */
  private async once<T>(
    target: unknown,
    work: (uri: vscode.Uri) => Promise<T | undefined>,
  ): Promise<T | undefined> {
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
    const saved = await savedUri(document);
    if (saved === undefined) {
      void vscode.window.showWarningMessage('Tapecheck did not run the file, because it is not saved.');
      return undefined;
    }
    const key = saved.toString();
    if (this.underWay.has(key)) {
      const file = path.basename(saved.fsPath);
      void vscode.window.showInformationMessage(`Tapecheck is already running ${file}.`);
      return undefined;
    }
    this.underWay.add(key);
    try {
      return await work(saved);
    } finally {
      this.underWay.delete(key);
    }
  }

  /** Has the server run something, with progress and a way to cancel it; undefined where it could not. */
  private async request(
    uri: vscode.Uri,
    doing: string,
    command: string,
    more: object,
  ): Promise<{ answer: unknown; cancelled: boolean } | undefined> {
    await this.server.settled();
    const client = this.server.running;
    if (client === undefined) {
      void this.tell({ level: 'error', text: 'Tapecheck: the server is not running, so nothing was run.' });
      return undefined;
    }
    const token = `tapecheck-run-${randomUUID()}`;
    let cancelled = false;
    try {
      const answer = await vscode.window.withProgress(
        {
          location: vscode.ProgressLocation.Notification,
          title: `Tapecheck: ${doing}`,
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
              command,
              arguments: [{ uri: uri.toString(), token, ...this.configurations.of(uri), ...more }],
              workDoneToken: token,
            });
          } finally {
            reports.dispose();
            cancels.dispose();
          }
        },
      );
      return { answer, cancelled };
    } catch (error) {
      const ended = error instanceof ResponseError && error.code === ErrorCodes.PendingResponseRejected;
      const message = error instanceof Error ? error.message : String(error);
      const reason = ended ? 'the server ended, and the run with it' : message;
      this.log.error(`${doing}: ${reason}`);
      if (!cancelled) {
        // Not waited for: a message that nobody closes must not keep the file from being run again.
        void this.tell({ level: 'error', text: `Tapecheck failed while ${doing}: ${reason}.` });
      }
      return undefined;
    }
  }

  private async tellTrial(
    uri: vscode.Uri,
    finding: readonly unknown[],
    result: TrialResult | undefined,
  ): Promise<void> {
    const file = path.basename(uri.fsPath);
    const apply = 'Apply';
    const table = 'Show Comparison';
    const output = 'Show Output';
    const text = `Tapecheck: ${file}: ${result?.summary ?? 'the fix could not be tried.'}`;
    const show = result?.helped
      ? vscode.window.showInformationMessage
      : result?.ok
        ? vscode.window.showWarningMessage
        : vscode.window.showErrorMessage;
    const { markdown } = result ?? {};
    const help = helpOf(result?.next);
    const buttons = markdown === undefined ? [...help, output] : [apply, table, output];
    const chosen = await show(text, ...buttons);
    if (chosen === apply) await this.applyFix(uri, finding);
    if (chosen === output) this.log.show(true);
    if (chosen === table && markdown !== undefined) await this.compare(uri, finding, markdown);
    await this.help(chosen, uri);
  }

  /** Makes the edits of a fix that was tried; true where they could be made. */
  private async applyFix(uri: vscode.Uri, finding: readonly unknown[]): Promise<boolean> {
    await this.server.settled();
    const answer: { ok?: unknown; summary?: unknown } | undefined = await this.server.running?.sendRequest(
      ExecuteCommandRequest.type,
      { command: 'tapecheck.applyFix', arguments: [{ uri: uri.toString(), finding }] },
    );
    if (answer?.ok === true) return true;
    const why = typeof answer?.summary === 'string' ? answer.summary : 'the server is not running';
    void vscode.window.showWarningMessage(`Tapecheck: the fix was not applied: ${why}.`);
    return false;
  }

  private async tell(message: RunMessage, ran?: vscode.Uri, result?: RunResult): Promise<void> {
    const output = 'Show Output';
    const report = 'Show Report';
    const show =
      message.level === 'error'
        ? vscode.window.showErrorMessage
        : message.level === 'warning'
          ? vscode.window.showWarningMessage
          : vscode.window.showInformationMessage;
    const seen = ran !== undefined && result !== undefined && result.exit < 2;
    const help = seen || ran === undefined ? [] : helpOf(result?.next);
    const chosen = await show(message.text, ...help, ...(seen ? [report] : []), output);
    if (chosen === output) this.log.show(true);
    if (ran === undefined) return;
    if (chosen === report) await this.reports.show(ran);
    await this.help(chosen, ran);
  }

  /** Does what a button of `helpOf` says. */
  private async help(chosen: string | undefined, uri: vscode.Uri): Promise<void> {
    if (chosen === HELP.interpreter) await vscode.commands.executeCommand('tapecheck.selectInterpreter');
    if (chosen === HELP.arguments) await this.setArguments(uri);
    if (chosen === HELP.program || chosen === HELP.configure) await this.configure(uri);
  }
}

const HELP: Record<Next, string> = {
  arguments: 'Set Arguments…',
  configure: 'Configure Run…',
  program: 'Choose Program…',
  interpreter: 'Select Interpreter',
};

function helpOf(next: Next | undefined): string[] {
  return next === undefined ? [] : [HELP[next]];
}

type Program = vscode.TextDocument | vscode.NotebookDocument;

/** What is to be run: a Python file, or the notebook that a cell is part of. */
async function openTarget(target: unknown): Promise<Program | undefined> {
  const uri = targetUri(target);
  if (uri !== undefined) {
    const named = uri.toString();
    const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === named);
    // What an extension opens stays open for minutes: its findings would outlive its tab.
    return notebookOf(uri) ?? open ?? vscode.workspace.openTextDocument(uri);
  }
  const document = vscode.window.activeTextEditor?.document;
  const notebook = document === undefined ? undefined : notebookOf(document.uri);
  if (notebook !== undefined) return notebook;
  if (document?.languageId === 'python') return document;
  return vscode.window.activeNotebookEditor?.notebook ?? openProgram();
}

/** A program that is open while another page, such as the walkthrough, is in front; the user's choice of several. */
async function openProgram(): Promise<Program | undefined> {
  const inputs = vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.map(({ input }) => input));
  const uris = inputs.flatMap((input) =>
    input instanceof vscode.TabInputText || input instanceof vscode.TabInputNotebook ? [input.uri] : [],
  );
  const programs = new Map<string, Program>();
  for (const uri of uris) {
    const named = uri.toString();
    const loaded =
      notebookOf(uri) ??
      vscode.workspace.textDocuments.find(
        (document) => document.languageId === 'python' && document.uri.toString() === named,
      );
    const closed = loaded === undefined && uri.scheme === 'file' && uri.path.endsWith('.py');
    // A tab may stand there for a file that is gone.
    const program = closed
      ? await vscode.workspace.openTextDocument(uri).then(undefined, () => undefined)
      : loaded;
    if (program !== undefined) programs.set(named, program);
  }
  const choices = [...programs.values()].map((program) => ({
    label: vscode.workspace.asRelativePath(program.uri),
    program,
  }));
  if (choices.length < 2) return choices[0]?.program;
  return (await vscode.window.showQuickPick(choices, { placeHolder: 'Which program?' }))?.program;
}

/** Where a program is on disk once it is saved; undefined where the user cancels. */
async function savedUri(program: Program): Promise<vscode.Uri | undefined> {
  if (!program.isUntitled) return !program.isDirty || (await program.save()) ? program.uri : undefined;
  // Saving makes another document, and shows it only where the untitled one was in front.
  const saved = await vscode.workspace.save(program.uri);
  if (saved !== undefined && notebookOf(saved) === undefined) {
    await vscode.window.showTextDocument(saved, { preview: false });
  }
  return saved;
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

interface Wanted {
  uri: string;
  /** Rule, line and column. */
  finding: unknown[];
}

function findingOf(target: unknown): Wanted | undefined {
  if (typeof target !== 'object' || target === null) return undefined;
  const { uri, finding } = target as Record<string, unknown>;
  return typeof uri === 'string' && Array.isArray(finding) ? { uri, finding } : undefined;
}

/** The finding under the cursor that has a fix; where there are several, the one that the user picks. */
async function pickFinding(): Promise<Wanted | undefined> {
  const editor = vscode.window.activeTextEditor;
  const actions: vscode.CodeAction[] =
    editor === undefined
      ? []
      : await vscode.commands.executeCommand(
          'vscode.executeCodeActionProvider',
          editor.document.uri,
          editor.document.lineAt(editor.selection.active.line).range,
          vscode.CodeActionKind.QuickFix.value,
        );
  const offered = actions.flatMap(({ title, command }) => {
    const wanted =
      command?.command === 'tapecheck.confirmFix' ? findingOf(command.arguments?.[0]) : undefined;
    return wanted === undefined ? [] : [{ label: title, wanted }];
  });
  if (offered.length === 0) {
    void vscode.window.showInformationMessage(
      'Tapecheck: put the cursor on a finding that has a fix, and try again.',
    );
  }
  const chosen = offered.length > 1 ? await vscode.window.showQuickPick(offered) : offered[0];
  return chosen?.wanted;
}
