import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RestartBudget } from '../../../client/src/restarts';

test('a server that dies each time is given up, one that dies now and then is not', () => {
  let now = 0;
  const budget = new RestartBudget(3, 1000, () => now);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => budget.spend()),
    [true, true, true, false],
  );
  now = 5000;
  assert.equal(budget.spend(), true);
  for (let day = 1; day < 20; day++) {
    now += 600;
    assert.equal(budget.spend(), true);
  }
});
