import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import type { Candidate } from '../../../client/src/interpreter';
import {
  describeFailure,
  describeInterpreter,
  describePlan,
  type LaunchInput,
  moduleArguments,
  planLaunch,
} from '../../../client/src/launch';
import type { Probe, ProbeOptions } from '../../../client/src/probe';

const OLD = '/old/python';
const BARE = '/bare/python';
const FULL = '/full/python';
const GONE = '/gone/python';

const failure = (reason: 'too-old' | 'missing-modules' | 'not-found', detail: string): Probe => ({
  ok: false,
  reason,
  detail,
});

/** Stands for four interpreters: one too old, one without tapecheck, one with it, one that is not there. */
async function fakeProbe(command: readonly string[], { libraries }: ProbeOptions): Promise<Probe> {
  const [program = ''] = command;
  if (program === GONE) return failure('not-found', `${program} is not there`);
  if (program === OLD) return failure('too-old', `${program} is too old`);
  if (program === FULL || libraries === '/ext/bundled') {
    return { ok: true, executable: program, version: '3.11.0', tapecheck: '1.0', torch: undefined };
  }
  return failure('missing-modules', `${program} lacks tapecheck`);
}

function plan(programs: string[], change: Partial<LaunchInput> = {}) {
  return planLaunch({
    candidates: programs.map((program): Candidate => ({ command: [program], origin: 'path' })),
    path: [],
    importStrategy: 'useBundled',
    bundled: '/ext/bundled',
    cwd: '/ext/dist',
    env: { HOME: '/h' },
    probe: fakeProbe,
    ...change,
  });
}

test('the bundled packages are imported first', async () => {
  const result = await plan([BARE]);
  assert.ok(result.ok);
  assert.equal(result.source, 'bundled');
  assert.deepEqual([result.command, ...result.args], [BARE, ...moduleArguments('/ext/bundled'), 'serve']);
  assert.equal(result.cwd, '/ext/dist');
});

test('scripts that the server starts do not see the bundled packages', () => {
  const libraries = mkdtempSync(path.join(tmpdir(), 'launch-'));
  try {
    mkdirSync(path.join(libraries, 'tapecheck'));
    writeFileSync(path.join(libraries, 'tapecheck/__init__.py'), '');
    const child = '"import importlib.util as u; print(u.find_spec(\'tapecheck\'))"';
    const main = [
      'import subprocess, sys',
      'def main():',
      '    print(sys.argv[1:], flush=True)',
      `    return subprocess.run([sys.executable, "-S", "-c", ${child}]).returncode`,
    ];
    writeFileSync(path.join(libraries, 'tapecheck/cli.py'), main.join('\n'));
    const python = process.env.TAPECHECK_PYTHON ?? 'python3';
    const args = [...moduleArguments(libraries), 'serve', '--x'];
    const run = spawnSync(python, args, { encoding: 'utf8', cwd: tmpdir() });
    assert.equal(run.stdout, "['serve', '--x']\nNone\n", run.stderr);
    assert.equal(run.status, 0);
  } finally {
    rmSync(libraries, { recursive: true, force: true });
  }
});

test('fromEnvironment takes the interpreter’s own tapecheck, and the bundle only where it has none', async () => {
  const own = await plan([FULL], { importStrategy: 'fromEnvironment' });
  assert.ok(own.ok);
  assert.equal(own.source, 'environment');
  assert.deepEqual(own.args, ['-m', 'tapecheck', 'serve']);
  const none = await plan([BARE], { importStrategy: 'fromEnvironment' });
  assert.ok(none.ok);
  assert.equal(none.source, 'bundled');
});

test('without a bundle the environment is used', async () => {
  const result = await plan([BARE, FULL], { bundled: undefined });
  assert.ok(result.ok);
  assert.equal(result.command, FULL);
  assert.equal(result.source, 'environment');
});

test('scripts run in the chosen interpreter even where the server cannot', async () => {
  const result = await plan([GONE, OLD, BARE]);
  assert.ok(result.ok);
  assert.equal(result.command, BARE);
  assert.deepEqual(result.runInterpreter, [OLD]);
});

test('where the interpreter that is set is broken, files are checked all the same, and nothing is run in another', async () => {
  const other: Candidate = { command: [BARE], origin: 'path' };
  for (const [broken, detail] of [
    [GONE, '/gone/python is not there'],
    // Too old for the server alone: it runs scripts.
    [OLD, undefined],
  ] as const) {
    const result = await plan([broken], { others: [other] });
    assert.ok(result.ok);
    assert.equal(result.command, BARE);
    assert.deepEqual(result.runInterpreter, [broken]);
    assert.equal(result.broken, detail);
  }
  const gone = await plan([GONE], { others: [other] });
  assert.ok(gone.ok);
  assert.equal(describeInterpreter(gone), 'no recorded runs: /gone/python is not there');
  assert.equal(
    describePlan(gone),
    '1.0 bundled, in /bare/python · no recorded runs: /gone/python is not there',
  );
  const usable = await plan([BARE], { others: [{ command: [FULL], origin: 'path' }] });
  assert.ok(usable.ok);
  assert.deepEqual([usable.command, usable.runInterpreter, usable.broken], [BARE, [BARE], undefined]);
  const none = await plan([GONE], { others: [{ command: [OLD], origin: 'path' }] });
  assert.ok(!none.ok);
});

test('tapecheck.path is taken as it is', async () => {
  const result = await plan([BARE], { path: ['/tools/tapecheck', '--quiet'] });
  assert.ok(result.ok);
  assert.deepEqual([result.command, ...result.args], ['/tools/tapecheck', '--quiet', 'serve']);
  assert.equal(result.source, 'path');
  assert.deepEqual(result.runInterpreter, [BARE]);
});

test('where nothing can run, each reason is said once', async () => {
  const none = await plan([]);
  assert.ok(!none.ok);
  assert.match(describeFailure(none), /no Python interpreter\. Select one with Python 3\.10/);
  const some = await plan([GONE, OLD, BARE], { bundled: undefined, importStrategy: 'fromEnvironment' });
  assert.ok(!some.ok);
  assert.equal(
    describeFailure(some),
    'Tapecheck found no Python interpreter its server can run in: ' +
      '/gone/python is not there; /old/python is too old; /bare/python lacks tapecheck.',
  );
});
