// Renders client/images/icon.svg to icon.png; run it after a change of the drawing (needs Chromium).
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const svg = await readFile('client/images/icon.svg', 'utf8');
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const page = await browser.newPage({ viewport: { width: 128, height: 128 } });
await page.setContent(`<style>body{margin:0}svg{display:block}</style>${svg}`);
await page.screenshot({ path: 'client/images/icon.png', omitBackground: true });
await browser.close();
