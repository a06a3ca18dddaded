-- # GROUPING SETS, ROLLUP and CUBE, behind writes
CREATE TABLE s (id int PRIMARY KEY, a int, b int, v int);
INSERT INTO s VALUES (1,1,1,10),(2,1,2,20),(3,2,1,30),(4,2,NULL,40);
BEGIN;
INSERT INTO s VALUES (5,3,1,50);
SAVEPOINT p;
SELECT * FROM (SELECT a AS x, a AS y, sum(v) FROM s GROUP BY ROLLUP(x, y) OFFSET 0) q ORDER BY 1, 2, 3;
-- 1|1|30
-- 1|NULL|30
-- 2|2|70
-- 2|NULL|70
-- 3|3|50
-- 3|NULL|50
-- NULL|NULL|150
ROLLBACK TO p;
SELECT a AS x, a AS y, sum(v), grouping(a) FROM s GROUP BY ROLLUP(a, a) ORDER BY 1, 2, 3;
-- 1|1|30|0
-- 1|1|30|0
-- 2|2|70|0
-- 2|2|70|0
-- 3|3|50|0
-- 3|3|50|0
-- NULL|NULL|150|1
ROLLBACK TO p;
SELECT * FROM (SELECT a+1 AS x, a+1 AS y, sum(v) FROM s GROUP BY ROLLUP(x, y) OFFSET 0) q ORDER BY 1, 2, 3;
-- 2|2|30
-- 2|NULL|30
-- 3|3|70
-- 3|NULL|70
-- 4|4|50
-- 4|NULL|50
-- NULL|NULL|150
ROLLBACK TO p;
SELECT a, b, grouping(a), grouping(b), grouping(a,b), sum(v) FROM s GROUP BY GROUPING SETS ((a), (b), (a, b), ()) ORDER BY 5, 1, 2;
-- 1|1|0|0|0|10
-- 1|2|0|0|0|20
-- 2|1|0|0|0|30
-- 2|NULL|0|0|0|40
-- 3|1|0|0|0|50
-- 1|NULL|0|1|1|30
-- 2|NULL|0|1|1|70
-- 3|NULL|0|1|1|50
-- NULL|1|1|0|2|90
-- NULL|2|1|0|2|20
-- NULL|NULL|1|0|2|40
-- NULL|NULL|1|1|3|150
ROLLBACK TO p;
SELECT a, sum(v) FROM s WHERE false GROUP BY ROLLUP(a);
-- NULL|NULL
ROLLBACK TO p;
SELECT a, sum(v) FROM s WHERE false GROUP BY GROUPING SETS ((), (), (a));
-- NULL|NULL
-- NULL|NULL
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY CUBE(a, b) ORDER BY grouping(a,b), 1, 2;
-- 1|1|1
-- 1|2|1
-- 2|1|1
-- 2|NULL|1
-- 3|1|1
-- 1|NULL|2
-- 2|NULL|2
-- 3|NULL|1
-- NULL|1|3
-- NULL|2|1
-- NULL|NULL|1
-- NULL|NULL|5
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY a, ROLLUP(b) ORDER BY 1, 2, 3;
-- 1|1|1
-- 1|2|1
-- 1|NULL|2
-- 2|1|1
-- 2|NULL|1
-- 2|NULL|2
-- 3|1|1
-- 3|NULL|1
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY ROLLUP((a, b), a) ORDER BY 1, 2, 3;
-- 1|1|1
-- 1|1|1
-- 1|2|1
-- 1|2|1
-- 2|1|1
-- 2|1|1
-- 2|NULL|1
-- 2|NULL|1
-- 3|1|1
-- 3|1|1
-- NULL|NULL|5
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY GROUPING SETS (ROLLUP(a), CUBE(b)) ORDER BY 1, 2, 3;
-- 1|NULL|2
-- 2|NULL|2
-- 3|NULL|1
-- NULL|1|3
-- NULL|2|1
-- NULL|NULL|1
-- NULL|NULL|5
-- NULL|NULL|5
ROLLBACK TO p;
ROLLBACK TO p;
SELECT a, b FROM s GROUP BY ROLLUP(a);
-- ERROR 42803: column "s.b" must appear in the GROUP BY clause or be used in an aggregate function
ROLLBACK TO p;
SELECT grouping(a) FROM s;
-- ERROR 42803: arguments to GROUPING must be grouping expressions of the associated query level
ROLLBACK TO p;
SELECT grouping(b) FROM s GROUP BY a;
-- ERROR 42803: arguments to GROUPING must be grouping expressions of the associated query level
ROLLBACK TO p;
SELECT grouping(a) FROM s GROUP BY a;
-- 0
-- 0
-- 0
ROLLBACK TO p;
SELECT a FROM s WHERE grouping(a) = 0 GROUP BY a;
-- ERROR 42803: grouping operations are not allowed in WHERE
ROLLBACK TO p;
SELECT a FROM s GROUP BY ROLLUP(a) HAVING grouping(a) = 1;
-- NULL
ROLLBACK TO p;
SELECT id, a, count(*) FROM s GROUP BY ROLLUP(id);
-- ERROR 42803: column "s.a" must appear in the GROUP BY clause or be used in an aggregate function
ROLLBACK TO p;
SELECT id, a, count(*) FROM s GROUP BY id, ROLLUP(b) ORDER BY 1,2,3;
-- 1|1|1
-- 1|1|1
-- 2|1|1
-- 2|1|1
-- 3|2|1
-- 3|2|1
-- 4|2|1
-- 4|2|1
-- 5|3|1
-- 5|3|1
ROLLBACK TO p;
SELECT a + 1, count(*) FROM s GROUP BY ROLLUP(a + 1) ORDER BY 1;
-- 2|2
-- 3|2
-- 4|1
-- NULL|5
ROLLBACK TO p;
SELECT a, sum(grouping(a)) FROM s GROUP BY a;
-- ERROR 42803: aggregate function calls cannot be nested
ROLLBACK TO p;
SELECT a, sum(sum(v)) OVER (ORDER BY a) FROM s GROUP BY ROLLUP(a) ORDER BY 1;
-- 1|30
-- 2|100
-- 3|150
-- NULL|300
ROLLBACK TO p;
SELECT coalesce(a, -1), grouping(a), count(DISTINCT b) FROM s GROUP BY ROLLUP(a) ORDER BY 1;
-- -1|1|2
-- 1|0|2
-- 2|0|1
-- 3|0|1
ROLLBACK TO p;
SELECT a, (SELECT max(id) FROM s z WHERE z.a = s.a) FROM s GROUP BY ROLLUP(a) ORDER BY 1;
-- 1|2
-- 2|4
-- 3|5
-- NULL|NULL
ROLLBACK TO p;
SELECT a FROM s GROUP BY ROLLUP(1, 2);
-- ERROR 42P10: GROUP BY position 2 is not in select list
ROLLBACK TO p;
SELECT a, b, sum(v) FROM s GROUP BY ROLLUP(1, 2) ORDER BY 1, 2;
-- 1|1|10
-- 1|2|20
-- 1|NULL|30
-- 2|1|30
-- 2|NULL|40
-- 2|NULL|70
-- 3|1|50
-- 3|NULL|50
-- NULL|NULL|150
ROLLBACK TO p;
SELECT 1 FROM s GROUP BY ();
-- 1
ROLLBACK TO p;
SELECT count(*) FROM s WHERE false GROUP BY ();
-- 0
ROLLBACK TO p;
SELECT a, count(*) FROM s GROUP BY a, () ORDER BY a;
-- 1|2
-- 2|2
-- 3|1
ROLLBACK TO p;
SELECT count(*) FROM s GROUP BY CUBE(id,a,b,v,id+1,id+2,id+3,id+4,id+5,id+6,id+7,id+8,id+9);
-- ERROR 54011: CUBE is limited to 12 elements
ROLLBACK TO p;
SELECT grouping(a) FROM s ORDER BY 1;
-- ERROR 42803: arguments to GROUPING must be grouping expressions of the associated query level
ROLLBACK TO p;
SELECT DISTINCT a FROM s GROUP BY CUBE(a, b) ORDER BY a;
-- 1
-- 2
-- 3
-- NULL
ROLLBACK TO p;
SELECT a, count(*) FROM s GROUP BY GROUPING SETS (a, a) ORDER BY 1;
-- 1|2
-- 1|2
-- 2|2
-- 2|2
-- 3|1
-- 3|1
ROLLBACK TO p;
SELECT * FROM (SELECT a, 1 AS one, count(*) FROM s GROUP BY ROLLUP(a, one) OFFSET 0) q ORDER BY 1, 2, 3;
-- 1|1|2
-- 1|NULL|2
-- 2|1|2
-- 2|NULL|2
-- 3|1|1
-- 3|NULL|1
-- NULL|NULL|5
ROLLBACK TO p;
SELECT a, count(*) FROM s GROUP BY GROUPING SETS ((a), (a, b)) HAVING count(*) > 1 ORDER BY 1, 2;
-- 1|2
-- 2|2
ROLLBACK TO p;
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY (a, b), () ORDER BY 1, 2;
-- 1|1|1
-- 1|2|1
-- 2|1|1
-- 2|NULL|1
-- 3|1|1
ROLLBACK TO p;
SELECT a, b, count(*) FROM s GROUP BY ((a), b) ORDER BY 1, 2;
-- 1|1|1
-- 1|2|1
-- 2|1|1
-- 2|NULL|1
-- 3|1|1
ROLLBACK TO p;
SELECT a % 2 AS odd, b, sum(v), grouping(a % 2, b) FROM s GROUP BY CUBE (a % 2, b) ORDER BY 4, 1, 2;
-- 0|1|30|0
-- 0|NULL|40|0
-- 1|1|60|0
-- 1|2|20|0
-- 0|NULL|70|1
-- 1|NULL|80|1
-- NULL|1|90|2
-- NULL|2|20|2
-- NULL|NULL|40|2
-- NULL|NULL|150|3
ROLLBACK TO p;
SELECT a, array_agg(v ORDER BY v) FROM s GROUP BY ROLLUP (a) ORDER BY a;
-- 1|{10,20}
-- 2|{30,40}
-- 3|{50}
-- NULL|{10,20,30,40,50}
ROLLBACK TO p;
SELECT a, rank() OVER (PARTITION BY grouping(a) ORDER BY sum(v) DESC) FROM s GROUP BY ROLLUP (a) ORDER BY grouping(a), 2;
-- 2|1
-- 3|2
-- 1|3
-- NULL|1
ROLLBACK TO p;
SELECT x.a, y.b, count(*) FROM s x JOIN s y USING (id) GROUP BY ROLLUP (x.a, y.b) ORDER BY 1, 2;
-- 1|1|1
-- 1|2|1
-- 1|NULL|2
-- 2|1|1
-- 2|NULL|1
-- 2|NULL|2
-- 3|1|1
-- 3|NULL|1
-- NULL|NULL|5
ROLLBACK TO p;
SELECT DISTINCT grouping(a), grouping(b) FROM s GROUP BY CUBE (a, b) ORDER BY 1, 2;
-- 0|0
-- 0|1
-- 1|0
-- 1|1
ROLLBACK TO p;
SELECT sum(n) FROM (SELECT count(*) AS n FROM s GROUP BY CUBE (a, b)) x;
-- 20
ROLLBACK TO p;
SELECT CASE WHEN grouping(a) = 1 THEN 'all' ELSE a::text END, sum(v) FROM s GROUP BY ROLLUP (a) ORDER BY grouping(a), a;
-- 1|30
-- 2|70
-- 3|50
-- all|150
ROLLBACK TO p;
SELECT a FROM s GROUP BY ROLLUP (a) ORDER BY a DESC NULLS LAST LIMIT 2;
-- 3
-- 2
ROLLBACK TO p;
SELECT a + b AS c, count(*) FROM s GROUP BY CUBE (c, a) ORDER BY 1, 2;
-- 2|1
-- 2|1
-- 3|1
-- 3|1
-- 3|2
-- 4|1
-- 4|1
-- NULL|1
-- NULL|1
-- NULL|1
-- NULL|2
-- NULL|2
-- NULL|5
ROLLBACK TO p;
SELECT grouping(a, b, a) FROM s GROUP BY a, b LIMIT 1;
-- 0
ROLLBACK TO p;
SELECT grouping() FROM s GROUP BY a;
-- ERROR 42601: syntax error at or near ")"
ROLLBACK TO p;
SELECT count(*) FILTER (WHERE v > 15), grouping(b) FROM s GROUP BY CUBE (b) ORDER BY 2, 1;
-- 1|0
-- 1|0
-- 2|0
-- 4|1
ROLLBACK TO p;
SELECT sum(v) FROM s GROUP BY ROLLUP (count(*));
-- ERROR 42803: aggregate functions are not allowed in GROUP BY
ROLLBACK TO p;
SELECT a, b FROM s GROUP BY GROUPING SETS (a, b, c);
-- ERROR 42703: column "c" does not exist
ROLLBACK TO p;
SELECT x.id, x.a FROM s x GROUP BY GROUPING SETS ((x.id), (x.id, x.b)) ORDER BY 1;
-- 1|1
-- 1|1
-- 2|1
-- 2|1
-- 3|2
-- 3|2
-- 4|2
-- 4|2
-- 5|3
-- 5|3
ROLLBACK TO p;
INSERT INTO s SELECT 100 + row_number() OVER (ORDER BY a), a, NULL, sum(v) FROM s GROUP BY ROLLUP (a);
SELECT * FROM s WHERE id > 100 ORDER BY id;
-- 101|1|NULL|30
-- 102|2|NULL|70
-- 103|3|NULL|50
-- 104|NULL|NULL|150
ROLLBACK TO p;
COMMIT;
