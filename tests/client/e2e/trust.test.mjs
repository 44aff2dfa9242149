// In a workspace that is not trusted nothing of it runs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';
import { Editor, scenario } from './editor.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();
const built = String(process.env.E2E_BUILT);

/** @type {Editor} */
let editor;
/** @type {string} */
let trap;

before(async () => {
  trap = fs.mkdtempSync(path.join(built, 'trap-'));
  const sprung = (/** @type {string} */ name) => `touch '${path.join(trap, name)}'`;
  editor = await Editor.open({
    tools,
    trusted: false,
    extensions: EXTENSIONS,
    files: {
      'train.py': `import pathlib\npathlib.Path(${JSON.stringify(path.join(trap, 'script'))}).touch()\n`,
      '.venv/bin/python': `#!/bin/sh\n${sprung('venv')}\n`,
      'evil.sh': `#!/bin/sh\n${sprung('setting')}\n`,
      'tapecheck.py': `import pathlib\npathlib.Path(${JSON.stringify(path.join(trap, 'module'))}).touch()\n`,
      '.vscode/settings.json': JSON.stringify({
        'tapecheck.interpreter': ['${workspaceFolder}/evil.sh'],
        'tapecheck.path': ['${workspaceFolder}/evil.sh'],
        'tapecheck.importStrategy': 'fromEnvironment',
      }),
    },
    settings: {
      'security.workspace.trust.startupPrompt': 'never',
      'security.workspace.trust.banner': 'never',
    },
    env: { PATH: `${path.dirname(tools.python)}:${process.env.PATH}` },
  });
  for (const name of ['.venv/bin/python', 'evil.sh']) fs.chmodSync(editor.file(name), 0o755);
});
after(async () => {
  await editor?.close();
  fs.rmSync(trap, { recursive: true, force: true });
});

scenario(
  () => editor,
  'the file is analysed, with nothing of the workspace started, and is not run',
  async () => {
    await editor.inside(async (vscode, file) => {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
    }, editor.file('train.py'));
    const information = await editor.state('running');
    assert.equal(information.trusted, false);
    assert.equal(information.server.source, 'bundled');
    assert.ok(
      !information.server.command.some((/** @type {string} */ part) => part.includes(editor.workspace)),
    );
    assert.deepEqual(information.settings.path, []);

    await editor.inside((vscode, file) => {
      void vscode.commands.executeCommand('tapecheck.confirmFile', { uri: vscode.Uri.file(file).toString() });
    }, editor.file('train.py'));
    const refusal = editor.page
      .locator('.notification-toast')
      .filter({ hasText: 'needs a trusted workspace' });
    await refusal.waitFor();
    assert.equal(await refusal.getByRole('button', { name: 'Manage Workspace Trust' }).count(), 1);
    await editor.screenshot('trust-refused');
    assert.deepEqual(fs.readdirSync(trap), []);
  },
);
