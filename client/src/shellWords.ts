/** Command lines as people type them: words apart by blanks, quotes around those with blanks in them. */

/** The words of a line; undefined where a quote is not closed. A backslash takes the next character as it is. */
export function splitArguments(line: string): string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let index = 0; index < line.length; index++) {
    const character = line.charAt(index);
    if (character === '\\' && quote !== "'" && /["'\\\s]/.test(line.charAt(index + 1))) {
      word = (word ?? '') + line.charAt(++index);
    } else if (quote !== undefined) {
      if (character === quote) quote = undefined;
      else word = (word ?? '') + character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== undefined) return undefined;
  if (word !== undefined) words.push(word);
  return words;
}

/** A line that `splitArguments` takes apart into the same words. */
export function joinArguments(words: readonly string[]): string {
  return words
    .map((word) =>
      /^[^\s"'\\]+$/.test(word) ? word : `"${word.replace(/["\\]/g, (character) => `\\${character}`)}"`,
    )
    .join(' ');
}
