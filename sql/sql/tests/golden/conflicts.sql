-- # ON CONFLICT DO UPDATE comes to a row once
create table k (id int primary key, v int, n int unique);
-- CREATE TABLE
insert into k values (1, 5), (1, 7) on conflict (id) do update set v = k.v + excluded.v;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
insert into k values (1, 5);
-- INSERT 0 1
insert into k values (2, 0), (1, 1), (1, 7) on conflict (id) do update set v = k.v + excluded.v;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
insert into k select 1, 1 union all select 2, 2 on conflict (id) do update set v = k.v + excluded.v returning *;
-- id integer | v integer | n integer
-- 1 | 6 | NULL
-- 2 | 2 | NULL
-- INSERT 0 2
insert into k values (1, 1), (1, 2) on conflict (id) do update set v = 0 where k.v < 0;
-- INSERT 0 0
insert into k values (1, 1), (1, 2) on conflict (id) do update set v = 0 where excluded.v = 2 returning *;
-- id integer | v integer | n integer
-- 1 | 0 | NULL
-- INSERT 0 1
insert into k values (1, 2), (1, 1) on conflict (id) do update set v = 0 where excluded.v = 2;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
insert into k values (3, 1), (3, 1) on conflict (id) do update set v = 0 where false;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
insert into k values (4, 1, null), (5, 1, null) on conflict (n) do update set v = 9;
-- INSERT 0 2
insert into k values (6, 1, 7), (8, 1, 7) on conflict (n) do update set v = 9;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
insert into k values (6, 1, 7), (8, 1, 7), (9, 1, 8) on conflict (n) do nothing returning id;
-- id integer
-- 6
-- 9
-- INSERT 0 2
insert into k values (20, 1), (20, 2), (20, 3) on conflict do nothing;
-- INSERT 0 1
select * from k;
-- id integer | v integer | n integer
-- 1 | 0 | NULL
-- 2 | 2 | NULL
-- 4 | 1 | NULL
-- 5 | 1 | NULL
-- 6 | 1 | 7
-- 9 | 1 | 8
-- 20 | 1 | NULL
-- SELECT 7
with d as (insert into k values (30, 1), (30, 2) on conflict (id) do update set v = 0) select 1;
-- ERROR 21000: ON CONFLICT DO UPDATE command cannot affect row a second time
-- HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
create table kg (id int primary key, v int not null, w int generated always as (v * 2) stored);
-- CREATE TABLE
insert into kg values (1, 1), (1, null) on conflict (id) do update set v = excluded.v;
-- ERROR 23502: null value in column "v" of relation "kg" violates not-null constraint
-- DETAIL: Failing row contains (1, null, null).
insert into kg values (1, 1), (2, 2) on conflict (id) do update set v = excluded.v + 10 returning *;
-- id integer | v integer | w integer
-- 1 | 1 | 2
-- 2 | 2 | 4
-- INSERT 0 2
insert into kg values (1, 1), (2, 2) on conflict (id) do update set v = excluded.v + 10 where excluded.w > 2 returning *;
-- id integer | v integer | w integer
-- 2 | 12 | 24
-- INSERT 0 1

-- # MERGE fails as its rows do, one after the other
create table m (id int primary key, v int not null, u int unique);
-- CREATE TABLE
insert into m values (1, 1, 1), (2, 2, 2);
-- INSERT 0 2
merge into m using (values (1, null::int), (1, 2)) s(id, v) on m.id = s.id when matched then update set v = s.v;
-- ERROR 23502: null value in column "v" of relation "m" violates not-null constraint
-- DETAIL: Failing row contains (1, null, 1).
merge into m using (values (1, 2), (1, 3)) s(id, u) on m.id = s.id when matched then update set u = s.u;
-- ERROR 23505: duplicate key value violates unique constraint "m_u_key"
-- DETAIL: Key (u)=(2) already exists.
merge into m using (values (1, 3), (1, 4)) s(id, u) on m.id = s.id when matched then update set u = s.u;
-- ERROR 21000: MERGE command cannot affect row a second time
-- HINT: Ensure that not more than one source row matches any one target row.
merge into m using (values (3, 3), (3, 4)) s(id, v) on m.id = s.id when not matched then insert (id, v) values (s.id, s.v);
-- ERROR 23505: duplicate key value violates unique constraint "m_pkey"
-- DETAIL: Key (id)=(3) already exists.
merge into m using (values (3, null::int), (3, 4)) s(id, v) on m.id = s.id when not matched then insert (id, v) values (s.id, s.v);
-- ERROR 23502: null value in column "v" of relation "m" violates not-null constraint
-- DETAIL: Failing row contains (3, null, null).
merge into m using (values (1, 1), (1, 2)) s(id, v) on m.id = s.id when matched and s.v = 2 then update set v = 7 when matched then do nothing;
-- MERGE 1
select * from m;
-- id integer | v integer | u integer
-- 1 | 7 | 1
-- 2 | 2 | 2
-- SELECT 2
