// The little Markdown of hovers and messages as elements: paragraphs, lists, `code`, **bold** and blocks of code.
// Nothing is parsed as HTML, so that a program cannot put any into the page.

export function rendered(markdown: string): DocumentFragment {
  const all = document.createDocumentFragment();
  let list: HTMLUListElement | undefined;
  let block: HTMLElement | undefined;
  for (const line of markdown.split('\n')) {
    if (line.startsWith('```')) {
      const opens = block === undefined;
      block = opens ? document.createElement('pre') : undefined;
      if (block) all.append(block);
      list = undefined;
    } else if (block) {
      block.append(`${line}\n`);
    } else if (line.startsWith('- ')) {
      if (!list) {
        list = document.createElement('ul');
        all.append(list);
      }
      const item = document.createElement('li');
      item.append(inline(line.slice(2)));
      list.append(item);
    } else {
      list = undefined;
      if (line.trim() === '') continue;
      const paragraph = document.createElement('p');
      paragraph.append(inline(line));
      all.append(paragraph);
    }
  }
  return all;
}

export function inline(text: string): DocumentFragment {
  const all = document.createDocumentFragment();
  for (const part of text.split(/(\*\*.+?\*\*|`[^`]+`)/)) {
    if (part.startsWith('**') && part.endsWith('**') && part.length > 4) {
      const bold = document.createElement('strong');
      bold.append(inline(part.slice(2, -2)));
      all.append(bold);
    } else if (part.startsWith('`') && part.endsWith('`') && part.length > 2) {
      const code = document.createElement('code');
      code.textContent = part.slice(1, -1);
      all.append(code);
    } else {
      all.append(part);
    }
  }
  return all;
}
