-- # UPDATE … FROM
create table stock (id int primary key, n int, name text);
-- CREATE TABLE
create table delivery (id int primary key, item int, n int, note text);
-- CREATE TABLE
insert into stock values (1, 10, 'nut'), (2, 20, 'bolt'), (3, 30, 'screw');
-- INSERT 0 3
insert into delivery values (1, 2, 5, 'a'), (2, 3, 7, 'b'), (3, 9, 1, 'c');
-- INSERT 0 3
update stock set n = stock.n + d.n from delivery d where d.item = stock.id;
-- UPDATE 2
select * from stock order by id;
-- id integer | n integer | name text
-- 1 | 10 | nut
-- 2 | 25 | bolt
-- 3 | 37 | screw
-- SELECT 3
update stock as s set n = s.n + d.n, name = d.note || s.name from delivery d where d.item = s.id returning s.*, d.id, d.n as came;
-- id integer | n integer | name text | id integer | came integer
-- 2 | 30 | abolt | 1 | 5
-- 3 | 44 | bscrew | 2 | 7
-- UPDATE 2
update stock set n = v.n from (values (1, 100), (3, 300)) as v(id, n) where v.id = stock.id returning *;
-- id integer | n integer | name text | id integer | n integer
-- 1 | 100 | nut | 1 | 100
-- 3 | 300 | bscrew | 3 | 300
-- UPDATE 2
update stock s set n = t.sum from (select item, sum(n) as sum from delivery group by item) t where t.item = s.id returning s.id, s.n;
-- id integer | n integer
-- 2 | 5
-- 3 | 7
-- UPDATE 2
update stock s set name = o.name from stock o where o.id = s.id % 3 + 1 returning s.id, s.name, o.name;
-- id integer | name text | name text
-- 3 | nut | nut
-- 1 | abolt | abolt
-- 2 | bscrew | bscrew
-- UPDATE 3
update stock s set n = d.n from delivery d left join stock o on o.id = d.item where s.id = 1 and o.id is null returning s.id, s.n, d.id, o.id;
-- id integer | n integer | id integer | id integer
-- 1 | 1 | 3 | NULL
-- UPDATE 1
update stock s set n = 0 from delivery d join stock o on o.id = d.item where s.id = o.id and o.id > 2 returning s.id, d.id;
-- id integer | id integer
-- 3 | 2
-- UPDATE 1
update stock set n = 1 from delivery, stock s2 where stock.id = delivery.item and s2.id = delivery.item returning s2.id, stock.n, s2.n;
-- id integer | n integer | n integer
-- 2 | 1 | 5
-- 3 | 1 | 0
-- UPDATE 2
-- # A row that several others match is changed once, by the first
insert into delivery values (4, 2, 50, 'd'), (5, 2, 500, 'e');
-- INSERT 0 2
update stock s set n = d.n from delivery d where d.item = s.id returning s.id, s.n, d.id;
-- id integer | n integer | id integer
-- 2 | 5 | 1
-- 3 | 7 | 2
-- UPDATE 2
update stock s set n = v.n from (values (2, 8), (2, 9), (1, 7)) v(id, n) where v.id = s.id returning s.id, s.n;
-- id integer | n integer
-- 2 | 8
-- 1 | 7
-- UPDATE 2
update stock s set n = d.n from (select * from delivery order by id desc) d where d.item = s.id returning s.id, s.n, d.id;
-- id integer | n integer | id integer
-- 2 | 500 | 5
-- 3 | 7 | 2
-- UPDATE 2
update stock set n = n + 1 from delivery;
-- ERROR 42702: column reference "n" is ambiguous
select * from stock order by id;
-- id integer | n integer | name text
-- 1 | 7 | abolt
-- 2 | 500 | bscrew
-- 3 | 7 | nut
-- SELECT 3
-- # Keys, constraints, subqueries
update stock s set id = s.id + 10 from delivery d where d.item = s.id returning s.id, d.item;
-- id integer | item integer
-- 12 | 2
-- 13 | 3
-- UPDATE 2
update stock s set id = d.item from delivery d where d.id = 1 and s.id in (select max(id) from stock) returning s.id;
-- id integer
-- 2
-- UPDATE 1
alter table stock add check (n < 1000);
-- ALTER TABLE
update stock s set n = d.n * 1000 from delivery d where d.id = 3 and s.id = 1;
-- ERROR 23514: new row for relation "stock" violates check constraint "stock_n_check"
-- DETAIL: Failing row contains (1, 1000, abolt).
update stock s set n = null, name = (select max(note) from delivery) from delivery d where d.id = 1 and s.id = 1 returning *;
-- id integer | n integer | name text | id integer | item integer | n integer | note text
-- 1 | NULL | e | 1 | 2 | 5 | a
-- UPDATE 1
-- # What is refused
update stock set n = 1 from stock where true;
-- ERROR 42712: table name "stock" specified more than once
update stock s set n = 1 from delivery s;
-- ERROR 42712: table name "s" specified more than once
update stock s set n = id from delivery d;
-- ERROR 42702: column reference "id" is ambiguous
update stock s set d.n = 1 from delivery d;
-- ERROR 42703: column "d" of relation "stock" does not exist
-- HINT: SET names a column of the table alone: no relation before it.
update stock s set n = 1 from delivery d join stock o on o.id = s.id;
-- ERROR 42P01: missing FROM-clause entry for table "s"
update stock s set n = 1 from nothing;
-- ERROR 42P01: relation "nothing" does not exist
update stock from delivery set n = 1;
-- ERROR 42601: FROM stands behind SET
update delivery d set n = 1 from (select d.id) x;
-- ERROR 42P01: missing FROM-clause entry for table "d"
-- # DELETE … USING
delete from delivery d using stock s where s.id = d.item and s.n is not null returning d.id, s.id, s.n;
-- id integer | id integer | n integer
-- 1 | 2 | 7
-- 4 | 2 | 7
-- 5 | 2 | 7
-- DELETE 3
insert into delivery values (1, 2, 5, 'a'), (2, 13, 7, 'b'), (4, 2, 50, 'd');
-- ERROR 23505: duplicate key value violates unique constraint "delivery_pkey"
-- DETAIL: Key (id)=(2) already exists.
delete from stock s using delivery d where d.item = s.id returning s.*, d.id;
-- id integer | n integer | name text | id integer
-- DELETE 0
delete from delivery using (values (1), (4), (4)) v(id) where v.id = delivery.id;
-- DELETE 0
select * from delivery order by id;
-- id integer | item integer | n integer | note text
-- 2 | 3 | 7 | b
-- 3 | 9 | 1 | c
-- SELECT 2
delete from delivery d using delivery e where e.id > d.id returning d.id, e.id;
-- id integer | id integer
-- 2 | 3
-- DELETE 1
delete from delivery using delivery;
-- ERROR 42712: table name "delivery" specified more than once
-- # Without a key
create table plain (a int, b int);
-- CREATE TABLE
create table lines (a int, b int);
-- CREATE TABLE
insert into plain values (1, 1), (1, 2), (2, 3), (null, 4);
-- INSERT 0 4
insert into lines values (1, 10), (2, 20), (2, 20), (null, 40);
-- INSERT 0 4
update plain p set b = p.b + l.b from lines l where l.a = p.a returning p.a, p.b, l.b;
-- a integer | b integer | b integer
-- 1 | 11 | 10
-- 1 | 12 | 10
-- 2 | 23 | 20
-- UPDATE 3
delete from plain p using lines l where l.a = p.a and p.b > 20 returning p.*;
-- a integer | b integer
-- 2 | 23
-- DELETE 1
select * from plain order by b;
-- a integer | b integer
-- NULL | 4
-- 1 | 11
-- 1 | 12
-- SELECT 3
-- # Foreign keys
create table parent (id int primary key, name text);
-- CREATE TABLE
create table child (id int primary key, parent int references parent on delete cascade);
-- CREATE TABLE
insert into parent values (1, 'x'), (2, 'y'), (3, 'z');
-- INSERT 0 3
insert into child values (1, 1), (2, 1), (3, 2);
-- INSERT 0 3
update child c set parent = p.id from parent p where p.name = 'z' and c.parent = 2 returning c.*, p.name;
-- id integer | parent integer | name text
-- 3 | 3 | z
-- UPDATE 1
update child c set parent = v.n from (values (1, 7)) v(id, n) where v.id = c.id;
-- ERROR 23503: insert or update on table "child" violates foreign key constraint "child_parent_fkey"
-- DETAIL: Key (parent)=(7) is not present in table "parent".
delete from parent p using child c where c.parent = p.id and c.id = 2 returning p.id, c.id;
-- id integer | id integer
-- 1 | 2
-- DELETE 1
select * from child order by id;
-- id integer | parent integer
-- 3 | 3
-- SELECT 1
-- # Plans
explain update stock s set n = v.n from (values (1, 100), (3, 300)) as v(id, n) where v.id = s.id;
-- QUERY PLAN text
-- explain update stock s set n = v.n from (values (1, 100), (3, 300)) as v(id, n) where v.id = s.id
-- 
-- steps
--   1  for      (r0, r1, r2, r3) in
--          first of each id
--            select id, n, name, column2
--              for each
--                values (1, 100), (3, 300)
--                get stock[column1]: id, n, name
--        carry    r4 := 0
--   2    require  (r3 < 1000) is not false, else 23514 'new row for relation "stock" violates check constraint "stock_n_check"'  ← 1
--   3    update   stock[r0]: n := r3              ← 1; key 1; row 1
--        next     r4 := r4 + 1
--   4  count    r4 rows                           ← 1
-- 
-- keys        partial: steps 1, 3 need data
-- commands    3  stock: n set
-- footprint   stock: reads id, n, name; changes n by command
-- fragments   1  steps 1, 4  on many rows  may abort
-- EXPLAIN
explain delete from stock s using delivery d where d.item = s.id and d.id = 7;
-- QUERY PLAN text
-- explain delete from stock s using delivery d where d.item = s.id and d.id = 7
-- 
-- steps
--   1  for      (r0) in
--          first of each id
--            select id
--              for each
--                get delivery[7]: item
--                get stock[item]: id
--        carry    r1 := 0
--   2    delete   stock[r0]             ← key 1; row 1
--        next     r1 := r1 + 1
--   3  count    r1 rows                 ← 1
-- 
-- keys        partial: steps 1, 2 need data
-- footprint   stock: reads id; deletes
--             delivery: reads item
-- fragments   1  steps 1, 3  on many rows
-- EXPLAIN
