-- # Rows as values: spelled out, of relations, of subqueries; in comparisons, groups, orders, writes and routines
CREATE TABLE t (id int PRIMARY KEY, a int, name varchar(10), ok bool, c char(3));
CREATE TABLE u (id int PRIMARY KEY, t_id int, v numeric(6,2), d date);
INSERT INTO t VALUES (1, 10, 'one', true, 'x'), (2, NULL, 'two, "2"', false, NULL), (3, 30, '', NULL, 'abc');
INSERT INTO u VALUES (1, 1, 1.50, '2020-01-02'), (2, 1, NULL, NULL), (3, 2, 7, '2021-12-31');
SELECT ROW(1, 'two', NULL, '');
-- (1,two,,"")
SELECT (1, 'a b', true, 1.50, date '2020-01-02', timestamp '2020-01-02 03:04:05');
-- (1,"a b",t,1.50,2020-01-02,"2020-01-02 03:04:05")
SELECT ROW(), ROW(NULL), ROW(1);
-- ()|()|(1)
SELECT ROW(1, ROW(2, 'x"y'), 'p\q', ARRAY[1, 2], ARRAY['a b']);
-- (1,"(2,""x""""y"")","p\\q","{1,2}","{""a b""}")
SELECT ROW(1, 2)::text || '!', ROW('a b', NULL)::text, ROW(true, 'x'::char(3))::text, CAST(ROW(1) AS varchar(2));
-- (1,2)!|("a b",)|(t,"x  ")|(1
SELECT t FROM t ORDER BY id;
-- (1,10,one,t,"x  ")
-- (2,,"two, ""2""",f,)
-- (3,30,"",,abc)
SELECT t IS NULL, t IS NOT NULL, id FROM t ORDER BY id;
-- f|t|1
-- f|f|2
-- f|f|3
SELECT (t).name, (t).id + 1, ((t)).ok FROM t ORDER BY (t).id DESC;
-- |4|NULL
-- two, "2"|3|f
-- one|2|t
SELECT (ROW(1, 'a'::text)).f1, (ROW(1, 'a'::text)).f2;
-- 1|a
SELECT (ROW(1, 'a')).f3;
-- ERROR 42703: could not identify column "f3" in record data type
SELECT (1).f1;
-- ERROR 42809: column notation .f1 applied to type integer, which is not a composite type
SELECT (t).nope FROM t;
-- ERROR 42703: column t.nope does not exist
SELECT ROW(t.*, 1) FROM t ORDER BY id;
-- (1,10,one,t,"x  ",1)
-- (2,,"two, ""2""",f,,1)
-- (3,30,"",,abc,1)
SELECT ROW(t.*) = ROW(t.*), ROW(t.*) IS DISTINCT FROM ROW(t.*), t = t, t IS DISTINCT FROM t FROM t ORDER BY id;
-- t|f|t|f
-- NULL|f|t|f
-- NULL|f|t|f
SELECT count(t), count(t.*), count(DISTINCT t), count(ROW(a, ok)) FROM t;
-- 3|3|3|3
SELECT t::text, length(t::text) FROM t ORDER BY id;
-- (1,10,one,t,"x  ")|18
-- (2,,"two, ""2""",f,)|20
-- (3,30,"",,abc)|14
SELECT t.id, u FROM t LEFT JOIN u ON u.t_id = t.id ORDER BY t.id, u.id;
-- 1|(1,1,1.50,2020-01-02)
-- 1|(2,1,,)
-- 2|(3,2,7.00,2021-12-31)
-- 3|NULL
SELECT t.id, count(u), count(*), count(u.*) FROM t LEFT JOIN u ON u.t_id = t.id GROUP BY t.id ORDER BY t.id;
-- 1|2|2|2
-- 2|1|1|1
-- 3|0|1|0
SELECT t.id, u IS NULL, u IS NOT NULL, u IS DISTINCT FROM NULL FROM t LEFT JOIN u ON u.t_id = t.id ORDER BY t.id, u.id;
-- 1|f|t|t
-- 1|f|f|t
-- 2|f|t|t
-- 3|t|f|f
SELECT t.id, s FROM t LEFT JOIN (SELECT id, v FROM u) s ON s.id = t.id + 1 ORDER BY t.id;
-- 1|(2,)
-- 2|(3,7.00)
-- 3|NULL
SELECT t.id, s, s IS DISTINCT FROM NULL FROM t LEFT JOIN (SELECT NULL::int AS x, NULL::text AS y) s ON t.id = 2 ORDER BY t.id;
-- 1|NULL|f
-- 2|(,)|t
-- 3|NULL|f
SELECT s, t.id FROM (SELECT NULL::int AS x) s RIGHT JOIN t ON t.id = 2 ORDER BY t.id;
-- NULL|1
-- ()|2
-- NULL|3
SELECT s, t.id FROM (SELECT 5 AS x, 'y' AS y) s FULL JOIN t ON t.id = s.x ORDER BY t.id;
-- NULL|1
-- NULL|2
-- NULL|3
-- (5,y)|NULL
SELECT v FROM (VALUES (1, 'a'), (2, NULL)) v(x, y) ORDER BY v DESC;
-- (2,)
-- (1,a)
SELECT v.x FROM (VALUES (1, 'a'), (2, NULL)) v(x, y) WHERE v IS NOT NULL;
-- 1
SELECT x FROM generate_series(1, 2) x;
-- 1
-- 2
SELECT g, g + 1 FROM generate_series(1, 2) AS g(i);
-- 1|2
-- 2|3
SELECT w FROM (SELECT 1 AS a) w, generate_series(1, 2) WITH ORDINALITY AS s(i, n) WHERE s = ROW(1, 1::bigint);
-- (1)
WITH w AS (SELECT id, name FROM t) SELECT w FROM w WHERE w.id < 3 ORDER BY w;
-- (1,one)
-- (2,"two, ""2""")
SELECT (SELECT t FROM t WHERE id = 1), (SELECT t FROM t WHERE id = 9);
-- (1,10,one,t,"x  ")|NULL
SELECT t.id, (SELECT ROW(t.*, count(*)) FROM u WHERE u.t_id = t.id) FROM t ORDER BY t.id;
-- 1|(1,10,one,t,"x  ",2)
-- 2|(2,,"two, ""2""",f,,1)
-- 3|(3,30,"",,abc,0)
SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id AND t IS NOT NULL) ORDER BY t.id;
-- 1
SELECT x, count(*) FROM (SELECT ROW(a, ok) AS x FROM t UNION ALL SELECT ROW(a, ok) FROM t) s GROUP BY x ORDER BY x;
-- (10,t)|2
-- (30,)|2
-- (,f)|2
SELECT DISTINCT ROW(t_id) FROM u ORDER BY 1;
-- (1)
-- (2)
SELECT ROW(1, 2) UNION SELECT ROW(1, 2) UNION SELECT ROW(2, 1) ORDER BY 1;
-- (1,2)
-- (2,1)
SELECT ROW(a, name) FROM t ORDER BY ROW(a, name), 1;
-- (10,one)
-- (30,"")
-- (,"two, ""2""")
SELECT array_agg(ROW(id, name) ORDER BY id) FROM t;
-- {"(1,one)","(2,\"two, \"\"2\"\"\")","(3,\"\")"}
SELECT array_agg(u ORDER BY id) FROM u;
-- {"(1,1,1.50,2020-01-02)","(2,1,,)","(3,2,7.00,2021-12-31)"}
SELECT (1, 2) = (1, 2), (1, 2) <> (1, 3), (1, 2) < (1, 3), (2, 0) <= (1, 9), (1, NULL) = (2, NULL), (1, NULL) = (1, 2);
-- t|t|t|f|f|NULL
SELECT (1, NULL) < (2, NULL), (1, NULL) < (1, 2), (1, 2, 3) >= (1, 2, 3), ROW(1, 2) > ROW(1, 1);
-- t|NULL|t|t
SELECT (1, NULL) IS DISTINCT FROM (1, NULL), (1, NULL) IS NOT DISTINCT FROM (1, 2), ROW(1, 2) IS DISTINCT FROM ROW(1::bigint, 2);
-- f|f|f
SELECT (1, 2) = (1, 2, 3);
-- ERROR 42601: unequal number of entries in row expressions
SELECT (1, 2) = ROW(1, 'x');
-- ERROR 22P02: invalid input syntax for type integer: "x"
SELECT ROW() = ROW();
-- ERROR 0A000: cannot compare rows of zero length
SELECT (1, 2) BETWEEN (0, 5) AND (1, 2), (1, 3) NOT BETWEEN (0, 5) AND (1, 2);
-- t|t
SELECT id FROM t WHERE (id, name) IN ((1, 'one'), (3, ''), (2, NULL)) ORDER BY id;
-- 1
-- 3
SELECT id FROM t WHERE (id, name) NOT IN ((1, 'one'), (3, 'x')) ORDER BY id;
-- 2
-- 3
SELECT id FROM t WHERE t IN (SELECT t FROM t WHERE id < 3) ORDER BY id;
-- 1
-- 2
SELECT (1, 2) = (SELECT 1, 2), (1, 2) < (SELECT 1, 3), (1, 2) = (SELECT 1, 2 WHERE false), ROW(1, 2) <> (SELECT 1, 2);
-- t|t|NULL|f
SELECT (1, 2) = (SELECT 1);
-- ERROR 42601: subquery has too few columns
SELECT (1, 2) = (SELECT 1, 2, 3);
-- ERROR 42601: subquery has too many columns
SELECT (1, 2) = (SELECT id, id FROM t);
-- ERROR 21000: more than one row returned by a subquery used as an expression
SELECT t.id FROM t WHERE (t.id, 7) = (SELECT u.t_id, u.v FROM u WHERE u.t_id = t.id AND v > 2) ORDER BY t.id;
-- 2
SELECT (1, 2) < ANY (SELECT id, a FROM t), (3, 9) > ALL (SELECT id, 1 FROM t), (1, 2) <> ALL (SELECT id, a FROM t), (1, 10) <> ANY (SELECT id, a FROM t);
-- t|t|t|t
SELECT id FROM t WHERE (id, a) >= ALL (SELECT id, 20 FROM t WHERE id < 3) ORDER BY id;
-- 3
SELECT ROW(1, 2, 3) = s FROM (SELECT 1 AS a, 2 AS b) s;
-- ERROR 42804: cannot compare record types with different numbers of columns
SELECT ROW(1, 'a'::text) = s FROM (SELECT 1::bigint AS a, 'a'::text AS b) s;
-- ERROR 42804: cannot compare dissimilar column types integer and bigint at record column 1
SELECT s < r, s = r FROM (SELECT 1 AS a, NULL::int AS b) s, (SELECT 1 AS a, 5 AS b) r;
-- f|f
SELECT ROW(1, NULL) IS NULL, ROW(NULL, NULL) IS NULL, ROW(1, NULL) IS NOT NULL, ROW(1, 2) IS NOT NULL, NOT (ROW(1, NULL) IS NULL), ROW() IS NULL, ROW(NULL, ROW(NULL)) IS NULL;
-- f|t|f|t|t|t|f
SELECT CASE WHEN id = 1 THEN t END, CASE WHEN id = 1 THEN t END IS NULL FROM t ORDER BY id;
-- (1,10,one,t,"x  ")|f
-- NULL|t
-- NULL|t
SELECT nope FROM t;
-- ERROR 42703: column "nope" does not exist
SELECT '(1,2)' = ROW(1, 2);
-- ERROR 0A000: input of anonymous composite types is not implemented
SELECT coalesce(u, (SELECT s FROM u s WHERE id = 1)) FROM t LEFT JOIN u ON u.t_id = t.id ORDER BY t.id, u.id;
-- (1,1,1.50,2020-01-02)
-- (2,1,,)
-- (3,2,7.00,2021-12-31)
-- (1,1,1.50,2020-01-02)
SELECT (1, NULL)::text, (ROW(t.*)).f3 FROM t ORDER BY id;
-- (1,)|one
-- (1,)|two, "2"
-- (1,)|
SELECT first_value(t) OVER (ORDER BY id DESC), lag(ROW(id)) OVER (ORDER BY id) FROM t ORDER BY id;
-- (3,30,"",,abc)|NULL
-- (3,30,"",,abc)|(1)
-- (3,30,"",,abc)|(2)
SELECT DISTINCT count(*) OVER (PARTITION BY t_id), ROW(t_id) FROM u ORDER BY 1, 2;
-- 1|(2)
-- 2|(1)
UPDATE t SET (a, name) = (SELECT v, 'n' || id FROM u WHERE u.id = 3) WHERE id = 1 RETURNING t;
-- (1,7,n3,t,"x  ")
UPDATE t SET (a, name) = (SELECT count(*), max(u.d::text) FROM u WHERE u.t_id = t.id);
SELECT id, a, name FROM t ORDER BY id;
-- 1|2|2020-01-02
-- 2|1|2021-12-31
-- 3|0|NULL
UPDATE t SET (a, name) = (SELECT 1, 'x' WHERE false) WHERE id = 2 RETURNING ROW(id, a, name);
-- (2,,)
UPDATE t SET (a, name) = ROW(5, 'five'), (ok) = ROW(true) WHERE id = 2 RETURNING id, a, name, ok;
-- 2|5|five|t
UPDATE t SET (a, name) = ROW(5);
-- ERROR 42601: number of columns does not match number of values
UPDATE t SET (a, name) = (SELECT 1);
-- ERROR 42601: number of columns does not match number of values
UPDATE t SET (a, name) = 5;
-- ERROR 0A000: source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression
UPDATE t SET (a, name) = (SELECT id, 'x' FROM u);
-- ERROR 21000: more than one row returned by a subquery used as an expression
INSERT INTO t VALUES (4, 1, 'four', NULL, NULL) RETURNING t, (t).name;
-- (4,1,four,,)|four
INSERT INTO t (id, name) VALUES (6, ROW(1, 2)::text);
INSERT INTO t (id, a) VALUES (7, ROW(1, 2));
-- ERROR 42804: column "a" is of type integer but expression is of type record
DELETE FROM t WHERE t = (SELECT s FROM t s WHERE id = 4) RETURNING t.id;
-- 4
DELETE FROM t WHERE (id, name) IN (SELECT 6, '(1,2)') RETURNING id;
-- 6
CREATE FUNCTION f(k int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r record; s t%ROWTYPE; BEGIN SELECT * INTO r FROM t WHERE id = k; SELECT * INTO s FROM t WHERE id = k; IF s IS NULL THEN RETURN 'none'; END IF; IF ROW(r.id, r.a) = (1, 0) THEN RETURN 'wrong'; END IF; RETURN r::text || s::text; END $$;
SELECT f(2);
-- (2,5,five,t,)(2,5,five,t,)
SELECT f(99);
-- none
CREATE TABLE k AS SELECT ROW(1, 2) AS r;
-- ERROR 42P16: column "r" has pseudo-type record
VALUES (ROW(1, 2)), (ROW(3, 4)) ORDER BY column1 DESC;
-- (3,4)
-- (1,2)
VALUES (1), (3), (2) ORDER BY -column1;
-- 3
-- 2
-- 1
SELECT 1 AS a UNION SELECT 2 ORDER BY a + 1;
-- ERROR 0A000: invalid UNION/INTERSECT/EXCEPT ORDER BY clause
SELECT a FROM t ORDER BY -1;
-- ERROR 42P10: ORDER BY position -1 is not in select list
SELECT a FROM t ORDER BY 1.5;
-- ERROR 42601: non-integer constant in ORDER BY
SELECT a FROM t ORDER BY 'a';
-- ERROR 42601: non-integer constant in ORDER BY
SELECT a FROM t ORDER BY NULL;
-- ERROR 42601: non-integer constant in ORDER BY
SELECT 1 FROM t GROUP BY false;
-- ERROR 42601: non-integer constant in GROUP BY
SELECT 1 FROM t GROUP BY 9;
-- ERROR 42P10: GROUP BY position 9 is not in select list
SELECT id FROM t ORDER BY (1) DESC;
-- 3
-- 2
-- 1
SELECT ARRAY[];
-- ERROR 42P18: cannot determine type of empty array
SELECT ARRAY[]::int[], (ARRAY[])::text[], cardinality(ARRAY[]::int[]);
-- {}|{}|0
SELECT 1 = ANY (ARRAY[]);
-- ERROR 42P18: cannot determine type of empty array
SELECT extract(julian FROM date '2000-01-01'), extract(julian FROM timestamp '2000-01-01 12:00:00'), date_part('julian', date '1970-01-01');
-- 2451545|2451545.50000000000000000000|2440588
SELECT t.id, u.id FROM t LEFT JOIN u ON u.t_id = t.id AND EXISTS (SELECT 1 FROM u w WHERE w.id = u.id + t.id) ORDER BY t.id, u.id;
-- 1|1
-- 1|2
-- 2|NULL
-- 3|NULL
SELECT t.id, u.id, u FROM t LEFT JOIN u ON (SELECT max(w.id) FROM u w WHERE w.t_id = t.id) = u.id ORDER BY t.id, u.id;
-- 1|2|(2,1,,)
-- 2|3|(3,2,7.00,2021-12-31)
-- 3|NULL|NULL
SELECT t.id, s.x FROM t LEFT JOIN (SELECT id AS x FROM u) s ON s.x IN (SELECT w.id FROM u w WHERE w.t_id = t.id) ORDER BY t.id, s.x;
-- 1|1
-- 1|2
-- 2|3
-- 3|NULL
SELECT t.id, u.id FROM t LEFT JOIN u ON u.id = t.id AND u.v > (SELECT avg(w.v) FROM u w WHERE w.id <= u.id) LEFT JOIN t r ON r.id = u.id ORDER BY t.id;
-- 1|NULL
-- 2|NULL
-- 3|3
