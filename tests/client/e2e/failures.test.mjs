// What the client does with settings, runs, and servers that die. The server is a fake one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, afterEach, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { TRAIN } from './programs.mjs';
import { neededTools } from './tools.mjs';

const tools = neededTools();
const built = String(process.env.E2E_BUILT);
const scratch = fs.mkdtempSync(path.join(built, 'fake-'));
const LOG = path.join(scratch, 'log');
const MODE = path.join(scratch, 'mode');
const FAKE = [tools.python, path.resolve('tests/client/fake_server/server.py')];

/** @type {Editor} */
let editor;

before(async () => {
  editor = await Editor.open({
    tools,
    extensions: [
      String(process.env.VSIX),
      path.join(built, 'driver.vsix'),
      path.join(built, 'stub_python.vsix'),
    ],
    files: { 'train.py': 'import torch\n' },
    settings: { 'tapecheck.path': FAKE, 'tapecheck.ignore': ['TAPE301'] },
    env: { FAKE_LOG: LOG, FAKE_MODE: MODE, STUB_PYTHON: tools.python },
  });
  await editor.inside(async (vscode, file) => {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
  }, editor.file('train.py'));
});
afterEach(() => behave(''));
after(async () => {
  await editor?.close();
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** @returns {any[]} what the fake servers have been sent */
const received = () =>
  fs.existsSync(LOG)
    ? fs
        .readFileSync(LOG, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
    : [];
/** @param {string} method */
const sent = (method) => received().filter((message) => message.method === method);
/** @param {string} text */
const behave = (text) => fs.writeFileSync(MODE, text);

/**
 * @param {string} name
 * @param {unknown} value
 */
async function set(name, value) {
  await editor.inside(
    async (vscode, [key, to]) => {
      await vscode.workspace.getConfiguration().update(String(key), to, vscode.ConfigurationTarget.Workspace);
    },
    /** @type {[string, unknown]} */ ([name, value]),
  );
}

scenario(
  () => editor,
  'the server is told the settings and the interpreter that was found',
  async () => {
    await editor.state('running');
    const [initialize] = sent('initialize');
    const { settings, commands } = initialize.params.initializationOptions;
    assert.equal(commands.confirm, 'tapecheck.confirmFile');
    const registered = await editor.inside(async (vscode) => vscode.commands.getCommands(true));
    for (const command of Object.values(commands))
      assert.ok(registered.includes(String(command)), String(command));
    assert.deepEqual(settings.ignore, ['TAPE301']);
    assert.deepEqual(settings.interpreter, [tools.python]);
    const run = { timeout: 300, maxIterations: 20, arguments: [], cwd: '', env: {}, launcher: [] };
    assert.deepEqual(settings.run, run);
    await poll(
      async () => received().some((message) => message.id === 'settings'),
      'the settings it asked for',
    );
    const [answer] = received().filter((message) => message.id === 'settings');
    assert.deepEqual(answer.result[0].interpreter, [tools.python]);
    assert.deepEqual(answer.result[0].ignore, ['TAPE301']);
  },
);

scenario(
  () => editor,
  'a changed setting is sent on without a new process',
  async () => {
    const before = sent('initialize').length;
    await set('tapecheck.severity', { TAPE201: 'error' });
    await poll(async () => sent('workspace/didChangeConfiguration').length > 0, 'the new settings');
    const last = sent('workspace/didChangeConfiguration').at(-1);
    assert.deepEqual(last.params.settings.tapecheck.severity, { TAPE201: 'error' });
    assert.deepEqual(last.params.settings.tapecheck.interpreter, [tools.python]);
    assert.equal(sent('initialize').length, before);
  },
);

scenario(
  () => editor,
  'switched off, no server runs; switched on, one does',
  async () => {
    await set('tapecheck.enable', false);
    await editor.state('off');
    await editor.inside(async (vscode, file, { until }) => {
      await until(() => vscode.languages.getDiagnostics(vscode.Uri.file(file)).length === 0);
    }, editor.file('train.py'));
    await set('tapecheck.enable', true);
    await editor.state('running');
    await editor.inside(async (vscode, file, { until }) => {
      await until(() => vscode.languages.getDiagnostics(vscode.Uri.file(file)).length === 1);
    }, editor.file('train.py'));
  },
);

scenario(
  () => editor,
  'a run saves the file, shows its progress, and tells what it found',
  async () => {
    await editor.inside(async (vscode, file) => {
      const shown = await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
      await shown.edit((edit) => edit.insert(new vscode.Position(1, 0), 'x = 1\n'));
    }, editor.file('train.py'));
    const result = await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.confirmFile'));
    assert.deepEqual(result, {
      exit: 1,
      confirmed: 1,
      refuted: 0,
      notReached: 0,
      found: 0,
      summary: '1 confirmed',
    });
    assert.equal(fs.readFileSync(editor.file('train.py'), 'utf8'), 'import torch\nx = 1\n');
    const [{ params }] = sent('workspace/executeCommand');
    assert.equal(params.command, 'tapecheck.run');
    assert.match(params.arguments[0].uri, /^file:.*train\.py$/);
    assert.equal(params.workDoneToken, params.arguments[0].token);
    await editor.toasts.filter({ hasText: 'train.py: 1 confirmed' }).waitFor();
    await editor.screenshot('fake-1-summary');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'a run is cancelled with the button of its progress',
  async () => {
    behave('wait-for-cancel');
    const running = editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.confirmFile'));
    const progress = editor.toasts.filter({ hasText: 'Tapecheck: running train.py' });
    await progress.filter({ hasText: 'iteration 3 of 20' }).waitFor();
    await editor.screenshot('fake-2-progress');

    const second = await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.confirmFile'));
    assert.equal(second, null, 'the same file is not run twice at once');
    await editor.toasts.filter({ hasText: 'already running train.py' }).waitFor();

    await progress.getByRole('button', { name: 'Cancel' }).click();
    const result = await running;
    assert.equal(/** @type {any} */ (result).summary, 'cancelled');
    await progress.waitFor({ state: 'detached' });
    behave('');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'how a file is run is asked once, shown in a menu, and remembered',
  async () => {
    const { page } = editor;
    const menu = page.locator('.quick-input-widget');
    /** @param {string} label */
    const entry = (label) => menu.locator('.monaco-list-row', { hasText: label });
    await editor.inside((vscode) => {
      void vscode.commands.executeCommand('tapecheck.configureRun');
    });
    /** @type {[string, string][]} */
    const answers = [
      ['Arguments', '--epochs 2 --name "a b"'],
      ['Launcher', 'torchrun --nproc-per-node 2'],
      ['Environment', 'SEED=1'],
    ];
    for (const [label, text] of answers) {
      await entry(label).click();
      // The box takes the menu's place: what is typed before it stands there filters the menu.
      await menu.locator('.monaco-list-row').first().waitFor({ state: 'hidden' });
      await menu.locator('input').first().fill(text);
      await page.keyboard.press('Enter');
      await entry(text.split(' ')[0] ?? text).waitFor();
    }
    await editor.screenshot('run-configuration');
    const before = sent('workspace/executeCommand').length;
    await entry('Run now').click();
    await poll(async () => sent('workspace/executeCommand').length > before, 'the run');
    const [asked] = sent('workspace/executeCommand').at(-1).params.arguments;
    assert.deepEqual(asked.arguments, ['--epochs', '2', '--name', 'a b']);
    assert.deepEqual(asked.launcher, ['torchrun', '--nproc-per-node', '2']);
    assert.deepEqual(asked.env, { SEED: '1' });
    await editor.clearToasts();
    await editor.inside((vscode) => {
      void vscode.commands.executeCommand('tapecheck.configureRun');
    });
    await entry('Reset').click();
    await poll(async () => (await entry('Reset').count()) === 0, 'a menu without it');
    await entry('Run now').waitFor();
    await page.keyboard.press('Escape');
  },
);

scenario(
  () => editor,
  'a server that dies once is started again, unnoticed',
  async () => {
    const before = sent('initialize').length;
    behave('die-on-hover');
    await hover();
    behave('');
    await poll(async () => sent('initialize').length > before, 'a new server');
    await editor.state('running');
    assert.equal(await editor.toasts.count(), 0);
  },
);

scenario(
  () => editor,
  'one that dies again and again is given up with one message, and the restart command revives it',
  async () => {
    behave('die-on-hover');
    for (let death = 0; death < 6; death++) {
      const { state } = await editor.debugInformation();
      if (state.kind === 'failed') break;
      await hover();
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    const { state } = await editor.state('failed');
    assert.match(state.detail, /ended 4 times within three minutes/);
    await editor.toasts.filter({ hasText: 'ended 4 times' }).waitFor();
    assert.equal(await editor.toasts.count(), 1);
    await editor.screenshot('fake-3-given-up');
    behave('');
    await editor.toasts.getByRole('button', { name: 'Restart' }).click();
    await editor.state('running');
  },
);

scenario(
  () => editor,
  'one that dies at its start is not tried again, and its last words are in the output',
  async () => {
    behave('die-at-start');
    await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.restart'));
    const { state } = await editor.state('failed');
    assert.match(state.detail, /did not start|ended while it started/);
    await poll(
      async () => editor.output().includes('the fake server dies at its start'),
      'its standard error',
    );
    assert.equal(editor.output().split('the fake server dies at its start').length - 1, 1);
    assert.equal(await editor.toasts.count(), 1);
    await editor.screenshot('fake-4-dead-at-start');
    behave('');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'an interpreter that is not there gives one message, and files are checked in another one all the same',
  async () => {
    await set('tapecheck.interpreter', ['/no/such/python']);
    await set('tapecheck.path', []);
    const told = editor.toasts.filter({
      hasText: 'cannot run them: /no/such/python is not an executable program',
    });
    await told.waitFor();
    const { attempts, server, state } = await editor.state('running');
    assert.notEqual(server.command[0], '/no/such/python');
    assert.match(state.detail, /no recorded runs: \/no\/such\/python is not an executable program/);
    assert.equal(attempts[0].probe.reason, 'not-found');
    assert.equal(await editor.toasts.count(), 1);
    await editor.screenshot('fake-5-no-interpreter');
    await editor.toasts.getByRole('button', { name: 'Select Interpreter' }).click();
    const menu = editor.page.locator('.quick-input-widget');
    await menu.locator('.monaco-list-row', { hasText: tools.python }).first().waitFor();
    await menu.locator('.monaco-list-row', { hasText: 'instead of /no/such/python' }).waitFor();
    await editor.screenshot('fake-5-select-interpreter');
    await menu.locator('.monaco-list-row', { hasText: 'Enter a path' }).click();
    await menu.getByText('The path of a Python interpreter').waitFor();
    await menu.locator('input').first().fill('/no/other/python');
    await editor.page.keyboard.press('Enter');
    await menu.getByText('/no/other/python is not an executable program').waitFor();
    await menu.locator('input').first().fill(tools.python);
    await editor.page.keyboard.press('Enter');
    await editor.state('running');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'without a setting the Python extension says which interpreter, also when it changes its mind',
  async () => {
    await set('tapecheck.interpreter', undefined);
    await poll(
      async () => (await editor.debugInformation()).attempts[0]?.candidate.origin === 'python-extension',
      'another interpreter to be asked',
    );
    const { server } = await editor.state('running');
    assert.equal(server.source, 'bundled');
    assert.equal(server.command[0], tools.python);

    const link = path.join(editor.root, 'python-by-another-name');
    fs.symlinkSync(fs.realpathSync(tools.python), link);
    await editor.inside((vscode, file) => vscode.commands.executeCommand('test.setPython', file), link);
    await poll(
      async () => (await editor.debugInformation()).server?.command[0] === link,
      'the other interpreter',
    );
  },
);

scenario(
  () => editor,
  'in a Python with no packages at all the bundled server finds everything and offers fixes',
  async () => {
    await editor.clearToasts();
    const bare = path.join(editor.root, 'bare');
    const made = spawnSync(tools.python, ['-m', 'venv', '--without-pip', bare], { encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    const python = path.join(bare, 'bin/python');
    await editor.inside((vscode, file) => vscode.commands.executeCommand('test.setPython', file), python);
    await poll(
      async () => (await editor.debugInformation()).server?.command[0] === python,
      'the bare interpreter',
    );
    assert.equal((await editor.state('running')).server.source, 'bundled');
    await editor.inside(
      async (vscode, [file, text], { until }) => {
        const document = await vscode.workspace.openTextDocument(String(file));
        const shown = await vscode.window.showTextDocument(document);
        const all = new vscode.Range(0, 0, document.lineCount, 0);
        await shown.edit((edit) => edit.replace(all, String(text)));
        const findings = () => vscode.languages.getDiagnostics(document.uri);
        await until(() => findings().length === 1);
        /** @type {import('vscode').CodeAction[]} */
        const actions = await vscode.commands.executeCommand(
          'vscode.executeCodeActionProvider',
          document.uri,
          findings()[0]?.range,
          vscode.CodeActionKind.QuickFix.value,
          20,
        );
        const fix = actions.find(({ edit }) => edit !== undefined);
        if (fix?.edit === undefined) throw new Error(JSON.stringify(actions.map(({ title }) => title)));
        await vscode.workspace.applyEdit(fix.edit);
        await until(() => findings().length === 0);
        void vscode.commands.executeCommand('tapecheck.confirmFile', document.uri);
      },
      [editor.file('train.py'), TRAIN],
    );
    const toast = editor.toasts.filter({ hasText: 'has no torch' });
    await toast.getByRole('button', { name: 'Select Interpreter' }).waitFor({ timeout: 100_000 });
    await editor.screenshot('fake-6-no-torch');
  },
);

async function hover() {
  await editor.inside(async (vscode, file) => {
    const at = new vscode.Position(0, 2);
    await vscode.commands.executeCommand('vscode.executeHoverProvider', vscode.Uri.file(file), at);
  }, editor.file('train.py'));
}
