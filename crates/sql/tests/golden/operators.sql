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
