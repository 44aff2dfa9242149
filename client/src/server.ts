/** The language server's life: found, started, restarted, stopped. */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import * as vscode from 'vscode';
import {
  CloseAction,
  type ConfigurationParams,
  DidChangeConfigurationNotification,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  State,
} from 'vscode-languageclient/node';
import { environments, foldersAround } from './environments';
import { candidates, resolveCommand } from './interpreter';
import { type Attempt, describeFailure, describePlan, type LaunchPlan, planLaunch } from './launch';
import { probe } from './probe';
import { activeInterpreter, PYTHON_EXTENSION_ID } from './pythonExtension';
import { RestartBudget } from './restarts';
import { pickInterpreter } from './selectInterpreter';
import {
  expandedSettings,
  expandVariables,
  needsRestart,
  readSettings,
  type Settings,
  serverSettings,
  type VariableContext,
} from './settings';
import { PYTHON_FILES, type ServerState, type Status } from './status';

const SECTION = 'tapecheck';
const RESTARTS_ALLOWED = 3;
const RESTARTS_WINDOW_MS = 3 * 60_000;

export class Server implements vscode.Disposable {
  private client: QuietClient | undefined;
  private plan: LaunchPlan | undefined;
  private attempts: readonly Attempt[] = [];
  private started: Settings | undefined;
  private wasEnabled = true;
  private queue: Promise<void> = Promise.resolve();
  private complaints: ReadonlySet<string> = new Set();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
    private readonly status: Status,
  ) {}

  /** The client of a server that runs, or undefined. */
  get running(): LanguageClient | undefined {
    return this.client?.state === State.Running ? this.client : undefined;
  }

  get launched(): LaunchPlan | undefined {
    return this.plan;
  }

  /** The interpreters that were asked at the last start, and what each answered. */
  get asked(): readonly Attempt[] {
    return this.attempts;
  }

  /** Resolves when starts and stops that were asked for are done. */
  settled(): Promise<void> {
    return this.queue;
  }

  /** Starts the server, or starts it anew. Calls are carried out one after the other. */
  restart(): Promise<void> {
    return this.enqueue(async () => {
      await this.shutdown();
      await this.launch();
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.shutdown());
  }

  /** Tells the server of changed settings, or starts it anew where that is needed. */
  async settingsChanged(): Promise<void> {
    const now = this.settings();
    this.complain();
    if (this.started === undefined || needsRestart(this.started, now) || this.enabled() !== this.wasEnabled) {
      await this.restart();
      return;
    }
    this.started = now;
    const told = expandedSettings(now, this.variables());
    await this.running?.sendNotification(DidChangeConfigurationNotification.type, {
      settings: { [SECTION]: serverSettings(told, this.plan?.runInterpreter ?? []) },
    });
  }

  /** The settings in force for a file, or for the window. */
  settings(resource?: vscode.Uri, complain?: (problem: string) => void): Settings {
    return readSettings(
      vscode.workspace.getConfiguration(undefined, resource ?? null).get(SECTION),
      complain,
    );
  }

  /** Says, once, which settings have values that cannot be used. */
  private complain(): void {
    const problems = new Set<string>();
    for (const folder of [undefined, ...(vscode.workspace.workspaceFolders ?? [])]) {
      this.settings(folder?.uri, (problem) => problems.add(problem));
    }
    const fresh = [...problems].filter((problem) => !this.complaints.has(problem));
    this.complaints = problems;
    if (fresh.length === 0) return;
    for (const problem of fresh) this.log.warn(problem);
    const open = 'Open Settings';
    void vscode.window.showWarningMessage(`Tapecheck: ${fresh.join('; ')}.`, open).then((chosen) => {
      if (chosen === open) void openSettings(/tapecheck\.\w+/.exec(fresh[0] ?? '')?.[0] ?? SECTION);
    });
  }

  dispose(): void {
    void this.stop();
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(work).catch((error) => {
      this.log.error(`${error instanceof Error ? (error.stack ?? error.message) : error}`);
      this.status.show({ kind: 'failed', detail: `${error instanceof Error ? error.message : error}` });
    });
    return this.queue;
  }

  private async shutdown(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    this.plan = undefined;
    if (client === undefined) return;
    client.stopping = true;
    try {
      await client.dispose();
    } catch (error) {
      this.log.warn(`stopping the server: ${error instanceof Error ? error.message : error}`);
    }
  }

  private async launch(): Promise<void> {
    const settings = this.settings();
    this.complain();
    this.started = settings;
    this.wasEnabled = this.enabled();
    if (!this.wasEnabled) {
      this.status.show({ kind: 'off' });
      return;
    }
    this.status.show({ kind: 'starting' });
    const plan = await this.findLaunch(settings);
    if (plan === undefined) return;
    this.plan = plan;

    const client = this.createClient(plan, settings);
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      // The error handler or the lines above have said why; a second box would say it worse.
      this.log.error(`the server did not start: ${error instanceof Error ? error.message : error}`);
      if (this.client === client && this.status.state.kind !== 'failed') {
        this.failed('The Tapecheck server did not start.');
      }
      return;
    }
    this.status.show(running(plan));
  }

  /** Whether analysis is wanted in any folder. */
  private enabled(): boolean {
    const folders = vscode.workspace.workspaceFolders ?? [];
    const places = folders.length > 0 ? folders.map(({ uri }) => uri) : [undefined];
    return places.some((place) => this.settings(place).enable);
  }

  private variables(folder?: vscode.Uri): VariableContext {
    const first = folder ?? vscode.workspace.workspaceFolders?.find(({ uri }) => uri.scheme === 'file')?.uri;
    return { workspaceFolder: first?.fsPath, userHome: os.homedir(), env: process.env };
  }

  /**
   * The interpreter for recorded runs in a folder: its own setting, environment or `.venv` where it has one, else
   * the one that was found for the window.
   */
  async runInterpreter(folder: vscode.Uri | undefined): Promise<string[]> {
    const found = this.plan?.runInterpreter ?? [];
    const several = (vscode.workspace.workspaceFolders?.length ?? 0) > 1;
    if (folder === undefined || !several || folder.scheme !== 'file') return found;
    const setting = expandVariables(this.settings(folder).interpreter, this.variables(folder));
    const [first] = candidates({
      ...{ platform: process.platform, env: process.env, isFile },
      setting,
      active: setting.length > 0 ? undefined : await activeInterpreter(folder, this.log),
      folders: [folder.fsPath],
      trusted: vscode.workspace.isTrusted,
    });
    return first === undefined || first.origin === 'path' ? found : first.command;
  }

  /** The setting of the window, else that of the first folder which has one: there is one server for all of them. */
  private interpreterSetting(settings: Settings): string[] {
    if (settings.interpreter.length > 0) return expandVariables(settings.interpreter, this.variables());
    for (const { uri } of vscode.workspace.workspaceFolders ?? []) {
      const own = this.settings(uri).interpreter;
      if (own.length > 0) return expandVariables(own, this.variables(uri));
    }
    return [];
  }

  private async findLaunch(settings: Settings): Promise<LaunchPlan | undefined> {
    const folders = (vscode.workspace.workspaceFolders ?? [])
      .filter((folder) => folder.uri.scheme === 'file')
      .map((folder) => folder.uri.fsPath);
    const variables = this.variables();
    const lookUp = { platform: process.platform, env: process.env, isFile };
    const setting = this.interpreterSetting(settings);
    const active =
      setting.length > 0
        ? undefined
        : await activeInterpreter(vscode.workspace.workspaceFolders?.[0]?.uri, this.log);
    const found = candidates({
      ...lookUp,
      setting,
      active,
      folders,
      trusted: vscode.workspace.isTrusted,
    });
    const others =
      setting.length > 0
        ? candidates({
            ...{ ...lookUp, setting: [], folders, trusted: vscode.workspace.isTrusted },
            active: await activeInterpreter(vscode.workspace.workspaceFolders?.[0]?.uri, this.log),
          })
        : [];
    const plan = await planLaunch({
      candidates: found,
      others,
      path: resolveCommand(expandVariables(settings.path, variables), lookUp).filter((part) => part !== ''),
      importStrategy: settings.importStrategy,
      bundled: bundledFolder(this.context.extensionPath),
      cwd: path.join(this.context.extensionPath, 'dist'),
      env: process.env,
      probe,
    });
    this.attempts = plan.attempts;
    for (const { candidate, source, probe: answer } of plan.attempts) {
      const verdict = answer.ok ? `Python ${answer.version}, tapecheck ${answer.tapecheck}` : answer.detail;
      this.log.info(
        `interpreter ${candidate.command.join(' ')} (${candidate.origin}, ${source}): ${verdict}`,
      );
    }
    if (plan.ok) {
      if (plan.broken !== undefined) this.warnBroken(plan.broken);
      return plan;
    }
    this.log.error(describeFailure(plan));
    this.failed(describeFailure(plan), true);
    return undefined;
  }

  /** Says that the interpreter which is set cannot be used: files are checked without it, but nothing is run. */
  private warnBroken(detail: string): void {
    const message = `Tapecheck checks your files, but cannot run them: ${detail}.`;
    this.log.warn(message);
    const select = 'Select Interpreter';
    void vscode.window.showWarningMessage(message, select).then((chosen) => {
      if (chosen === select) return this.selectInterpreter();
      return undefined;
    });
  }

  private createClient(plan: LaunchPlan, settings: Settings): QuietClient {
    const budget = new RestartBudget(RESTARTS_ALLOWED, RESTARTS_WINDOW_MS);
    let everRan = false;
    const options: LanguageClientOptions = {
      documentSelector: PYTHON_FILES as LanguageClientOptions['documentSelector'] & object,
      outputChannel: this.log,
      traceOutputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: {
        settings: serverSettings(expandedSettings(settings, this.variables()), plan.runInterpreter),
        commands: {
          confirm: 'tapecheck.confirmFile',
          tryFix: 'tapecheck.confirmFix',
          explain: 'tapecheck.explain',
          disable: 'tapecheck.disableRule',
          report: 'tapecheck.showReport',
          comparison: 'tapecheck.showComparison',
          arguments: 'tapecheck.setArguments',
          configure: 'tapecheck.configureRun',
          program: 'tapecheck.configureRun',
          interpreter: 'tapecheck.selectInterpreter',
        },
      },
      // The server keeps back what is not to be analysed before it is saved.
      diagnosticPullOptions: { onChange: true, onSave: true },
      // Without this the client shows an error box of its own beside ours.
      initializationFailedHandler: () => false,
      errorHandler: {
        error: (error, _message, count) => {
          this.log.error(`connection to the server: ${error.message}`);
          return {
            action: (count ?? 0) <= 3 ? ErrorAction.Continue : ErrorAction.Shutdown,
            handled: true,
          };
        },
        closed: () => {
          if (everRan && budget.spend()) {
            this.status.show({ kind: 'starting' });
            return {
              action: CloseAction.Restart,
              message: 'The server ended; starting it again.',
              handled: true,
            };
          }
          const message = everRan
            ? `The Tapecheck server ended ${RESTARTS_ALLOWED + 1} times within three minutes and is not started again.`
            : 'The Tapecheck server ended while it started.';
          this.failed(message);
          return { action: CloseAction.DoNotRestart, message, handled: true };
        },
      },
      middleware: {
        workspace: {
          configuration: async (params: ConfigurationParams, token, next) => {
            const answers = await next(params, token);
            if (!Array.isArray(answers)) return answers;
            const told = answers.map(async (answer, index) => {
              const item = params.items[index];
              if (item?.section !== SECTION) return answer;
              const folder = item.scopeUri === undefined ? undefined : vscode.Uri.parse(item.scopeUri);
              const own = expandedSettings(readSettings(answer), this.variables(folder));
              return serverSettings(own, await this.runInterpreter(folder));
            });
            return Promise.all(told);
          },
          // Sent by settingsChanged, which also knows the interpreter that was found.
          didChangeConfiguration: async () => {},
        },
        executeCommand: async (command, args, next) => {
          // What executes the user's code goes through our own commands, which ask for a trusted workspace.
          const own = {
            'tapecheck.run': 'tapecheck.confirmFile',
            'tapecheck.tryFix': 'tapecheck.confirmFix',
          }[command];
          if (own !== undefined) return vscode.commands.executeCommand(own, ...args);
          return next(command, args);
        },
      },
    };
    const client = new QuietClient(
      SECTION,
      'Tapecheck',
      { command: plan.command, args: plan.args, options: { cwd: plan.cwd } },
      options,
    );
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Running) {
        everRan = true;
        if (this.client === client) this.status.show(running(plan));
      }
    });
    return client;
  }

  /** Where an interpreter is chosen: the Python extension's list, else one of our own. */
  async selectInterpreter(): Promise<void> {
    const { interpreter } = this.settings();
    if (interpreter.length === 0 && vscode.extensions.getExtension(PYTHON_EXTENSION_ID) !== undefined) {
      await vscode.commands.executeCommand('python.setInterpreter');
      return;
    }
    const folders = (vscode.workspace.workspaceFolders ?? [])
      .filter(({ uri }) => uri.scheme === 'file')
      .map(({ uri }) => uri.fsPath);
    const found = candidates({
      ...{ platform: process.platform, env: process.env, isFile, setting: [], folders },
      active: await activeInterpreter(vscode.workspace.workspaceFolders?.[0]?.uri, this.log),
      trusted: vscode.workspace.isTrusted,
    });
    const known = new Set(found.map(({ command }) => command[0]));
    const others = environments({
      ...{ platform: process.platform, env: process.env, home: os.homedir(), isFile },
      folders: vscode.workspace.isTrusted ? foldersAround(openFiles(), folders) : [],
      list: (folder) => attempt(() => fs.readdirSync(folder), []),
      read: (file) => attempt(() => fs.readFileSync(file, 'utf8'), ''),
    }).filter(({ command }) => !known.has(command[0]));
    const cwd = path.join(this.context.extensionPath, 'dist');
    const lookUp = { platform: process.platform, env: process.env, isFile };
    await pickInterpreter([...found, ...others], interpreter, (command) =>
      probe(resolveCommand(expandVariables(command, this.variables()), lookUp), {
        ...{ cwd, env: process.env, timeoutMs: 5000 },
      }),
    );
  }

  /** Says that no server runs, with what can be done about it. */
  private failed(message: string, interpreter = false): void {
    this.status.show({ kind: 'failed', detail: message });
    const select = 'Select Interpreter';
    const settings = 'Open Settings';
    const output = 'Show Output';
    const restart = 'Restart';
    // Where a command is set to be run, the interpreter would change nothing.
    const ownCommand = this.settings().path.length > 0;
    const buttons = [interpreter ? (ownCommand ? settings : select) : restart, output];
    void vscode.window.showErrorMessage(message, ...buttons).then((chosen) => {
      if (chosen === select) return this.selectInterpreter();
      if (chosen === settings) return openSettings('tapecheck.path');
      if (chosen === restart) return this.restart();
      if (chosen === output) this.log.show(true);
      return undefined;
    });
  }
}

