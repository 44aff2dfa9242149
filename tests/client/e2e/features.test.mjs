// The features of the real server as the extension host sees them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';
import { Editor, isAlive, poll, scenario } from './editor.mjs';
import {
  ENDLESS,
  ENDLESS_TREE,
  FIRST,
  MAYBE,
  NEEDS,
  NOTEBOOK,
  RANKS,
  SECOND,
  TRAIN,
  UNREACHED,
} from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();

/**
 * VS Code asks the first cell for what is done on save, and nobody where that is not Python.
 * @param {string} notebook
 */
const withoutTitle = (notebook) => {
  const { cells, ...more } = JSON.parse(notebook);
  return JSON.stringify({ ...more, cells: cells.slice(1) });
};

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: {
      'train.py': TRAIN,
      'unreached.py': UNREACHED,
      'endless.py': ENDLESS,
      'closed.py': TRAIN,
      'onsave.py': TRAIN,
      'train.ipynb': NOTEBOOK,
      'saved.ipynb': withoutTitle(NOTEBOOK),
      'disabled.ipynb': withoutTitle(NOTEBOOK),
      'ranks.py': RANKS,
      'maybe.py': MAYBE,
      'tree.py': ENDLESS_TREE,
      'needs.py': NEEDS,
      'library.py': 'class Net:\n    pass\n',
      'sub/kept.txt': '',
    },
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

/**
 * Opens a file with a text, and waits until its diagnostics satisfy a condition, given as source text.
 * @param {string} name
 * @param {string} text
 * @param {(list: any[]) => unknown} settled
 */
function diagnosticsOf(name, text, settled) {
  return editor.inside(
    async (vscode, [file, content, condition], { until }) => {
      const document = await vscode.workspace.openTextDocument(String(file));
      const shown = await vscode.window.showTextDocument(document);
      if (document.getText() !== content) {
        const all = new vscode.Range(0, 0, document.lineCount, 0);
        await shown.edit((edit) => edit.replace(all, String(content)));
      }
      const ok = new Function(`return (${condition})`)();
      await until(() => ok(vscode.languages.getDiagnostics(document.uri)));
      return vscode.languages.getDiagnostics(document.uri).map((diagnostic) => ({
        code: /** @type {any} */ (diagnostic.code)?.value ?? diagnostic.code,
        link: String(/** @type {any} */ (diagnostic.code)?.target ?? ''),
        message: diagnostic.message,
        severity: vscode.DiagnosticSeverity[diagnostic.severity],
        source: diagnostic.source,
        text: document.getText(diagnostic.range),
        line: diagnostic.range.start.line,
        related: diagnostic.relatedInformation?.map(({ message, location }) => ({
          message,
          line: location.range.start.line,
        })),
      }));
    },
    [editor.file(name), text, settled.toString()],
  );
}

scenario(
  () => editor,
  'the second backward is reported, once, with where the graph was built and freed',
  async () => {
    const list = await diagnosticsOf('train.py', TRAIN, (items) => items.length > 0);
    assert.equal(list.length, 1, JSON.stringify(list));
    const [finding] = list;
    assert.ok(finding);
    assert.equal(finding.code, 'TAPE101');
    assert.equal(finding.severity, 'Error');
    assert.equal(finding.source, 'tapecheck');
    assert.equal(finding.text, SECOND);
    assert.match(finding.link, /TAPE101|backward-twice/);
    const lines = finding.related?.map(({ line }) => line) ?? [];
    assert.ok(lines.includes(TRAIN.split('\n').findIndex((line) => line.includes('encoder(x)'))), 'built');
    assert.ok(lines.includes(TRAIN.split('\n').findIndex((line) => line.includes(FIRST))), 'freed');
  },
);

