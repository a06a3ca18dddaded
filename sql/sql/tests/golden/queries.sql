create table d (id int primary key, name text not null, budget numeric(10,2));
-- CREATE TABLE
create table e (id int primary key, d int, name text, pay int, hired date, active boolean default true);
-- CREATE TABLE
create index e_d_pay on e (d, pay);
-- CREATE INDEX
create index e_name on e (name);
-- CREATE INDEX
insert into d values (1, 'ops', 100.50), (2, 'dev', 200), (3, 'art', null);
-- INSERT 0 3
insert into e values (1, 1, 'ann', 10, '2020-01-31', true), (2, 1, 'bob', 20, '2021-02-28', false), (3, 2, 'cid', 30, '2022-03-01', true), (4, 2, 'dee', 30, null, null), (5, null, 'eve', 5, '2024-02-29', true);
-- INSERT 0 5

-- # Expressions
select 1 + 2 * 3, 7 / 2, -7 / 2, 7 % 3, 7.0 / 2, 2 ^ 10, 1.5::int, '12'::int + 1, 5 - -3;
-- ?column? integer | ?column? integer | ?column? integer | ?column? integer | ?column? numeric | ?column? double precision | int4 integer | ?column? integer | ?column? integer
-- 7 | 3 | -3 | 1 | 3.5000000000000000 | 1024 | 2 | 13 | 8
-- SELECT 1
select 1/0;
-- ERROR 22012: division by zero
select 2147483647 + 1;
-- ERROR 22003: integer out of range
select 'a' || 1 || null, 'a' || 'b', concat('a', null, 1, true), concat_ws(',', 'x', null, 'y');
-- ?column? text | ?column? text | concat text | concat_ws text
-- NULL | ab | a1t | x,y
-- SELECT 1
select null = null, null is null, 1 is distinct from null, not null, true and null, false and null, true or null;
-- ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean
-- NULL | t | t | NULL | NULL | f | t
-- SELECT 1
select 1 in (1, 2), 3 in (1, null), 3 not in (1, 2), 2 between 1 and 3, 2 not between 1 and 3;
-- ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean
-- t | NULL | t | t | f
-- SELECT 1
select 'abc' like 'a%', 'abc' not like '_b_', 'ABC' ilike 'a%', 'a%c' like 'a\%c', 'x' like null;
-- ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean
-- t | f | t | t | NULL
-- SELECT 1
select case when 1 > 2 then 'a' when 2 > 1 then 'b' end, case 3 when 1 then 'x' else 'y' end, coalesce(null, 2), nullif(1, 1), nullif(2, 1), greatest(1, 3, 2), least('b', 'a');
-- case text | case text | coalesce integer | nullif integer | nullif integer | greatest integer | least text
-- b | y | 2 | NULL | 2 | 3 | a
-- SELECT 1
select cast('2024-02-30' as date);
-- ERROR 22008: date/time field value out of range: "2024-02-30"
select date '2024-02-29' + 1, date '2024-03-01' - date '2024-02-01', extract(year from date '2024-02-29'), extract(dow from date '2024-02-29'), date_trunc('month', timestamp '2024-02-29 13:14:15'), date_part('epoch', timestamp '2000-01-01');
-- ?column? date | ?column? integer | extract numeric | extract numeric | date_trunc timestamp without time zone | date_part double precision
-- 2024-03-01 | 29 | 2024 | 4 | 2024-02-01 00:00:00 | 946684800
-- SELECT 1
select now(), current_date, current_timestamp = transaction_timestamp();
-- now timestamp with time zone | current_date date | ?column? boolean
-- 2026-03-01 12:00:00+00 | 2026-03-01 | t
-- SELECT 1
select lower('ÄB'), upper('äb'), length('äöü'), octet_length('äöü'), substr('hello', 2, 3), substring('hello' from 2 for 2), left('hello', 2), right('hello', 2), left('hello', -2), trim('  x '), trim(both 'x' from 'xax'), ltrim('xxa', 'x'), position('l' in 'hello'), strpos('hello', 'z');
-- lower text | upper text | length integer | octet_length integer | substr text | substring text | left text | right text | left text | btrim text | btrim text | ltrim text | position integer | strpos integer
-- äb | ÄB | 3 | 6 | ell | el | he | lo | hel | x | a | a | 3 | 0
-- SELECT 1
select replace('aXbX', 'X', '-'), repeat('ab', 3), reverse('abc'), lpad('7', 3, '0'), rpad('7', 3), split_part('a,b,c', ',', 2), ascii('A'), chr(66), to_hex(255), initcap('hello world'), translate('12345', '143', 'ax');
-- replace text | repeat text | reverse text | lpad text | rpad text | split_part text | ascii integer | chr text | to_hex text | initcap text | translate text
-- a-b- | ababab | cba | 007 | 7   | b | 65 | B | ff | Hello World | a2x5
-- SELECT 1
select encode(sha256('abc'), 'hex'), encode('\x00ff'::bytea, 'base64'), decode('AP8=', 'base64');
-- encode text | encode text | decode bytea
-- ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad | AP8= | \x00ff
-- SELECT 1
select abs(-5), ceil(1.2), floor(-1.2), round(2.5), round(2.345, 2), trunc(2.9), mod(7, 3), sign(-2.5), sqrt(2::numeric), sqrt(16), power(2, 10);
-- abs integer | ceil numeric | floor numeric | round numeric | round numeric | trunc numeric | mod integer | sign numeric | sqrt numeric | sqrt double precision | power double precision
-- 5 | 2 | -2 | 3 | 2.35 | 2 | 1 | -1 | 1.414213562373095 | 4 | 1024
-- SELECT 1
select array[1, 2, 3], (array[1, 2, 3])[2], array_length(array[1, 2], 1), cardinality(array[]::int[]), 2 = any(array[1, 2]), array[1] || 2, '{1,2}'::int[];
-- array integer[] | array integer | array_length integer | cardinality integer | ?column? boolean | ?column? integer[] | int4 integer[]
-- {1,2,3} | 2 | 2 | 0 | t | {1,2} | {1,2}
-- SELECT 1
select setseed(0.5);
-- ERROR 0A000: function setseed() is not supported
-- DETAIL: Its answer would differ between replicas.
-- HINT: Each transaction has a seed of its own, from which random() draws.
select uuid_generate_v1();
-- ERROR 0A000: function uuid_generate_v1() is not supported
-- DETAIL: Its answer would differ between replicas.
-- HINT: Use uuidv7() or gen_random_uuid().
select nosuch(1);
-- ERROR 42883: function nosuch(integer) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select 1 + 'x';
-- ERROR 22P02: invalid input syntax for type integer: "x"
select 1 + true;
-- ERROR 42883: operator does not exist: integer + boolean
-- HINT: No operator matches the given name and argument types. You might need to add explicit type casts.
select nosuch from d;
-- ERROR 42703: column "nosuch" does not exist
select d.nosuch from d;
-- ERROR 42703: column d.nosuch does not exist
select x.id from d;
-- ERROR 42P01: missing FROM-clause entry for table "x"
select nam from d;
-- ERROR 42703: column "nam" does not exist
-- HINT: Perhaps you meant to reference the column "d.name".
select * from nosuch;
-- ERROR 42P01: relation "nosuch" does not exist
select * from nosuch.d;
-- ERROR 42P01: relation "nosuch.d" does not exist
select 'a'::character varying(2), pg_typeof(1), pg_typeof('x'), pg_typeof(1.5), true;
-- varchar character varying(2) | pg_typeof text | pg_typeof text | pg_typeof text | bool boolean
-- a | integer | unknown | numeric | t
-- SELECT 1
select current_user, current_database(), current_schema(), version();
-- current_user text | current_database text | current_schema text | version text
-- tally | tally | public | PostgreSQL 15.18 (Tallystick)
-- SELECT 1

