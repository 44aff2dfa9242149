import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aboutInterpreter,
  candidates,
  type InterpreterSources,
  resolveCommand,
  which,
} from '../../../client/src/interpreter';
import { readAnswer } from '../../../client/src/probe';

function sources(files: string[], change: Partial<InterpreterSources> = {}): InterpreterSources {
  return {
    setting: [],
    active: undefined,
    folders: ['/w'],
    trusted: true,
    platform: 'linux',
    env: { PATH: '/usr/local/bin:/usr/bin' },
    isFile: (file) => files.includes(file),
    ...change,
  };
}

const EVERYTHING = ['/w/.venv/bin/python', '/w/venv/bin/python', '/usr/bin/python3', '/usr/bin/python'];

const origins = (input: InterpreterSources) =>
  candidates(input).map((candidate) => `${candidate.origin} ${candidate.command.join(' ')}`);

test('the setting stands alone', () => {
  const input = sources(EVERYTHING, { setting: ['/opt/py', '-X', 'dev'], active: '/conda/bin/python' });
  assert.deepEqual(origins(input), ['setting /opt/py -X dev']);
});

test('the order: Python extension, virtual environment of the workspace, PATH', () => {
  assert.deepEqual(origins(sources(EVERYTHING, { active: '/conda/bin/python' })), [
    'python-extension /conda/bin/python',
    'workspace /w/.venv/bin/python',
    'workspace /w/venv/bin/python',
    'path /usr/bin/python3',
    'path /usr/bin/python',
  ]);
});

test('what is not there is not tried, and nothing twice', () => {
  assert.deepEqual(origins(sources([])), []);
  assert.deepEqual(origins(sources(EVERYTHING.slice(2), { active: '/usr/bin/python3' })), [
    'python-extension /usr/bin/python3',
    'path /usr/bin/python',
  ]);
});

test('each folder of the workspace is looked at', () => {
  const input = sources(['/b/.venv/bin/python'], { folders: ['/a', '/b'] });
  assert.deepEqual(origins(input), ['workspace /b/.venv/bin/python']);
});

test('an untrusted workspace gets nothing started that lies in it', () => {
  const files = [...EVERYTHING, '/w/bin/python3'];
  const env = { PATH: '/w/bin:/usr/bin' };
  assert.deepEqual(origins(sources(files, { trusted: false, active: '/w/.venv/bin/python' })), [
    'path /usr/bin/python3',
    'path /usr/bin/python',
  ]);
  assert.deepEqual(origins(sources(['/w/bin/python3'], { trusted: false, env })), []);
  assert.deepEqual(origins(sources([], { trusted: false, active: '/wide/bin/python' })), [
    'python-extension /wide/bin/python',
  ]);
});

test('relative entries of PATH are not searched', () => {
  const input = sources(['bin/python3', 'python3', '/usr/bin/python3'], {
    env: { PATH: 'bin:.::/usr/bin' },
  });
  assert.equal(which('python3', input), '/usr/bin/python3');
  assert.equal(which('python9', input), undefined);
});

test('a program without a folder is looked up, one with a folder is kept', () => {
  const input = sources(['/usr/bin/python3']);
  assert.deepEqual(resolveCommand(['python3', '-I'], input), ['/usr/bin/python3', '-I']);
  assert.deepEqual(resolveCommand(['./python3'], input), ['./python3']);
  assert.deepEqual(resolveCommand(['missing'], input), ['missing']);
});

test('a list of interpreters says what each has, and leaves out what the server cannot run in', () => {
  const said = (answer: object) =>
    aboutInterpreter(
      readAnswer('python', JSON.stringify({ executable: '/p', missing: [], tapecheck: '1', ...answer })),
    );
  const missing = ['pygls'];
  assert.equal(
    said({ version: '3.12.1', torch: '2.6.0+cu126', missing }),
    'Python 3.12.1 · torch 2.6.0 (CUDA 12.6)',
  );
  assert.equal(
    said({ version: '3.12.1', torch: '2.13.0', cuda: '13.0.96' }),
    'Python 3.12.1 · torch 2.13.0 (CUDA 13.0)',
  );
  assert.equal(said({ version: '3.12.1', torch: '2.13.0' }), 'Python 3.12.1 · torch 2.13.0 (CPU)');
  assert.equal(
    said({ version: '3.12.1', torch: '2.6.0+cpu', cuda: '12.4.1' }),
    'Python 3.12.1 · torch 2.6.0 (CPU)',
  );
  assert.equal(said({ version: '3.10.0', missing }), 'Python 3.10.0 · no torch');
  assert.equal(said({ version: '3.9.18', torch: '2.6.0' }), undefined);
  assert.equal(aboutInterpreter(readAnswer('ls', 'no Python')), undefined);
});
