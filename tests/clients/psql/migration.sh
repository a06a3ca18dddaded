#!/usr/bin/env bash
# What migration tools do, through psql: the schema and its version change in one transaction.
set -euo pipefail

sql() { psql --no-psqlrc --quiet --tuples-only --no-align -v ON_ERROR_STOP=1 "$@"; }

expect() { # WHAT EXPECTED ACTUAL
    [ "$2" = "$3" ] || { echo "psql: $1: expected '$2', got '$3'" >&2; exit 1; }
}

sql <<'SQL'
DROP TABLE IF EXISTS migrated_line;
DROP TABLE IF EXISTS migrated;
DROP TABLE IF EXISTS migrated_versions;
CREATE TABLE migrated_versions (version text PRIMARY KEY);
SQL

answer=$(sql <<'SQL'
BEGIN;
CREATE TABLE migrated (id bigint PRIMARY KEY, name text NOT NULL);
CREATE INDEX migrated_name_idx ON migrated (name);
INSERT INTO migrated VALUES (1, 'one'), (2, 'two');
SAVEPOINT wrong;
ALTER TABLE migrated DROP COLUMN name;
ROLLBACK TO wrong;
ALTER TABLE migrated ADD COLUMN amount int NOT NULL DEFAULT 5;
UPDATE migrated SET amount = 7 WHERE name = 'two';
CREATE TABLE migrated_line (migrated_id bigint NOT NULL REFERENCES migrated (id), line int);
INSERT INTO migrated_line SELECT id, 1 FROM migrated;
INSERT INTO migrated_versions VALUES ('1');
SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns
    WHERE table_name = 'migrated';
COMMIT;
SELECT sum(amount) FROM migrated JOIN migrated_line ON migrated_id = id;
SQL
)
expect "a migration" $'id,name,amount\n12' "$answer"

# What fails half way has not been, and what is rolled back neither; a script in one message is one
# transaction.
sql -c "BEGIN" -c "DROP TABLE migrated_line" -c "CREATE TABLE more (a int)" -c "ROLLBACK"
if sql -c "CREATE TABLE more (a int); INSERT INTO migrated_versions VALUES ('2'), ('1')" 2>/dev/null
then
    echo "psql: a duplicated version was taken" >&2
    exit 1
fi
expect "versions" "1" "$(sql -c "SELECT count(*) FROM migrated_versions")"
expect "a table that was not dropped" "2" "$(sql -c "SELECT count(*) FROM migrated_line")"
expect "tables that were not made" "0" \
    "$(sql -c "SELECT count(*) FROM information_schema.tables WHERE table_name = 'more'")"
sql -c "BEGIN; DROP TABLE migrated_line; DROP TABLE migrated; DROP TABLE migrated_versions; COMMIT"
