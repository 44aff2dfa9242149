// A real VS Code (code-server) with Chromium in front of it, and a driver inside its extension host.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { test } from 'node:test';
import { chromium } from 'playwright-core';

/** Screenshots land here, in a folder that git ignores. */
export const SHOTS = path.resolve('.build/e2e/screenshots');

const QUIET = {
  'workbench.startupEditor': 'none',
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'window.restoreWindows': 'none',
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'extensions.ignoreRecommendations': true,
  'chat.disableAIFeatures': true,
  'git.enabled': false,
  'editor.minimap.enabled': false,
  'editor.accessibilitySupport': 'off',
  'files.autoSave': 'off',
};

/**
 * @typedef {object} Options
 * @property {import('./tools.mjs').Tools} tools
 * @property {string[]} extensions .vsix files
 * @property {Record<string, string>} files the workspace: its files and their texts
 * @property {Record<string, unknown>} [settings] of the machine
 * @property {Record<string, string>} [env] for the extension host
 * @property {boolean} [trusted] whether the workspace is trusted
 * @property {string[]} [folders] the workspace's folders, where it has several
 */

export class Editor {
  /** @type {(() => Promise<void> | void)[]} */
  #closers = [];
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  #last = 0;
  /** @type {net.Socket | undefined} */
  #driver;

  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'tapecheck-e2e-'));
    this.workspace = path.join(this.root, 'workspace');
    this.userData = path.join(this.root, 'user-data');
    this.socket = path.join(this.root, 'driver.sock');
    /** @type {import('playwright-core').Page | undefined} */
    this._page = undefined;
  }

  /** @returns {import('playwright-core').Page} */
  get page() {
    if (this._page === undefined) throw new Error('the editor is not open');
    return this._page;
  }

  /** @param {Options} options */
  static async open(options) {
    const editor = new Editor(options);
    try {
      await editor.#start();
    } catch (error) {
      await editor.close();
      throw error;
    }
    return editor;
  }

  async #start() {
    const { tools, extensions, files, settings = {}, env = {}, trusted = true, folders } = this.options;
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(this.workspace, name);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, text);
    }
    // Settings with machine scope are read from Machine, never from User; the others from either.
    for (const place of ['User', 'Machine']) {
      fs.mkdirSync(path.join(this.userData, place), { recursive: true });
      fs.writeFileSync(
        path.join(this.userData, place, 'settings.json'),
        JSON.stringify(place === 'User' ? QUIET : { ...QUIET, ...settings }),
      );
    }
    const config = path.join(this.root, 'config.yaml');
    fs.writeFileSync(config, '');
    const base = [
      ...[tools.codeServer, '--config', config, '--user-data-dir', this.userData],
      ...['--extensions-dir', path.join(this.root, 'extensions')],
    ];
    const environment = {
      ...process.env,
      ...env,
      HOME: this.root,
      XDG_CONFIG_HOME: this.root,
      XDG_DATA_HOME: this.root,
      EXTENSIONS_GALLERY: '{"serviceUrl":"http://127.0.0.1:9/none"}',
      TAPECHECK_DRIVER: this.socket,
    };
    const installed = spawnSync(
      tools.node24,
      [...base, ...extensions.flatMap((file) => ['--install-extension', file]), '--force'],
      { encoding: 'utf8', env: environment, timeout: 120_000, killSignal: 'SIGKILL' },
    );
    if (installed.status !== 0) throw new Error(`${installed.stdout}${installed.stderr}`);

    const opened = folders === undefined ? this.workspace : path.join(this.root, 'several.code-workspace');
    if (folders !== undefined) {
      const listed = folders.map((name) => ({ path: path.join(this.workspace, name) }));
      fs.writeFileSync(opened, JSON.stringify({ folders: listed }));
    }
    const port = await freePort();
    const log = fs.openSync(path.join(this.root, 'code-server.log'), 'w');
    const server = spawn(
      tools.node24,
      [
        ...base,
        ...['--auth', 'none', '--bind-addr', `127.0.0.1:${port}`, '--disable-telemetry'],
        ...['--disable-update-check', '--disable-getting-started-override'],
        ...(trusted ? ['--disable-workspace-trust'] : []),
        opened,
      ],
      { env: environment, stdio: ['ignore', log, log] },
    );
    this.#closers.push(async () => {
      const ended = new Promise((resolve) => server.once('exit', resolve));
      if (server.exitCode === null && server.signalCode === null) {
        server.kill('SIGTERM');
        if ((await within(ended, 10_000)) === LATE) server.kill('SIGKILL');
      }
    });
    await poll(
      async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(5000) });
        return answer.ok;
      },
      'code-server to answer',
      100_000,
    );

    const context = await chromium.launchPersistentContext(path.join(this.root, 'chromium'), {
      executablePath: tools.chromium,
      headless: true,
      viewport: { width: 1280, height: 800 },
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
    });
    this.#closers.push(() => context.close());
    this._page = context.pages()[0] ?? (await context.newPage());
    this.page.setDefaultTimeout(45_000);
    const kind = folders === undefined ? 'folder' : 'workspace';
    await this.page.goto(`http://127.0.0.1:${port}/?${kind}=${encodeURIComponent(opened)}`);
    await this.page.locator('.explorer-folders-view .monaco-list-row').first().waitFor({ timeout: 100_000 });
    await this.#connect();
  }

  async #connect() {
    await poll(async () => fs.existsSync(this.socket), 'the driver in the extension host', 60_000);
    const connection = net.connect(this.socket);
    this.#driver = connection;
    this.#closers.push(() => void connection.destroy());
    connection.on('error', () => {});
    connection.on('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the extension host is gone'));
      this.#waiting.clear();
    });
    readline.createInterface({ input: connection }).on('line', (line) => {
      const { id, value, error } = JSON.parse(line);
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(value);
      else waiting?.reject(new Error(error));
    });
  }

  /**
   * Calls a function inside the extension host. It is sent as text: it sees its arguments and nothing else.
   * @template A, R
   * @param {(vscode: typeof import('vscode'), argument: A, helpers: { until: <T>(get: () => T | Promise<T>, timeoutMs?: number) => Promise<NonNullable<T>> }) => R | Promise<R>} call
   * @param {A} [argument]
   * @returns {Promise<R>}
   */
  inside(call, argument) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      if (this.#driver === undefined || this.#driver.destroyed) {
        reject(new Error('the extension host is gone'));
        return;
      }
      this.#waiting.set(id, { resolve, reject });
      this.#driver.write(`${JSON.stringify({ id, source: call.toString(), argument: argument ?? null })}\n`);
    });
  }

  /** @param {string} name a file of the workspace */
  file(name) {
    return path.join(this.workspace, name);
  }

  /** What `Tapecheck: Show Debug Information` shows. */
  async debugInformation() {
    return this.inside(async (vscode) => {
      await vscode.commands.executeCommand('tapecheck.debugInformation');
      const text = vscode.window.activeTextEditor?.document.getText() ?? '';
      await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
      return JSON.parse(text);
    });
  }

  /**
   * Waits for the server's state.
   * @param {'running' | 'failed' | 'off' | 'starting'} kind
   */
  async state(kind) {
    /** @type {any} */
    let information;
    await poll(async () => {
      information = await this.debugInformation();
      return information.state.kind === kind;
    }, `the state ${kind}`);
    return information;
  }

  /**
   * @param {string} name
   * @param {{ x: number, y: number, width: number, height: number }} [clip] a part of the window
   */
  async screenshot(name, clip) {
    fs.mkdirSync(SHOTS, { recursive: true });
    // Toasts and menus slide in.
    await this.page.waitForTimeout(400);
    await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`), ...(clip ? { clip } : {}) });
  }

  /** The menu of quick fixes at the cursor, opened by its key: one that is pressed too soon is lost. */
  async quickFixes() {
    const entries = this.page.locator('.action-widget .monaco-list-row.action');
    await poll(
      async () => {
        await this.page.keyboard.press('Control+.');
        await entries.first().waitFor({ timeout: 8000 });
        return true;
      },
      'the menu of quick fixes',
      60_000,
    );
    return entries;
  }

  /** The message boxes that are shown. */
  get toasts() {
    return this.page.locator('.notification-toast');
  }

  /** Keeps what message boxes say from here on: one of a busy machine may be gone before anybody looks. */
  async watchToasts() {
    await this.page.evaluate(() => {
      const page = /** @type {any} */ (globalThis);
      page.tapecheckToasts = new Set();
      const read = () => {
        for (const toast of page.document.querySelectorAll('.notification-toast'))
          page.tapecheckToasts.add(toast.textContent);
      };
      const what = { subtree: true, childList: true, characterData: true };
      new page.MutationObserver(read).observe(page.document.body, what);
    });
    return () => this.page.evaluate(() => [.../** @type {any} */ (globalThis).tapecheckToasts].join('\n'));
  }

  /** Closes all messages. VS Code hides the fourth within 800 ms, so that a test must not follow at once. */
  async clearToasts() {
    await this.inside((vscode) => vscode.commands.executeCommand('notifications.clearAll'));
    await poll(async () => (await this.toasts.count()) === 0, 'messages to close');
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }

  /** What the Tapecheck output channel holds. */
  output() {
    const logs = path.join(this.userData, 'logs');
    const files = fs.existsSync(logs) ? fs.readdirSync(logs, { recursive: true, encoding: 'utf8' }) : [];
    return files
      .filter((file) => path.basename(file) === 'Tapecheck.log')
      .map((file) => fs.readFileSync(path.join(logs, file), 'utf8'))
      .join('');
  }

  async close() {
    // What can't be closed must not keep the rest open, for the tests would never end.
    for (const closer of this.#closers.reverse()) {
      try {
        await within(Promise.resolve(closer()), 15_000);
      } catch (error) {
        console.log(`not closed: ${error}`);
      }
    }
    this.#closers = [];
    if (process.env.KEEP) console.log(`kept ${this.root}`);
    else fs.rmSync(this.root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

/**
 * A test with an end in time, and with a screenshot of what was seen where it failed.
 * @param {() => Editor} editor
 * @param {string} name
 * @param {() => Promise<void>} body
 */
export function scenario(editor, name, body) {
  test(name, { timeout: 300_000 }, async () => {
    try {
      await body();
    } catch (error) {
      await editor().screenshot(`failed-${name.replace(/\W+/g, '-').slice(0, 60)}`);
      throw error;
    }
  });
}

const LATE = Symbol('late');

/**
 * What a promise gives, or LATE where it has not settled in time.
 * @template T
 * @param {Promise<T>} promise
 * @param {number} timeoutMs
 * @returns {Promise<T | typeof LATE>}
 */
async function within(promise, timeoutMs) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(LATE), timeoutMs);
  });
  try {
    return /** @type {T | typeof LATE} */ (await Promise.race([promise, late]));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {() => Promise<unknown>} get
 * @param {string} what
 * @param {number} [timeoutMs]
 */
export async function poll(get, what, timeoutMs = 45_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    try {
      if (await get()) return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    if (Date.now() > end) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/**
 * Whether a process goes on.
 * @param {number} pid
 */
export function isAlive(pid) {
  try {
    // A zombie still has a number: it is dead, and nobody has asked yet how it died.
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => (address && typeof address === 'object' ? resolve(address.port) : reject()));
    });
  });
}
