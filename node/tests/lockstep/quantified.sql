-- # ANY and ALL of arrays and subqueries, LIKE ANY, LATERAL VALUES, limits of the outer row; behind writes
CREATE TABLE t (id int PRIMARY KEY, a int, name text);
CREATE VIEW tt AS SELECT id, a, name, CASE id WHEN 1 THEN ARRAY['a%', 'x'] WHEN 2 THEN ARRAY[]::text[] WHEN 4 THEN ARRAY['x%', NULL] WHEN 5 THEN ARRAY['%b', 'a%'] END AS tags, CASE id WHEN 1 THEN ARRAY[1, 20] WHEN 2 THEN ARRAY[]::int[] WHEN 4 THEN ARRAY[5, NULL] WHEN 5 THEN ARRAY[7, 8] END AS nums FROM t;
INSERT INTO t VALUES (1, 10, 'abc'), (2, 20, 'ABC%'), (3, NULL, NULL), (4, 5, 'xyz');
BEGIN;
INSERT INTO t VALUES (5, 7, 'a_b');
SAVEPOINT p;
SELECT id FROM t WHERE name LIKE ANY (ARRAY['a%', 'x']) ORDER BY id;
-- 1
-- 5
ROLLBACK TO p;
SELECT id FROM t WHERE name ILIKE ANY (ARRAY['a%', NULL]) ORDER BY id;
-- 1
-- 2
-- 5
ROLLBACK TO p;
SELECT id FROM t WHERE name NOT LIKE ANY (ARRAY['a%', 'x%']) ORDER BY id;
-- 1
-- 2
-- 4
-- 5
ROLLBACK TO p;
SELECT id FROM t WHERE name LIKE ALL (ARRAY['a%', '%b']) ORDER BY id;
-- 5
ROLLBACK TO p;
SELECT id FROM t WHERE name NOT ILIKE ALL (ARRAY['a%', 'y']) ORDER BY id;
-- 4
ROLLBACK TO p;
SELECT id FROM t WHERE name LIKE ANY ('{a%,x%}') ORDER BY id;
-- 1
-- 4
-- 5
ROLLBACK TO p;
SELECT id, name LIKE ANY (tags), name LIKE ALL (tags) FROM tt ORDER BY id;
-- 1|t|f
-- 2|f|t
-- 3|NULL|NULL
-- 4|t|NULL
-- 5|t|t
ROLLBACK TO p;
SELECT id, name NOT LIKE ANY (tags) FROM tt ORDER BY id;
-- 1|t
-- 2|f
-- 3|NULL
-- 4|NULL
-- 5|f
ROLLBACK TO p;
SELECT id FROM t WHERE name LIKE ANY (SELECT 'a' || '%') ORDER BY id;
-- 1
-- 5
ROLLBACK TO p;
SELECT id, a < ANY (nums), a >= ALL (nums), a <> ANY (nums), a = ALL (nums) FROM tt ORDER BY id;
-- 1|t|f|t|f
-- 2|f|t|f|t
-- 3|NULL|NULL|NULL|NULL
-- 4|NULL|NULL|NULL|NULL
-- 5|t|f|t|f
ROLLBACK TO p;
SELECT id FROM t WHERE a > ALL (ARRAY[5, 6]) ORDER BY id;
-- 1
-- 2
-- 5
ROLLBACK TO p;
SELECT id FROM t WHERE a < ANY (ARRAY[6, NULL]) ORDER BY id;
-- 4
ROLLBACK TO p;
SELECT id FROM tt WHERE 10 <= ANY (nums) ORDER BY id;
-- 1
ROLLBACK TO p;
SELECT id, a > ALL (ARRAY[]::int[]), a > ANY (ARRAY[]::int[]), a > ANY (NULL::int[]) FROM t WHERE id < 3 ORDER BY id;
-- 1|t|f|NULL
-- 2|t|f|NULL
ROLLBACK TO p;
SELECT id FROM tt WHERE a <> ALL (SELECT x FROM unnest(nums) x) ORDER BY id;
-- 1
-- 2
-- 3
ROLLBACK TO p;
SELECT id FROM t WHERE a = ALL (ARRAY[10, 10]) ORDER BY id;
-- 1
ROLLBACK TO p;
SELECT id FROM t WHERE a <> ANY (ARRAY[10, 10]) ORDER BY id;
-- 2
-- 4
-- 5
ROLLBACK TO p;
SELECT count(*) FILTER (WHERE a > ANY (nums)) FROM tt;
-- 1
ROLLBACK TO p;
SELECT id FROM tt ORDER BY a > ALL (nums), id;
-- 1
-- 4
-- 5
-- 2
-- 3
ROLLBACK TO p;
SELECT id FROM t WHERE name LIKE ANY (a);
-- ERROR 42809: op ANY/ALL (array) requires array on right side
ROLLBACK TO p;
SELECT id FROM t WHERE a LIKE ANY (ARRAY['x']);
-- ERROR 42883: operator does not exist: integer ~~ text
ROLLBACK TO p;
SELECT id FROM t WHERE a < ANY (5);
-- ERROR 42809: op ANY/ALL (array) requires array on right side
ROLLBACK TO p;
SELECT id FROM t WHERE name ILIKE ANY (ARRAY['A!_%', 'x!%']) ORDER BY id;
ROLLBACK TO p;
SELECT x.id, v.y FROM t x, LATERAL (VALUES (x.id), (x.id + 10)) v (y) ORDER BY 2;
-- 1|1
-- 2|2
-- 3|3
-- 4|4
-- 5|5
-- 1|11
-- 2|12
-- 3|13
-- 4|14
-- 5|15
ROLLBACK TO p;
SELECT x.id, v.* FROM t x LEFT JOIN LATERAL (VALUES (x.id, x.name)) v (y, z) ON v.z LIKE 'a%' ORDER BY 1;
-- 1|1|abc
-- 2|NULL|NULL
-- 3|NULL|NULL
-- 4|NULL|NULL
-- 5|5|a_b
ROLLBACK TO p;
SELECT id, (SELECT z.a FROM t z ORDER BY z.id LIMIT 1 OFFSET x.id - 1) FROM t x ORDER BY id;
-- 1|10
-- 2|20
-- 3|NULL
-- 4|5
-- 5|7
ROLLBACK TO p;
SELECT id, (SELECT count(*) FROM (SELECT 1 FROM t z LIMIT x.id - 1) q) FROM t x ORDER BY id;
-- 1|0
-- 2|1
-- 3|2
-- 4|3
-- 5|4
ROLLBACK TO p;
SELECT id, (SELECT sum(q) FROM (SELECT z.id AS q FROM t z ORDER BY z.id LIMIT x.id) y) FROM t x ORDER BY id;
-- 1|1
-- 2|3
-- 3|6
-- 4|10
-- 5|15
ROLLBACK TO p;
SELECT id, lead(a, 1, 1.5) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|20
-- 2|NULL
-- 3|5
-- 4|7
-- 5|1.5
ROLLBACK TO p;
SELECT id, lag(a, 1, 'x') OVER (ORDER BY id) FROM t ORDER BY id;
-- ERROR 22P02: invalid input syntax for type integer: "x"
ROLLBACK TO p;
SELECT id, lag(a, 1, '7') OVER (ORDER BY id), pg_typeof(lag(a, 1, 2::bigint) OVER (ORDER BY id)) FROM t ORDER BY id;
-- 1|7|bigint
-- 2|10|bigint
-- 3|20|bigint
-- 4|NULL|bigint
-- 5|5|bigint
ROLLBACK TO p;
SELECT id, lead(name, 1, id) OVER (ORDER BY id) FROM t;
-- ERROR 42883: function lead(text, integer, integer) does not exist
ROLLBACK TO p;
SELECT id, lead(a, 1, 0::smallint) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|20
-- 2|NULL
-- 3|5
-- 4|7
-- 5|0
ROLLBACK TO p;
UPDATE t SET a = 100 WHERE name LIKE ANY (ARRAY['x%', 'q%']) OR a = ALL (ARRAY[5, 5]);
SELECT id, a FROM t ORDER BY id;
-- 1|10
-- 2|20
-- 3|NULL
-- 4|100
-- 5|7
DELETE FROM t WHERE a >= ALL (SELECT z.a FROM t z WHERE z.a IS NOT NULL);
SELECT count(*) FROM t;
-- 4
COMMIT;
