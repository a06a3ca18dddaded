-- # Functions that give rows, in FROM
select * from unnest(array[3, 1, 2]);
-- unnest integer
-- 3
-- 1
-- 2
-- SELECT 3
select * from unnest(array['a', null]) as t;
-- t text
-- a
-- NULL
-- SELECT 2
select u, n from unnest(array['a', 'b']) with ordinality as t(u, n) order by n desc;
-- u text | n bigint
-- b | 2
-- a | 1
-- SELECT 2
select * from unnest(array[1, 2, 3], array['a', 'b']) as t(i, s);
-- i integer | s text
-- 1 | a
-- 2 | b
-- 3 | NULL
-- SELECT 3
select * from unnest(array[1, 2], array['a', 'b', 'c']) with ordinality;
-- unnest integer | unnest text | ordinality bigint
-- 1 | a | 1
-- 2 | b | 2
-- NULL | c | 3
-- SELECT 3
select * from unnest(array[]::int[], array[]::text[]) with ordinality;
-- unnest integer | unnest text | ordinality bigint
-- SELECT 0
select * from unnest(null::int[], array[true]);
-- unnest integer | unnest boolean
-- NULL | t
-- SELECT 1
select t.* from unnest(array[1, 2]) with ordinality t;
-- t integer | ordinality bigint
-- 1 | 1
-- 2 | 2
-- SELECT 2
select sum(n) from generate_series(1, 10) n;
-- sum bigint
-- 55
-- SELECT 1
select * from generate_series(5, 1, -2) with ordinality as g(v, place);
-- v integer | place bigint
-- 5 | 1
-- 3 | 2
-- 1 | 3
-- SELECT 3
select * from generate_series(1, 3::bigint);
-- generate_series bigint
-- 1
-- 2
-- 3
-- SELECT 3
select * from generate_series(9223372036854775806, 9223372036854775807);
-- generate_series bigint
-- 9223372036854775806
-- 9223372036854775807
-- SELECT 2
select * from generate_series(1, null::int);
-- generate_series integer
-- SELECT 0
select * from generate_series(1, 3, 0);
-- ERROR 22023: step size cannot equal zero
select * from generate_series(2, 1);
-- generate_series integer
-- SELECT 0
select * from generate_series('2026-01-31'::timestamp, '2026-05-01', '1 month');
-- generate_series timestamp without time zone
-- 2026-01-31 00:00:00
-- 2026-02-28 00:00:00
-- 2026-03-28 00:00:00
-- 2026-04-28 00:00:00
-- SELECT 4
select * from generate_series('2026-01-01'::date, '2026-01-03', interval '1 day');
-- generate_series timestamp with time zone
-- 2026-01-01 00:00:00+00
-- 2026-01-02 00:00:00+00
-- 2026-01-03 00:00:00+00
-- SELECT 3
select d::date from generate_series(date '2026-03-01', date '2026-02-26', '-1 day'::interval) d;
-- d date
-- 2026-03-01
-- 2026-02-28
-- 2026-02-27
-- 2026-02-26
-- SELECT 4
select * from generate_series(timestamptz '2026-01-01 00:00Z', timestamptz '2026-01-01 02:00Z', '30 minutes') limit 3;
-- generate_series timestamp with time zone
-- 2026-01-01 00:00:00+00
-- 2026-01-01 00:30:00+00
-- 2026-01-01 01:00:00+00
-- SELECT 3
select count(*) from generate_series(timestamp '2000-01-01', timestamp '2001-01-01', '1 week 12:00');
-- count bigint
-- 49
-- SELECT 1
select * from generate_series(timestamp '2026-01-01', timestamp '2026-01-02', '0 days');
-- ERROR 22023: step size cannot equal zero
select * from generate_series(timestamp '2026-01-01', timestamp '2026-01-02', '1 month -30 days');
-- ERROR 22023: step size cannot equal zero
select * from generate_series(1, 5, interval '1 day');
-- ERROR 42883: function generate_series(integer, integer, interval) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select * from generate_series(timestamp '2026-01-01', timestamp '2026-01-02', 1);
-- ERROR 42883: function generate_series(timestamp without time zone, timestamp without time zone, integer) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select * from generate_subscripts(array['a', 'b', 'c'], 1) s;
-- s integer
-- 1
-- 2
-- 3
-- SELECT 3
select * from generate_subscripts(array['a', 'b', 'c'], 1, true) s;
-- s integer
-- 3
-- 2
-- 1
-- SELECT 3
select * from generate_subscripts(array['a'], 2);
-- generate_subscripts integer
-- SELECT 0
select * from string_to_table('a,b,,c', ',') with ordinality;
-- string_to_table text | ordinality bigint
-- a | 1
-- b | 2
--  | 3
-- c | 4
-- SELECT 4
select * from string_to_table('a,b,,c', ',', '') as part;
-- part text
-- a
-- b
-- NULL
-- c
-- SELECT 4
select * from string_to_table('abc', null);
-- string_to_table text
-- a
-- b
-- c
-- SELECT 3
select * from string_to_table('abc', '');
-- string_to_table text
-- abc
-- SELECT 1
select * from string_to_table('', ',');
-- string_to_table text
-- SELECT 0
select * from string_to_table(null, ',');
-- string_to_table text
-- SELECT 0
select * from unnest(1);
-- ERROR 42883: function unnest(integer) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select * from unnest();
-- ERROR 42601: syntax error at or near ")": expected an expression
select * from string_to_table(1, 2);
-- ERROR 42883: function string_to_table(integer) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select * from nothing(1);
-- ERROR 42883: function nothing in FROM does not exist

