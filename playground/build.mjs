// npm run playground: bundles the playground's scripts and copies Pyodide beside them, into .build/playground.
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import * as esbuild from 'esbuild';

const out = '.build/playground';
/** What Pyodide needs at run time; the rest of its package is for Node.js and for debuggers. */
const PYODIDE = [
  'pyodide.mjs',
  'pyodide.asm.mjs',
  'pyodide.asm.wasm',
  'pyodide-lock.json',
  'python_stdlib.zip',
];

await rm(out, { recursive: true, force: true });
const built = await esbuild.build({
  entryPoints: ['playground/src/main.ts', 'playground/src/worker.ts'],
  outdir: out,
  bundle: true,
  format: 'esm',
  target: 'es2023',
  minify: true,
  metafile: true,
  logLevel: 'warning',
});
await mkdir(path.join(out, 'pyodide'), { recursive: true });
for (const name of PYODIDE) {
  await cp(path.join('node_modules/pyodide', name), path.join(out, 'pyodide', name));
}

// The licences of what is bundled come along, as they ask. Pyodide's package has none: playground/licences.
const OWN = 'playground/licences';
const packages = new Set();
for (const file of Object.keys(built.metafile.inputs)) {
  const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file);
  if (found?.[1]) packages.add(found[1]);
}
const pyodide = JSON.parse(await readFile('node_modules/pyodide/package.json', 'utf8')).version;
const texts = [
  `Pyodide ${pyodide} (MPL-2.0), unchanged; its source: https://github.com/pyodide/pyodide/tree/${pyodide}\n\n` +
    (await readFile(path.join(OWN, 'pyodide.txt'), 'utf8')),
  `Python and its standard library, as part of Pyodide (PSF-2.0), changed by the patches in its folder cpython\n\n` +
    (await readFile(path.join(OWN, 'python.txt'), 'utf8')),
  await readFile(path.join(OWN, 'libraries.txt'), 'utf8'),
];
for (const folder of [...packages].sort()) {
  const { name, version, license } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  if (name === 'pyodide') continue;
  const own = await readFile(path.join(folder, 'LICENSE'), 'utf8').catch(() => '');
  if (own.trim() === '') throw new Error(`no text of a licence: ${name}`);
  texts.push(`${name} ${version} (${license})\n\n${own}`);
}
const all = texts.map((text) => text.trim()).join(`\n\n${'-'.repeat(80)}\n\n`);
await writeFile(path.join(out, 'LICENCES.txt'), `${all}\n`);
