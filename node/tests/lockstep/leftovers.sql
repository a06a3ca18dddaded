-- # Queries that begin with TABLE, lists with queries in them
CREATE TABLE q (id int PRIMARY KEY, a int, b text, n numeric);
INSERT INTO q VALUES (1, 1, 'x', 1.5), (2, 2, 'y', 2.5), (3, 4, 'z', 3.5);
CREATE TABLE q2 (id int PRIMARY KEY, a int, b text, n numeric);
INSERT INTO q2 TABLE q;
SELECT count(*) FROM q2;
-- 3
TABLE q;
-- 1|1|x|1.5
-- 2|2|y|2.5
-- 3|4|z|3.5
SELECT count(*) FROM (TABLE q UNION ALL TABLE q2) s;
-- 6
WITH w AS (TABLE q) SELECT count(*) FROM w;
-- 3
SELECT id FROM q WHERE a IN ((SELECT 1), (SELECT 2)) ORDER BY id;
-- 1
-- 2
SELECT id FROM q WHERE a NOT IN ((SELECT 1), 4) ORDER BY id;
-- 2
SELECT 1 IN ((SELECT 1), (SELECT NULL::int)), 2 IN ((SELECT 1), (SELECT NULL::int)), 3 IN ((1 + 2), 4);
-- t|NULL|t
RESET TIME ZONE;

-- # A transaction that has failed
BEGIN;
SELECT 1 / 0;
-- ERROR 22012: division by zero
SELECT nosuch FROM q;
-- ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
SELECT * FROM nosuch;
-- ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
INSERT INTO q VALUES (1, 2, 3, 4, 5, 6);
-- ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
CREATE TABLE q (a int);
-- ERROR 25P02: current transaction is aborted, commands ignored until end of transaction block
ROLLBACK;

-- # Views that take the place of others
CREATE VIEW v AS SELECT id, a FROM q;
CREATE OR REPLACE VIEW v AS SELECT id, b FROM q;
-- ERROR 42P16: cannot change name of view column "a" to "b"
CREATE OR REPLACE VIEW v AS SELECT id FROM q;
-- ERROR 42P16: cannot drop columns from view
CREATE OR REPLACE VIEW v AS SELECT id, a::text AS a FROM q;
-- ERROR 42P16: cannot change data type of view column "a" from integer to text
CREATE OR REPLACE VIEW v (id, c) AS SELECT id, a FROM q;
-- ERROR 42P16: cannot change name of view column "a" to "c"
CREATE OR REPLACE VIEW v AS SELECT id, a * 2 AS a, b FROM q;
SELECT * FROM v ORDER BY id;
-- 1|2|x
-- 2|4|y
-- 3|8|z
CREATE OR REPLACE VIEW fresh AS SELECT 1 AS one;
SELECT * FROM fresh;
-- 1

-- # Collations
SELECT b COLLATE "C" FROM q ORDER BY b COLLATE "POSIX" DESC;
-- z
-- y
-- x
SELECT b COLLATE "nosuch" FROM q WHERE id = 1;
-- ERROR 42704: collation "nosuch" for encoding "UTF8" does not exist
SELECT a COLLATE "C" FROM q WHERE id = 1;
-- ERROR 42804: collations are not supported by type integer

-- # Variances and bits
SELECT stddev(a), variance(a), var_pop(a), stddev_pop(a), stddev_samp(n), var_samp(n) FROM q;
-- 1.5275252316519467|2.3333333333333333|1.5555555555555556|1.2472191289246471|1.00000000000000000000|1.00000000000000000000
SELECT stddev(a::float8), variance(a::float8), var_pop(a::float8), stddev_pop(a::real) FROM q;
-- 1.5275252316519468|2.3333333333333335|1.5555555555555556|1.247219128924647
SELECT variance(a), var_pop(a), stddev(n), stddev_pop(n) FROM q WHERE id = 1;
-- NULL|0|NULL|0
SELECT variance(a), var_pop(a) FROM q WHERE false;
-- NULL|NULL
SELECT variance(x), stddev_pop(x) FROM (VALUES (1), (1), (NULL)) t(x);
-- 0|0
SELECT var_pop(x), stddev(x) FROM (VALUES ('NaN'::numeric), (1)) t(x);
-- NaN|NaN
SELECT var_pop(x), stddev(x) FROM (VALUES ('Infinity'::float8), (1)) t(x);
-- NaN|NaN
SELECT stddev(DISTINCT a), var_pop(a) FILTER (WHERE a < 4) FROM (TABLE q UNION ALL TABLE q) s;
-- 1.5275252316519467|0.25000000000000000000
SELECT b > 'x' AS g, stddev(n), bit_or(a) FROM q GROUP BY 1 ORDER BY 1;
-- f|NULL|1
-- t|0.70710678118654752440|6
SELECT bit_and(a), bit_or(a), bit_xor(a), pg_typeof(bit_or(a::smallint)) FROM q;
-- 0|7|7|smallint
SELECT id, var_pop(a) OVER (ORDER BY id) FROM q ORDER BY id;
-- 1|0
-- 2|0.25000000000000000000
-- 3|1.5555555555555556
SELECT stddev(b) FROM q;
-- ERROR 42883: function stddev(text) does not exist

