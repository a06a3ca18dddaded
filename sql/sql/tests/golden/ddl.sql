create table t (a int, b text);
-- CREATE TABLE
create table t (a int);
-- ERROR 42P07: relation "t" already exists
create table if not exists t (a int);
-- CREATE TABLE
insert into t values (1, 'x'), (2, 'y'), (2, 'z');
-- INSERT 0 3
alter table t add primary key (a);
-- ERROR 23505: could not create unique index "t_pkey"
-- DETAIL: Key (a) is duplicated.
alter table t add column c int default 5;
-- ALTER TABLE
alter table t add column d int not null;
-- ERROR 23502: column "d" of relation "t" contains null values
alter table t add column if not exists c int;
-- ALTER TABLE
select * from t;
-- a integer | b text | c integer
-- 1 | x | 5
-- 2 | y | 5
-- 2 | z | 5
-- SELECT 3
delete from t where b = 'z';
-- DELETE 1
alter table t add primary key (a);
-- ALTER TABLE
select * from t;
-- a integer | b text | c integer
-- 1 | x | 5
-- 2 | y | 5
-- SELECT 2
insert into t values (1, 'again');
-- ERROR 23505: duplicate key value violates unique constraint "t_pkey"
-- DETAIL: Key (a)=(1) already exists.
alter table t add constraint positive check (c > 0);
-- ALTER TABLE
insert into t values (3, 'w', 0);
-- ERROR 23514: new row for relation "t" violates check constraint "positive"
-- DETAIL: Failing row contains (3, w, 0).
alter table t add constraint small check (c < 5);
-- ERROR 23514: check constraint "small" of relation "t" is violated by some row
alter table t add unique (b);
-- ALTER TABLE
insert into t values (3, 'x');
-- ERROR 23505: duplicate key value violates unique constraint "t_b_key"
-- DETAIL: Key (b)=(x) already exists.
create unique index on t (c);
-- ERROR 23505: could not create unique index "t_c_idx"
-- DETAIL: Key (c) is duplicated.
create index on t (c);
-- CREATE INDEX
create index t_c_idx on t (c);
-- ERROR 42P07: relation "t_c_idx" already exists
create index if not exists t_c_idx on t (c);
-- CREATE INDEX
select a from t where c = 5 order by a;
-- a integer
-- 1
-- 2
-- SELECT 2
alter table t alter column b set not null;
-- ALTER TABLE
insert into t (a) values (4);
-- ERROR 23502: null value in column "b" of relation "t" violates not-null constraint
-- DETAIL: Failing row contains (4, null, 5).
alter table t alter column b drop not null;
-- ALTER TABLE
alter table t alter column c set default 8;
-- ALTER TABLE
insert into t (a) values (4);
-- INSERT 0 1
alter table t alter column c drop default;
-- ALTER TABLE
alter table t drop constraint positive;
-- ALTER TABLE
alter table t drop constraint nosuch;
-- ERROR 42704: constraint "nosuch" of relation "t" does not exist
alter table t rename column c to e;
-- ALTER TABLE
alter table t rename to u;
-- ALTER TABLE
select * from u;
-- a integer | b text | e integer
-- 1 | x | 5
-- 2 | y | 5
-- 4 | NULL | 8
-- SELECT 3
alter table u drop column e;
-- ALTER TABLE
select * from u;
-- a integer | b text
-- 1 | x
-- 2 | y
-- 4 | NULL
-- SELECT 3
insert into u values (5, 'five');
-- INSERT 0 1
drop index t_b_key;
-- ERROR 2BP01: cannot drop index t_b_key because constraint t_b_key on table u requires it
-- HINT: You can drop constraint t_b_key on table u instead.
alter table u drop constraint t_b_key;
-- ALTER TABLE
drop index nosuch;
-- ERROR 42704: index "nosuch" does not exist
drop index if exists nosuch;
-- DROP INDEX
create table f (x int references u, y int references nosuch);
-- ERROR 42P01: relation "nosuch" does not exist
create table f (x text references u);
-- ERROR 42804: foreign key constraint cannot be implemented
-- DETAIL: Key columns "x" and "a" are of incompatible types: text and integer.
create table f (x int references u (b));
-- ERROR 42830: there is no unique constraint matching given keys for referenced table "u"
create table f (x int references u, y int default 1 + 2, primary key (x, y));
-- CREATE TABLE
insert into f values (9), (1);
-- ERROR 23503: insert or update on table "f" violates foreign key constraint "f_x_fkey"
-- DETAIL: Key (x)=(9) is not present in table "u".
insert into f values (1), (4);
-- INSERT 0 2
alter table f add constraint ff foreign key (y) references u;
-- ERROR 23503: insert or update on table "f" violates foreign key constraint "ff"
truncate u, f;
-- TRUNCATE TABLE
select count(*) from u;
-- count bigint
-- 0
-- SELECT 1
create table g (a int, b int, constraint k unique (a, b), check (a < b));
-- CREATE TABLE
insert into g values (1, 1);
-- ERROR 23514: new row for relation "g" violates check constraint "g_check"
-- DETAIL: Failing row contains (1, 1).
insert into g values (1, 2), (1, null), (1, null);
-- INSERT 0 3
insert into g values (1, 2);
-- ERROR 23505: duplicate key value violates unique constraint "k"
-- DETAIL: Key (a, b)=(1, 2) already exists.
drop table g, nosuch;
-- ERROR 42P01: table "nosuch" does not exist
drop table if exists g, nosuch;
-- DROP TABLE
create table s (id text generated always as identity);
-- ERROR 22023: identity column type must be smallint, integer, or bigint
create table s (id serial default 4);
-- ERROR 42601: multiple default values specified for column "id" of table "s"
create table s (a int, a int);
-- ERROR 42701: column "a" specified more than once
create table s (a int primary key, primary key (a));
-- ERROR 42P16: multiple primary keys for table "s" are not allowed
create table s (a nosuch);
-- ERROR 42704: type "nosuch" does not exist
create table s (a money);
-- ERROR 0A000: type money is not supported
create domain s as int;
-- CREATE DOMAIN
create type s as (a int);
-- ERROR 0A000: CREATE TYPE is not supported
create table s (a int default nosuch);
-- ERROR 42703: column "nosuch" does not exist
create table s (a timestamptz default current_timestamp, b date default current_date);
-- CREATE TABLE
insert into s default values;
-- INSERT 0 1
select * from s;
-- a timestamp with time zone | b date
-- 2026-03-01 12:00:00+00 | 2026-03-01
-- SELECT 1
create view v as select 1;
-- CREATE VIEW
create temp table x (a int);
-- ERROR 0A000: a temporary table that the ledger makes is not supported
-- HINT: Sessions make their own, by a statement that a client sends.
create table laid_out (a int primary key) with (layout = diagonal);
-- ERROR 22023: invalid value for parameter "layout": diagonal
-- HINT: Valid values are "row" and "column".
create table laid_out (a int primary key) with (layout);
-- ERROR 42601: syntax error at or near ")": expected =
create table laid_out (a int primary key) with (layout = row, layout = column);
-- ERROR 22023: parameter "layout" specified more than once
create table laid_out (a int primary key) with (fillfactor = 70, layout = Column);
-- CREATE TABLE
insert into laid_out values (1), (2);
-- INSERT 0 2
create view of_laid_out as select a from laid_out;
-- CREATE VIEW
alter table laid_out set (layout = diagonal);
-- ERROR 22023: invalid value for parameter "layout": diagonal
-- HINT: Valid values are "row" and "column".
alter table laid_out set (layout = 'row', fillfactor = 70);
-- ALTER TABLE
alter table laid_out set (layout = column);
-- ALTER TABLE
alter table nosuch set (layout = column);
-- ERROR 42P01: relation "nosuch" does not exist
select * from of_laid_out;
-- a integer
-- 1
-- 2
-- SELECT 2
drop view of_laid_out;
-- DROP VIEW
drop table laid_out;
-- DROP TABLE
create table laid_out (a int primary key) with (layout = 'row');
-- CREATE TABLE
drop table laid_out;
-- DROP TABLE
create sequence q increment 0;
-- ERROR 22023: INCREMENT must not be zero
grant all on s to public;
-- GRANT
create function add(a int, b int) returns int language sql as $$ select a + b $$;
-- CREATE FUNCTION
select add(1, 2);
-- add integer
-- 3
-- SELECT
select add(1, 2) as three;
-- three integer
-- 3
-- SELECT
select add(1);
-- ERROR 42883: function add(integer) does not exist
-- HINT: There is add(integer, integer).
select add('x', 2);
-- ERROR 22P02: invalid input syntax for type integer: "x"
select add(1, 2) + 1;
-- ERROR 0A000: calling the stored function add() inside a larger statement is not supported
-- HINT: Call it alone: SELECT add(…).
create function add(a int, b int) returns int language sql as $$ select a * b $$;
-- ERROR 42723: routine "add" already exists
-- HINT: A name stands for one routine here. Use CREATE OR REPLACE, or another name.
create or replace function add(a int, b int default 10) returns int language sql as $$ select a * b $$;
-- CREATE FUNCTION
select add(4);
-- add integer
-- 40
-- SELECT
create procedure put(n int, t text) language sql as $$ insert into u values (n, t); update u set b = b || '!' where a = n $$;
-- CREATE PROCEDURE
call put(1, 'one');
-- CALL
call put(1, 'one');
-- ERROR 23505: duplicate key value violates unique constraint "t_pkey"
-- DETAIL: Key (a)=(1) already exists.
select * from u;
-- a integer | b text
-- 1 | one!
-- SELECT 1
select put(1, 'x');
-- ERROR 42809: put(…) is a procedure
-- HINT: To call a procedure, use CALL.
call add(1, 2);
-- ERROR 42809: add(…) is not a procedure
-- HINT: To call a function, use SELECT.
create function all_u() returns table (k int, v text) language sql as $$ select a, b from u order by a $$;
-- CREATE FUNCTION
call put(2, 'two');
-- CALL
select * from all_u();
-- k integer | v text
-- 1 | one!
-- 2 | two!
-- SELECT
create function bad() returns int language sql as $$ select 'x' $$;
-- ERROR 42P13: return type mismatch in function declared to return integer
create function bad() returns int language c as 'x';
-- ERROR 0A000: language "c" is not supported
-- HINT: Use LANGUAGE plpgsql or LANGUAGE sql.
create function r() returns timestamptz language sql as $$ select clock_timestamp() $$;
-- CREATE FUNCTION
drop table u cascade;
-- DROP TABLE
call put(3, 'three');
-- ERROR 42P01: relation "u" does not exist
drop procedure put;
-- DROP PROCEDURE
drop function if exists put;
-- DROP FUNCTION
drop function all_u();
-- DROP FUNCTION
call put(3, 'three');
-- ERROR 42883: procedure put with 2 arguments does not exist
-- HINT: No procedure matches the given name and argument types. You might need to add explicit type casts.
create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84)) with (fillfactor=100);
-- CREATE TABLE
insert into pgbench_accounts values (1, 1, 0, 'f');
-- INSERT 0 1
alter table pgbench_accounts add primary key (aid);
-- ALTER TABLE
explain update pgbench_accounts set abalance = abalance + 5 where aid = 1;
-- QUERY PLAN text
-- explain update pgbench_accounts set abalance = abalance + 5 where aid = 1
-- 
-- steps
--   1  update   pgbench_accounts[1]: abalance := abalance + 5 → found r0
--   2  count    case when r0 then 1 else 0 end rows                       ← 1
-- 
-- keys        complete: all follow from the arguments
-- commands    1  pgbench_accounts: abalance add; commutes with itself
-- footprint   pgbench_accounts: changes abalance by command
-- fragments   1  steps 1, 2  on pgbench_accounts[1]
-- EXPLAIN
