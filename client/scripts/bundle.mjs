// Fills bundled/ with the tapecheck package and the pure-Python packages it needs.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

const TARGET = 'bundled';
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

const compiled = readdirSync(TARGET, { recursive: true, encoding: 'utf8' }).filter((file) =>
  /\.(so|pyd|dylib|dll)$/.test(file),
);
if (compiled.length > 0) throw new Error(`compiled modules run on one platform only: ${compiled.join(', ')}`);

// -S hides the packages of the interpreter, so that only what was bundled can be imported.
const check = [
  'import tapecheck, tapecheck.lsp.server, tapecheck.fixes',
  'print(tapecheck.__version__)',
].join('\n');
const version = runPython(['-S', '-B', '-c', check], {
  ...process.env,
  PYTHONPATH: path.resolve(TARGET),
}).trim();
console.log(`bundled tapecheck ${version} in ${TARGET}/`);
