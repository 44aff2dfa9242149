/** How often a server that dies is started again: a bug that kills it each time must not loop for ever. */
export class RestartBudget {
  private readonly deaths: number[] = [];

  /** At most `allowed` restarts within `windowMs` milliseconds. */
  constructor(
    private readonly allowed: number,
    private readonly windowMs: number,
    private readonly now: () => number = Date.now,
  ) {}

  /** Called when the server has died: whether it may be started again. */
  spend(): boolean {
    const now = this.now();
    this.deaths.push(now);
    while (this.deaths.length > 0 && now - (this.deaths[0] ?? now) > this.windowMs) this.deaths.shift();
    return this.deaths.length <= this.allowed;
  }
}
