-- # USING, NATURAL and commas; FOR UPDATE where no rows of tables are answered
CREATE TABLE t (id int PRIMARY KEY, a int, b int);
CREATE TABLE u (id int PRIMARY KEY, a bigint, c text);
INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, NULL, 30);
INSERT INTO u VALUES (1, 2, 'x'), (2, 3, 'y'), (3, NULL, 'z');
SELECT * FROM t, u FULL JOIN (SELECT 2 AS a, 5 AS e) w USING (a) WHERE t.id = 1 ORDER BY c;
-- 1|1|10|2|1|x|5
-- 1|1|10|3|2|y|NULL
-- 1|1|10|NULL|3|z|NULL
SELECT * FROM t, u JOIN (SELECT 2 AS a, 5 AS e) w USING (a) WHERE t.id = 1;
-- 1|1|10|2|1|x|5
SELECT * FROM t, u LEFT JOIN (SELECT 2 AS a, 5 AS e) w USING (a) WHERE t.id = 1 ORDER BY c;
-- 1|1|10|2|1|x|5
-- 1|1|10|3|2|y|NULL
-- 1|1|10|NULL|3|z|NULL
SELECT * FROM t, u RIGHT JOIN (SELECT 2 AS a, 5 AS e) w USING (a) WHERE t.id = 1;
-- 1|1|10|2|1|x|5
SELECT a FROM t, u JOIN (SELECT 2 AS a, 5 AS e) w USING (a);
-- ERROR 42702: column reference "a" is ambiguous
SELECT t.a, u.a, w.a, e FROM t, u NATURAL JOIN (SELECT 2 AS a, 5 AS e) w WHERE t.id = 2;
-- 2|2|2|5
SELECT * FROM t x CROSS JOIN t y JOIN u USING (a);
-- ERROR 42702: common column name "a" appears more than once in left table
SELECT * FROM t x CROSS JOIN (t y JOIN u USING (a)) ORDER BY x.id;
-- 1|1|10|2|2|20|1|x
-- 2|2|20|2|2|20|1|x
-- 3|NULL|30|2|2|20|1|x
SELECT a, pg_typeof(a), pg_typeof(t.a), pg_typeof(u.a) FROM t JOIN u USING (a);
-- 2|bigint|integer|bigint
SELECT a, pg_typeof(a) FROM t LEFT JOIN u USING (a) ORDER BY t.id;
-- 1|bigint
-- 2|bigint
-- NULL|bigint
SELECT a, pg_typeof(a) FROM t RIGHT JOIN u USING (a) ORDER BY u.id;
-- 2|bigint
-- 3|bigint
-- NULL|bigint
SELECT a, pg_typeof(a) FROM t FULL JOIN u USING (a) ORDER BY t.id, u.id;
-- 1|bigint
-- 2|bigint
-- NULL|bigint
-- 3|bigint
-- NULL|bigint
SELECT a / 2, pg_typeof(a) FROM t FULL JOIN (SELECT 1.5 AS a) x USING (a) ORDER BY 1;
-- 0.50000000000000000000|numeric
-- 0.75000000000000000000|numeric
-- 1.00000000000000000000|numeric
-- NULL|numeric
SELECT a / 2 FROM t RIGHT JOIN (SELECT 1.5 AS a) x USING (a);
-- 0.75000000000000000000
SELECT a, pg_typeof(a) FROM (SELECT 1.5 AS a) x LEFT JOIN t USING (a);
-- 1.5|numeric
SELECT a, pg_typeof(a) FROM t JOIN (SELECT 2.0::float8 AS a) x USING (a);
-- 2|double precision
SELECT count(*) FROM t JOIN (SELECT 'x'::text AS a) x USING (a);
-- ERROR 42804: JOIN/USING types integer and text cannot be matched
SELECT a, count(*) FROM t FULL JOIN u USING (a) FULL JOIN (SELECT 3::smallint AS a) w USING (a) GROUP BY a ORDER BY a;
-- 1|1
-- 2|1
-- 3|1
-- NULL|2
SELECT j.a, j.c FROM (t RIGHT JOIN u USING (a)) j ORDER BY c;
-- 2|x
-- 3|y
-- NULL|z
SELECT * FROM (t FULL JOIN u USING (a)) AS j (x, y) ORDER BY y, id;
-- 1|1|10|NULL|NULL
-- 2|2|20|1|x
-- NULL|3|30|NULL|NULL
-- 3|NULL|NULL|2|y
-- NULL|NULL|NULL|3|z
SELECT j.*, v.id FROM (t JOIN u ON t.id = u.id AND t.b > 10) AS j (p) LEFT JOIN t v ON v.id = j.p ORDER BY p;
-- 2|2|20|2|3|y|2
-- 3|NULL|30|3|NULL|z|3
SELECT x FROM (t CROSS JOIN u) AS j (a, b, c, d, e, x);
-- x
-- y
-- z
-- x
-- y
-- z
-- x
-- y
-- z
SELECT count(*) FROM (t JOIN u USING (a)) j WHERE EXISTS (SELECT 1 FROM t WHERE t.id = j.b / 10);
-- 1
SELECT * FROM t JOIN u USING (nope);
-- ERROR 42703: column "nope" specified in USING clause does not exist in left table
SELECT * FROM u x, t JOIN u USING (c);
-- ERROR 42703: column "c" specified in USING clause does not exist in left table
BEGIN;
UPDATE t SET b = b + 1 WHERE id = 1;
SELECT rank() OVER (ORDER BY x.id) FROM (SELECT id FROM t FOR UPDATE) x;
-- 1
-- 2
-- 3
SELECT id, b FROM (SELECT id, b FROM t ORDER BY id LIMIT 2 FOR UPDATE) x ORDER BY id;
-- 1|11
-- 2|20
COMMIT;
SELECT * FROM (SELECT rank() OVER (ORDER BY id) FROM t FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE is not allowed with window functions
SELECT id FROM t ORDER BY rank() OVER (ORDER BY id) FOR UPDATE;
-- ERROR 0A000: FOR UPDATE is not allowed with window functions
SELECT * FROM (SELECT count(*) FROM t FOR SHARE) x;
-- ERROR 0A000: FOR SHARE is not allowed with aggregate functions
SELECT count(*) FROM t FOR SHARE;
-- ERROR 0A000: FOR SHARE is not allowed with aggregate functions
SELECT generate_series(1,2) FROM t FOR SHARE;
-- ERROR 0A000: FOR SHARE is not allowed with set-returning functions in the target list
SELECT * FROM (SELECT id FROM t ORDER BY count(*) OVER () FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE is not allowed with window functions
SELECT * FROM (VALUES (1) FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE cannot be applied to VALUES
VALUES (1) FOR UPDATE;
-- ERROR 0A000: FOR UPDATE cannot be applied to VALUES
SELECT * FROM (SELECT id FROM t UNION SELECT id FROM u FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT
SELECT * FROM (SELECT DISTINCT id FROM t FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE is not allowed with DISTINCT clause
SELECT DISTINCT ON (a) id FROM t FOR UPDATE;
-- ERROR 0A000: FOR UPDATE is not allowed with DISTINCT clause
SELECT * FROM (SELECT id FROM t GROUP BY id FOR UPDATE) x;
-- ERROR 0A000: FOR UPDATE is not allowed with GROUP BY clause
SELECT id FROM t GROUP BY id HAVING true FOR UPDATE;
-- ERROR 0A000: FOR UPDATE is not allowed with GROUP BY clause
SELECT 1 FROM t HAVING true FOR UPDATE;
-- ERROR 0A000: FOR UPDATE is not allowed with HAVING clause
SELECT id, count(*) FROM t FOR UPDATE;
-- ERROR 0A000: FOR UPDATE is not allowed with aggregate functions
SELECT * FROM (SELECT nope FROM t GROUP BY id FOR UPDATE) x;
-- ERROR 42703: column "nope" does not exist
SELECT 1 WHERE EXISTS (SELECT count(*) FROM t FOR UPDATE);
-- ERROR 0A000: FOR UPDATE is not allowed with aggregate functions
WITH w AS (SELECT count(*) FROM t FOR SHARE) SELECT * FROM w;
-- ERROR 0A000: FOR SHARE is not allowed with aggregate functions
UPDATE t SET b = 1 WHERE id IN (SELECT max(id) FROM t FOR UPDATE);
-- ERROR 0A000: FOR UPDATE is not allowed with aggregate functions
UPDATE t SET b = 1 WHERE id = (SELECT id FROM t WHERE id = 2 FOR UPDATE);
SELECT id, b FROM t ORDER BY id;
-- 1|11
-- 2|1
-- 3|30
SELECT sum(a) OVER (nope ORDER BY a) FROM t;
-- ERROR 42704: window "nope" does not exist
