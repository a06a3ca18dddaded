-- # Grants on columns of views
CREATE ROLE ada LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE eve LOGIN;
GRANT CREATE ON SCHEMA public TO ada;
SET SESSION AUTHORIZATION ada;
CREATE TABLE t (id int PRIMARY KEY, a int, b int);
INSERT INTO t VALUES (1, 10, 100), (2, 20, 200);
CREATE VIEW v AS SELECT id, a, b AS secret FROM t;
GRANT SELECT (id, a) ON v TO bob;
GRANT SELECT (nothing) ON v TO bob;
-- ERROR 42703: column "nothing" of relation "v" does not exist
GRANT SELECT (secret) ON v TO eve WITH GRANT OPTION;
GRANT EXECUTE (id) ON v TO eve;
-- ERROR 0LP01: invalid privilege type EXECUTE for column
SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 0 ORDER BY attnum;
-- id|{bob=r/ada}
-- a|{bob=r/ada}
-- secret|{eve=r*/ada}
SELECT relacl FROM pg_class WHERE relname = 'v';
-- NULL
SET SESSION AUTHORIZATION bob;
SELECT id, a FROM v ORDER BY id;
-- 1|10
-- 2|20
SELECT v.a FROM v WHERE v.id = 1;
-- 10
SELECT secret FROM v;
-- ERROR 42501: permission denied for view v
SELECT * FROM v;
-- ERROR 42501: permission denied for view v
SELECT id FROM v WHERE secret = 100;
-- ERROR 42501: permission denied for view v
SELECT id FROM v ORDER BY secret;
-- ERROR 42501: permission denied for view v
SELECT count(*) FROM v;
-- 2
SELECT count(secret) FROM v;
-- ERROR 42501: permission denied for view v
SELECT x.id FROM v AS x JOIN v AS y ON x.id = y.id ORDER BY 1;
-- 1
-- 2
SELECT x.id FROM v AS x JOIN v AS y USING (secret);
-- ERROR 42501: permission denied for view v
SELECT x.id FROM v AS x JOIN v AS y USING (id) ORDER BY 1;
-- 1
-- 2
SELECT a FROM (SELECT * FROM v) AS z;
-- ERROR 42501: permission denied for view v
SELECT a FROM (SELECT a FROM v) AS z ORDER BY 1;
-- 10
-- 20
WITH z AS (SELECT id, a FROM v) SELECT id FROM z ORDER BY 1;
-- 1
-- 2
SELECT id FROM t;
-- ERROR 42501: permission denied for table t
SELECT has_column_privilege('v', 'a', 'SELECT'), has_column_privilege('v', 'secret', 'SELECT'), has_any_column_privilege('v', 'SELECT'), has_table_privilege('v', 'SELECT');
-- t|f|t|f
SELECT has_column_privilege('v', 2::smallint, 'SELECT'), has_column_privilege('v', 3::smallint, 'SELECT');
-- t|f
SELECT has_column_privilege('v', 'nothing', 'SELECT');
-- ERROR 42703: column "nothing" of relation "v" does not exist
SET SESSION AUTHORIZATION eve;
SELECT secret FROM v ORDER BY 1;
-- 100
-- 200
SELECT 1 FROM v;
-- 1
-- 1
SELECT id FROM v;
-- ERROR 42501: permission denied for view v
GRANT SELECT (secret) ON v TO bob;
GRANT SELECT (id) ON v TO bob;
-- ERROR 42501: permission denied for column "id" of relation "v"
SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 0 ORDER BY attnum;
-- id|{bob=r/ada}
-- a|{bob=r/ada}
-- secret|{eve=r*/ada,bob=r/eve}
SET SESSION AUTHORIZATION bob;
SELECT secret FROM v ORDER BY 1;
-- 100
-- 200
SET SESSION AUTHORIZATION ada;
REVOKE SELECT (secret) ON v FROM eve;
-- ERROR 2BP01: dependent privileges exist
REVOKE SELECT (secret) ON v FROM eve CASCADE;
SET SESSION AUTHORIZATION bob;
SELECT secret FROM v;
-- ERROR 42501: permission denied for view v
SET SESSION AUTHORIZATION ada;
GRANT SELECT ON v TO bob;
SET SESSION AUTHORIZATION bob;
SELECT secret FROM v ORDER BY 1;
-- 100
-- 200
SET SESSION AUTHORIZATION ada;
REVOKE SELECT ON v FROM bob;
SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 0 ORDER BY attnum;
-- id|NULL
-- a|NULL
-- secret|NULL
SET SESSION AUTHORIZATION bob;
SELECT a FROM v;
-- ERROR 42501: permission denied for view v
SET SESSION AUTHORIZATION ada;
GRANT SELECT (a) ON v TO bob;
RESET SESSION AUTHORIZATION;
DROP ROLE bob;
-- ERROR 2BP01: role "bob" cannot be dropped because some objects depend on it
-- # A view over a view is read with its own owner's
GRANT CREATE ON SCHEMA public TO bob;
SET SESSION AUTHORIZATION bob;
CREATE VIEW w AS SELECT a FROM v;
GRANT SELECT ON w TO eve;
SET SESSION AUTHORIZATION eve;
SELECT a FROM w ORDER BY 1;
-- 10
-- 20
SELECT a FROM v;
-- ERROR 42501: permission denied for view v
SET SESSION AUTHORIZATION ada;
REVOKE SELECT (a) ON v FROM bob;
SET SESSION AUTHORIZATION eve;
SELECT a FROM w;
-- ERROR 42501: permission denied for view v
RESET SESSION AUTHORIZATION;
SELECT has_column_privilege('bob', 'v', 'a', 'SELECT');
-- f
GRANT SELECT (a) ON v TO bob;
DROP VIEW v CASCADE;
DROP OWNED BY bob;
DROP ROLE bob;