scenario(
  () => editor,
  'a hover on the backward explains it',
  async () => {
    const text = await editor.inside(
      async (vscode, [file, line]) => {
        const at = new vscode.Position(Number(line), 18);
        const uri = vscode.Uri.file(String(file));
        /** @type {import('vscode').Hover[]} */
        const hovers = await vscode.commands.executeCommand('vscode.executeHoverProvider', uri, at);
        return hovers
          .flatMap((hover) =>
            hover.contents.map((content) => (typeof content === 'string' ? content : content.value)),
          )
          .join('\n');
      },
      [editor.file('train.py'), TRAIN.split('\n').findIndex((line) => line.includes(SECOND))],
    );
    // Why it fails stands in the finding: the editor shows both, one above the other.
    assert.match(text, /`loss_rebuild\.backward\(\)`\*\* fails on iteration 1 \(TAPE101\)/);
  },
);

scenario(
  () => editor,
  'the preferred quick fix takes the finding away, and undo brings it back',
  async () => {
    const { title, kept, text } = await editor.inside(async (vscode, file, { until }) => {
      const uri = vscode.Uri.file(file);
      const document = await vscode.workspace.openTextDocument(uri);
      const [diagnostic] = vscode.languages.getDiagnostics(uri);
      if (diagnostic === undefined) throw new Error('no finding');
      /** @type {import('vscode').CodeAction[]} */
      const actions = await vscode.commands.executeCommand(
        'vscode.executeCodeActionProvider',
        uri,
        diagnostic.range,
        vscode.CodeActionKind.QuickFix.value,
        10,
      );
      const preferred = actions.filter((action) => action.isPreferred);
      if (preferred.length !== 1 || preferred[0]?.edit === undefined) {
        throw new Error(`not one preferred fix with an edit: ${JSON.stringify(actions)}`);
      }
      await vscode.workspace.applyEdit(preferred[0].edit);
      await until(() => vscode.languages.getDiagnostics(uri).length === 0);
      const fixed = document.getText();
      await vscode.commands.executeCommand('undo');
      await until(() => vscode.languages.getDiagnostics(uri).length === 1);
      return { title: preferred[0].title, kept: document.getText(), text: fixed };
    }, editor.file('train.py'));
    assert.ok(title.length > 0);
    assert.equal(kept, TRAIN);
    assert.notEqual(text, TRAIN);
    assert.equal(text.split('.backward()').length - 1, 1);
  },
);

scenario(
  () => editor,
  'fix all on save is offered as a source action',
  async () => {
    const text = await editor.inside(async (vscode, file) => {
      const document = await vscode.workspace.openTextDocument(file);
      /** @type {import('vscode').CodeAction[]} */
      const actions = await vscode.commands.executeCommand(
        'vscode.executeCodeActionProvider',
        document.uri,
        new vscode.Range(0, 0, document.lineCount, 0),
        'source.fixAll.tapecheck',
        10,
      );
      if (actions.length !== 1 || actions[0]?.edit === undefined) throw new Error(JSON.stringify(actions));
      await vscode.workspace.applyEdit(actions[0].edit);
      const fixed = document.getText();
      await vscode.commands.executeCommand('undo');
      return fixed;
    }, editor.file('train.py'));
    assert.equal(text.split('.backward()').length - 1, 1);
  },
);

scenario(
  () => editor,
  'a syntax error elsewhere does not wipe the finding',
  async () => {
    // The added first line moves the finding, which shows that it is one of the broken text.
    const broken = `# a comment\n${TRAIN}\ndef unfinished(\n`;
    const list = await diagnosticsOf('train.py', broken, (items) =>
      items.some((item) => item.code?.value === 'TAPE101' && item.range.start.line === 18),
    );
    assert.equal(list.filter((item) => item.code === 'TAPE101').length, 1, JSON.stringify(list));
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 1);
  },
);

