-- # What a role owns goes, or goes to another
CREATE ROLE ada LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE eve LOGIN;
CREATE ROLE staff;
GRANT CREATE ON SCHEMA public TO ada, bob, staff;
SET SESSION AUTHORIZATION ada;
CREATE TABLE p (id int PRIMARY KEY, n serial);
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p);
CREATE VIEW v AS SELECT p.id FROM p JOIN c ON c.p = p.id;
CREATE VIEW w AS SELECT id FROM v;
CREATE SEQUENCE q;
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;
GRANT SELECT ON p TO bob WITH GRANT OPTION;
SET SESSION AUTHORIZATION bob;
CREATE TABLE b (id int PRIMARY KEY);
GRANT SELECT ON b TO ada;
GRANT SELECT ON p TO eve;
CREATE VIEW bv AS SELECT id FROM p;
SET SESSION AUTHORIZATION eve;
DROP OWNED BY ada;
-- ERROR 42501: permission denied to drop objects
REASSIGN OWNED BY ada TO eve;
-- ERROR 42501: permission denied to reassign objects
REASSIGN OWNED BY eve TO ada;
-- ERROR 42501: permission denied to reassign objects
DROP OWNED BY nothing;
-- ERROR 42704: role "nothing" does not exist
REASSIGN OWNED BY nothing TO eve;
-- ERROR 42704: role "nothing" does not exist
REASSIGN OWNED BY eve TO nothing;
-- ERROR 42704: role "nothing" does not exist
RESET SESSION AUTHORIZATION;
DROP OWNED BY tally;
-- ERROR 2BP01: cannot drop objects owned by role tally because they are required by the database system
REASSIGN OWNED BY tally TO ada;
-- ERROR 2BP01: cannot reassign ownership of objects owned by role tally because they are required by the database system
DROP ROLE ada;
-- ERROR 2BP01: role "ada" cannot be dropped because some objects depend on it
DROP OWNED BY ada;
-- ERROR 2BP01: cannot drop desired object(s) because other objects depend on them
DROP OWNED BY ada RESTRICT;
-- ERROR 2BP01: cannot drop desired object(s) because other objects depend on them
SELECT relname FROM pg_class WHERE relname IN ('p', 'c', 'v', 'w', 'q', 'b', 'bv', 'p_n_seq') ORDER BY 1;
-- b
-- bv
-- c
-- p
-- p_n_seq
-- q
-- v
-- w
-- # Given to another
GRANT bob TO ada;
SET SESSION AUTHORIZATION ada;
REASSIGN OWNED BY ada TO bob;
REASSIGN OWNED BY bob TO ada;
REASSIGN OWNED BY ada TO bob;
RESET SESSION AUTHORIZATION;
SELECT relname, pg_get_userbyid(relowner), relacl FROM pg_class WHERE relname IN ('p', 'c', 'v', 'w', 'q', 'b', 'bv', 'p_n_seq') ORDER BY 1;
-- b|bob|{bob=arwdDxt/bob}
-- bv|bob|NULL
-- c|bob|NULL
-- p|bob|{bob=ar*wdDxt/bob,eve=r/bob}
-- p_n_seq|bob|NULL
-- q|bob|NULL
-- v|bob|NULL
-- w|bob|NULL
SELECT proname, pg_get_userbyid(proowner), proacl FROM pg_proc WHERE proname = 'f';
-- f|bob|NULL
DROP OWNED BY ada;
SELECT relname, relacl FROM pg_class WHERE relname IN ('b', 'p') ORDER BY 1;
-- b|{bob=arwdDxt/bob}
-- p|{bob=ar*wdDxt/bob,eve=r/bob}
DROP ROLE ada;
-- # Several at once
CREATE SCHEMA es AUTHORIZATION eve;
SET SESSION AUTHORIZATION eve;
CREATE TABLE es.e (id int PRIMARY KEY);
RESET SESSION AUTHORIZATION;
CREATE TABLE es.mine (id int PRIMARY KEY);
DROP OWNED BY eve;
-- ERROR 2BP01: cannot drop desired object(s) because other objects depend on them
SELECT count(*) FROM pg_namespace WHERE nspname = 'es';
-- 1
DROP TABLE es.mine;
DROP OWNED BY eve, bob;
SELECT relname FROM pg_class WHERE relname IN ('p', 'c', 'v', 'w', 'q', 'b', 'bv', 'p_n_seq', 'e') ORDER BY 1;
SELECT count(*) FROM pg_namespace WHERE nspname = 'es';
-- 0
DROP ROLE eve, bob;
-- # With what rests on it
CREATE ROLE ann LOGIN;
GRANT CREATE ON SCHEMA public TO ann;
SET SESSION AUTHORIZATION ann;
CREATE TABLE a (id int PRIMARY KEY);
GRANT SELECT, REFERENCES ON a TO staff;
RESET SESSION AUTHORIZATION;
CREATE TABLE r (id int PRIMARY KEY, a int REFERENCES a);
CREATE VIEW av AS SELECT id FROM a;
DROP OWNED BY ann;
-- ERROR 2BP01: cannot drop table a because other objects depend on it
DROP OWNED BY ann CASCADE;
SELECT relname FROM pg_class WHERE relname IN ('a', 'r', 'av') ORDER BY 1;
-- r
SELECT conname FROM pg_constraint WHERE conrelid = 'r'::regclass AND contype = 'f';
DROP OWNED BY CURRENT_USER;
-- ERROR 2BP01: cannot drop objects owned by role tally because they are required by the database system
DROP ROLE ann;
DROP OWNED BY staff;
DROP ROLE staff;
