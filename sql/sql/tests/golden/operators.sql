-- # Which operators bind more tightly
create table num (id int primary key, i int, j int, b boolean);
-- CREATE TABLE
insert into num values (1, 2, 3, true), (2, -4, 1, false);
-- INSERT 0 2
select - i ^ 2, -2 ^ 2, - (i ^ 2), 2 ^ - 1 from num order by id;
-- ?column? double precision | ?column? double precision | ?column? double precision | ?column? double precision
-- 4 | 4 | -4 | 0.5
-- 16 | 4 | -16 | 0.5
-- SELECT 2
select ~ i - j, (~ i) - j, ~ i & j, @ i - j, @ - i from num order by id;
-- ?column? integer | ?column? integer | ?column? integer | ?column? integer | ?column? integer
-- 0 | -6 | 1 | 1 | 2
-- 4 | 2 | 1 | 5 | 4
-- SELECT 2
select - i * j, - i - - j, + i ^ 2 from num order by id;
-- ?column? integer | ?column? integer | ?column? double precision
-- -6 | 1 | 4
-- 4 | 5 | 16
-- SELECT 2
select i < j = b from num;
-- ERROR 42601: syntax error at or near "=": expected an expression that ends here
select i = j = b from num;
-- ERROR 42601: syntax error at or near "=": expected an expression that ends here
select (i < j) = b from num order by id;
-- ?column? boolean
-- t
-- f
-- SELECT 2
select not exists (select 1 from num where false) is null;
-- ?column? boolean
-- t
-- SELECT 1
select not exists (select 1 from num where false) > true;
-- ?column? boolean
-- t
-- SELECT 1
delete from num where not exists (select 1 from num where false) is null;
-- DELETE 2
select count(*) from num;
-- count bigint
-- 0
-- SELECT 1
insert into num values (1, 2, 3, true), (2, -4, 1, false);
-- INSERT 0 2
create view signs as select id, - i ^ 2 as s, ~ i - j as t, - (i ^ 2) as u from num;
-- CREATE VIEW
select * from signs order by id;
-- id integer | s double precision | t integer | u double precision
-- 1 | 4 | 0 | -4
-- 2 | 16 | 4 | -16
-- SELECT 2

-- # Tests in other words
select i isnull, i notnull, (null::int) isnull from num where id = 1;
-- ?column? boolean | ?column? boolean | ?column? boolean
-- f | t | t
-- SELECT 1
select i from num where i + 1 isnull = false order by id;
-- i integer
-- 2
-- -4
-- SELECT 2
select id from num where i between symmetric 3 and 1;
-- id integer
-- 1
-- SELECT 1
select id from num where i not between symmetric 3 and 1;
-- id integer
-- 2
-- SELECT 1
select id from num where i between asymmetric 3 and 1;
-- id integer
-- SELECT 0
select 2 between symmetric null and 1, 5 between symmetric null and 1, 1 between symmetric 3 and null;
-- ?column? boolean | ?column? boolean | ?column? boolean
-- NULL | NULL | NULL
-- SELECT 1
do $$ declare a int; begin if a isnull and not 1 notnull = false and 2 between symmetric 3 and 1 then insert into num values (9, - 2 ^ 2, 0, true); end if; end $$;
-- DO
select i from num where id = 9;
-- i integer
-- 4
-- SELECT 1
delete from num where id = 9;
-- DELETE 1
create view between_them as select id from num where i between symmetric j and 1;
-- CREATE VIEW
select * from between_them;
-- id integer
-- 1
-- SELECT 1

-- # What INSERT is given
create table two (id int primary key, v int default 7);
-- CREATE TABLE
insert into two(id, v) values (11);
-- ERROR 42601: INSERT has more target columns than expressions
insert into two(id) values (11, 12);
-- ERROR 42601: INSERT has more expressions than target columns
insert into two(id, v) values (1, 2), (3);
-- ERROR 42601: VALUES lists must all be the same length
insert into two(id, v) select 1;
-- ERROR 42601: INSERT has more target columns than expressions
insert into two values (11);
-- INSERT 0 1
insert into two(v, id) values (1);
-- ERROR 42601: INSERT has more target columns than expressions
merge into two using (values (1)) s(id) on false when not matched then insert (id, v) values (5);
-- ERROR 42601: INSERT has more target columns than expressions
select * from two;
-- id integer | v integer
-- 11 | 7
-- SELECT 1

