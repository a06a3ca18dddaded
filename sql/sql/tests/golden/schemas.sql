-- # A schema is a namespace

CREATE SCHEMA s;
-- CREATE SCHEMA
CREATE SCHEMA s;
-- ERROR 42P06: schema "s" already exists
CREATE SCHEMA IF NOT EXISTS s;
-- CREATE SCHEMA
CREATE SCHEMA IF NOT EXISTS public;
-- CREATE SCHEMA
CREATE SCHEMA pg_mine;
-- ERROR 42939: unacceptable schema name "pg_mine"
-- DETAIL: The prefix "pg_" is reserved for system schemas.
CREATE SCHEMA AUTHORIZATION tally;
-- CREATE SCHEMA

CREATE TABLE t (id int PRIMARY KEY, v text);
-- CREATE TABLE
CREATE TABLE s.t (id int PRIMARY KEY, v text UNIQUE, parent int REFERENCES s.t);
-- CREATE TABLE
CREATE TABLE nope.t (id int PRIMARY KEY);
-- ERROR 3F000: schema "nope" does not exist
CREATE TABLE s.t (id int PRIMARY KEY);
-- ERROR 42P07: relation "t" already exists

INSERT INTO t VALUES (1, 'public');
-- INSERT 0 1
INSERT INTO s.t VALUES (1, 's', NULL), (2, 'child', 1);
-- INSERT 0 2
INSERT INTO s.t VALUES (3, 's', NULL);
-- ERROR 23505: duplicate key value violates unique constraint "t_v_key"
-- DETAIL: Key (v)=(s) already exists.
INSERT INTO s.t VALUES (3, 'orphan', 9);
-- ERROR 23503: insert or update on table "t" violates foreign key constraint "t_parent_fkey"
-- DETAIL: Key (parent)=(9) is not present in table "t".

SELECT v FROM t;
-- v text
-- public
-- SELECT 1
SELECT v FROM public.t;
-- v text
-- public
-- SELECT 1
SELECT s.t.v, t.id FROM s.t WHERE s.t.id = 2;
-- v text | id integer
-- child | 2
-- SELECT 1
SELECT s.t.* FROM s.t WHERE id = 1;
-- id integer | v text | parent integer
-- 1 | s | NULL
-- SELECT 1
SELECT nope.t.v FROM s.t;
-- ERROR 42P01: missing FROM-clause entry for table "nope.t"
SELECT public.t.v FROM s.t;
-- ERROR 42P01: missing FROM-clause entry for table "public.t"
SELECT * FROM s.u;
-- ERROR 42P01: relation "s.u" does not exist
SELECT * FROM nope.t;
-- ERROR 42P01: relation "nope.t" does not exist
SELECT a.v, b.v FROM t AS a JOIN s.t AS b USING (id);
-- v text | v text
-- public | s
-- SELECT 1
UPDATE s.t SET v = 'changed' WHERE id = 1;
-- UPDATE 1
UPDATE s.t SET v = 'aliased' FROM public.t AS p WHERE s.t.id = p.id;
-- UPDATE 1
DELETE FROM s.t WHERE id = 2;
-- DELETE 1
SELECT * FROM s.t;
-- id integer | v text | parent integer
-- 1 | aliased | NULL
-- SELECT 1

-- # Names that are quoted do not meet those that are not

CREATE TABLE "s.t" (id int PRIMARY KEY);
-- CREATE TABLE
SELECT * FROM "s.t";
-- id integer
-- SELECT 0
SELECT count(*) FROM s.t;
-- count bigint
-- 1
-- SELECT 1
CREATE TABLE s."a.b" ("x.y" int PRIMARY KEY);
-- CREATE TABLE
INSERT INTO s."a.b" ("x.y") VALUES (7);
-- INSERT 0 1
SELECT "a.b"."x.y" FROM s."a.b";
-- x.y integer
-- 7
-- SELECT 1

-- # Indexes, sequences and views live beside what they are of

CREATE INDEX i ON s.t (v);
-- CREATE INDEX
CREATE INDEX i ON t (v);
-- CREATE INDEX
CREATE INDEX i ON s.t (id);
-- ERROR 42P07: relation "i" already exists
CREATE TABLE s.serials (id serial PRIMARY KEY);
-- CREATE TABLE
DROP INDEX s.i;
-- DROP INDEX
ALTER TABLE s.t RENAME TO u;
-- ALTER TABLE
ALTER TABLE s.u ADD COLUMN n int DEFAULT 5;
-- ALTER TABLE
SELECT id, n FROM s.u;
-- id integer | n integer
-- 1 | 5
-- SELECT 1
CREATE SEQUENCE s.q START 5;
-- CREATE SEQUENCE
SELECT nextval('q');
-- ERROR 42P01: relation "q" does not exist
CREATE TABLE s.counted (id int PRIMARY KEY, v text);
-- CREATE TABLE
INSERT INTO s.counted VALUES (1, 'a'), (2, 'b');
-- INSERT 0 2
SELECT * FROM s.counted;
-- id integer | v text
-- 1 | a
-- 2 | b
-- SELECT 2
CREATE VIEW s.w AS SELECT v FROM s.counted;
-- CREATE VIEW
SELECT * FROM s.w;
-- v text
-- a
-- b
-- SELECT 2
DROP TABLE s.counted;
-- ERROR 2BP01: cannot drop table s.counted because other objects depend on it
-- DETAIL: view s.w depends on table s.counted
-- HINT: Use DROP ... CASCADE to drop the dependent objects too.

-- # Dropping

DROP SCHEMA s;
-- ERROR 2BP01: cannot drop schema s because other objects depend on it
-- DETAIL: s.w depends on schema s
-- HINT: Use DROP ... CASCADE to drop the dependent objects too.
DROP SCHEMA nope;
-- ERROR 3F000: schema "nope" does not exist
DROP SCHEMA IF EXISTS nope;
-- DROP SCHEMA
DROP SCHEMA pg_catalog;
-- ERROR 2BP01: cannot drop schema pg_catalog because it is required by the system
CREATE TABLE refers (id int PRIMARY KEY, u int REFERENCES s.u);
-- CREATE TABLE
DROP SCHEMA s CASCADE;
-- DROP SCHEMA
SELECT * FROM s.u;
-- ERROR 42P01: relation "s.u" does not exist
INSERT INTO refers VALUES (1, 99);
-- INSERT 0 1
SELECT v FROM t;
-- v text
-- public
-- SELECT 1
DROP SCHEMA public CASCADE;
-- DROP SCHEMA
CREATE TABLE t (id int PRIMARY KEY);
-- ERROR 3F000: schema "public" does not exist
CREATE SCHEMA public;
-- CREATE SCHEMA
CREATE TABLE t (id int PRIMARY KEY);
-- CREATE TABLE
