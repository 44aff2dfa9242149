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

// The licences of what is bundled come along, as they ask.
const packages = new Set(['node_modules/pyodide']);
for (const file of Object.keys(built.metafile.inputs)) {
  const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file);
  if (found?.[1]) packages.add(found[1]);
}
const texts = [];
for (const folder of [...packages].sort()) {
  const { name, version, license } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  const text = await readFile(path.join(folder, 'LICENSE'), 'utf8').catch(() => '');
  texts.push(`${name} ${version} (${license})\n\n${text}`.trim());
}
texts.push(
  'Python and its standard library, as part of Pyodide (PSF-2.0)\n\nhttps://docs.python.org/3/license.html',
);
await writeFile(path.join(out, 'LICENCES.txt'), `${texts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`);
