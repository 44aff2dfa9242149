import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { probe, REQUIRED_MODULES, readAnswer } from '../../../client/src/probe';

const scratch = mkdtempSync(path.join(tmpdir(), 'probe-'));
after(() => rmSync(scratch, { recursive: true, force: true }));
const python = process.env.TAPECHECK_PYTHON ?? 'python3';

function folder(name: string, files: Record<string, string>): string {
  const root = path.join(scratch, name);
  mkdirSync(root, { recursive: true });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  }
  return root;
}

const empty = folder('empty', {});
const packages = Object.fromEntries(REQUIRED_MODULES.map((name) => [`${name}/__init__.py`, '']));
const ask = (libraries: string, timeoutMs?: number, command: string[] = [python, '-S']) =>
  probe(command, {
    libraries,
    env: process.env,
    cwd: empty,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });

test('an interpreter with everything', async () => {
  const libraries = folder('complete', { ...packages, 'tapecheck/__init__.py': '__version__ = "9.8"' });
  const answer = await ask(libraries);
  assert.ok(answer.ok, JSON.stringify(answer));
  assert.equal(answer.tapecheck, '9.8');
  assert.equal(answer.torch, undefined);
  assert.match(answer.version, /^3\.\d+\.\d+$/);
  assert.ok(path.isAbsolute(answer.executable));
});

test('missing modules are named', async () => {
  const libraries = folder('partial', { 'tapecheck/__init__.py': '', 'pygls/__init__.py': '' });
  const answer = await ask(libraries);
  assert.ok(!answer.ok);
  assert.equal(answer.reason, 'missing-modules');
  const there = ['tapecheck', 'pygls'];
  assert.deepEqual(
    answer.missing,
    REQUIRED_MODULES.filter((name) => !there.includes(name)),
  );
});

test('a package that does not import is a failure that says why', async () => {
  const libraries = folder('broken', { ...packages, 'tapecheck/__init__.py': 'import no_such_module' });
  const answer = await ask(libraries);
  assert.ok(!answer.ok);
  assert.equal(answer.reason, 'failed');
  assert.match(answer.detail, /no_such_module/);
});

test('modules in the working directory of the editor are not imported', async () => {
  const libraries = folder('complete-2', packages);
  const booby = folder('booby', { 'json.py': 'raise SystemExit("imported")' });
  const before = process.cwd();
  process.chdir(booby);
  try {
    const answer = await ask(libraries);
    assert.ok(answer.ok, JSON.stringify(answer));
  } finally {
    process.chdir(before);
  }
});

test('a program that is not there, is no Python, or never answers', async () => {
  const missing = await ask(empty, undefined, [path.join(scratch, 'nothing')]);
  assert.equal(missing.ok || missing.reason, 'not-found');

  const echo = path.join(scratch, 'echo.sh');
  writeFileSync(echo, '#!/bin/sh\necho hello\n');
  chmodSync(echo, 0o755);
  const stranger = await ask(empty, undefined, [echo]);
  assert.equal(stranger.ok || stranger.reason, 'failed');

  const slow = folder('slow', { ...packages, 'tapecheck/__init__.py': 'import time; time.sleep(60)' });
  const late = await ask(slow, 1500);
  assert.equal(late.ok || late.reason, 'timeout');

  const dying = await ask(
    folder('dying', { ...packages, 'tapecheck/__init__.py': 'raise SystemExit("gone")' }),
  );
  assert.ok(!dying.ok);
  assert.equal(dying.reason, 'failed');
  assert.match(dying.detail, /gone/);
});

test('an old Python is told from one that lacks modules', () => {
  const old = readAnswer('python2', '{"executable": "/usr/bin/python2", "version": "2.7.18", "missing": []}');
  assert.ok(!old.ok);
  assert.equal(old.reason, 'too-old');
  assert.match(old.detail, /2\.7\.18.*3\.10/);
  const ok = '{"executable": "/p", "version": "3.10.0", "missing": [], "tapecheck": "1", "torch": "2.9.0"}';
  assert.equal(readAnswer('p', `noise from sitecustomize\n${ok}\n`).ok, true);
  assert.equal(readAnswer('p', '').ok, false);
  assert.equal(readAnswer('p', '{"version": 3}').ok, false);
});
