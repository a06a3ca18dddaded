-- # Subqueries that refer to the outer query, and what else the row executor alone answers, behind writes
CREATE TABLE t (id int PRIMARY KEY, a int, b int, name text);
CREATE TABLE u (id int PRIMARY KEY, t_id int, v numeric(10,2), w text);
CREATE INDEX u_t ON u (t_id);
CREATE TABLE n (k int PRIMARY KEY, x int, y bigint);
INSERT INTO t VALUES (1, 10, 100, 'one'), (2, 20, NULL, 'two'), (3, 10, 300, NULL), (4, NULL, 100, 'four'), (5, 50, 500, 'five');
INSERT INTO u VALUES (1, 1, 1.50, 'a'), (2, 1, 2.50, 'b'), (3, 2, 3.00, 'a'), (4, NULL, 4.25, 'c'), (5, 9, 5.00, NULL), (6, 3, NULL, 'a');
INSERT INTO n VALUES (1, 10, 10), (2, 20, 5), (3, NULL, 7), (4, 10, NULL);
BEGIN;
INSERT INTO t VALUES (6, 60, 100, 'six');
INSERT INTO u VALUES (7, 6, 0.00, 'z');
SAVEPOINT s;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id) ORDER BY id;
-- 1
-- 2
-- 3
-- 6
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id) ORDER BY id;
-- 4
-- 5
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id) FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|t
-- 4|f
-- 5|f
-- 6|t
SELECT id, (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t ORDER BY id;
-- 1|2
-- 2|1
-- 3|1
-- 4|0
-- 5|0
-- 6|1
SELECT id, (SELECT sum(v) FROM u WHERE t_id = t.id) AS s FROM t ORDER BY s NULLS FIRST, id;
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|0.00
-- 2|3.00
-- 1|4.00
SELECT id, (SELECT max(v) FROM u WHERE t_id = t.id) FROM t WHERE a > 5 ORDER BY 2 DESC, 1;
-- 3|NULL
-- 5|NULL
-- 2|3.00
-- 1|2.50
-- 6|0.00
SELECT id, (SELECT v FROM u WHERE t_id = t.id) FROM t ORDER BY id;
-- ERROR 21000: more than one row returned by a subquery used as an expression
ROLLBACK TO s;
SELECT id, (SELECT v FROM u WHERE t_id = t.id ORDER BY v LIMIT 1) FROM t ORDER BY id;
-- 1|1.50
-- 2|3.00
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|0.00
SELECT id FROM t WHERE a IN (SELECT x FROM n WHERE n.y < t.b) ORDER BY id;
-- 1
-- 3
SELECT id FROM t WHERE a NOT IN (SELECT x FROM n WHERE n.y < t.b) ORDER BY id;
-- 2
SELECT id, a IN (SELECT x FROM n WHERE n.k < t.id) FROM t ORDER BY id;
-- 1|f
-- 2|f
-- 3|t
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id, a NOT IN (SELECT x FROM n WHERE n.k <> t.id) FROM t ORDER BY id;
-- 1|f
-- 2|NULL
-- 3|f
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id, a < ALL (SELECT x FROM n WHERE n.k > t.id) FROM t ORDER BY id;
-- 1|f
-- 2|f
-- 3|f
-- 4|t
-- 5|t
-- 6|t
SELECT id, a >= ANY (SELECT x FROM n WHERE n.k > t.id) FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|t
-- 4|f
-- 5|f
-- 6|f
SELECT id, a > ALL (SELECT x FROM n WHERE x IS NOT NULL) FROM t ORDER BY id;
-- 1|f
-- 2|f
-- 3|f
-- 4|NULL
-- 5|t
-- 6|t
SELECT id, a = ANY (SELECT x FROM n) FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|t
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id, a <> ALL (SELECT x FROM n) FROM t ORDER BY id;
-- 1|f
-- 2|f
-- 3|f
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id, a <> ANY (SELECT x FROM n) FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|t
-- 4|NULL
-- 5|t
-- 6|t
SELECT id, a = ALL (SELECT x FROM n WHERE k IN (1, 4)) FROM t ORDER BY id;
-- 1|t
-- 2|f
-- 3|t
-- 4|NULL
-- 5|f
-- 6|f
SELECT 5 > ALL (SELECT x FROM n WHERE false), 5 > ANY (SELECT x FROM n WHERE false);
-- t|f
SELECT 15 > ANY (SELECT x FROM n), 15 > ALL (SELECT x FROM n), 5 < ALL (SELECT x FROM n);
-- t|f|NULL
SELECT id FROM t WHERE (id, a) IN (SELECT k, x FROM n) ORDER BY id;
-- 1
-- 2
SELECT id, (id, a) IN (SELECT k, x FROM n) FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|NULL
-- 4|NULL
-- 5|f
-- 6|f
SELECT id, (id, a) NOT IN (SELECT k, x FROM n) FROM t ORDER BY id;
-- 1|f
-- 2|f
-- 3|NULL
-- 4|NULL
-- 5|t
-- 6|t
SELECT id, (a, b) IN (SELECT x, y FROM n WHERE k = t.id) FROM t ORDER BY id;
-- 1|f
-- 2|NULL
-- 3|f
-- 4|NULL
-- 5|f
-- 6|f
SELECT (1, 10) IN (SELECT k, x FROM n), (9, 9) IN (SELECT k, x FROM n), (3, 1) IN (SELECT k, x FROM n);
-- t|f|NULL
SELECT id FROM t WHERE (1, 2, 3) IN (SELECT k, x FROM n);
-- ERROR 42601: subquery has too few columns
ROLLBACK TO s;
SELECT id, ARRAY(SELECT u.id FROM u WHERE u.t_id = t.id ORDER BY u.id) FROM t ORDER BY id;
-- 1|{1,2}
-- 2|{3}
-- 3|{6}
-- 4|{}
-- 5|{}
-- 6|{7}
SELECT id, CASE WHEN a > (SELECT avg(x) FROM n WHERE n.k <> t.id) THEN a * 2 ELSE b * 10 END FROM t ORDER BY id;
-- 1|1000
-- 2|40
-- 3|3000
-- 4|1000
-- 5|100
-- 6|120
SELECT id, CASE WHEN id = 1 THEN 'many' ELSE (SELECT w FROM u WHERE u.t_id = t.id) END FROM t ORDER BY id;
-- 1|many
-- 2|a
-- 3|a
-- 4|NULL
-- 5|NULL
-- 6|z
SELECT id, CASE id WHEN 1 THEN NULL WHEN 2 THEN (SELECT 1 / (t.id - 2 + 1)) ELSE (SELECT 1 / (t.id - 2)) END FROM t ORDER BY id;
-- 1|NULL
-- 2|1
-- 3|1
-- 4|0
-- 5|0
-- 6|0
SELECT id, coalesce((SELECT max(v) FROM u WHERE t_id = t.id), 0) FROM t ORDER BY id;
-- 1|2.50
-- 2|3.00
-- 3|0
-- 4|0
-- 5|0
-- 6|0.00
SELECT id FROM t WHERE a = 10 OR EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id AND w = 'z') ORDER BY id;
-- 1
-- 3
-- 6
SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE u.t_id = t.id) > 1;
-- 1
SELECT id FROM t ORDER BY (SELECT count(*) FROM u WHERE u.t_id = t.id) DESC, id;
-- 1
-- 2
-- 3
-- 6
-- 4
-- 5
SELECT a, count(*), (SELECT count(*) FROM n WHERE n.x = t.a) FROM t GROUP BY a ORDER BY a;
-- 10|2|2
-- 20|1|1
-- 50|1|0
-- 60|1|0
-- NULL|1|0
SELECT a, sum(b) FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM n WHERE n.x = t.a) ORDER BY a;
-- 10|400
-- 20|NULL
SELECT a, sum(b) FROM t GROUP BY a HAVING sum(b) > (SELECT min(y) FROM n WHERE n.x = t.a) ORDER BY a;
-- 10|400
SELECT a, (SELECT min(y) FROM n WHERE n.x = t.b) FROM t GROUP BY a;
-- ERROR 42803: subquery uses ungrouped column "t.b" from outer query
ROLLBACK TO s;
SELECT sum((SELECT count(*) FROM u WHERE u.t_id = t.id)) FROM t;
-- 5
SELECT a, sum((SELECT count(*) FROM u WHERE u.t_id = t.id)) FROM t GROUP BY a ORDER BY a;
-- 10|3
-- 20|1
-- 50|0
-- 60|1
-- NULL|0
SELECT (SELECT count(*) FROM u WHERE u.t_id = t.id) AS c, count(*) FROM t GROUP BY c ORDER BY c;
-- 0|2
-- 1|3
-- 2|1
SELECT (SELECT count(*) FROM u WHERE u.t_id = t.id), count(*) FROM t GROUP BY 1 ORDER BY 1;
-- 0|2
-- 1|3
-- 2|1
SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)) FROM t;
-- 4
SELECT DISTINCT (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t ORDER BY 1;
-- 0
-- 1
-- 2
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id AND EXISTS (SELECT 1 FROM n WHERE n.k = u.id AND n.x = t.a)) ORDER BY id;
-- 1
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE EXISTS (SELECT 1 FROM n WHERE n.x = t.a AND n.k = t.id)) ORDER BY id;
-- 1
-- 2
SELECT id, (SELECT (SELECT max(n.y) FROM n WHERE n.x = t.a AND n.k >= u.id) FROM u WHERE u.id = t.id) FROM t ORDER BY id;
-- 1|10
-- 2|5
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id, (SELECT count(*) FROM (SELECT v FROM u WHERE u.t_id = t.id) AS s) FROM t ORDER BY id;
-- 1|2
-- 2|1
-- 3|1
-- 4|0
-- 5|0
-- 6|1
SELECT id, (SELECT sum(x) FROM (SELECT x FROM n WHERE n.x = t.a UNION ALL SELECT t.id) AS s) FROM t ORDER BY id;
-- 1|21
-- 2|22
-- 3|23
-- 4|4
-- 5|5
-- 6|6
SELECT id, (WITH s AS (SELECT v FROM u WHERE u.t_id = t.id) SELECT max(v) FROM s) FROM t ORDER BY id;
-- 1|2.50
-- 2|3.00
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|0.00
WITH s AS (SELECT id, a FROM t) SELECT s.id, (SELECT count(*) FROM s AS r WHERE r.a < s.a) FROM s ORDER BY 1;
-- 1|0
-- 2|2
-- 3|0
-- 4|0
-- 5|3
-- 6|4
SELECT t.id, l.m FROM t, LATERAL (SELECT max(v) AS m FROM u WHERE u.t_id = t.id) AS l ORDER BY t.id;
-- 1|2.50
-- 2|3.00
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|0.00
SELECT t.id, l.v FROM t CROSS JOIN LATERAL (SELECT v FROM u WHERE u.t_id = t.id ORDER BY v DESC LIMIT 1) AS l ORDER BY t.id;
-- 1|2.50
-- 2|3.00
-- 3|NULL
-- 6|0.00
SELECT t.id, l.v FROM t LEFT JOIN LATERAL (SELECT v, w FROM u WHERE u.t_id = t.id) AS l ON l.w = 'a' ORDER BY t.id, l.v;
-- 1|1.50
-- 2|3.00
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT t.id, l.v FROM t LEFT JOIN LATERAL (SELECT v FROM u WHERE u.t_id = t.id) AS l ON true WHERE t.id < 4 ORDER BY t.id, l.v;
-- 1|1.50
-- 1|2.50
-- 2|3.00
-- 3|NULL
SELECT t.id, x.c FROM t, LATERAL (VALUES (t.a), (t.b)) AS x(c) WHERE t.id < 3 ORDER BY 1, 2;
-- 1|10
-- 1|100
-- 2|20
-- 2|NULL
SELECT t.id, l.p, m.q FROM t, LATERAL (SELECT t.a + 1 AS p) AS l, LATERAL (SELECT l.p * 2 AS q) AS m ORDER BY t.id;
-- 1|11|22
-- 2|21|42
-- 3|11|22
-- 4|NULL|NULL
-- 5|51|102
-- 6|61|122
SELECT t.id, l.* FROM t JOIN LATERAL (SELECT u.id AS uid, u.v FROM u WHERE u.t_id = t.id) l ON l.v > 2 ORDER BY 1, 2;
-- 1|2|2.50
-- 2|3|3.00
SELECT t.id, (SELECT v FROM u ORDER BY v LIMIT 1 OFFSET t.id - 1) FROM t WHERE t.id < 4 ORDER BY 1;
-- 1|0.00
-- 2|1.50
-- 3|2.50
SELECT t.id, ARRAY(SELECT u.id FROM u ORDER BY u.id LIMIT t.id) FROM t ORDER BY 1;
-- 1|{1}
-- 2|{1,2}
-- 3|{1,2,3}
-- 4|{1,2,3,4}
-- 5|{1,2,3,4,5}
-- 6|{1,2,3,4,5,6}
SELECT a FROM t EXCEPT SELECT x FROM n ORDER BY 1;
-- 50
-- 60
SELECT a FROM t EXCEPT ALL SELECT x FROM n ORDER BY 1;
-- 50
-- 60
SELECT a FROM t INTERSECT SELECT x FROM n ORDER BY 1;
-- 10
-- 20
-- NULL
SELECT a FROM t INTERSECT ALL SELECT x FROM n ORDER BY 1;
-- 10
-- 10
-- 20
-- NULL
SELECT a, b FROM t EXCEPT SELECT x, y FROM n ORDER BY 1, 2;
-- 10|100
-- 10|300
-- 20|NULL
-- 50|500
-- 60|100
-- NULL|100
SELECT a FROM t UNION SELECT x FROM n INTERSECT SELECT y FROM n ORDER BY 1;
-- 10
-- 20
-- 50
-- 60
-- NULL
(SELECT a FROM t UNION SELECT x FROM n) INTERSECT SELECT y FROM n ORDER BY 1;
-- 10
-- NULL
SELECT a FROM t EXCEPT SELECT x, y FROM n;
-- ERROR 42601: each EXCEPT query must have the same number of columns
ROLLBACK TO s;
SELECT a FROM t INTERSECT SELECT 'x';
-- ERROR 22P02: invalid input syntax for type integer: "x"
ROLLBACK TO s;
SELECT a FROM t EXCEPT SELECT name FROM t;
-- ERROR 42804: EXCEPT types integer and text cannot be matched
ROLLBACK TO s;
SELECT 1 EXCEPT SELECT 1.0;
SELECT 1.5 INTERSECT SELECT 1.50;
-- 1.5
SELECT count(*) FROM (SELECT a FROM t EXCEPT SELECT x FROM n) AS s;
-- 2
SELECT id FROM t WHERE a IN (SELECT a FROM t EXCEPT SELECT x FROM n WHERE n.k < t.id) ORDER BY id;
-- 1
-- 2
-- 5
-- 6
SELECT t.id, u.id FROM t FULL JOIN u ON u.t_id = t.id ORDER BY 1, 2;
-- 1|1
-- 1|2
-- 2|3
-- 3|6
-- 4|NULL
-- 5|NULL
-- 6|7
-- NULL|4
-- NULL|5
SELECT t.id, u.id FROM t FULL OUTER JOIN u ON u.t_id = t.id AND u.v > 2 ORDER BY 1, 2;
-- 1|2
-- 2|3
-- 3|NULL
-- 4|NULL
-- 5|NULL
-- 6|NULL
-- NULL|1
-- NULL|4
-- NULL|5
-- NULL|6
-- NULL|7
SELECT t.id, u.id FROM t FULL JOIN u ON u.t_id = t.id WHERE t.id IS NULL OR u.id IS NULL ORDER BY 1, 2;
-- 4|NULL
-- 5|NULL
-- NULL|4
-- NULL|5
SELECT t.id, u.id FROM t FULL JOIN u ON u.t_id = t.id WHERE t.a = 10 ORDER BY 1, 2;
-- 1|1
-- 1|2
-- 3|6
SELECT id, t.a, n.x FROM t FULL JOIN (SELECT k AS id, x FROM n) n USING (id) ORDER BY 1;
-- 1|10|10
-- 2|20|20
-- 3|10|NULL
-- 4|NULL|10
-- 5|50|NULL
-- 6|60|NULL
SELECT * FROM (SELECT id, a FROM t) p FULL JOIN (SELECT k AS id, x FROM n) q USING (id) ORDER BY 1;
-- 1|10|10
-- 2|20|20
-- 3|10|NULL
-- 4|NULL|10
-- 5|50|NULL
-- 6|60|NULL
SELECT * FROM (SELECT id, a FROM t WHERE id < 3) p RIGHT JOIN (SELECT k AS id, x FROM n) q USING (id) ORDER BY 1;
-- 1|10|10
-- 2|20|20
-- 3|NULL|NULL
-- 4|NULL|10
SELECT id, p.id, q.id FROM (SELECT id, a FROM t WHERE id < 3) p RIGHT JOIN (SELECT k AS id, x FROM n) q USING (id) ORDER BY 1;
-- 1|1|1
-- 2|2|2
-- 3|NULL|3
-- 4|NULL|4
SELECT p.id, q.id, r.k FROM t p JOIN u q ON q.t_id = p.id FULL JOIN n r ON r.k = q.id ORDER BY 1, 2, 3;
-- 1|1|1
-- 1|2|2
-- 2|3|3
-- 3|6|NULL
-- 6|7|NULL
-- NULL|NULL|4
SELECT p.id, q.id, r.k FROM t p LEFT JOIN u q ON q.t_id = p.id RIGHT JOIN n r ON r.k = q.id ORDER BY 1, 2, 3;
-- 1|1|1
-- 1|2|2
-- 2|3|3
-- NULL|NULL|4
SELECT p.id, q.id, r.k FROM t p FULL JOIN u q ON q.t_id = p.id FULL JOIN n r ON r.k = p.id ORDER BY 1, 2, 3;
-- 1|1|1
-- 1|2|1
-- 2|3|2
-- 3|6|3
-- 4|NULL|4
-- 5|NULL|NULL
-- 6|7|NULL
-- NULL|4|NULL
-- NULL|5|NULL
SELECT count(*) FROM t FULL JOIN u ON true;
-- 42
SELECT * FROM (SELECT 1 AS a, 2 AS b) x NATURAL JOIN (SELECT 1 AS a, 3 AS c) y;
-- 1|2|3
SELECT * FROM (SELECT 2 AS b, 1 AS a) x NATURAL JOIN (SELECT 3 AS c, 1 AS a) y;
-- 1|2|3
SELECT * FROM (SELECT 1 AS a) x NATURAL JOIN (SELECT 3 AS c) y;
-- 1|3
SELECT * FROM (SELECT 1 AS a, 2 AS b, 3 AS c) x JOIN (SELECT 3 AS c, 2 AS b, 7 AS d) y USING (c, b);
-- 3|2|1|7
SELECT * FROM (SELECT 1 AS a, 2 AS b) x NATURAL LEFT JOIN (SELECT 9 AS b, 3 AS c) y;
-- 2|1|NULL
SELECT * FROM (SELECT 1 AS a, 2 AS b) x NATURAL FULL JOIN (SELECT 9 AS b, 3 AS c) y ORDER BY 1;
-- 2|1|NULL
-- 9|NULL|3
SELECT x.*, y.* FROM (SELECT 1 AS a, 2 AS b) x NATURAL FULL JOIN (SELECT 9 AS b, 3 AS c) y ORDER BY 1;
-- 1|2|NULL|NULL
-- NULL|NULL|9|3
SELECT DISTINCT ON (a) a, id FROM t ORDER BY a, id DESC;
-- 10|3
-- 20|2
-- 50|5
-- 60|6
-- NULL|4
SELECT DISTINCT ON (a) a, id, b FROM t ORDER BY a, b DESC NULLS LAST, id;
-- 10|3|300
-- 20|2|NULL
-- 50|5|500
-- 60|6|100
-- NULL|4|100
SELECT DISTINCT ON (1) a, id FROM t ORDER BY 1, 2;
-- 10|1
-- 20|2
-- 50|5
-- 60|6
-- NULL|4
SELECT DISTINCT ON (a) id FROM t ORDER BY id;
-- ERROR 42P10: SELECT DISTINCT ON expressions must match initial ORDER BY expressions
ROLLBACK TO s;
SELECT DISTINCT ON (a, b) id FROM t ORDER BY b, a, id;
-- 1
-- 6
-- 4
-- 3
-- 5
-- 2
SELECT DISTINCT ON (t_id) t_id, v FROM u ORDER BY t_id, v DESC NULLS LAST LIMIT 2;
-- 1|2.50
-- 2|3.00
SELECT DISTINCT ON (a % 20) id FROM t ORDER BY a % 20, id;
-- 2
-- 1
-- 4
SELECT (SELECT t.a) FROM t ORDER BY 1;
-- 10
-- 10
-- 20
-- 50
-- 60
-- NULL
SELECT id, (SELECT 1 WHERE t.a = 10) FROM t ORDER BY id;
-- 1|1
-- 2|NULL
-- 3|1
-- 4|NULL
-- 5|NULL
-- 6|NULL
SELECT id FROM t WHERE a = (SELECT max(a) FROM t AS s WHERE s.b = t.b) ORDER BY id;
-- 3
-- 5
-- 6
SELECT id FROM t AS o WHERE b > (SELECT avg(b) FROM t AS i WHERE i.a = o.a) ORDER BY id;
-- 3
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.nope);
-- ERROR 42703: column t.nope does not exist
ROLLBACK TO s;
SELECT id FROM t WHERE EXISTS (SELECT nope FROM u);
-- ERROR 42703: column "nope" does not exist
ROLLBACK TO s;
UPDATE t SET b = (SELECT sum(v) FROM u WHERE u.t_id = t.id) WHERE id < 3 RETURNING id, b;
-- 1|4
-- 2|3
SAVEPOINT s;
UPDATE t SET b = coalesce((SELECT count(*) FROM u WHERE u.t_id = t.id), 0), name = (SELECT min(w) FROM u WHERE u.t_id = t.id);
SAVEPOINT s;
SELECT * FROM t ORDER BY id;
-- 1|10|2|a
-- 2|20|1|a
-- 3|10|1|a
-- 4|NULL|0|NULL
-- 5|50|0|NULL
-- 6|60|1|z
DELETE FROM n WHERE EXISTS (SELECT 1 FROM t WHERE t.id = n.k AND t.b = 2) RETURNING k;
-- 1
SAVEPOINT s;
DELETE FROM n WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = n.x);
SAVEPOINT s;
SELECT * FROM n ORDER BY k;
-- 2|20|5
-- 4|10|NULL
UPDATE t SET a = s.m FROM LATERAL (SELECT max(u.id) AS m FROM u WHERE u.t_id = 1) AS s WHERE t.id = 1 RETURNING t.id, t.a;
-- 1|2
SAVEPOINT s;
UPDATE u SET v = v + (SELECT t.b FROM t WHERE t.id = u.t_id) FROM t AS o WHERE o.id = u.t_id AND NOT EXISTS (SELECT 1 FROM n WHERE n.k = o.id);
SAVEPOINT s;
INSERT INTO n SELECT id + 100, (SELECT count(*) FROM u WHERE u.t_id = t.id), a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id);
SAVEPOINT s;
INSERT INTO n SELECT id + 200, a, b FROM t EXCEPT SELECT k, x, y FROM n;
SAVEPOINT s;
SELECT * FROM n ORDER BY k;
-- 2|20|5
-- 4|10|NULL
-- 101|2|2
-- 102|1|20
-- 103|1|10
-- 106|1|60
-- 201|2|2
-- 202|20|1
-- 203|10|1
-- 204|NULL|0
-- 205|50|0
-- 206|60|1
DELETE FROM u USING t WHERE t.id = u.t_id AND (SELECT count(*) FROM u AS i WHERE i.t_id = t.id) > 1 RETURNING u.id;
-- 1
-- 2
SAVEPOINT s;
SELECT * FROM u ORDER BY id;
-- 3|2|3.00|a
-- 4|NULL|4.25|c
-- 5|9|5.00|NULL
-- 6|3|NULL|a
-- 7|6|1.00|z
SELECT pg_typeof((SELECT sum(x) FROM n WHERE k > t.id)), pg_typeof(ARRAY(SELECT x FROM n WHERE k > t.id)), pg_typeof(a IN (SELECT x FROM n WHERE k > t.id)) FROM t LIMIT 1;
-- bigint|integer[]|boolean
ROLLBACK;
