// What goes wrong around an editor: servers killed in the middle of a run, files of every kind, two windows.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before } from 'node:test';
import { Editor, isAlive, poll, scenario } from './editor.mjs';
import { ENDLESS, TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();

const FUNCTIONS = Array.from({ length: 4000 }, (_, index) =>
  [`def helper_${index}(x):`, '    y = x + 1', '    y = y * 2', '    return y', ''].join('\n'),
);
/** 20,000 lines, with the finding in the last ones. */
const LONG = `${FUNCTIONS.join('\n')}\n${TRAIN}`;

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: {
      'train.py': TRAIN,
      'endless.py': ENDLESS,
      'long.py': LONG,
      'moved.py': TRAIN,
      'gone.py': TRAIN,
      'latin.py': TRAIN,
    },
    settings: { 'tapecheck.interpreter': [tools.python] },
  });
  // A letter that is no UTF-8, and no line that says what it is.
  fs.writeFileSync(editor.file('latin.py'), Buffer.from(`# caf\xe9\n${TRAIN}`, 'latin1'));
});
after(() => editor?.close());

/**
 * Opens a file of the workspace and waits for so many findings in it.
 * @param {string} name
 * @param {number} count
 */
const findings = (name, count) =>
  editor.inside(
    async (vscode, [file, wanted], { until }) => {
      const uri = vscode.Uri.file(String(file));
      // A document that an extension opens stays open for minutes after its tab.
      await vscode.commands.executeCommand('vscode.open', uri);
      await until(() => vscode.languages.getDiagnostics(uri).length === wanted, 90_000);
      return vscode.languages.getDiagnostics(uri).map(({ range }) => range.start.line);
    },
    /** @type {[string, number]} */ ([editor.file(name), count]),
  );

/** The processes of this editor's server. */
const servers = () =>
  fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const words = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return words.includes('serve') && words.some((word) => word.startsWith(editor.root));
      } catch {
        return false;
      }
    });

