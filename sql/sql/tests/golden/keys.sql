-- # ON UPDATE
create table p (id int primary key, code text unique, v int);
-- CREATE TABLE
create table c (id int primary key, p int references p on update cascade on delete cascade, code text references p (code) on update set null);
-- CREATE TABLE
create table d (id int primary key, p int default 9 references p on update set default);
-- CREATE TABLE
create table e (id int primary key references c on update cascade, note text);
-- CREATE TABLE
insert into p values (1, 'a', 0), (2, 'b', 0), (9, 'z', 0);
-- INSERT 0 3
insert into c values (10, 1, 'a'), (11, 2, 'b'), (12, 1, null);
-- INSERT 0 3
insert into d values (1, 2), (2, 9);
-- INSERT 0 2
insert into e values (10, 'ten');
-- INSERT 0 1
update p set id = 5 where id = 1;
-- UPDATE 1
select * from c order by id;
-- id integer | p integer | code text
-- 10 | 5 | a
-- 11 | 2 | b
-- 12 | 5 | NULL
-- SELECT 3
update p set id = id + 100, v = 1 where id in (2, 5);
-- UPDATE 2
select * from c order by id;
-- id integer | p integer | code text
-- 10 | 105 | a
-- 11 | 102 | b
-- 12 | 105 | NULL
-- SELECT 3
select * from d order by id;
-- id integer | p integer
-- 1 | 9
-- 2 | 9
-- SELECT 2
update p set code = code || '!' where id = 105;
-- UPDATE 1
update p set code = 'b', v = 2 where id = 102;
-- UPDATE 1
select * from c order by id;
-- id integer | p integer | code text
-- 10 | 105 | NULL
-- 11 | 102 | b
-- 12 | 105 | NULL
-- SELECT 3
update c set id = id + 1 where id = 10;
-- ERROR 23505: duplicate key value violates unique constraint "c_pkey"
-- DETAIL: Key (id)=(11) already exists.
update c set id = id + 20 where id = 10;
-- UPDATE 1
select * from e;
-- id integer | note text
-- 30 | ten
-- SELECT 1
update p set id = 1000 where id = 9;
-- ERROR 23503: insert or update on table "d" violates foreign key constraint "d_p_fkey"
-- DETAIL: Key (p)=(9) is not present in table "p".
update p set id = 102 where id = 105;
-- ERROR 23505: duplicate key value violates unique constraint "p_pkey"
-- DETAIL: Key (id)=(102) already exists.
delete from p where id = 105;
-- ERROR 23503: update or delete on table "c" violates foreign key constraint "e_id_fkey" on table "e"
-- DETAIL: Key (id)=(30) is still referenced from table "e".
select * from c order by id;
-- id integer | p integer | code text
-- 11 | 102 | b
-- 12 | 105 | NULL
-- 30 | 105 | NULL
-- SELECT 3
select * from p order by id;
-- id integer | code text | v integer
-- 9 | z | 0
-- 102 | b | 2
-- 105 | a! | 1
-- SELECT 3
create table tree (id int primary key, up int references tree on update cascade);
-- CREATE TABLE
insert into tree values (1, null), (2, 1);
-- INSERT 0 2
update tree set id = 3 where id = 1;
-- UPDATE 1
update tree set up = null where id = 2;
-- UPDATE 1
explain update p set id = 7 where id = 102;
-- QUERY PLAN text
-- explain update p set id = 7 where id = 102
-- 
-- steps
--    1  read     p[102]: id → r0, code → r1, v → r2 → found r3
--    2  if       r3                                                                          ← 1
--    3    delete   p[102]                                                                    ← row 1
--    4    insert   p (7, r1, r2) → inserted r5                                               ← 1
--    5    require  r5, else 23505 'duplicate key value violates unique constraint "p_pkey"'  ← 4
--    6    for      (r6, r7, r8) in
--             where 7 is distinct from 102
--               scan c by primary key: id, p, code where p = 102
--    7      exists   p[7] → found r9                                                         ← row 4
--    8      require  r9 or 7 is null, else 23503 'insert or update on table "c" violates foreign key constraint "c_p_fkey"'  ← 7
--    9      update   c[r6]: p := 7                                                           ← key 6; row 6
--   10    for      (r11, r12) in
--             where 7 is distinct from 102
--               scan d by primary key: id, p where p = 102
--   11      exists   p[9] → found r13
--   12      require  r13 or 9 is null, else 23503 'insert or update on table "d" violates foreign key constraint "d_p_fkey"'  ← 11
--   13      update   d[r11]: p := 9                                                          ← key 10; row 10
--       merge    r15 := 1 | 0
--   14  count    r15 rows                                                                    ← 2
-- 
-- keys        partial: steps 9, 13 need data
-- commands    9  c: p set
--             13  d: p set
-- footprint   p: reads id, code, v; inserts; deletes
--             c: reads id, p, code; scans primary key; changes p by command
--             d: reads id, p; scans primary key; changes p by command
-- fragments   1  step 1       on p[102]
--             2  steps 2, 14  on many rows  may abort, data from 1
-- EXPLAIN

