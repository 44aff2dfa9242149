import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinArguments, splitArguments } from '../../../client/src/shellWords';

test('command lines are taken apart as a shell does', () => {
  for (const [line, words] of [
    ['', []],
    ['  --lr 0.1\t-v ', ['--lr', '0.1', '-v']],
    [`--name "a b" 'c "d"'`, ['--name', 'a b', 'c "d"']],
    ['a"b c"d \'\'', ['ab cd', '']],
    ['a\\ b \\"c', ['a b', '"c']],
    ['C:\\data\\x', ['C:\\data\\x']],
  ] as const) {
    assert.deepEqual(splitArguments(line), words, line);
  }
  assert.equal(splitArguments('"open'), undefined);
});

test('words survive the way to a line and back', () => {
  for (const words of [[], ['a'], ['a b', '', 'c"d', "e'f"], ['\\', 'g\\ h', 'C:\\x y\\']]) {
    assert.deepEqual(splitArguments(joinArguments(words)), words);
  }
});
