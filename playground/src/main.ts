// The playground's page: an editor whose program a worker checks, with findings beside it.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { bracketMatching, defaultHighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState, StateEffect, StateField, type Text } from '@codemirror/state';
import { oneDark } from '@codemirror/theme-one-dark';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { fromFragment, toFragment } from './link.js';
import { inline, rendered } from './markdown.js';
import type { Answer, Finding, Fix, Hover, Place, Question, Range } from './protocol.js';
import './style.css';

interface Example {
  group: string;
  title: string;
  program: string;
}

/** How long nothing is typed before a program is checked, in milliseconds. */
const PAUSE = 300;
/** How long a check may take before the worker is started anew, in milliseconds. */
const PATIENCE = 60_000;

const part = <T extends HTMLElement>(name: string): T => {
  const found = document.querySelector<T>(
    `#tapecheck-playground[data-part="${name}"], #tapecheck-playground [data-part="${name}"]`,
  );
  if (!found) throw new Error(`the page has no ${name}`);
  return found;
};

function element<K extends keyof HTMLElementTagNameMap>(tag: K, name: string, ...inside: (Node | string)[]) {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...inside);
  return made;
}

const root = part('root');
const status = part('status');
const list = part('findings');
const picture = part('picture');
const here = (name: string) => new URL(name, root.dataset.home ?? location.href).href;

// The worker

let worker: Worker;
let asked = 0;
let checking: { id: number; timer: number } | undefined;
let findings: Finding[] = [];
let fixes: (Fix[] | undefined)[] = [];
let about = '';
const hovers = new Map<number, (hover: Hover | null) => void>();

function startWorker(): void {
  worker = new Worker(here('worker.js'), { type: 'module' });
  worker.onmessage = (event: MessageEvent<Answer>) => heard(event.data);
  worker.onerror = (event) => say(`The worker failed: ${event.message}`, 'failed');
  say('Loading Python …', 'loading');
}

const ask = (question: Question) => worker.postMessage(question);

function say(text: string, state: 'loading' | 'checking' | 'done' | 'failed'): void {
  status.textContent = text;
  root.dataset.state = state;
}

function heard(answer: Answer): void {
  switch (answer.kind) {
    case 'ready':
      about = `Tapecheck ${answer.version}, facts of torch ${answer.torch}`;
      part('about').replaceChildren(
        `${about}. Bundled: CodeMirror, Pyodide, Python; `,
        Object.assign(element('a', '', 'licences'), { href: here('LICENCES.txt') }),
        '.',
      );
      break;
    case 'checked':
      if (answer.id !== checking?.id) return;
      clearTimeout(checking.timer);
      findings = answer.findings;
      fixes = findings.map(() => undefined);
      show();
      told(answer.milliseconds);
      if (!findings.some((finding) => finding.code.startsWith('TAPE'))) root.dataset.fixes = 'done';
      if (!picture.hidden) ask({ kind: 'picture', id: answer.id });
      break;
    case 'fixes':
      if (answer.id !== checking?.id) return;
      fixes[answer.index] = answer.fixes;
      show();
      if (answer.last) root.dataset.fixes = 'done';
      break;
    case 'hover':
      hovers.get(answer.id)?.(answer.hover);
      hovers.delete(answer.id);
      break;
    case 'picture':
      // An image executes nothing, whatever a program has put into its names.
      part<HTMLImageElement>('image').src =
        `data:image/svg+xml;charset=utf-8,${encodeURIComponent(answer.svg)}`;
      break;
    case 'failed':
      clearTimeout(checking?.timer);
      say(`Tapecheck failed: ${answer.message}`, 'failed');
  }
}

function told(milliseconds: number): void {
  const count = findings.filter((finding) => finding.code.startsWith('TAPE')).length;
  const found = count === 0 ? 'No problems found' : `${count} ${count === 1 ? 'finding' : 'findings'}`;
  say(`${found} (${(milliseconds / 1000).toFixed(1)} s)`, 'done');
}

function check(): void {
  clearTimeout(checking?.timer);
  const id = ++asked;
  const timer = window.setTimeout(() => {
    worker.terminate();
    startWorker();
    say('The analysis took more than a minute and was stopped. Edit the program to try again.', 'failed');
  }, PATIENCE);
  checking = { id, timer };
  root.dataset.fixes = 'pending';
  if (about) say('Checking …', 'checking');
  ask({ kind: 'check', id, text: editor.state.doc.toString() });
}

