// The console in a real browser, before a real node. Run by `make test-console`:
//
//     TALLY=PROGRAM CHROMIUM=PROGRAM node --test test/browser.mjs
//
// With PICTURES=FOLDER it leaves its screenshots there; with MANY=1 it makes many blocks and rows;
// with BUNDLE=FOLDER the pages are those of the folder, before a program has them.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import axe from "axe-core";
import { chromium } from "playwright-core";
import { Signer, integer } from "../../../../clients/js/tally_sign.mjs";

const TALLY = process.env.TALLY ?? "tally";
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PICTURES = process.env.PICTURES;
const BUNDLE = process.env.BUNDLE;
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const ROWS = 20_000;
/** Some minutes by a debug build. */
const MANY = process.env.MANY;
const PAGES = ["overview", "blocks", "blocks/5", "rows/accounts/7", "protocol", "query"];

/** What a node says when it is ready. */
const readyOf = (child) =>
  new Promise((tell, fail) => {
    child.once("exit", (code) => fail(new Error(`the node ended: ${code}`)));
    child.stdout.once("data", (line) => tell(JSON.parse(line)));
  });

class Node {
  async start(listen = "127.0.0.1:0", http = "127.0.0.1:0", settings = []) {
    this.data ??= mkdtempSync(join(tmpdir(), "tally-console-"));
    this.child = spawn(
      TALLY,
      [
        "--output",
        "json",
        "serve",
        "--data",
        join(this.data, "ledger"),
        "--listen",
        listen,
        "--http-listen",
        http,
        "--set",
        "snapshot_retention=every 1 blocks keep 200",
        ...settings.flatMap((setting) => ["--set", setting]),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const ready = await readyOf(this.child);
    this.listen = ready.listen;
    this.http = ready.http_listen;
    this.base = `http://${this.http}`;
    this.token = readFileSync(join(this.data, "ledger", "http-token"), "utf8").trim();
  }

  async stop() {
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGKILL");
    await ended;
  }

  async post(path, body, cookie = "") {
    const headers = { "x-tally-console": "1", cookie };
    return fetch(`${this.base}/console/${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
  }

  /** A session that may write, outside of the browser. */
  async session(user = "tally") {
    const ask = await this.asking(user);
    return async (sql) => {
      const answer = await ask(sql);
      assert.equal(answer.error, undefined, `${sql}: ${JSON.stringify(answer.error)}`);
      return answer;
    };
  }

  /** The same, whose statements may fail. */
  async asking(user = "tally") {
    const login = await this.post("login", { user, token: this.token, writes: true });
    const cookie = login.headers.get("set-cookie").split(";")[0];
    return async (sql) => (await this.post("query", { sql, row_max: 10_000 }, cookie)).json();
  }
}

const node = new Node();
let browser;
let sql;
/** What the pages said that no page should. */
const complaints = [];
let mayFail = false;

async function open(options = {}) {
  const page = await arrive(node, options);
  await page.goto(`${node.base}/#token=${node.token}`);
  await page.getByText("read-only").waitFor();
  return page;
}

/** A page in a browser of its own, that has not gone anywhere. */
async function arrive(to, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  for (const name of BUNDLE ? ["console.js", "console.css"] : []) {
    await page.route(`**/${name}`, (route) => route.fulfill({ path: join(BUNDLE, name) }));
  }
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !mayFail) complaints.push(message.text());
  });
  page.on("request", (request) => {
    const { host, protocol } = new URL(request.url());
    if (protocol !== "data:" && host !== to.http) complaints.push(`it asked ${request.url()}`);
  });
  return page;
}

const go = (page, path) => page.goto(`${node.base}/#/${path}`);

/** Of the page, or of a part of it. */
async function picture(page, name, part) {
  if (!PICTURES) return;
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement?.blur());
  await page.waitForTimeout(300);
  const path = join(PICTURES, `${name}.png`);
  if (part) await part.screenshot({ path });
  else await page.screenshot({ path, fullPage: name !== "console-blocks" });
}

/** Has answers to statements that contain a text changed on their way. */
async function tampering(page, text, change) {
  await page.route("**/console/query", async (route) => {
    try {
      const response = await route.fetch();
      const answer = await response.json();
      if (route.request().postDataJSON().sql.includes(text)) change(answer);
      await route.fulfill({ response, json: answer });
    } catch {
      // The page has gone, or asks without it again.
    }
  });
}

