/** What the status item opens: which interpreter runs, and what can be done about the server and the last run. */

import * as vscode from 'vscode';
import { describeInterpreter } from './launch';
import type { Server } from './server';
import type { Status } from './status';

interface Entry extends vscode.QuickPickItem {
  command: string;
}

export async function showMenu(server: Server, status: Status): Promise<void> {
  const plan = server.launched;
  const { state } = status;
  const entries: Entry[] = [
    {
      label: '$(symbol-misc) Interpreter',
      detail: plan === undefined ? 'none was found' : describeInterpreter(plan) || "the server's own",
      command: 'tapecheck.selectInterpreter',
    },
    { label: '$(debug-restart) Restart Server', command: 'tapecheck.restart' },
    { label: '$(output) Show Output', command: 'tapecheck.showOutput' },
    { label: '$(graph) Show Report of the Last Run', command: 'tapecheck.showReport' },
    { label: '$(diff) Show Comparison of the Last Tried Fix', command: 'tapecheck.showComparison' },
    { label: '$(gear) Open Settings', command: 'tapecheck.openSettings' },
    { label: '$(info) Show Debug Information', command: 'tapecheck.debugInformation' },
  ];
  const chosen = await vscode.window.showQuickPick(entries, {
    title: 'detail' in state ? `Tapecheck: ${state.detail}` : `Tapecheck: ${state.kind}`,
  });
  if (chosen !== undefined) await vscode.commands.executeCommand(chosen.command);
}
