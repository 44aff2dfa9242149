import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { environments, foldersAround, type Places } from '../../../client/src/environments';

/** A home with some files; the folders are those that the files lie in. */
function places(files: string[], change: Partial<Places> = {}): Places {
  return {
    platform: 'linux',
    env: {},
    home: '/h',
    folders: [],
    isFile: (file) => files.includes(file),
    list: (folder) => [
      ...new Set(
        files
          .filter((file) => file.startsWith(`${folder}/`))
          .map((file) => String(file.slice(folder.length + 1).split('/')[0])),
      ),
    ],
    read: () => '',
    ...change,
  };
}

const told = (given: Places) =>
  environments(given).map(({ command, origin }) => `${origin} ${command.join(' ')}`);

test('environments of every tool where it keeps them', () => {
  const files = [
    '/h/miniconda3/bin/python',
    '/h/miniconda3/envs/train/bin/python',
    '/h/.pyenv/versions/3.11.7/bin/python',
    '/h/.cache/pypoetry/virtualenvs/net-py3.11/bin/python',
    '/h/.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/python',
    '/h/.virtualenvs/old/bin/python',
    '/h/.local/share/virtualenvs/pip-env/bin/python',
  ];
  assert.deepEqual(told(places(files)), [
    'conda /h/miniconda3/bin/python',
    'conda /h/miniconda3/envs/train/bin/python',
    'pyenv /h/.pyenv/versions/3.11.7/bin/python',
    'poetry /h/.cache/pypoetry/virtualenvs/net-py3.11/bin/python',
    'uv /h/.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu/bin/python',
    'virtualenv /h/.virtualenvs/old/bin/python',
    'virtualenv /h/.local/share/virtualenvs/pip-env/bin/python',
  ]);
});

test('places that the environment names come before the usual ones', () => {
  const env = {
    PYENV_ROOT: '/p',
    POETRY_VIRTUALENVS_PATH: '/po',
    UV_PYTHON_INSTALL_DIR: '/uv',
    WORKON_HOME: '/wo',
    CONDA_EXE: '/opt/conda/bin/conda',
  };
  const files = ['/p/versions/3.9/bin/python', '/po/a/bin/python', '/uv/b/bin/python', '/wo/c/bin/python'];
  files.push('/opt/conda/envs/d/bin/python', '/h/.pyenv/versions/3.8/bin/python');
  assert.deepEqual(told(places(files, { env })), [
    'conda /opt/conda/envs/d/bin/python',
    'pyenv /p/versions/3.9/bin/python',
    'poetry /po/a/bin/python',
    'uv /uv/b/bin/python',
    'virtualenv /wo/c/bin/python',
  ]);
});

test('conda tells of its environments in a file, and nothing comes twice', () => {
  const files = ['/data/envs/gpu/bin/python', '/h/miniconda3/envs/train/bin/python'];
  const asked: string[] = [];
  const read = (file: string) => {
    asked.push(file);
    return '/data/envs/gpu\n\n/h/miniconda3/envs/train\r\nrelative\n/gone\n';
  };
  assert.deepEqual(told(places(files, { read })), [
    'conda /data/envs/gpu/bin/python',
    'conda /h/miniconda3/envs/train/bin/python',
  ]);
  assert.deepEqual(asked, [path.join('/h', '.conda', 'environments.txt')]);
});

test('a virtual environment in the workspace may have any name', () => {
  const files = ['/w/env/bin/python', '/w/env/pyvenv.cfg', '/w/tools/bin/python', '/w/train.py'];
  assert.deepEqual(told(places(files, { folders: ['/w'] })), ['workspace /w/env/bin/python']);
  assert.deepEqual(told(places(files)), []);
});

test('where nothing is, nothing is offered', () => {
  assert.deepEqual(told(places([])), []);
});

test('versions of Python come newest first, without those that no run can use', () => {
  const versions = ['2.7.18', '3.10.13', '3.8.18', '3.9.18', '3.12.1', 'pypy3.10-7.3', 'train'];
  const files = versions.map((version) => `/h/.pyenv/versions/${version}/bin/python`);
  files.push(
    '/h/.local/share/uv/python/cpython-3.8.19-linux/bin/python',
    '/h/.local/share/uv/python/cpython-3.13.0-linux/bin/python',
  );
  const names = told(places(files)).map((line) => line.split('/').at(-3));
  assert.deepEqual(names, ['train', 'pypy3.10-7.3', '3.12.1', '3.10.13', '3.9.18', 'cpython-3.13.0-linux']);
});

test('environments of the folders that hold an open file', () => {
  const files = ['/w/services/a/.venv', '/w/services/b/.venv', '/w/env'].flatMap((prefix) => [
    `${prefix}/pyvenv.cfg`,
    `${prefix}/bin/python`,
  ]);
  const folders = foldersAround(['/w/services/a/src/train.py', '/elsewhere/x.py', '/w/top.py'], ['/w', '/v']);
  assert.deepEqual(folders, ['/w/services/a/src', '/w/services/a', '/w/services', '/w', '/v']);
  assert.deepEqual(told(places(files, { folders })), [
    'workspace /w/services/a/.venv/bin/python',
    'workspace /w/env/bin/python',
  ]);
  const deep = `/w/${'d/'.repeat(60)}x.py`;
  assert.equal(foldersAround([deep, deep], ['/w']).length, 33);
  assert.deepEqual(foldersAround(['/workspace/x.py'], ['/w']), ['/w']);
});