-- # Access paths and order
select * from e where id = 3;
-- id integer | d integer | name text | pay integer | hired date | active boolean
-- 3 | 2 | cid | 30 | 2022-03-01 | t
-- SELECT 1
select id from e where id > 1 and id <= 3;
-- id integer
-- 2
-- 3
-- SELECT 2
select id from e where id in (4, 2, 2, 9);
-- id integer
-- 4
-- 2
-- SELECT 2
select id from e where id = any('{5,1}');
-- id integer
-- 5
-- 1
-- SELECT 2
select id from e where d = 1;
-- id integer
-- 1
-- 2
-- SELECT 2
select id from e where d = 2 and pay >= 30;
-- id integer
-- 3
-- 4
-- SELECT 2
select id from e where d = 1 order by pay desc;
-- id integer
-- 2
-- 1
-- SELECT 2
select id from e where d > 0;
-- id integer
-- 1
-- 2
-- 3
-- 4
-- SELECT 4
select id, d from e order by d, id;
-- id integer | d integer
-- 1 | 1
-- 2 | 1
-- 3 | 2
-- 4 | 2
-- 5 | NULL
-- SELECT 5
select id, d from e order by d desc, id limit 2;
-- id integer | d integer
-- 5 | NULL
-- 3 | 2
-- SELECT 2
select id, d from e order by d nulls first limit 2 offset 1;
-- id integer | d integer
-- 1 | 1
-- 2 | 1
-- SELECT 2
select name from e order by name desc limit 2;
-- name text
-- eve
-- dee
-- SELECT 2
select name as n from e order by n limit 1;
-- n text
-- ann
-- SELECT 1
select name, pay from e order by 2 desc, 1;
-- name text | pay integer
-- cid | 30
-- dee | 30
-- bob | 20
-- ann | 10
-- eve | 5
-- SELECT 5
select id from e order by pay + id;
-- id integer
-- 5
-- 1
-- 2
-- 3
-- 4
-- SELECT 5
select id from e where name > 'b' order by name limit 2;
-- id integer
-- 2
-- 3
-- SELECT 2
select id from e where active;
-- id integer
-- 1
-- 3
-- 5
-- SELECT 3
select id from e where not active;
-- id integer
-- 2
-- SELECT 1
select id from e where hired is null;
-- id integer
-- 4
-- SELECT 1
select max(id), min(pay), min(name), max(name) from e;
-- max integer | min integer | min text | max text
-- 5 | 5 | ann | eve
-- SELECT 1
select max(pay) from e where d = 1;
-- max integer
-- 20
-- SELECT 1
select max(d), min(d) from e where id = 99;
-- max integer | min integer
-- NULL | NULL
-- SELECT 1
select max(d) from e;
-- max integer
-- 2
-- SELECT 1
select id from e where id = 1 and id = 2;
-- id integer
-- SELECT 0
select id from e where id = null;
-- id integer
-- SELECT 0
select id from e limit 0;
-- id integer
-- SELECT 0
select id from e limit -1;
-- ERROR 2201W: LIMIT must not be negative
select id from e fetch first 2 rows only;
-- id integer
-- 1
-- 2
-- SELECT 2

