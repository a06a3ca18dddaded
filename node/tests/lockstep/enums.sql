-- # Labels, their order and what is said of others
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE mood AS ENUM ('x');
-- ERROR 42710: type "mood" already exists
CREATE TYPE twice AS ENUM ('a', 'a');
-- ERROR 23505: duplicate key value violates unique constraint "pg_enum_typid_label_index"
CREATE TYPE "Quoted Name" AS ENUM ('one');
CREATE TABLE p (id int PRIMARY KEY, m mood, d mood DEFAULT 'ok' NOT NULL);
INSERT INTO p VALUES (1, 'happy', 'sad'), (2, 'sad', 'ok'), (3, NULL, 'ok'), (4, 'ok', 'happy');
INSERT INTO p VALUES (5, 'angry');
-- ERROR 22P02: invalid input value for enum mood: "angry"
INSERT INTO p VALUES (5, '');
-- ERROR 22P02: invalid input value for enum mood: ""
INSERT INTO p VALUES (5, 1);
-- ERROR 42804: column "m" is of type mood but expression is of type integer
INSERT INTO p VALUES (5, 'sad'::text);
-- ERROR 42804: column "m" is of type mood but expression is of type text
INSERT INTO p VALUES (5, 'sad'::text::mood);
SELECT * FROM p ORDER BY m, id;
-- 2|sad|ok
-- 5|sad|ok
-- 4|ok|happy
-- 1|happy|sad
-- 3|NULL|ok
SELECT * FROM p ORDER BY m DESC, id DESC;
-- 3|NULL|ok
-- 1|happy|sad
-- 4|ok|happy
-- 5|sad|ok
-- 2|sad|ok
SELECT id FROM p WHERE m = 'happy';
-- 1
SELECT id FROM p WHERE m > 'sad' ORDER BY id;
-- 1
-- 4
SELECT id FROM p WHERE m BETWEEN 'sad' AND 'ok' ORDER BY id;
-- 2
-- 4
-- 5
SELECT id FROM p WHERE m IN ('happy', 'ok') ORDER BY id;
-- 1
-- 4
SELECT id FROM p WHERE m = ANY ('{sad,happy}') ORDER BY id;
-- 1
-- 2
-- 5
SELECT id FROM p WHERE m = 'angry';
-- ERROR 22P02: invalid input value for enum mood: "angry"
SELECT id FROM p WHERE m = 'sad'::text;
-- ERROR 42883: operator does not exist: mood = text
SELECT id FROM p WHERE m::text = 'sad' ORDER BY id;
-- 2
-- 5
SELECT m, count(*) FROM p GROUP BY m ORDER BY m;
-- sad|2
-- ok|1
-- happy|1
-- NULL|1
SELECT DISTINCT d FROM p ORDER BY d;
-- sad
-- ok
-- happy
SELECT min(m), max(m), max(d) FROM p;
-- sad|happy|happy
SELECT array_agg(m ORDER BY m) FROM p;
-- {sad,sad,ok,happy,NULL}
SELECT m::text, m::varchar, 'm: ' || m, m || '!' FROM p WHERE id = 1;
-- happy|happy|m: happy|happy!
SELECT lower(m) FROM p;
-- ERROR 42883: function lower(mood) does not exist
SELECT concat(m, '-', d), concat_ws(',', m, d) FROM p WHERE id = 4;
-- ok-happy|ok,happy
SELECT coalesce(m, 'ok'), nullif(m, 'sad'), CASE WHEN m = 'ok' THEN m ELSE d END FROM p ORDER BY id;
-- happy|happy|sad
-- sad|NULL|ok
-- ok|NULL|ok
-- ok|ok|ok
-- sad|NULL|ok
SELECT greatest(m, d), least(m, d) FROM p WHERE id = 1;
-- happy|sad
SELECT enum_first(NULL::mood), enum_last(NULL::mood), enum_range(NULL::mood);
-- sad|happy|{sad,ok,happy}
SELECT enum_range('ok'::mood, NULL), enum_range(NULL, 'ok'::mood), enum_range('ok'::mood, 'ok');
-- {ok,happy}|{sad,ok}|{ok}
SELECT enum_range(m, d) FROM p ORDER BY id;
-- {}
-- {sad,ok}
-- {sad,ok}
-- {ok,happy}
-- {sad,ok}
SELECT enum_first(NULL);
-- ERROR 42883: function enum_first(unknown) does not exist
SELECT pg_typeof(m), pg_typeof('ok'::mood), pg_typeof('{ok}'::mood[]) FROM p WHERE id = 1;
-- mood|mood|mood[]
SELECT 'ok'::mood, 'ok'::mood < 'happy'::mood;
-- ok|t
SELECT 1::mood;
-- ERROR 42846: cannot cast type integer to mood
SELECT 'ok'::mood::int;
-- ERROR 42846: cannot cast type mood to integer
SELECT sum(m) FROM p;
-- ERROR 42883: function sum(mood) does not exist
-- # Arrays of them
CREATE TABLE a (id int PRIMARY KEY, ms mood[]);
INSERT INTO a VALUES (1, '{happy,sad}'), (2, ARRAY['ok', 'ok']::mood[]), (3, '{}'), (4, '{NULL,sad}');
INSERT INTO a VALUES (5, '{angry}');
-- ERROR 22P02: invalid input value for enum mood: "angry"
SELECT * FROM a ORDER BY ms;
-- 3|{}
-- 2|{ok,ok}
-- 1|{happy,sad}
-- 4|{NULL,sad}
SELECT id, ms[1], ms::text, ms::text[], array_to_string(ms, '-', '?') FROM a ORDER BY id;
-- 1|happy|{happy,sad}|{happy,sad}|happy-sad
-- 2|ok|{ok,ok}|{ok,ok}|ok-ok
-- 3|NULL|{}|{}|
-- 4|NULL|{NULL,sad}|{NULL,sad}|?-sad
SELECT id FROM a WHERE 'sad' = ANY (ms) ORDER BY id;
-- 1
-- 4
SELECT id FROM a WHERE ms @> '{sad}' ORDER BY id;
-- 1
-- 4
SELECT id, unnest(ms) FROM a ORDER BY id, 2;
-- 1|sad
-- 1|happy
-- 2|ok
-- 2|ok
-- 4|sad
-- 4|NULL
SELECT ms || 'ok' FROM a WHERE id = 1;
-- ERROR 22P02: malformed array literal: "ok"
SELECT ms || 'ok'::mood FROM a WHERE id = 1;
-- {happy,sad,ok}
-- # Changes of the type
ALTER TYPE mood ADD VALUE 'fine' BEFORE 'happy';
ALTER TYPE mood ADD VALUE 'awful' BEFORE 'sad';
ALTER TYPE mood ADD VALUE 'great' AFTER 'happy';
ALTER TYPE mood ADD VALUE 'fine';
-- ERROR 42710: enum label "fine" already exists
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'fine';
ALTER TYPE mood ADD VALUE 'x' BEFORE 'nothing';
-- ERROR 22023: "nothing" is not an existing enum label
ALTER TYPE nothing ADD VALUE 'x';
-- ERROR 42704: type "nothing" does not exist
SELECT enum_range(NULL::mood);
-- {awful,sad,ok,fine,happy,great}
INSERT INTO p VALUES (6, 'fine', 'awful');
SELECT * FROM p ORDER BY m, id;
-- 2|sad|ok
-- 5|sad|ok
-- 4|ok|happy
-- 6|fine|awful
-- 1|happy|sad
-- 3|NULL|ok
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
ALTER TYPE mood RENAME VALUE 'sad' TO 'x';
-- ERROR 22023: "sad" is not an existing enum label
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
-- ERROR 42710: enum label "fine" already exists
SELECT * FROM p ORDER BY id;
-- 1|happy|blue
-- 2|blue|ok
-- 3|NULL|ok
-- 4|ok|happy
-- 5|blue|ok
-- 6|fine|awful
SELECT * FROM a ORDER BY id;
-- 1|{happy,blue}
-- 2|{ok,ok}
-- 3|{}
-- 4|{NULL,blue}
SELECT m::text FROM p ORDER BY id;
-- happy
-- blue
-- NULL
-- ok
-- blue
-- fine
SELECT enumlabel, enumsortorder FROM pg_enum JOIN pg_type t ON t.oid = enumtypid WHERE typname = 'mood' ORDER BY enumsortorder;
-- awful|0
-- blue|1
-- ok|2
-- fine|2.5
-- happy|3
-- great|4
SELECT e.typname, a.typname, a.typelem = e.oid, a.typcategory, a.typtype FROM pg_type e JOIN pg_type a ON a.oid = e.typarray WHERE e.typname = 'mood';
-- mood|_mood|t|A|b
SELECT 'mood'::regtype, 'mood[]'::regtype, '"Quoted Name"'::regtype;
-- mood|mood[]|"Quoted Name"
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid IN ('p'::regclass, 'a'::regclass) AND attnum > 0 ORDER BY attname;
-- d|mood
-- id|integer
-- id|integer
-- m|mood
-- ms|mood[]
SELECT column_name, data_type, udt_schema, udt_name, column_default FROM information_schema.columns WHERE table_name = 'p' ORDER BY ordinal_position;
-- id|integer|pg_catalog|int4|NULL
-- m|USER-DEFINED|public|mood|NULL
-- d|USER-DEFINED|public|mood|'ok'::mood
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'p'::regclass;
-- 'ok'::mood
-- # Constraints and keys
CREATE TABLE k (m mood PRIMARY KEY, n mood CHECK (n > 'ok'), UNIQUE (n));
INSERT INTO k VALUES ('happy', 'great'), ('ok', 'fine'), ('blue', NULL);
INSERT INTO k VALUES ('happy', NULL);
-- ERROR 23505: duplicate key value violates unique constraint "k_pkey"
INSERT INTO k VALUES ('great', 'blue');
-- ERROR 23514: new row for relation "k" violates check constraint "k_n_check"
INSERT INTO k VALUES ('great', 'fine');
-- ERROR 23505: duplicate key value violates unique constraint "k_n_key"
SELECT * FROM k ORDER BY m;
-- blue|NULL
-- ok|fine
-- happy|great
SELECT * FROM k WHERE m >= 'ok' ORDER BY m;
-- ok|fine
-- happy|great
CREATE TABLE c (id int PRIMARY KEY, m mood REFERENCES k);
INSERT INTO c VALUES (1, 'ok');
INSERT INTO c VALUES (2, 'awful');
-- ERROR 23503: insert or update on table "c" violates foreign key constraint "c_m_fkey"
SELECT c.id, k.n FROM c JOIN k USING (m);
-- 1|fine
UPDATE k SET n = 'great' WHERE m = 'blue';
-- ERROR 23505: duplicate key value violates unique constraint "k_n_key"
UPDATE p SET m = d WHERE id = 1;
UPDATE p SET m = 'angry' WHERE id = 1;
-- ERROR 22P02: invalid input value for enum mood: "angry"
SELECT m FROM p WHERE id = 1;
-- blue
CREATE INDEX ON p (m);
SELECT id FROM p WHERE m >= 'fine' ORDER BY m, id;
-- 6
-- # Columns that become one, and are one no more
CREATE TABLE s (id int PRIMARY KEY, v text DEFAULT 'ok');
INSERT INTO s VALUES (1, 'ok'), (2, 'happy');
ALTER TABLE s ALTER COLUMN v TYPE mood;
-- ERROR 42804: column "v" cannot be cast automatically to type mood
ALTER TABLE s ALTER COLUMN v DROP DEFAULT, ALTER COLUMN v TYPE mood USING v::mood;
SELECT id, v, v > 'ok' FROM s ORDER BY id;
-- 1|ok|f
-- 2|happy|t
ALTER TABLE s ALTER COLUMN v TYPE text;
SELECT id, v || '!' FROM s ORDER BY id;
-- 1|ok!
-- 2|happy!
ALTER TABLE s ADD COLUMN w mood DEFAULT 'great';
SELECT * FROM s ORDER BY id;
-- 1|ok|great
-- 2|happy|great
-- # Functions and views
CREATE FUNCTION worse(m mood) RETURNS boolean LANGUAGE sql AS 'SELECT m < ''ok''';
SELECT worse('blue');
-- t
SELECT worse('happy');
-- f
CREATE VIEW v AS SELECT id, m FROM p WHERE m = 'fine'::mood;
SELECT * FROM v;
-- 6|fine
DROP TYPE mood;
-- ERROR 2BP01: cannot drop type mood because other objects depend on it
-- # Names and schemas
ALTER TYPE "Quoted Name" RENAME TO plain;
SELECT 'one'::plain;
-- one
SELECT 'one'::"Quoted Name";
-- ERROR 42704: type "Quoted Name" does not exist
CREATE SCHEMA other;
ALTER TYPE plain SET SCHEMA other;
SELECT 'one'::plain;
-- ERROR 42704: type "plain" does not exist
SELECT 'one'::other.plain;
-- one
SELECT 'two'::other.plain;
-- ERROR 22P02: invalid input value for enum other.plain: "two"
SET search_path = other, public;
SELECT 'one'::plain;
-- one
CREATE TYPE fresh AS ENUM ('f');
CREATE TABLE other.t (f fresh, m mood);
INSERT INTO t VALUES ('f', 'great');
SELECT * FROM t;
-- f|great
RESET search_path;
SELECT * FROM other.t;
-- f|great
SELECT n.nspname, t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace WHERE typname = 'fresh';
-- other|fresh
SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'other.t'::regclass AND attnum > 0 ORDER BY attnum;
-- other.fresh
-- mood
CREATE TABLE mood (id int);
-- ERROR 42710: type "mood" already exists
DROP TYPE other.plain, nothing;
-- ERROR 42704: type "nothing" does not exist
DROP TYPE IF EXISTS nothing;
DROP TYPE other.plain;
-- # Blocks, transactions
DO $$ BEGIN CREATE TYPE colour AS ENUM ('red', 'green'); EXCEPTION WHEN duplicate_object THEN null; END $$;
DO $$ BEGIN CREATE TYPE colour AS ENUM ('red', 'green'); EXCEPTION WHEN duplicate_object THEN null; END $$;
DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 'colour') THEN CREATE TYPE colour AS ENUM ('red'); END IF; END $$;
SELECT enum_range(NULL::colour);
-- {red,green}
BEGIN;
CREATE TYPE gone AS ENUM ('g');
CREATE TABLE gt (g gone);
INSERT INTO gt VALUES ('g');
SELECT * FROM gt;
-- g
ROLLBACK;
SELECT 'g'::gone;
-- ERROR 42704: type "gone" does not exist
CREATE TYPE empty AS ENUM ();
SELECT enum_range(NULL::empty);
-- {}
DROP TYPE colour, empty;
DROP TABLE c, k, other.t;
DROP VIEW v;
DROP TYPE mood CASCADE;
SELECT worse('blue');
-- ERROR 42883: function worse(unknown) does not exist
SELECT * FROM p ORDER BY id;
-- 1
-- 2
-- 3
-- 4
-- 5
-- 6

