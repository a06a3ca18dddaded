#!/usr/bin/env bash
# Databases by createdb, dropdb and psql: each has what was put into it, and nothing of another.
set -euo pipefail

sql() { psql --no-psqlrc --quiet --tuples-only --no-align -v ON_ERROR_STOP=1 "$@"; }

expect() { # WHAT EXPECTED ACTUAL
    [ "$2" = "$3" ] || { echo "databases: $1: expected '$2', got '$3'" >&2; exit 1; }
}

for name in psql_shop "psql Store"; do dropdb --if-exists "$name" 2>/dev/null; done
createdb psql_shop
createdb --template template0 --encoding UTF8 --locale C "psql Store"
expect "an existing one" 1 "$(createdb psql_shop 2>&1 | grep --count 'already exists')"
listed=$(sql -c '\l' | grep -o '^psql[^|]*' | sort | tr '\n' ',')
expect "\\l" "psql Store,psql_shop," "$listed"

found=$(sql -d psql_shop <<'SQL'
CREATE TABLE t (a text PRIMARY KEY);
INSERT INTO t VALUES ('of the shop');
\c "psql Store"
CREATE TABLE t (a text PRIMARY KEY);
INSERT INTO t VALUES ('of the store');
SELECT current_database(), a FROM t;
\c psql_shop
SELECT current_database(), a FROM t;
SQL
)
expect "\\c" "psql Store|of the store
psql_shop|of the shop" "$found"
sql -d postgres -c 'ALTER DATABASE psql_shop RENAME TO psql_mall'
expect "a new name" "of the shop" "$(sql -d psql_mall -c 'SELECT a FROM t')"
dropdb psql_mall 2>/dev/null
dropdb --force "psql Store" 2>/dev/null
expect "a dropped one" 1 "$(sql -d psql_mall -c '' 2>&1 | grep --count 'does not exist')"
