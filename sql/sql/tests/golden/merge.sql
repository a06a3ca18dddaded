-- # MERGE
create table wallet (id int primary key, cents int not null, note text default 'new', check (cents >= 0));
-- CREATE TABLE
create table entry (id int primary key, wallet int, cents int);
-- CREATE TABLE
insert into wallet values (1, 100, 'a'), (2, 200, 'b'), (3, 300, 'c');
-- INSERT 0 3
insert into entry values (1, 1, 50), (2, 2, -200), (3, 7, 70), (4, 8, 0);
-- INSERT 0 4
merge into wallet w using entry e on w.id = e.wallet
when matched and w.cents + e.cents = 0 then delete
when matched then update set cents = w.cents + e.cents, note = w.note || e.id
when not matched and e.cents > 0 then insert (id, cents) values (e.wallet, e.cents);
-- MERGE 3
select * from wallet order by id;
-- id integer | cents integer | note text
-- 1 | 150 | a1
-- 3 | 300 | c
-- 7 | 70 | new
-- SELECT 3
merge into wallet using (values (1, 5), (9, 9)) as v(id, n) on wallet.id = v.id
when not matched then insert values (v.id, v.n, 'made')
when matched then do nothing;
-- MERGE 1
select * from wallet order by id;
-- id integer | cents integer | note text
-- 1 | 150 | a1
-- 3 | 300 | c
-- 7 | 70 | new
-- 9 | 9 | made
-- SELECT 4
merge into wallet w using (values (1), (3)) v(id) on w.id = v.id when matched then update set cents = default, note = default;
-- ERROR 23502: null value in column "cents" of relation "wallet" violates not-null constraint
-- DETAIL: Failing row contains (1, null, new).
merge into wallet w using (values (1), (3)) v(id) on w.id = v.id when matched then update set cents = w.cents + 1, note = default;
-- MERGE 2
select * from wallet order by id;
-- id integer | cents integer | note text
-- 1 | 151 | new
-- 3 | 301 | new
-- 7 | 70 | new
-- 9 | 9 | made
-- SELECT 4
merge into wallet w using (values (1), (1)) v(id) on w.id = v.id when matched then update set cents = 0;
-- ERROR 21000: MERGE command cannot affect row a second time
-- HINT: Ensure that not more than one source row matches any one target row.
merge into wallet w using (values (1), (1)) v(id) on w.id = v.id when matched then delete;
-- ERROR 21000: MERGE command cannot affect row a second time
-- HINT: Ensure that not more than one source row matches any one target row.
merge into wallet w using (values (1, 1), (1, 0)) v(id, n) on w.id = v.id when matched and v.n = 1 then update set cents = 11 when matched then do nothing;
-- MERGE 1
merge into wallet w using (values (20), (20)) v(id) on w.id = v.id when not matched then insert (id, cents) values (v.id, 1);
-- ERROR 23505: duplicate key value violates unique constraint "wallet_pkey"
-- DETAIL: Key (id)=(20) already exists.
merge into wallet w using (values (20)) v(id) on w.id = v.id when not matched then insert (id, cents) values (v.id, -1);
-- ERROR 23514: new row for relation "wallet" violates check constraint "wallet_cents_check"
-- DETAIL: Failing row contains (20, -1, new).
merge into wallet w using (values (20)) v(id) on w.id = v.id when not matched then insert default values;
-- ERROR 23502: null value in column "id" of relation "wallet" violates not-null constraint
-- DETAIL: Failing row contains (null, null, new).
merge into wallet w using (values (1)) v(id) on w.id = v.id when not matched then do nothing;
-- MERGE 0
merge into wallet w using (select wallet as id, count(*) as n from entry group by wallet) v on w.id = v.id and v.n = 1
when matched and w.id = 1 then delete
when not matched then insert (cents, id) values ((select max(cents) from entry), v.id + 100);
-- MERGE 3
select * from wallet order by id;
-- id integer | cents integer | note text
-- 3 | 301 | new
-- 7 | 70 | new
-- 9 | 9 | made
-- 102 | 70 | new
-- 108 | 70 | new
-- SELECT 5
merge into wallet w using wallet o on w.id = o.id + 6 when matched then update set note = o.note || '>' || w.note;
-- MERGE 2
select * from wallet order by id;
-- id integer | cents integer | note text
-- 3 | 301 | new
-- 7 | 70 | new
-- 9 | 9 | new>made
-- 102 | 70 | new
-- 108 | 70 | new>new
-- SELECT 5
with v as (select 7 as id) merge into wallet w using v on w.id = v.id when matched then delete;
-- MERGE 1
merge into wallet w using (values (9), (50)) v(id) on w.id = v.id
when matched then update set cents = 1 when not matched then insert (id, cents) values (v.id, 5) returning w.*, v.id;
-- id integer | cents integer | note text | id integer
-- 9 | 1 | new>made | 9
-- 50 | 5 | new | 50
-- MERGE 2
explain merge into wallet w using (values (1, 5)) as v(id, n) on w.id = v.id
when not matched then insert (id, cents) values (v.id, v.n) when matched then update set cents = v.n;
-- QUERY PLAN text
-- explain merge into wallet w using (values (1, 5)) as v(id, n) on w.id = v.id
-- when not matched then insert (id, cents) values (v.id, v.n) when matched then update set cents = v.n
-- 
-- steps
--    1  for      (r0, r1, r2, r3, r4, r5, r6) in
--           repeats of id
--             where case when id is null then 0 when id is not null then 1 else null end is not null
--               select id, cents, note, column1, column2, case when id is null then 0 when id is not null then 1 else null end
--                 left for each
--                   values (1, 5)
--                   get wallet[column1]: id, cents, note
--         carry    r7 := 0
--    2    require  not r6, else 21000 'MERGE command cannot affect row a second time'  ← 1
--    3    if       r5 = 0                                                              ← 1
--    4      require  r3 is not null, else 23502 'null value in column "id" of relation "wallet" violates not-null constraint'  ← 1
--    5      require  r4 is not null, else 23502 'null value in column "cents" of relation "wallet" violates not-null constraint'  ← 1
--    6      require  (r4 >= 0) is not false, else 23514 'new row for relation "wallet" violates check constraint "wallet_cents_check"'  ← 1
--    7      insert   wallet (r3, r4, 'new') → inserted r8                              ← 1; key 1; row 1
--    8      require  r8, else 23505 'duplicate key value violates unique constraint "wallet_pkey"'  ← 1, 7
--         else
--    9      if       r5 = 1                                                            ← 1
--   10        require  r4 is not null, else 23502 'null value in column "cents" of relation "wallet" violates not-null constraint'  ← 1
--   11        require  (r4 >= 0) is not false, else 23514 'new row for relation "wallet" violates check constraint "wallet_cents_check"'  ← 1
--   12        update   wallet[r0]: cents := r4                                         ← 1; key 1; row 1, 7
--           merge    r10 := 1 | 0
--         merge    r11 := 1 | r10
--         next     r7 := r7 + r11
--   13  count    r7 rows                                                               ← 1
-- 
-- keys        partial: steps 1, 7, 12 need data
-- commands    12  wallet: cents set
-- footprint   wallet: reads id, cents, note; changes cents by command; inserts
-- fragments   1  steps 1, 13  on many rows  may abort
-- EXPLAIN