scenario(
  () => editor,
  'settings change what is shown at once',
  async () => {
    await set('tapecheck.severity', { TAPE101: 'hint' });
    await diagnosticsOf('train.py', TRAIN, (items) => items[0]?.severity === 3);
    await set('tapecheck.severity', undefined);
    await set('tapecheck.ignore', ['TAPE1']);
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 0);
    await set('tapecheck.ignore', undefined);
    await diagnosticsOf('train.py', TRAIN, (items) => items[0]?.severity === 0);
  },
);

/**
 * @param {string} name
 * @param {unknown} value
 */
const set = (name, value) =>
  editor.inside(
    async (vscode, [key, to]) => {
      await vscode.workspace.getConfiguration().update(String(key), to, vscode.ConfigurationTarget.Workspace);
    },
    /** @type {[string, unknown]} */ ([name, value]),
  );

scenario(
  () => editor,
  'a rule is switched off for a line, in the file and in the workspace',
  async () => {
    const titles = await editor.inside(async (vscode, file, { until }) => {
      const uri = vscode.Uri.file(file);
      const findings = () => vscode.languages.getDiagnostics(uri);
      await until(() => findings().length === 1);
      const offered = async () => {
        /** @type {import('vscode').CodeAction[]} */
        const actions = await vscode.commands.executeCommand(
          'vscode.executeCodeActionProvider',
          uri,
          findings()[0]?.range,
          vscode.CodeActionKind.QuickFix.value,
          20,
        );
        return actions;
      };
      for (const where of ['for this line', 'in this file']) {
        const action = (await offered()).find(({ title }) => title.endsWith(where));
        if (action?.edit === undefined) throw new Error(`no edit ${where}`);
        await vscode.workspace.applyEdit(action.edit);
        await until(() => findings().length === 0);
        await vscode.commands.executeCommand('undo');
        await until(() => findings().length === 1);
      }
      const actions = await offered();
      const { command } = actions.find(({ title }) => title.endsWith('in the workspace')) ?? {};
      if (command === undefined) throw new Error('no command');
      // It ends once its message is closed.
      void vscode.commands.executeCommand(command.command, ...(command.arguments ?? []));
      await until(() => findings().length === 0);
      return actions.map(({ title }) => title);
    }, editor.file('train.py'));
    assert.deepEqual(titles.slice(-5), [
      'Confirm by running this file',
      'Explain TAPE101 (backward-twice)',
      'Disable TAPE101 for this line',
      'Disable TAPE101 in this file',
      'Disable TAPE101 in the workspace',
    ]);
    const toast = editor.toasts.filter({ hasText: 'TAPE101 is no longer reported in this workspace' });
    await toast.getByRole('button', { name: 'Undo' }).click();
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 1);
  },
);

scenario(
  () => editor,
  'inlay hints and highlights tell of the graph',
  async () => {
    await set('tapecheck.inlayHints.enable', true);
    const { hints, marked } = await editor.inside(
      async (vscode, [file, line], { until }) => {
        const uri = vscode.Uri.file(String(file));
        const all = new vscode.Range(0, 0, 30, 0);
        /** @type {() => Promise<import('vscode').InlayHint[]>} */
        const get = async () => vscode.commands.executeCommand('vscode.executeInlayHintProvider', uri, all);
        await until(async () => (await get()).length > 0);
        /** @type {import('vscode').DocumentHighlight[]} */
        const highlights = await vscode.commands.executeCommand(
          'vscode.executeDocumentHighlights',
          uri,
          new vscode.Position(Number(line), 18),
        );
        return {
          hints: (await get()).map(({ label, position }) => [position.line, label]),
          marked: highlights.map(({ range }) => range.start.line).sort((a, b) => a - b),
        };
      },
      [editor.file('train.py'), TRAIN.split('\n').findIndex((line) => line.includes(FIRST))],
    );
    assert.deepEqual(hints, [
      [16, 'graph freed'],
      [17, 'fails'],
    ]);
    assert.deepEqual(marked, [12, 13, 16]);
    await set('tapecheck.inlayHints.enable', undefined);
  },
);

