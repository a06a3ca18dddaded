create table tree (id int primary key, up int references tree on update cascade on delete cascade);
-- CREATE TABLE
insert into tree values (1, null), (2, 1), (3, 2), (4, 1), (5, 5);
-- INSERT 0 5
update tree set id = 30 where id = 3;
-- UPDATE 1
update tree set id = 10 where id = 1;
-- UPDATE 1
select * from tree order by id;
-- id integer | up integer
-- 2 | 10
-- 4 | 10
-- 5 | 5
-- 10 | NULL
-- 30 | 2
-- SELECT 5
update tree set id = id + 100;
-- UPDATE 5
select * from tree order by id;
-- id integer | up integer
-- 102 | 110
-- 104 | 110
-- 105 | 105
-- 110 | NULL
-- 130 | 102
-- SELECT 5
update tree set id = id + 1000, up = up where id > 102;
-- UPDATE 4
select * from tree order by id;
-- id integer | up integer
-- 102 | 1110
-- 1104 | 1110
-- 1105 | 1105
-- 1110 | NULL
-- 1130 | 102
-- SELECT 5
update tree set id = 1, up = 1 where id = 1105;
-- UPDATE 1
select * from tree order by id;
-- id integer | up integer
-- 1 | 1
-- 102 | 1110
-- 1104 | 1110
-- 1110 | NULL
-- 1130 | 102
-- SELECT 5
update tree set id = 7, up = 8 where id = 1;
-- ERROR 23503: insert or update on table "tree" violates foreign key constraint "tree_up_fkey"
-- DETAIL: Key (up)=(8) is not present in table "tree".
select * from tree order by id;
-- id integer | up integer
-- 1 | 1
-- 102 | 1110
-- 1104 | 1110
-- 1110 | NULL
-- 1130 | 102
-- SELECT 5
update tree set id = 1104 where id = 1110;
-- ERROR 23505: duplicate key value violates unique constraint "tree_pkey"
-- DETAIL: Key (id)=(1104) already exists.
update tree set id = 1110 where id = 1110 returning *;
-- id integer | up integer
-- 1110 | NULL
-- UPDATE 1
delete from tree where id = 1110;
-- DELETE 1
select * from tree order by id;
-- id integer | up integer
-- 1 | 1
-- SELECT 1
create table lost (id int primary key, up int unique references lost (id) on update set null, way int references lost (up) on update cascade);
-- CREATE TABLE
insert into lost values (1, null, null), (2, 1, null), (3, 2, 1), (4, 3, 2), (5, null, 2), (6, null, 3);
-- INSERT 0 6
update lost set id = 11 where id = 1;
-- UPDATE 1
select * from lost order by id;
-- id integer | up integer | way integer
-- 2 | NULL | NULL
-- 3 | 2 | NULL
-- 4 | 3 | 2
-- 5 | NULL | 2
-- 6 | NULL | 3
-- 11 | NULL | NULL
-- SELECT 6
update lost set id = id + 20;
-- UPDATE 6
select * from lost order by id;
-- id integer | up integer | way integer
-- 22 | NULL | NULL
-- 23 | NULL | NULL
-- 24 | NULL | NULL
-- 25 | NULL | NULL
-- 26 | NULL | NULL
-- 31 | NULL | NULL
-- SELECT 6
create table tenant (id text primary key);
-- CREATE TABLE
create table part (tenant text references tenant on update cascade on delete cascade, id int, whole int, primary key (tenant, id), foreign key (tenant, whole) references part on update cascade on delete cascade);
-- CREATE TABLE
create table bond (tenant text references tenant on update cascade on delete cascade, a int, b int, foreign key (tenant, a) references part on update cascade on delete cascade, foreign key (tenant, b) references part on update cascade on delete cascade);
-- CREATE TABLE
insert into tenant values ('x'), ('y');
-- INSERT 0 2
insert into part values ('x', 1, null), ('x', 2, 1), ('x', 3, 2), ('y', 1, 1);
-- INSERT 0 4
insert into bond values ('x', 1, 3), ('x', 2, 2), ('y', 1, 1);
-- INSERT 0 3
update tenant set id = 'z' where id = 'x';
-- UPDATE 1
select * from part order by tenant, id;
-- tenant text | id integer | whole integer
-- y | 1 | 1
-- z | 1 | NULL
-- z | 2 | 1
-- z | 3 | 2
-- SELECT 4
select * from bond order by tenant, a;
-- tenant text | a integer | b integer
-- y | 1 | 1
-- z | 1 | 3
-- z | 2 | 2
-- SELECT 3
update part set id = id * 10 where tenant = 'z';
-- UPDATE 3
select * from part order by tenant, id;
-- tenant text | id integer | whole integer
-- y | 1 | 1
-- z | 10 | NULL
-- z | 20 | 10
-- z | 30 | 20
-- SELECT 4
select * from bond order by tenant, a;
-- tenant text | a integer | b integer
-- y | 1 | 1
-- z | 10 | 30
-- z | 20 | 20
-- SELECT 3
update part set tenant = 'y' where tenant = 'z' and id = 20;
-- ERROR 23503: insert or update on table "bond" violates foreign key constraint "bond_tenant_a_fkey"
-- DETAIL: Key (tenant, a)=(y, 10) is not present in table "part".
update part set tenant = 'w' where tenant = 'z' and id = 20;
-- ERROR 23503: insert or update on table "part" violates foreign key constraint "part_tenant_fkey"
-- DETAIL: Key (tenant)=(w) is not present in table "tenant".
select * from part order by tenant, id;
-- tenant text | id integer | whole integer
-- y | 1 | 1
-- z | 10 | NULL
-- z | 20 | 10
-- z | 30 | 20
-- SELECT 4
delete from tenant where id = 'z';
-- DELETE 1
select * from part order by tenant, id;
-- tenant text | id integer | whole integer
-- y | 1 | 1
-- SELECT 1
select * from bond order by tenant, a;
-- tenant text | a integer | b integer
-- y | 1 | 1
-- SELECT 1
create table dept (id int primary key, head int);
-- CREATE TABLE
create table emp (id int primary key, dept int references dept on update cascade on delete cascade, boss int references emp on update cascade on delete cascade);
-- CREATE TABLE
alter table dept add foreign key (head) references emp on update cascade on delete cascade;
-- ALTER TABLE
create table pay (emp int references emp, amount int);
-- CREATE TABLE
insert into dept values (1, null), (2, null), (3, null);
-- INSERT 0 3
insert into emp values (1, 1, null), (2, 1, 1), (3, 2, 2), (4, 3, null), (5, 3, 4), (6, 2, 6);
-- INSERT 0 6
update dept set head = id where id < 3;
-- UPDATE 2
update dept set head = 5 where id = 3;
-- UPDATE 1
update dept set id = id + 10;
-- UPDATE 3
select * from dept order by id;
-- id integer | head integer
-- 11 | 1
-- 12 | 2
-- 13 | 5
-- SELECT 3
select * from emp order by id;
-- id integer | dept integer | boss integer
-- 1 | 11 | NULL
-- 2 | 11 | 1
-- 3 | 12 | 2
-- 4 | 13 | NULL
-- 5 | 13 | 4
-- 6 | 12 | 6
-- SELECT 6
update emp set id = id + 100 where id in (2, 3);
-- UPDATE 2
select * from dept order by id;
-- id integer | head integer
-- 11 | 1
-- 12 | 102
-- 13 | 5
-- SELECT 3
select * from emp order by id;
-- id integer | dept integer | boss integer
-- 1 | 11 | NULL
-- 4 | 13 | NULL
-- 5 | 13 | 4
-- 6 | 12 | 6
-- 102 | 11 | 1
-- 103 | 12 | 102
-- SELECT 6
insert into pay values (103, 5), (4, 7);
-- INSERT 0 2
delete from emp where id = 1;
-- ERROR 23503: update or delete on table "emp" violates foreign key constraint "pay_emp_fkey" on table "pay"
-- DETAIL: Key (id)=(103) is still referenced from table "pay".
delete from pay where emp = 103;
-- DELETE 1
delete from emp where id = 1;
-- DELETE 1
select * from dept order by id;
-- id integer | head integer
-- 13 | 5
-- SELECT 1
select * from emp order by id;
-- id integer | dept integer | boss integer
-- 4 | 13 | NULL
-- 5 | 13 | 4
-- SELECT 2
delete from dept where id = 13;
-- ERROR 23503: update or delete on table "emp" violates foreign key constraint "pay_emp_fkey" on table "pay"
-- DETAIL: Key (id)=(4) is still referenced from table "pay".
delete from emp;
-- ERROR 23503: update or delete on table "emp" violates foreign key constraint "pay_emp_fkey" on table "pay"
-- DETAIL: Key (id)=(4) is still referenced from table "pay".
select * from dept order by id;
-- id integer | head integer
-- 13 | 5
-- SELECT 1
delete from pay;
-- DELETE 1
delete from dept;
-- DELETE 1
select count(*) from emp;
-- count bigint
-- 0
-- SELECT 1
create table ring (id int primary key, next int references ring on delete cascade);
-- CREATE TABLE
insert into ring select i, i % 1000 + 1 from generate_series(1, 1000) i;
-- INSERT 0 1000
delete from ring where id = 500;
-- DELETE 1
select count(*) from ring;
-- count bigint
-- 0
-- SELECT 1
create table kept (id int primary key, a int references kept on delete cascade, b int references kept);
-- CREATE TABLE
insert into kept values (1, null, null), (2, 1, null), (3, 2, null), (4, null, 3);
-- INSERT 0 4
delete from kept where id = 1;
-- ERROR 23503: update or delete on table "kept" violates foreign key constraint "kept_b_fkey" on table "kept"
-- DETAIL: Key (id)=(3) is still referenced from table "kept".
delete from kept where id in (1, 4);
-- DELETE 2
select * from kept;
-- id integer | a integer | b integer
-- SELECT 0
insert into kept values (1, 3, 2), (2, 1, 3), (3, 2, 1);
-- INSERT 0 3
delete from kept where id = 2;
-- DELETE 1
select * from kept;
-- id integer | a integer | b integer
-- SELECT 0
create table turn (a int, b int, unique (a, b), unique (b, a), foreign key (a, b) references turn (b, a) on update cascade);
-- CREATE TABLE
insert into turn values (1, 2), (2, 1), (5, 5);
-- INSERT 0 3
update turn set a = 3 where a = 1;
-- UPDATE 1
select * from turn order by a, b;
-- a integer | b integer
-- 2 | 3
-- 3 | 2
-- 5 | 5
-- SELECT 3
create table once (id int primary key, up int references once on update cascade);
-- CREATE TABLE
insert into once values (1, null), (2, 1);
-- INSERT 0 2
insert into once values (1, 2) on conflict (id) do update set id = 4;
-- INSERT 0 1
select * from once order by id;
-- id integer | up integer
-- 2 | 4
-- 4 | NULL
-- SELECT 2
merge into once using (values (4)) v (n) on id = n when matched then update set id = 5;
-- MERGE 1
do $$ begin update once set id = 6 where id = 5; end $$;
-- DO
select * from once order by id;
-- id integer | up integer
-- 2 | 6
-- 6 | NULL
-- SELECT 2
with moved as (update once set id = id + 10 returning id) select count(*) from moved;
-- count bigint
-- 2
-- SELECT 1
select * from once order by id;
-- id integer | up integer
-- 12 | 16
-- 16 | NULL
-- SELECT 2
create table c0 (id int primary key);
-- CREATE TABLE
create table c1 (id int primary key references c0 on delete cascade on update cascade);
-- CREATE TABLE
create table c2 (id int primary key references c1 on delete cascade on update cascade);
-- CREATE TABLE
create table c3 (id int primary key references c2 on delete cascade on update cascade);
-- CREATE TABLE
create table c4 (id int primary key references c3 on delete cascade on update cascade);
-- CREATE TABLE
create table c5 (id int primary key references c4 on delete cascade on update cascade);
-- CREATE TABLE
create table c6 (id int primary key references c5 on delete cascade on update cascade);
-- CREATE TABLE
create table c7 (id int primary key references c6 on delete cascade on update cascade);
-- CREATE TABLE
create table c8 (id int primary key references c7 on delete cascade on update cascade);
-- CREATE TABLE
create table c9 (id int primary key references c8 on delete cascade on update cascade);
-- CREATE TABLE
create table c10 (id int primary key references c9 on delete cascade on update cascade);
-- CREATE TABLE
create table c11 (id int primary key references c10 on delete cascade on update cascade);
-- CREATE TABLE
create table c12 (id int primary key references c11 on delete cascade on update cascade);
-- CREATE TABLE
create table c13 (id int primary key references c12 on delete cascade on update cascade);
-- CREATE TABLE
create table c14 (id int primary key references c13 on delete cascade on update cascade);
-- CREATE TABLE
create table c15 (id int primary key references c14 on delete cascade on update cascade);
-- CREATE TABLE
create table c16 (id int primary key references c15 on delete cascade on update cascade);
-- CREATE TABLE
create table c17 (id int primary key references c16 on delete cascade on update cascade);
-- CREATE TABLE
create table c18 (id int primary key references c17 on delete cascade on update cascade);
-- CREATE TABLE
create table c19 (id int primary key references c18 on delete cascade on update cascade);
-- CREATE TABLE
create table c20 (id int primary key references c19 on delete cascade on update cascade);
-- CREATE TABLE
create table last (id int references c20);
-- CREATE TABLE
insert into c0 values (1), (2);
-- INSERT 0 2
insert into c1 values (1), (2);
-- INSERT 0 2
insert into c2 values (1), (2);
-- INSERT 0 2
insert into c3 values (1), (2);
-- INSERT 0 2
insert into c4 values (1), (2);
-- INSERT 0 2
insert into c5 values (1), (2);
-- INSERT 0 2
insert into c6 values (1), (2);
-- INSERT 0 2
insert into c7 values (1), (2);
-- INSERT 0 2
insert into c8 values (1), (2);
-- INSERT 0 2
insert into c9 values (1), (2);
-- INSERT 0 2
insert into c10 values (1), (2);
-- INSERT 0 2
insert into c11 values (1), (2);
-- INSERT 0 2
insert into c12 values (1), (2);
-- INSERT 0 2
insert into c13 values (1), (2);
-- INSERT 0 2
insert into c14 values (1), (2);
-- INSERT 0 2
insert into c15 values (1), (2);
-- INSERT 0 2
insert into c16 values (1), (2);
-- INSERT 0 2
insert into c17 values (1), (2);
-- INSERT 0 2
insert into c18 values (1), (2);
-- INSERT 0 2
insert into c19 values (1), (2);
-- INSERT 0 2
insert into c20 values (1), (2);
-- INSERT 0 2
insert into last values (2);
-- INSERT 0 1
delete from c0 where id = 1;
-- DELETE 1
select id from c20;
-- id integer
-- 2
-- SELECT 1
update c0 set id = 3;
-- ERROR 23503: update or delete on table "c20" violates foreign key constraint "last_id_fkey" on table "last"
-- DETAIL: Key (id)=(2) is still referenced from table "last".
select id from c20;
-- id integer
-- 2
-- SELECT 1
delete from last;
-- DELETE 1
update c0 set id = 3;
-- UPDATE 1
select id from c20;
-- id integer
-- 3
-- SELECT 1
delete from c0;
-- DELETE 1
select count(*) from c20;
-- count bigint
-- 0
-- SELECT 1
-- # A MERGE whose actions come back to its table
create table staff (id int primary key, name text not null, boss int references staff (id) on update cascade);
-- CREATE TABLE
create table renumbered (old int primary key, new int, name text);
-- CREATE TABLE
insert into staff values (1, 'a', null), (2, 'b', 1), (3, 'c', 2), (4, 'd', 2), (5, 'e', 4);
-- INSERT 0 5
insert into renumbered values (1, 11, 'A'), (2, 12, 'B'), (9, 19, 'N');
-- INSERT 0 3
merge into staff s using renumbered r on s.id = r.old when matched then update set id = r.new, name = r.name when not matched then insert values (r.new, r.name, 3);
-- MERGE 3
select * from staff order by id;
-- id integer | name text | boss integer
-- 3 | c | 12
-- 4 | d | 12
-- 5 | e | 4
-- 11 | A | NULL
-- 12 | B | 11
-- 19 | N | 3
-- SELECT 6
merge into staff s using (values (12, 22), (4, 4), (5, 0)) v (old, new) on s.id = v.old when matched and v.new = 0 then delete when matched then update set id = v.new;
-- MERGE 3
select * from staff order by id;
-- id integer | name text | boss integer
-- 3 | c | 22
-- 4 | d | 22
-- 11 | A | NULL
-- 19 | N | 3
-- 22 | B | 11
-- SELECT 5
merge into staff s using (values (3, 33, 22), (22, 23, 33)) v (old, new, boss) on s.id = v.old when matched then update set id = v.new, boss = v.boss;
-- MERGE 2
select * from staff order by id;
-- id integer | name text | boss integer
-- 4 | d | 23
-- 11 | A | NULL
-- 19 | N | 33
-- 23 | B | 33
-- 33 | c | 23
-- SELECT 5
merge into staff s using (values (11, 11), (19, 4)) v (old, new) on s.id = v.old when matched then update set id = v.new;
-- ERROR 23505: duplicate key value violates unique constraint "staff_pkey"
-- DETAIL: Key (id)=(4) already exists.
merge into staff s using (values (11, 1), (19, 2)) v (old, new) on s.id = v.old when matched and s.id = 11 then update set id = v.new when matched then update set boss = 77;
-- ERROR 23503: insert or update on table "staff" violates foreign key constraint "staff_boss_fkey"
-- DETAIL: Key (boss)=(77) is not present in table "staff".
merge into staff s using (values (11, 1), (19, 1)) v (old, new) on s.id = v.old when matched and s.id = 11 then update set id = v.new when matched then update set boss = v.new;
-- MERGE 2
select * from staff order by id;
-- id integer | name text | boss integer
-- 1 | A | NULL
-- 4 | d | 23
-- 19 | N | 1
-- 23 | B | 33
-- 33 | c | 23
-- SELECT 5
create table left_side (id int primary key, other int);
-- CREATE TABLE
create table right_side (id int primary key, other int references left_side (id) on update cascade);
-- CREATE TABLE
alter table left_side add constraint back foreign key (other) references right_side (id) on update cascade;
-- ALTER TABLE
insert into left_side values (1, null), (2, null);
-- INSERT 0 2
insert into right_side values (1, 1), (2, 2);
-- INSERT 0 2
update left_side set other = id;
-- UPDATE 2
merge into left_side l using (values (1, 5)) v (old, new) on l.id = v.old when matched then update set id = v.new;
-- MERGE 1
select * from left_side order by id;
-- id integer | other integer
-- 2 | 2
-- 5 | 1
-- SELECT 2
select * from right_side order by id;
-- id integer | other integer
-- 1 | 5
-- 2 | 2
-- SELECT 2
drop table renumbered, staff;
-- DROP TABLE
