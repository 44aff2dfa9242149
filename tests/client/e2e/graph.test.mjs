// The graph beside the code and the list of interpreters, by clicks, and the tools for language models as the extension
// host has them.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Editor, poll, scenario } from './editor.mjs';
import { FIRST, SECOND, TRAIN } from './programs.mjs';
import { EXTENSIONS, neededTools } from './tools.mjs';

const tools = neededTools();
const row = (/** @type {string} */ text) => TRAIN.split('\n').findIndex((line) => line.includes(text));

/** @type {Editor} */
let editor;
before(async () => {
  editor = await Editor.open({
    tools,
    extensions: EXTENSIONS,
    files: { 'train.py': TRAIN },
    settings: { 'tapecheck.interpreter': [tools.python], 'chat.disableAIFeatures': false },
  });
  await editor.state('running');
});
after(() => editor?.close());

const frame = () => editor.page.frameLocator('iframe.webview.ready').frameLocator('#active-frame');

/** @param {number} line */
const cursorTo = (line) =>
  editor.inside(async (vscode, at) => {
    const shown = vscode.window.visibleTextEditors.find(({ document }) =>
      document.fileName.endsWith('train.py'),
    );
    if (shown === undefined) throw new Error('train.py is not shown');
    shown.selection = new vscode.Selection(at, 6, at, 6);
  }, line);

scenario(
  () => editor,
  'the panel follows the cursor, and a click on a box goes to its line',
  async () => {
    const { page } = editor;
    await page.keyboard.press('Control+P');
    await page.locator('.quick-input-widget input').fill('train.py');
    await page.locator('.quick-input-widget .monaco-list-row', { hasText: 'train.py' }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.monaco-editor .squiggly-error').first().waitFor();
    await page.keyboard.press('F1');
    await page.locator('.quick-input-widget input').fill('>Show the Graph Beside the Code');
    await page.locator('.quick-input-widget .monaco-list-row', { hasText: 'Show the Graph' }).first().click();
    await cursorTo(row('loss_class = '));
    await frame()
      .locator('h1', { hasText: `line ${row('loss_class = ') + 1} · before a run` })
      .waitFor();
    await frame().locator('#about', { hasText: 'carries a graph' }).waitFor();
    const heads = frame().locator('svg text', { hasText: `: ${FIRST.split('.')[0]}` });
    assert.ok((await frame().locator('svg .here').count()) >= 1, 'the box of the line is marked');
    assert.ok((await frame().locator('svg .g').count()) >= 2, `${await heads.count()} calls`);
    await editor.screenshot('graph');
    await cursorTo(row(SECOND));
    await frame().locator('svg .gone').first().waitFor();
    await editor.screenshot('graph-raises');
    // A picture that is too wide is scrolled by the panel, whose bar is always in sight; its heading stays.
    await page.setViewportSize({ width: 800, height: 600 });
    const body = frame().locator('body');
    await poll(
      async () => body.evaluate((it) => it.scrollWidth > it.ownerDocument.documentElement.clientWidth + 50),
      'a panel that is too narrow',
    );
    const seen = await body.evaluate((it) => {
      const root = it.ownerDocument.documentElement;
      root.scrollLeft = root.scrollWidth;
      const at = (/** @type {string} */ name) => it.querySelector(name)?.getBoundingClientRect();
      return { width: root.clientWidth, heading: at('h1'), picture: at('#picture') };
    });
    assert.ok(Number(seen.heading?.left) >= 0 && Number(seen.heading?.right) <= seen.width);
    assert.ok(Number(seen.picture?.left) < 0 && Number(seen.picture?.right) <= seen.width);
    await editor.screenshot('graph-narrow');
    const name = await frame().locator('svg .g').first().getAttribute('aria-label');
    assert.match(String(name), /^train\.py:\d+\n/);
    await page.setViewportSize({ width: 1280, height: 800 });
    await frame().locator('svg .g', { hasText: 'encoder(x)' }).first().click();
    await editor.inside(
      (vscode, line, { until }) =>
        until(() => vscode.window.visibleTextEditors.some(({ selection }) => selection.active.line === line)),
      row('encoder(x)'),
    );
    await frame()
      .locator('h1', { hasText: `line ${row('encoder(x)') + 1} ·` })
      .waitFor();
  },
);

scenario(
  () => editor,
  'after a run the same panel shows what was measured',
  async () => {
    await editor.inside(async (vscode) => {
      await vscode.commands.executeCommand(
        'tapecheck.confirmFile',
        vscode.window.visibleTextEditors[0]?.document.uri,
      );
    });
    await frame().locator('h1', { hasText: 'run at' }).waitFor({ timeout: 100_000 });
    await poll(
      async () => /\d (bytes|kB)/.test(String(await frame().locator('svg').textContent())),
      'measured bytes',
    );
    await editor.screenshot('graph-measured');
  },
);

scenario(
  () => editor,
  'language models have the tools, and check answers with the finding',
  async () => {
    const answer = await editor.inside(async (vscode) => {
      const names = vscode.lm.tools.map(({ name }) => name).filter((name) => name.startsWith('tapecheck_'));
      const input = { paths: ['train.py'] };
      const result = await vscode.lm.invokeTool('tapecheck_check', { input, toolInvocationToken: undefined });
      const texts = result.content.map((part) =>
        part instanceof vscode.LanguageModelTextPart ? part.value : '',
      );
      return { names, report: JSON.parse(texts.join('')) };
    });
    assert.deepEqual(
      answer.names.sort(),
      ['check', 'explain', 'fix', 'graph', 'run'].map((name) => `tapecheck_${name}`),
    );
    assert.deepEqual(
      answer.report.findings.map((/** @type {any} */ { code, location }) => [code, location.row - 1]),
      [['TAPE101', row(SECOND)]],
    );
  },
);

scenario(
  () => editor,
  'the list of interpreters says what each has',
  async () => {
    const { page } = editor;
    await editor.clearToasts();
    await page.keyboard.press('F1');
    await page.locator('.quick-input-widget input').fill('>Tapecheck: Select Interpreter');
    await page
      .locator('.quick-input-widget .monaco-list-row', { hasText: 'Select Interpreter' })
      .first()
      .click();
    const rows = page.locator('.quick-input-widget .monaco-list-row');
    await rows
      .filter({ hasText: /Python 3\.\d+\.\d+ · (no torch|torch [\d.]+ \((CPU|CUDA|ROCm))/ })
      .first()
      .waitFor();
    await editor.screenshot('interpreters');
    await page.keyboard.press('Escape');
  },
);