-- # Joins
select e.name, d.name from e join d on d.id = e.d order by e.id;
-- name text | name text
-- ann | ops
-- bob | ops
-- cid | dev
-- dee | dev
-- SELECT 4
select e.name, d.name from e left join d on d.id = e.d order by e.id;
-- name text | name text
-- ann | ops
-- bob | ops
-- cid | dev
-- dee | dev
-- eve | NULL
-- SELECT 5
select e.name, d.name from e, d where d.id = e.d and d.name = 'dev';
-- name text | name text
-- cid | dev
-- dee | dev
-- SELECT 2
select e.name, x.name from d x left join e on e.d = x.id and e.pay > 15 order by x.id, e.id;
-- name text | name text
-- bob | ops
-- cid | dev
-- dee | dev
-- NULL | art
-- SELECT 4
select e.name, x.name from e right join d x on e.d = x.id order by x.id, e.id;
-- name text | name text
-- ann | ops
-- bob | ops
-- cid | dev
-- dee | dev
-- NULL | art
-- SELECT 5
select count(*) from e cross join d;
-- count bigint
-- 15
-- SELECT 1
select a.name, b.name from e a join e b on a.pay = b.pay and a.id < b.id;
-- name text | name text
-- cid | dee
-- SELECT 1
select * from d join (select d as id, count(*) as n from e group by d) c using (id);
-- id integer | name text | budget numeric(10,2) | n bigint
-- 1 | ops | 100.50 | 2
-- 2 | dev | 200.00 | 2
-- SELECT 2
select name from e join d on d.id = e.d;
-- ERROR 42702: column reference "name" is ambiguous
select e.id from e join e on true;
-- ERROR 42712: table name "e" specified more than once
select d.name from d left join e on e.d = d.id where e.id is null;
-- name text
-- art
-- SELECT 1
select e.name from e join d on e.pay = d.budget - 80.5;
-- name text
-- bob
-- SELECT 1