-- # Labels that views name
CREATE TYPE step AS ENUM ('one', 'two', 'three');
CREATE TABLE steps (id int PRIMARY KEY, s step, note text);
INSERT INTO steps VALUES (1, 'one', 'one'), (2, 'two', 'two'), (3, 'three', 'one');
CREATE VIEW firsts AS SELECT id, 'one' AS said, note = 'one' AS noted FROM steps WHERE s = 'one' OR s IN ('two', 'one') AND note = 'one';
CREATE MATERIALIZED VIEW kept AS SELECT count(*) FILTER (WHERE s > 'one') AS n FROM steps;
ALTER TYPE step RENAME VALUE 'one' TO 'eins';
SELECT * FROM firsts ORDER BY id;
-- 1|one|t
REFRESH MATERIALIZED VIEW kept;
SELECT * FROM kept;
-- 2
ALTER TYPE step RENAME VALUE 'two' TO 'one';
ALTER TYPE step RENAME VALUE 'eins' TO 'two';
SELECT * FROM firsts ORDER BY id;
-- 1|one|t
REFRESH MATERIALIZED VIEW kept;
SELECT * FROM kept;
-- 2
-- # Types elsewhere than in public
CREATE SCHEMA elsewhere;
SET search_path TO elsewhere;
CREATE TYPE size AS ENUM ('small', 'large');
PREPARE larger(size) AS SELECT $1 > 'small';
EXECUTE larger('large');
-- t
SELECT * FROM json_to_record('{"a":"large","b":"small"}') AS r(a size, b text);
-- large|small
SET search_path TO public;
