// The walkthrough from its first step to its last, as somebody goes through it who has just installed the extension.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: { 'notes.txt': 'nothing that trains\n' },
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

/** @param {string} name */
const step = async (name) => {
  const { page } = editor;
  const tab = page.locator('.tab', { hasText: /Welcome|Walkthrough/ });
  if ((await tab.count()) > 0) await tab.first().click();
  const title = page.locator('.getting-started-step', { hasText: name });
  await title.waitFor({ state: 'attached' });
  // A page that was left shows the list of all walkthroughs again.
  const list = page.locator('.getting-started-category', { hasText: 'Get started with Tapecheck' });
  await poll(async () => {
    if (await title.isEnabled()) return true;
    if (await list.first().isEnabled()) await list.first().click({ timeout: 2000 });
    return false;
  }, `the step ${name}`);
  if ((await title.getAttribute('aria-expanded')) !== 'true') await title.click();
  await editor.page.waitForTimeout(300);
  return title;
};
const menu = () => editor.page.locator('.quick-input-widget');
const squiggles = () => editor.page.locator('.monaco-editor .squiggly-error');

scenario(
  () => editor,
  'a Python is chosen',
  async () => {
    const { page } = editor;
    await page.keyboard.press('Control+B');
    await editor.inside((vscode) =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'tapecheck.tapecheck#start', false),
    );
    await step('Choose a Python');
    await editor.screenshot('newcomer-1');
    await page.getByRole('button', { name: 'Select Interpreter' }).click();
    await menu().locator('.monaco-list-row', { hasText: 'Enter a path' }).click();
    await menu().getByText('The path of a Python interpreter').waitFor();
    await menu().locator('input').first().fill(tools.python);
    await page.keyboard.press('Enter');
    await poll(
      async () => (await editor.debugInformation()).server?.command[0] === tools.python,
      'a server in the Python that was chosen',
    );
    await editor.state('running');
  },
);

scenario(
  () => editor,
  'an example is opened, and its finding is read',
  async () => {
    const { page } = editor;
    await step('Read a finding');
    await page.getByRole('button', { name: 'Open an Example' }).click();
    await squiggles().first().waitFor({ timeout: 100_000 });
    await page
      .locator('.view-line', { hasText: 'g_loss.backward' })
      .locator('span span', { hasText: 'backward' })
      .first()
      .hover();
    await page.locator('.monaco-hover:visible').filter({ hasText: 'second backward' }).first().waitFor();
    await editor.screenshot('newcomer-2');
    await page.keyboard.press('Escape');
  },
);

scenario(
  () => editor,
  'the last step runs the example, once it is saved, although another page is in front',
  async () => {
    const { page } = editor;
    await step('Confirm by running');
    await editor.screenshot('newcomer-3');
    await page.getByRole('button', { name: 'Confirm This File' }).click();
    const file = editor.file('tapecheck_example.py');
    const name = menu().locator('input').first();
    await poll(
      async () => fs.existsSync(file) || (await name.isVisible()),
      'the saved example, or a question',
    );
    await editor.screenshot('newcomer-4');
    if (!fs.existsSync(file)) {
      // The dialog of a browser's VS Code is a menu with a path to type.
      assert.equal(await name.inputValue(), file);
      await page.keyboard.press('Enter');
      await poll(async () => fs.existsSync(file), 'the saved example');
    }
    const done = editor.toasts.filter({ hasText: 'tapecheck_example.py: 1 confirmed' });
    await done.waitFor({ timeout: 90_000 });
    await editor.screenshot('newcomer-5');
    await editor.clearToasts();
  },
);

scenario(
  () => editor,
  'the fix is taken, and the finding goes',
  async () => {
    const { page } = editor;
    await page.locator('.tab', { hasText: 'tapecheck_example.py' }).first().click();
    await squiggles().first().waitFor();
    const call = page.locator('.view-line', { hasText: 'g_loss.backward' });
    await call.locator('span span', { hasText: 'backward' }).first().click();
    await editor.quickFixes();
    await editor.screenshot('newcomer-6');
    await page.keyboard.press('Enter');
    await poll(async () => (await squiggles().count()) === 0, 'the squiggle to go');
    await page.keyboard.press('Control+S');
    await poll(
      async () => fs.readFileSync(editor.file('tapecheck_example.py'), 'utf8').includes('fake.detach()'),
      'the saved fix',
    );
    await step('Take the fix');
    await editor.screenshot('newcomer-7');
    assert.equal(await editor.toasts.count(), 0);
  },
);