scenario(
  () => editor,
  'a notebook is one program, and its fixes are made in its cells',
  async () => {
    const { found, fixed } = await editor.inside(async (vscode, file, { until }) => {
      const notebook = await vscode.workspace.openNotebookDocument(vscode.Uri.file(file));
      await vscode.window.showNotebookDocument(notebook);
      const cells = notebook.getCells().map(({ document }) => document);
      const findings = () => cells.flatMap(({ uri }) => vscode.languages.getDiagnostics(uri));
      await until(() => findings().length === 1);
      const at = cells.findIndex(({ uri }) => vscode.languages.getDiagnostics(uri).length > 0);
      const [finding] = findings();
      const document = cells[at];
      if (finding === undefined || document === undefined) throw new Error('no finding');
      /** @type {import('vscode').CodeAction[]} */
      const actions = await vscode.commands.executeCommand(
        'vscode.executeCodeActionProvider',
        document.uri,
        finding.range,
        vscode.CodeActionKind.QuickFix.value,
        20,
      );
      const preferred = actions.find(({ isPreferred }) => isPreferred);
      if (preferred?.edit === undefined) throw new Error(JSON.stringify(actions.map(({ title }) => title)));
      await vscode.workspace.applyEdit(preferred.edit);
      await until(() => findings().length === 0);
      return {
        found: {
          cell: at,
          text: document.getText(finding.range),
          message: finding.message,
          related: finding.relatedInformation?.map(({ location }) =>
            cells.findIndex(({ uri }) => uri.toString() === location.uri.toString()),
          ),
        },
        fixed: cells.map((cell) => cell.getText()),
      };
    }, editor.file('train.ipynb'));
    assert.equal(found.cell, 4);
    assert.equal(found.text, 'loss.backward()');
    assert.match(found.message, /^second backward through the graph of `loss`\n/);
    assert.deepEqual(found.related, [2, 3], 'built in the third cell, freed in the fourth');
    assert.match(fixed.join('\n'), /%matplotlib inline/);
    assert.match(fixed.join('\n'), /retain_graph=True|%time/);
    await editor.inside((vscode) =>
      vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor'),
    );
  },
);

scenario(
  () => editor,
  'saving a notebook makes its safe fixes, each once, where that is wanted',
  async () => {
    await set('notebook.codeActionsOnSave', { 'notebook.source.fixAll.tapecheck': 'explicit' });
    const text = await editor.inside(async (vscode, file, { until }) => {
      const notebook = await vscode.workspace.openNotebookDocument(vscode.Uri.file(file));
      await vscode.window.showNotebookDocument(notebook);
      const cells = notebook.getCells().map(({ document }) => document);
      await until(() => cells.some(({ uri }) => vscode.languages.getDiagnostics(uri).length > 0));
      await vscode.commands.executeCommand('notebook.cell.edit');
      const edit = new vscode.WorkspaceEdit();
      if (cells[1] === undefined) throw new Error('no cell');
      edit.insert(cells[1].uri, new vscode.Position(0, 0), '# edited\n');
      await vscode.workspace.applyEdit(edit);
      await until(() => notebook.isDirty);
      await vscode.commands.executeCommand('workbench.action.files.save');
      await until(() => !notebook.isDirty);
      await until(() => cells.every(({ uri }) => vscode.languages.getDiagnostics(uri).length === 0));
      return cells.map((cell) => cell.getText()).join('\n');
    }, editor.file('saved.ipynb'));
    assert.equal(text.split('retain_graph=True').length - 1, 1, text);
    await set('notebook.codeActionsOnSave', undefined);
  },
);

