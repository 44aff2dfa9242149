// The playground as a reader uses it: the built site (SITE, default .build/site) in a real Chromium.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { browse, CHROMIUM, serve } from './serve.mjs';

const SITE = path.resolve(process.env.SITE ?? '.build/site');
const missing = !CHROMIUM
  ? "no Chromium: set CHROMIUM, or install the distribution's package"
  : !existsSync(path.join(SITE, 'playground/main.js')) && `no playground in ${SITE}: make docs`;
const options = { skip: missing || false, timeout: 400_000 };

const CLEAN = `import torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
`;

/** @type {Awaited<ReturnType<typeof serve>>} */
let server;
/** @type {Awaited<ReturnType<typeof browse>>} */
let browser;
/** @type {import('playwright-core').Page} */
let page;
/** @type {string[]} */
const asked = [];
/** @type {string[]} */
const wrong = [];

before(async () => {
  if (missing) return;
  server = await serve(SITE);
  browser = await browse();
  browser.context.setDefaultTimeout(15_000);
  page = await opened('playground/');
});

after(async () => {
  await browser?.close();
  await server?.close();
});

/** @param {string} address */
async function opened(address) {
  const made = await browser.context.newPage();
  made.on('request', (request) => asked.push(request.url()));
  made.on('pageerror', (error) => wrong.push(String(error)));
  made.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
  await made.goto(server.url + address);
  return made;
}

/** Until the program that the editor shows was checked, and its fixes were tried. */
async function checked(on = page) {
  await on.waitForSelector(
    '#tapecheck-playground[data-state="failed"], #tapecheck-playground[data-state="done"][data-fixes="done"]',
    {
      timeout: 150_000,
    },
  );
  assert.equal(
    await on.locator('#tapecheck-playground').getAttribute('data-state'),
    'done',
    wrong.join('\n'),
  );
}

const text = async (on = page) => (await on.locator('.cm-line').allTextContents()).join('\n');
const codes = () => page.locator('.tc-finding .tc-headline .tc-code').allInnerTexts();

/**
 * Until what an edit changed is being checked, or was: a check may end before anyone sees that it began.
 *
 * @param {() => Promise<unknown>} edit
 */
async function edited(edit) {
  const began = await page.locator('#tapecheck-playground').evaluateHandle((root) => {
    const found = { checks: 0 };
    new MutationObserver(() => {
      if (/** @type {HTMLElement} */ (root).dataset.state === 'checking') found.checks += 1;
    }).observe(root, { attributeFilter: ['data-state'] });
    return found;
  });
  await edit();
  await page.waitForFunction((found) => found.checks > 0, began);
}

/** @param {string} program */
async function write(program) {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await edited(() =>
    page.locator('.cm-content').evaluate((content, inserted) => {
      const data = new DataTransfer();
      data.setData('text/plain', inserted);
      content.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }));
    }, program),
  );
}

/** @param {string} title */
async function choose(title) {
  await edited(() => page.locator('[data-part="examples"]').selectOption({ label: title }));
}

test('the first example is checked when the page opens', options, async () => {
  await checked();
  assert.deepEqual(await codes(), ['TAPE101']);
  assert.match(
    await page.locator('.tc-finding .tc-headline').innerText(),
    /second backward through the graph of fake/,
  );
  assert.equal(await page.locator('.cm-lintRange-error').innerText(), 'g_loss.backward()');
  const story = await page.locator('.tc-finding .tc-part').allInnerTexts();
  assert.ok(
    story.some((line) => line.includes('the graph was built here')) &&
      story.some((line) => line.includes('freed here')),
  );
  assert.match(
    await page.locator('[data-part="about"]').innerText(),
    /^Tapecheck \d.*, facts of torch 2\.\d+/,
  );
});

