// Listens on the socket named in TAPECHECK_DRIVER: each line is {id, source, argument}; the function in `source`
// is called with the vscode module, helpers and the argument, and its answer goes back as {id, value | error}.
const net = require('node:net');
const readline = require('node:readline');
const vscode = require('vscode');

const helpers = {
  /**
   * Waits until a function gives something true, and returns that.
   * @template T
   * @param {() => T | Promise<T>} get
   * @param {number} [timeoutMs]
   * @returns {Promise<T>}
   */
  async until(get, timeoutMs = 20_000) {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const value = await get();
      if (value) return value;
      if (Date.now() > end) throw new Error(`waited ${timeoutMs} ms in vain for ${get}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  },
};

exports.activate = () => {
  const socket = process.env.TAPECHECK_DRIVER;
  if (!socket) return;
  const server = net.createServer((connection) => {
    connection.on('error', () => {});
    readline.createInterface({ input: connection }).on('line', async (line) => {
      const { id, source, argument } = JSON.parse(line);
      let answer;
      try {
        const call = new Function(`return (${source})`)();
        answer = { id, value: (await call(vscode, argument, helpers)) ?? null };
      } catch (error) {
        answer = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
      }
      connection.write(`${JSON.stringify(answer)}\n`);
    });
  });
  server.listen(socket);
};
