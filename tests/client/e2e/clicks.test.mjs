// The same as a person does it: by mouse and keyboard, with screenshots of what is seen.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { NOTEBOOK, SECOND, TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: { 'train.py': TRAIN, 'train.ipynb': NOTEBOOK },
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

// What the README and the walkthrough show: the editor without its frame.
const PART = { x: 352, y: 92, width: 928, height: 440 };

const squiggles = () => editor.page.locator('.monaco-editor .squiggly-error');
/** @param {string} text */
const line = (text) => editor.page.locator('.monaco-editor .view-line').filter({ hasText: text });
const backward = () => line(SECOND).locator('span span').filter({ hasText: 'backward' }).first();

scenario(
  () => editor,
  'opening the file shows the squiggle, and the Problems panel the story',
  async () => {
    const { page } = editor;
    await page.keyboard.press('Control+P');
    await page.locator('.quick-input-widget input').first().waitFor({ state: 'visible' });
    await page.keyboard.type('train.py');
    await page
      .locator('.quick-input-list .monaco-list-row')
      .filter({ hasText: 'train.py' })
      .first()
      .waitFor();
    await page.keyboard.press('Enter');
    await squiggles().first().waitFor();
    assert.equal(await squiggles().count(), 1);
    await line('for step in range').first().waitFor();
    await editor.screenshot('1-squiggle');

    await page.keyboard.press('Control+Shift+M');
    const problem = page.locator('.markers-panel .monaco-list-row').filter({ hasText: 'TAPE101' });
    await problem.first().waitFor();
    assert.equal(await problem.count(), 1);
    await editor.screenshot('2-problems');
    await page.keyboard.press('Control+J');
  },
);

scenario(
  () => editor,
  'the language status says which server runs',
  async () => {
    const { page } = editor;
    await page.locator('#status\\.languageStatus').hover();
    const status = page.locator('.hover-language-status').filter({ hasText: 'Tapecheck' });
    await status
      .filter({ hasText: /bundled · Python 3\.\d+\.\d+, torch \S+ · \/\S+/ })
      .first()
      .waitFor();
    await editor.screenshot('2-status');
    await status.getByText('Menu', { exact: true }).first().click();
    const entries = page.locator('.quick-input-widget .monaco-list-row');
    await entries
      .filter({ hasText: 'Interpreter' })
      .filter({ hasText: /torch \d/ })
      .waitFor();
    for (const label of ['Restart Server', 'Show Output', 'Show Report of the Last Run']) {
      assert.equal(await entries.filter({ hasText: label }).count(), 1, label);
    }
    await editor.screenshot('2-menu');
    await page.keyboard.press('Escape');
  },
);

scenario(
  () => editor,
  'a hover on the backward call tells where the graph was freed',
  async () => {
    const { page } = editor;
    await backward().hover();
    const hover = page.locator('.monaco-hover:visible');
    await hover.filter({ hasText: 'freed' }).first().waitFor();
    assert.ok((await hover.locator('a', { hasText: 'TAPE101' }).count()) > 0, 'the code is a link');
    await editor.screenshot('3-hover');
    await editor.screenshot('marketplace-finding', PART);
    await page.keyboard.press('Escape');
  },
);