-- # Renaming
create table r (id int primary key, a int unique, b int check (b > 0), p int references p);
-- CREATE TABLE
create index r_b on r (b);
-- CREATE INDEX
alter table r rename constraint r_a_key to a_only;
-- ALTER TABLE
alter table r rename constraint r_b_check to b_positive;
-- ALTER TABLE
alter table r rename constraint r_p_fkey to to_p;
-- ALTER TABLE
alter table r rename constraint r_pkey to r_key;
-- ALTER TABLE
alter table r rename constraint nothing to x;
-- ERROR 42704: constraint "nothing" for table "r" does not exist
alter table r rename constraint to_p to b_positive;
-- ERROR 42710: constraint "b_positive" for relation "r" already exists
alter table r rename constraint a_only to p;
-- ERROR 42P07: relation "p" already exists
alter index r_b rename to r_bb;
-- ALTER INDEX
alter index if exists r_b rename to r_c;
-- ALTER INDEX
alter index r_b rename to r_c;
-- ERROR 42P01: relation "r_b" does not exist
alter index r_bb rename to r_key;
-- ERROR 42P07: relation "r_key" already exists
insert into r values (1, 1, 0, null);
-- ERROR 23514: new row for relation "r" violates check constraint "b_positive"
-- DETAIL: Failing row contains (1, 1, 0, null).
insert into r values (1, 1, 1, 55);
-- ERROR 23503: insert or update on table "r" violates foreign key constraint "to_p"
-- DETAIL: Key (p)=(55) is not present in table "p".
insert into r values (1, 1, 1, null);
-- INSERT 0 1
insert into r values (2, 1, 1, null);
-- ERROR 23505: duplicate key value violates unique constraint "a_only"
-- DETAIL: Key (a)=(1) already exists.
insert into r values (1, 2, 1, null);
-- ERROR 23505: duplicate key value violates unique constraint "r_key"
-- DETAIL: Key (id)=(1) already exists.
alter table r drop constraint b_positive;
-- ALTER TABLE
drop index concurrently if exists r_bb;
-- DROP INDEX
drop index concurrently r_bb;
-- ERROR 42704: index "r_bb" does not exist
create view w as select id, a from r;
-- CREATE VIEW
create view w2 as select id from w;
-- CREATE VIEW
alter view w rename to w3;
-- ERROR 2BP01: cannot rename view w because other objects depend on it
-- DETAIL: view w2 depends on view w
alter view w2 rename to w4;
-- ALTER VIEW
select * from w4;
-- id integer
-- 1
-- SELECT 1
alter view if exists w2 rename to w5;
-- ALTER VIEW
alter view w2 rename to w5;
-- ERROR 42P01: relation "w2" does not exist
alter view w4 rename to r;
-- ERROR 42P07: relation "r" already exists

-- # NOT VALID
create table n (id int primary key, a int, p int);
-- CREATE TABLE
insert into n values (1, -1, 77), (2, 1, 102);
-- INSERT 0 2
alter table n add constraint a_positive check (a > 0) not valid;
-- ALTER TABLE
alter table n add constraint n_p foreign key (p) references p not valid;
-- ALTER TABLE
insert into n values (3, -1, null);
-- ERROR 23514: new row for relation "n" violates check constraint "a_positive"
-- DETAIL: Failing row contains (3, -1, null).
insert into n values (3, 1, 78);
-- ERROR 23503: insert or update on table "n" violates foreign key constraint "n_p"
-- DETAIL: Key (p)=(78) is not present in table "p".
alter table n validate constraint a_positive;
-- ERROR 23514: check constraint "a_positive" of relation "n" is violated by some row
alter table n validate constraint n_p;
-- ERROR 23503: insert or update on table "n" violates foreign key constraint "n_p"
update n set a = 5, p = 102 where id = 1;
-- UPDATE 1
alter table n validate constraint a_positive;
-- ALTER TABLE
alter table n validate constraint n_p;
-- ALTER TABLE
alter table n validate constraint nothing;
-- ERROR 42704: constraint "nothing" of relation "n" does not exist
alter table n add unique (a) not valid;
-- ERROR 0A000: this kind of constraint cannot be marked NOT VALID

-- # DEFERRABLE
create table f (id int primary key, p int references p deferrable initially deferred, q int constraint q_key references p deferrable);
-- CREATE TABLE
insert into f values (1, 5, null);
-- ERROR 23503: insert or update on table "f" violates foreign key constraint "f_p_fkey"
-- DETAIL: Key (p)=(5) is not present in table "p".
set constraints all immediate;
-- Command(SetConstraints { names: [], deferred: false })
set constraints all deferred;
-- Command(SetConstraints { names: [], deferred: true })
set constraints f_p_fkey, q_key deferred;
-- Command(SetConstraints { names: ["f_p_fkey", "q_key"], deferred: true })
set constraints nothing immediate;
-- ERROR 42704: constraint "nothing" does not exist
set constraints to_p immediate;
-- ERROR 42809: constraint "to_p" is not deferrable
create table g (id int primary key deferrable);
-- ERROR 0A000: a DEFERRABLE primary key is not supported
-- HINT: Leave DEFERRABLE out: foreign keys and UNIQUE constraints can wait.

