import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeRun, readRunResult } from '../../../client/src/summary';

const result = (change: object) =>
  readRunResult({ exit: 0, confirmed: 0, refuted: 0, notReached: 0, found: 0, summary: '', ...change });

test('an answer that is none is told as a failure', () => {
  for (const raw of [undefined, null, 'done', {}, { exit: '0' }]) {
    assert.equal(readRunResult(raw), undefined);
  }
  assert.deepEqual(describeRun('a.py', undefined), {
    level: 'error',
    text: 'Tapecheck: the run of a.py returned no result.',
  });
});

test('the server’s own sentence is shown', () => {
  const message = describeRun('a.py', result({ exit: 1, confirmed: 1, summary: ' 1 finding confirmed ' }));
  assert.deepEqual(message, { level: 'warning', text: 'Tapecheck: a.py: 1 finding confirmed' });
});

test('without one, the counts', () => {
  assert.equal(describeRun('a.py', result({ refuted: 2 })).text, 'Tapecheck: a.py: 0 confirmed, 2 refuted');
  assert.equal(
    describeRun('a.py', result({ exit: 1, confirmed: 1, notReached: 3, found: 2 })).text,
    'Tapecheck: a.py: 1 confirmed, 0 refuted, 3 not reached, 2 found at run time',
  );
});

test('the level follows what was seen', () => {
  assert.equal(describeRun('a.py', result({ refuted: 1 })).level, 'info');
  assert.equal(describeRun('a.py', result({ exit: 1, found: 1 })).level, 'warning');
  assert.equal(describeRun('a.py', result({ exit: 2, summary: 'no torch there' })).level, 'error');
});

test('a run in which nothing was looked at is a warning, with what helps', () => {
  const summary = 'models.py trains nothing when it is run';
  const result = readRunResult({ exit: 3, summary, next: 'program' });
  assert.equal(result?.next, 'program');
  assert.deepEqual(describeRun('models.py', result), { level: 'warning', text: `Tapecheck: ${summary}` });
  const failed = readRunResult({
    exit: 2,
    summary: 'train.py: ended before training: no data',
    next: 'configure',
  });
  assert.equal(describeRun('train.py', failed).level, 'error');
  assert.equal(readRunResult({ exit: 0, summary: '', next: 'something newer' })?.next, undefined);
});
