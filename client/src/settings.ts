/** The `tapecheck.*` settings: their types, and how raw values from the editor become them. */

export type ImportStrategy = 'useBundled' | 'fromEnvironment';
export type Severity = 'error' | 'warning' | 'info' | 'hint';

export interface Settings {
  enable: boolean;
  interpreter: string[];
  path: string[];
  importStrategy: ImportStrategy;
  select: string[];
  ignore: string[];
  severity: Record<string, Severity>;
  diagnosticMode: 'openFilesOnly' | 'workspace';
  lint: { run: 'onType' | 'onSave' };
  run: {
    /** Seconds. */
    timeout: number;
    /** Training iterations. */
    maxIterations: number;
    arguments: string[];
    /** Empty: the workspace folder. */
    cwd: string;
    env: Record<string, string>;
    /** Empty: the interpreter alone. */
    launcher: string[];
  };
  lens: { enable: boolean; loops: boolean; backwards: boolean };
  inlayHints: { enable: boolean };
  trace: { server: 'off' | 'messages' | 'verbose' };
}

export const DEFAULTS: Settings = {
  enable: true,
  interpreter: [],
  path: [],
  importStrategy: 'useBundled',
  select: [],
  ignore: [],
  severity: {},
  diagnosticMode: 'openFilesOnly',
  lint: { run: 'onType' },
  run: { timeout: 300, maxIterations: 20, arguments: [], cwd: '', env: {}, launcher: [] },
  lens: { enable: true, loops: true, backwards: true },
  inlayHints: { enable: false },
  trace: { server: 'off' },
};

const SEVERITIES: readonly Severity[] = ['error', 'warning', 'info', 'hint'];
const TRACES = ['off', 'messages', 'verbose'] as const;
const MODES = ['openFilesOnly', 'workspace'] as const;
const LINT_RUNS = ['onType', 'onSave'] as const;
const STRATEGIES: readonly ImportStrategy[] = ['useBundled', 'fromEnvironment'];

/**
 * Settings out of whatever the editor holds. A value of the wrong type is replaced by its default and
 * named to `complain`: a typing slip in settings.json must not stop the server.
 */
export function readSettings(raw: unknown, complain: (message: string) => void = () => {}): Settings {
  const top = asRecord(raw);
  const run = asRecord(top.run);
  const lens = asRecord(top.lens);
  const lint = asRecord(top.lint);
  const inlayHints = asRecord(top.inlayHints);
  const trace = asRecord(top.trace);

  function check<T>(
    name: string,
    value: unknown,
    fallback: T,
    valid: (value: unknown) => value is T,
    what: string,
  ): T {
    if (value === undefined || value === null) return fallback;
    if (valid(value)) return value;
    complain(
      `the setting tapecheck.${name} must be ${what}, not ${JSON.stringify(value)}; using the default`,
    );
    return fallback;
  }
  const flag = (name: string, value: unknown, fallback: boolean) =>
    check(name, value, fallback, isBoolean, 'true or false');
  const words = (name: string, value: unknown) =>
    check(name, value, [] as string[], isStrings, 'a list of strings');
  const choice = <T extends string>(name: string, value: unknown, allowed: readonly T[], fallback: T) =>
    check(name, value, fallback, oneOf(allowed), `one of ${allowed.join(', ')}`);

  /** A level that does not exist costs its own rule alone. */
  function severities(value: unknown): Record<string, Severity> {
    const given = Object.entries(check('severity', value, {}, isObject, 'an object'));
    const isSeverity = oneOf(SEVERITIES);
    const known = given.filter((entry): entry is [string, Severity] => isSeverity(entry[1]));
    for (const [rule, level] of given.filter((entry) => !isSeverity(entry[1]))) {
      const off = level === 'off' ? ' (tapecheck.ignore switches a rule off)' : '';
      complain(
        `the setting tapecheck.severity has ${JSON.stringify(level)} for ${rule}, which is none of ${SEVERITIES.join(', ')}${off}`,
      );
    }
    return Object.fromEntries(known);
  }

  return {
    enable: flag('enable', top.enable, DEFAULTS.enable),
    interpreter: words('interpreter', top.interpreter),
    path: words('path', top.path),
    importStrategy: choice('importStrategy', top.importStrategy, STRATEGIES, DEFAULTS.importStrategy),
    select: words('select', top.select),
    ignore: words('ignore', top.ignore),
    severity: severities(top.severity),
    diagnosticMode: choice('diagnosticMode', top.diagnosticMode, MODES, DEFAULTS.diagnosticMode),
    lint: { run: choice('lint.run', lint.run, LINT_RUNS, DEFAULTS.lint.run) },
    run: {
      timeout: check('run.timeout', run.timeout, DEFAULTS.run.timeout, isPositive, 'a positive number'),
      maxIterations: check(
        'run.maxIterations',
        run.maxIterations,
        DEFAULTS.run.maxIterations,
        isPositiveInteger,
        'a positive integer',
      ),
      arguments: words('run.arguments', run.arguments),
      cwd: check('run.cwd', run.cwd, DEFAULTS.run.cwd, isString, 'a string'),
      env: check('run.env', run.env, DEFAULTS.run.env, isTexts, 'an object whose values are strings'),
      launcher: words('run.launcher', run.launcher),
    },
    lens: {
      enable: flag('lens.enable', lens.enable, DEFAULTS.lens.enable),
      loops: flag('lens.loops', lens.loops, DEFAULTS.lens.loops),
      backwards: flag('lens.backwards', lens.backwards, DEFAULTS.lens.backwards),
    },
    inlayHints: {
      enable: flag('inlayHints.enable', inlayHints.enable, DEFAULTS.inlayHints.enable),
    },
    trace: { server: choice('trace.server', trace.server, TRACES, DEFAULTS.trace.server) },
  };
}

