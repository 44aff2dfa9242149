import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  DEFAULTS,
  expandedSettings,
  expandVariables,
  needsRestart,
  readSettings,
  serverSettings,
} from '../../../client/src/settings';

const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const properties: Record<string, { default: unknown; scope: string }> =
  manifest.contributes.configuration.properties;

test('the defaults in code are the defaults in the manifest', () => {
  const declared: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    const parts = name.split('.').slice(1);
    let at = declared;
    for (const part of parts.slice(0, -1)) {
      at[part] ??= {};
      at = at[part] as Record<string, unknown>;
    }
    at[parts.at(-1) as string] = property.default;
  }
  assert.deepEqual(declared, DEFAULTS);
});

test('settings that name a program to start are restricted in untrusted workspaces', () => {
  const restricted: string[] = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  assert.ok(restricted.every((name) => name in properties));
  for (const name of Object.keys(properties)) {
    const starts = /^tapecheck\.(interpreter|path|importStrategy|run\..+)$/.test(name);
    assert.equal(restricted.includes(name), starts, name);
  }
});

test('every declared command is registered, and none besides', () => {
  const source = readFileSync('client/src/extension.ts', 'utf8');
  const registered = [...source.matchAll(/registerCommand\('([^']+)'/g)].map((match) => match[1]);
  const declared = manifest.contributes.commands.map((entry: { command: string }) => entry.command);
  assert.deepEqual(registered.sort(), declared.sort());
});

test('no settings give the defaults', () => {
  assert.deepEqual(readSettings(undefined), DEFAULTS);
  assert.deepEqual(readSettings(null), DEFAULTS);
  assert.deepEqual(readSettings({}), DEFAULTS);
});

test('given values are kept, the others stay at their defaults', () => {
  const settings = readSettings({
    interpreter: ['py', '-3.12'],
    severity: { TAPE201: 'error' },
    run: { timeout: 1.5 },
  });
  assert.deepEqual(settings, {
    ...DEFAULTS,
    interpreter: ['py', '-3.12'],
    severity: { TAPE201: 'error' },
    run: { ...DEFAULTS.run, timeout: 1.5 },
  });
});

test('a value of the wrong type is replaced by its default and named', () => {
  const complaints: string[] = [];
  const settings = readSettings(
    {
      enable: 'yes',
      interpreter: '/usr/bin/python3',
      importStrategy: 'sometimes',
      severity: { TAPE101: 'fatal' },
      select: ['TAPE1', 7],
      run: { timeout: -1, maxIterations: 2.5, arguments: 'a b' },
      lens: [],
    },
    (message) => complaints.push(message),
  );
  assert.deepEqual(settings, DEFAULTS);
  const named = complaints.map((line) => /tapecheck\.([\w.]+)/.exec(line)?.[1]);
  assert.deepEqual(named, [
    'enable',
    'interpreter',
    'importStrategy',
    'select',
    'severity',
    'run.timeout',
    'run.maxIterations',
    'run.arguments',
  ]);
});

test('a severity that does not exist costs its own rule alone', () => {
  const complaints: string[] = [];
  const severity = { TAPE201: 'error', TAPE101: 'off', TAPE102: 'fatal' };
  const settings = readSettings({ severity }, (message) => complaints.push(message));
  assert.deepEqual(settings.severity, { TAPE201: 'error' });
  assert.match(complaints[0] ?? '', /"off" for TAPE101.*tapecheck\.ignore switches a rule off/);
  assert.match(complaints[1] ?? '', /"fatal" for TAPE102, which is none of error, /);
});

test('the server is told the interpreter that was found', () => {
  const settings = readSettings({ interpreter: ['python3'] });
  assert.deepEqual(serverSettings(settings, ['/v/bin/python']).interpreter, ['/v/bin/python']);
  assert.deepEqual(serverSettings(settings, []).interpreter, ['python3']);
});

test('only settings of the launch need a new process', () => {
  const before = readSettings({});
  assert.equal(needsRestart(before, readSettings({})), false);
  assert.equal(needsRestart(before, readSettings({ ignore: ['TAPE301'], run: { timeout: 9 } })), false);
  for (const change of [
    { interpreter: ['python3'] },
    { path: ['tapecheck'] },
    { importStrategy: 'fromEnvironment' },
  ]) {
    assert.equal(needsRestart(before, readSettings(change)), true, JSON.stringify(change));
  }
});

test('variables in what a run is given', () => {
  const context = { workspaceFolder: '/w', userHome: '/home/u', env: { DATA: '/data' } };
  const settings = readSettings({
    run: { arguments: ['${env:DATA}/a'], cwd: '${workspaceFolder}/sub', env: { ROOT: '${userHome}' } },
  });
  const { run } = expandedSettings(settings, context);
  assert.deepEqual([run.arguments, run.cwd, run.env], [['/data/a'], '/w/sub', { ROOT: '/home/u' }]);
});

test('variables in commands', () => {
  const context = { workspaceFolder: '/w $& x', userHome: '/home/u', env: { ENVS: '/opt/envs' } };
  assert.deepEqual(
    expandVariables(
      ['${workspaceFolder}/.venv/bin/python', '~/py', '${env:ENVS}/a', '${env:NONE}b', 'a~/b', '${userHome}'],
      context,
    ),
    ['/w $& x/.venv/bin/python', '/home/u/py', '/opt/envs/a', 'b', 'a~/b', '/home/u'],
  );
  assert.deepEqual(expandVariables(['${workspaceFolder}/x'], { ...context, workspaceFolder: undefined }), [
    '${workspaceFolder}/x',
  ]);
});
