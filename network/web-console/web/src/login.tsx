import { useState } from "preact/hooks";
import { asError, call, session, type Session, type SqlError } from "./api";
import { Fault } from "./parts";

/** What a login takes. */
export interface Way {
  login: "password" | "token";
  owner: string;
}

export function Login({ way }: { way: Way }) {
  const [error, setError] = useState<SqlError>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const said = (name: string) => String(form.get(name) ?? "");
    setBusy(true);
    try {
      const asked = {
        user: said("user"),
        password: said("password"),
        token: said("token").trim(),
        writes: form.has("writes"),
      };
      session.value = (await call<{ session: Session }>("login", asked)).session;
    } catch (error) {
      setError(asError(error));
    }
    setBusy(false);
  };
  return (
    <form class="card login" onSubmit={submit} aria-label="Log in">
      <h1>Log in</h1>
      <p class="quiet">
        {way.login === "password"
          ? "With a user of this node: the same names and passwords as for every client."
          : "This node has no passwords. Open the link that it printed at its start, or give the token from the file http-token in its data folder."}
      </p>
      <label>
        User
        <input
          name="user"
          autocomplete="username"
          defaultValue={way.owner}
          required
          key={way.owner}
        />
      </label>
      {way.login === "password" ? (
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" />
        </label>
      ) : (
        <label>
          Token
          <input name="token" type="password" autocomplete="off" required />
        </label>
      )}
      <label class="check">
        <input name="writes" type="checkbox" /> Allow writes
      </label>
      {error && <Fault error={error} />}
      <button type="submit" disabled={busy}>
        {busy ? "…" : "Log in"}
      </button>
    </form>
  );
}