// The editor

/** A place as an offset: the worker counts characters, the editor UTF-16 units. */
function offset(doc: Text, place: Place): number {
  if (place.row < 1) return 0;
  if (place.row > doc.lines) return doc.length;
  const line = doc.line(place.row);
  const before = Array.from(line.text)
    .slice(0, Math.max(place.column - 1, 0))
    .join('');
  return Math.min(line.from + before.length, line.to);
}

function placeOf(doc: Text, position: number): Place {
  const line = doc.lineAt(position);
  return { row: line.number, column: Array.from(line.text.slice(0, position - line.from)).length + 1 };
}

function span(doc: Text, range: Range): { from: number; to: number } {
  const from = offset(doc, range.location);
  return { from, to: Math.max(from, offset(doc, range.end_location)) };
}

const related = StateEffect.define<Finding | null>();
/** The lines that have a part in the chosen finding. */
const story = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let now = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (!effect.is(related)) continue;
      const doc = transaction.state.doc;
      const spans = effect.value?.related.map((label) => ({ ...span(doc, label), label })) ?? [];
      now = Decoration.set(
        spans
          .filter(({ from, to }) => to > from)
          .map(({ from, to, label }) =>
            Decoration.mark({
              class: `tc-related tc-${label.role}`,
              attributes: { title: label.message },
            }).range(from, to),
          ),
        true,
      );
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const explain = hoverTooltip(
  async (view, position) => {
    if (root.dataset.state !== 'done') return null;
    const { row, column } = placeOf(view.state.doc, position);
    const id = ++asked;
    const waiting = new Promise<Hover | null>((resolve) => hovers.set(id, resolve));
    ask({ kind: 'hover', id, row, column });
    const hover = await waiting;
    if (!hover) return null;
    const { from, to } = span(view.state.doc, hover);
    return {
      pos: from,
      end: to,
      above: true,
      create: () => ({ dom: element('div', 'tc-hover', rendered(hover.markdown)) }),
    };
  },
  { hideOnChange: true },
);

const colours = new Compartment();
const isDark = () => document.body.dataset.mdColorScheme === 'slate';
const theme = () => (isDark() ? oneDark : syntaxHighlighting(defaultHighlightStyle));
let pause = 0;
/** Whether the first finding is to be brought into view: the program was not typed but chosen. */
let reveals = false;

const editor = new EditorView({
  parent: part('editor'),
  state: EditorState.create({
    extensions: [
      lineNumbers(),
      history(),
      drawSelection(),
      bracketMatching(),
      highlightActiveLine(),
      indentUnit.of('    '),
      python(),
      lintGutter(),
      explain,
      story,
      colours.of(theme()),
      keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ 'aria-label': 'Program', spellcheck: 'false' }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        clearTimeout(pause);
        pause = window.setTimeout(check, PAUSE);
        if (about) say('Checking …', 'checking');
        // The address of a shared program would be that of another one.
        if (location.hash) window.history.replaceState(null, '', location.pathname + location.search);
      }),
    ],
  }),
});
new MutationObserver(() => editor.dispatch({ effects: colours.reconfigure(theme()) })).observe(
  document.body,
  {
    attributes: true,
    attributeFilter: ['data-md-color-scheme'],
  },
);

function write(program: string): void {
  reveals = true;
  editor.dispatch({
    changes: { from: 0, to: editor.state.doc.length, insert: program },
    selection: { anchor: 0 },
  });
}

function apply(fix: Fix): void {
  const doc = editor.state.doc;
  editor.dispatch({ changes: fix.edits.map((edit) => ({ ...span(doc, edit), insert: edit.content })) });
  editor.focus();
}

// The findings

function show(): void {
  const doc = editor.state.doc;
  const diagnostics = findings.map((finding, index): Diagnostic => {
    const { from, to } = span(doc, finding);
    return {
      from,
      to: to > from ? to : doc.lineAt(from).to,
      severity: finding.severity,
      message: finding.message,
      renderMessage: () => element('div', 'tc-message', headline(finding), storyOf(finding)),
      actions: (fixes[index] ?? []).map((fix) => ({ name: named(fix), apply: () => apply(fix) })),
    };
  });
  editor.dispatch(setDiagnostics(editor.state, diagnostics));
  const first = findings[0];
  if (first && reveals) {
    // Within the editor alone: the page is where its reader has scrolled it.
    const { scrollDOM } = editor;
    scrollDOM.scrollTop = editor.lineBlockAt(span(doc, first).from).top - scrollDOM.clientHeight / 2;
  }
  reveals = false;
  list.replaceChildren(...findings.map(card));
  if (findings.length === 0) list.append(element('p', 'tc-none', 'No problems found.'));
}