/** A client whose troubles go to the log: the message boxes are `Server`'s, which knows what can be done. */
class QuietClient extends LanguageClient {
  /** Whether it is being stopped: a server that is killed since it took too long to end is no error then. */
  stopping = false;

  override error(message: string, data?: unknown): void {
    if (this.stopping) this.info(message, data);
    else super.error(message, data, false);
  }

  override warn(message: string, data?: unknown): void {
    super.warn(message, data, false);
  }

  override info(message: string, data?: unknown): void {
    super.info(message, data, false);
  }
}

export function openSettings(query: string): Thenable<unknown> {
  // In a remote window the user's own settings do not show those of the machine.
  const place = vscode.workspace.workspaceFolders === undefined ? 'Settings' : 'WorkspaceSettings';
  return vscode.commands.executeCommand(`workbench.action.open${place}`, { query });
}

/** The packages that come with the extension; in a checkout that was not packaged, the checkout's own. */
function bundledFolder(extensionPath: string): string | undefined {
  return ['bundled', 'server']
    .map((name) => path.join(extensionPath, name))
    .find((folder) => isFile(path.join(folder, 'tapecheck', '__init__.py')));
}

/** The files in tabs, the active one first. */
function openFiles(): string[] {
  const active = vscode.window.activeTextEditor?.document.uri;
  const inputs = vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.map(({ input }) => input));
  const uris = inputs.flatMap((input) =>
    input instanceof vscode.TabInputText || input instanceof vscode.TabInputNotebook ? [input.uri] : [],
  );
  return [...(active === undefined ? [] : [active]), ...uris]
    .filter(({ scheme }) => scheme === 'file')
    .map(({ fsPath }) => fsPath);
}

function isFile(file: string): boolean {
  return attempt(() => fs.statSync(file).isFile(), false);
}

function attempt<T>(work: () => T, otherwise: T): T {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

function running(plan: LaunchPlan): ServerState {
  return { kind: 'running', detail: describePlan(plan), warning: plan.broken !== undefined };
}
