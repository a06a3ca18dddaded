// Pieces that several pages have.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Column, Row, SqlError } from "./api";
import { isNumber } from "./format";

export function Fault({ error }: { error: SqlError }) {
  return (
    <div class="fault" role="alert">
      <strong>{error.code ? `${error.severity ?? "ERROR"} ${error.code}` : "Error"}</strong>{" "}
      {error.message}
      {error.detail && <p>DETAIL: {error.detail}</p>}
      {error.hint && <p>HINT: {error.hint}</p>}
    </div>
  );
}

export function Card(props: { title: string; children: ComponentChildren; class?: string }) {
  return (
    <section class={`card ${props.class ?? ""}`} aria-label={props.title}>
      <h2>{props.title}</h2>
      {props.children}
    </section>
  );
}

/** Copies on a click; the whole text is its description, and what a hover tells. */
export function Hash({ value, shown = 10 }: { value: string | undefined; shown?: number }) {
  const [copied, setCopied] = useState(false);
  if (!value) return <span class="quiet">–</span>;
  const copy = async (event: Event) => {
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(value);
      setCopied(true);
      setTimeout(() => setCopied(false), 1200);
    } catch {
      // Pages that are not secure have no clipboard.
    }
  };
  const cut = value.length > shown ? `${value.slice(0, shown)}…` : value;
  const text = copied ? "copied" : cut;
  return (
    <button
      type="button"
      class="hash"
      title={`${value}: copy`}
      aria-label={copied ? text : `Copy ${text}`}
      onClick={copy}
    >
      {text}
    </button>
  );
}

const ROW_HEIGHT = 30;
const BEYOND = 12;
const WIDTH_MAX = 46;

interface TableProps {
  columns: Column[];
  rows: Row[];
  label: string;
  /** With it rows can be chosen. */
  onChoose?: (row: Row, index: number) => void;
  chosen?: number;
}

/** However many rows there are, those that can be seen are in the page. */
export function Table({ columns, rows, label, onChoose, chosen }: TableProps) {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(480);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const seen = new ResizeObserver(() => setHeight(element.clientHeight));
    seen.observe(element);
    return () => seen.disconnect();
  }, []);
  useEffect(() => {
    if (frame.current) frame.current.scrollTop = 0;
    setTop(0);
  }, [rows]);
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - BEYOND);
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_HEIGHT) + BEYOND);
  const widths = columns.map((column, at) => {
    let width = Math.max(column.name.length, 4);
    for (const row of rows.slice(0, 200)) width = Math.max(width, row[at]?.length ?? 4);
    return Math.min(width, WIDTH_MAX);
  });
  const keys = (event: KeyboardEvent, index: number) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onChoose?.(rows[index]!, index);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const row = event.currentTarget as HTMLElement;
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    if (next instanceof HTMLElement && next.tabIndex >= 0) next.focus();
  };
  return (
    <div
      class="table"
      ref={frame}
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table
        aria-rowcount={rows.length}
        style={{ width: `${widths.reduce((sum, it) => sum + it + 3, 2)}ch` }}
      >
        <colgroup>
          {widths.map((width) => (
            <col style={{ width: `${width + 3}ch` }} />
          ))}
          <col />
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" title={column.type} class={isNumber(column.type) ? "number" : ""}>
                {column.name}
              </th>
            ))}
            <td aria-hidden="true" class="rest" />
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="space" style={{ height: `${first * ROW_HEIGHT}px` }} />}
          {rows.slice(first, last).map((row, at) => (
            <tr
              key={first + at}
              aria-rowindex={first + at + 1}
              aria-selected={onChoose ? chosen === first + at : undefined}
              tabIndex={onChoose ? 0 : undefined}
              class={onChoose ? "choice" : ""}
              onClick={() => onChoose?.(row, first + at)}
              onKeyDown={onChoose ? (event) => keys(event, first + at) : undefined}
            >
              {columns.map((column, cell) => (
                <td class={isNumber(column.type) ? "number" : ""} title={row[cell] ?? "NULL"}>
                  {row[cell] === null ? <span class="null">NULL</span> : row[cell]}
                </td>
              ))}
              <td aria-hidden="true" class="rest" />
            </tr>
          ))}
          {last < rows.length && (
            <tr class="space" style={{ height: `${(rows.length - last) * ROW_HEIGHT}px` }} />
          )}
        </tbody>
      </table>
    </div>
  );
}
