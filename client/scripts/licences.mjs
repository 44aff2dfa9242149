// Writes bundled/THIRD_PARTY_LICENCES.txt: name, version and licence text of all that a package carries, npm packages
// that esbuild put into the extension and Python packages alike. Fails where one has no text.
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as esbuild from 'esbuild';

const TARGET = 'bundled';
const FILE = path.join(TARGET, 'THIRD_PARTY_LICENCES.txt');
const NAMES = /^(licen[cs]e|copying|notice|thirdpartynotices)/i;

/** @typedef {{ name: string, version: string, licence: string, texts: string[] }} Package */

/**
 * The texts of files in a folder that are called as licences are.
 * @param {string} folder
 * @returns {string[]}
 */
function textsIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => NAMES.test(name))
    .map((name) => path.join(folder, name))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, 'utf8').trim());
}

/**
 * The npm packages whose code is part of the extension.
 * @returns {Promise<Package[]>}
 */
async function npmPackages() {
  const result = await esbuild.build({
    entryPoints: ['client/src/extension.ts'],
    bundle: true,
    platform: 'node',
    external: ['vscode'],
    write: false,
    metafile: true,
    logLevel: 'warning',
  });
  const folders = new Set();
  for (const input of Object.keys(result.metafile.inputs)) {
    const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found !== null) folders.add(found[1]);
  }
  return [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    return { name, version, licence: String(license), texts: textsIn(folder) };
  });
}

/**
 * The Python packages that were bundled, by what pip keeps of them.
 * @returns {Package[]}
 */
function pythonPackages() {
  const infos = readdirSync(TARGET).filter((name) => name.endsWith('.dist-info'));
  return infos.sort().map((info) => {
    const folder = path.join(TARGET, info);
    const metadata = readFileSync(path.join(folder, 'METADATA'), 'utf8');
    const field = (/** @type {string} */ name) => new RegExp(`^${name}: (.+)$`, 'm').exec(metadata)?.[1];
    const classifier = /^Classifier: License :: (?:OSI Approved :: )?(.+)$/m.exec(metadata)?.[1];
    return {
      name: field('Name') ?? info,
      version: field('Version') ?? '',
      licence: field('License-Expression') ?? classifier ?? field('License') ?? 'see the text',
      texts: [...textsIn(folder), ...textsIn(path.join(folder, 'licenses'))],
    };
  });
}

const packages = [...(await npmPackages()), ...pythonPackages()];
const without = packages.filter((one) => one.texts.length === 0).map((one) => one.name);
if (without.length > 0) throw new Error(`no text of a licence: ${without.join(', ')}`);
const line = '='.repeat(80);
const parts = packages.map(
  (one) => `${line}\n${one.name} ${one.version} (${one.licence})\n${line}\n\n${one.texts.join('\n\n')}\n`,
);
writeFileSync(FILE, `What the extension carries beside Tapecheck itself.\n\n${parts.join('\n')}`);
console.log(`${FILE}: ${packages.map((one) => one.name).join(', ')}`);