-- # For each row of relations before it
create table bag (id int primary key, items text);
-- CREATE TABLE
insert into bag values (1, 'x y'), (2, ''), (3, 'z'), (4, null);
-- INSERT 0 4
select b.id, p.item, p.n from bag b, string_to_table(b.items, ' ') with ordinality as p(item, n) order by 1, 3;
-- id integer | item text | n bigint
-- 1 | x | 1
-- 1 | y | 2
-- 3 | z | 1
-- SELECT 3
select b.id, p.* from bag b cross join lateral string_to_table(b.items, ' ') p;
-- id integer | p text
-- 1 | x
-- 1 | y
-- 3 | z
-- SELECT 3
select b.id, p.* from bag b left join lateral string_to_table(b.items, ' ') p on true;
-- id integer | p text
-- 1 | x
-- 1 | y
-- 2 | NULL
-- 3 | z
-- 4 | NULL
-- SELECT 5
select b.id, p.* from bag b left join lateral string_to_table(b.items, ' ') p on p <> 'x' order by 1;
-- id integer | p text
-- 1 | y
-- 2 | NULL
-- 3 | z
-- 4 | NULL
-- SELECT 4
select b.id, n from bag b, generate_series(1, b.id) n where n > 1 and b.id < 4;
-- id integer | n integer
-- 2 | 2
-- 3 | 2
-- 3 | 3
-- SELECT 3
select b.id, n, m from bag b join generate_series(1, 2) n on n = b.id, generate_series(n, b.id) m;
-- id integer | n integer | m integer
-- 1 | 1 | 1
-- 2 | 2 | 2
-- SELECT 2
select c.id from (values (array[3, 1])) v(ids), unnest(v.ids) with ordinality u(id, n) join bag c on c.id = u.id order by u.n;
-- id integer
-- 3
-- 1
-- SELECT 2
select * from unnest(b.ids) u, bag b;
-- ERROR 42P01: missing FROM-clause entry for table "b"
select * from string_to_table('a', ',') p right join bag b on true;
-- p text | id integer | items text
-- a | 1 | x y
-- a | 2 | 
-- a | 3 | z
-- a | 4 | NULL
-- SELECT 4
select * from bag b right join lateral string_to_table(b.items, ',') p on true;
-- ERROR 42P10: invalid reference to a FROM-clause entry before RIGHT JOIN
-- DETAIL: The combining JOIN type must be INNER or LEFT for a LATERAL reference.
explain select c.items from unnest(array[3, 1]) u(id) join bag c on c.id = u.id;
-- QUERY PLAN text
-- explain select c.items from unnest(array[3, 1]) u(id) join bag c on c.id = u.id → (items text)
-- 
-- steps
--   1  emit     rows of
--          select items
--            for each
--              unnest '{3,1}'
--              get bag[element]: items
-- 
-- keys        partial: step 1 needs data
-- footprint   bag: reads items
-- fragments   1  step 1  on many rows
-- EXPLAIN
explain select * from bag b, unnest(array[b.id, 7]) u where u > 3;
-- QUERY PLAN text
-- explain select * from bag b, unnest(array[b.id, 7]) u where u > 3 → (id integer, items text, u integer)
-- 
-- steps
--   1  emit     rows of
--          select id, items, element
--            for each
--              scan bag by primary key: id, items
--              where element > 3
--                unnest array[id, 7]
-- 
-- keys        complete: all follow from the arguments
-- footprint   bag: reads id, items; scans primary key
-- fragments   1  step 1  on many rows
-- EXPLAIN