scenario(
  () => editor,
  'a server that is killed in the middle of a run takes the run with it, says so, and is started again',
  async () => {
    await findings('train.py', 1);
    const [server, ...others] = servers();
    assert.ok(server !== undefined && others.length === 0, `one server: ${server} ${others}`);
    const running = editor.inside(
      (vscode, file) => vscode.commands.executeCommand('tapecheck.confirmFile', vscode.Uri.file(file)),
      editor.file('endless.py'),
    );
    await poll(async () => fs.existsSync(editor.file('processes.txt')), 'the program to start', 60_000);
    await poll(
      async () => /\d+ \d+/.test(fs.readFileSync(editor.file('processes.txt'), 'utf8')),
      'the program to say who it is',
    );
    const processes = fs.readFileSync(editor.file('processes.txt'), 'utf8').split(' ').map(Number);
    assert.deepEqual(processes.map(isAlive), [true, true]);
    process.kill(server, 'SIGKILL');
    assert.equal(await running, null);
    await editor.toasts
      .filter({ hasText: /running endless\.py/ })
      .first()
      .waitFor();
    await editor.screenshot('robust-killed');
    await poll(async () => !processes.some(isAlive), 'the program and what it started to end', 60_000);
    await poll(async () => servers().length === 1 && servers()[0] !== server, 'another server');
    await editor.state('running');
    await findings('train.py', 1);
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'a file of 20,000 lines is analysed, and typing in it is not held up',
  async () => {
    assert.ok(LONG.split('\n').length > 20_000);
    const [line] = await findings('long.py', 1);
    assert.equal(LONG.split('\n')[Number(line)], '    loss_rebuild.backward()');
    await editor.inside(async (vscode, last, { until }) => {
      const shown = vscode.window.activeTextEditor;
      if (shown === undefined) throw new Error('no editor');
      const { document } = shown;
      for (let key = 0; key < 20; key++) {
        await shown.edit((edit) => edit.insert(new vscode.Position(0, 0), '#'));
      }
      await shown.edit((edit) => edit.insert(new vscode.Position(0, 20), '\n'));
      const moved = () => vscode.languages.getDiagnostics(document.uri)[0]?.range.start.line;
      await until(() => moved() === last + 1, 90_000);
      await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
    }, Number(line));
  },
);

scenario(
  () => editor,
  'a file that is not UTF-8 is analysed as the editor shows it, and why it cannot be run is said',
  async () => {
    assert.deepEqual(await findings('latin.py', 1), [18]);
    await editor.inside(
      (vscode, file) => vscode.commands.executeCommand('tapecheck.confirmFile', vscode.Uri.file(file)),
      editor.file('latin.py'),
    );
    await editor.toasts
      .filter({ hasText: /latin\.py: not a text that Python can read/ })
      .first()
      .waitFor();
    await editor.screenshot('robust-not-utf8');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'the findings of a file move with it when it is renamed, and go when it is deleted',
  async () => {
    await findings('moved.py', 1);
    await editor.inside(
      async (vscode, [from, to], { until }) => {
        const edit = new vscode.WorkspaceEdit();
        edit.renameFile(vscode.Uri.file(String(from)), vscode.Uri.file(String(to)));
        await vscode.workspace.applyEdit(edit);
        const count = (/** @type {string | undefined} */ file) =>
          vscode.languages.getDiagnostics(vscode.Uri.file(String(file))).length;
        try {
          await until(() => count(to) === 1 && count(from) === 0, 40_000);
        } catch {
          throw new Error(`${count(from)} before, ${count(to)} now`);
        }
      },
      [editor.file('moved.py'), editor.file('renamed.py')],
    );
    await findings('gone.py', 1);
    fs.rmSync(editor.file('gone.py'));
    const answer = await editor.inside(
      (vscode, file) => vscode.commands.executeCommand('tapecheck.confirmFile', vscode.Uri.file(file)),
      editor.file('gone.py'),
    );
    assert.equal(/** @type {any} */ (answer)?.exit, 2);
    await editor.toasts.filter({ hasText: 'gone.py' }).first().waitFor();
    await editor.screenshot('robust-deleted');
    await editor.clearToasts();
    await editor.inside(async (vscode, file, { until }) => {
      await vscode.commands.executeCommand('workbench.action.closeActiveEditor');
      await until(() => vscode.languages.getDiagnostics(vscode.Uri.file(file)).length === 0, 60_000);
    }, editor.file('gone.py'));
    await findings('train.py', 1);
  },
);

scenario(
  () => editor,
  'the older side of a comparison is not analysed, an untitled document is',
  async () => {
    const seen = await editor.inside(
      async (vscode, [file, text], { until }) => {
        const uri = vscode.Uri.file(String(file));
        const older = uri.with({ scheme: 'git', query: '{"ref":"HEAD"}' });
        const provided = vscode.workspace.registerTextDocumentContentProvider('git', {
          provideTextDocumentContent: () => `# older\n${text}`,
        });
        await vscode.commands.executeCommand('vscode.diff', older, uri, 'train.py (Working Tree)');
        await until(() => vscode.workspace.textDocuments.some((document) => document.uri.scheme === 'git'));
        const language = vscode.workspace.textDocuments.find(({ uri: { scheme } }) => scheme === 'git');
        const untitled = await vscode.workspace.openTextDocument({
          language: 'python',
          content: String(text),
        });
        await vscode.window.showTextDocument(untitled);
        await until(() => vscode.languages.getDiagnostics(untitled.uri).length === 1, 60_000);
        const schemes = vscode.languages
          .getDiagnostics()
          .filter(([, list]) => list.some(({ source }) => source === 'tapecheck'))
          .map(([{ scheme }]) => scheme);
        await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
        await vscode.commands.executeCommand('workbench.action.closeActiveEditor');
        provided.dispose();
        return { language: language?.languageId, schemes: [...new Set(schemes)].sort() };
      },
      [editor.file('train.py'), TRAIN],
    );
    assert.deepEqual(seen, { language: 'python', schemes: ['file', 'untitled'] });
  },
);

scenario(
  () => editor,
  'two windows on one folder each have their findings',
  async () => {
    const second = await editor.page.context().newPage();
    await second.goto(editor.page.url());
    await second.locator('.explorer-folders-view .monaco-list-row').first().waitFor({ timeout: 100_000 });
    await second
      .locator('.explorer-folders-view .monaco-list-row', { hasText: 'train.py' })
      .first()
      .dblclick();
    await second.locator('.monaco-editor .squiggly-error').first().waitFor({ timeout: 90_000 });
    assert.equal(servers().length, 2);
    await findings('train.py', 1);
    await second.close();
    await editor.page.bringToFront();
    await findings('renamed.py', 1);
  },
);
