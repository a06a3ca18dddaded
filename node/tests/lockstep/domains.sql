-- # Rules of values
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN posint AS int;
-- ERROR 42710: type "posint" already exists
CREATE DOMAIN email AS text NOT NULL CONSTRAINT has_at CHECK (VALUE LIKE '%@%') CONSTRAINT is_short CHECK (length(VALUE) < 20);
CREATE DOMAIN percent AS numeric(5, 2) DEFAULT 50 CHECK (VALUE BETWEEN 0 AND 100);
SELECT 5::posint, CAST('7' AS posint);
-- 5|7
SELECT 0::posint;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
SELECT NULL::posint;
-- NULL
SELECT NULL::email;
-- ERROR 23502: domain email does not allow null values
SELECT 'x'::email;
-- ERROR 23514: value for domain email violates check constraint "has_at"
SELECT 'someone@a.very.long.name.example'::email;
-- ERROR 23514: value for domain email violates check constraint "is_short"
SELECT 'a@b'::email || '!';
-- a@b!
SELECT 1.239::percent, 100.004::percent;
-- 1.24|100.00
SELECT 100.005::percent;
-- ERROR 23514: value for domain percent violates check constraint "percent_check"
SELECT 'abc'::posint;
-- ERROR 22P02: invalid input syntax for type integer: "abc"
CREATE TABLE t (id posint PRIMARY KEY, mail email, p percent, q percent DEFAULT 7, n int);
INSERT INTO t VALUES (1, 'a@b', 1, 2, 3);
INSERT INTO t (id, mail) VALUES (2, 'b@c');
INSERT INTO t VALUES (0, 'a@b');
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
INSERT INTO t VALUES (3, 'ab');
-- ERROR 23514: value for domain email violates check constraint "has_at"
INSERT INTO t VALUES (3, NULL);
-- ERROR 23502: domain email does not allow null values
INSERT INTO t (id) VALUES (3);
-- ERROR 23502: domain email does not allow null values
INSERT INTO t VALUES (3, 'a@b', 101);
-- ERROR 23514: value for domain percent violates check constraint "percent_check"
INSERT INTO t VALUES (3, 'a@b', NULL);
INSERT INTO t VALUES (4, 'd@e', DEFAULT, DEFAULT, DEFAULT);
INSERT INTO t SELECT g, g || '@x', g FROM generate_series(5, 6) AS g;
INSERT INTO t SELECT g, g || 'x', g FROM generate_series(7, 8) AS g;
-- ERROR 23514: value for domain email violates check constraint "has_at"
SELECT * FROM t ORDER BY id;
-- 1|a@b|1.00|2.00|3
-- 2|b@c|50.00|7.00|NULL
-- 3|a@b|NULL|7.00|NULL
-- 4|d@e|50.00|7.00|NULL
-- 5|5@x|5.00|7.00|NULL
-- 6|6@x|6.00|7.00|NULL
UPDATE t SET mail = 'none' WHERE id = 1;
-- ERROR 23514: value for domain email violates check constraint "has_at"
UPDATE t SET p = p + 100 WHERE id = 1;
-- ERROR 23514: value for domain percent violates check constraint "percent_check"
UPDATE t SET p = p + 98 WHERE id = 1;
UPDATE t SET mail = NULL WHERE n = 3;
-- ERROR 23502: domain email does not allow null values
UPDATE t SET id = id - 10 WHERE id = 1;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
UPDATE t SET q = DEFAULT, p = DEFAULT WHERE id = 1;
INSERT INTO t VALUES (1, 'z@z') ON CONFLICT (id) DO UPDATE SET mail = 'zz';
-- ERROR 23514: value for domain email violates check constraint "has_at"
INSERT INTO t VALUES (1, 'z@z') ON CONFLICT (id) DO UPDATE SET mail = excluded.mail;
SELECT * FROM t WHERE id = 1::posint;
-- 1|z@z|50.00|7.00|3
SELECT id + 1, mail || '?', p * 2 FROM t WHERE id < 3 ORDER BY id;
-- 2|z@z?|100.00
-- 3|b@c?|100.00
SELECT min(id), sum(p), max(mail) FROM t;
-- 1|161.00|z@z
SELECT id FROM t WHERE id = ANY ('{1,2}') ORDER BY id;
-- 1
-- 2
SELECT id::posint + 1, (id - 1)::posint FROM t WHERE id > 1 ORDER BY id;
-- 3|1
-- 4|2
-- 5|3
-- 6|4
-- 7|5
SELECT (id - 2)::posint FROM t ORDER BY id;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"

