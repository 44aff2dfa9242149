// npm run test:e2e: builds the .vsix and drives it in a real VS Code; says so and succeeds where that is not there.
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { findTools } from './tools.mjs';

/** A suite takes a minute or two; one that hangs must not take the tests with it. */
const LIMIT_MS = Number(process.env.TAPECHECK_E2E_MINUTES ?? 12) * 60_000;
const MARK = 'TAPECHECK_E2E_SUITE';

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
  /** @type {import('node:child_process').SpawnSyncOptions} */
  const defaults = { stdio: ['ignore', 'inherit', 'inherit'], timeout: LIMIT_MS };
  const run = spawnSync(process.execPath, args, { ...defaults, ...options });
  if (run.error) throw run.error;
  return run.status ?? 1;
}

const only = process.argv.slice(2);
// What servers of the user remember of runs is none of the tests'.
const cache = path.resolve('.build/e2e/cache');
const env = { ...process.env, TAPECHECK_PYTHON: found.tools.python, TAPECHECK_CACHE_DIR: cache };
const built = path.resolve('.build/e2e');
mkdirSync(built, { recursive: true });
for (const name of ['screenshots', 'cache']) rmSync(path.join(built, name), { recursive: true, force: true });

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
const all = ['failures', 'trust', 'folders', 'switches', 'robust', 'newcomer', 'features', 'graph', 'clicks'];
const tests = only.length > 0 ? only : all;
const results = [];
for (const name of tests) results.push({ name, ...(await suite(name)) });
const failed = results.filter(({ outcome }) => outcome !== 'passed');
for (const { name, outcome, seconds, tries } of results)
  console.log(`${name}: ${outcome} in ${seconds} s${tries > 1 ? ', tried twice' : ''}`);
process.exit(failed.length === 0 ? 0 : 1);

/**
 * One file of tests, once more where it failed: an editor on a loaded machine is now and then too slow for a click.
 * @param {string} name
 */
async function suite(name) {
  const began = Date.now();
  let tries = 0;
  let outcome = '';
  do {
    tries += 1;
    if (tries > 1) console.log(`${name}: ${outcome}; once more`);
    outcome = await once(name);
  } while (outcome !== 'passed' && tries < 2);
  return { outcome, tries, seconds: Math.round((Date.now() - began) / 1000) };
}

/**
 * @param {string} name
 * @returns {Promise<string>} how it ended
 */
function once(name) {
  const mark = randomUUID();
  const child = spawn(
    process.execPath,
    [
      ...['--test', '--test-force-exit', '--test-reporter=spec', '--test-reporter-destination=stdout'],
      `tests/client/e2e/${name}.test.mjs`,
    ],
    {
      env: { ...env, VSIX: vsix, E2E_BUILT: built, [MARK]: mark },
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  );
  return new Promise((resolve) => {
    let late = false;
    const limit = setTimeout(() => {
      late = true;
      killMarked(mark);
      child.kill('SIGKILL');
    }, LIMIT_MS);
    child.once('error', (error) => resolve(String(error)));
    child.once('exit', (code) => {
      clearTimeout(limit);
      killMarked(mark);
      if (late) resolve(`not at its end after ${LIMIT_MS / 60_000} min`);
      else resolve(code === 0 ? 'passed' : 'failed');
    });
  });
}

/**
 * Ends what a suite has left behind: editors and browsers have process groups of their own.
 * @param {string} mark
 */
function killMarked(mark) {
  if (process.platform !== 'linux') return;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`${MARK}=${mark}`))
        process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended, or is somebody else's.
    }
  }
}
