// One transaction test through node-postgres: extended protocol, text results, named statements.
'use strict'

const assert = require('node:assert/strict')
const { Client } = require('pg')

const OPENED = new Date('2026-01-02T03:04:05.678Z')
const TOKEN = '6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33'
const PAYLOAD = Buffer.from([0x00, 0xff, 0x10])
const INSERT = 'INSERT INTO nodepg_accounts VALUES ($1, $2, $3, $4, $5, $6, $7)'

async function create(client) {
  await client.query('DROP TABLE IF EXISTS nodepg_accounts')
  await client.query(`CREATE TABLE nodepg_accounts (
    id bigint PRIMARY KEY, owner text NOT NULL, amount numeric(12,2) NOT NULL CHECK (amount >= 0),
    opened timestamptz, payload bytea, token uuid, note varchar(20))`)
  await client.query(`CREATE OR REPLACE PROCEDURE nodepg_move(
      giver bigint, receiver bigint, sum_moved numeric)
    LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE nodepg_accounts SET amount = amount - sum_moved WHERE id = giver;
      UPDATE nodepg_accounts SET amount = amount + sum_moved WHERE id = receiver;
    END;
    $$`)
}

async function commit(client) {
  await client.query('BEGIN')
  await client.query(INSERT, [1, 'ada', '100.50', OPENED, PAYLOAD, TOKEN, null])
  await client.query(INSERT, [2, 'bob', 7, null, null, null, 'empty'])
  await client.query('UPDATE nodepg_accounts SET amount = amount + $1 WHERE id = $2', ['0.25', 2])
  await client.query('COMMIT')
  for (let round = 0; round < 2; round++) {
    const select = { name: 'one', text: 'SELECT * FROM nodepg_accounts WHERE id = $1', values: [1] }
    const { rows } = await client.query(select)
    assert.deepEqual(rows, [{
      id: '1', owner: 'ada', amount: '100.50', opened: OPENED, payload: PAYLOAD, token: TOKEN,
      note: null,
    }])
  }
}

async function rollBack(client) {
  await client.query('BEGIN')
  assert.equal((await client.query('DELETE FROM nodepg_accounts')).rowCount, 2)
  await client.query('ROLLBACK')
  const { rows } = await client.query('SELECT count(*) AS n FROM nodepg_accounts')
  assert.equal(rows[0].n, '2')
}

async function fail(client) {
  const row = [1, 'eve', 0, null, null, null, null]
  await client.query('BEGIN')
  await assert.rejects(client.query(INSERT, row), { code: '23505', table: 'nodepg_accounts' })
  await assert.rejects(client.query('SELECT 1'), { code: '25P02' })
  await client.query('ROLLBACK')
  await assert.rejects(client.query('SELEKT 1'), { code: '42601' })
  await assert.rejects(client.query('SELECT 1 / $1::int', [0]), { code: '22012' })
}

async function call(client) {
  await client.query('CALL nodepg_move($1, $2, $3)', [1, 2, '0.75'])
  const { rows } = await client.query('SELECT amount FROM nodepg_accounts ORDER BY id')
  assert.deepEqual(rows.map((row) => row.amount), ['99.75', '8.00'])
}

async function main() {
  const client = new Client({ connectionString: process.env.CLIENT_URL })
  await client.connect()
  try {
    for (const step of [create, commit, rollBack, fail, call]) await step(client)
  } finally {
    await client.end()
  }
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
