-- # Default privileges: what new objects have
CREATE ROLE ada LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE eve LOGIN;
CREATE ROLE staff;
GRANT staff TO ada;
CREATE SCHEMA s;
GRANT CREATE, USAGE ON SCHEMA public TO ada;
GRANT CREATE, USAGE ON SCHEMA s TO ada;
GRANT USAGE ON SCHEMA s TO bob;
SET SESSION AUTHORIZATION ada;
CREATE TABLE before (id int PRIMARY KEY);
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO bob;
ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT INSERT, UPDATE ON TABLES TO bob WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO bob;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON ROUTINES TO bob;
SELECT pg_get_userbyid(defaclrole), defaclobjtype, coalesce(n.nspname, '-'), defaclacl FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace ORDER BY 1, 2, 3;
-- ada|S|-|{ada=rwU/ada,bob=U/ada}
-- ada|f|-|{ada=X/ada,bob=X/ada}
-- ada|r|-|{ada=arwdDxt/ada,bob=r/ada}
-- ada|r|s|{bob=a*w*/ada}
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE s.t (id int PRIMARY KEY, v int);
CREATE VIEW v AS SELECT id FROM t;
CREATE SEQUENCE q;
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;
SELECT relname, relacl FROM pg_class WHERE relname IN ('before', 't', 'v', 'q') AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 's')) ORDER BY relname, relnamespace;
-- before|NULL
-- q|{ada=rwU/ada,bob=U/ada}
-- t|{ada=arwdDxt/ada,bob=r/ada}
-- t|{ada=arwdDxt/ada,bob=a*rw*/ada}
-- v|{ada=arwdDxt/ada,bob=r/ada}
SELECT proacl FROM pg_proc WHERE proname = 'f';
-- {ada=X/ada,bob=X/ada}
SET SESSION AUTHORIZATION bob;
SELECT count(*) FROM before;
-- ERROR 42501: permission denied for table before
SELECT count(*) FROM t;
-- 0
SELECT count(*) FROM v;
-- 0
INSERT INTO t VALUES (1, 1);
-- ERROR 42501: permission denied for table t
INSERT INTO s.t VALUES (1, 1);
SELECT count(*) FROM s.t;
-- 1
SELECT nextval('q');
-- 1
SELECT f();
-- 1
SET SESSION AUTHORIZATION eve;
SELECT count(*) FROM t;
-- ERROR 42501: permission denied for table t
SELECT f();
-- ERROR 42501: permission denied for function f
-- # Another's are a member's to change
ALTER DEFAULT PRIVILEGES FOR ROLE ada GRANT SELECT ON TABLES TO eve;
-- ERROR 42501: must be member of role "ada"
SET SESSION AUTHORIZATION ada;
ALTER DEFAULT PRIVILEGES FOR ROLE staff GRANT SELECT ON TABLES TO eve;
ALTER DEFAULT PRIVILEGES FOR ROLE nothing GRANT SELECT ON TABLES TO eve;
-- ERROR 42704: role "nothing" does not exist
ALTER DEFAULT PRIVILEGES IN SCHEMA nothing GRANT SELECT ON TABLES TO eve;
-- ERROR 3F000: schema "nothing" does not exist
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO nothing;
-- ERROR 42704: role "nothing" does not exist
ALTER DEFAULT PRIVILEGES GRANT USAGE ON TABLES TO eve;
-- ERROR 0LP01: invalid privilege type USAGE for relation
ALTER DEFAULT PRIVILEGES GRANT SELECT ON FUNCTIONS TO eve;
-- ERROR 0LP01: invalid privilege type SELECT for function
ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT USAGE ON SCHEMAS TO eve;
-- ERROR 0LP01: cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS
ALTER DEFAULT PRIVILEGES GRANT SELECT (id) ON TABLES TO eve;
-- ERROR 0LP01: default privileges cannot be set for columns
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC WITH GRANT OPTION;
-- ERROR 0LP01: grant options can only be granted to roles
RESET SESSION AUTHORIZATION;
ALTER DEFAULT PRIVILEGES FOR ROLE ada, bob IN SCHEMA s, public GRANT SELECT ON TABLES TO eve;
ALTER DEFAULT PRIVILEGES FOR USER bob GRANT ALL ON SCHEMAS TO eve;
ALTER DEFAULT PRIVILEGES FOR ROLE staff GRANT ALL PRIVILEGES ON TABLES TO PUBLIC;
SELECT pg_get_userbyid(defaclrole), defaclobjtype, coalesce(n.nspname, '-'), defaclacl FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace ORDER BY 1, 2, 3;
-- ada|S|-|{ada=rwU/ada,bob=U/ada}
-- ada|f|-|{ada=X/ada,bob=X/ada}
-- ada|r|-|{ada=arwdDxt/ada,bob=r/ada}
-- ada|r|public|{eve=r/ada}
-- ada|r|s|{bob=a*w*/ada,eve=r/ada}
-- bob|n|-|{bob=UC/bob,eve=UC/bob}
-- bob|r|public|{eve=r/bob}
-- bob|r|s|{eve=r/bob}
-- staff|r|-|{=arwdDxt/staff,eve=r/staff,staff=arwdDxt/staff}
SET SESSION AUTHORIZATION ada;
CREATE TABLE s.u (id int PRIMARY KEY);
SET ROLE staff;
CREATE TABLE s.w (id int PRIMARY KEY);
-- ERROR 42501: permission denied for schema s
RESET ROLE;
SELECT relname, relacl FROM pg_class WHERE relname IN ('u', 'w') ORDER BY 1;
-- u|{ada=arwdDxt/ada,bob=a*rw*/ada,eve=r/ada}
RESET SESSION AUTHORIZATION;
GRANT CREATE, USAGE ON SCHEMA s TO staff;
SET SESSION AUTHORIZATION ada;
SET ROLE staff;
CREATE TABLE s.w (id int PRIMARY KEY);
RESET ROLE;
SELECT relname, relacl FROM pg_class WHERE relname IN ('u', 'w') ORDER BY 1;
-- u|{ada=arwdDxt/ada,bob=a*rw*/ada,eve=r/ada}
-- w|{=arwdDxt/staff,eve=r/staff,staff=arwdDxt/staff}
-- # Taken back
ALTER DEFAULT PRIVILEGES IN SCHEMA s REVOKE GRANT OPTION FOR UPDATE ON TABLES FROM bob;
SELECT pg_get_userbyid(defaclrole), defaclobjtype, coalesce(n.nspname, '-'), defaclacl FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace WHERE defaclobjtype = 'r' ORDER BY 1, 2, 3;
-- ada|r|-|{ada=arwdDxt/ada,bob=r/ada}
-- ada|r|public|{eve=r/ada}
-- ada|r|s|{bob=a*w/ada,eve=r/ada}
-- bob|r|public|{eve=r/bob}
-- bob|r|s|{eve=r/bob}
-- staff|r|-|{=arwdDxt/staff,eve=r/staff,staff=arwdDxt/staff}
ALTER DEFAULT PRIVILEGES IN SCHEMA s REVOKE ALL ON TABLES FROM bob, eve;
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM bob CASCADE;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON SEQUENCES FROM bob;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM bob;
SELECT pg_get_userbyid(defaclrole), defaclobjtype, coalesce(n.nspname, '-'), defaclacl FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace WHERE defaclrole <> 0 AND pg_get_userbyid(defaclrole) = 'ada' ORDER BY 1, 2, 3;
-- ada|r|public|{eve=r/ada}
CREATE TABLE x (id int PRIMARY KEY);
SELECT relacl FROM pg_class WHERE relname = 'x';
-- {ada=arwdDxt/ada,eve=r/ada}
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM ada;
CREATE TABLE y (id int PRIMARY KEY);
SELECT relacl FROM pg_class WHERE relname = 'y';
-- {eve=r/ada}
SELECT count(*) FROM y;
-- ERROR 42501: permission denied for table y
SELECT has_table_privilege('y', 'SELECT');
-- f
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO ada;
SELECT count(*) FROM pg_default_acl WHERE pg_get_userbyid(defaclrole) = 'ada' AND defaclnamespace = 0;
-- 0
-- # What keeps a role and a schema
RESET SESSION AUTHORIZATION;
CREATE ROLE kept;
CREATE ROLE keeper;
ALTER DEFAULT PRIVILEGES FOR ROLE keeper GRANT SELECT ON TABLES TO kept;
DROP ROLE kept;
-- ERROR 2BP01: role "kept" cannot be dropped because some objects depend on it
DROP ROLE keeper;
-- ERROR 2BP01: role "keeper" cannot be dropped because some objects depend on it
DROP OWNED BY kept;
DROP ROLE kept;
DROP ROLE keeper;
CREATE SCHEMA gone;
ALTER DEFAULT PRIVILEGES IN SCHEMA gone GRANT SELECT ON TABLES TO bob;
DROP SCHEMA gone;
DROP SCHEMA gone CASCADE;
-- ERROR 3F000: schema "gone" does not exist
SELECT count(*) FROM pg_default_acl WHERE pg_get_userbyid(defaclrole) = 'tally';
-- 0