test('the squiggle tells the story, and the code leads to the page of the rule', options, async () => {
  await page.locator('.cm-lintRange-error').hover();
  const tooltip = page.locator('.cm-tooltip-lint');
  await tooltip.waitFor();
  assert.match(await tooltip.innerText(), /freed here/);
  const link = await page.locator('.tc-finding .tc-code').getAttribute('href');
  const rule = await browser.context.newPage();
  const reply = await rule.goto(String(link));
  assert.equal(reply?.status(), 200);
  assert.match(await rule.locator('h1').innerText(), /backward-twice/);
  await rule.close();
});

test('a line of the story is found in the program', options, async () => {
  await page.locator('.tc-part .tc-line').first().click();
  assert.ok((await page.locator('.cm-line .tc-related').count()) > 1);
  const active = await page.locator('.cm-activeLine').innerText();
  assert.ok(active.includes('fake'), active);
});

test('pointing at code says what the analysis knows of it', options, async () => {
  await page
    .locator('.cm-line', { hasText: 'd_loss.backward()' })
    .locator('span', { hasText: 'backward' })
    .first()
    .hover();
  const hover = page.locator('.tc-hover');
  await hover.waitFor();
  assert.match(await hover.innerText(), /d_loss\.backward\(\) walks \d+ nodes .* and frees them/);
  await page.mouse.move(0, 0);
});

test('a fix mends the program', options, async () => {
  const fix = page.locator('.tc-fix-safe').first();
  assert.match(await fix.innerText(), /Detach fake/);
  await edited(() => fix.click());
  await checked();
  assert.match(await text(), /discriminator\(fake\.detach\(\)\)/);
  assert.deepEqual(await codes(), []);
  assert.equal(await page.locator('[data-part="findings"]').innerText(), 'No problems found.');
  await page.locator('.cm-content').click();
  await edited(() => page.keyboard.press('Control+Z'));
  await checked();
  assert.deepEqual(await codes(), ['TAPE101']);
});

test('the graphs are drawn', options, async () => {
  await page.locator('[data-part="draw"]').click();
  const image = page.locator('[data-part="image"]');
  await page.waitForFunction(() => {
    const found = /** @type {HTMLImageElement} */ (document.querySelector('[data-part="image"]'));
    return found.complete && found.naturalWidth > 300;
  });
  assert.match(
    decodeURIComponent(String(await image.getAttribute('src'))),
    /already freed: this call raises/,
  );
  await page.locator('[data-part="draw"]').click();
  assert.equal(await image.isVisible(), false);
});

test('every example says what its rule is about', options, async () => {
  const groups = await page.locator('[data-part="examples"] optgroup').evaluateAll((found) =>
    found.map((group) => ({
      label: /** @type {HTMLOptGroupElement} */ (group).label,
      first: group.querySelector('option')?.label ?? '',
      last: [...group.querySelectorAll('option')].at(-1)?.label ?? '',
    })),
  );
  const rules = groups.filter(({ label }) => label.startsWith('TAPE'));
  assert.ok(rules.length >= 10);
  for (const { label, first } of rules) {
    await choose(first);
    await checked();
    assert.ok((await codes()).includes(String(label.split(' ')[0])), `${first}: ${await codes()}`);
  }
  await choose(String(rules[0]?.last));
  await checked();
  assert.deepEqual(await codes(), []);
});

test('what is typed is checked, broken lines too', options, async () => {
  await write(CLEAN);
  await checked();
  assert.deepEqual(await codes(), []);
  await page.keyboard.press('Control+End');
  await edited(() => page.keyboard.type('loss.backward()\n'));
  await checked();
  assert.deepEqual(await codes(), ['TAPE101']);
  await edited(() => page.keyboard.type('if (\n'));
  await checked();
  assert.ok(
    (await codes()).includes('TAPE101') && (await codes()).includes('invalid-syntax'),
    String(await codes()),
  );
});

test('places are right behind characters outside the basic plane', options, async () => {
  await write(`${CLEAN}name = "🔥🔥"; loss.backward(); print(name)\n`);
  await checked();
  assert.equal(await page.locator('.cm-lintRange-error').innerText(), 'loss.backward()');
});