before(async () => {
  assert.ok(existsSync(CHROMIUM), `${CHROMIUM} is missing`);
  await node.start();
  sql = await node.session();
  await sql("SET ledger.state_root = 1");
  await sql(`CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2),
    opened timestamptz NOT NULL, active bool, rate float8, born date, note text)`);
  await sql(
    "CREATE TABLE transfers (giver int, number bigint, receiver int, amount numeric(12, 2), PRIMARY KEY (giver, number))",
  );
  await sql(`INSERT INTO accounts SELECT g, 'owner ' || g, g * 10.25, now(), g % 2 = 0, g / 7.0, DATE '1999-02-03', NULL
    FROM generate_series(1, ${ROWS}) g`);
  await sql(
    "INSERT INTO transfers SELECT g, g * 3, g + 1, -0.05 * g FROM generate_series(1, 50) g",
  );
  for (const change of [5, -2.5, 100]) {
    await sql(
      `UPDATE accounts SET balance = balance + ${change}, note = 'changed by ${change}' WHERE id = 7`,
    );
  }
  browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
});

after(async () => {
  await browser?.close();
  node.child?.kill("SIGKILL");
  if (node.data) rmSync(node.data, { recursive: true, force: true });
});

test("the link logs in, and its token does not stay in the address", async () => {
  const page = await open();
  assert.ok(!page.url().includes(node.token));
  await page.reload();
  await page.getByText("read-only").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await go(page, "query");
  await page.getByRole("textbox", { name: "Token" }).fill("wrong");
  mayFail = true;
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("this is not the node's token").waitFor();
  mayFail = false;
  await page.getByRole("textbox", { name: "Token" }).fill(node.token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("textbox", { name: "SQL" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto(`${node.base}/#token=${node.token}`);
  await page.getByText("read-only").waitFor();
  assert.ok(!page.url().includes(node.token));
  await page.context().close();
});

test("the overview is live", async () => {
  const page = await open();
  let busy = true;
  const works = [1, 2, 3, 4].map(async (seed) => {
    const write = await node.session();
    for (let at = seed; busy; at += 4) {
      await write(`UPDATE transfers SET amount = amount + 1 WHERE giver = ${1 + (at % 50)}`);
    }
  });
  const rate = page.locator(".figure").filter({ hasText: "Transactions/s" }).locator(".value");
  await page.waitForFunction(
    () => Number(document.querySelector(".figure .value").textContent) > 5,
  );
  await page.waitForTimeout(PICTURES ? 45_000 : 4_000);
  assert.ok(Number((await rate.textContent()).replace(/\s/g, "")) > 5);
  assert.equal(await page.locator(".plot canvas").count(), 4);
  await page.getByText("accounts: rows").waitFor();
  await picture(page, "console-overview");
  busy = false;
  await Promise.all(works);
  await page.context().close();
});

test("blocks are listed, opened and found", async () => {
  const page = await open();
  await go(page, "blocks");
  await page.locator("table.blocks tbody tr").first().waitFor();
  const heights = await page.locator("table.blocks td:first-child").allTextContents();
  const numbers = heights.map((text) => Number(text.replace(/\s/g, "")));
  assert.ok(
    numbers.length >= 8 && numbers.every((height, at) => at === 0 || height < numbers[at - 1]),
  );
  await picture(page, "console-blocks");
  const search = page.getByRole("searchbox");
  const find = async (text, until) => {
    await search.fill(text);
    await search.press("Enter");
    await page.waitForURL(until);
  };
  await find("6", "**/#/blocks/6");
  await page.locator("pre", { hasText: "UPDATE accounts SET balance" }).waitFor();
  const hashes = page.getByRole("button", { name: /^Copy [0-9a-f]+…$/ });
  const whole = async (hash) => (await hash.getAttribute("title")).replace(": copy", "");
  const [head, id] = [await whole(hashes.first()), await whole(hashes.last())];
  await find(head, "**/#/blocks/6");
  await find("3", "**/#/blocks/3");
  await find(id, "**/#/blocks/6/0");
  await find("accounts 7", "**/#/rows/accounts/7");
  await page.getByRole("heading", { name: "History" }).waitFor();
  await page.context().close();
});

test("a transaction is shown with what it changed, who sent it, and why it was refused", async () => {
  await sql("CREATE USER ada SUPERUSER");
  await sql(`CREATE PROCEDURE pay(giver int, receiver int, cents numeric) LANGUAGE SQL AS
    'UPDATE accounts SET balance = balance - cents WHERE id = giver;
     UPDATE accounts SET balance = balance + cents WHERE id = receiver'`);
  const ada = await node.session("ada");
  await ada("CALL pay(101, 102, 25)");
  const page = await open();
  await go(page, "blocks");
  const search = page.getByRole("searchbox");
  const find = async (text) => {
    await search.fill(text);
    await search.press("Enter");
  };
  // By the procedure, by the user, by words of a statement.
  await find("pay");
  await page.locator(".match", { hasText: "CALL pay" }).getByRole("link").first().click();
  const open_ = page.locator(".transaction[open]");
  await open_.getByText("balance: 1035.25 → 1010.25").waitFor();
  await open_.getByText("balance: 1045.50 → 1070.50").waitFor();
  await picture(page, "console-transaction");
  await open_.getByRole("link", { name: "accounts 101" }).click();
  await page.getByRole("heading", { name: "History" }).waitFor();
  await go(page, "blocks");
  await find("ada");
  await page.locator(".match", { hasText: "CALL pay" }).waitFor();
  await find('"CREATE TABLE transfers"');
  await page.locator(".match", { hasText: "CREATE TABLE transfers" }).waitFor();
  await find("nowhere");
  await page.getByText("No user, no procedure and no statement").waitFor();

  // Two that change what the other has read: the second is refused, and it is said for which row.
  const [first, second] = [await node.asking(), await node.asking()];
  for (const ask of [first, second]) {
    await ask("BEGIN");
    await ask("SELECT balance FROM accounts WHERE id = 103");
    await ask("UPDATE accounts SET balance = 1 WHERE id = 103");
  }
  assert.equal((await first("COMMIT")).error, undefined);
  assert.equal((await second("COMMIT")).error.code, "40001");
  await go(page, "blocks");
  await page.locator("table.blocks tbody tr a").first().click();
  await page.locator(".badge.retry", { hasText: "conflict" }).waitFor();
  await page.getByText("accounts 103 had been changed by transaction 0 of block").waitFor();
  for (let turn = 0; turn < 60; turn++) {
    await sql("UPDATE accounts SET balance = balance + 1 WHERE id = 104");
  }
  await go(page, "protocol");
  const card = (name) => page.getByRole("region", { name, exact: true });
  await card("Rows that transactions were refused for").getByText("accounts 103").waitFor();
  await card("Hot rows").getByText("accounts 104").waitFor();
  const conflict = card("Statements, those in conflict first").locator("tbody tr").first();
  await conflict.getByText("UPDATE accounts SET balance = $1").waitFor();
  await card("Rules of the ledger").getByText("state_root").waitFor();
  await picture(page, "console-protocol");
  await page.context().close();
});

test("who signed a transaction is named", async () => {
  const ledger = (await sql("SHOW ledger.id")).rows[0][0];
  const [root, bob] = [111, 112].map((byte, at) => {
    return new Signer(["tally", "bob"][at], ledger, Buffer.alloc(32, byte));
  });
  const submit = (envelope) =>
    sql(`SELECT block FROM tally_submit_signed('\\x${envelope.toString("hex")}')`);
  await sql("CREATE USER bob");
  await sql("GRANT UPDATE, SELECT ON accounts TO bob");
  await sql(`CREATE ORGANISATION bank KEY '${root.keyId.toString("hex")}'`);
  await submit(root.schema("ALTER ORGANISATION bank ADD USER bob WITH CLIENT SIGNATURE"));
  const key = bob.keyId.toString("hex");
  await submit(root.schema(`ALTER ORGANISATION bank ADD KEY '${key}' FOR USER bob`));
  const update = "UPDATE accounts SET note = 'signed' WHERE id = $1";
  const answer = await submit(bob.statement(update, [integer(120)]));
  const page = await open();
  await go(page, `blocks/${answer.rows[0][0]}`);
  const signer = page.locator(".signer", { hasText: "user bob of bank" });
  await signer.getByRole("button", { name: `Copy ${key.slice(0, 16)}` }).waitFor();
  await page.getByText("note: NULL → signed").waitFor();
  await page.context().close();
});

test("a row is proven in the browser, and every lie about it turns red", async () => {
  const page = await open();
  await go(page, "rows/accounts/7");
  const verdict = page.locator(".verdict");
  const check = async (said) => {
    await page.getByRole("button", { name: "Check this" }).click();
    await verdict.filter({ hasText: said }).waitFor();
    return verdict.textContent();
  };
  await check("Proven, as of block");
  await page.getByRole("button", { name: "Pin this head" }).click();
  await sql("UPDATE transfers SET amount = 7 WHERE giver = 1");
  await sql(
    "UPDATE accounts SET rate = -0.125, born = DATE '1969-12-31', note = 'é ''x''' WHERE id = 7",
  );
  const proven = await check("The row has been changed since it was shown");
  assert.match(proven, /The ledger continues the head that you pinned/);
  await page.locator(".history li").first().waitFor();
  await picture(page, "console-rows");

  const lie = async (text, change, why) => {
    await tampering(page, text, change);
    const said = await check("Not proven");
    assert.match(said, why);
    assert.equal((await page.locator(".verdict.fails .no").count()) > 0, true);
    await page.unroute("**/console/query");
    // The truth is told again.
    await page.reload();
    await page.getByRole("button", { name: "Check this" }).waitFor();
    await check("Proven");
  };
  const edit = (change) => (answer) => {
    const told = JSON.parse(answer.rows[0][0]);
    told.proof = change(told.proof);
    answer.rows[0][0] = JSON.stringify(told);
  };
  const flip = (place) =>
    edit((proof) => {
      const at = Math.floor(proof.length * place);
      return proof.slice(0, at) + (proof[at] === "0" ? "1" : "0") + proof.slice(at + 1);
    });
  const other = await sql("SELECT tally_row_proof('accounts', 8)");
  const pair = await sql("SELECT tally_row_proof('transfers', 1, 3)");
  await lie(
    "tally_row_proof",
    flip(0.1),
    /not the trusted one|was|key|block|bytes|row|signed|ledger/,
  );
  await lie("tally_row_proof", flip(0.5), /\((state|rows|inclusion|signature|note|malformed)\)/);
  await lie(
    "tally_row_proof",
    edit((proof) => proof.slice(0, -2)),
    /malformed/,
  );
  await lie("tally_row_proof", (answer) => (answer.rows = other.rows), /others are proven: id/);
  await lie("tally_row_proof", (answer) => (answer.rows = pair.rows), /another question/);
  await lie("tally_consistency_proof", flip(0.9), /continues|signature|changed|malformed/);
  await sql("UPDATE accounts SET note = 'new' WHERE id = 9");
  await page.reload();
  // Whatever the node says of the row later, it said another thing first.
  await tampering(page, 'FROM "accounts"', (answer) => {
    const balance = answer.columns.findIndex((column) => column.name === "balance");
    for (const row of answer.rows) row[balance] = "1000000.00";
  });
  await page.reload();
  await page.getByText("1000000.00").first().waitFor();
  assert.match(await check("Not proven"), /others are proven: balance/);
  await picture(page, "console-forged");
  await page.context().close();
});

test("another key than the pinned one is not believed", async () => {
  const page = await open();
  await go(page, "rows/accounts/7");
  await page.getByRole("button", { name: "Pin this head" }).click();
  await page.evaluate(() => {
    const pins = JSON.parse(localStorage.getItem("tally.pins"));
    const [origin] = Object.keys(pins);
    pins[origin].root = btoa("x".repeat(32));
    localStorage.setItem("tally.pins", JSON.stringify(pins));
  });
  await sql("UPDATE accounts SET note = 'later' WHERE id = 11");
  await page.reload();
  await page.getByRole("button", { name: "Check this" }).click();
  await page.locator(".verdict.fails", { hasText: "another head" }).waitFor();
  await page.context().close();
});

test("the slider shows the past", async () => {
  const balance = async () => (await sql("SELECT balance FROM accounts WHERE id = 7")).rows[0][0];
  const before = await balance();
  const {
    rows: [[block]],
  } = await sql("SELECT block FROM tally_snapshot()");
  await sql("UPDATE accounts SET balance = -1.5 WHERE id = 7");
  const page = await open();
  await go(page, "rows/accounts/7");
  const shown = (value) =>
    page.waitForFunction(
      (value) => document.querySelector("tr.choice td:nth-child(3)")?.textContent === value,
      value,
    );
  await shown("-1.50");
  await page.getByRole("slider").fill(block);
  await shown(before);
  await page.getByText(/rows as of block [\d\u202f]+ in/).waitFor();
  await page.getByText("Proofs are of the newest state").waitFor();
  await page.getByRole("button", { name: "Newest" }).click();
  await shown("-1.50");
  await page.context().close();
});

test("statements, errors, plots, trees and many rows", async () => {
  const page = await open();
  await go(page, "query");
  const area = page.getByRole("textbox", { name: "SQL" });
  const run = async (text) => {
    await area.fill(text);
    await area.press("Control+Enter");
  };
  await run("SELECT id, owner, balance FROM accounts ORDER BY id");
  await page.getByText("more are there").waitFor();
  assert.ok((await page.locator(".result tbody tr").count()) < 100);
  const frame = page.getByRole("region", { name: "Rows of the result" });
  await frame.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await page.getByRole("cell", { name: "owner 10000", exact: true }).waitFor();
  assert.ok((await page.locator(".result tbody tr").count()) < 100);

  await run("SELECT id, nope FROM accounts");
  await page.locator(".fault", { hasText: "42703" }).waitFor();
  assert.equal(
    await area.evaluate((it) => it.value.slice(it.selectionStart, it.selectionEnd)),
    "nope",
  );
  await run("DELETE FROM accounts");
  await page.locator(".fault", { hasText: "25006" }).waitFor();
  await run("SELECT '<img src=x onerror=alert(1)>' AS evil");
  await page.getByRole("cell", { name: "<img src=x onerror=alert(1)>" }).waitFor();
  await run("SELECT pg_sleep(60)");
  await page.locator(".fault", { hasText: "57014" }).waitFor({ timeout: 30_000 });

  await area.fill("SELECT owner, sum(balance) FROM accounts GROUP BY owner ORDER BY 2 LIMIT 3");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".tree summary", { hasText: "steps" }).waitFor();
  await page.locator(".tree", { hasText: "scan accounts" }).waitFor();

  await area.fill("SELECT id, balance FROM accou");
  await area.press("End");
  await area.press("n");
  await area.press("Tab");
  await area.pressSequentially(" WHERE id < 40");
  assert.equal(await area.inputValue(), "SELECT id, balance FROM accounts WHERE id < 40");
  await area.press("Control+Enter");
  await page.getByText("39 rows").waitFor();
  await page.getByRole("button", { name: "Plot" }).click();
  await page.locator(".result canvas").waitFor();
  await picture(page, "console-query");
  await page.getByRole("button", { name: /^SELECT id, owner, balance/ }).click();
  assert.match(await area.inputValue(), /ORDER BY id$/);
  await page.context().close();
});

/** Texts whose contrast is below WCAG's AA. */
function faint() {
  const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([red, green, blue]) => {
    const part = (value) =>
      value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("script, noscript, :disabled, .skip"))
      continue;
    const style = getComputedStyle(element);
    const pair = [light(parse(style.color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24;
    if (ratio < (isLarge ? 3 : 4.5))
      found.push(`${ratio.toFixed(2)}: ${texts.currentNode.data.trim()}`);
  }
  return found;
}

test(
  "ten thousand blocks and a million rows",
  { skip: !MANY && "asked for by MANY=1" },
  async () => {
    await sql("CREATE TABLE many (id int PRIMARY KEY, said text)");
    for (let from = 0; from < 1_000_000; from += 50_000) {
      await sql(
        `INSERT INTO many SELECT g, 'row ' || g FROM generate_series(${from + 1}, ${from + 50_000}) g`,
      );
    }
    const page = await open();
    await go(page, "blocks");
    await page.locator("table.blocks tbody tr").first().waitFor();
    // One after another, so that each has a block of its own.
    const [host, port] = node.listen.split(":");
    const psql = spawn("psql", ["-Xq", "-h", host, "-p", port, "-U", "tally", "tally"], {
      stdio: ["pipe", "ignore", "inherit"],
    });
    const written = new Promise((done) => psql.once("exit", done));
    for (let turn = 0; turn < 10_000; turn++) {
      psql.stdin.write(`UPDATE many SET said = 'x' WHERE id = ${1 + (turn % 8)};\n`);
    }
    psql.stdin.end();
    // The page keeps up while they come.
    const top = () =>
      page
        .locator("table.blocks td:first-child")
        .first()
        .textContent()
        .then((text) => Number(text.replace(/\s/g, "")));
    const before = await top();
    await page.waitForFunction(
      (before) =>
        Number(document.querySelector("table.blocks td").textContent.replace(/\s/g, "")) >
        before + 100,
      before,
    );
    assert.ok((await page.locator("table.blocks tbody tr").count()) <= 1000);
    assert.equal(await written, 0);
    for (let turn = 0; turn < 3; turn++) {
      await page.getByRole("button", { name: "Older blocks" }).click();
    }
    const find = async (text, said) => {
      await go(page, "blocks");
      await page.getByRole("searchbox").fill(text);
      await page.getByRole("searchbox").press("Enter");
      await said.waitFor();
    };
    await find("1", page.getByRole("heading", { name: "Block 1", exact: true }));
    await find('"CREATE TABLE many"', page.locator(".match", { hasText: "CREATE TABLE many" }));
    await go(page, "rows/many/777777");
    await page.getByRole("complementary").getByText("row 777777").waitFor();
    await page.getByRole("button", { name: "Check this" }).click();
    await page.locator(".verdict.holds").waitFor();
    await go(page, "protocol");
    await page
      .getByRole("region", { name: "Hot rows" })
      .getByText("many 1", { exact: true })
      .waitFor();
    await page.context().close();
  },
);

/** What the guidelines of WCAG 2.2 AA find wrong with the page, as far as a program can. */
async function violations(page) {
  await page.evaluate(axe.source);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await page.evaluate(
    (values) => axe.run({ runOnly: { type: "tag", values } }),
    tags,
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}

test("light, dark, narrow, and by keyboard", async () => {
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ colorScheme, viewport: { width: 360, height: 740 } });
    for (const path of PAGES) {
      await go(page, path);
      await page.waitForTimeout(1500);
      assert.deepEqual(await page.evaluate(faint), [], `${path}, ${colorScheme}`);
      for (const wrong of await violations(page)) found.push(`${path}, ${colorScheme}: ${wrong}`);
      const nav = page.getByRole("navigation", { name: "Pages" });
      const hidden = await nav.evaluate((it) => it.scrollWidth - it.clientWidth);
      assert.ok(hidden <= 0, `${hidden} of the pages' names are out of sight`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `${path} is ${wide} wide`);
    }
    await go(page, "overview");
    if (colorScheme === "dark") await picture(page, "console-narrow");
    await page.context().close();
  }
  assert.deepEqual(found, []);
  const page = await open();
  await go(page, "rows/accounts");
  await page.locator("tr.choice").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "The chosen row" }).getByText("owner 2").waitFor();
  for (const element of await page.locator("a, button, input, textarea, [tabindex='0']").all()) {
    if (!(await element.isVisible())) continue;
    const name = await element.evaluate(
      (it) =>
        it.getAttribute("aria-label") ||
        it.textContent.trim() ||
        it.labels?.[0]?.textContent ||
        it.title,
    );
    assert.ok(name, `without a name: ${await element.evaluate((it) => it.outerHTML)}`);
  }
  await page.context().close();
});

