-- # Tables
CREATE ROLE owner_role LOGIN;
CREATE ROLE reader LOGIN;
CREATE ROLE writer LOGIN;
CREATE ROLE nobody_role LOGIN;
CREATE ROLE staff;
GRANT staff TO reader;
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE t (id int PRIMARY KEY, v int, secret text);
-- ERROR 42501: permission denied for schema public
RESET SESSION AUTHORIZATION;
GRANT CREATE ON SCHEMA public TO owner_role;
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE t (id int PRIMARY KEY, v int, secret text);
INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b');
SET SESSION AUTHORIZATION reader;
SELECT * FROM t;
-- ERROR 42501: permission denied for table t
SELECT count(*) FROM t;
-- ERROR 42501: permission denied for table t
INSERT INTO t VALUES (3, 30, 'c');
-- ERROR 42501: permission denied for table t
UPDATE t SET v = 1;
-- ERROR 42501: permission denied for table t
UPDATE t SET v = 1 WHERE id = 1;
-- ERROR 42501: permission denied for table t
DELETE FROM t;
-- ERROR 42501: permission denied for table t
TRUNCATE t;
-- ERROR 42501: permission denied for table t
DROP TABLE t;
-- ERROR 42501: must be owner of table t
ALTER TABLE t ADD COLUMN w int;
-- ERROR 42501: must be owner of table t
CREATE INDEX i ON t (v);
-- ERROR 42501: must be owner of table t
COMMENT ON TABLE t IS 'x';
-- ERROR 42501: must be owner of table t
GRANT SELECT ON t TO reader;
-- ERROR 42501: permission denied for table t
SELECT nothing FROM t;
-- ERROR 42703: column "nothing" does not exist
SELECT * FROM nothing;
-- ERROR 42P01: relation "nothing" does not exist
EXPLAIN SELECT * FROM t;
-- ERROR 42501: permission denied for table t
SET SESSION AUTHORIZATION owner_role;
GRANT SELECT ON t TO staff;
SET SESSION AUTHORIZATION reader;
SELECT id, v FROM t ORDER BY id;
-- 1|10
-- 2|20
SELECT count(*) FROM t WHERE secret = 'a';
-- 1
UPDATE t SET v = v + 1 WHERE id = 1;
-- ERROR 42501: permission denied for table t
GRANT SELECT ON t TO writer;
SET SESSION AUTHORIZATION owner_role;
GRANT INSERT, UPDATE, DELETE ON TABLE t TO writer WITH GRANT OPTION;
SET SESSION AUTHORIZATION writer;
INSERT INTO t VALUES (3, 30, 'c');
INSERT INTO t VALUES (4, 40, 'd') RETURNING id;
-- ERROR 42501: permission denied for table t
UPDATE t SET v = 31;
UPDATE t SET v = v + 1;
-- ERROR 42501: permission denied for table t
UPDATE t SET v = 31 WHERE id = 3;
-- ERROR 42501: permission denied for table t
UPDATE t SET v = 31 RETURNING v;
-- ERROR 42501: permission denied for table t
DELETE FROM t WHERE id = 3;
-- ERROR 42501: permission denied for table t
DELETE FROM t USING t AS u WHERE t.id = u.id;
-- ERROR 42501: permission denied for table t
SELECT 1 FROM t;
-- ERROR 42501: permission denied for table t
GRANT INSERT ON t TO nobody_role;
GRANT SELECT ON t TO nobody_role;
SET SESSION AUTHORIZATION nobody_role;
INSERT INTO t VALUES (5, 50, 'e');
INSERT INTO t VALUES (5, 51, 'e') ON CONFLICT (id) DO UPDATE SET v = 51;
-- ERROR 42501: permission denied for table t
SET SESSION AUTHORIZATION owner_role;
REVOKE INSERT ON t FROM writer;
-- ERROR 2BP01: dependent privileges exist
REVOKE GRANT OPTION FOR INSERT ON t FROM writer;
-- ERROR 2BP01: dependent privileges exist
REVOKE INSERT ON t FROM writer CASCADE;
SET SESSION AUTHORIZATION nobody_role;
INSERT INTO t VALUES (6, 60, 'f');
-- ERROR 42501: permission denied for table t
RESET SESSION AUTHORIZATION;
SELECT relacl FROM pg_class WHERE relname = 't';
-- {owner_role=arwdDxt/owner_role,staff=r/owner_role,writer=w*d*/owner_role}
SELECT has_table_privilege('reader', 't', 'SELECT'), has_table_privilege('writer', 't', 'SELECT');
-- t|f
SELECT has_table_privilege('writer', 't', 'INSERT, UPDATE'), has_table_privilege('writer', 't', 'UPDATE WITH GRANT OPTION');
-- t|t
SELECT has_table_privilege('nothing', 't', 'SELECT');
-- ERROR 42704: role "nothing" does not exist
SELECT has_table_privilege('reader', 't', 'FLY');
-- ERROR 22023: unrecognized privilege type: "FLY"