scenario(
  () => editor,
  'saving a file makes its safe fixes, where that is wanted',
  async () => {
    await set('editor.codeActionsOnSave', { 'source.fixAll.tapecheck': 'explicit' });
    await diagnosticsOf('onsave.py', `${TRAIN}\n`, (items) => items.length === 1);
    await editor.inside(async (vscode, file, { until }) => {
      const document = await vscode.workspace.openTextDocument(file);
      await vscode.window.showTextDocument(document);
      await until(() => document.isDirty);
      await vscode.commands.executeCommand('workbench.action.files.save');
      await until(() => !document.isDirty);
      await until(() => vscode.languages.getDiagnostics(document.uri).length === 0);
    }, editor.file('onsave.py'));
    const saved = fs.readFileSync(editor.file('onsave.py'), 'utf8');
    assert.equal(saved.split('.backward()').length - 1, 1, saved);
    await set('editor.codeActionsOnSave', undefined);
  },
);

scenario(
  () => editor,
  'files that are not open are reported on where that is wanted',
  async () => {
    await set('tapecheck.diagnosticMode', 'workspace');
    await editor.inside(
      (vscode, file, { until }) =>
        until(() => vscode.languages.getDiagnostics(vscode.Uri.file(file)).length === 1, 40_000),
      editor.file('closed.py'),
    );
    await set('tapecheck.diagnosticMode', undefined);
    await editor.inside(
      (vscode, file, { until }) =>
        until(() => vscode.languages.getDiagnostics(vscode.Uri.file(file)).length === 0, 40_000),
      editor.file('closed.py'),
    );
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 1);
  },
);

/** @param {string} name */
const confirm = (name) =>
  editor.inside(async (vscode, file) => {
    const uri = vscode.Uri.file(file);
    /** @type {import('vscode').CodeLens[]} */
    const lenses = await vscode.commands.executeCommand('vscode.executeCodeLensProvider', uri, 10);
    const lens = lenses.find(({ command }) => command?.command === 'tapecheck.confirmFile');
    if (lens?.command === undefined) throw new Error(`no lens: ${JSON.stringify(lenses)}`);
    const { command, title, arguments: given = [] } = lens.command;
    return {
      title,
      line: lens.range.start.line,
      result: await vscode.commands.executeCommand(command, ...given),
    };
  }, editor.file(name));

/**
 * Runs a file by the command, as its menu does.
 * @param {string} name
 */
const confirmFile = (name) =>
  editor.inside(async (vscode, file) => {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
    return { result: await vscode.commands.executeCommand('tapecheck.confirmFile', vscode.Uri.file(file)) };
  }, editor.file(name));

scenario(
  () => editor,
  'the lens on the training loop runs the file, and the finding is confirmed',
  async () => {
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 1);
    const { title, line, result } = await confirm('train.py');
    assert.match(title, /^Confirm by running/);
    assert.equal(
      line,
      TRAIN.split('\n').findIndex((text) => text.startsWith('for step')),
    );
    const { summary, ...counts } = /** @type {any} */ (result);
    const expected = { exit: 1, confirmed: 1, refuted: 0, notReached: 0, found: 0, backwards: 2 };
    assert.deepEqual(counts, expected, summary);
    const list = await diagnosticsOf('train.py', TRAIN, (items) => /confirmed/.test(items[0]?.message));
    assert.equal(list.length, 1, JSON.stringify(list));
    await editor.toasts.filter({ hasText: '1 confirmed' }).waitFor();
  },
);

scenario(
  () => editor,
  'a server that is started anew knows of the run',
  async () => {
    await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.restart'));
    const list = await diagnosticsOf('train.py', TRAIN, (items) => /confirmed/.test(items[0]?.message));
    assert.equal(list.length, 1, JSON.stringify(list));
  },
);

