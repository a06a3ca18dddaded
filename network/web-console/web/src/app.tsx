// The frame around the pages: which one is shown, whether the node answers, who is logged in.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, isConnected, session, type Session } from "./api";
import { Blocks } from "./blocks";
import { Protocol } from "./conflicts";
import { integer } from "./format";
import { Login, type Way } from "./login";
import { Overview, observed, watchNode } from "./overview";
import { Query } from "./query";
import { Rows } from "./rows";
import { useSignal } from "./signal";

interface Page {
  name: string;
  title: string;
  shown: ComponentType<{ path: string[] }>;
  /** Whether it needs a session. */
  closed: boolean;
}

const PAGES: Page[] = [
  { name: "overview", title: "Overview", shown: Overview, closed: false },
  { name: "blocks", title: "Blocks", shown: Blocks, closed: true },
  { name: "rows", title: "Rows", shown: Rows, closed: true },
  { name: "protocol", title: "Protocol", shown: Protocol, closed: true },
  { name: "query", title: "Query", shown: Query, closed: true },
];

interface Shown {
  session: Session | null;
  login: "password" | "token";
  owner: string | null;
}

/** The token of the link that the node printed: taken out of the address at once. */
function takeToken(): string {
  const [, token] = location.hash.match(/^#token=([\w-]+)$/) ?? [];
  if (token) history.replaceState(null, "", "#/overview");
  return token ?? "";
}

/** Logs in once: a node that comes back, and has forgotten the session, asks again. */
let firstToken = takeToken();

const pathNow = () => location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);

export function App() {
  const [path, setPath] = useState(pathNow());
  const [way, setWay] = useState<Way>({ login: "password", owner: "" });
  const who = useSignal(session);
  const connected = useSignal(isConnected);
  useEffect(() => {
    // The link with a token, opened where the page is open already, begins it anew.
    const moved = () =>
      location.hash.startsWith("#token=") ? location.reload() : setPath(pathNow());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(watchNode, []);
  useEffect(() => {
    if (!connected) return;
    void begin(setWay).catch(() => undefined);
  }, [connected]);
  const page = PAGES.find((page) => page.name === path[0]) ?? PAGES[0]!;
  useEffect(() => {
    document.title = `${page.title} · tally`;
  }, [page]);
  const Shown = page.shown;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the page
      </a>
      <header>
        <a class="mark" href="#/overview">
          <img src="/favicon.svg" alt="" width="26" height="26" /> tally
        </a>
        <nav aria-label="Pages">
          {PAGES.map((it) => (
            <a href={`#/${it.name}`} aria-current={it === page ? "page" : undefined}>
              {it.title}
            </a>
          ))}
        </nav>
        <Status connected={connected} />
        {who && (
          <span class="who">
            {who.user} <span class="quiet">· {who.writes ? "may write" : "read-only"}</span>
            <button type="button" class="plain" onClick={leave}>
              Log out
            </button>
          </span>
        )}
      </header>
      {!connected && (
        <div class="banner" role="alert">
          The node does not answer. What is shown is from before; this page asks again every second.
        </div>
      )}
      <main id="main" tabIndex={-1}>
        {page.closed && !who ? (
          who === undefined ? (
            <p class="quiet">One moment…</p>
          ) : (
            <Login way={way} />
          )
        ) : (
          <Shown path={path.slice(1)} />
        )}
      </main>
    </>
  );
}

function skip(event: Event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

async function begin(setWay: (way: Way) => void) {
  const shown = await call<Shown>("session");
  setWay({ login: shown.login, owner: shown.owner ?? "" });
  if (!shown.session && shown.login === "token" && firstToken) {
    const asked = { user: shown.owner ?? "tally", token: firstToken, writes: false };
    try {
      const entered = await call<{ session: Session }>("login", asked);
      firstToken = "";
      session.value = entered.session;
      return;
    } catch {
      // The form says why. A node that did not answer is asked again.
      if (isConnected.value) firstToken = "";
    }
  }
  session.value = shown.session;
}

async function leave() {
  await call("logout", {}).catch(() => undefined);
  session.value = null;
}

function Status({ connected }: { connected: boolean }) {
  const overview = useSignal(observed);
  if (!connected) return <span class="status bad">disconnected</span>;
  if (!overview) return <span class="status">…</span>;
  const good = overview.phase === "ready" && !overview.hindrance;
  return (
    <span class={`status ${good ? "good" : "bad"}`} title={overview.hindrance ?? undefined}>
      {overview.phase === "ready" && overview.hindrance ? "no writes" : overview.phase}
      {overview.height !== undefined && <> · block {integer(overview.height)}</>}
    </span>
  );
}
