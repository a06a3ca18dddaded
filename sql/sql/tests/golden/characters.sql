-- # char(n) is compared without its blanks
create table ch (c char(3), i int, t text, v varchar(5), primary key (c, i));
-- CREATE TABLE
insert into ch values ('a', 1, 'a', 'a'), ('a', 2, 'a  ', 'a  '), ('b', 1, 'b', 'b '), ('ab', 3, 'ab ', 'ab');
-- INSERT 0 4
select c, i from ch where (c, i) >= ('a  ', 2) order by c, i;
-- c character(3) | i integer
-- a   | 2
-- ab  | 3
-- b   | 1
-- SELECT 3
select c, i from ch where (c, i) <= ('a ', 2) order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- SELECT 2
select c, i from ch where (c, i) = ('a  ', 2);
-- c character(3) | i integer
-- a   | 2
-- SELECT 1
select c, i from ch where (c, i) in (('a  ', 2), ('b ', 1));
-- c character(3) | i integer
-- a   | 2
-- b   | 1
-- SELECT 2
select c, i from ch where c in ('a  ', 'ab ') order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- ab  | 3
-- SELECT 3
select c, i from ch where c = any ('{"a  ","ab "}') order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- ab  | 3
-- SELECT 3
select c, i from ch where c <> all ('{"a  ","ab "}') order by c, i;
-- c character(3) | i integer
-- b   | 1
-- SELECT 1
select c, i from ch where c = any (array['a  ', 'b'::varchar]) order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- b   | 1
-- SELECT 3
select c, i from ch where c between 'a  ' and 'ab ' order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- ab  | 3
-- SELECT 3
select c, i from ch where c not between 'a  ' and 'ab ' order by c, i;
-- c character(3) | i integer
-- b   | 1
-- SELECT 1
select c, i from ch where 'a  ' = c and i > 1;
-- c character(3) | i integer
-- a   | 2
-- SELECT 1
select c, i from ch where c > 'a  ' and c < 'b  ' order by c;
-- c character(3) | i integer
-- ab  | 3
-- SELECT 1
select c, i from ch where c = t order by c, i;
-- c character(3) | i integer
-- a   | 1
-- b   | 1
-- SELECT 2
select c, i from ch where c = v order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- ab  | 3
-- b   | 1
-- SELECT 4
select c, i from ch where v = c order by c, i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- ab  | 3
-- b   | 1
-- SELECT 4
select c, i from ch where c = 'a  '::text;
-- c character(3) | i integer
-- SELECT 0
select c, i from ch where c = 'a  '::varchar order by i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- SELECT 2
select a.c, b.v from ch a join ch b on a.c = b.v and a.i = b.i order by a.c, a.i;
-- c character(3) | v character varying(5)
-- a   | a
-- a   | a  
-- ab  | ab
-- b   | b 
-- SELECT 4
select a.i, b.i from ch a join ch b on a.c = b.c order by 1, 2;
-- i integer | i integer
-- 1 | 1
-- 1 | 1
-- 1 | 2
-- 2 | 1
-- 2 | 2
-- 3 | 3
-- SELECT 6
select case c when 'a  ' then 1 else 0 end, nullif(c, 'a ') from ch order by c, i;
-- case integer | nullif character(3)
-- 1 | NULL
-- 1 | NULL
-- 0 | ab 
-- 0 | b  
-- SELECT 4
select c, i from ch where c is not distinct from 'a  ' order by i;
-- c character(3) | i integer
-- a   | 1
-- a   | 2
-- SELECT 2
select c from ch where c in (select v from ch where i = 2);
-- c character(3)
-- a  
-- a  
-- SELECT 2
update ch set i = 9 where (c, i) = ('ab   ', 3);
-- UPDATE 1
delete from ch where c = 'ab ' and i = 9;
-- DELETE 1
