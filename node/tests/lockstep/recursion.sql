-- # WITH RECURSIVE, behind writes
CREATE TABLE e (id int PRIMARY KEY, p int, w int);
INSERT INTO e VALUES (1,NULL,5),(2,1,3),(3,1,4),(4,2,1),(5,4,9),(6,6,0);
BEGIN;
INSERT INTO e VALUES (7, 5, 2);
SAVEPOINT p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r WHERE n < 5) SELECT * FROM r;
-- 1
-- 2
-- 3
-- 4
-- 5
ROLLBACK TO p;
WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n+1.5 FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42804: recursive query "r" column 1 has type integer in non-recursive term but type numeric overall
ROLLBACK TO p;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1::bigint FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42804: recursive query "r" column 1 has type integer in non-recursive term but type bigint overall
ROLLBACK TO p;
WITH RECURSIVE r(n, m) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42P10: WITH query "r" has 1 columns available but 2 columns specified
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1, 2 FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42601: each UNION query must have the same number of columns
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT n FROM r UNION ALL SELECT 1) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within its non-recursive term
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT max(n)+1 FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42P19: aggregate functions are not allowed in a recursive query's recursive term
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT max(n)+1 FROM (SELECT n FROM r WHERE n < 5) x HAVING max(n) IS NOT NULL) SELECT * FROM r;
-- 1
-- 2
-- 3
-- 4
-- 5
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r WHERE n < 5 AND n IN (SELECT n FROM r)) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within a subquery
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT a.n+1 FROM r a, r b WHERE a.n < 5) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear more than once
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM e LEFT JOIN r ON true WHERE n < 5) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within an outer join
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r LEFT JOIN e ON id = n WHERE n < 5) SELECT * FROM r;
-- 1
-- 2
-- 3
-- 4
-- 5
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r RIGHT JOIN e ON id = n WHERE n < 5) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within an outer join
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM e FULL JOIN r ON id = n WHERE n < 5) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within an outer join
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (SELECT n+1 FROM r WHERE n < 5 EXCEPT SELECT 3)) SELECT * FROM r;
-- 1
-- 2
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (SELECT 3 EXCEPT SELECT n+1 FROM r WHERE n < 5)) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within EXCEPT
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (SELECT 2 INTERSECT SELECT n+1 FROM r WHERE n < 5)) SELECT * FROM r;
-- 1
-- 2
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (SELECT 2 INTERSECT ALL SELECT n+1 FROM r WHERE n < 5)) SELECT * FROM r;
-- ERROR 42P19: recursive reference to query "r" must not appear within INTERSECT
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r WHERE n < 5 ORDER BY 1) SELECT * FROM r;
-- ERROR 0A000: ORDER BY in a recursive query is not implemented
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r WHERE n < 5 LIMIT 3) SELECT * FROM r;
-- ERROR 0A000: LIMIT in a recursive query is not implemented
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r WHERE n < 5 OFFSET 3) SELECT * FROM r;
-- ERROR 0A000: OFFSET in a recursive query is not implemented
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n INTERSECT SELECT n+1 FROM r WHERE n < 5) SELECT * FROM r;
-- ERROR 42P19: recursive query "r" does not have the form non-recursive-term UNION [ALL] recursive-term
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT n FROM r) SELECT * FROM r;
-- ERROR 42P19: recursive query "r" does not have the form non-recursive-term UNION [ALL] recursive-term
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM s WHERE n < 5), s AS (SELECT n FROM r) SELECT * FROM r;
-- ERROR 0A000: mutual recursion between WITH items is not implemented
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT n FROM s), s AS (SELECT 7 AS n) SELECT * FROM r;
-- 7
ROLLBACK TO p;
WITH r AS (SELECT n FROM s), s AS (SELECT 7 AS n) SELECT * FROM r;
-- ERROR 42P01: relation "s" does not exist
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n % 3 + 1 FROM r) SELECT * FROM r ORDER BY n;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT id, p, 0 AS depth FROM e WHERE p IS NULL UNION ALL SELECT e.id, e.p, depth+1 FROM e JOIN r ON e.p = r.id) SELECT * FROM r ORDER BY id;
-- 1|NULL|0
-- 2|1|1
-- 3|1|1
-- 4|2|2
-- 5|4|3
-- 7|5|4
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n+1 FROM r) SELECT * FROM r LIMIT 4;
-- 1
-- 2
-- 3
-- 4
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n, 'a' AS t UNION ALL SELECT n+1, t || 'b' FROM r WHERE n < 3) SELECT * FROM r;
-- 1|a
-- 2|ab
-- 3|abb
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT NULL AS n UNION ALL SELECT n FROM r WHERE n = '1') SELECT pg_typeof(n) FROM r;
-- text
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3), q AS (SELECT n * 10 AS m FROM r UNION ALL SELECT m + 1 FROM q WHERE m < 12) SELECT * FROM q ORDER BY 1;
-- 10
-- 11
-- 12
-- 20
-- 30
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n + 1 FROM r, LATERAL (SELECT r.n) x(m) WHERE r.n < 3) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + count(*) OVER () FROM r WHERE n < 3) SELECT * FROM r;
-- ERROR 42804: recursive query "r" column 1 has type integer in non-recursive term but type bigint overall
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT (n + count(*) OVER ())::int FROM r WHERE n < 3) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 3) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3 GROUP BY n) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(id) FROM e)) SELECT count(*) FROM r;
-- 7
ROLLBACK TO p;
WITH RECURSIVE x AS (SELECT 1), r AS (WITH y AS (SELECT 2 AS k) SELECT k FROM y UNION ALL SELECT k + 1 FROM r WHERE k < 4) SELECT * FROM r;
-- 2
-- 3
-- 4
ROLLBACK TO p;
SELECT id, (WITH RECURSIVE r AS (SELECT e.p AS n UNION ALL SELECT z.p FROM e z JOIN r ON z.id = r.n) SELECT count(n) FROM r) FROM e WHERE id < 6 ORDER BY id;
-- 1|0
-- 2|1
-- 3|1
-- 4|2
-- 5|3
ROLLBACK TO p;
WITH RECURSIVE r(a, a) AS (SELECT 1, 2) SELECT * FROM r;
-- 1|2
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1), r AS (SELECT 2) SELECT * FROM r;
-- ERROR 42712: WITH query name "r" specified more than once
ROLLBACK TO p;
WITH r AS (SELECT 1), r AS (SELECT 2) SELECT * FROM r;
-- ERROR 42712: WITH query name "r" specified more than once
ROLLBACK TO p;
WITH r(a, b) AS (SELECT 1) SELECT * FROM r;
-- ERROR 42P10: WITH query "r" has 1 columns available but 2 columns specified
ROLLBACK TO p;
INSERT INTO e WITH RECURSIVE r AS (SELECT 10 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 12) SELECT n, n - 1, 0 FROM r;
ROLLBACK TO p;
SELECT count(*) FROM e;
-- 7
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 10 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 12) UPDATE e SET w = 100 + id FROM r WHERE e.id = r.n RETURNING id, w;
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 10 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 12) DELETE FROM e USING r WHERE e.id = r.n RETURNING id;
ROLLBACK TO p;
WITH RECURSIVE r AS (INSERT INTO e VALUES (99,1,1) RETURNING id), s AS (SELECT id FROM r UNION ALL SELECT id + 1 FROM s WHERE id < 101) SELECT * FROM s;
-- 99
-- 100
-- 101
ROLLBACK TO p;
WITH RECURSIVE r AS (INSERT INTO e SELECT n FROM r RETURNING id) SELECT * FROM r;
-- ERROR 42P19: recursive query "r" must not contain data-modifying statements
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT id, p, ARRAY[id] AS path FROM e WHERE id = 5 UNION ALL SELECT e.id, e.p, path || e.id FROM e JOIN r ON e.id = r.p WHERE NOT e.id = ANY (path)) SELECT * FROM r;
-- 5|4|{5}
-- 4|2|{5,4}
-- 2|1|{5,4,2}
-- 1|NULL|{5,4,2,1}
ROLLBACK TO p;
WITH RECURSIVE r (id, sum) AS (SELECT id, w FROM e WHERE p IS NULL UNION ALL SELECT e.id, r.sum + e.w FROM r, e WHERE e.p = r.id) SELECT id, sum, rank() OVER (ORDER BY sum DESC) FROM r ORDER BY id;
-- 1|5|6
-- 2|8|5
-- 3|9|3
-- 4|9|3
-- 5|18|2
-- 7|20|1
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT x FROM r, (VALUES (n), (n + 1), (1)) v (x) WHERE n < 4) SELECT array_agg(n) FROM r;
-- ERROR 42703: column "n" does not exist
ROLLBACK TO p;
WITH RECURSIVE r (a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM r WHERE b < 50) SELECT max(a) FROM r;
-- 34
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT x.n, y.n FROM r x JOIN r y ON y.n = x.n + 2 ORDER BY 1;
-- 1|3
-- 2|4
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT id FROM e WHERE id = 1 UNION ALL SELECT c.id FROM r JOIN LATERAL (SELECT id FROM e WHERE p = r.id ORDER BY id LIMIT 1) c ON true) SELECT * FROM r;
-- 1
-- 2
-- 4
-- 5
-- 7
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3 AND EXISTS (SELECT 1 FROM e WHERE id = n)) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS ((SELECT id FROM e ORDER BY id LIMIT 1) UNION ALL SELECT (SELECT min(id) FROM e WHERE id > r.id) FROM r WHERE r.id IS NOT NULL) SELECT * FROM r;
-- 1
-- 2
-- 3
-- 4
-- 5
-- 6
-- 7
-- NULL
ROLLBACK TO p;
SELECT * FROM (WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n * 2 FROM r WHERE n < 20) SELECT n FROM r) x WHERE n > 3;
-- 4
-- 8
-- 16
-- 32
ROLLBACK TO p;
WITH RECURSIVE r AS (WITH RECURSIVE q AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM q WHERE k < 3) SELECT k AS n FROM q UNION SELECT n + 10 FROM r WHERE n < 15) SELECT * FROM r ORDER BY n;
-- 1
-- 2
-- 3
-- 11
-- 12
-- 13
-- 21
-- 22
-- 23
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (WITH q AS (SELECT n + 1 AS m FROM r) SELECT m FROM q WHERE m < 4)) SELECT * FROM r;
-- 1
-- 2
-- 3
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM (SELECT n + 1 AS n FROM r) x WHERE n < 4 UNION ALL SELECT 7 FROM r WHERE n = 1) SELECT * FROM r ORDER BY n;
-- ERROR 42P19: recursive reference to query "r" must not appear within its non-recursive term
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3 FOR UPDATE) SELECT * FROM r;
-- ERROR 0A000: FOR UPDATE/SHARE in a recursive query is not implemented
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1.0 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, pg_typeof(n) FROM r;
-- 1.0|numeric
-- 2.0|numeric
-- 3.0|numeric
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 'x' FROM r) SELECT * FROM r;
-- ERROR 22P02: invalid input syntax for type integer: "x"
ROLLBACK TO p;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT true FROM r) SELECT * FROM r;
-- ERROR 42804: UNION types integer and boolean cannot be matched
ROLLBACK TO p;
COMMIT;
