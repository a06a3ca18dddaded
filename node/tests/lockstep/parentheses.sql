-- # Queries in parentheses, wherever an expression or a statement may stand
CREATE TABLE inner_sets (id int PRIMARY KEY, v text, n int)
INSERT INTO inner_sets VALUES (1, 'b', 1), (2, NULL, 2), (3, 'b', 3), (4, 'a', 4)
SELECT ((SELECT 1) UNION (SELECT 1))
-- 1
SELECT ((SELECT 1) UNION (SELECT 2) ORDER BY 1 DESC LIMIT 1) + 1
-- 3
SELECT ((SELECT 1) UNION (SELECT 2))
-- ERROR 21000: more than one row returned by a subquery used as an expression
SELECT (((SELECT 1) EXCEPT (SELECT 2)))
-- 1
SELECT 2 * ((SELECT max(n) FROM inner_sets) INTERSECT (VALUES (4))), 'x'
-- 8|x
SELECT id, ((SELECT u.n FROM inner_sets u WHERE u.id = t.id) UNION (SELECT u.n FROM inner_sets u WHERE u.n = t.n)) FROM inner_sets t ORDER BY id
-- 1|1
-- 2|2
-- 3|3
-- 4|4
SELECT id FROM inner_sets WHERE n = ((SELECT 3) UNION (SELECT 3)) OR n = ((SELECT 4) UNION ALL (SELECT 5) LIMIT 1) ORDER BY id
-- 3
-- 4
SELECT CASE WHEN ((SELECT true) UNION (SELECT true)) THEN ((SELECT 1) UNION (SELECT 1)) ELSE 2 END
-- 1
SELECT coalesce(((SELECT NULL::int) UNION (SELECT NULL)), ((SELECT 7) UNION (SELECT 7)))
-- 7
SELECT id FROM inner_sets WHERE id IN ((SELECT 1) UNION (SELECT 2)) ORDER BY id
-- 1
-- 2
SELECT EXISTS ((SELECT 1 WHERE false) UNION (SELECT 1 WHERE false))
-- f
SELECT ARRAY((SELECT 2) UNION (SELECT 1) ORDER BY 1)
-- {1,2}
SELECT ((SELECT 1) + 1)
-- 2
SELECT ((SELECT 1)) + ((SELECT 2))
-- 3
SELECT ((1))
-- 1
SELECT sum(x) FROM ((SELECT 1 AS x) UNION (SELECT 2)) AS s
-- 3
((SELECT 1) UNION (SELECT 2)) ORDER BY 1
-- 1
-- 2
WITH w AS ((SELECT 1 AS x) UNION (SELECT 2)) SELECT count(*) FROM w
-- 2
UPDATE inner_sets SET n = ((SELECT 40) UNION (SELECT 40)) WHERE id = 4 RETURNING ((SELECT 1) UNION (SELECT 1)), n
-- 1|40
INSERT INTO inner_sets VALUES (5, 'c', ((SELECT 5) UNION (SELECT 5)))
-- # What DISTINCT ON shows without an order is in its own
SELECT DISTINCT ON (v) v FROM inner_sets
-- a
-- b
-- c
-- NULL
SELECT DISTINCT ON (v, n) v, n FROM inner_sets ORDER BY v DESC
-- NULL|2
-- c|5
-- b|1
-- b|3
-- a|40
SELECT DISTINCT ON (n % 2) n % 2 FROM inner_sets
-- 0
-- 1
SELECT DISTINCT ON (v) v, n FROM inner_sets ORDER BY v, n DESC
-- a|40
-- b|3
-- c|5
-- NULL|2
SELECT DISTINCT ON (v) v FROM inner_sets ORDER BY n
-- ERROR 42P10: SELECT DISTINCT ON expressions must match initial ORDER BY expressions
SELECT pi(), pi() * 2
-- 3.141592653589793|6.283185307179586
SELECT pi(1)
-- ERROR 42883: function pi(integer) does not exist