-- # Functions
select to_hex(-3), to_hex(-3::bigint), to_hex(255), to_hex(2147483647);
-- to_hex text | to_hex text | to_hex text | to_hex text
-- fffffffd | fffffffffffffffd | ff | 7fffffff
-- SELECT 1
create table names (v varchar(5), c char(3));
-- CREATE TABLE
insert into names values ('b', 'x'), ('a', 'y');
-- INSERT 0 2
select min(v), max(v) from names;
-- min text | max text
-- a | b
-- SELECT 1
select min(c) from names;
-- min character(3)
-- x  
-- SELECT 1
select count(distinct *) from names;
-- ERROR 42601: syntax error at or near "*"
-- HINT: Name the columns that are to be distinct.
select count(distinct v) from names;
-- count bigint
-- 2
-- SELECT 1
select string_agg(v, ',') filter (where v > 'a') from names;
-- string_agg text
-- b
-- SELECT 1
select bit_or(1) filter (where true) from names;
-- bit_or integer
-- 1
-- SELECT 1
select lower('A') filter (where true);
-- ERROR 42809: FILTER specified, but lower is not an aggregate function

-- # Joins in parentheses
create table l (id int primary key, v int);
-- CREATE TABLE
create table r (id int primary key, v int);
-- CREATE TABLE
insert into l values (1, 10), (2, 20), (3, 30);
-- INSERT 0 3
insert into r values (1, 100), (3, 300);
-- INSERT 0 2
select l.id, r.v from (l left join r on l.id = r.id) order by l.id;
-- id integer | v integer
-- 1 | 100
-- 2 | NULL
-- 3 | 300
-- SELECT 3
select * from (l join r using (id)) order by 1;
-- id integer | v integer | v integer
-- 1 | 10 | 100
-- 3 | 30 | 300
-- SELECT 2
select n.id, l.v, r.v from num n join (l left join r on l.id = r.id) on n.id = l.id order by 1;
-- id integer | v integer | v integer
-- 1 | 10 | 100
-- 2 | 20 | NULL
-- SELECT 2
select n.id, l.v, r.v from num n left join (l join r on l.id = r.id) on n.id = l.id order by 1;
-- id integer | v integer | v integer
-- 1 | 10 | 100
-- 2 | NULL | NULL
-- SELECT 2
select n.id, l.v, r.v from num n left join (l join r on l.id = r.id and id = 1) on n.id = l.id;
-- ERROR 42702: column reference "id" is ambiguous
select n.id, l.v, r.v from num n left join (l join r on l.id = r.id and n.id = 1) on n.id = l.id;
-- ERROR 42P01: missing FROM-clause entry for table "n"
select x.id, y.id from ((l x join l y on x.id = y.id) cross join r) where r.id = 1 order by 1;
-- id integer | id integer
-- 1 | 1
-- 2 | 2
-- 3 | 3
-- SELECT 3
select l.id from l right join (r join num on r.id = num.id) on l.id = r.id;
-- id integer
-- 1
-- SELECT 1
select * from (l join r on l.id = r.id) as j;
-- id integer | v integer | id integer | v integer
-- 1 | 10 | 1 | 100
-- 3 | 30 | 3 | 300
-- SELECT 2

-- # Refused, and by which code
select nextval('nope');
-- ERROR 42P01: relation "nope" does not exist
create function nothing() returns trigger language plpgsql as $$ begin return null; end $$;
-- ERROR 0A000: triggers is not supported
insert into two values (1, 1) on conflict (lower(id)) do nothing;
-- ERROR 0A000: ON CONFLICT with an expression, a collation or a condition is not supported
-- HINT: Name the columns of a unique index, or say ON CONSTRAINT and its name.
insert into two values (1, 1) on conflict (id) where v > 0 do nothing;
-- ERROR 0A000: ON CONFLICT with an expression, a collation or a condition is not supported
-- HINT: Name the columns of a unique index, or say ON CONSTRAINT and its name.
insert into two values (1, 1) on conflict (id, (v + 1)) do nothing;
-- ERROR 0A000: ON CONFLICT with an expression, a collation or a condition is not supported
-- HINT: Name the columns of a unique index, or say ON CONSTRAINT and its name.
insert into two values (1, 1) on conflict (id, v) do nothing;
-- ERROR 42P10: there is no unique or exclusion constraint matching the ON CONFLICT specification
insert into two values (1, 1) on conflict (id v) do nothing;
-- ERROR 0A000: ON CONFLICT with an expression, a collation or a condition is not supported
-- HINT: Name the columns of a unique index, or say ON CONSTRAINT and its name.
create table waits (id int primary key, t int references two deferrable initially deferred);
-- CREATE TABLE
create table may_wait (id int primary key, t int references two deferrable);
-- CREATE TABLE
create table never (id int primary key, t int references two initially deferred not deferrable);
-- ERROR 42601: constraint declared INITIALLY DEFERRED must be DEFERRABLE
create table later (id int primary key, t int references two not deferrable initially immediate);
-- CREATE TABLE
alter table later add unique (t) deferrable;
-- ALTER TABLE
set constraints waits_t_fkey deferred;
-- Command(SetConstraints { names: ["waits_t_fkey"], deferred: true })
set constraints all immediate;
-- Command(SetConstraints { names: [], deferred: false })
set constraints all deferred;
-- Command(SetConstraints { names: [], deferred: true })
set constraints later_t_fkey deferred;
-- ERROR 42809: constraint "later_t_fkey" is not deferrable