const named = (fix: Fix) => (fix.applicability === 'safe' ? fix.message : `${fix.message} (unsafe)`);

function headline(finding: Finding): HTMLElement {
  const code = finding.url
    ? Object.assign(element('a', 'tc-code', finding.code), { href: pageOf(finding.url) })
    : element('span', 'tc-code', finding.code);
  return element('p', `tc-headline tc-${finding.severity}`, code, ' ', inline(finding.message));
}

/** A rule's page on this very site: the address in a finding names the published one. */
function pageOf(url: string): string {
  const rule = url.split('/rules/')[1];
  return rule ? here(`../rules/${rule}`) : url;
}

function storyOf(finding: Finding): HTMLElement {
  const lines = finding.related
    .toSorted((a, b) => a.location.row - b.location.row)
    .map((label) => {
      const go = element('button', 'tc-line', `line ${label.location.row}`);
      go.type = 'button';
      go.onclick = () => choose(finding, label);
      return element('li', `tc-part tc-${label.role}`, go, ' ', inline(label.message));
    });
  const notes = finding.notes.map((note) => element('li', 'tc-note', inline(note)));
  const help = finding.help
    ? [element('li', 'tc-help', element('b', '', 'help: '), inline(finding.help))]
    : [];
  return element('ul', 'tc-story', ...lines, ...notes, ...help);
}

function choose(finding: Finding, place: Range = finding): void {
  const { from } = span(editor.state.doc, place);
  editor.dispatch({
    selection: { anchor: from },
    effects: [related.of(finding), EditorView.scrollIntoView(from)],
  });
  editor.focus();
}

function card(finding: Finding, index: number): HTMLElement {
  const title = headline(finding);
  const go = element('button', 'tc-line', `line ${finding.location.row}`);
  go.type = 'button';
  go.onclick = () => choose(finding);
  title.append(' ', go);
  const buttons = (fixes[index] ?? []).map((fix) => {
    const button = element('button', `tc-fix tc-fix-${fix.applicability}`, inline(named(fix)));
    button.type = 'button';
    button.title = fix.changes;
    button.onclick = () => apply(fix);
    return button;
  });
  const waits = fixes[index] === undefined && finding.code.startsWith('TAPE');
  const foot = waits ? [element('span', 'tc-waiting', 'Trying fixes …')] : buttons;
  return element('article', 'tc-finding', title, storyOf(finding), element('div', 'tc-fixes', ...foot));
}

// The page

async function offerExamples(): Promise<Example[]> {
  const select = part<HTMLSelectElement>('examples');
  const examples = (await (await fetch(here('examples.json'))).json()) as Example[];
  const groups = new Map<string, HTMLOptGroupElement>();
  for (const [index, example] of examples.entries()) {
    let group = groups.get(example.group);
    if (!group) {
      group = document.createElement('optgroup');
      group.label = example.group;
      groups.set(example.group, group);
      select.append(group);
    }
    group.append(new Option(example.title, String(index)));
  }
  select.onchange = () => {
    const chosen = examples[Number(select.value)];
    if (chosen) write(chosen.program);
  };
  return examples;
}

part('share').onclick = async () => {
  const url = new URL(location.href);
  url.hash = await toFragment(editor.state.doc.toString());
  window.history.replaceState(null, '', url);
  const shared = part('shared');
  try {
    await navigator.clipboard.writeText(url.href);
    shared.textContent = 'Link copied.';
  } catch {
    shared.textContent = 'The link is in the address bar.';
  }
};

part('draw').onclick = () => {
  picture.hidden = !picture.hidden;
  part('draw').setAttribute('aria-expanded', String(!picture.hidden));
  if (!picture.hidden && root.dataset.state === 'done') ask({ kind: 'picture', id: asked });
};

async function openAddress(): Promise<boolean> {
  const shared = await fromFragment(location.hash);
  if (shared === undefined) return false;
  const hash = location.hash;
  write(shared);
  window.history.replaceState(null, '', hash);
  return true;
}

window.addEventListener('hashchange', openAddress);
root.hidden = false;
startWorker();
const [examples, opened] = await Promise.all([offerExamples(), openAddress()]);
if (!opened && examples[0]) write(examples[0].program);