/** What the server is told: the settings, with the interpreter that was found in place of the one wished for. */
export function serverSettings(settings: Settings, runInterpreter: readonly string[]): Settings {
  return {
    ...settings,
    interpreter: runInterpreter.length > 0 ? [...runInterpreter] : settings.interpreter,
  };
}

/** Whether a change can only take effect in a new server process. */
export function needsRestart(before: Settings, after: Settings): boolean {
  const launch = (s: Settings) => JSON.stringify([s.interpreter, s.path, s.importStrategy]);
  return launch(before) !== launch(after);
}

/** The settings of a folder or file with the variables in them replaced. */
export function expandedSettings(settings: Settings, context: VariableContext): Settings {
  const expand = (values: readonly string[]) => expandVariables(values, context);
  const { run } = settings;
  return {
    ...settings,
    run: {
      ...run,
      arguments: expand(run.arguments),
      launcher: expand(run.launcher),
      cwd: expand([run.cwd])[0] ?? '',
      env: Object.fromEntries(
        Object.entries(run.env).map(([name, value]) => [name, expand([value])[0] ?? '']),
      ),
    },
  };
}

export interface VariableContext {
  workspaceFolder: string | undefined;
  userHome: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** Replaces `${workspaceFolder}`, `${userHome}` and `${env:NAME}`; a leading `~/` is the home folder. */
export function expandVariables(values: readonly string[], context: VariableContext): string[] {
  return values.map((value) =>
    value
      .replace(/^~(?=[/\\])/, () => context.userHome)
      .replace(/\$\{workspaceFolder\}/g, (whole) => context.workspaceFolder ?? whole)
      .replace(/\$\{userHome\}/g, () => context.userHome)
      .replace(/\$\{env:([^}]+)\}/g, (_whole, name: string) => context.env[name] ?? ''),
  );
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function isTexts(value: unknown): value is Record<string, string> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((item) => typeof item === 'string')
  );
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function isPositive(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}

function isPositiveInteger(value: unknown): value is number {
  return isPositive(value) && Number.isInteger(value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function oneOf<T extends string>(allowed: readonly T[]): (value: unknown) => value is T {
  return (value): value is T => allowed.includes(value as T);
}
