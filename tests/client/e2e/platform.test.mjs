// The package for one platform, in a Python that has no packages at all: `npm run test:e2e -- platform`.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';
import { Editor, scenario } from './editor.mjs';
import { TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();
const built = String(process.env.E2E_BUILT);
const bare = fs.mkdtempSync(path.join(built, 'bare-'));

/** @type {Editor} */
let editor;
before(async () => {
  const made = spawnSync(tools.python, ['-m', 'venv', '--without-pip', bare], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: { 'train.py': TRAIN },
    settings: { 'tapecheck.interpreter': [path.join(bare, 'bin/python')] },
  });
});
after(async () => {
  await editor?.close();
  fs.rmSync(bare, { recursive: true, force: true });
});

scenario(
  () => editor,
  'brings along what quick fixes need',
  async () => {
    const information = await editor.state('running');
    assert.equal(information.server.source, 'bundled');
    assert.equal(information.server.libcst, true);
    const titles = await editor.inside(async (vscode, file, { until }) => {
      const document = await vscode.workspace.openTextDocument(file);
      await vscode.window.showTextDocument(document);
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
      const preferred = actions.find(({ isPreferred }) => isPreferred);
      if (preferred?.edit === undefined) throw new Error(JSON.stringify(actions.map(({ title }) => title)));
      await vscode.workspace.applyEdit(preferred.edit);
      await until(() => findings().length === 0);
      return actions.map(({ title }) => title);
    }, editor.file('train.py'));
    assert.ok(!titles.some((title) => title.includes('libcst')), titles.join('\n'));
    assert.equal(await editor.toasts.filter({ hasText: 'libcst' }).count(), 0);
  },
);