-- # Domains over domains
CREATE DOMAIN small AS posint CHECK (VALUE < 10) CHECK (VALUE <> 5);
SELECT 3::small;
-- 3
SELECT 0::small;
-- ERROR 23514: value for domain small violates check constraint "posint_check"
SELECT 10::small;
-- ERROR 23514: value for domain small violates check constraint "small_check"
SELECT 5::small;
-- ERROR 23514: value for domain small violates check constraint "small_check1"
CREATE DOMAIN needed AS small NOT NULL DEFAULT 4;
SELECT NULL::needed;
-- ERROR 23502: domain needed does not allow null values
CREATE TABLE u (id int PRIMARY KEY, s needed);
INSERT INTO u (id) VALUES (1);
INSERT INTO u VALUES (2, 3);
INSERT INTO u VALUES (3, 12);
-- ERROR 23514: value for domain needed violates check constraint "small_check"
INSERT INTO u VALUES (3, -1);
-- ERROR 23514: value for domain needed violates check constraint "posint_check"
INSERT INTO u VALUES (3, NULL);
-- ERROR 23502: domain needed does not allow null values
SELECT * FROM u ORDER BY id;
-- 1|4
-- 2|3

-- # Changes
ALTER DOMAIN posint ADD CONSTRAINT small_enough CHECK (VALUE < 1000);
SELECT 1000::posint;
-- ERROR 23514: value for domain posint violates check constraint "small_enough"
ALTER DOMAIN posint ADD CHECK (VALUE < 5);
-- ERROR 23514: column "id" of table "t" contains values that violate the new constraint
ALTER DOMAIN posint ADD CONSTRAINT later CHECK (VALUE < 5) NOT VALID;
INSERT INTO t VALUES (50, 'a@b');
-- ERROR 23514: value for domain posint violates check constraint "later"
ALTER DOMAIN posint VALIDATE CONSTRAINT later;
-- ERROR 23514: column "id" of table "t" contains values that violate the new constraint
ALTER DOMAIN posint VALIDATE CONSTRAINT nosuch;
-- ERROR 42704: constraint "nosuch" of domain "posint" does not exist
ALTER DOMAIN posint DROP CONSTRAINT later;
ALTER DOMAIN posint DROP CONSTRAINT later;
-- ERROR 42704: constraint "later" of domain "posint" does not exist
ALTER DOMAIN posint DROP CONSTRAINT IF EXISTS later;
INSERT INTO t VALUES (50, 'a@b');
ALTER DOMAIN posint RENAME CONSTRAINT small_enough TO below;
ALTER DOMAIN posint RENAME CONSTRAINT nosuch TO below;
-- ERROR 42704: constraint "nosuch" for domain posint does not exist
SELECT 1001::posint;
-- ERROR 23514: value for domain posint violates check constraint "below"
ALTER DOMAIN percent SET DEFAULT 1;
INSERT INTO t (id, mail) VALUES (51, 'a@b') RETURNING p, q;
-- 1.00|7.00
ALTER DOMAIN percent DROP DEFAULT;
INSERT INTO t (id, mail) VALUES (52, 'a@b') RETURNING p, q;
-- NULL|7.00
ALTER DOMAIN percent SET NOT NULL;
-- ERROR 23502: column "p" of table "t" contains null values
DELETE FROM t WHERE p IS NULL;
ALTER DOMAIN percent SET NOT NULL;
INSERT INTO t (id, mail) VALUES (53, 'a@b');
-- ERROR 23502: domain percent does not allow null values
ALTER DOMAIN percent DROP NOT NULL;
INSERT INTO t (id, mail) VALUES (53, 'a@b');
ALTER DOMAIN email RENAME TO mail;
INSERT INTO t VALUES (60, 'x');
-- ERROR 23514: value for domain mail violates check constraint "has_at"
SELECT 'x'::email;
-- ERROR 42704: type "email" does not exist
ALTER DOMAIN nosuch SET NOT NULL;
-- ERROR 42704: type "nosuch" does not exist
CREATE TYPE mood AS ENUM ('sad', 'ok');
ALTER DOMAIN mood SET NOT NULL;
-- ERROR 42809: mood is not a domain
CREATE DOMAIN bright AS mood CHECK (VALUE <> 'sad');
SELECT 'ok'::bright;
-- ok
SELECT 'sad'::bright;
-- ERROR 23514: value for domain bright violates check constraint "bright_check"
CREATE TABLE m (id int PRIMARY KEY, b bright DEFAULT 'ok');
INSERT INTO m VALUES (2, 'sad');
-- ERROR 23514: value for domain bright violates check constraint "bright_check"
INSERT INTO m VALUES (1);
SELECT * FROM m;
-- 1|ok