-- # Groups
select d, count(*), sum(pay), avg(pay), min(pay), max(name) from e group by d order by d;
-- d integer | count bigint | sum bigint | avg numeric | min integer | max text
-- 1 | 2 | 30 | 15.0000000000000000 | 10 | bob
-- 2 | 2 | 60 | 30.0000000000000000 | 30 | dee
-- NULL | 1 | 5 | 5.0000000000000000 | 5 | eve
-- SELECT 3
select d, count(*) from e group by d having count(*) > 1 order by d;
-- d integer | count bigint
-- 1 | 2
-- 2 | 2
-- SELECT 2
select count(*), count(d), count(distinct pay), sum(pay) filter (where pay > 10), bool_and(active), bool_or(active) from e;
-- count bigint | count bigint | count bigint | sum bigint | bool_and boolean | bool_or boolean
-- 5 | 4 | 4 | 80 | f | t
-- SELECT 1
select sum(pay), count(*), avg(pay) from e where id > 100;
-- sum bigint | count bigint | avg numeric
-- NULL | 0 | NULL
-- SELECT 1
select d + 1, count(*) from e group by d + 1 order by 1;
-- ?column? integer | count bigint
-- 2 | 2
-- 3 | 2
-- NULL | 1
-- SELECT 3
select d as dep, count(*) from e group by dep order by dep;
-- dep integer | count bigint
-- 1 | 2
-- 2 | 2
-- NULL | 1
-- SELECT 3
select pay from e group by d;
-- ERROR 42803: column "e.pay" must appear in the GROUP BY clause or be used in an aggregate function
select d.name, count(e.id) from d left join e on e.d = d.id group by d.id order by d.id;
-- name text | count bigint
-- ops | 2
-- dev | 2
-- art | 0
-- SELECT 3
select count(*) from e where count(*) > 1;
-- ERROR 42803: aggregate functions are not allowed in WHERE
select sum(sum(pay)) from e;
-- ERROR 42803: aggregate function calls cannot be nested
select sum(name) from e;
-- ERROR 42883: function sum(text) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select array_agg(id), sum(budget), avg(budget) from d;
-- array_agg integer[] | sum numeric | avg numeric
-- {1,2,3} | 300.50 | 150.2500000000000000
-- SELECT 1
select pg_typeof(sum(pay)), pg_typeof(sum(id::bigint)), pg_typeof(avg(pay)), pg_typeof(count(*)) from e;
-- pg_typeof text | pg_typeof text | pg_typeof text | pg_typeof text
-- bigint | numeric | numeric | bigint
-- SELECT 1
select distinct pay from e order by pay desc;
-- pay integer
-- 30
-- 20
-- 10
-- 5
-- SELECT 4
select distinct pay from e order by id;
-- ERROR 42P10: for SELECT DISTINCT, ORDER BY expressions must appear in select list
select distinct d, active from e order by 1, 2;
-- d integer | active boolean
-- 1 | f
-- 1 | t
-- 2 | t
-- 2 | NULL
-- NULL | t
-- SELECT 5

