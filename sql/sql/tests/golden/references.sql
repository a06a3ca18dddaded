-- # A table that refers to itself
create table e (id int primary key, boss int references e, name text);
-- CREATE TABLE
insert into e values (4, 3, 'd'), (3, null, 'c');
-- INSERT 0 2
insert into e select 5, 6, 'e' union all select 6, 4, 'f' union all select 7, 7, 'g';
-- INSERT 0 3
insert into e values (8, 9, 'h'), (10, 11, 'i');
-- ERROR 23503: insert or update on table "e" violates foreign key constraint "e_boss_fkey"
-- DETAIL: Key (boss)=(9) is not present in table "e".
insert into e values (12, 12, 'self');
-- INSERT 0 1
update e set id = id + 10, boss = boss + 10;
-- UPDATE 6
select * from e;
-- id integer | boss integer | name text
-- 13 | NULL | c
-- 14 | 13 | d
-- 15 | 16 | e
-- 16 | 14 | f
-- 17 | 17 | g
-- 22 | 22 | self
-- SELECT 6
update e set id = id - 1 where id > 13;
-- ERROR 23505: duplicate key value violates unique constraint "e_pkey"
-- DETAIL: Key (id)=(13) already exists.
update e set id = id - 10, boss = boss - 10 where id <> 14;
-- ERROR 23503: update or delete on table "e" violates foreign key constraint "e_boss_fkey" on table "e"
-- DETAIL: Key (id)=(13) is still referenced from table "e".
delete from e where id = 13;
-- ERROR 23503: update or delete on table "e" violates foreign key constraint "e_boss_fkey" on table "e"
-- DETAIL: Key (id)=(13) is still referenced from table "e".
delete from e where id = 17;
-- DELETE 1
delete from e where id in (13, 14);
-- ERROR 23503: update or delete on table "e" violates foreign key constraint "e_boss_fkey" on table "e"
-- DETAIL: Key (id)=(14) is still referenced from table "e".
delete from e where id = 22 returning name;
-- name text
-- self
-- DELETE 1
delete from e;
-- DELETE 4
select count(*) from e;
-- count bigint
-- 0
-- SELECT 1

-- # Rows that are left out, or come to one that is there
insert into e values (1, null, 'a'), (2, 1, 'b');
-- INSERT 0 2
insert into e values (2, 99, 'x'), (3, 4, 'c'), (4, 2, 'd') on conflict do nothing;
-- INSERT 0 2
insert into e values (2, 99, 'x'), (5, 6, 'c'), (6, 77, 'd') on conflict do nothing;
-- ERROR 23503: insert or update on table "e" violates foreign key constraint "e_boss_fkey"
-- DETAIL: Key (boss)=(77) is not present in table "e".
insert into e values (1, null, 'x'), (5, null, 'y') on conflict (id) do update set boss = 5;
-- INSERT 0 2
insert into e values (1, null, 'x'), (6, null, 'y') on conflict (id) do update set boss = 7;
-- ERROR 23503: insert or update on table "e" violates foreign key constraint "e_boss_fkey"
-- DETAIL: Key (boss)=(7) is not present in table "e".
select * from e;
-- id integer | boss integer | name text
-- 1 | 5 | a
-- 2 | 1 | b
-- 3 | 4 | c
-- 4 | 2 | d
-- 5 | NULL | y
-- SELECT 5
insert into e (id, boss) values (20, 21), (21, 20) returning id, boss;
-- id integer | boss integer
-- 20 | 21
-- 21 | 20
-- INSERT 0 2
delete from e where boss is not null and id >= 20 returning id;
-- id integer
-- 20
-- 21
-- DELETE 2

-- # A parent's key that another row takes
create table p (id int primary key);
-- CREATE TABLE
create table c (id int primary key, p int references p);
-- CREATE TABLE
create table r (id int primary key, p int references p on delete restrict on update restrict);
-- CREATE TABLE
insert into p values (2), (3), (4);
-- INSERT 0 3
insert into c values (1, 2), (2, 3);
-- INSERT 0 2
update p set id = id - 1 where id in (2, 3);
-- ERROR 23503: update or delete on table "p" violates foreign key constraint "c_p_fkey" on table "c"
-- DETAIL: Key (id)=(3) is still referenced from table "c".
update p set id = id - 1;
-- UPDATE 3
select * from p;
-- id integer
-- 1
-- 2
-- 3
-- SELECT 3
update c set p = 3 where p = 1;
-- UPDATE 0
insert into r values (1, 3);
-- INSERT 0 1
update p set id = id - 1;
-- ERROR 23503: update or delete on table "p" violates foreign key constraint "c_p_fkey" on table "c"
-- DETAIL: Key (id)=(3) is still referenced from table "c".
insert into p values (5);
-- INSERT 0 1
delete from r;
-- DELETE 1
update c set p = 5;
-- UPDATE 2
insert into r values (1, 5);
-- INSERT 0 1
update p set id = id + 1 where id = 5;
-- ERROR 23503: update or delete on table "p" violates foreign key constraint "c_p_fkey" on table "c"
-- DETAIL: Key (id)=(5) is still referenced from table "c".
delete from p where id = 5;
-- ERROR 23503: update or delete on table "p" violates foreign key constraint "c_p_fkey" on table "c"
-- DETAIL: Key (id)=(5) is still referenced from table "c".
delete from p where id = 1;
-- DELETE 1