test('a program puts no elements into the page', options, async () => {
  await write(`import torch

w = torch.ones(3, requires_grad=True)
totals = {"<img src=x>": 0}
for step in range(3):
    loss = (w * w).sum()
    totals["<img src=x>"] += loss
`);
  await checked();
  assert.match(await page.locator('.tc-finding .tc-headline').innerText(), /<img src=x>/);
  await page.locator('.cm-lintRange-info').first().hover();
  await page.locator('.cm-tooltip-lint').waitFor();
  assert.equal(await page.locator('[data-part="findings"] img, .cm-tooltip img').count(), 0);
  await page.mouse.move(0, 0);
});

test('a link opens the same program', options, async () => {
  const program = `${CLEAN}loss.backward()  # größer 🔥\n`;
  await write(program);
  await checked();
  await page.locator('[data-part="share"]').click();
  await page.waitForFunction(() => location.hash.startsWith('#code='));
  const { pathname, hash } = new URL(page.url());
  const other = await opened(pathname.slice(1) + hash);
  await checked(other);
  assert.equal((await text(other)).trimEnd(), program.trimEnd());
  assert.equal(await other.locator('.tc-finding').count(), 1);
  assert.ok(other.url().includes('#code='));
  await other.close();
  const cut = await opened(`${pathname.slice(1)}#code=AAAA`);
  await checked(cut);
  assert.match(await text(cut), /discriminator/);
  await cut.close();
});

test('a short program with its squiggle and story, as the README shows it', options, async () => {
  await choose('A hidden state carries its graph into the next iteration');
  await checked();
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator('.tc-headline .tc-line').click();
  assert.equal(await page.locator('.cm-lintRange-error').count(), 1);
  assert.match(await page.locator('.tc-story').innerText(), /still refers to the graph of iteration 1/);
  assert.ok((await page.locator('.cm-line .tc-related').count()) > 1);
  const shots = process.env.SCREENSHOTS;
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  const box = await page.locator('[data-part="both"]').boundingBox();
  if (!box) throw new Error('the editor is not shown');
  await page.screenshot({ path: path.join(shots, 'finding.png'), clip: box, animations: 'disabled' });
});

test(
  'on a narrow screen nothing overflows, and the page stays where its reader has it',
  options,
  async () => {
    const before = page.viewportSize();
    await page.setViewportSize({ width: 420, height: 800 });
    await checked();
    await page.evaluate(() => scrollTo(0, 0));
    await choose('A hidden state carries its graph into the next iteration');
    await checked();
    assert.ok((await page.locator('.tc-finding').count()) > 0);
    const { scrolled, wide, screen } = await page.evaluate(() => ({
      scrolled: scrollY,
      wide: document.documentElement.scrollWidth,
      screen: innerWidth,
    }));
    if (before) await page.setViewportSize(before);
    assert.equal(scrolled, 0, 'the finding does not pull the page down');
    assert.ok(wide <= screen, `${wide} pixels on a screen of ${screen}`);
  },
);

test('the home page leads to the playground', options, async () => {
  const home = await opened('');
  await home.locator('a.md-button', { hasText: 'Try it in the browser' }).first().click();
  await home.waitForURL(/\/playground\/$/);
  await home.close();
});

test('the licences of all that is served are there to read', options, async () => {
  const link = await page.getAttribute('#tapecheck-playground a[href$="LICENCES.txt"]', 'href');
  const answer = await page.request.get(new URL(String(link), page.url()).href);
  const text = await answer.text();
  for (const part of [
    'Mozilla Public License Version 2.0',
    'PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2',
    'musl: Copyright',
    '@codemirror/view',
    '@lezer/python',
  ]) {
    assert.ok(text.includes(part), part);
  }
});

test('nothing was asked of another host, and nothing failed', options, async () => {
  assert.ok(asked.some((url) => url.endsWith('pyodide.asm.wasm')));
  assert.deepEqual(
    asked.filter(
      (url) => !url.startsWith(server.url) && !url.startsWith('data:') && !url.startsWith('blob:'),
    ),
    [],
  );
  assert.deepEqual(wrong, []);
});
