import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const pyproject = readFileSync('pyproject.toml', 'utf8');
const bundled = new Set(
  [...readFileSync('client/bundled-requirements.txt', 'utf8').matchAll(/^([\w.-]+)==/gm)].map((match) =>
    String(match[1]).toLowerCase(),
  ),
);

test('the extension has the version of the Python package it carries', () => {
  const source = readFileSync('server/tapecheck/version.py', 'utf8');
  assert.equal(/^__version__ = "(.+)"$/m.exec(source)?.[1], manifest.version);
});

test('each dependency of the Python package is bundled', () => {
  const list = /^dependencies = \[\n([\s\S]*?)^\]/m.exec(pyproject)?.[1];
  assert.ok(list);
  const needed = [...list.matchAll(/"([\w.-]+)/g)].map((match) => String(match[1]).toLowerCase());
  assert.ok(needed.includes('pygls'));
  assert.deepEqual(
    needed.filter((name) => !bundled.has(name)),
    [],
  );
});

test('versions of npm packages are exact, and the lock file names no registry', () => {
  const versions = Object.values({ ...manifest.dependencies, ...manifest.devDependencies }) as string[];
  for (const version of versions) assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.doesNotMatch(readFileSync('package-lock.json', 'utf8'), /"resolved"/);
});

test('the types of VS Code are those of the oldest version that is supported', () => {
  assert.equal(`^${manifest.devDependencies['@types/vscode']}`, manifest.engines.vscode);
});

test('pictures on the page are shown where the page lies in no folder', async () => {
  const { packagedPage } = await import('../../../client/scripts/page.mjs');
  const page = readFileSync('client/README.md', 'utf8');
  const images = (text: string) =>
    [...text.matchAll(/!\[[^\]]*\]\(([^)]*)\)/g)].map(([, place]) => String(place));
  const packed = images(packagedPage(page, readFileSync('mkdocs.yml', 'utf8')));
  assert.ok(packed.length > 0);
  for (const place of packed) assert.match(place, /^https:\/\/\S+\/assets\/vscode\/[\w-]+\.png$/);
  for (const place of images(page)) assert.ok(existsSync(`client/${place}`), place);
});

test('files that the manifest names are packed', () => {
  const packed = readFileSync('.vscodeignore', 'utf8').split('\n');
  const media = manifest.contributes.walkthroughs.flatMap(({ steps }: { steps: { media: object }[] }) =>
    steps.map(
      ({ media: { image, markdown } }: { media: { image?: string; markdown?: string } }) => image ?? markdown,
    ),
  );
  for (const file of [manifest.icon, manifest.main.replace('./', ''), ...media]) {
    assert.ok(packed.includes(`!${file}`), file);
  }
  for (const file of [manifest.icon, ...media]) assert.ok(existsSync(file), file);
});
