/** Asks an interpreter, before a server is started in it, whether the server's modules are there. */

import { execFile } from 'node:child_process';

export interface ProbeSuccess {
  ok: true;
  /** `sys.executable` of the interpreter. */
  executable: string;
  /** Python version, `3.11.7`. */
  version: string;
  /** Version of the tapecheck package. */
  tapecheck: string;
  /** Version of the torch that recorded runs in it would use; undefined where there is none. */
  torch: string | undefined;
  /** What that torch computes on, "CUDA 12.6", "CUDA", "ROCm" or "CPU"; undefined without torch. */
  device?: string | undefined;
}

export interface ProbeFailure {
  ok: false;
  reason: 'not-found' | 'too-old' | 'missing-modules' | 'timeout' | 'failed';
  /** One line for a person. */
  detail: string;
  executable?: string;
  version?: string;
  missing?: string[];
  torch?: string | undefined;
  device?: string | undefined;
}

export type Probe = ProbeSuccess | ProbeFailure;

export const REQUIRED_PYTHON: readonly [number, number] = [3, 10];

/** Modules the server cannot start without. */
export const REQUIRED_MODULES: readonly string[] = ['tapecheck', 'pygls', 'lsprotocol', 'attrs', 'cattrs'];

// Finds the modules without importing them: an import of lsprotocol alone takes as long as the whole probe, one of
// torch far longer.
// Written for old interpreters too, so that these can say how old they are.
const SCRIPT = `
import json, sys
sys.path[0:0] = sys.argv[1:]
out = {"executable": sys.executable, "version": ".".join(map(str, sys.version_info[:3])), "missing": []}
try:
    from importlib.metadata import version
    out["torch"] = version("torch")
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"):
        try:
            out["cuda"] = version(name)
            break
        except Exception:
            pass
except Exception:
    pass
if sys.version_info >= (${REQUIRED_PYTHON.join(', ')}):
    from importlib.util import find_spec
    out["missing"] = [name for name in ${JSON.stringify(REQUIRED_MODULES)} if find_spec(name) is None]
    if "tapecheck" not in out["missing"]:
        try:
            import tapecheck
            out["tapecheck"] = str(getattr(tapecheck, "__version__", "unknown"))
        except Exception as error:
            out["error"] = "%s: %s" % (type(error).__name__, error)
sys.stdout.write("\\n" + json.dumps(out) + "\\n")
`;

export interface ProbeOptions {
  /** A folder whose packages are imported before the interpreter's own. */
  libraries?: string | undefined;
  /** Must be a folder without Python files of strangers, since Python puts it on `sys.path`. */
  cwd: string;
  env: NodeJS.ProcessEnv;
  timeoutMs?: number;
}

/** Runs the interpreter once. Never throws: whatever goes wrong is a `ProbeFailure`. */
export function probe(command: readonly string[], options: ProbeOptions): Promise<Probe> {
  const [program = '', ...rest] = command;
  const timeout = options.timeoutMs ?? 15_000;
  return new Promise((resolve) => {
    execFile(
      program,
      [...rest, '-c', SCRIPT, ...(options.libraries === undefined ? [] : [options.libraries])],
      { env: options.env, cwd: options.cwd, timeout, killSignal: 'SIGKILL', windowsHide: true },
      (error, stdout, stderr) => {
        const shown = command.join(' ');
        if (error === null) {
          resolve(readAnswer(shown, stdout));
        } else if (error.code === 'ENOENT' || error.code === 'EACCES' || error.code === 'ENOTDIR') {
          resolve({
            ok: false,
            reason: 'not-found',
            detail: `${shown} is not an executable program`,
          });
        } else if (error.killed) {
          resolve({
            ok: false,
            reason: 'timeout',
            detail: `${shown} did not respond within ${timeout / 1000} seconds`,
          });
        } else {
          const last = stderr.trim().split('\n').at(-1) || error.message;
          resolve({ ok: false, reason: 'failed', detail: `${shown} failed: ${last}` });
        }
      },
    );
  });
}

/** Reads what the probe printed; site customisations may have printed lines of their own before it. */
export function readAnswer(shown: string, stdout: string): Probe {
  let answer: {
    executable: string;
    version: string;
    missing: string[];
    torch?: string;
    cuda?: string;
    tapecheck?: string;
    error?: string;
  };
  try {
    answer = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    if (typeof answer.version !== 'string' || !Array.isArray(answer.missing)) throw new Error('no answer');
  } catch {
    return { ok: false, reason: 'failed', detail: `${shown} is not a Python interpreter` };
  }
  const { executable, version, missing, torch } = answer;
  const device = deviceOf(torch, answer.cuda);
  if (isTooOld(version)) {
    const detail = `${shown} is Python ${version}; the Tapecheck server needs ${REQUIRED_PYTHON.join('.')} or later`;
    return { ok: false, reason: 'too-old', detail, executable, version, torch, device };
  }
  if (missing.length > 0) {
    const detail = `${shown} (Python ${version}) lacks ${missing.join(', ')}`;
    return { ok: false, reason: 'missing-modules', detail, executable, version, missing, torch, device };
  }
  if (answer.error !== undefined) {
    const detail = `${shown} (Python ${version}) cannot import tapecheck: ${answer.error}`;
    return { ok: false, reason: 'failed', detail, executable, version };
  }
  return {
    ok: true,
    executable,
    version,
    tapecheck: answer.tapecheck ?? 'unknown',
    torch,
    device,
  };
}

/** What a torch computes on: its version says so ("2.6.0+cu126"), else whether CUDA's runtime was installed with it. */
function deviceOf(torch: string | undefined, cuda: string | undefined): string | undefined {
  if (torch === undefined) return undefined;
  const label = torch.split('+')[1] ?? '';
  const named = /^cu(\d+)(\d)$/.exec(label);
  if (named) return `CUDA ${named[1]}.${named[2]}`;
  if (label.startsWith('rocm')) return 'ROCm';
  if (label.startsWith('cpu') || cuda === undefined) return 'CPU';
  return `CUDA ${cuda.split('.').slice(0, 2).join('.')}`;
}

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < REQUIRED_PYTHON[0] || (major === REQUIRED_PYTHON[0] && minor < REQUIRED_PYTHON[1]);
}
