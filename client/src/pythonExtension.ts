/** The environment chosen in Microsoft's Python extension, where that extension is installed. */

import { PythonExtension } from '@vscode/python-extension';
import * as vscode from 'vscode';

export const PYTHON_EXTENSION_ID = 'ms-python.python';

/** Its answer is waited for at most this long: discovery of environments can take minutes on a slow disk. */
const PATIENCE_MS = 10_000;

/** The active interpreter's executable, or undefined where there is no Python extension or it does not answer. */
export async function activeInterpreter(
  resource: vscode.Uri | undefined,
  log: vscode.LogOutputChannel,
): Promise<string | undefined> {
  if (vscode.extensions.getExtension(PYTHON_EXTENSION_ID) === undefined) return undefined;
  const ask = async () => {
    const api = await PythonExtension.api();
    const environment = await api.environments.resolveEnvironment(
      api.environments.getActiveEnvironmentPath(resource),
    );
    return environment?.executable.uri?.fsPath;
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      log.warn(
        `the Python extension returned no environment within ${PATIENCE_MS / 1000} seconds; continuing without it`,
      );
      resolve(undefined);
    }, PATIENCE_MS);
  });
  try {
    return await Promise.race([ask(), late]);
  } catch (error) {
    log.warn(`the Python extension returned no environment: ${error}`);
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Calls `changed` whenever another environment is chosen in the Python extension. */
export async function watchInterpreter(changed: () => void): Promise<vscode.Disposable | undefined> {
  if (vscode.extensions.getExtension(PYTHON_EXTENSION_ID) === undefined) return undefined;
  try {
    const api = await PythonExtension.api();
    return api.environments.onDidChangeActiveEnvironmentPath(changed);
  } catch {
    return undefined;
  }
}