-- # Columns
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE c (id int PRIMARY KEY, v int, secret text);
INSERT INTO c VALUES (1, 10, 'a');
GRANT SELECT (id, v), UPDATE (v) ON c TO writer;
GRANT INSERT (id, v) ON c TO writer;
SET SESSION AUTHORIZATION writer;
SELECT id, v FROM c;
-- 1|10
SELECT c.id FROM c;
-- 1
SELECT * FROM c;
-- ERROR 42501: permission denied for table c
SELECT secret FROM c;
-- ERROR 42501: permission denied for table c
SELECT count(*) FROM c;
-- 1
SELECT id FROM c WHERE secret = 'a';
-- ERROR 42501: permission denied for table c
SELECT id FROM c ORDER BY secret;
-- ERROR 42501: permission denied for table c
UPDATE c SET v = v + 1;
UPDATE c SET secret = 'b';
-- ERROR 42501: permission denied for table c
UPDATE c SET v = 12 WHERE secret = 'a';
-- ERROR 42501: permission denied for table c
INSERT INTO c (id, v) VALUES (2, 20);
INSERT INTO c (id, secret) VALUES (3, 'x');
-- ERROR 42501: permission denied for table c
INSERT INTO c VALUES (3, 30, 'x');
-- ERROR 42501: permission denied for table c
DELETE FROM c;
-- ERROR 42501: permission denied for table c
SET SESSION AUTHORIZATION owner_role;
REVOKE SELECT ON c FROM writer;
SET SESSION AUTHORIZATION writer;
SELECT id FROM c;
-- ERROR 42501: permission denied for table c
RESET SESSION AUTHORIZATION;
GRANT SELECT (nothing) ON c TO writer;
-- ERROR 42703: column "nothing" of relation "c" does not exist
GRANT DELETE (v) ON c TO writer;
-- ERROR 0LP01: invalid privilege type DELETE for column
GRANT USAGE ON TABLE c TO writer;
-- ERROR 0LP01: invalid privilege type USAGE for table
SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'c'::regclass AND attacl IS NOT NULL ORDER BY 1;
-- id|{writer=a/owner_role}
-- v|{writer=aw/owner_role}
SELECT has_column_privilege('writer', 'c', 'v', 'UPDATE'), has_column_privilege('writer', 'c', 'secret', 'UPDATE');
-- t|f
SELECT has_any_column_privilege('writer', 'c', 'INSERT'), has_any_column_privilege('reader', 'c', 'INSERT');
-- t|f

-- # Views
SET SESSION AUTHORIZATION owner_role;
CREATE VIEW shown AS SELECT id, v FROM c;
SET SESSION AUTHORIZATION reader;
SELECT * FROM shown;
-- ERROR 42501: permission denied for view shown
SET SESSION AUTHORIZATION owner_role;
GRANT SELECT ON shown TO reader;
SET SESSION AUTHORIZATION reader;
SELECT * FROM shown ORDER BY id;
-- 1|11
-- 2|20
SELECT * FROM c;
-- ERROR 42501: permission denied for table c
DROP VIEW shown;
-- ERROR 42501: must be owner of view shown
RESET SESSION AUTHORIZATION;
REVOKE ALL ON c FROM owner_role;
SET SESSION AUTHORIZATION reader;
SELECT * FROM shown;
-- ERROR 42501: permission denied for table c
RESET SESSION AUTHORIZATION;
GRANT ALL ON c TO owner_role;

-- # Schemas
CREATE SCHEMA s AUTHORIZATION owner_role;
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE s.t (id int PRIMARY KEY);
GRANT SELECT ON s.t TO reader;
SET SESSION AUTHORIZATION reader;
SELECT * FROM s.t;
-- ERROR 42501: permission denied for schema s
CREATE TABLE s.u (id int);
-- ERROR 42501: permission denied for schema s
CREATE SCHEMA mine;
-- ERROR 42501: permission denied for database tally
DROP SCHEMA s;
-- ERROR 42501: must be owner of schema s
SET SESSION AUTHORIZATION owner_role;
GRANT USAGE ON SCHEMA s TO PUBLIC;
SET SESSION AUTHORIZATION reader;
SELECT * FROM s.t;
CREATE TABLE s.u (id int);
-- ERROR 42501: permission denied for schema s
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE s.u (id int PRIMARY KEY);
GRANT INSERT ON ALL TABLES IN SCHEMA s TO reader;
SET SESSION AUTHORIZATION reader;
INSERT INTO s.u VALUES (1);
SELECT has_schema_privilege('s', 'USAGE'), has_schema_privilege('s', 'CREATE');
-- t|f
RESET SESSION AUTHORIZATION;
SELECT nspacl FROM pg_namespace WHERE nspname = 's';
-- {owner_role=UC/owner_role,=U/owner_role}
GRANT SELECT ON SCHEMA s TO reader;
-- ERROR 0LP01: invalid privilege type SELECT for schema