-- # ON DELETE and ON UPDATE SET DEFAULT
CREATE TABLE parents (id int PRIMARY KEY);
INSERT INTO parents VALUES (0), (1), (2), (3);
CREATE TABLE children (id int PRIMARY KEY, p int DEFAULT 0 REFERENCES parents ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
INSERT INTO children VALUES (1, 1), (2, 2), (3, 3);
DELETE FROM parents WHERE id = 1;
UPDATE parents SET id = 22 WHERE id = 2;
SELECT * FROM children ORDER BY id;
-- 1|0
-- 2|0
-- 3|3
DELETE FROM parents WHERE id = 0;
-- ERROR 23503: update or delete on table "parents" violates foreign key constraint "children_p_fkey" on table "children"
DELETE FROM parents;
-- ERROR 23503: update or delete on table "parents" violates foreign key constraint "children_p_fkey" on table "children"
UPDATE children SET p = 3;
DELETE FROM parents WHERE id = 0;
DELETE FROM parents WHERE id = 3;
-- ERROR 23503: insert or update on table "children" violates foreign key constraint "children_p_fkey"
SELECT * FROM children ORDER BY id;
-- 1|3
-- 2|3
-- 3|3
SELECT * FROM parents ORDER BY id;
-- 3
-- 22
SELECT confdeltype, confupdtype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'children'::regclass AND contype = 'f';
-- d|d|FOREIGN KEY (p) REFERENCES parents(id) ON UPDATE SET DEFAULT ON DELETE SET DEFAULT
CREATE TABLE optional (id int PRIMARY KEY, p int REFERENCES parents ON DELETE SET DEFAULT);
INSERT INTO optional VALUES (1, 22);
DELETE FROM parents WHERE id = 22;
SELECT * FROM optional;
-- 1|NULL

-- # Unique keys in which NULLs are alike
CREATE TABLE alike (id int PRIMARY KEY, a int, b text, UNIQUE NULLS NOT DISTINCT (a, b));
INSERT INTO alike VALUES (1, NULL, NULL);
INSERT INTO alike VALUES (2, NULL, NULL);
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
INSERT INTO alike VALUES (2, 1, NULL), (3, NULL, 'x'), (4, 1, 'x');
INSERT INTO alike VALUES (5, 1, NULL);
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
INSERT INTO alike VALUES (5, NULL, 'x');
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
INSERT INTO alike VALUES (5, 1, 'x');
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
INSERT INTO alike VALUES (5, 2, NULL), (6, 2, NULL);
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
UPDATE alike SET a = NULL WHERE id = 4;
-- ERROR 23505: duplicate key value violates unique constraint "alike_a_b_key"
UPDATE alike SET a = NULL, b = NULL WHERE id = 1;
INSERT INTO alike VALUES (7, NULL, NULL) ON CONFLICT DO NOTHING;
INSERT INTO alike VALUES (7, NULL, NULL) ON CONFLICT (a, b) DO UPDATE SET b = 'updated';
SELECT * FROM alike ORDER BY id;
-- 1|NULL|updated
-- 2|1|NULL
-- 3|NULL|x
-- 4|1|x
CREATE UNIQUE INDEX alike_a ON alike (a) NULLS NOT DISTINCT;
-- ERROR 23505: could not create unique index "alike_a"
DELETE FROM alike WHERE id > 2;
DELETE FROM alike WHERE id = 1;
CREATE UNIQUE INDEX alike_b ON alike (b) NULLS NOT DISTINCT;
INSERT INTO alike VALUES (8, 8, NULL);
-- ERROR 23505: duplicate key value violates unique constraint "alike_b"
SELECT indexrelid::regclass, indnullsnotdistinct FROM pg_index WHERE indrelid = 'alike'::regclass ORDER BY indexrelid::regclass::text;
-- alike_a_b_key|t
-- alike_b|t
-- alike_pkey|f
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'alike'::regclass AND contype = 'u';
-- UNIQUE NULLS NOT DISTINCT (a, b)
SELECT pg_get_indexdef('alike_b'::regclass);
-- CREATE UNIQUE INDEX alike_b ON public.alike USING btree (b) NULLS NOT DISTINCT
ALTER TABLE alike ADD CONSTRAINT alone UNIQUE NULLS NOT DISTINCT (a);
INSERT INTO alike VALUES (9, 1, 'z');
-- ERROR 23505: duplicate key value violates unique constraint "alone"
