-- # Primary keys
create table t (id int primary key, a int not null default 7, b text unique check (b <> ''), c numeric(8,2));
-- CREATE TABLE
insert into t (id) values (1);
-- INSERT 0 1
insert into t values (2, 3, 'two', 2.5), (3, 4, 'three', 3.456);
-- INSERT 0 2
insert into t (id, a) values (2, 0);
-- ERROR 23505: duplicate key value violates unique constraint "t_pkey"
-- DETAIL: Key (id)=(2) already exists.
insert into t (id, a) values (9, null);
-- ERROR 23502: null value in column "a" of relation "t" violates not-null constraint
-- DETAIL: Failing row contains (9, null, null, null).
insert into t (id, b) values (9, 'two');
-- ERROR 23505: duplicate key value violates unique constraint "t_b_key"
-- DETAIL: Key (b)=(two) already exists.
insert into t (id, b) values (9, '');
-- ERROR 23514: new row for relation "t" violates check constraint "t_b_check"
-- DETAIL: Failing row contains (9, 7, , null).
insert into t values (4, 5, 'x', 1, 9);
-- ERROR 42601: INSERT has more expressions than target columns
insert into t values ('x');
-- ERROR 22P02: invalid input syntax for type integer: "x"
select * from t;
-- id integer | a integer | b text | c numeric(8,2)
-- 1 | 7 | NULL | NULL
-- 2 | 3 | two | 2.50
-- 3 | 4 | three | 3.46
-- SELECT 3
select id, c from t where id = 2;
-- id integer | c numeric(8,2)
-- 2 | 2.50
-- SELECT 1
select b from t where b = 'three';
-- b text
-- three
-- SELECT 1
update t set a = a + 1 where id = 1;
-- UPDATE 1
update t set a = a + 1, c = c * 2 where id >= 2 returning id, a, c;
-- id integer | a integer | c numeric(8,2)
-- 2 | 4 | 5.00
-- 3 | 5 | 6.92
-- UPDATE 2
update t set a = null where id = 1;
-- ERROR 23502: null value in column "a" of relation "t" violates not-null constraint
update t set b = '' where id = 1;
-- ERROR 23514: new row for relation "t" violates check constraint "t_b_check"
-- DETAIL: Failing row contains (1, 8, , null).
update t set b = 'two' where id = 3;
-- ERROR 23505: duplicate key value violates unique constraint "t_b_key"
-- DETAIL: Key (b)=(two) already exists.
update t set b = 'two' where id = 2;
-- UPDATE 1
update t set id = 10 where id = 3;
-- UPDATE 1
update t set id = 2 where id = 10;
-- ERROR 23505: duplicate key value violates unique constraint "t_pkey"
-- DETAIL: Key (id)=(2) already exists.
update t set id = id + 100;
-- UPDATE 3
select id, a, b, c from t order by id desc;
-- id integer | a integer | b text | c numeric(8,2)
-- 110 | 5 | three | 6.92
-- 102 | 4 | two | 5.00
-- 101 | 8 | NULL | NULL
-- SELECT 3
delete from t where id = 101;
-- DELETE 1
delete from t where id = 101;
-- DELETE 0
delete from t where a > 4 returning *;
-- id integer | a integer | b text | c numeric(8,2)
-- 110 | 5 | three | 6.92
-- DELETE 1
select count(*) from t;
-- count bigint
-- 1
-- SELECT 1

-- # On conflict
insert into t (id, a) values (102, 1) on conflict do nothing;
-- INSERT 0 0
insert into t (id, a) values (103, 1) on conflict (id) do update set a = t.a + excluded.a;
-- INSERT 0 1
insert into t (id, a) values (103, 1) on conflict (id) do update set a = t.a + excluded.a returning id, a;
-- id integer | a integer
-- 103 | 2
-- INSERT 0 1
insert into t (id, a) values (103, 1), (104, 1) on conflict (id) do update set a = 5 where t.a > 100 returning id;
-- id integer
-- 104
-- INSERT 0 1
insert into t (id, a, b) values (200, 1, 'q') on conflict (b) do update set a = excluded.a;
-- INSERT 0 1
insert into t (id, a, b) values (201, 9, 'q') on conflict (b) do update set a = excluded.a returning id, a, b;
-- id integer | a integer | b text
-- 200 | 9 | q
-- INSERT 0 1
insert into t (id) values (1) on conflict (a) do nothing;
-- ERROR 42P10: there is no unique or exclusion constraint matching the ON CONFLICT specification
select * from t;
-- id integer | a integer | b text | c numeric(8,2)
-- 102 | 4 | two | 5.00
-- 103 | 2 | NULL | NULL
-- 104 | 1 | NULL | NULL
-- 200 | 9 | q | NULL
-- SELECT 4

