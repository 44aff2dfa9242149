// npm run test:e2e: builds the .vsix and drives it in a real VS Code; says so and succeeds where that is not there.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { findTools } from './tools.mjs';

const found = findTools();
if ('missing' in found) {
  console.log(`skipped: the end-to-end tests need ${found.missing.join('; ')}`);
  process.exit(0);
}

/**
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function node(args, options = {}) {
  const run = spawnSync(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options });
  if (run.error) throw run.error;
  return run.status ?? 1;
}

const only = process.argv.slice(2);
const env = { ...process.env, TAPECHECK_PYTHON: found.tools.python };
const built = path.resolve('.build/e2e');
mkdirSync(built, { recursive: true });
rmSync(path.join(built, 'screenshots'), { recursive: true, force: true });

let vsix = process.env.VSIX;
if (vsix === undefined) {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  if (node(['client/scripts/vsix.mjs'], { env, stdio: ['ignore', 'ignore', 'inherit'] }) !== 0)
    process.exit(1);
  vsix = path.resolve(`tapecheck-${version}.vsix`);
}
for (const name of ['driver', 'stub_python']) {
  const vsce = path.resolve('node_modules/@vscode/vsce/vsce');
  const out = path.join(built, `${name}.vsix`);
  const options = { cwd: path.resolve('tests/client', name), stdio: /** @type {const} */ ('ignore') };
  const args = [vsce, 'package', '--no-dependencies', '--skip-license', '--allow-missing-repository'];
  if (node([...args, '--out', out], options) !== 0) {
    console.error(`${name} could not be packed`);
    process.exit(1);
  }
}
const all = ['failures', 'trust', 'folders', 'switches', 'robust', 'newcomer', 'features', 'clicks'];
const tests = only.length > 0 ? only : all;
process.exit(
  node(
    [
      ...['--test', '--test-concurrency=1', '--test-reporter=spec'],
      ...tests.map((name) => `tests/client/e2e/${name}.test.mjs`),
    ],
    { env: { ...env, VSIX: vsix, E2E_BUILT: built } },
  ),
);