-- # Sets, values, subqueries
select 1 union select 2 union select 1 order by 1;
-- ?column? integer
-- 1
-- 2
-- SELECT 2
select 1 union all select 1.5;
-- ?column? numeric
-- 1
-- 1.5
-- SELECT 2
select 1 union select 'x';
-- ERROR 22P02: invalid input syntax for type integer: "x"
select 1 union all select null;
-- ?column? integer
-- 1
-- NULL
-- SELECT 2
select null union all select '2024-01-01'::date;
-- ?column? date
-- NULL
-- 2024-01-01
-- SELECT 2
select 1 union all select '2';
-- ?column? integer
-- 1
-- 2
-- SELECT 2
select null union select 'x';
-- ?column? text
-- NULL
-- x
-- SELECT 2
values (1, 'a'), (2, null);
-- column1 integer | column2 text
-- 1 | a
-- 2 | NULL
-- SELECT 2
select * from (values (1, 'a'), (2, 'b')) v(n, s) where n > 1;
-- n integer | s text
-- 2 | b
-- SELECT 1
select n, s.n + 1 from (select id as n from d) s where n < 3;
-- n integer | ?column? integer
-- 1 | 2
-- 2 | 3
-- SELECT 2
select (select max(pay) from e), (select name from d where id = 9);
-- max integer | name text
-- 30 | NULL
-- SELECT 1
select (select id from e);
-- ERROR 21000: more than one row returned by a subquery used as an expression
select id from e where pay = (select max(pay) from e) order by id;
-- id integer
-- 3
-- 4
-- SELECT 2
select id from e where d in (select id from d where name = 'dev');
-- id integer
-- 3
-- 4
-- SELECT 2
select id from e where d not in (select id from d where id < 2);
-- id integer
-- 3
-- 4
-- SELECT 2
select exists (select 1 from d), exists (select 1 from d where id > 9);
-- exists boolean | exists boolean
-- t | f
-- SELECT 1
select name from d where exists (select 1 from e where e.d = d.id);
-- name text
-- ops
-- dev
-- SELECT 2
select x from generate_series(1, 5, 2) x;
-- x integer
-- 1
-- 3
-- 5
-- SELECT 3
select * from unnest(array['a', 'b']) u;
-- u text
-- a
-- b
-- SELECT 2
with big as (select * from e where pay > 10) select count(*) from big;
-- count bigint
-- 3
-- SELECT 1
insert into d select id + 10, name, null from d where id < 3 returning *;
-- id integer | name text | budget numeric(10,2)
-- 11 | ops | NULL
-- 12 | dev | NULL
-- INSERT 0 2
insert into d (id, name) select 20, 'new' union all select 21, 'newer';
-- INSERT 0 2
update e set pay = (select max(pay) from e) where id = 1 returning pay;
-- pay integer
-- 30
-- UPDATE 1
delete from e where d in (select id from d where name = 'ops');
-- DELETE 2
select id from e for update;
-- id integer
-- 3
-- 4
-- 5
-- SELECT 3

-- # Row values
create table rv (a int, b int);
-- CREATE TABLE
insert into rv values (1, 1), (1, 2), (2, 1), (2, null);
-- INSERT 0 4
select * from rv where (a, b) = (1, 2);
-- a integer | b integer
-- 1 | 2
-- SELECT 1
select * from rv where (a, b) in ((1, 1), (2, 1), (9, 9)) order by a;
-- a integer | b integer
-- 1 | 1
-- 2 | 1
-- SELECT 2
select * from rv where (a, b) not in ((1, 1), (2, 1)) order by a, b;
-- a integer | b integer
-- 1 | 2
-- SELECT 1
select * from rv where (a, b) > (1, 1) order by a, b;
-- a integer | b integer
-- 1 | 2
-- 2 | 1
-- 2 | NULL
-- SELECT 3
select * from rv where row(a, b) <= (2, 1) and (a, b) <> (1, 1) order by a, b;
-- a integer | b integer
-- 1 | 2
-- 2 | 1
-- SELECT 2
select (null, 1) = (null, 1), (null, 1) = (null, 2), (1, null) < (2, 1), (1, null) < (1, 1), (1, 2) >= (1, 2);
-- ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean | ?column? boolean
-- NULL | f | t | NULL | t
-- SELECT 1
select (1, 2) = (1, 2, 3);
-- ERROR 42601: unequal number of entries in row expressions
select (1, 2);
-- row record
-- (1,2)
-- SELECT 1

