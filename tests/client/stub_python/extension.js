// The active environment is the interpreter named in STUB_PYTHON, or the one last given to `test.setPython`.
const vscode = require('vscode');

exports.activate = () => {
  let executable = process.env.STUB_PYTHON ?? '';
  const changed = new vscode.EventEmitter();
  vscode.commands.registerCommand('test.setPython', (file) => {
    executable = file;
    changed.fire({ id: file, path: file, resource: undefined });
  });
  return {
    ready: Promise.resolve(),
    environments: {
      known: [],
      onDidChangeActiveEnvironmentPath: changed.event,
      getActiveEnvironmentPath: () => ({ id: executable, path: executable }),
      resolveEnvironment: async (/** @type {{ id: string, path: string }} */ environment) => ({
        ...environment,
        executable: { uri: environment.path ? vscode.Uri.file(environment.path) : undefined },
      }),
    },
  };
};
