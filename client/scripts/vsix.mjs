// Builds tapecheck-VERSION.vsix, one package for every platform.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { packagedPage } from './page.mjs';

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const file = `tapecheck-${version}.vsix`;

/** @param {string[]} args */
function node(args) {
  const run = spawnSync(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  if (run.status !== 0) process.exit(run.status ?? 1);
}

rmSync(file, { force: true });
mkdirSync('.build', { recursive: true });
const page = '.build/README.md';
writeFileSync(
  page,
  packagedPage(readFileSync('client/README.md', 'utf8'), readFileSync('mkdocs.yml', 'utf8')),
);
node(['client/scripts/bundle.mjs']);
node(['client/scripts/licences.mjs']);
// The search for secrets takes minutes over what is bundled; all that is packed is public already.
node([
  'node_modules/@vscode/vsce/vsce',
  ...['package', '--allow-package-all-secrets', '--allow-package-env-file'],
  ...['--no-dependencies', '--allow-missing-repository', '--no-rewrite-relative-links'],
  ...['--readme-path', page, '--out', file],
]);
console.log(`${file}: ${(statSync(file).size / 1e6).toFixed(1)} MB`);