-- # Refused by name
select exp(1.0), factorial(3);
-- ERROR 0A000: function factorial() is not supported
-- HINT: Compute it in the client.
select to_number('1', '9');
-- ERROR 0A000: function to_number() is not supported
-- HINT: Compute it in the client.
select generate_series(1, 3);
-- generate_series integer
-- 1
-- 2
-- 3
-- SELECT 3
select relname from pg_class;
-- ERROR 0A000: the system catalog pg_class is not supported
-- HINT: Only a query can read system catalogs, not a statement or a routine that may write: what it writes has to follow from the ledger alone.
select * from information_schema.tables;
-- ERROR 0A000: the system catalog information_schema.tables is not supported
-- HINT: Only a query can read system catalogs, not a statement or a routine that may write: what it writes has to follow from the ledger alone.
select n.nspname from pg_catalog.pg_namespace n;
-- ERROR 0A000: the system catalog pg_catalog.pg_namespace is not supported
-- HINT: Only a query can read system catalogs, not a statement or a routine that may write: what it writes has to follow from the ledger alone.
explain (format html) select 1;
-- ERROR 22023: unrecognized value for EXPLAIN option "format": "html"
explain (analyze) select 1;
-- ERROR 0A000: EXPLAIN ANALYZE is not supported
create index on rv using gin (a);
-- ERROR 0A000: an index USING GIN is not supported
-- HINT: Indexes are ordered; USING btree says so.
create function strict_one(a int) returns int language sql strict as 'select a';
-- ERROR 0A000: STRICT is not supported
-- HINT: Test the arguments in the body: IF a IS NULL THEN RETURN NULL; END IF;
create function over_one(a int) returns int language sql as 'select 1';
-- CREATE FUNCTION
create function over_one(a text) returns int language sql as 'select 2';
-- ERROR 0A000: a second routine of the name "over_one" is not supported
-- HINT: A name stands for one routine here. Use another name, or DROP that one first.
create or replace function over_one(a text) returns int language sql as 'select 2';
-- ERROR 0A000: a second routine of the name "over_one" is not supported
-- HINT: A name stands for one routine here. Use another name, or DROP that one first.
create procedure wants_int(a int) language plpgsql as $$ begin null; end $$;
-- CREATE PROCEDURE
call wants_int(1.5);
-- ERROR 42883: procedure wants_int(numeric) does not exist
-- HINT: There is wants_int(integer).
call wants_int('1');
-- CALL

-- # Literals
select 'a'
  'b', 1e300::float8, -1e-300::float8, 1e400::float8;
-- ERROR 22003: "1e400" is out of range for type double precision
select 1e300::float8, -(1e-300)::float8, 'x'::text::varchar(3), 2.5::float8::int;
-- float8 double precision | ?column? double precision | varchar character varying(3) | int4 integer
-- 1e+300 | -1e-300 | x | 2
-- SELECT 1
select power(0, -1);
-- ERROR 2201F: zero raised to a negative power is undefined
select power(2.0, 3), power(2, -1), power(0, 0);
-- power numeric | power double precision | power double precision
-- 8.0000000000000000 | 0.5 | 1
-- SELECT 1
select trim(both from ' a '), trim(trailing from 'a  '), trim(leading 'x' from 'xa');
-- btrim text | rtrim text | ltrim text
-- a | a | a
-- SELECT 1