scenario(
  () => editor,
  'the lens runs the file with progress, and the finding comes back confirmed',
  async () => {
    const { page } = editor;
    const lens = page.locator('.codelens-decoration a', { hasText: 'Confirm by running' });
    const said = await editor.watchToasts();
    await lens.first().click();
    await poll(async () => (await said()).includes('Tapecheck: running train.py'), 'the progress of the run');
    await editor.screenshot('4-progress');
    const done = editor.toasts.filter({ hasText: '1 confirmed' });
    await done.waitFor({ timeout: 100_000 });
    assert.equal(await done.getByRole('button', { name: 'Show Output' }).count(), 1);
    await editor.screenshot('5-confirmed');
    await page.locator('.codelens-decoration a', { hasText: 'run at' }).first().click();
    const frame = page.frameLocator('iframe.webview.ready').frameLocator('#active-frame');
    await frame.locator('.card').first().waitFor();
    await done.waitFor({ state: 'hidden' });
    await page.locator('.tab', { hasText: 'Run of train.py' }).first().click();
    await page.keyboard.press('Control+W');
    await page.locator('#status\\.notifications').click();
    const message = page
      .locator('.notifications-center .notification-list-item')
      .filter({ hasText: '1 confirmed' });
    await message.getByRole('button', { name: 'Show Report' }).click();
    const card = frame.locator('.card').filter({ hasText: 'TAPE101' });
    await card.filter({ hasText: 'confirmed' }).first().waitFor();
    const { y = -1 } = (await card.first().boundingBox()) ?? {};
    assert.ok(y > 0 && y < 800, `the finding is what is seen first, not ${y} pixels away`);
    await editor.screenshot('5-report-opened');
    await card.locator('button.place', { hasText: 'line 17' }).first().click();
    await editor.inside((vscode, _none, { until }) =>
      until(() => vscode.window.visibleTextEditors.some(({ selection }) => selection.active.line === 16)),
    );
    await editor.screenshot('5-report');
    const left = (await card.first().boundingBox())?.y ?? -1;
    assert.ok(Math.abs(left - y) < 2, `the page stays where it is, and does not move from ${y} to ${left}`);
    await page.locator('.tab', { hasText: 'Run of train.py' }).first().click();
    await page.keyboard.press('Control+W');
    await editor.clearToasts();

    await page.keyboard.press('Control+Shift+M');
    await page.locator('.markers-panel .monaco-list-row').filter({ hasText: 'confirmed' }).first().waitFor();
    await editor.screenshot('6-problems-confirmed');
    await page.keyboard.press('Control+J');
    await backward().hover();
    await page.locator('.monaco-hover:visible').filter({ hasText: 'confirmed' }).first().waitFor();
    await editor.screenshot('7-hover-confirmed');
    await editor.screenshot('marketplace-confirmed', PART);
    await page.keyboard.press('Escape');
  },
);

scenario(
  () => editor,
  'the page of a rule opens beside the code, from the menu of quick fixes',
  async () => {
    const { page } = editor;
    await backward().click();
    await (await editor.quickFixes()).filter({ hasText: 'Explain TAPE101' }).click();
    const tab = page.locator('.tab', { hasText: 'backward-twice' });
    await tab.first().waitFor();
    const frame = page.frameLocator('iframe.webview.ready').frameLocator('#active-frame');
    await frame.locator('h1', { hasText: 'backward-twice (TAPE101)' }).waitFor();
    await editor.screenshot('8-explained');
    await tab.first().click();
    await page.keyboard.press('Control+W');
    await backward().waitFor();
  },
);

scenario(
  () => editor,
  'a fix is confirmed by running the program with and without it',
  async () => {
    const { page } = editor;
    await backward().click();
    const said = await editor.watchToasts();
    await (await editor.quickFixes()).filter({ hasText: 'Confirm fix by running' }).click();
    // The five iterations take milliseconds: what they say is a matter of the server's tests.
    await poll(
      async () => (await said()).includes('trying a fix of train.py'),
      'the progress of the fix',
      100_000,
    );
    await editor.screenshot('8-trying-a-fix');
    const done = editor.toasts.filter({ hasText: 'the exception is gone' });
    await done.waitFor({ timeout: 100_000 });
    await done.getByRole('button', { name: 'Show Comparison' }).click();
    const tab = page.locator('.tab', { hasText: 'Fix of train.py' });
    await tab.first().waitFor();
    const frame = page.frameLocator('iframe.webview.ready').frameLocator('#active-frame');
    await frame.locator('td', { hasText: 'Trying to backward through the graph' }).first().waitFor();
    await editor.screenshot('8-fix-compared');
    await editor.screenshot('marketplace-compared', { ...PART, y: 72, height: 620 });
    const button = frame.getByRole('button', { name: 'Apply This Fix' });
    await button.click();
    await poll(async () => (await squiggles().count()) === 0, 'the fix to be made');
    await frame.getByRole('button', { name: 'Applied' }).waitFor();
    await editor.screenshot('8-fix-applied');
    await tab.first().click();
    await page.keyboard.press('Control+W');
    await editor.clearToasts();
    await page.locator('.monaco-editor .view-line', { hasText: 'optimizer.step()' }).first().click();
    await page.keyboard.press('Control+Z');
    await squiggles().first().waitFor();
    await backward().hover();
    await page.locator('.monaco-hover:visible').filter({ hasText: 'fix tried at' }).first().waitFor();
    await editor.screenshot('8-fix-tried');
    await page.keyboard.press('Escape');
    await backward().click();
    await (await editor.quickFixes()).filter({ hasText: 'Show the comparison of the fix' }).click();
    await frame.getByRole('button', { name: 'Apply This Fix' }).waitFor();
    await tab.first().click();
    await page.keyboard.press('Control+W');
    await editor.inside((vscode) => vscode.commands.executeCommand('tapecheck.showComparison'));
    await frame.getByRole('button', { name: 'Apply This Fix' }).waitFor();
    await tab.first().click();
    await page.keyboard.press('Control+W');
  },
);

