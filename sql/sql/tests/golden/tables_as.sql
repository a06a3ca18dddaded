-- # CREATE TABLE AS
create table fruit (id int primary key, name varchar(5), price numeric(6,2), "order" date);
-- CREATE TABLE
insert into fruit values (1, 'apple', 1.50, '2026-01-01'), (2, 'pear', 2.25, null), (3, 'fig', 0.10, '2026-02-01');
-- INSERT 0 3
create table cheap as select * from fruit where price < 2;
-- SELECT 2
select * from cheap order by id;
-- id integer | name character varying(5) | price numeric(6,2) | order date
-- 1 | apple | 1.50 | 2026-01-01
-- 3 | fig | 0.10 | 2026-02-01
-- SELECT 2
create table cheap as select 1;
-- ERROR 42P07: relation "cheap" already exists
create table if not exists cheap as select 1;
-- CREATE TABLE AS
create table names (n, "Who") as select id, upper(name) from fruit order by id;
-- SELECT 3
select * from names;
-- n integer | Who text
-- 1 | APPLE
-- 2 | PEAR
-- 3 | FIG
-- SELECT 3
create table short (a) as select id, name from fruit where id = 1;
-- SELECT 1
select * from short;
-- a integer | name character varying(5)
-- 1 | apple
-- SELECT 1
create table empty as select id, name as label, price * 2 as twice from fruit with no data;
-- CREATE TABLE AS
select * from empty;
-- id integer | label character varying(5) | twice numeric
-- SELECT 0
insert into empty values (1, 'x', 3.125);
-- INSERT 0 1
select * from empty;
-- id integer | label character varying(5) | twice numeric
-- 1 | x | 3.125
-- SELECT 1
create table full_one as select 1 as one with data;
-- SELECT 1
create table totals as select count(*) as n, sum(price) as total, 'x' as label, null as nothing from fruit;
-- SELECT 1
select * from totals;
-- n bigint | total numeric | label text | nothing text
-- 3 | 3.85 | x | NULL
-- SELECT 1
create table joined as with c as (select id from cheap) select f.name, g.n from c join fruit f on f.id = c.id, generate_series(1, 2) g(n);
-- SELECT 4
select * from joined order by name, n;
-- name character varying(5) | n integer
-- apple | 1
-- apple | 2
-- fig | 1
-- fig | 2
-- SELECT 4
create table valued as values (1, 'a'), (2, 'b');
-- SELECT 2
select * from valued order by column1;
-- column1 integer | column2 text
-- 1 | a
-- 2 | b
-- SELECT 2
create table twice as select id, id from fruit;
-- ERROR 42701: column "id" specified more than once
create table fails as select 1 / (id - 2) from fruit;
-- ERROR 22012: division by zero
select * from fails;
-- ERROR 42P01: relation "fails" does not exist
create table too_many (a, b) as select 1;
-- ERROR 42601: too many column names were specified
create temp table t as select 1;
-- ERROR 0A000: a temporary table that the ledger makes is not supported
-- HINT: Sessions make their own, by a statement that a client sends.
create table bad as select nothing from fruit;
-- ERROR 42703: column "nothing" does not exist
create table part (a, b) as select unnest(array[1, 2]), 'x';
-- SELECT 2
alter table part add primary key (a);
-- ALTER TABLE
select * from part;
-- a integer | b text
-- 1 | x
-- 2 | x
-- SELECT 2

-- # SELECT INTO
select id, name into dear from fruit where price > 1;
-- SELECT 2
select * from dear order by id;
-- id integer | name character varying(5)
-- 1 | apple
-- 2 | pear
-- SELECT 2
select * into dear from fruit;
-- ERROR 42P07: relation "dear" already exists
select id into temp other from fruit;
-- ERROR 0A000: a temporary table that the ledger makes is not supported
-- HINT: Sessions make their own, by a statement that a client sends.
select (select 1 into x);
-- ERROR 0A000: SELECT INTO is not supported
-- HINT: Use CREATE TABLE, and INSERT … SELECT.

-- # DO
do $$ begin insert into dear values (9, 'lime'); update dear set name = 'x' where id = 1; end $$;
-- DO
select * from dear order by id;
-- id integer | name character varying(5)
-- 1 | x
-- 2 | pear
-- 9 | lime
-- SELECT 3
do language plpgsql $$ declare n int; begin for n in select id from dear loop if n > 2 then delete from dear where id = n; end if; end loop; raise notice 'done'; end $$;
-- DO
select * from dear order by id;
-- id integer | name character varying(5)
-- 1 | x
-- 2 | pear
-- SELECT 2
do 'begin raise exception ''no % more'', 1; end' language plpgsql;
-- ERROR P0001: no 1 more
do $$ begin insert into dear values (10, 'y'); perform 1 / 0; end $$;
-- ERROR 22012: division by zero
do language sql $$ select 1 $$;
-- ERROR 0A000: language "sql" does not support inline code execution
do language python $$ x $$;
-- ERROR 0A000: language "python" is not supported
-- HINT: Use LANGUAGE plpgsql or LANGUAGE sql.
do;
-- ERROR 42601: no inline code specified
do $$ nonsense $$;
-- ERROR 42601: syntax error at or near "nonsense"
-- DETAIL: In line 1 of the body.
select * from dear order by id;
-- id integer | name character varying(5)
-- 1 | x
-- 2 | pear
-- SELECT 2
