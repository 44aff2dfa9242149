// Fills bundled/ with the tapecheck package and the pure-Python packages it needs; for one platform
// (TARGET=linux-x64) also with libcst, once for each version of CPython.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const TARGET = 'bundled';
const PYTHONS = ['3.10', '3.11', '3.12', '3.13', '3.14'];
/** The tags of libcst's wheels by the editor's names of platforms. @type {Record<string, string>} */
const PLATFORMS = {
  'linux-x64': 'manylinux_2_28_x86_64',
  'linux-arm64': 'manylinux_2_28_aarch64',
  'alpine-x64': 'musllinux_1_2_x86_64',
  'alpine-arm64': 'musllinux_1_2_aarch64',
  'darwin-arm64': 'macosx_11_0_arm64',
  'darwin-x64': 'macosx_10_15_x86_64',
  'win32-x64': 'win_amd64',
  'win32-arm64': 'win_arm64',
};
const platform = process.env.TARGET || undefined;
const tag = platform === undefined ? undefined : PLATFORMS[platform];
if (platform !== undefined && tag === undefined) {
  throw new Error(`TARGET=${platform} is none of ${Object.keys(PLATFORMS).join(', ')}`);
}
const python =
  process.env.TAPECHECK_PYTHON ??
  ['.venv/bin/python', '.venv/Scripts/python.exe'].find((file) => existsSync(file)) ??
  (process.platform === 'win32' ? 'python' : 'python3');

/**
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
function runPython(args, env = process.env) {
  const run = spawnSync(python, args, { encoding: 'utf8', env });
  if (run.error) throw new Error(`${python} cannot be started: ${run.error.message}`);
  if (run.status !== 0) throw new Error(`${python} ${args.join(' ')} failed:\n${run.stdout}${run.stderr}`);
  return run.stdout;
}

rmSync(TARGET, { recursive: true, force: true });
// The lowest Python that is supported, and no platform: pip then takes only wheels that run everywhere.
runPython([
  ...['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '--require-hashes'],
  ...['--only-binary=:all:', '--platform=any', '--implementation=py', '--abi=none', '--python-version=3.10'],
  ...['--no-compile', '--target', TARGET, '--requirement', 'client/bundled-requirements.txt'],
]);
rmSync(path.join(TARGET, 'bin'), { recursive: true, force: true });
cpSync('server/tapecheck', path.join(TARGET, 'tapecheck'), {
  recursive: true,
  filter: (source) => !/^(__pycache__|\..*)$/.test(path.basename(source)),
});

if (tag !== undefined) {
  const own = `client/bundled-libcst-${platform}.txt`;
  const requirement = existsSync(own) ? own : 'client/bundled-libcst.txt';
  for (const version of PYTHONS) {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'tapecheck-libcst-'));
    runPython([
      ...['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '--require-hashes'],
      ...['--only-binary=:all:', `--platform=${tag}`, '--implementation=cp', `--python-version=${version}`],
      ...['--no-compile', '--target', folder, '--requirement', requirement],
    ]);
    // The wheels differ in their compiled module alone, whose name says for which version it is.
    cpSync(path.join(folder, 'libcst'), path.join(TARGET, 'libcst'), {
      recursive: true,
      filter: (source) => path.basename(source) !== 'tests',
    });
    // Its licence and its name stand beside it, as pip leaves them.
    for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.dist-info'))) {
      cpSync(path.join(folder, name), path.join(TARGET, name), { recursive: true });
    }
    rmSync(folder, { recursive: true, force: true });
  }
}

const compiled = readdirSync(TARGET, { recursive: true, encoding: 'utf8' }).filter((file) =>
  /\.(so|pyd|dylib|dll)$/.test(file),
);
const expected = tag === undefined ? 0 : PYTHONS.length;
if (compiled.length !== expected)
  throw new Error(`${expected} compiled modules expected: ${compiled.join(', ')}`);

// -S hides the packages of the interpreter, so that only what was bundled can be imported.
const check = [
  'import sys, tapecheck, tapecheck.lsp.server',
  'assert "libcst" not in sys.modules, "the server imports libcst before a fix is asked for"',
  // Where what was bundled is for this very machine, it has to work here.
  'import importlib.machinery, pathlib, tapecheck.fixes',
  `natives = [path.name for path in pathlib.Path("${TARGET}/libcst").glob("native*")]`,
  'here = any(name == "native" + end for name in natives for end in importlib.machinery.EXTENSION_SUFFIXES)',
  'assert not here or tapecheck.fixes.available(), "libcst was bundled and cannot be imported"',
  'print(tapecheck.__version__)',
].join('\n');
const version = runPython(['-S', '-B', '-c', check], {
  ...process.env,
  PYTHONPATH: path.resolve(TARGET),
}).trim();
console.log(`bundled tapecheck ${version} in ${TARGET}/`);
