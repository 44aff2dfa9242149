// Runs Tapecheck under Pyodide, away from the page's own thread.
import type { PyodideAPI } from 'pyodide';
import type { Answer, Question } from './protocol.js';

/** `Playground` of analysis.py; every method returns JSON. */
interface Playground {
  about(): string;
  check(text: string): string;
  fixes(index: number): string;
  hover(row: number, column: number): string;
  picture(): string;
}

const HOME = '/home/pyodide/tapecheck';
const here = (name: string) => new URL(name, self.location.href).href;
const answer = (message: Answer) => self.postMessage(message);

async function start(): Promise<Playground> {
  const began = performance.now();
  const [{ loadPyodide }, sources] = await Promise.all([
    import(here('pyodide/pyodide.mjs')) as Promise<typeof import('pyodide')>,
    fetch(here('sources.json')).then((reply) => reply.json() as Promise<Record<string, string>>),
  ]);
  const pyodide: PyodideAPI = await loadPyodide({ indexURL: here('pyodide/') });
  for (const [name, text] of Object.entries(sources)) {
    const path = `${HOME}/${name}`;
    pyodide.FS.mkdirTree(path.slice(0, path.lastIndexOf('/')));
    pyodide.FS.writeFile(path, text);
  }
  const playground: Playground = pyodide.runPython(
    `import sys; sys.path.insert(0, ${JSON.stringify(HOME)}); from analysis import Playground; Playground()`,
  );
  const about = JSON.parse(playground.about()) as { version: string; torch: string };
  answer({ kind: 'ready', ...about, milliseconds: performance.now() - began });
  return playground;
}

const playground = start();
playground.catch((error: unknown) => answer({ kind: 'failed', id: null, message: String(error) }));

/** The last program that is to be checked; a newer one ends the search for the fixes of an older one. */
let latest = 0;

self.onmessage = async (event: MessageEvent<Question>) => {
  const question = event.data;
  if (question.kind === 'check') latest = question.id;
  const python = await playground;
  try {
    if (question.kind === 'check') await check(python, question);
    else if (question.kind === 'hover') {
      const hover = JSON.parse(python.hover(question.row, question.column));
      answer({ kind: 'hover', id: question.id, hover });
    } else answer({ kind: 'picture', id: question.id, svg: JSON.parse(python.picture()) });
  } catch (error) {
    answer({ kind: 'failed', id: question.id, message: String(error) });
  }
};

async function check(python: Playground, { id, text }: { id: number; text: string }): Promise<void> {
  if (id !== latest) return;
  const began = performance.now();
  const findings = JSON.parse(python.check(text));
  answer({ kind: 'checked', id, findings, milliseconds: performance.now() - began });
  // Problems with the file itself stand before the findings and have no fixes.
  const rows = [...findings.keys()].filter((index) => findings[index].code.startsWith('TAPE'));
  for (const [number, index] of rows.entries()) {
    // What came meanwhile is heard first.
    await new Promise((resolve) => setTimeout(resolve));
    if (id !== latest) return;
    const fixes = JSON.parse(python.fixes(number));
    answer({ kind: 'fixes', id, index, fixes, last: number === rows.length - 1 });
  }
}