-- # INCLUDE, CONCURRENTLY
create index concurrently if not exists r_i on r (b) include (a, p);
-- CREATE INDEX
create unique index on r (b) include (nothing);
-- ERROR 42703: column "nothing" of relation "r" does not exist
create index r_i on r (a);
-- ERROR 42P07: relation "r_i" already exists

-- # ALTER COLUMN … TYPE
create table t (id int primary key, a int not null default 7, b text, c numeric(10,2) check (c < 100), u int unique, p int references p);
-- CREATE TABLE
create index on t (b, a);
-- CREATE INDEX
insert into t values (1, 10, '5', 1.25, 1, 102), (2, 20, '6', 99.5, 2, null);
-- INSERT 0 2
alter table t alter column a type bigint;
-- ALTER TABLE
alter table t alter a set data type text;
-- ALTER TABLE
insert into t (id, b) values (3, '7');
-- INSERT 0 1
select * from t order by id;
-- id integer | a text | b text | c numeric(10,2) | u integer | p integer
-- 1 | 10 | 5 | 1.25 | 1 | 102
-- 2 | 20 | 6 | 99.50 | 2 | NULL
-- 3 | 7 | 7 | NULL | NULL | NULL
-- SELECT 3
alter table t alter b type int;
-- ERROR 42804: column "b" cannot be cast automatically to type integer
-- HINT: You might need to specify "USING "b"::integer".
alter table t alter b type int using b::int * 2;
-- ALTER TABLE
select id, b from t where b > 10 order by b;
-- id integer | b integer
-- 2 | 12
-- 3 | 14
-- SELECT 2
alter table t alter c type int;
-- ERROR 23514: check constraint "t_c_check" of relation "t" is violated by some row
select id, c from t where c is not null order by id;
-- id integer | c numeric(10,2)
-- 1 | 1.25
-- 2 | 99.50
-- SELECT 2
insert into t (id, c) values (4, 100);
-- ERROR 23514: new row for relation "t" violates check constraint "t_c_check"
-- DETAIL: Failing row contains (4, 7, null, 100.00, null, null).
alter table t alter a type int;
-- ERROR 42804: column "a" cannot be cast automatically to type integer
-- HINT: You might need to specify "USING "a"::integer".
alter table t alter a drop default;
-- ALTER TABLE
alter table t alter a type int using a::int;
-- ALTER TABLE
alter table t alter u type int using 1;
-- ERROR 23505: could not create unique index "t_u_key"
alter table t alter p type text using p::text;
-- ERROR 42804: foreign key constraint cannot be implemented
-- DETAIL: Key columns "p" and "id" are of incompatible types: text and integer.
alter table t alter p type bigint;
-- ALTER TABLE
alter table t alter p type int using 55;
-- ERROR 23503: insert or update on table "t" violates foreign key constraint "t_p_fkey"
alter table t alter b type int using null;
-- ALTER TABLE
alter table t alter a type int using nullif(a, 10);
-- ERROR 23502: column "a" of relation "t" contains null values
alter table t alter id type text using id::text;
-- ALTER TABLE
select * from t where id = '2';
-- id text | a integer | b integer | c numeric(10,2) | u integer | p bigint
-- 2 | 20 | NULL | 99.50 | 2 | NULL
-- SELECT 1
alter table t alter b type timestamp using now();
-- ERROR 0A000: a USING clause that is not immutable is not supported
alter table t alter b type int using (select 1);
-- ERROR 0A000: a subquery in a USING clause is not supported
alter table t alter b type xml;
-- ERROR 0A000: type xml is not supported
alter table p alter id type text;
-- ERROR 42804: foreign key constraint cannot be implemented
-- DETAIL: Key columns "p" and "id" are of incompatible types: integer and text.
create table gen (a int, b int generated always as (a * 2) stored);
-- CREATE TABLE
alter table gen alter a type bigint;
-- ERROR 0A000: cannot alter type of a column used by a generated column
create view tv as select b from t;
-- CREATE VIEW
alter table t alter b type bigint;
-- ERROR 2BP01: cannot alter table t because other objects depend on it
-- DETAIL: view tv depends on table t
-- HINT: Drop the view first, and create it again afterwards.
select * from t order by id;
-- id text | a integer | b integer | c numeric(10,2) | u integer | p bigint
-- 1 | 10 | NULL | 1.25 | 1 | 102
-- 2 | 20 | NULL | 99.50 | 2 | NULL
-- 3 | 7 | NULL | NULL | NULL | NULL
-- SELECT 3
