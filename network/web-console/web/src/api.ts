// What the pages ask the node: always the one that they were loaded from.

import { signal } from "./signal";

export interface SqlError {
  code?: string;
  severity?: string;
  message: string;
  detail?: string | null;
  hint?: string | null;
  position?: number | null;
}

export interface Column {
  name: string;
  type: string;
}

export type Row = (string | null)[];

export interface Answer {
  columns: Column[];
  rows: Row[];
  count: number | null;
  truncated: boolean;
  notices: SqlError[];
  elapsed_ms: number;
}

export interface Session {
  user: string;
  writes: boolean;
}

/** An error that is shown as the node says it. */
export class Failed extends Error {
  constructor(
    readonly error: SqlError,
    readonly status: number,
  ) {
    super(error.message);
  }
}

/** Whether the node answers, as the last request found. */
export const isConnected = signal(true);
/** Undefined until it is known. */
export const session = signal<Session | null | undefined>(undefined);

const WITHIN_MS = 16_000;

export async function call<T>(path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { signal: AbortSignal.timeout(WITHIN_MS) };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { "content-type": "application/json", "x-tally-console": "1" };
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(`/console/${path}`, init);
  } catch {
    isConnected.value = false;
    throw new Failed({ message: "the node does not answer" }, 0);
  }
  isConnected.value = true;
  if (response.status === 204) return undefined as T;
  let answer: { error?: SqlError };
  try {
    answer = await response.json();
  } catch {
    throw new Failed({ message: "the node's answer was cut" }, response.status);
  }
  if (response.status === 401 && path !== "login") session.value = null;
  if (answer.error) throw new Failed(answer.error, response.status);
  return answer as T;
}

export interface Query {
  sql: string;
  parameters?: (string | null)[];
  as_of_block?: number;
  row_max?: number;
}

export const query = (asked: Query) => call<Answer>("query", asked);

/** The one value of an answer. */
export async function value(sql: string, parameters: (string | null)[] = []): Promise<string> {
  const answer = await query({ sql, parameters });
  return answer.rows[0]?.[0] ?? "";
}

export const asError = (error: unknown): SqlError =>
  error instanceof Failed ? error.error : { message: String(error) };
