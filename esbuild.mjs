// Builds dist/extension.js; with --tests, the unit tests into .build/unit.
import { rm } from 'node:fs/promises';
import * as esbuild from 'esbuild';

/** @type {import('esbuild').BuildOptions} */
const shared = { bundle: true, platform: 'node', target: 'node20', logLevel: 'warning' };

/** @type {import('esbuild').BuildOptions} */
const extension = {
  ...shared,
  entryPoints: ['client/src/extension.ts'],
  outfile: 'dist/extension.js',
  format: 'cjs',
  external: ['vscode'],
  minify: process.argv.includes('--production'),
  sourcemap: process.argv.includes('--production') ? false : 'linked',
};

if (process.argv.includes('--tests')) {
  await rm('.build/unit', { recursive: true, force: true });
  await esbuild.build({
    ...shared,
    entryPoints: ['tests/client/unit/*.test.ts'],
    outdir: '.build/unit',
    outExtension: { '.js': '.mjs' },
    format: 'esm',
    sourcemap: 'inline',
  });
} else if (process.argv.includes('--watch')) {
  await (await esbuild.context(extension)).watch();
} else {
  await esbuild.build(extension);
}
