// Transactions that their user has signed: clients/js/tally_sign.mjs over node-postgres. The folder
// of the libraries is named, as this file is run beside its driver.

const assert = require("node:assert");
const { pathToFileURL } = require("node:url");
const pg = require("pg");

async function main() {
  const path = `${process.env.SIGNING}/tally_sign.mjs`;
  const { Signer, submit, integer, numeric, double, date } = await import(pathToFileURL(path));
  const client = new pg.Client({ connectionString: process.env.CLIENT_URL });
  await client.connect();
  const say = async (text) => (await client.query(text)).rows;
  const refused = async (envelope) => {
    try {
      await submit(client, envelope);
    } catch (error) {
      return error.code;
    }
    return null;
  };

  const [{ "ledger.id": ledger }] = await say("SHOW ledger.id");
  const root = new Signer("tally", ledger, Buffer.alloc(32, 111));
  const bob = new Signer("signed_bob", ledger, Buffer.alloc(32, 112));
  const kinds = "i bigint, n numeric, f float8, b boolean, t text, y bytea, d date, \
    z timestamptz";
  await say(`CREATE TABLE signed_js (${kinds})`);
  await say(`CREATE FUNCTION signed_put_js(${kinds}) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO signed_js VALUES (i, n, f, b, t, y, d, z); RETURN 'put ' || t; END $$`);
  await say("CREATE USER signed_bob");
  await say("GRANT INSERT ON signed_js TO signed_bob");
  await say(`CREATE ORGANISATION signed_js KEY '${root.keyId.toString("hex")}'`);
  const key = bob.keyId.toString("hex");
  for (const text of [
    "ADD USER signed_bob WITH CLIENT SIGNATURE",
    `ADD KEY '${key}' FOR USER signed_bob`,
  ]) {
    await submit(client, root.schema(`ALTER ORGANISATION signed_js ${text}`));
  }

  const moment = new Date("1999-12-31T23:59:59.999Z");
  const day = new Date("1987-06-05T12:00:00Z");
  const values = [
    -(2n ** 63n), numeric("-12.3400"), double(2), true, "naïve", Buffer.of(0, 255), date(day),
    moment,
  ];
  const envelope = bob.call("signed_put_js", values);
  const answer = await submit(client, envelope);
  assert.deepStrictEqual(answer.rows, [["put naïve"]]);
  const shown = "SELECT i, n, f, b, t, y, d::text, z FROM signed_js";
  const [row] = await say(shown);
  assert.deepStrictEqual(Object.values(row), [
    "-9223372036854775808", "-12.3400", 2, true, "naïve", Buffer.of(0, 255), "1987-06-05",
    moment,
  ]);
  assert.strictEqual(await refused(envelope), "08P01");
  const keyed = bob.statement("INSERT INTO signed_js (i) VALUES ($1)", [integer(5)], { key: "a" });
  assert.strictEqual((await submit(client, keyed)).count, 1n);
  assert.strictEqual(await refused(keyed), "42710");
  const edited = Buffer.from(envelope);
  edited[edited.indexOf("na")] ^= 1;
  assert.strictEqual(await refused(edited), "28000");
  const other = new Signer("signed_bob", ledger, Buffer.alloc(32, 113));
  assert.strictEqual(await refused(other.call("signed_put_js", values)), "28000");
  const late = new Signer("signed_bob", ledger, Buffer.alloc(32, 112), { expiresSeconds: -3600 });
  assert.strictEqual(await refused(late.call("signed_put_js", values)), "57014");

  await say("DROP FUNCTION signed_put_js");
  await say("DROP TABLE signed_js");
  await say("DROP ROLE signed_bob");
  await say("DROP ORGANISATION signed_js");
  await client.end();
  console.log("node-postgres: signed transactions passed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