-- # Functions
SET SESSION AUTHORIZATION owner_role;
CREATE FUNCTION plain() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM c); END';
CREATE FUNCTION definer() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM c); END';
CREATE FUNCTION branch(a boolean) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN IF a THEN RETURN (SELECT count(*) FROM c); END IF; RETURN 0; END';
SET SESSION AUTHORIZATION reader;
SELECT plain();
-- ERROR 42501: permission denied for table c
SELECT definer();
-- 2
SELECT branch(false);
-- 0
SELECT branch(true);
-- ERROR 42501: permission denied for table c
CREATE OR REPLACE FUNCTION plain() RETURNS bigint LANGUAGE sql AS 'SELECT 1';
-- ERROR 42501: permission denied for schema public
DROP FUNCTION plain();
-- ERROR 42501: must be owner of function plain
SET SESSION AUTHORIZATION owner_role;
REVOKE EXECUTE ON FUNCTION definer() FROM PUBLIC;
SET SESSION AUTHORIZATION reader;
SELECT definer();
-- ERROR 42501: permission denied for function definer
SET SESSION AUTHORIZATION owner_role;
GRANT EXECUTE ON FUNCTION definer() TO staff;
SET SESSION AUTHORIZATION reader;
SELECT definer();
-- 2
SELECT has_function_privilege('definer()', 'EXECUTE'), has_function_privilege('writer', 'definer()', 'EXECUTE');
-- t|f

-- # Sequences
SET SESSION AUTHORIZATION owner_role;
CREATE SEQUENCE q;
SET SESSION AUTHORIZATION reader;
SELECT nextval('q');
-- ERROR 42501: permission denied for sequence q
SELECT last_value FROM q;
-- ERROR 42501: permission denied for sequence q
ALTER SEQUENCE q RESTART;
-- ERROR 42501: must be owner of sequence q
SET SESSION AUTHORIZATION owner_role;
GRANT USAGE ON SEQUENCE q TO reader;
SET SESSION AUTHORIZATION reader;
SELECT nextval('q');
-- 1
SELECT setval('q', 5);
-- ERROR 42501: permission denied for sequence q
SELECT last_value FROM q;
-- ERROR 42501: permission denied for sequence q

-- # Owners
ALTER TABLE t OWNER TO reader;
-- ERROR 42501: must be owner of table t
SET SESSION AUTHORIZATION owner_role;
ALTER TABLE t OWNER TO reader;
-- ERROR 42501: must be member of role "reader"
RESET SESSION AUTHORIZATION;
ALTER TABLE t OWNER TO reader;
SET SESSION AUTHORIZATION reader;
SELECT count(*) FROM t;
-- 4
ALTER TABLE t ADD COLUMN w int;
SET SESSION AUTHORIZATION owner_role;
SELECT count(*) FROM t;
-- ERROR 42501: permission denied for table t
CREATE TABLE child (id int PRIMARY KEY, of int REFERENCES t);
-- ERROR 42501: permission denied for table t
RESET SESSION AUTHORIZATION;
GRANT REFERENCES ON t TO owner_role;
SET SESSION AUTHORIZATION owner_role;
CREATE TABLE child (id int PRIMARY KEY, of int REFERENCES t);
INSERT INTO child VALUES (1, 1);
INSERT INTO child VALUES (2, 99);
-- ERROR 23503: insert or update on table "child" violates foreign key constraint "child_of_fkey"
RESET SESSION AUTHORIZATION;
CREATE ROLE other_role;
GRANT SELECT ON t TO other_role;
DROP ROLE other_role;
-- ERROR 2BP01: role "other_role" cannot be dropped because some objects depend on it
REVOKE ALL ON t FROM other_role;
DROP ROLE other_role;
DROP ROLE owner_role;
-- ERROR 2BP01: role "owner_role" cannot be dropped because some objects depend on it
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 't' ORDER BY 1;
-- owner_role
-- reader
GRANT pg_read_all_data TO writer;
SET SESSION AUTHORIZATION writer;
SELECT count(*) FROM t;
-- 4
UPDATE t SET v = v;
RESET SESSION AUTHORIZATION;
SELECT pg_has_role('reader', 'staff', 'MEMBER'), pg_has_role('writer', 'staff', 'MEMBER');
-- t|f