-- # Columns come to have domains
CREATE TABLE c (id int PRIMARY KEY, x int, y text);
INSERT INTO c VALUES (1, 5, 'a'), (2, 0, 'b');
ALTER TABLE c ALTER x TYPE posint;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
UPDATE c SET x = 6 WHERE id = 2;
ALTER TABLE c ALTER x TYPE posint;
UPDATE c SET x = 0;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
ALTER TABLE c ALTER x TYPE int;
UPDATE c SET x = 0;
ALTER TABLE c ADD COLUMN z posint;
ALTER TABLE c ADD COLUMN e mail;
-- ERROR 23502: domain mail does not allow null values
ALTER TABLE c ADD COLUMN e mail DEFAULT 'q@q';
ALTER TABLE c ADD COLUMN f posint DEFAULT -1;
-- ERROR 23514: value for domain posint violates check constraint "posint_check"
SELECT * FROM c ORDER BY id;
-- 1|0|a|NULL|q@q
-- 2|0|b|NULL|q@q
SELECT column_name, data_type, domain_schema, domain_name, udt_name FROM information_schema.columns WHERE table_name = 'c' ORDER BY ordinal_position;
-- id|integer|NULL|NULL|int4
-- x|integer|NULL|NULL|int4
-- y|text|NULL|NULL|text
-- z|integer|public|posint|int4
-- e|text|public|mail|text
SELECT domain_schema, domain_name, data_type, numeric_precision, numeric_scale, domain_default FROM information_schema.domains WHERE domain_schema = 'public' ORDER BY 2;
-- public|bright|USER-DEFINED|NULL|NULL|NULL
-- public|mail|text|NULL|NULL|NULL
-- public|needed|USER-DEFINED|NULL|NULL|4
-- public|percent|numeric|5|2|NULL
-- public|posint|integer|32|0|NULL
-- public|small|USER-DEFINED|NULL|NULL|NULL
SELECT constraint_name, domain_name FROM information_schema.domain_constraints WHERE domain_schema = 'public' ORDER BY 2, 1;
-- bright_check|bright
-- has_at|mail
-- is_short|mail
-- percent_check|percent
-- below|posint
-- posint_check|posint
-- small_check|small
-- small_check1|small
SELECT attname, atttypid::regtype, atttypmod FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum;
-- id|posint|-1
-- mail|mail|-1
-- p|percent|-1
-- q|percent|-1
-- n|integer|-1
SELECT typname, typtype, typbasetype::regtype, typtypmod, typnotnull, typdefault, typlen, typcategory FROM pg_type WHERE typtype = 'd' AND typnamespace = 'public'::regnamespace ORDER BY 1;
-- bright|d|mood|-1|f|NULL|4|E
-- mail|d|text|-1|t|NULL|-1|S
-- needed|d|small|-1|t|4|4|N
-- percent|d|numeric|327686|f|NULL|-1|N
-- posint|d|integer|-1|f|NULL|4|N
-- small|d|posint|-1|f|NULL|4|N
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = 'posint'::regtype ORDER BY 1;
-- below|CHECK ((VALUE < 1000))
-- posint_check|CHECK ((VALUE > 0))
COMMENT ON DOMAIN posint IS 'above zero';
SELECT obj_description('posint'::regtype, 'pg_type');
-- above zero

