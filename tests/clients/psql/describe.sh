#!/usr/bin/env bash
# What psql's backslash commands show, by their own queries over the system catalogs.
set -euo pipefail

command() { # COMMAND OPTION…
    psql --no-psqlrc --quiet --no-align -v ON_ERROR_STOP=1 "${@:2}" -c "$1" 2>&1
}

shows() { # COMMAND WHAT…
    local answer what
    answer=$(command "$1")
    for what in "${@:2}"; do
        grep -qF -- "$what" <<<"$answer" && continue
        printf "psql: %s does not show '%s', but:\n%s\n" "$1" "$what" "$answer" >&2
        exit 1
    done
}

psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 <<'SQL'
DROP TABLE IF EXISTS described_line;
DROP TABLE IF EXISTS described;
CREATE TABLE described (
    id bigint PRIMARY KEY, code char(3) NOT NULL DEFAULT 'abc', name varchar(40) UNIQUE,
    amount numeric(12,2) NOT NULL CHECK (amount >= 0));
CREATE INDEX described_code_name_idx ON described (code, name);
CREATE TABLE described_line (
    described_id bigint NOT NULL REFERENCES described (id) ON DELETE CASCADE, line int NOT NULL,
    PRIMARY KEY (described_id, line));
CREATE OR REPLACE FUNCTION described_sum(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT a + b';
SQL

shows '\d' 'public|described|table|tally' 'public|described_line|table|tally'
shows '\dt descr*' 'public|described|table|tally'
shows '\di' 'public|described_pkey|index|tally|described' 'described_code_name_idx'
shows '\d described' 'id|bigint||not null|' "code|character(3)||not null|'abc'::bpchar" \
    'name|character varying(40)|||' 'amount|numeric(12,2)||not null|' \
    '"described_pkey" PRIMARY KEY, btree (id)' '"described_name_key" UNIQUE CONSTRAINT, btree (name)' \
    '"described_code_name_idx" btree (code, name)' \
    '"described_amount_check" CHECK (amount >= 0' \
    'TABLE "described_line" CONSTRAINT "described_line_described_id_fkey" FOREIGN KEY (described_id) REFERENCES described(id) ON DELETE CASCADE'
shows '\d+ described_line' '"described_line_pkey" PRIMARY KEY, btree (described_id, line)' \
    'FOREIGN KEY (described_id) REFERENCES described(id) ON DELETE CASCADE'
shows '\d described_pkey' 'id|bigint|yes|id' 'primary key, btree, for table "public.described"'
shows '\df' 'public|described_sum|integer|a integer, b integer|func'
shows '\sf described_sum' 'CREATE OR REPLACE FUNCTION public.described_sum' 'SELECT a + b'
shows '\l' 'tally|tally|UTF8'
shows '\dn' 'public|'
shows '\du' 'tally|Superuser'
shows '\dT pg_catalog.int8' 'bigint'
shows '\dv information_schema.columns' 'information_schema|columns|view|tally'
for empty in '\dv' '\dm' '\ds' '\dy' '\dRp' '\des' '\dD'; do
    [ -z "$(command "$empty" --tuples-only)" ] || { echo "psql: $empty shows something" >&2; exit 1; }
done

# System tables beside tables of users.
answers() { # QUERY EXPECTED
    local answer
    answer=$(command "$1" --tuples-only)
    [ "$answer" = "$2" ] && return
    printf "psql: %s\nexpected '%s', got:\n%s\n" "$1" "$2" "$answer" >&2
    exit 1
}

command "INSERT INTO described VALUES (1, 'one', 'described', 1.50), (2, 'two', 'other', 2)"
answers "SELECT d.id, c.relnatts FROM described d JOIN pg_class c ON c.relname = d.name" '1|4'
answers "SELECT count(*) FROM described WHERE EXISTS (
    SELECT 1 FROM information_schema.tables WHERE table_name = 'described')" '2'
answers "COPY (SELECT d.id, format_type(a.atttypid, a.atttypmod) FROM described d, pg_attribute a
    WHERE a.attrelid = 'described'::regclass AND a.attname = 'amount') TO STDOUT" \
    $'1\tnumeric(12,2)\n2\tnumeric(12,2)'