-- # Foreign keys
create table parent (id int primary key, code text unique);
-- CREATE TABLE
create table child (id int primary key, pid int references parent, code text references parent (code) on delete cascade);
-- CREATE TABLE
insert into parent values (1, 'a'), (2, 'b'), (3, 'c');
-- INSERT 0 3
insert into child values (1, 1, 'b');
-- INSERT 0 1
insert into child values (2, 9, null);
-- ERROR 23503: insert or update on table "child" violates foreign key constraint "child_pid_fkey"
-- DETAIL: Key (pid)=(9) is not present in table "parent".
insert into child values (2, null, 'z');
-- ERROR 23503: insert or update on table "child" violates foreign key constraint "child_code_fkey"
-- DETAIL: Key (code)=(z) is not present in table "parent".
insert into child values (2, null, null);
-- INSERT 0 1
update child set pid = 8 where id = 2;
-- ERROR 23503: insert or update on table "child" violates foreign key constraint "child_pid_fkey"
-- DETAIL: Key (pid)=(8) is not present in table "parent".
update child set pid = 2 where id = 2;
-- UPDATE 1
delete from parent where id = 1;
-- ERROR 23503: update or delete on table "parent" violates foreign key constraint "child_pid_fkey" on table "child"
-- DETAIL: Key (id)=(1) is still referenced from table "child".
update parent set id = 7 where id = 1;
-- ERROR 23503: update or delete on table "parent" violates foreign key constraint "child_pid_fkey" on table "child"
-- DETAIL: Key (id)=(1) is still referenced from table "child".
update parent set id = 7 where id = 3;
-- UPDATE 1
delete from parent where code = 'b';
-- ERROR 23503: update or delete on table "parent" violates foreign key constraint "child_pid_fkey" on table "child"
-- DETAIL: Key (id)=(2) is still referenced from table "child".
delete from child where id = 2;
-- DELETE 1
delete from parent where code = 'b';
-- DELETE 1
select * from parent;
-- id integer | code text
-- 1 | a
-- 7 | c
-- SELECT 2
select * from child;
-- id integer | pid integer | code text
-- SELECT 0
truncate parent;
-- ERROR 0A000: cannot truncate a table referenced in a foreign key constraint
-- DETAIL: Table "child" references "parent".
-- HINT: Truncate table "child" at the same time, or use TRUNCATE ... CASCADE.
drop table parent;
-- ERROR 2BP01: cannot drop table parent because other objects depend on it
-- DETAIL: constraint child_pid_fkey on table child depends on table parent
-- HINT: Use DROP ... CASCADE to drop the dependent objects too.
drop table parent cascade;
-- DROP TABLE
insert into child values (5, 5, 'e');
-- INSERT 0 1
create table tree (id int primary key, up int references tree);
-- CREATE TABLE
insert into tree values (1, 1), (2, 1), (3, 9);
-- ERROR 23503: insert or update on table "tree" violates foreign key constraint "tree_up_fkey"
-- DETAIL: Key (up)=(9) is not present in table "tree".
insert into tree values (1, 1), (2, 1);
-- INSERT 0 2
delete from tree where id = 1;
-- ERROR 23503: update or delete on table "tree" violates foreign key constraint "tree_up_fkey" on table "tree"
-- DETAIL: Key (id)=(1) is still referenced from table "tree".
delete from tree where id = 2;
-- DELETE 1
delete from tree where id = 1;
-- DELETE 1

-- # No primary key
create table log (at timestamp default now(), what varchar(5));
-- CREATE TABLE
insert into log (what) values ('one'), ('two'), ('two');
-- INSERT 0 3
insert into log (what) values ('toolong');
-- ERROR 22001: value too long for type character varying(5)
select * from log;
-- at timestamp without time zone | what character varying(5)
-- 2026-03-01 12:00:00 | one
-- 2026-03-01 12:00:00 | two
-- 2026-03-01 12:00:00 | two
-- SELECT 3
update log set what = 'x' where what = 'two';
-- UPDATE 2
delete from log where what = 'one';
-- DELETE 1
select what, at from log;
-- what character varying(5) | at timestamp without time zone
-- x | 2026-03-01 12:00:00
-- x | 2026-03-01 12:00:00
-- SELECT 2
