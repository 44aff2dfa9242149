// The features of the real server as the extension host sees them.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { FIRST, SECOND, TRAIN, UNREACHED } from './programs.mjs';
import { findTools } from './tools.mjs';

const found = findTools();
if ('missing' in found) throw new Error(found.missing.join('; '));
const { tools } = found;

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: [String(process.env.VSIX), path.join(String(process.env.E2E_BUILT), 'driver.vsix')],
    files: { 'train.py': TRAIN, 'unreached.py': UNREACHED },
    settings: { 'tapecheck.interpreter': [tools.python] },
  });
});
after(() => editor?.close());

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
    assert.match(text, /freed|graph/);
    assert.match(text, /17|13/, text);
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
    const set = (/** @type {string} */ name, /** @type {unknown} */ value) =>
      editor.inside(
        async (vscode, [key, to]) => {
          await vscode.workspace
            .getConfiguration()
            .update(String(key), to, vscode.ConfigurationTarget.Workspace);
        },
        /** @type {[string, unknown]} */ ([name, value]),
      );
    await set('tapecheck.severity', { TAPE101: 'hint' });
    await diagnosticsOf('train.py', TRAIN, (items) => items[0]?.severity === 3);
    await set('tapecheck.severity', undefined);
    await set('tapecheck.ignore', ['TAPE1']);
    await diagnosticsOf('train.py', TRAIN, (items) => items.length === 0);
    await set('tapecheck.ignore', undefined);
    await diagnosticsOf('train.py', TRAIN, (items) => items[0]?.severity === 0);
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
    assert.deepEqual(counts, { exit: 1, confirmed: 1, refuted: 0, notReached: 0, found: 0 }, summary);
    const list = await diagnosticsOf('train.py', TRAIN, (items) => /confirmed/.test(items[0]?.message));
    assert.equal(list.length, 1, JSON.stringify(list));
    await editor.toasts.filter({ hasText: '1 confirmed' }).waitFor();
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
    assert.deepEqual(counts, { exit: 0, confirmed: 0, refuted: 0, notReached: 1, found: 0 }, summary);
    await diagnosticsOf('unreached.py', UNREACHED, (items) => /not reached/.test(items[0]?.message));
    await poll(
      async () => editor.output().includes('trained 3 steps'),
      "the program's output in the channel",
    );
  },
);