test("a node that is gone is shown to be, and its return", async () => {
  const page = await open();
  await go(page, "blocks");
  await page.locator("table.blocks tbody tr").first().waitFor();
  mayFail = true;
  await node.stop();
  await page.getByText("The node does not answer").waitFor();
  await page.locator(".status", { hasText: "disconnected" }).waitFor();
  await picture(page, "console-disconnected");
  await node.start(node.listen, node.http);
  await page.locator(".status", { hasText: "ready" }).waitFor();
  await page.getByText("The node does not answer").waitFor({ state: "detached" });
  // Sessions end with the node.
  await page.getByRole("button", { name: "Log in" }).waitFor();
  mayFail = false;
  await page.context().close();
});

test("who logs in with a password is who the node says", async () => {
  const other = new Node();
  other.data = mkdtempSync(join(tmpdir(), "tally-console-"));
  const users = join(other.data, "users");
  const made = spawnSync(TALLY, ["config", "password", "ada"], { input: "a long secret\n" });
  writeFileSync(users, made.stdout, { mode: 0o600 });
  try {
    await other.start("127.0.0.1:0", "127.0.0.1:0", [`password_file=${users}`, "owner=ada"]);
    const page = await arrive(other);
    await page.goto(`${other.base}/#/query`);
    await page.getByRole("textbox", { name: "User" }).fill("ada");
    await page.getByLabel("Password").fill("wrong");
    mayFail = true;
    await page.getByRole("button", { name: "Log in" }).click();
    await page.locator(".fault", { hasText: "28P01" }).waitFor();
    mayFail = false;
    await page.getByLabel("Password").fill("a long secret");
    // By keyboard alone.
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("textbox", { name: "SQL" }).fill("SELECT current_user");
    await page.getByRole("textbox", { name: "SQL" }).press("Control+Enter");
    await page.getByRole("cell", { name: "ada", exact: true }).waitFor();
    await page.context().close();
  } finally {
    await other.stop();
    rmSync(other.data, { recursive: true, force: true });
  }
});

