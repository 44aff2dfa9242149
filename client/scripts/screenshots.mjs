// Copies what the end-to-end tests have photographed to where the README and the walkthrough show it:
//   npm run test:e2e -- clicks && npm run screenshots
import { copyFileSync } from 'node:fs';
import path from 'node:path';

for (const name of ['finding', 'fixes', 'confirmed', 'compared']) {
  const taken = path.join('.build/e2e/screenshots', `marketplace-${name}.png`);
  copyFileSync(taken, path.join('client/images', `${name}.png`));
}