-- # What depends on a domain
DROP DOMAIN posint;
-- ERROR 2BP01: cannot drop type posint because other objects depend on it
DROP DOMAIN nosuch;
-- ERROR 42704: type "nosuch" does not exist
DROP DOMAIN IF EXISTS nosuch;
DROP DOMAIN mood;
-- ERROR 42809: "mood" is not a domain
DROP DOMAIN small CASCADE;
SELECT * FROM u ORDER BY id;
-- 1
-- 2
DROP TYPE mood;
-- ERROR 2BP01: cannot drop type mood because other objects depend on it
DROP TYPE percent CASCADE;
SELECT * FROM t WHERE id < 3 ORDER BY id;
-- 1|z@z|3
-- 2|b@c|NULL
CREATE TABLE f (n int);
CREATE VIEW v AS SELECT n::posint AS n FROM f;
DROP DOMAIN posint CASCADE;
SELECT * FROM v;
-- ERROR 42P01: relation "v" does not exist
CREATE SCHEMA s;
CREATE DOMAIN s.d AS int CHECK (VALUE > 1);
SELECT 1::s.d;
-- ERROR 23514: value for domain s.d violates check constraint "d_check"
SELECT 2::d;
-- ERROR 42704: type "d" does not exist
SET search_path TO s, public;
SELECT 2::d;
-- 2
CREATE TABLE sd (x d);
RESET search_path;
INSERT INTO s.sd VALUES (0);
-- ERROR 23514: value for domain s.d violates check constraint "d_check"
ALTER DOMAIN s.d SET SCHEMA public;
SELECT 2::d;
-- 2
INSERT INTO s.sd VALUES (1);
-- ERROR 23514: value for domain d violates check constraint "d_check"

-- # What cannot be one
CREATE DOMAIN bad AS nosuch;
-- ERROR 42704: type "nosuch" does not exist
CREATE DOMAIN bad AS int CHECK (x > 0);
-- ERROR 42703: column "x" does not exist
CREATE DOMAIN bad AS int CHECK (VALUE > (SELECT 1));
-- ERROR 0A000: cannot use subquery in check constraint
CREATE DOMAIN bad AS int CHECK (VALUE);
-- ERROR 42804: argument of CHECK must be type boolean, not type integer
CREATE DOMAIN bad AS int DEFAULT 'x';
-- ERROR 22P02: invalid input syntax for type integer: "x"
CREATE DOMAIN bad AS int CONSTRAINT one CHECK (VALUE > 1) CONSTRAINT one CHECK (VALUE > 2);
-- ERROR 42710: constraint "one" for domain "bad" already exists
CREATE DOMAIN bad AS int COLLATE "C";
-- ERROR 42804: collations are not supported by type integer
CREATE DOMAIN word AS text COLLATE "sv-x-icu" CHECK (VALUE < 'ö');
SELECT 'z'::word, 'ä'::word;
-- z|ä
SELECT 'öl'::word;
-- ERROR 23514: value for domain word violates check constraint "word_check"
CREATE TABLE words (x word);
INSERT INTO words VALUES ('ä'), ('z'), ('å');
SELECT x FROM words ORDER BY x;
-- z
-- å
-- ä
CREATE DOMAIN third AS int DEFAULT 1 + 2 NOT NULL CHECK (VALUE > 0);
SELECT NULL::third;
-- ERROR 23502: domain third does not allow null values
CREATE TABLE thirds (id int PRIMARY KEY, t third);
INSERT INTO thirds (id) VALUES (1) RETURNING t;
-- 3
BEGIN;
CREATE DOMAIN gone AS int;
SELECT 1::gone;
-- 1
ROLLBACK;
SELECT 1::gone;
-- ERROR 42704: type "gone" does not exist

-- # What casts to one
CREATE DOMAIN cast_to AS int CHECK (VALUE > 0);
CREATE TABLE casts (x int);
CREATE INDEX by_cast ON casts ((x::cast_to));
CREATE INDEX by_part ON casts (x) WHERE x::cast_to < 5;
DROP DOMAIN cast_to;
-- ERROR 2BP01: cannot drop type cast_to because other objects depend on it
DROP DOMAIN cast_to CASCADE;
SELECT count(*) FROM pg_indexes WHERE tablename = 'casts';
-- 0
INSERT INTO casts VALUES (-1);
