-- # Aggregates of several arguments, in an order of their own, filtered, distinct; behind writes
CREATE TABLE s (id int PRIMARY KEY, g int, t text, v varchar(10), n numeric, f float8, b bytea, ok bool);
INSERT INTO s VALUES (1, 1, 'b', 'x', 1.5, 0.1, '\x01', true), (2, 1, 'a', 'y', 2.50, 0.2, '\x02', false), (3, 1, NULL, 'z', NULL, NULL, NULL, NULL), (4, 2, 'c', NULL, 1.5, 1e20, '\x0304', true);
BEGIN;
INSERT INTO s VALUES (5, 2, 'a', 'x', 2.5, -1e20, '\x02', true), (6, 2, 'c', 'w', 3, 3, '', false);
SAVEPOINT p;
SELECT string_agg(t, ',') FROM s WHERE id < 3;
-- b,a
ROLLBACK TO p;
SELECT string_agg(t, ',' ORDER BY t) FROM s;
-- a,a,b,c,c
ROLLBACK TO p;
SELECT string_agg(t, ',' ORDER BY t DESC, id) FROM s;
-- c,c,b,a,a
ROLLBACK TO p;
SELECT string_agg(t, ',' ORDER BY id DESC) FROM s;
-- c,a,c,a,b
ROLLBACK TO p;
SELECT string_agg(DISTINCT t, ',') FROM s;
-- a,b,c
ROLLBACK TO p;
SELECT string_agg(DISTINCT t, ',' ORDER BY t DESC) FROM s;
-- c,b,a
ROLLBACK TO p;
SELECT string_agg(DISTINCT t, ',' ORDER BY id) FROM s;
-- ERROR 42P10: in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list
ROLLBACK TO p;
SELECT string_agg(t, NULL ORDER BY id) FROM s;
-- bacac
ROLLBACK TO p;
SELECT string_agg(t, v ORDER BY id) FROM s;
-- byacxawc
ROLLBACK TO p;
SELECT string_agg(DISTINCT t, v ORDER BY v, t) FROM s;
-- cxaxbyac
ROLLBACK TO p;
SELECT string_agg(v, '-' ORDER BY id) FROM s;
-- x-y-z-x-w
ROLLBACK TO p;
SELECT string_agg(b, '\xff' ORDER BY id) FROM s;
-- \x01ff02ff0304ff02ff
ROLLBACK TO p;
SELECT string_agg(b, b ORDER BY id) FROM s;
-- \x010202030403040202
ROLLBACK TO p;
SELECT string_agg(t, ',') FROM s WHERE false;
-- NULL
ROLLBACK TO p;
SELECT string_agg(NULL, ',') FROM s;
-- NULL
ROLLBACK TO p;
SELECT string_agg('x', ',') FROM s;
-- x,x,x,x,x,x
ROLLBACK TO p;
SELECT string_agg(id, ',') FROM s;
-- ERROR 42883: function string_agg(integer, unknown) does not exist
ROLLBACK TO p;
SELECT string_agg(t) FROM s;
-- ERROR 42883: function string_agg(text) does not exist
ROLLBACK TO p;
SELECT string_agg(id::text, ',' ORDER BY id) FILTER (WHERE ok) FROM s;
-- 1,4,5
ROLLBACK TO p;
SELECT g, string_agg(t, '+' ORDER BY t NULLS FIRST, id DESC) FROM s GROUP BY g ORDER BY g;
-- 1|a+b
-- 2|a+c+c
ROLLBACK TO p;
SELECT g, string_agg(t, '+' ORDER BY t), count(*), count(t) FROM s GROUP BY g HAVING string_agg(t, '' ORDER BY t) > 'a' ORDER BY g;
-- 1|a+b|3|2
-- 2|a+c+c|3|3
ROLLBACK TO p;
SELECT array_agg(t ORDER BY t NULLS FIRST, id) FROM s;
-- {NULL,a,a,b,c,c}
ROLLBACK TO p;
SELECT array_agg(t ORDER BY t DESC, id) FROM s;
-- {NULL,c,c,b,a,a}
ROLLBACK TO p;
SELECT array_agg(DISTINCT t) FROM s;
-- {a,b,c,NULL}
ROLLBACK TO p;
SELECT array_agg(DISTINCT t ORDER BY t DESC NULLS LAST) FROM s;
-- {c,b,a,NULL}
ROLLBACK TO p;
SELECT array_agg(DISTINCT n ORDER BY n DESC) FROM s WHERE id < 4;
-- {NULL,2.50,1.5}
ROLLBACK TO p;
SELECT array_agg(DISTINCT n) FROM s WHERE n IS NULL OR n <> 2.5;
-- {1.5,3,NULL}
ROLLBACK TO p;
SELECT array_agg(id ORDER BY g DESC, n NULLS FIRST, id) FROM s;
-- {4,5,6,3,1,2}
ROLLBACK TO p;
SELECT array_agg(id ORDER BY ok, id DESC) FILTER (WHERE id <> 2) FROM s;
-- {6,5,4,1,3}
ROLLBACK TO p;
SELECT array_agg(g ORDER BY 1) FROM s WHERE id > 6;
-- NULL
ROLLBACK TO p;
SELECT sum(f ORDER BY id), sum(f ORDER BY f, id), sum(f ORDER BY f DESC) FROM s;
-- 3|0|0
ROLLBACK TO p;
SELECT sum(DISTINCT f) FROM s WHERE id < 4;
-- 0.30000000000000004
ROLLBACK TO p;
SELECT avg(f ORDER BY id) FROM s WHERE id < 4;
-- 0.15000000000000002
ROLLBACK TO p;
SELECT count(DISTINCT t ORDER BY t), max(t ORDER BY id), min(n ORDER BY n) FROM s;
-- 3|c|1.5
ROLLBACK TO p;
SELECT count(DISTINCT t ORDER BY id) FROM s;
-- ERROR 42P10: in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list
ROLLBACK TO p;
SELECT sum(n ORDER BY nope) FROM s;
-- ERROR 42703: column "nope" does not exist
ROLLBACK TO p;
SELECT array_agg(t ORDER BY count(*)) FROM s;
-- ERROR 42803: aggregate function calls cannot be nested
ROLLBACK TO p;
SELECT string_agg(t, ',' ORDER BY t) OVER () FROM s;
-- ERROR 0A000: aggregate ORDER BY is not implemented for window functions
ROLLBACK TO p;
SELECT id, string_agg(t, ',') OVER (ORDER BY id) FROM s ORDER BY id;
-- 1|b
-- 2|b,a
-- 3|b,a
-- 4|b,a,c
-- 5|b,a,c,a
-- 6|b,a,c,a,c
ROLLBACK TO p;
SELECT id, string_agg(t, ',') OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s ORDER BY id;
-- 1|b
-- 2|b,a
-- 3|a
-- 4|c
-- 5|c,a
-- 6|a,c
ROLLBACK TO p;
SELECT id, array_agg(id) OVER (PARTITION BY g ORDER BY id) FROM s ORDER BY id;
-- 1|{1}
-- 2|{1,2}
-- 3|{1,2,3}
-- 4|{4}
-- 5|{4,5}
-- 6|{4,5,6}
ROLLBACK TO p;
SELECT string_agg(DISTINCT t, ',') OVER () FROM s;
-- ERROR 0A000: DISTINCT is not implemented for window functions
ROLLBACK TO p;
SELECT (SELECT string_agg(z.t, ',' ORDER BY z.id) FROM s z WHERE z.g = s.g) FROM s WHERE id IN (1, 4) ORDER BY id;
-- b,a
-- c,a,c
ROLLBACK TO p;
SELECT g, array_agg(x ORDER BY x) FROM s, generate_series(id, id + 1) x WHERE id < 3 GROUP BY g;
-- 1|{1,2,2,3}
ROLLBACK TO p;
SELECT string_agg(t || g, ';' ORDER BY g, t) FROM (SELECT DISTINCT g, t FROM s) x;
-- a1;b1;a2;c2
ROLLBACK TO p;
SELECT string_agg(t, ',' ORDER BY t), string_agg(t, ',' ORDER BY t DESC), string_agg(t, ',' ORDER BY t) FROM s;
-- a,a,b,c,c|c,c,b,a,a|a,a,b,c,c
ROLLBACK TO p;
SELECT sum(id, g) FROM s;
-- ERROR 42883: function sum(integer, integer) does not exist
ROLLBACK TO p;
SELECT sum() FROM s;
-- ERROR 42883: function sum() does not exist
ROLLBACK TO p;
SELECT sum(*) FROM s;
-- ERROR 42883: function sum() does not exist
ROLLBACK TO p;
SELECT array_agg(*) FROM s;
-- ERROR 42883: function array_agg() does not exist
ROLLBACK TO p;
SELECT bool_and(t) FROM s;
-- ERROR 42883: function bool_and(text) does not exist
ROLLBACK TO p;
SELECT upper(string_agg(t, '' ORDER BY id)) || '!' FROM s;
-- BACAC!
ROLLBACK TO p;
SELECT g, grouping(g), string_agg(t, '' ORDER BY t, id) FROM s GROUP BY ROLLUP (g) ORDER BY grouping(g), g;
-- 1|0|ab
-- 2|0|acc
-- NULL|1|aabcc
ROLLBACK TO p;
INSERT INTO s (id, t) SELECT 100 + g, string_agg(t, '/' ORDER BY t, id) FROM s GROUP BY g;
UPDATE s SET t = (SELECT string_agg(t, '' ORDER BY id DESC) FROM s z WHERE z.id < 100) WHERE id = 6;
SELECT id, t FROM s WHERE id > 5 ORDER BY id;
-- 6|cacab
-- 101|a/b
-- 102|a/c/c
ROLLBACK TO p;
COMMIT;
