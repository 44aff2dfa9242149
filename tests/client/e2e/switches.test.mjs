// Every switch of what is shown: off, it is gone; on, it is back; without another server, and for one folder alone.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    folders: ['one', 'two'],
    files: { 'one/train.py': TRAIN, 'two/train.py': TRAIN },
    settings: { 'tapecheck.interpreter': [tools.python] },
  });
});
after(async () => {
  // A warning has a message that says what to do; an error is ours.
  const errors =
    editor
      ?.output()
      .split('\n')
      .filter((line) => line.includes('[error]')) ?? [];
  await editor?.close();
  assert.deepEqual(errors, [], 'errors in the output');
});

const LOOP = '10: Confirm by running';
const BACKWARDS = ['18: fails in iteration 1'];
/** Where no lens above the loop offers the run. */
const OFFERING = ['18: fails in iteration 1 · Confirm by running'];
const HINTS = ['17: graph freed', '18: fails'];

/**
 * What is drawn in a folder's file: lenses, hints behind calls, findings, highlights on its second backward.
 * @param {string} folder
 */
const drawn = (folder) =>
  editor.inside(
    async (vscode, file) => {
      const document = await vscode.workspace.openTextDocument(file);
      await vscode.window.showTextDocument(document);
      const all = new vscode.Range(0, 0, document.lineCount, 0);
      /** @type {import('vscode').CodeLens[]} */
      const lenses = await vscode.commands.executeCommand('vscode.executeCodeLensProvider', document.uri, 50);
      /** @type {import('vscode').InlayHint[]} */
      const hints = await vscode.commands.executeCommand(
        'vscode.executeInlayHintProvider',
        document.uri,
        all,
      );
      const at = new vscode.Position(17, 20);
      /** @type {import('vscode').DocumentHighlight[] | undefined} */
      const marked = await vscode.commands.executeCommand(
        'vscode.executeDocumentHighlights',
        document.uri,
        at,
      );
      return {
        lenses: lenses.map(({ range, command }) => `${range.start.line + 1}: ${command?.title}`).sort(),
        hints: hints.map(({ position, label }) => `${position.line + 1}: ${label}`).sort(),
        findings: vscode.languages
          .getDiagnostics(document.uri)
          .map(({ code, severity }) => `${/** @type {any} */ (code)?.value ?? code} ${severity}`),
        marked: [...new Set((marked ?? []).map(({ range }) => range.start.line + 1))].sort((a, b) => a - b),
      };
    },
    editor.file(`${folder}/train.py`),
  );

/**
 * @param {string} folder
 * @param {Partial<Awaited<ReturnType<typeof drawn>>>} expected
 */
const settles = async (folder, expected) => {
  /** @type {any} */
  let seen;
  try {
    await poll(
      async () => {
        seen = await drawn(folder);
        return Object.entries(expected).every(
          ([key, value]) => JSON.stringify(seen[key]) === JSON.stringify(value),
        );
      },
      `${folder} to show ${JSON.stringify(expected)}`,
      60_000,
    );
  } catch (error) {
    throw new Error(`${error}; shown: ${JSON.stringify(seen)}`);
  }
};

/**
 * @param {string} name
 * @param {unknown} value
 */
const setForOne = (name, value) =>
  editor.inside(
    async (vscode, [file, key, to]) => {
      const configuration = vscode.workspace.getConfiguration('tapecheck', vscode.Uri.file(String(file)));
      await configuration.update(String(key), to, vscode.ConfigurationTarget.WorkspaceFolder);
    },
    /** @type {[string, string, unknown]} */ ([editor.file('one/train.py'), name, value]),
  );

const EVERYTHING = {
  lenses: [LOOP, ...BACKWARDS],
  hints: /** @type {string[]} */ ([]),
  findings: ['TAPE101 0'],
  marked: [13, 15, 18],
};

/** @type {[string, unknown, Partial<typeof EVERYTHING>][]} */
const SWITCHES = [
  ['lens.enable', false, { lenses: [] }],
  ['lens.loops', false, { lenses: OFFERING }],
  ['lens.backwards', false, { lenses: [LOOP] }],
  ['inlayHints.enable', true, { hints: HINTS }],
  ['severity', { 'backward-twice': 'hint' }, { findings: ['TAPE101 3'] }],
  // What is switched off is not told by a lens either.
  ['select', ['TAPE3'], { findings: [], lenses: [] }],
  ['ignore', ['TAPE101'], { findings: [], lenses: [] }],
  // What the editor marks by itself are the places of the same word.
  ['enable', false, { lenses: [], findings: [], hints: [], marked: [17, 18] }],
];

for (const [name, value, expected] of SWITCHES) {
  scenario(
    () => editor,
    `tapecheck.${name} takes effect at once, in its folder alone, and so does taking it back`,
    async () => {
      const { server } = await editor.state('running');
      const starts = editor.output().split('interpreter ').length;
      await settles('two', EVERYTHING);
      await settles('one', EVERYTHING);
      try {
        await setForOne(name, value);
        await settles('one', { ...EVERYTHING, ...expected });
        await settles('two', EVERYTHING);
      } finally {
        // One switch that fails does not fail those after it.
        await setForOne(name, undefined);
      }
      await settles('one', EVERYTHING);
      assert.equal(editor.output().split('interpreter ').length, starts, 'no other server was started');
      assert.deepEqual((await editor.state('running')).server.command, server.command);
    },
  );
}

scenario(
  () => editor,
  'what is drawn on the screen follows a switch too',
  async () => {
    const lenses = editor.page.locator('.codelens-decoration a');
    const hints = editor.page.locator('.view-line', { hasText: 'graph freed' });
    await settles('one', EVERYTHING);
    await lenses.first().waitFor();
    await poll(async () => (await lenses.count()) === 2, 'two lenses');
    await setForOne('lens.backwards', false);
    await poll(async () => (await lenses.count()) === 1, 'one lens');
    await setForOne('inlayHints.enable', true);
    await hints.first().waitFor();
    await editor.screenshot('switches-hints');
    await setForOne('inlayHints.enable', undefined);
    await setForOne('lens.backwards', undefined);
    await poll(async () => (await lenses.count()) === 2, 'two lenses again');
    await hints.first().waitFor({ state: 'detached' });
  },
);

scenario(
  () => editor,
  'a value that cannot be is told once, and the default holds',
  async () => {
    await editor.clearToasts();
    await setForOne('select', 'TAPE3');
    const told = editor.toasts.filter({ hasText: 'tapecheck.select must be a list of strings, not "TAPE3"' });
    await told.waitFor();
    await settles('one', EVERYTHING);
    await editor.screenshot('switches-wrong-value');
    await setForOne('lens.loops', false);
    await settles('one', { lenses: OFFERING });
    await setForOne('lens.loops', undefined);
    await settles('one', EVERYTHING);
    assert.equal(await editor.toasts.count(), 1, 'not told again with the next change');
    await told.getByRole('button', { name: 'Open Settings' }).click();
    await editor.page.locator('.settings-editor').waitFor();
    await setForOne('select', undefined);
    await editor.clearToasts();
  },
);