-- # Columns that follow from others
RESET SESSION AUTHORIZATION;
CREATE TABLE g (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED, note text);
GRANT SELECT, UPDATE (n), INSERT (id, n) ON g TO reader;
SET SESSION AUTHORIZATION reader;
INSERT INTO g VALUES (1, 1);
INSERT INTO g SELECT 2, 2;
INSERT INTO g VALUES (3, 1, DEFAULT);
-- ERROR 42501: permission denied for table g
INSERT INTO g VALUES (3, 1, DEFAULT, 'x');
-- ERROR 42501: permission denied for table g
INSERT INTO g DEFAULT VALUES;
-- ERROR 23502: null value in column "id" of relation "g" violates not-null constraint
INSERT INTO g (id, n) VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
INSERT INTO g (id, n) VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET note = 'x';
-- ERROR 42501: permission denied for table g
UPDATE g SET n = n + 1 WHERE id = 1;
UPDATE g SET n = n + 1;
UPDATE g SET n = 5, twice = DEFAULT;
-- ERROR 42501: permission denied for table g
UPDATE g SET note = 'x' WHERE id = 1;
-- ERROR 42501: permission denied for table g
MERGE INTO g USING (VALUES (1, 7)) AS s (a, b) ON g.id = s.a WHEN MATCHED THEN UPDATE SET n = s.b;
MERGE INTO g USING (VALUES (1, 7)) AS s (a, b) ON g.id = s.a WHEN MATCHED THEN UPDATE SET note = 'x';
-- ERROR 42501: permission denied for table g
MERGE INTO g USING (VALUES (9, 7)) AS s (a, b) ON g.id = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b);
SELECT * FROM g ORDER BY id;
-- 1|7|14|NULL
-- 2|2|4|NULL
-- 9|7|14|NULL
RESET SESSION AUTHORIZATION;

-- # Whole rows need every column
RESET SESSION AUTHORIZATION;
CREATE TABLE w (id int PRIMARY KEY, secret text);
INSERT INTO w VALUES (1, 'x');
GRANT SELECT (id), INSERT, UPDATE ON w TO reader;
CREATE VIEW wv AS SELECT * FROM w;
GRANT SELECT (id) ON wv TO reader;
SET SESSION AUTHORIZATION reader;
SELECT w FROM w;
-- ERROR 42501: permission denied for table w
SELECT w.id FROM w ORDER BY w;
-- ERROR 42501: permission denied for table w
SELECT to_jsonb(w) FROM w;
-- ERROR 42501: permission denied for table w
SELECT row_to_json(x) FROM w x;
-- ERROR 42501: permission denied for table w
SELECT json_agg(w) FROM w;
-- ERROR 42501: permission denied for table w
SELECT count(w) FROM w;
-- ERROR 42501: permission denied for table w
SELECT w IS NULL FROM w;
-- ERROR 42501: permission denied for table w
SELECT row(w.*) FROM w;
-- ERROR 42501: permission denied for table w
SELECT id FROM w x WHERE (SELECT x::text) LIKE '%x%';
-- ERROR 42501: permission denied for table w
SELECT e.value FROM w, jsonb_each(to_jsonb(w)) e;
-- ERROR 42501: permission denied for table w
UPDATE w SET id = 1 RETURNING w;
-- ERROR 42501: permission denied for table w
INSERT INTO w VALUES (2, 'y') RETURNING to_jsonb(w);
-- ERROR 42501: permission denied for table w
INSERT INTO w VALUES (1, 'y') ON CONFLICT (id) DO UPDATE SET secret = excluded.secret;
-- ERROR 42501: permission denied for table w
INSERT INTO w VALUES (1, 'y') ON CONFLICT (id) DO UPDATE SET id = excluded.id;
SELECT secret FROM w excluded;
-- ERROR 42501: permission denied for table w
SELECT excluded FROM w excluded;
-- ERROR 42501: permission denied for table w
SELECT wv FROM wv;
-- ERROR 42501: permission denied for view wv
SELECT id FROM wv;
-- 1
SELECT id FROM w;
-- 1
RESET SESSION AUTHORIZATION;
GRANT CREATE ON SCHEMA public TO reader;
GRANT SELECT ON w TO reader;
SET SESSION AUTHORIZATION reader;
CREATE MATERIALIZED VIEW own AS SELECT * FROM w;
RESET SESSION AUTHORIZATION;
REVOKE SELECT ON w FROM reader;
REFRESH MATERIALIZED VIEW own;
-- ERROR 42501: permission denied for table w
SELECT count(*) FROM own;
-- 1
