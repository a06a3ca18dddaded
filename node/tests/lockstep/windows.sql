-- # Window functions by the row executor, behind writes
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
SELECT id, row_number() OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|1
-- 2|2
-- 3|3
-- 4|4
-- 5|5
-- 6|6
SELECT id, row_number() OVER (PARTITION BY a ORDER BY id DESC), rank() OVER (ORDER BY a), dense_rank() OVER (ORDER BY a DESC) FROM t ORDER BY id;
-- 1|2|1|5
-- 2|1|3|4
-- 3|1|1|5
-- 4|1|6|1
-- 5|1|4|3
-- 6|1|5|2
SELECT id, percent_rank() OVER (ORDER BY a), cume_dist() OVER (ORDER BY a), ntile(3) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|0|0.3333333333333333|1
-- 2|0.4|0.5|1
-- 3|0|0.3333333333333333|2
-- 4|1|1|2
-- 5|0.6|0.6666666666666666|3
-- 6|0.8|0.8333333333333334|3
SELECT id, lag(a) OVER (ORDER BY id), lead(a) OVER (ORDER BY id), lag(a, 2) OVER (ORDER BY id), lead(a, 1, -1) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|NULL|20|NULL|20
-- 2|10|10|NULL|10
-- 3|20|NULL|10|NULL
-- 4|10|50|20|50
-- 5|NULL|60|10|60
-- 6|50|NULL|NULL|-1
SELECT id, lead(a, 1, 0.5) OVER (ORDER BY id), pg_typeof(lead(a, 1, 0.5) OVER (ORDER BY id)) FROM t ORDER BY id;
-- 1|20|numeric
-- 2|10|numeric
-- 3|NULL|numeric
-- 4|50|numeric
-- 5|60|numeric
-- 6|0.5|numeric
SELECT id, lead(a, 1, '5') OVER (ORDER BY id), lag(name, 1, 'none') OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|20|none
-- 2|10|one
-- 3|NULL|two
-- 4|50|NULL
-- 5|60|four
-- 6|5|five
SELECT lead(a, 1, 'x') OVER (ORDER BY id) FROM t;
-- ERROR 22P02: invalid input syntax for type integer: "x"
ROLLBACK TO s;
SELECT id, sum(a) OVER (ORDER BY id), count(*) OVER (), avg(b) OVER (PARTITION BY a) FROM t ORDER BY id;
-- 1|10|6|200.0000000000000000
-- 2|30|6|NULL
-- 3|40|6|200.0000000000000000
-- 4|40|6|100.0000000000000000
-- 5|90|6|500.0000000000000000
-- 6|150|6|100.0000000000000000
SELECT id, sum(a) OVER (ORDER BY a), count(a) OVER (ORDER BY a), max(name) OVER (ORDER BY a) FROM t ORDER BY id;
-- 1|20|2|one
-- 2|40|3|two
-- 3|20|2|one
-- 4|150|5|two
-- 5|90|4|two
-- 6|150|5|two
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t ORDER BY id;
-- 1|30
-- 2|40
-- 3|30
-- 4|60
-- 5|110
-- 6|110
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) FROM t ORDER BY id;
-- 1|NULL
-- 2|10
-- 3|30
-- 4|40
-- 5|40
-- 6|90
SELECT id, count(*) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING), min(a) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM t ORDER BY id;
-- 1|2|NULL
-- 2|2|NULL
-- 3|2|10
-- 4|1|10
-- 5|0|10
-- 6|0|10
SELECT id, sum(id) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW), sum(id) OVER (ORDER BY a GROUPS 1 PRECEDING) FROM t ORDER BY id;
-- 1|4|4
-- 2|6|6
-- 3|4|4
-- 4|10|10
-- 5|7|7
-- 6|11|11
SELECT id, sum(id) OVER (ORDER BY a RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM t ORDER BY id;
-- 1|21
-- 2|17
-- 3|21
-- 4|4
-- 5|15
-- 6|10
SELECT id, first_value(id) OVER w, last_value(id) OVER w, nth_value(id, 2) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY id) ORDER BY id;
-- 1|1|1|NULL
-- 2|2|2|NULL
-- 3|3|3|NULL
-- 4|1|4|4
-- 5|5|5|NULL
-- 6|1|6|4
SELECT id, last_value(id) OVER (PARTITION BY b ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t ORDER BY id;
-- 1|6
-- 2|2
-- 3|3
-- 4|6
-- 5|5
-- 6|6
SELECT id, sum(a) OVER (w ORDER BY id), count(*) OVER w FROM t WINDOW w AS (PARTITION BY b) ORDER BY id;
-- 1|10|3
-- 2|20|1
-- 3|10|1
-- 4|10|3
-- 5|50|1
-- 6|70|3
SELECT id, sum(a) OVER (w PARTITION BY id) FROM t WINDOW w AS (PARTITION BY b);
-- ERROR 42P20: cannot override PARTITION BY clause of window "w"
ROLLBACK TO s;
SELECT id, sum(a) OVER (w ORDER BY id) FROM t WINDOW w AS (ORDER BY b);
-- ERROR 42P20: cannot override ORDER BY clause of window "w"
ROLLBACK TO s;
SELECT id, sum(a) OVER nope FROM t;
-- ERROR 42704: window "nope" does not exist
ROLLBACK TO s;
SELECT a, count(*), rank() OVER (ORDER BY count(*) DESC, a) FROM t GROUP BY a ORDER BY a;
-- 10|2|1
-- 20|1|2
-- 50|1|3
-- 60|1|4
-- NULL|1|5
SELECT a, sum(sum(b)) OVER (ORDER BY a), sum(b) / sum(sum(b)) OVER () FROM t GROUP BY a ORDER BY a;
-- 10|400|0.36363636363636363636
-- 20|400|NULL
-- 50|900|0.45454545454545454545
-- 60|1000|0.09090909090909090909
-- NULL|1100|0.09090909090909090909
SELECT a, row_number() OVER (ORDER BY a) FROM t GROUP BY a HAVING count(*) = 1 ORDER BY a;
-- 20|1
-- 50|2
-- 60|3
-- NULL|4
SELECT a, rank() OVER (ORDER BY b) FROM t GROUP BY a;
-- ERROR 42803: column "t.b" must appear in the GROUP BY clause or be used in an aggregate function
ROLLBACK TO s;
SELECT id FROM t ORDER BY row_number() OVER (ORDER BY id DESC);
-- 6
-- 5
-- 4
-- 3
-- 2
-- 1
SELECT id FROM t ORDER BY rank() OVER (ORDER BY a), id DESC LIMIT 3;
-- 3
-- 1
-- 2
SELECT DISTINCT count(*) OVER (PARTITION BY a) FROM t ORDER BY 1;
-- 1
-- 2
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM t) s WHERE n = 1 ORDER BY id;
-- 1|1
-- 2|1
-- 4|1
-- 5|1
-- 6|1
SELECT id, sum(a) FILTER (WHERE b > 100) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|NULL
-- 2|NULL
-- 3|10
-- 4|10
-- 5|60
-- 6|60
SELECT id, count(*) FILTER (WHERE a = 10) OVER () FROM t ORDER BY id;
-- 1|2
-- 2|2
-- 3|2
-- 4|2
-- 5|2
-- 6|2
SELECT id, a * 2 + rank() OVER (ORDER BY a) AS z FROM t ORDER BY z, id;
-- 1|21
-- 3|21
-- 2|43
-- 5|104
-- 6|125
-- 4|NULL
SELECT id, CASE WHEN row_number() OVER (ORDER BY id) > 3 THEN 'late' ELSE 'early' END FROM t ORDER BY id;
-- 1|early
-- 2|early
-- 3|early
-- 4|late
-- 5|late
-- 6|late
SELECT id, rank() OVER (ORDER BY (SELECT count(*) FROM u WHERE u.t_id = t.id)) FROM t ORDER BY id;
-- 1|6
-- 2|3
-- 3|3
-- 4|1
-- 5|1
-- 6|3
SELECT id, (SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY u.id) AS r FROM u WHERE u.t_id = t.id) s) FROM t ORDER BY id;
-- 1|2
-- 2|1
-- 3|1
-- 4|NULL
-- 5|NULL
-- 6|1
SELECT t.id, u.id, row_number() OVER (PARTITION BY t.id ORDER BY u.v DESC NULLS LAST, u.id) FROM t LEFT JOIN u ON u.t_id = t.id ORDER BY 1, 2;
-- 1|1|2
-- 1|2|1
-- 2|3|1
-- 3|6|1
-- 4|NULL|1
-- 5|NULL|1
-- 6|7|1
SELECT array_agg(id) OVER (ORDER BY id) FROM t;
-- {1}
-- {1,2}
-- {1,2,3}
-- {1,2,3,4}
-- {1,2,3,4,5}
-- {1,2,3,4,5,6}
SELECT id, bool_or(a = 10) OVER (ORDER BY id), bool_and(a > 5) OVER (ORDER BY id) FROM t ORDER BY id;
-- 1|t|t
-- 2|t|t
-- 3|t|t
-- 4|t|t
-- 5|t|t
-- 6|t|t
SELECT id FROM t WHERE row_number() OVER () = 1;
-- ERROR 42P20: window functions are not allowed in WHERE
ROLLBACK TO s;
SELECT id FROM t GROUP BY id, row_number() OVER ();
-- ERROR 42P20: window functions are not allowed in GROUP BY
ROLLBACK TO s;
SELECT id FROM t GROUP BY id HAVING rank() OVER () = 1;
-- ERROR 42P20: window functions are not allowed in HAVING
ROLLBACK TO s;
SELECT sum(rank() OVER (ORDER BY id)) FROM t;
-- ERROR 42803: aggregate function calls cannot contain window function calls
ROLLBACK TO s;
SELECT rank() OVER (ORDER BY rank() OVER (ORDER BY id)) FROM t;
-- ERROR 42P20: window functions are not allowed in window definitions
ROLLBACK TO s;
SELECT abs(a) OVER () FROM t;
-- ERROR 42809: OVER specified, but abs is not a window function nor an aggregate function
ROLLBACK TO s;
SELECT row_number() FROM t;
-- ERROR 42809: window function row_number requires an OVER clause
ROLLBACK TO s;
SELECT ntile(0) OVER (ORDER BY id) FROM t;
-- ERROR 22014: argument of ntile must be greater than zero
ROLLBACK TO s;
SELECT nth_value(a, 0) OVER (ORDER BY id) FROM t;
-- ERROR 22016: argument of nth_value must be greater than zero
ROLLBACK TO s;
SELECT sum(DISTINCT a) OVER () FROM t;
-- ERROR 0A000: DISTINCT is not implemented for window functions
ROLLBACK TO s;
SELECT lag(a) FILTER (WHERE true) OVER () FROM t;
-- ERROR 0A000: FILTER is not implemented for non-aggregate window functions
ROLLBACK TO s;
SELECT sum(a) OVER (ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW) FROM t;
-- ERROR 42P20: frame start cannot be UNBOUNDED FOLLOWING
ROLLBACK TO s;
SELECT sum(a) OVER (ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING) FROM t;
-- ERROR 42P20: frame end cannot be UNBOUNDED PRECEDING
ROLLBACK TO s;
SELECT sum(a) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM t;
-- ERROR 42P20: frame starting from current row cannot have preceding rows
ROLLBACK TO s;
SELECT sum(a) OVER (ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) FROM t;
-- ERROR 42P20: frame starting from following row cannot have preceding rows
ROLLBACK TO s;
SELECT sum(a) OVER (ORDER BY id ROWS -1 PRECEDING) FROM t;
-- ERROR 22013: frame starting offset must not be negative
ROLLBACK TO s;
SELECT sum(a) OVER (ORDER BY id ROWS id PRECEDING) FROM t;
-- ERROR 42P10: argument of ROWS must not contain variables
ROLLBACK TO s;
SELECT sum(a) OVER (GROUPS 1 PRECEDING) FROM t;
-- ERROR 42P20: GROUPS mode requires an ORDER BY clause
ROLLBACK TO s;
SELECT pg_typeof(row_number() OVER ()), pg_typeof(ntile(2) OVER ()), pg_typeof(cume_dist() OVER ()), pg_typeof(sum(a) OVER ()), pg_typeof(avg(a) OVER ()), pg_typeof(first_value(name) OVER ()) FROM t LIMIT 1;
-- bigint|integer|double precision|bigint|numeric|text
SELECT a, b, sum(id) OVER (PARTITION BY a, b), count(*) OVER (PARTITION BY b, a) FROM t ORDER BY id;
-- 10|100|1|1
-- 20|NULL|2|1
-- 10|300|3|1
-- NULL|100|4|1
-- 50|500|5|1
-- 60|100|6|1
SELECT count(*) FROM (SELECT rank() OVER (ORDER BY a) FROM t) s;
-- 6
SELECT id, rank() OVER w, sum(v) OVER w FROM u WINDOW w AS (ORDER BY v DESC NULLS LAST) ORDER BY id;
-- 1|5|16.25
-- 2|4|14.75
-- 3|3|12.25
-- 4|2|9.25
-- 5|1|5.00
-- 6|7|16.25
-- 7|6|16.25
INSERT INTO n SELECT 50 + row_number() OVER (ORDER BY id), rank() OVER (ORDER BY a), sum(a) OVER (ORDER BY id) FROM t;
SAVEPOINT s;
SELECT * FROM n WHERE k > 50 ORDER BY k;
-- 51|1|10
-- 52|3|30
-- 53|1|40
-- 54|6|40
-- 55|4|90
-- 56|5|150
UPDATE t SET b = s.r FROM (SELECT id, rank() OVER (ORDER BY a NULLS FIRST) AS r FROM t) s WHERE s.id = t.id;
SAVEPOINT s;
SELECT id, b FROM t ORDER BY id;
-- 1|2
-- 2|4
-- 3|2
-- 4|1
-- 5|5
-- 6|6
DELETE FROM u WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY t_id ORDER BY id) AS r FROM u) s WHERE r > 1);
SAVEPOINT s;
SELECT id FROM u ORDER BY id;
-- 1
-- 3
-- 4
-- 5
-- 6
-- 7
SELECT row_number() OVER (ORDER BY id) AS rn, id FROM t ORDER BY rn DESC OFFSET 1 LIMIT 2;
-- 5|5
-- 4|4
SELECT DISTINCT ON (b) b, id, count(*) OVER (PARTITION BY b) FROM t ORDER BY b, id;
-- 1|4|1
-- 2|1|2
-- 4|2|1
-- 5|5|1
-- 6|6|1
SELECT sum(x) OVER (ORDER BY x) FROM generate_series(1, 4) x;
-- 1
-- 3
-- 6
-- 10
SELECT id, sum(a) OVER (ORDER BY id) + sum(b) OVER (ORDER BY id DESC) FROM t ORDER BY id;
-- 1|30
-- 2|48
-- 3|54
-- 4|52
-- 5|101
-- 6|156
SELECT id, lag(id, 1) OVER (PARTITION BY a ORDER BY id) IS NULL AS first FROM t ORDER BY id;
-- 1|t
-- 2|t
-- 3|f
-- 4|t
-- 5|t
-- 6|t
ROLLBACK;