test("a cluster is shown as a map, and a member that is gone", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tally-console-"));
  const bank = join(folder, "bank");
  const port = 20_000 + Math.floor(Math.random() * 9_000);
  const init = ["cluster", "init", "--folder", bank, "--nodes", "3", "--port", String(port)];
  const made = spawnSync(TALLY, init, { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const members = [1, 2, 3].map((id) =>
    spawn(TALLY, ["--output", "json", "serve", "--data", join(bank, `node-${id}`)], {
      stdio: ["ignore", "pipe", "inherit"],
    }),
  );
  try {
    const [ready] = await Promise.all(members.map(readyOf));
    const http = ready.http_listen;
    const page = await arrive({ http });
    await page.goto(`http://${http}/`);
    const map = page.getByRole("img", { name: /^Map: member 1 .*; member 2 .*; member 3 / });
    await map.waitFor();
    await page.getByRole("img", { name: /leads/ }).waitFor();
    await page.getByText(/Ordered by raft; member \d leads/).waitFor();
    await page.goto(`http://${http}/#/query`);
    const token = readFileSync(join(bank, "node-1", "http-token"), "utf8").trim();
    await page.getByRole("textbox", { name: "Token" }).fill(token);
    await page.getByLabel("Allow writes").check();
    await page.getByRole("button", { name: "Log in" }).click();
    await page
      .getByRole("textbox", { name: "SQL" })
      .fill("CREATE TABLE notes (id int PRIMARY KEY)");
    await page.getByRole("textbox", { name: "SQL" }).press("Control+Enter");
    await page
      .getByText(/^done, /)
      .first()
      .waitFor();
    await page.goto(`http://${http}/#/overview`);
    const rows = page.getByRole("region", { name: "Members" }).locator("tbody tr");
    for (const at of [0, 1, 2]) await rows.nth(at).filter({ hasText: "agrees" }).waitFor();
    await page.getByRole("img", { name: /^Map(?!.*behind).*$/ }).waitFor();
    assert.deepEqual(await page.evaluate(faint), []);
    assert.deepEqual(await violations(page), []);
    await picture(page, "console-cluster", page.getByRole("region", { name: "Cluster" }));
    // As if one had come to another result.
    await page.route("**/console/overview", async (route) => {
      const response = await route.fetch().catch(() => undefined);
      if (!response) return route.abort();
      const seen = await response.json();
      seen.votes.members[2].deviates = 1;
      await route.fulfill({ response, json: seen });
    });
    await page.getByRole("img", { name: /member 2 deviates at block 1/ }).waitFor();
    await rows.nth(1).filter({ hasText: "deviates at block 1" }).waitFor();
    assert.deepEqual(await page.evaluate(faint), []);
    await page.unroute("**/console/overview");
    members[2].kill("SIGKILL");
    await page.getByRole("img", { name: /member 3 does not answer/ }).waitFor();
    await page.getByRole("img", { name: /leads/ }).waitFor();
    await page.context().close();
  } finally {
    for (const member of members) member.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});

test("no page asked another host, and none complained", () => {
  assert.deepEqual(complaints, []);
});
