// A workspace of two folders, each with settings, a pyproject.toml and an interpreter of its own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();
const NEEDLESS = TRAIN.replace('    loss_rebuild.backward()\n', '').replace(
  'loss_class.backward()',
  'loss_class.backward(retain_graph=True)',
);

/** @type {Editor} */
let editor;
before(async () => {
  const wrapper = `#!/bin/sh\nexec '${tools.python}' "$@"\n`;
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    folders: ['one', 'two'],
    files: {
      'one/train.py': TRAIN,
      'one/needless.py': NEEDLESS,
      'one/python-of-one': wrapper,
      'one/.vscode/settings.json': JSON.stringify({
        'tapecheck.interpreter': ['${workspaceFolder}/python-of-one'],
        'tapecheck.severity': { TAPE101: 'info' },
      }),
      'one/pyproject.toml': '[tool.tapecheck]\nignore = ["TAPE301"]\n',
      'two/train.py': TRAIN,
      'two/needless.py': NEEDLESS,
      'two/.venv/bin/python': wrapper,
    },
    env: { PATH: `${path.dirname(tools.python)}:${process.env.PATH}` },
  });
  for (const name of ['one/python-of-one', 'two/.venv/bin/python']) fs.chmodSync(editor.file(name), 0o755);
});
after(() => editor?.close());

/**
 * Waits until the findings of a file are those expected, by code and severity.
 * @param {string} name
 * @param {string[]} expected
 */
const findings = (name, expected) =>
  editor.inside(
    async (vscode, [file, wanted], { until }) => {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
      const shown = () =>
        vscode.languages
          .getDiagnostics(vscode.Uri.file(file))
          .map(({ code, severity }) => `${/** @type {any} */ (code)?.value ?? code} ${severity}`);
      await until(() => JSON.stringify(shown()) === JSON.stringify(wanted));
    },
    /** @type {[string, string[]]} */ ([editor.file(name), expected]),
  );

scenario(
  () => editor,
  'each folder has its own settings and its own pyproject.toml',
  async () => {
    await editor.state('running');
    await findings('one/train.py', ['TAPE101 2']);
    await findings('two/train.py', ['TAPE101 0']);
    await findings('one/needless.py', []);
    await findings('two/needless.py', ['TAPE301 2']);
  },
);

scenario(
  () => editor,
  'a changed setting of one folder changes that folder alone, without another server',
  async () => {
    const { command } = (await editor.state('running')).server;
    const processes = () => editor.output().split('interpreter ').length;
    const started = processes();
    await editor.inside(async (vscode, file) => {
      const configuration = vscode.workspace.getConfiguration('tapecheck', vscode.Uri.file(file));
      await configuration.update('ignore', ['TAPE1'], vscode.ConfigurationTarget.WorkspaceFolder);
    }, editor.file('two/train.py'));
    await findings('two/train.py', []);
    await findings('one/train.py', ['TAPE101 2']);
    await editor.inside(async (vscode, file) => {
      const configuration = vscode.workspace.getConfiguration('tapecheck', vscode.Uri.file(file));
      await configuration.update('ignore', undefined, vscode.ConfigurationTarget.WorkspaceFolder);
    }, editor.file('two/train.py'));
    await findings('two/train.py', ['TAPE101 0']);
    fs.writeFileSync(editor.file('two/pyproject.toml'), '[tool.tapecheck]\nignore = ["TAPE101"]\n');
    await findings('two/train.py', []);
    fs.rmSync(editor.file('two/pyproject.toml'));
    await findings('two/train.py', ['TAPE101 0']);
    assert.equal(processes(), started);
    assert.deepEqual((await editor.state('running')).server.command, command);
  },
);

scenario(
  () => editor,
  'a recorded run has the interpreter of its folder',
  async () => {
    const information = await editor.state('running');
    const interpreters = information.folders.map((/** @type {any} */ one) => one.runInterpreter);
    assert.deepEqual(interpreters, [
      [editor.file('one/python-of-one')],
      [editor.file('two/.venv/bin/python')],
    ]);
    for (const [name, python] of [
      ['one/train.py', 'one/python-of-one'],
      ['two/train.py', 'two/.venv/bin/python'],
    ]) {
      const file = editor.file(String(name));
      const result = await editor.inside(
        async (vscode, uri) => vscode.commands.executeCommand('tapecheck.confirmFile', { uri }),
        `file://${file}`,
      );
      assert.equal(/** @type {any} */ (result)?.confirmed, 1);
      const said = `running ${editor.file(String(python))} ${file} in ${path.dirname(file)}`;
      await poll(async () => editor.output().includes(said), said);
    }
    await poll(
      async () => /train\.py is run by Python 3\.\d+\.\d+, torch /.test(editor.output()),
      'the device',
    );
  },
);

scenario(
  () => editor,
  'a rule is disabled in the folder of its file, and the message names that',
  async () => {
    const uri = `file://${editor.file('two/train.py')}`;
    void editor.inside(
      (vscode, target) =>
        void vscode.commands.executeCommand('tapecheck.disableRule', { code: 'TAPE999', uri: target }),
      uri,
    );
    await editor.toasts.filter({ hasText: 'TAPE999 is no longer reported in the folder two' }).waitFor();
  },
);
