create table t (id int primary key, b numeric, m numeric(38,2), c numeric check (c > 0), f float8);
-- CREATE TABLE
insert into t (id, b) values (1, 123456789012345678.000000000000);
-- INSERT 0 1
update t set b = b + 0.000000000001;
-- UPDATE 1
select b from t;
-- b numeric
-- 123456789012345678.000000000001
-- SELECT 1
update t set b = 1234567890.1234567890 * 1234567890.1234567890;
-- UPDATE 1
select b from t;
-- b numeric
-- 1524157875323883675.01905199875019052100
-- SELECT 1
insert into t (id, c) values (2, 1e-29);
-- INSERT 0 1
insert into t (id, c) values (3, 0e-29);
-- ERROR 23514: new row for relation "t" violates check constraint "t_c_check"
-- DETAIL: Failing row contains (3, null, null, 0.00000000000000000000000000000, null).
insert into t (id, m) values (4, 999999999999999999999999999999999999.99), (5, -0.005);
-- INSERT 0 2
insert into t (id, m) values (6, 1e36);
-- ERROR 22003: numeric field overflow
-- DETAIL: A field with precision 38, scale 2 must round to an absolute value less than 10^36.
insert into t (id, f) values (7, 1e-300), (8, 1e300), (9, -1e-300);
-- INSERT 0 3
insert into t (id, f) values (10, 1e309);
-- ERROR 22003: "1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" is out of range for type double precision
insert into t (id, f) values (10, 1e-400);
-- ERROR 22003: "0.0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001" is out of range for type double precision
select id, m, f, c from t where id > 1 order by id;
-- id integer | m numeric(38,2) | f double precision | c numeric
-- 2 | NULL | NULL | 0.00000000000000000000000000001
-- 4 | 999999999999999999999999999999999999.99 | NULL | NULL
-- 5 | -0.01 | NULL | NULL
-- 7 | NULL | 1e-300 | NULL
-- 8 | NULL | 1e+300 | NULL
-- 9 | NULL | -1e-300 | NULL
-- SELECT 6
select m + 0.000000000000000000000000000001 from t where id = 4;
-- ?column? numeric
-- 999999999999999999999999999999999999.990000000000000000000000000001
-- SELECT 1
select 9223372036854775807 * 9223372036854775807.0, 9223372036854775807::bigint * 0.12345678901234567890;
-- ?column? numeric | ?column? numeric
-- 85070591730234615847396907784232501249.0 | 1138687895536349069.98935175104471037230
-- SELECT 1
select 79228162514264337593543950335 + 1, 79228162514264337593543950335 * 79228162514264337593543950335;
-- ?column? numeric | ?column? numeric
-- 79228162514264337593543950336 | 6277101735386680763835789423049210091073826769276946612225
-- SELECT 1
select round(1.5, 30), trunc(123.456, -2), round(-1234567890123456789012345678901234567890.5), ceil(1e40 + 0.1), floor(-1e40 - 0.1);
-- round numeric | trunc numeric | round numeric | ceil numeric | floor numeric
-- 1.500000000000000000000000000000 | 100 | -1234567890123456789012345678901234567891 | 10000000000000000000000000000000000000001 | -10000000000000000000000000000000000000001
-- SELECT 1
select sqrt(2.0), sqrt(1e10), sqrt(0.0001), sqrt(12345678901234567890.0), sqrt(2::numeric(30,20));
-- sqrt numeric | sqrt numeric | sqrt numeric | sqrt numeric | sqrt numeric
-- 1.414213562373095 | 100000.00000000000 | 0.01000000000000000 | 3513641828.8201443 | 1.41421356237309504880
-- SELECT 1
select power(2.5, 3), power(2.0, -2), power(10.0, 40), 2.0 ^ 100, power(1.1, 100);
-- power numeric | power numeric | power numeric | ?column? numeric | power numeric
-- 15.6250000000000000 | 0.2500000000000000 | 10000000000000000000000000000000000000000.0000000000000000 | 1267650600228229401496703205376.0000000000000000 | 13780.6123398222701841
-- SELECT 1
select power(2.0, -9223372036854775808), power(2.0, 1000001);
-- ERROR 22003: value overflows numeric format
select div(17, 5), div(-17.5, 5), div(1e40, 3), mod(1e40, 7), 1e40 % 0.3;
-- div numeric | div numeric | div numeric | mod numeric | ?column? numeric
-- 3 | -3 | 3333333333333333333333333333333333333333 | 4 | 0.1
-- SELECT 1
select extract(epoch from date '2020-01-01'), extract(epoch from timestamp '2020-01-01'), extract(epoch from timestamp '2020-01-01 00:00:00.5');
-- extract numeric | extract numeric | extract numeric
-- 1577836800 | 1577836800.000000 | 1577836800.500000
-- SELECT 1
select 1 / 3.0, 1e40 / 3, 1 / 1e40, 0.1::numeric(50,40) / 3;
-- ?column? numeric | ?column? numeric | ?column? numeric | ?column? numeric
-- 0.33333333333333333333 | 3333333333333333333333333333333333333333 | 0.000000000000000000000000000000000000000100000000000000000000 | 0.0333333333333333333333333333333333333333
-- SELECT 1
select sum(x), avg(x), min(x), max(x), count(distinct x) from (values (1e30), (1e-30), (-1e30), (1.0), (1.00)) v(x);
-- sum numeric | avg numeric | min numeric | max numeric | count bigint
-- 2.000000000000000000000000000001 | 0.400000000000000000000000000000 | -1000000000000000000000000000000 | 1000000000000000000000000000000 | 4
-- SELECT 1
select '1e131071'::numeric > '9e131070'::numeric, '1e-16383'::numeric > 0, length((1e131071 + 1e-16383)::text);
-- ?column? boolean | ?column? boolean | length integer
-- t | t | 147456
-- SELECT 1
select 1e131072;
-- ERROR 22003: value overflows numeric format
select 1e-16384;
-- ERROR 22003: value overflows numeric format
select 1e131071 * 10;
-- ERROR 22003: value overflows numeric format
select 1e-16383 * 0.1;
-- ERROR 22003: value overflows numeric format
select 1e40::bigint;
-- ERROR 22003: bigint out of range
select 'NaN'::numeric, '-inf'::numeric, 'NaN'::float8::numeric = 'NaN'::numeric, 'Infinity'::numeric::float8;
-- numeric numeric | numeric numeric | ?column? boolean | float8 double precision
-- NaN | -Infinity | t | Infinity
-- SELECT 1
create table n (id int primary key, a numeric, m numeric(10, 2));
-- CREATE TABLE
insert into n values (1, 'NaN', 'NaN'), (2, 'Infinity', 1), (3, '-Infinity', -1), (4, 0, 0), (5, null, null);
-- INSERT 0 5
insert into n values (6, 0, 'Infinity');
-- ERROR 22003: numeric field overflow
-- DETAIL: A field with precision 10, scale 2 cannot hold an infinite value.
select id, a, m from n order by a desc, id;
-- id integer | a numeric | m numeric(10,2)
-- 5 | NULL | NULL
-- 1 | NaN | NaN
-- 2 | Infinity | 1.00
-- 4 | 0 | 0.00
-- 3 | -Infinity | -1.00
-- SELECT 5
select id from n where a > 1 order by id;
-- id integer
-- 1
-- 2
-- SELECT 2
select id from n where a = 'NaN' or a = '-Infinity' order by id;
-- id integer
-- 1
-- 3
-- SELECT 2
select sum(a), avg(a), min(a), max(a), count(distinct a) from n;
-- sum numeric | avg numeric | min numeric | max numeric | count bigint
-- NaN | NaN | -Infinity | NaN | 4
-- SELECT 1
select sum(a), avg(a) from n where id in (2, 4);
-- sum numeric | avg numeric
-- Infinity | Infinity
-- SELECT 1
select max(m), min(m), sum(m) from n;
-- max numeric | min numeric | sum numeric
-- NaN | -1.00 | NaN
-- SELECT 1
select a, count(*) from n group by a order by a;
-- a numeric | count bigint
-- -Infinity | 1
-- 0 | 1
-- Infinity | 1
-- NaN | 1
-- NULL | 1
-- SELECT 5
create unique index on n (a);
-- CREATE INDEX
insert into n values (7, 'nan', 0);
-- ERROR 23505: duplicate key value violates unique constraint "n_a_idx"
-- DETAIL: Key (a)=(NaN) already exists.
select id from n where a between '-inf' and 0 order by a;
-- id integer
-- 3
-- 4
-- SELECT 2
update n set a = a - 'Infinity', m = m + 1 where id <= 3;
-- ERROR 23505: duplicate key value violates unique constraint "n_a_idx"
-- DETAIL: Key (a)=(NaN) already exists.
select id, a, m from n where id <= 3 order by id;
-- id integer | a numeric | m numeric(10,2)
-- 1 | NaN | NaN
-- 2 | Infinity | 1.00
-- 3 | -Infinity | -1.00
-- SELECT 3
select 'NaN'::numeric::int, 1;
-- ERROR 0A000: cannot convert NaN to integer
select '-Infinity'::numeric::bigint;
-- ERROR 0A000: cannot convert infinity to bigint
select 'Infinity'::numeric(10, 2);
-- ERROR 22003: numeric field overflow
-- DETAIL: A field with precision 10, scale 2 cannot hold an infinite value.
select round('Infinity'::numeric, 2), floor('NaN'::numeric), sign('-Infinity'::numeric), sign('NaN'::numeric), abs('-Infinity'::numeric), -'Infinity'::numeric;
-- round numeric | floor numeric | sign numeric | sign numeric | abs numeric | ?column? numeric
-- Infinity | NaN | -1 | NaN | Infinity | -Infinity
-- SELECT 1
select 1 / 'Infinity'::numeric, 'Infinity'::numeric / 0;
-- ERROR 22012: division by zero
select greatest('NaN'::numeric, 1), least('-Infinity'::numeric, 1), mod(5, 'Infinity'::numeric), array['NaN'::numeric, 1];
-- greatest numeric | least numeric | mod numeric | array numeric[]
-- NaN | -Infinity | 5 | {NaN,1}
-- SELECT 1
alter table n alter m set default 'NaN';
-- ALTER TABLE
insert into n (id, a) values (8, 8) returning m;
-- m numeric(10,2)
-- NaN
-- INSERT 0 1
drop table n;
-- DROP TABLE
select 1::numeric(1001);
-- ERROR 22023: NUMERIC precision 1001 must be between 1 and 1000
select 1::numeric(10, 1001);
-- ERROR 22023: NUMERIC scale 1001 must be between -1000 and 1000
select 123.456::numeric(1000, 500), 0.00099::numeric(2, 5);
-- numeric numeric(1000,500) | numeric numeric(2,5)
-- 123.45600000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 | 0.00099
-- SELECT 1
select 1::numeric(2, 5);
-- ERROR 22003: numeric field overflow
-- DETAIL: A field with precision 2, scale 5 must round to an absolute value less than 10^-3.
select 12345678901234567890123456789012345678901234567890 = 12345678901234567890123456789012345678901234567890.000, 1e-40 = 0;
-- ?column? boolean | ?column? boolean
-- t | f
-- SELECT 1
create table k (n numeric primary key, v int);
-- CREATE TABLE
insert into k values (1e40, 1), (1e-40, 2), (-1e100, 3), (1e100, 4), (1e1000, 5), (-1e-1000, 6), (0, 7), (12345678901234567890.12345678901234567890, 8);
-- INSERT 0 8
select v from k order by n;
-- v integer
-- 3
-- 6
-- 7
-- 2
-- 8
-- 1
-- 4
-- 5
-- SELECT 8
select v from k where n = 12345678901234567890.123456789012345678900;
-- v integer
-- 8
-- SELECT 1
select v from k where n between -1 and 1e50 order by n;
-- v integer
-- 6
-- 7
-- 2
-- 8
-- 1
-- SELECT 5
insert into k values (1e40 + 0.0, 9);
-- ERROR 23505: duplicate key value violates unique constraint "k_pkey"
-- DETAIL: Key (n)=(10000000000000000000000000000000000000000.0) already exists.
insert into k values (1e40 + 1e-40, 9);
-- INSERT 0 1
select n, v from k where n >= 1e40 and n < 1e41 order by n;
-- n numeric | v integer
-- 10000000000000000000000000000000000000000 | 1
-- 10000000000000000000000000000000000000000.0000000000000000000000000000000000000001 | 9
-- SELECT 2
select exp(1.0), exp(0.0), ln(10.0), log(1000.0), log10(2::numeric), log(2, 64), log(2.0, 10);
-- exp numeric | exp numeric | ln numeric | log numeric | log10 numeric | log numeric | log numeric
-- 2.7182818284590452 | 1.0000000000000000 | 2.3025850929940457 | 3.0000000000000000 | 0.3010299956639812 | 6.0000000000000000 | 3.3219280948873623
-- SELECT 1
select power(2.0, 0.5), 10.0 ^ 1.5, power(0.0, 0.5), 2.0 ^ -0.5, power(-8.0, 3.0);
-- power numeric | ?column? numeric | power numeric | ?column? numeric | power numeric
-- 1.4142135623730950 | 31.622776601683793 | 0.0000000000000000 | 0.7071067811865475 | -512.0000000000000000
-- SELECT 1
select power(-8.0, 1.0 / 3);
-- ERROR 2201F: a negative number raised to a non-integer power yields a complex result
select power(0.0, -0.5);
-- ERROR 2201F: zero raised to a negative power is undefined
select exp(70.5), exp(-70.5), exp(0.00000000000000000001);
-- exp numeric | exp numeric | exp numeric
-- 4147257241886090509094686216890.0 | 0.0000000000000000000000000000002411232150975086 | 1.00000000000000000001
-- SELECT 1
select exp(6000.0);
-- ERROR 22003: value overflows numeric format
select ln(0.0);
-- ERROR 2201E: cannot take logarithm of zero
select ln(-1.0);
-- ERROR 2201E: cannot take logarithm of a negative number
select log(1.0, 2.0);
-- ERROR 22012: division by zero
select exp(1::float8);
-- ERROR 0A000: function exp() of double precision is not supported
-- DETAIL: Its last digits would differ between machines.
-- HINT: Of numeric there is one: exp(x::numeric).
select log(2::float8, 4::float8);
-- ERROR 0A000: function log() of double precision is not supported
-- DETAIL: Its last digits would differ between machines.
-- HINT: Of numeric there is one: log(x::numeric).
create table growth (id int primary key, rate numeric, years numeric);
-- CREATE TABLE
insert into growth values (1, 1.05, 10), (2, 1.02, 7.25), (3, 0.97, -3.5);
-- INSERT 0 3
select id, round(power(rate, years), 8), ln(rate), exp(years), log(rate), log(years + 4, rate) from growth order by id;
-- id integer | round numeric | ln numeric | exp numeric | log numeric | log numeric
-- 1 | 1.62889463 | 0.048790164169432003 | 22026.465794806717 | 0.021189299069938073 | 0.018487724242256229
-- 2 | 1.15438652 | 0.019802627296179713 | 1408.1048482046956 | 0.008600171761917561 | 0.008181659253306001
-- 3 | 1.11249721 | -0.030459207484708546 | 0.03019738342231850 | -0.013228265733755148 | 0.043943347587597016
-- SELECT 3
update growth set rate = exp(ln(rate) * years), years = rate ^ years where id = 2;
-- UPDATE 1
select * from growth where exp(years) > 1 and id = 2;
-- id integer | rate numeric | years numeric
-- 2 | 1.15438651601694323671 | 1.1543865160169432
-- SELECT 1