-- # In a select list
select generate_series(1, 3);
-- generate_series integer
-- 1
-- 2
-- 3
-- SELECT 3
select unnest(array['a', 'b']) as u, generate_series(1, 3) as g, 7 as seven;
-- u text | g integer | seven integer
-- a | 1 | 7
-- b | 2 | 7
-- NULL | 3 | 7
-- SELECT 3
select id, unnest(array[id, id * 10]) from bag where id < 3 order by 2 desc;
-- id integer | unnest integer
-- 2 | 20
-- 1 | 10
-- 2 | 2
-- 1 | 1
-- SELECT 4
select id, generate_series(1, id) from bag order by id desc, 2 limit 4;
-- id integer | generate_series integer
-- 4 | 1
-- 4 | 2
-- 4 | 3
-- 4 | 4
-- SELECT 4
select generate_series(1, 2) + 10 as x, 'n' || generate_series(1, 2);
-- x integer | ?column? text
-- 11 | n1
-- 12 | n2
-- SELECT 2
select distinct unnest(array[1, 1, 2]) order by 1;
-- unnest integer
-- 1
-- 2
-- SELECT 2
select id, string_to_table(items, ' ') from bag order by id;
-- id integer | string_to_table text
-- 1 | x
-- 1 | y
-- 3 | z
-- SELECT 3
select sum(g) from (select generate_series(1, 4) as g) x;
-- sum bigint
-- 10
-- SELECT 1
select generate_series(1, generate_series(1, 3));
-- ERROR 0A000: set-returning functions are not allowed in the arguments of others
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select coalesce(generate_series(1, 2), 0);
-- ERROR 0A000: set-returning functions are not allowed in COALESCE
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select case when true then generate_series(1, 2) end;
-- ERROR 0A000: set-returning functions are not allowed in CASE
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select sum(generate_series(1, 3));
-- ERROR 0A000: aggregate function calls cannot contain set-returning function calls
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select count(*), generate_series(1, 2) from bag;
-- ERROR 0A000: a set-returning function beside groups is not supported
select 1 where generate_series(1, 2) = 1;
-- ERROR 0A000: set-returning functions are not allowed in WHERE
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select id from bag order by generate_series(1, 2);
-- ERROR 0A000: set-returning functions are not allowed here
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select 1 limit generate_series(1, 3);
-- ERROR 0A000: set-returning functions are not allowed in LIMIT
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
values (generate_series(1, 3));
-- ERROR 0A000: set-returning functions are not allowed in VALUES
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select unnest(array[random()]) from bag;
-- ERROR 0A000: drawing a value for a set-returning function is not supported
explain select id, generate_series(1, id) from bag;
-- QUERY PLAN text
-- explain select id, generate_series(1, id) from bag → (id integer, generate_series integer)
-- 
-- steps
--   1  emit     rows of
--          select id, series
--            for each
--              scan bag by primary key: id
--              series 1 to id by 1
-- 
-- keys        complete: all follow from the arguments
-- footprint   bag: reads id; scans primary key
-- fragments   1  step 1  on many rows
-- EXPLAIN

-- # What writes
insert into bag select * from unnest(array[7, 8], array['p', 'q']);
-- INSERT 0 2
insert into bag (id, items) select u.id, u.items from unnest($1::int[], $2::text[]) as u(id, items);
-- ERROR 08P01: "insert into bag (id, items) select u.id, u.items from unnest($1::int[], $2::text[]) as u(id, items)" takes 2 arguments, but 0 were given
insert into bag select generate_series(20, 22), 'n';
-- INSERT 0 3
update bag b set items = u.items from unnest(array[7, 8], array['P', 'Q']) u(id, items) where u.id = b.id returning b.*;
-- id integer | items text
-- 7 | P
-- 8 | Q
-- UPDATE 2
delete from bag b using unnest(array[20, 21, 22, 23]) u where b.id = u returning b.id, u;
-- id integer | u integer
-- 20 | 20
-- 21 | 21
-- 22 | 22
-- DELETE 3
insert into bag values (30, generate_series(1, 2)::text);
-- ERROR 0A000: set-returning functions are not allowed here
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
update bag set items = generate_series(1, 2)::text where id = 1;
-- ERROR 0A000: set-returning functions are not allowed here
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
delete from bag where id = 1 returning generate_series(1, 2);
-- ERROR 0A000: set-returning functions are not allowed in RETURNING
-- HINT: You might be able to move the set-returning function into a LATERAL FROM item.
select * from bag order by id;
-- id integer | items text
-- 1 | x y
-- 2 | 
-- 3 | z
-- 4 | NULL
-- 7 | P
-- 8 | Q
-- SELECT 6