scenario(
  () => editor,
  'a finding whose line did not run is said to be not reached',
  async () => {
    const before = await diagnosticsOf('unreached.py', UNREACHED, (items) => items.length === 1);
    assert.equal(before[0]?.code, 'TAPE101');
    const { result } = await confirm('unreached.py');
    const { summary, ...counts } = /** @type {any} */ (result);
    const expected = { exit: 0, confirmed: 0, refuted: 0, notReached: 1, found: 0, backwards: 3 };
    assert.deepEqual(counts, expected, summary);
    await diagnosticsOf('unreached.py', UNREACHED, (items) => /not reached/.test(items[0]?.message));
    await poll(
      async () => editor.output().includes('trained 3 steps'),
      "the program's output in the channel",
    );
  },
);

scenario(
  () => editor,
  'a finding that a run has refuted becomes a hint, until the code is another one',
  async () => {
    const [before] = await diagnosticsOf('maybe.py', MAYBE, (items) => items.length === 1);
    assert.equal(before?.severity, 'Error');
    assert.match(String(before?.message), /^possible second backward through /);
    const { result } = await confirm('maybe.py');
    assert.equal(/** @type {any} */ (result).refuted, 1);
    const [refuted] = await diagnosticsOf('maybe.py', MAYBE, (items) => / — refuted/.test(items[0]?.message));
    assert.equal(refuted?.severity, 'Hint');
    assert.match(String(refuted?.message), / — refuted by the run at \d\d:\d\d\n[\s\S]*raised nothing/);
    // A comment changes nothing of what was run.
    const commented = MAYBE.replace('import torch', 'import torch  # the library');
    const [same] = await diagnosticsOf('maybe.py', commented, (items) => items.length === 1);
    assert.equal(same?.message, refuted?.message);
    const other = MAYBE.replace('range(3)', 'range(4)');
    const [stale] = await diagnosticsOf('maybe.py', other, (items) => /last edits/.test(items[0]?.message));
    assert.equal(stale?.severity, 'Error');
    assert.match(String(stale?.message), / — refuted by the run at \d\d:\d\d, before the last edits\n/);
    const lens = await editor.inside(async (vscode, file) => {
      /** @type {import('vscode').CodeLens[]} */
      const lenses = await vscode.commands.executeCommand(
        'vscode.executeCodeLensProvider',
        vscode.Uri.file(file),
        10,
      );
      return lenses.map(({ command }) => command?.title).join('\n');
    }, editor.file('maybe.py'));
    assert.match(lens, /^Confirm by running\nrun at \d\d:\d\d: 1 refuted \(before the last edits\)/);
    await editor.screenshot('stale-evidence');
    const [again] = await diagnosticsOf('maybe.py', MAYBE, (items) => items[0]?.severity === 3);
    assert.equal(again?.message, refuted?.message, 'undone, it holds again');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'an analysis that was cut short says so in its file and in the language status',
  async () => {
    const [note] = await diagnosticsOf('tree.py', ENDLESS_TREE, (items) => items.length === 1);
    assert.equal(note?.code, 'incomplete-analysis');
    assert.equal(note?.severity, 'Information');
    const { page } = editor;
    await page.locator('#status\\.languageStatus').hover();
    const status = page
      .locator('.hover-language-status')
      .filter({ hasText: 'Tapecheck: analysis incomplete' });
    await status.filter({ hasText: 'work limit reached' }).first().waitFor();
    await editor.screenshot('incomplete');
    // Its hover would cover the next message.
    await page.mouse.move(640, 600);
    await status.first().waitFor({ state: 'hidden' });
  },
);

scenario(
  () => editor,
  'a run that trains nothing says why, and offers what helps',
  async () => {
    const { result } = await confirmFile('needs.py');
    assert.equal(/** @type {any} */ (result).next, 'arguments');
    const toast = editor.toasts.filter({ hasText: 'the following arguments are required: --data' });
    await toast.getByRole('button', { name: 'Set Arguments…' }).click();
    const { page } = editor;
    await page.locator('.quick-input-widget input').first().fill('--data here');
    await editor.screenshot('set-arguments');
    await page.keyboard.press('Enter');
    await editor.toasts
      .filter({ hasText: 'needs.py: no problem seen in 3 iterations' })
      .waitFor({ timeout: 100_000 });
    await editor.clearToasts();
    const library = await confirmFile('library.py');
    assert.equal(/** @type {any} */ (library.result).next, 'program');
    const nothing = editor.toasts.filter({ hasText: 'library.py trains nothing when it is run' });
    await nothing.getByRole('button', { name: 'Choose Program…' }).waitFor();
    await editor.screenshot('trains-nothing');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'cancelling a run ends the program and what it has started',
  async () => {
    const running = editor.inside(
      (vscode, file) => vscode.commands.executeCommand('tapecheck.confirmFile', vscode.Uri.file(file)),
      editor.file('endless.py'),
    );
    const progress = editor.toasts.filter({ hasText: 'Tapecheck: running endless.py' });
    // The progress says how far it is and what it runs on.
    await progress
      .filter({ hasText: /iteration \d+, .* · Python 3\.\d+\.\d+, torch / })
      .waitFor({ timeout: 100_000 });
    await editor.screenshot('run-with-progress');
    const processes = fs.readFileSync(editor.file('processes.txt'), 'utf8').split(' ').map(Number);
    assert.equal(processes.length, 2);
    assert.deepEqual(processes.map(isAlive), [true, true]);
    await progress.getByRole('button', { name: 'Cancel' }).click();
    await running;
    await poll(async () => !processes.some(isAlive), 'the processes to end');
  },
);

const withTorchrun = fs.existsSync(path.join(path.dirname(tools.python), 'torchrun'));
if (!withTorchrun) console.log('skipped: a run in several processes needs torchrun beside the interpreter');
if (withTorchrun) {
  scenario(
    () => editor,
    'torchrun with arguments, a directory and an environment, chosen in the menu and remembered for the file',
    async () => {
      const { page } = editor;
      await diagnosticsOf('ranks.py', RANKS, (items) => items.length === 1);
      const menu = page.locator('.quick-input-widget');
      /** @param {string} label */
      const entry = (label) => menu.locator('.monaco-list-row', { hasText: label });
      await editor.inside((vscode) => {
        void vscode.commands.executeCommand('tapecheck.configureRun');
      });
      /** @type {[string, string][]} */
      const answers = [
        ['Launcher', 'torchrun --standalone --nproc-per-node 2'],
        ['Arguments', '--epochs 2'],
        ['Directory', 'sub'],
        ['Environment', 'SEED=7'],
      ];
      for (const [label, text] of answers) {
        await entry(label).click();
        await menu.locator('.monaco-list-row').first().waitFor({ state: 'hidden' });
        await menu.locator('input').first().fill(text);
        await page.keyboard.press('Enter');
        await entry(label).filter({ hasText: text }).waitFor();
        // What the menu says of the row under the mouse would cover the next one.
        await page.mouse.move(640, 780);
        await page.locator('.context-view:visible p').waitFor({ state: 'hidden' });
      }
      await editor.screenshot('run-with-torchrun-configured');
      await entry('Run now').click();
      await editor.toasts.filter({ hasText: 'ranks.py: 1 confirmed' }).waitFor({ timeout: 100_000 });
      const started = () =>
        [0, 1].map((rank) => JSON.parse(fs.readFileSync(editor.file(`sub/rank-${rank}.json`), 'utf8')));
      const expected = [['--epochs', '2'], 'sub', '7'];
      assert.deepEqual(started(), [expected, expected]);
      await diagnosticsOf('ranks.py', RANKS, (items) =>
        / — confirmed: [\s\S]*rank 1 of 2/.test(items[0]?.message),
      );
      await editor.screenshot('run-with-torchrun');
      await editor.clearToasts();
    },
  );

  scenario(
    () => editor,
    'what was chosen for the file holds for its lens, too',
    async () => {
      for (const rank of [0, 1]) fs.rmSync(editor.file(`sub/rank-${rank}.json`));
      const { result } = await confirm('ranks.py');
      assert.equal(/** @type {any} */ (result).confirmed, 1);
      assert.ok([0, 1].every((rank) => fs.existsSync(editor.file(`sub/rank-${rank}.json`))));
      await editor.clearToasts();
    },
  );
}

scenario(
  () => editor,
  'in a notebook a rule is switched off for a line, in the notebook and in the workspace, and all is fixed at once',
  async () => {
    const { disabled, fixed } = await editor.inside(async (vscode, file, { until }) => {
      const notebook = await vscode.workspace.openNotebookDocument(vscode.Uri.file(file));
      await vscode.window.showNotebookDocument(notebook, {
        selections: [new vscode.NotebookRange(3, 4)],
      });
      const cells = notebook.getCells().map(({ document }) => document);
      const findings = () => cells.flatMap(({ uri }) => vscode.languages.getDiagnostics(uri));
      await until(() => findings().length === 1, 60_000);
      const document = cells.find(({ uri }) => vscode.languages.getDiagnostics(uri).length > 0);
      if (document === undefined) throw new Error('no finding');
      const text = () => cells.map((cell) => cell.getText()).join('\n');
      const texts = cells.map((cell) => cell.getText());
      const before = text();
      /** @param {string} where */
      const offered = async (where) => {
        /** @type {import('vscode').CodeAction[]} */
        const actions = await vscode.commands.executeCommand(
          'vscode.executeCodeActionProvider',
          document.uri,
          findings()[0]?.range,
          vscode.CodeActionKind.QuickFix.value,
          20,
        );
        const action = actions.find(({ title }) => title.endsWith(where));
        if (action === undefined) throw new Error(JSON.stringify(actions.map(({ title }) => title)));
        return action;
      };
      /** @type {Record<string, string>} */
      const disabled = {};
      for (const where of ['for this line', 'in this notebook']) {
        const { edit } = await offered(where);
        if (edit === undefined) throw new Error(`no edit ${where}`);
        await vscode.workspace.applyEdit(edit);
        await until(() => findings().length === 0, 60_000);
        disabled[where] = text();
        // The disabled finding's own cell has no focus, which an undo would need.
        const back = new vscode.WorkspaceEdit();
        for (const [index, cell] of cells.entries()) {
          back.replace(cell.uri, new vscode.Range(0, 0, cell.lineCount, 0), texts[index] ?? '');
        }
        await vscode.workspace.applyEdit(back);
        await until(() => text() === before && findings().length === 1, 60_000);
      }
      const { command } = await offered('in the workspace');
      if (command === undefined) throw new Error('no command');
      void vscode.commands.executeCommand(command.command, ...(command.arguments ?? []));
      await until(() => findings().length === 0, 60_000);
      const settings = vscode.workspace.getConfiguration('tapecheck');
      await settings.update('ignore', undefined, vscode.ConfigurationTarget.Workspace);
      await until(() => findings().length === 1, 60_000);
      await vscode.commands.executeCommand('notebook.cell.edit');
      await until(() => vscode.window.activeTextEditor?.document.uri.scheme === 'vscode-notebook-cell');
      await vscode.commands.executeCommand('tapecheck.fixAll');
      await until(() => findings().length === 0, 60_000);
      return { disabled, fixed: text() };
    }, editor.file('disabled.ipynb'));
    assert.match(disabled['for this line'] ?? '', /loss\.backward\(\) +# tapecheck: ignore\[TAPE101\]/);
    assert.match(disabled['in this notebook'] ?? '', /tapecheck: ignore-file\[TAPE101\]/);
    assert.equal(fixed.split('retain_graph=True').length - 1, 1, fixed);
    await editor.screenshot('notebook-fixed-all');
    await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.fixAll'));
    await editor.toasts.filter({ hasText: 'disabled.ipynb has no findings' }).waitFor();
  },
);
