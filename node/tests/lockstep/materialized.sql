-- # Filled when they are made, and again when they are refreshed
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a');
CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM t GROUP BY v;
SELECT * FROM m ORDER BY v;
-- a|2
-- b|1
INSERT INTO t VALUES (4, 'c');
SELECT * FROM m ORDER BY v;
-- a|2
-- b|1
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m ORDER BY v;
-- a|2
-- b|1
-- c|1
CREATE MATERIALIZED VIEW m AS SELECT 1;
-- ERROR 42P07: relation "m" already exists
CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT 1;
CREATE MATERIALIZED VIEW few (a, b, c) AS SELECT 1, 2;
-- ERROR 42601: too many column names were specified
CREATE MATERIALIZED VIEW twice AS SELECT 1 AS a, 2 AS a;
-- ERROR 42701: column "a" specified more than once
-- # Only their query changes them
INSERT INTO m VALUES ('x', 1);
-- ERROR 42809: cannot change materialized view "m"
UPDATE m SET n = 1;
-- ERROR 42809: cannot change materialized view "m"
DELETE FROM m;
-- ERROR 42809: cannot change materialized view "m"
TRUNCATE m;
-- ERROR 42809: "m" is not a table
CREATE TABLE child (v text REFERENCES m (v));
-- ERROR 42809: referenced relation "m" is not a table
ALTER TABLE m ADD COLUMN z int;
-- ERROR 42809: ALTER action ADD COLUMN cannot be performed on relation "m"
ALTER MATERIALIZED VIEW m ALTER COLUMN v SET NOT NULL;
-- ERROR 42809: ALTER action ALTER COLUMN ... SET NOT NULL cannot be performed on relation "m"
-- # Without rows they cannot be read
CREATE MATERIALIZED VIEW e (x) AS SELECT n, v FROM m WITH NO DATA;
SELECT * FROM e;
-- ERROR 55000: materialized view "e" has not been populated
SELECT relkind, relispopulated FROM pg_class WHERE relname = 'e';
-- m|f
CREATE VIEW over AS SELECT x FROM e;
CREATE MATERIALIZED VIEW above AS SELECT x FROM over WITH NO DATA;
SELECT attname FROM pg_attribute WHERE attrelid = 'over'::regclass;
-- x
SELECT * FROM over;
-- ERROR 55000: materialized view "e" has not been populated
REFRESH MATERIALIZED VIEW above;
-- ERROR 55000: materialized view "e" has not been populated
DROP MATERIALIZED VIEW above;
DROP VIEW over;
REFRESH MATERIALIZED VIEW CONCURRENTLY e;
-- ERROR 0A000: CONCURRENTLY cannot be used when the materialized view is not populated
REFRESH MATERIALIZED VIEW e;
SELECT * FROM e ORDER BY v;
-- 2|a
-- 1|b
-- 1|c
REFRESH MATERIALIZED VIEW e WITH NO DATA;
SELECT * FROM e;
-- ERROR 55000: materialized view "e" has not been populated
REFRESH MATERIALIZED VIEW e WITH DATA;
SELECT count(*) FROM e;
-- 3
-- # CONCURRENTLY asks for a unique index
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
-- ERROR 55000: cannot refresh materialized view "public.m" concurrently
CREATE UNIQUE INDEX m_v ON m (v);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
REFRESH MATERIALIZED VIEW CONCURRENTLY m WITH NO DATA;
-- ERROR 42601: CONCURRENTLY and WITH NO DATA options cannot be used together
REFRESH MATERIALIZED VIEW t;
-- ERROR 0A000: "t" is not a materialized view
REFRESH MATERIALIZED VIEW nothing;
-- ERROR 42P01: relation "nothing" does not exist
-- # What they depend on, and what depends on them
DROP TABLE t;
-- ERROR 2BP01: cannot drop table t because other objects depend on it
DROP MATERIALIZED VIEW m;
-- ERROR 2BP01: cannot drop materialized view m because other objects depend on it
DROP MATERIALIZED VIEW t;
-- ERROR 42809: "t" is not a materialized view
DROP TABLE m;
-- ERROR 42809: "m" is not a table
DROP VIEW m;
-- ERROR 42809: "m" is not a view
DROP MATERIALIZED VIEW nothing;
-- ERROR 42P01: materialized view "nothing" does not exist
DROP MATERIALIZED VIEW IF EXISTS nothing;
SELECT matviewname, hasindexes, ispopulated FROM pg_matviews ORDER BY 1;
-- e|f|t
-- m|t|t
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public';
-- t
ALTER MATERIALIZED VIEW e RENAME TO f;
ALTER MATERIALIZED VIEW f RENAME COLUMN x TO y;
SELECT y FROM f ORDER BY y LIMIT 1;
-- 1
REFRESH MATERIALIZED VIEW f;
DROP MATERIALIZED VIEW m CASCADE;
SELECT matviewname FROM pg_matviews;
-- # In transactions
BEGIN;
CREATE MATERIALIZED VIEW g AS SELECT id FROM t;
INSERT INTO t VALUES (5, 'd');
SELECT count(*) FROM g;
-- 4
REFRESH MATERIALIZED VIEW g;
SELECT count(*) FROM g;
-- 5
ROLLBACK;
SELECT * FROM g;
-- ERROR 42P01: relation "g" does not exist
CREATE SCHEMA s;
CREATE MATERIALIZED VIEW s.g AS SELECT id FROM t;
SELECT s.g.id FROM s.g ORDER BY id;
-- 1
-- 2
-- 3
-- 4
SET search_path TO s, public;
REFRESH MATERIALIZED VIEW g;
CREATE VIEW w AS SELECT id AS i FROM t;
SELECT s.w.i FROM s.w ORDER BY i LIMIT 1;
-- 1
-- # Their owner refreshes them, with what the owner may read
RESET search_path;
CREATE ROLE ada;
GRANT SELECT ON s.g TO ada;
GRANT USAGE ON SCHEMA s TO ada;
SET ROLE ada;
SELECT count(*) FROM s.g;
-- 4
SELECT count(*) FROM t;
-- ERROR 42501: permission denied for table t
REFRESH MATERIALIZED VIEW s.g;
-- ERROR 42501: must be owner of materialized view g
RESET ROLE;
ALTER MATERIALIZED VIEW s.g OWNER TO ada;
SET ROLE ada;
REFRESH MATERIALIZED VIEW s.g;
-- ERROR 42501: permission denied for table t
RESET ROLE;
DROP SCHEMA s CASCADE;
SELECT matviewname FROM pg_matviews;

-- # Indexes of what was never filled
CREATE TABLE under (n int);
INSERT INTO under VALUES (1), (1);
CREATE MATERIALIZED VIEW unfilled AS SELECT n FROM under WITH NO DATA;
CREATE UNIQUE INDEX unfilled_n ON unfilled (n);
CREATE UNIQUE INDEX unfilled_sum ON unfilled ((n + 1)) WHERE n > 5;
SELECT count(*) FROM unfilled;
-- ERROR 55000: materialized view "unfilled" has not been populated
DELETE FROM under;
INSERT INTO under VALUES (1), (2);
REFRESH MATERIALIZED VIEW unfilled;
SELECT count(*) FROM unfilled;
-- 2
-- # A column that becomes an identity under a view
CREATE TABLE numbered (id int NOT NULL, n int);
CREATE VIEW over_numbered AS SELECT * FROM numbered;
ALTER TABLE numbered ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (START WITH 5);
INSERT INTO numbered (n) VALUES (1);
SELECT * FROM over_numbered;
-- 5|1
