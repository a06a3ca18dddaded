-- # What changes, and is named
create table job (id int primary key, state text not null default 'new', n int, at int generated always as (n * 2) stored);
-- CREATE TABLE
create table done (id int primary key, job int references job, note text default 'moved');
-- CREATE TABLE
insert into job (id, n) values (1, 10), (2, 20), (3, 30);
-- INSERT 0 3
with x as (insert into job (id, n) values (4, 40), (5, 50) returning *) select id, state, at from x order by id;
-- id integer | state text | at integer
-- 4 | new | 80
-- 5 | new | 100
-- SELECT 2
with x as (insert into job (id, n) values (6, 60) returning id, n) select x.*, (select count(*) from job) as before from x;
-- id integer | n integer | before bigint
-- 6 | 60 | 5
-- SELECT 1
select count(*) from job;
-- count bigint
-- 6
-- SELECT 1
with moved as (delete from job where n > 30 returning *) insert into done (id, note) select id, state || n from moved returning *;
-- id integer | job integer | note text
-- 4 | NULL | new40
-- 5 | NULL | new50
-- 6 | NULL | new60
-- INSERT 0 3
select id from job order by id;
-- id integer
-- 1
-- 2
-- 3
-- SELECT 3
with x as (update job set n = n + 1 where id < 3 returning id, n, at) select * from x order by id;
-- id integer | n integer | at integer
-- 1 | 11 | 22
-- 2 | 21 | 42
-- SELECT 2
select id, n, at from job order by id;
-- id integer | n integer | at integer
-- 1 | 11 | 22
-- 2 | 21 | 42
-- 3 | 30 | 60
-- SELECT 3
with up as (update job set n = 7 where id = 9 returning *) insert into job (id, n) select 9, 7 where not exists (select * from up);
-- INSERT 0 1
with up as (update job set n = 8 where id = 9 returning *) insert into job (id, n) select 9, 7 where not exists (select * from up);
-- INSERT 0 0
select id, n from job order by id;
-- id integer | n integer
-- 1 | 11
-- 2 | 21
-- 3 | 30
-- 9 | 8
-- SELECT 4
with p as (insert into job (id, n) values (20, 1), (21, 2) returning id) insert into done (id, job) select id + 100, id from p;
-- INSERT 0 2
select * from done order by id;
-- id integer | job integer | note text
-- 4 | NULL | new40
-- 5 | NULL | new50
-- 6 | NULL | new60
-- 120 | 20 | moved
-- 121 | 21 | moved
-- SELECT 5
with a as (update job set state = 'a' where id = 1 returning id), b as (update done set note = a.id || '!' from a where done.id = 120 returning done.id, note) select a.id, b.id, b.note from a, b;
-- id integer | id integer | note text
-- 1 | 120 | 1!
-- SELECT 1
with gone as (delete from done returning id) select count(*), max(id), (select count(*) from done) as there from gone;
-- count bigint | max integer | there bigint
-- 5 | 121 | 5
-- SELECT 1
select count(*) from done;
-- count bigint
-- 0
-- SELECT 1
with x as (delete from job where id = 20) select 1 as one;
-- one integer
-- 1
-- SELECT 1
with x(a, b) as (update job j set n = v.n from (values (1, 100), (2, 200)) v(id, n) where v.id = j.id returning j.id, v.n), y as (select sum(b) as s from x) select x.a, y.s from x, y order by a;
-- a integer | s bigint
-- 1 | 300
-- 2 | 300
-- SELECT 2
with src as (select id, n from job where id < 3), x as (delete from job using src where src.id = job.id returning job.id, src.n) select * from x order by id;
-- id integer | n integer
-- 1 | 100
-- 2 | 200
-- SELECT 2
with x as (insert into done (id) values (1) returning *), y as (insert into done (id) values (2) returning id) select x.id, x.note, y.id from x, y;
-- id integer | note text | id integer
-- 1 | moved | 2
-- SELECT 1
with x as (insert into done (id) values (3) on conflict do nothing) merge into job using (values (3)) v(id) on v.id = job.id when matched then update set n = 33;
-- MERGE 1
select * from done order by id;
-- id integer | job integer | note text
-- 1 | NULL | moved
-- 2 | NULL | moved
-- 3 | NULL | moved
-- SELECT 3
with x as (insert into done values (1) returning id) select * from x;
-- ERROR 23505: duplicate key value violates unique constraint "done_pkey"
-- DETAIL: Key (id)=(1) already exists.
with x as (insert into job (id, n) select id + 1000, n from job returning id) select count(*) from x;
-- count bigint
-- 3
-- SELECT 1
select count(*) from job;
-- count bigint
-- 6
-- SELECT 1
with x as (update job set id = id + 1 where id = 3 returning id) select * from x;
-- id integer
-- 4
-- SELECT 1
-- # What is refused
with x as (update job set n = 1), y as (update job set n = 2) select 1;
-- ERROR 0A000: changing rows of "job" in two parts of one statement is not supported
with x as (delete from job where id = 3) update job set n = 2;
-- ERROR 0A000: changing rows of "job" in two parts of one statement is not supported
with x as (delete from job where id = 4) select * from x;
-- ERROR 0A000: WITH query "x" does not have a RETURNING clause
with x as (insert into done values (1) on conflict do nothing returning id) select * from x;
-- ERROR 0A000: RETURNING of INSERT … ON CONFLICT within WITH is not supported
select * from (with x as (delete from job returning id) select * from x) y;
-- ERROR 0A000: WITH clause containing a data-modifying statement must be at the top level
with recursive x as (delete from job where id in (select id from x) returning id) select * from x;
-- ERROR 42P19: recursive query "x" must not contain data-modifying statements
with x as (merge into job using done on true when matched then delete) select 1;
-- ERROR 0A000: MERGE in a WITH query is not supported
with x as (delete from nothing returning id) select * from x;
-- ERROR 42P01: relation "nothing" does not exist
with x as (delete from job returning nothing) select * from x;
-- ERROR 42703: column "nothing" does not exist
explain with x as (delete from job where id = 4 returning id, n) insert into done select id, null, n::text from x;
-- QUERY PLAN text
-- explain with x as (delete from job where id = 4 returning id, n) insert into done select id, null, n::text from x
-- 
-- steps
--    1  fetch    the first row of → r0, r1
--           aggregate array_agg(id), array_agg(n)
--             get job[4]: id, n
--    2  fetch    the first row of → r10, r11, r12                                    ← 1
--           aggregate array_agg(element), array_agg(null), array_agg(element::text)
--             select element, null, element::text
--               select element, null, element::text
--                 select element, element
--                   side by side
--                     unnest r0
--                     unnest r1
--    3  for      (r3, r4) in                                                         ← 1
--           side by side
--             unnest r0
--             unnest r1
--         carry    r5 := 0
--         carry    r6 := null
--         carry    r7 := null
--    4    fetch    the first row of → found r8                                       ← 3
--             select 
--               scan done by primary key: job where job = r3
--    5    require  not r8, else 23503 'update or delete on table "job" violates foreign key constraint "done_job_fkey" on table "done"'  ← 3, 4
--    6    delete   job[r3]                                                           ← key 3; row 1
--         next     r5 := r5 + 1
--         next     r6 := r3
--         next     r7 := r4
--    7  for      (r14, r15, r16) in                                                  ← 2
--           side by side
--             unnest r10
--             unnest r11
--             unnest r12
--         carry    r17 := 0
--    8    require  r14 is not null, else 23502 'null value in column "id" of relation "done" violates not-null constraint'  ← 7
--    9    exists   job[r15] → found r18                                              ← key 7; row 6
--   10    require  r18 or r15 is null, else 23503 'insert or update on table "done" violates foreign key constraint "done_job_fkey"'  ← 7, 9
--   11    insert   done (r14, r15, r16) → inserted r19                               ← 7; key 7; row 4
--   12    require  r19, else 23505 'duplicate key value violates unique constraint "done_pkey"'  ← 7, 11
--         next     r17 := r17 + 1
--   13  count    r17 rows                                                            ← 7
-- 
-- keys        partial: steps 6, 9, 11 need data
-- footprint   job: reads id, n; deletes
--             done: reads job; scans primary key; inserts
-- fragments   1  steps 1, 2   on many rows
--             2  step 3       on many rows  may abort, data from 1, commits after 3
--             3  steps 7, 13  on many rows  may abort, data from 1, commits after 2
-- EXPLAIN