scenario(
  () => editor,
  'Control+. offers the fix, Enter applies it, and the squiggle goes',
  async () => {
    const { page } = editor;
    await backward().click();
    await editor.quickFixes();
    await editor.screenshot('8-quick-fixes');
    await editor.screenshot('marketplace-fixes', { ...PART, height: 636 });
    await page.keyboard.press('Enter');
    await poll(async () => (await squiggles().count()) === 0, 'the squiggle to go');
    await page.keyboard.press('Control+S');
    // While it is written, it is empty.
    const written = () => ![TRAIN, ''].includes(fs.readFileSync(editor.file('train.py'), 'utf8'));
    await poll(async () => written(), 'the saved file');
    const saved = fs.readFileSync(editor.file('train.py'), 'utf8');
    assert.equal(saved.split('.backward()').length - 1, 1, saved);
    await editor.screenshot('9-fixed');
  },
);

scenario(
  () => editor,
  'the fixed file runs clean',
  async () => {
    const { page } = editor;
    await page.locator('.codelens-decoration a', { hasText: 'Confirm by running' }).first().click();
    await editor.toasts.filter({ hasText: 'no problem seen' }).waitFor({ timeout: 100_000 });
    await page.locator('.codelens-decoration a', { hasText: 'no problem seen' }).first().waitFor();
    await editor.screenshot('10-clean-run');
    assert.equal(await squiggles().count(), 0);
  },
);

scenario(
  () => editor,
  'a finding in a notebook is underlined in its cell, and fixed there',
  async () => {
    const { page } = editor;
    await editor.clearToasts();
    await page.keyboard.press('Control+P');
    await page.locator('.quick-input-widget input').first().waitFor({ state: 'visible' });
    await page.keyboard.type('train.ipynb');
    await page
      .locator('.quick-input-list .monaco-list-row')
      .filter({ hasText: 'train.ipynb' })
      .first()
      .waitFor();
    await page.keyboard.press('Enter');
    const inCells = page.locator('.notebookOverlay .squiggly-error');
    await inCells.first().waitFor({ timeout: 100_000 });
    const lenses = page.locator('.notebookOverlay .codelens-decoration a');
    await lenses.filter({ hasText: 'fails · Confirm by running' }).first().waitFor();
    await editor.screenshot('11-notebook');
    const cell = page.locator('.notebookOverlay .view-line').filter({ hasText: '%time loss.backward' });
    await cell.locator('span span').filter({ hasText: 'backward' }).first().click();
    await editor.quickFixes();
    await editor.screenshot('12-notebook-fixes');
    await page.keyboard.press('Enter');
    await poll(async () => (await inCells.count()) === 0, 'the squiggle to go');
    await lenses.filter({ hasText: 'keeps its graph for line' }).first().waitFor();
    // That cell was not edited: the server has said that its lens is another one now.
    await lenses.filter({ hasText: 'fails' }).first().waitFor({ state: 'detached' });
    await editor.screenshot('13-notebook-fixed');
    await lenses.filter({ hasText: 'Confirm by running' }).last().click();
    await editor.toasts.filter({ hasText: /Tapecheck: train\.ipynb: / }).waitFor({ timeout: 90_000 });
    await editor.screenshot('13-notebook-run');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'the walkthrough shows the way, with pictures',
  async () => {
    const { page } = editor;
    // Beside the side bar there is no room for pictures.
    await page.keyboard.press('Control+B');
    await editor.inside((vscode) =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'tapecheck.tapecheck#start', false),
    );
    const step = page.locator('.getting-started-step', { hasText: 'Read a finding' });
    await step.waitFor();
    await step.click();
    await page.locator('.getting-started-media img:visible').first().waitFor();
    await editor.screenshot('14-walkthrough');
    await page.getByRole('button', { name: 'Open an Example' }).click();
    await squiggles().first().waitFor();
    await page.locator('.codelens-decoration a', { hasText: 'fails in iteration 1' }).first().waitFor();
    await editor.screenshot('15-example');
  },
);
