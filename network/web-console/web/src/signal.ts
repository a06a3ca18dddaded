// Values that components watch.

import { useEffect, useState } from "preact/hooks";

export interface Signal<T> {
  value: T;
  watch(watcher: (value: T) => void): () => void;
}

export function signal<T>(first: T): Signal<T> {
  let value = first;
  const watchers = new Set<(value: T) => void>();
  return {
    get value() {
      return value;
    },
    set value(next: T) {
      if (next === value) return;
      value = next;
      for (const watcher of watchers) watcher(next);
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

export function useSignal<T>(watched: Signal<T>): T {
  const [value, set] = useState(watched.value);
  useEffect(() => {
    set(() => watched.value);
    return watched.watch((next) => set(() => next));
  }, [watched]);
  return value;
}

/** A value that this browser keeps. */
export function stored<T>(name: string, first: T): Signal<T> {
  const key = `tally.${name}`;
  let initial = first;
  try {
    const text = localStorage.getItem(key);
    if (text !== null) initial = JSON.parse(text);
  } catch {
    // What cannot be read is begun anew.
  }
  const held = signal(initial);
  held.watch((value) => {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // Kept until the page is closed.
    }
  });
  return held;
}