-- # What MERGE refuses
merge into wallet w using entry e on w.id = e.wallet when matched then delete when matched then do nothing;
-- ERROR 42601: unreachable WHEN clause specified after unconditional WHEN clause
merge into wallet w using entry e on w.id = e.wallet when not matched then insert (id, cents) values (w.id, 1);
-- ERROR 42P01: missing FROM-clause entry for table "w"
merge into wallet w using entry e on w.id = e.wallet when not matched and w.id = 1 then do nothing;
-- ERROR 42P01: missing FROM-clause entry for table "w"
merge into wallet w using entry e on w.id = e.wallet when not matched by source then delete;
-- ERROR 0A000: WHEN NOT MATCHED BY SOURCE is not supported
merge into wallet w using wallet on true when matched then delete;
-- ERROR 21000: MERGE command cannot affect row a second time
-- HINT: Ensure that not more than one source row matches any one target row.
merge into wallet using wallet on true when matched then delete;
-- ERROR 42712: table name "wallet" specified more than once
merge into nothing using wallet on true when matched then delete;
-- ERROR 42P01: relation "nothing" does not exist
merge into wallet w using entry e on w.id = e.wallet when not matched then update set cents = 1;
-- ERROR 42601: syntax error: UPDATE is not allowed in a NOT MATCHED merge clause
merge into wallet w using entry e on w.id = e.wallet when not matched then insert (id, id) values (1, 1);
-- ERROR 42701: column "id" specified more than once
merge into wallet w using entry e on w.id = e.wallet when not matched then insert (id) values (1, 1);
-- ERROR 42601: INSERT has more expressions than target columns
merge into wallet w using entry e on w.id = e.wallet;
-- ERROR 42601: MERGE without a WHEN clause

-- # Without a key, and with a draw
create table loose (a int, b int);
-- CREATE TABLE
insert into loose values (1, 1), (1, 2), (2, 3);
-- INSERT 0 3
merge into loose l using (values (1, 10), (5, 50)) v(a, b) on l.a = v.a
when matched then update set b = l.b + v.b when not matched then insert values (v.a, v.b);
-- MERGE 3
select * from loose order by a, b;
-- a integer | b integer
-- 1 | 11
-- 1 | 12
-- 2 | 3
-- 5 | 50
-- SELECT 4

-- # WITH in front of what changes
with d as (select wallet as id, cents from entry) update wallet w set cents = d.cents from d where d.id = w.id and d.cents > 0 returning w.id, w.cents;
-- id integer | cents integer
-- UPDATE 0
with d as (select 3 as id) delete from wallet using d where d.id = wallet.id returning wallet.*;
-- id integer | cents integer | note text
-- 3 | 301 | new
-- DELETE 1
with d(a, b) as (values (7, 70)) insert into loose select * from d returning *;
-- a integer | b integer
-- 7 | 70
-- INSERT 0 1
with a as (select 1 as n), b as (select n + 1 as n from a) update loose set b = b.n from b where loose.a = b.n returning loose.*;
-- a integer | b integer
-- 2 | 2
-- UPDATE 1
