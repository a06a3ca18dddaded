#!/usr/bin/env bash
# One transaction test through psql: the simple protocol, text, variables, COPY both ways.
set -euo pipefail

sql() { psql --no-psqlrc --quiet --tuples-only --no-align -v ON_ERROR_STOP=1 "$@"; }

expect() { # WHAT EXPECTED ACTUAL
    [ "$2" = "$3" ] || { echo "psql: $1: expected '$2', got '$3'" >&2; exit 1; }
}

sql <<'SQL'
DROP TABLE IF EXISTS psql_accounts;
CREATE TABLE psql_accounts (
    id bigint PRIMARY KEY, owner text NOT NULL, amount numeric(12,2) NOT NULL CHECK (amount >= 0),
    opened timestamptz, payload bytea, token uuid, note varchar(20));
CREATE OR REPLACE PROCEDURE psql_move(giver bigint, receiver bigint, sum_moved numeric)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE psql_accounts SET amount = amount - sum_moved WHERE id = giver;
    UPDATE psql_accounts SET amount = amount + sum_moved WHERE id = receiver;
END;
$$;
SQL

# Commit: what is written is seen, before and after.
answer=$(sql -v owner=ada <<'SQL'
BEGIN;
INSERT INTO psql_accounts VALUES
    (1, :'owner', 100.50, '2026-01-02 03:04:05.678901+00', '\x00ff10',
     '6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33', NULL),
    (2, 'bob', 7, NULL, NULL, NULL, 'empty');
UPDATE psql_accounts SET amount = amount + 0.25 WHERE id = 1;
SELECT amount FROM psql_accounts WHERE id = 1;
COMMIT;
SQL
)
expect "own writes" "100.75" "$answer"
answer=$(sql -c "SET TIME ZONE 'UTC'" -c "SELECT owner, amount, opened, payload, token, note IS NULL
    FROM psql_accounts WHERE id = 1")
token=6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33
expect "types" "ada|100.75|2026-01-02 03:04:05.678901+00|\\x00ff10|$token|t" "$answer"

# Rollback leaves nothing.
sql -c "BEGIN" -c "DELETE FROM psql_accounts" -c "ROLLBACK"
expect "rollback" "2" "$(sql -c "SELECT count(*) FROM psql_accounts")"

# Errors have their SQLSTATE, and a failed transaction stays failed.
answer=$(psql --no-psqlrc --quiet --tuples-only --no-align <<'SQL' 2>/dev/null
BEGIN;
INSERT INTO psql_accounts VALUES (1, 'eve', 0);
\echo :SQLSTATE
SELECT 1;
\echo :SQLSTATE
ROLLBACK;
INSERT INTO psql_accounts VALUES (3, 'eve', -1);
\echo :SQLSTATE
SELECT * FROM no_such_table;
\echo :SQLSTATE
SQL
)
expect "SQLSTATEs" "23505 25P02 23514 42P01" "$(echo $answer)"

# A procedure.
sql -c "CALL psql_move(1, 2, 0.75)"
expect "CALL" "100.00 7.75" "$(echo $(sql -c "SELECT amount FROM psql_accounts ORDER BY id"))"

# COPY in and out.
sql -c "COPY psql_accounts (id, owner, amount) FROM STDIN (FORMAT csv)" <<'CSV'
10,"carl, the third",1.00
11,dora,2.00
CSV
answer=$(sql -c "COPY (SELECT id, owner, amount FROM psql_accounts WHERE id >= 10 ORDER BY id)
    TO STDOUT (FORMAT csv)")
expect "COPY" '10,"carl, the third",1.00 11,dora,2.00' "$(echo $answer)"