-- # The diamond: what goes by one way is in the way of another
create table top (id int primary key);
-- CREATE TABLE
create table a (id int primary key, t int references top on delete cascade);
-- CREATE TABLE
create table b (id int primary key, t int references top on delete cascade, a int references a);
-- CREATE TABLE
create table z (id int primary key, b int references b on delete cascade, a int references a);
-- CREATE TABLE
insert into top values (1), (2);
-- INSERT 0 2
insert into a values (10, 1), (20, 2);
-- INSERT 0 2
insert into b values (100, 1, 10), (200, 2, 10);
-- INSERT 0 2
insert into z values (1000, 100, 10);
-- INSERT 0 1
delete from top where id = 1;
-- ERROR 23503: update or delete on table "a" violates foreign key constraint "b_a_fkey" on table "b"
-- DETAIL: Key (id)=(10) is still referenced from table "b".
update b set a = 20 where id = 200;
-- UPDATE 1
delete from top where id = 1;
-- DELETE 1
select * from a;
-- id integer | t integer
-- 20 | 2
-- SELECT 1
select * from b;
-- id integer | t integer | a integer
-- 200 | 2 | 20
-- SELECT 1
select count(*) from z;
-- count bigint
-- 0
-- SELECT 1
delete from top;
-- DELETE 1
select count(*) from b;
-- count bigint
-- 0
-- SELECT 1

-- # RESTRICT
create table top2 (id int primary key);
-- CREATE TABLE
create table a2 (id int primary key, t int references top2 on delete cascade);
-- CREATE TABLE
create table b2 (id int primary key, t int references top2 on delete cascade, a int references a2 on delete restrict);
-- CREATE TABLE
insert into top2 values (1);
-- INSERT 0 1
insert into a2 values (1, 1);
-- INSERT 0 1
insert into b2 values (1, 1, 1);
-- INSERT 0 1
delete from top2;
-- DELETE 1
create table s (id int primary key, boss int references s on delete restrict);
-- CREATE TABLE
insert into s values (1, 2), (2, 1);
-- INSERT 0 2
insert into s values (3, 3);
-- INSERT 0 1
delete from s where id < 3;
-- DELETE 2
update s set id = id + 10, boss = boss + 10;
-- UPDATE 1
create table k (id int primary key, n int references k on update restrict);
-- CREATE TABLE
insert into k values (1, 2), (2, 3), (3, null);
-- INSERT 0 3
update k set id = id - 1;
-- ERROR 23503: update or delete on table "k" violates foreign key constraint "k_n_fkey" on table "k"
-- DETAIL: Key (id)=(2) is still referenced from table "k".
update k set id = id - 1, n = n - 1;
-- ERROR 23503: update or delete on table "k" violates foreign key constraint "k_n_fkey" on table "k"
-- DETAIL: Key (id)=(1) is still referenced from table "k".
update k set n = null where n = 2;
-- UPDATE 1
select * from k;
-- id integer | n integer
-- 1 | NULL
-- 2 | 3
-- 3 | NULL
-- SELECT 3

-- # Parts of one statement
create table pp (id int primary key);
-- CREATE TABLE
create table cc (id int primary key, p int references pp);
-- CREATE TABLE
with x as (insert into cc values (1, 7) returning id) insert into pp select 7 from x;
-- INSERT 0 1
with x as (insert into cc values (2, 8)) insert into pp values (9);
-- ERROR 23503: insert or update on table "cc" violates foreign key constraint "cc_p_fkey"
-- DETAIL: Key (p)=(8) is not present in table "pp".
with x as (delete from pp returning id) delete from cc where p in (select id from x);
-- DELETE 1
select count(*) from pp;
-- count bigint
-- 0
-- SELECT 1
with x as (insert into cc values (1, 7)) select 1;
-- ERROR 23503: insert or update on table "cc" violates foreign key constraint "cc_p_fkey"
-- DETAIL: Key (p)=(7) is not present in table "pp".
insert into pp values (7);
-- INSERT 0 1
with x as (delete from pp) select 1;
-- ?column? integer
-- 1
-- SELECT 1
with x as (insert into cc values (1, 7)) select 1;
-- ERROR 23503: insert or update on table "cc" violates foreign key constraint "cc_p_fkey"
-- DETAIL: Key (p)=(7) is not present in table "pp".
insert into pp values (7);
-- INSERT 0 1

-- # A key that is not the primary one, and a table without one
create table u (code text unique, up text references u (code));
-- CREATE TABLE
insert into u values ('a', 'b'), ('b', 'a'), ('c', 'c');
-- INSERT 0 3
insert into u values ('d', 'e');
-- ERROR 23503: insert or update on table "u" violates foreign key constraint "u_up_fkey"
-- DETAIL: Key (up)=(e) is not present in table "u".
delete from u where code = 'a';
-- ERROR 23503: update or delete on table "u" violates foreign key constraint "u_up_fkey" on table "u"
-- DETAIL: Key (code)=(a) is still referenced from table "u".
delete from u where code = 'c';
-- DELETE 1
update u set code = code || 'x', up = up || 'x';
-- UPDATE 2
select code, up from u;
-- code text | up text
-- ax | bx
-- bx | ax
-- SELECT 2
delete from u;
-- DELETE 2
select count(*) from u;
-- count bigint
-- 0
-- SELECT 1
