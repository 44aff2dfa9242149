/** Environments in the workspace, and those that conda, pyenv, poetry, uv and virtualenv keep, for the picker alone. */

import * as path from 'node:path';
import { type Candidate, type Origin, venvPython } from './interpreter';

export interface Places {
  platform: NodeJS.Platform;
  env: Readonly<Record<string, string | undefined>>;
  home: string;
  /** Folders of a workspace that is trusted. */
  folders: readonly string[];
  isFile: (file: string) => boolean;
  /** The names in a folder; none where it cannot be read. */
  list: (folder: string) => string[];
  /** The text of a file; empty where it cannot be read. */
  read: (file: string) => string;
}

/** How many folders of a workspace are looked into. */
const MOST_FOLDERS = 32;

/** The folders of a workspace with those between them and some of their files, the nearest to a file first. */
export function foldersAround(files: readonly string[], folders: readonly string[]): string[] {
  const found = new Set<string>();
  for (const file of files) {
    const root = folders.find((folder) => file.startsWith(folder + path.sep));
    for (let at = path.dirname(file); root !== undefined && at.length > root.length; at = path.dirname(at)) {
      if (found.size < MOST_FOLDERS) found.add(at);
    }
  }
  return [...found, ...folders];
}

/** Interpreters of environments that tools keep, each once, by tool and name. Nothing is executed. */
export function environments(places: Places): Candidate[] {
  const found: Candidate[] = [];
  const seen = new Set<string>();
  const add = (python: string, origin: Origin) => {
    if (!seen.has(python) && places.isFile(python)) {
      seen.add(python);
      found.push({ command: [python], origin });
    }
  };
  for (const prefix of inFolders([...places.folders], places)) {
    if (places.isFile(path.join(prefix, 'pyvenv.cfg'))) add(venvPython(prefix, places.platform), 'workspace');
  }
  for (const prefix of condaPrefixes(places)) add(condaPython(prefix, places), 'conda');
  for (const prefix of newestFirst(inFolders(pyenvFolders(places), places)))
    add(pyenvPython(prefix, places), 'pyenv');
  for (const prefix of inFolders(poetryFolders(places), places))
    add(venvPython(prefix, places.platform), 'poetry');
  for (const prefix of newestFirst(inFolders(uvFolders(places), places)))
    add(condaPython(prefix, places), 'uv');
  for (const prefix of inFolders(virtualenvFolders(places), places)) {
    add(venvPython(prefix, places.platform), 'virtualenv');
  }
  return found;
}

function inFolders(folders: (string | undefined)[], { list }: Places): string[] {
  return folders.flatMap((folder) =>
    folder ? [...list(folder)].sort().map((name) => path.join(folder, name)) : [],
  );
}

/** The oldest Python that a recorded run can use. */
const OLDEST_MINOR = 9;

/** Folders that are named by their Python's version (`3.12.1`, `cpython-3.12.1-linux`), without those of no use. */
function newestFirst(prefixes: string[]): string[] {
  const usable = prefixes.filter((prefix) => {
    const [, major, minor] = /^(?:cpython-)?(\d+)\.(\d+)\b/.exec(path.basename(prefix)) ?? [];
    return major === undefined || (major === '3' && Number(minor) >= OLDEST_MINOR);
  });
  return usable.sort((one, other) => other.localeCompare(one, 'en', { numeric: true }));
}

/** On Windows conda and uv have the program at the top of the environment. */
function condaPython(prefix: string, { platform }: Places): string {
  return platform === 'win32' ? path.join(prefix, 'python.exe') : path.join(prefix, 'bin', 'python');
}

function pyenvPython(prefix: string, places: Places): string {
  const own = condaPython(prefix, places);
  // A version of pyenv can be a virtual environment.
  return places.isFile(own) ? own : venvPython(prefix, places.platform);
}

function condaPrefixes(places: Places): string[] {
  const { env, home } = places;
  const told = places
    .read(path.join(home, '.conda', 'environments.txt'))
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => path.isAbsolute(line));
  const installed = ['miniconda3', 'anaconda3', 'miniforge3', 'mambaforge', 'micromamba'].map((name) =>
    path.join(home, name),
  );
  const executable = env.CONDA_EXE;
  const roots = [
    env.CONDA_PREFIX,
    executable && path.dirname(path.dirname(executable)),
    env.MAMBA_ROOT_PREFIX,
    ...installed,
  ].filter((root): root is string => Boolean(root));
  return [
    ...told,
    ...roots,
    ...inFolders(
      [...roots, path.join(home, '.conda')].map((root) => path.join(root, 'envs')),
      places,
    ),
  ];
}

function pyenvFolders({ env, home, platform }: Places): string[] {
  const root =
    env.PYENV_ROOT || env.PYENV || path.join(home, '.pyenv', ...(platform === 'win32' ? ['pyenv-win'] : []));
  return [path.join(root, 'versions')];
}

function poetryFolders({ env, home, platform }: Places): (string | undefined)[] {
  const caches: Partial<Record<NodeJS.Platform, string | undefined>> = {
    win32: env.LOCALAPPDATA && path.join(env.LOCALAPPDATA, 'pypoetry', 'Cache'),
    darwin: path.join(home, 'Library', 'Caches', 'pypoetry'),
  };
  const usual = caches[platform] ?? path.join(env.XDG_CACHE_HOME || path.join(home, '.cache'), 'pypoetry');
  const cache = env.POETRY_CACHE_DIR || usual;
  return [env.POETRY_VIRTUALENVS_PATH || path.join(cache, 'virtualenvs')];
}

function uvFolders({ env, home, platform }: Places): string[] {
  const data =
    platform === 'win32' && env.APPDATA
      ? path.join(env.APPDATA, 'uv', 'python')
      : path.join(env.XDG_DATA_HOME || path.join(home, '.local', 'share'), 'uv', 'python');
  return [env.UV_PYTHON_INSTALL_DIR || data];
}

function virtualenvFolders({ env, home }: Places): (string | undefined)[] {
  const data = env.XDG_DATA_HOME || path.join(home, '.local', 'share');
  // virtualenvwrapper's, and those of pipenv.
  return [env.WORKON_HOME, path.join(home, '.virtualenvs'), path.join(data, 'virtualenvs')];
}
