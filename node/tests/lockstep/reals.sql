-- # Numbers of 32 bits, as columns, operands, keys and parts of others
CREATE TABLE reals (id int PRIMARY KEY, r real, f float4, g float(24), a real[], d double precision, n numeric);
INSERT INTO reals VALUES (1, 0.1, 1.5, 3, '{0.1,0.25,NULL}', 0.1, 0.1), (2, 1e10, -0.00001, 123456, '{}', 1e10, 7), (3, 'NaN', 'Infinity', '-Infinity', NULL, 2, NULL), (4, NULL, 16777217, 1234567, '{1e20}', 3, 1);
SELECT * FROM reals ORDER BY id;
-- 1|0.1|1.5|3|{0.1,0.25,NULL}|0.1|0.1
-- 2|1e+10|-1e-05|123456|{}|10000000000|7
-- 3|NaN|Infinity|-Infinity|NULL|2|NULL
-- 4|NULL|1.6777216e+07|1.234567e+06|{1e+20}|3|1
SELECT id, r FROM reals ORDER BY r DESC, id;
-- 4|NULL
-- 3|NaN
-- 2|1e+10
-- 1|0.1
SELECT r = 0.1, r = 0.1::real, r = d, r < 1, r::float8, r::numeric, r::text FROM reals WHERE id = 1;
-- f|t|f|t|0.10000000149011612|0.1|0.1
SELECT pg_typeof(r + 1::real), pg_typeof(r + 1), pg_typeof(r * d), pg_typeof(r * n), pg_typeof(-r), pg_typeof(abs(r)), pg_typeof(r + '1'), pg_typeof(round(r)), pg_typeof(sum(r)), pg_typeof(avg(r)), pg_typeof(max(r)) FROM reals GROUP BY r, d, n LIMIT 1;
-- real|double precision|double precision|double precision|real|real|real|double precision|real|double precision|real
SELECT r + f, r - f, r * f, r / f, r + 1, -r, abs(-r), r || '!', 'is ' || r FROM reals WHERE id = 1;
-- 1.6|-1.4|0.15|0.06666667|1.1000000014901161|-0.1|0.1|0.1!|is 0.1
SELECT sum(f), avg(f), max(f), min(f), count(r) FROM reals WHERE id IN (1, 2, 4);
-- 1.6777218e+07|5592405.833330001|1.6777216e+07|-1e-05|2
SELECT 1e40::real;
-- ERROR 22003: "10000000000000000000000000000000000000000" is out of range for type real
SELECT 1e-50::real;
-- ERROR 22003: "0.00000000000000000000000000000000000000000000000001" is out of range for type real
SELECT '1e40'::real;
-- ERROR 22003: "1e40" is out of range for type real
SELECT 1e40::float8::real;
-- ERROR 22003: value out of range: overflow
SELECT 'x'::real;
-- ERROR 22P02: invalid input syntax for type real: "x"
SELECT 1e30::real * 1e30::real;
-- ERROR 22003: value out of range: overflow
SELECT 1::real / 0;
-- ERROR 22012: division by zero
SELECT 123456789::real, 1234567::real, 999999::real, 1000000::real, 0.0001::real, 0.00001::real, 16777217::int8::real, 0.1234567::real::numeric, 3.4e38::real::numeric;
-- 1.2345679e+08|1.234567e+06|999999|1e+06|0.0001|1e-05|1.6777216e+07|0.123457|340000000000000000000000000000000000000
SELECT 1.5::real::int, 2.5::real::int, 'inf'::real, 33554433::real;
-- 2|2|Infinity|3.3554432e+07
SELECT CASE WHEN true THEN 1 ELSE 2.5::real END, coalesce(NULL, 0.1::real), greatest(0.1::real, 0.2), ARRAY[0.1::real, 0.2::real];
-- 1|0.1|0.2|{0.1,0.2}
SELECT 5 % 2::real;
-- ERROR 42883: operator does not exist: integer % real
SELECT to_json(0.1::real), to_json('{0.1,2}'::real[]), row(0.1::real, 'x'::char(3)), concat(0.1::real, '|', 'a'::char(3), '|'), array_to_string('{0.1,2.5}'::real[], ',');
-- 0.1|[0.1,2]|(0.1,"x  ")|0.1|a  ||0.1,2.5
UPDATE reals SET r = r + 1, f = id / 3.0 WHERE id = 1;
SELECT r, f FROM reals WHERE id = 1;
-- 1.1|0.33333334
CREATE INDEX reals_r ON reals (r);
SELECT id FROM reals WHERE r = 1.1::real;
-- 1
SELECT id FROM reals WHERE r = 1e10;
-- 2
SELECT id FROM reals WHERE r BETWEEN 1 AND 2;
-- 1
SELECT count(*), r FROM reals GROUP BY r ORDER BY r;
-- 1|1.1
-- 1|1e+10
-- 1|NaN
-- 1|NULL
CREATE TABLE keyed (k real PRIMARY KEY, v int);
INSERT INTO keyed VALUES (0.1, 1), (0.2, 2);
INSERT INTO keyed VALUES (0.1, 3);
-- ERROR 23505: duplicate key value violates unique constraint "keyed_pkey"
INSERT INTO keyed VALUES (0.10000000001, 3);
-- ERROR 23505: duplicate key value violates unique constraint "keyed_pkey"
SELECT v FROM keyed WHERE k = 0.1;
SELECT v FROM keyed WHERE k = '0.1';
-- 1
SELECT attname, format_type(atttypid, atttypmod), atttypid, attlen FROM pg_attribute WHERE attrelid = 'reals'::regclass AND attnum BETWEEN 2 AND 5 ORDER BY attnum;
-- r|real|700|4
-- f|real|700|4
-- g|real|700|4
-- a|real[]|1021|-1
SELECT data_type, numeric_precision, numeric_precision_radix FROM information_schema.columns WHERE table_name = 'keyed' AND column_name = 'k';
-- real|24|2
ALTER TABLE reals ALTER COLUMN f TYPE double precision;
ALTER TABLE reals ALTER COLUMN d TYPE real;
SELECT f, d FROM reals WHERE id = 1;
-- 0.3333333432674408|0.1
CREATE TABLE checked (r real CHECK (r > 0.5), c char(4) CHECK (c <> 'no'));
INSERT INTO checked VALUES (0.25, 'x');
-- ERROR 23514: new row for relation "checked" violates check constraint "checked_r_check"
INSERT INTO checked VALUES (0.75, 'no');
-- ERROR 23514: new row for relation "checked" violates check constraint "checked_c_check"

-- # Digits of a second
CREATE TABLE moments (id int PRIMARY KEY, a timestamp(3), b timestamptz(0), c time(2), d interval(1), e timetz(1), f timestamp(0) without time zone, g timestamp(6));
INSERT INTO moments VALUES (1, '2024-01-01 00:00:00.12345', '2024-01-01 00:00:00.5+00', '01:02:03.456', '1.25 sec', '01:02:03.456+00', '1999-12-31 23:59:59.5', '2024-01-01 00:00:00.123456');
SELECT * FROM moments;
-- 1|2024-01-01 00:00:00.123|2024-01-01 00:00:01+00|01:02:03.46|00:00:01.3|01:02:03.5+00|1999-12-31 23:59:59|2024-01-01 00:00:00.123456
SELECT '2024-01-01 00:00:00.12345'::timestamp(2), timestamp(2) '2024-01-01 00:00:00.126', '2024-01-01 00:00:00.9996+00'::timestamptz(3), '1999-01-01 00:00:00.15'::timestamp(1);
-- 2024-01-01 00:00:00.12|2024-01-01 00:00:00.13|2024-01-01 00:00:01+00|1999-01-01 00:00:00.1
SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute WHERE attrelid = 'moments'::regclass AND attnum > 1 ORDER BY attnum;
-- a|timestamp(3) without time zone|3
-- b|timestamp(0) with time zone|0
-- c|time(2) without time zone|2
-- d|interval(1)|2147418113
-- e|time(1) with time zone|1
-- f|timestamp(0) without time zone|0
-- g|timestamp(6) without time zone|6
SELECT column_name, datetime_precision, data_type FROM information_schema.columns WHERE table_name = 'moments' AND column_name <> 'id' ORDER BY 1;
-- a|3|timestamp without time zone
-- b|0|timestamp with time zone
-- c|2|time without time zone
-- d|1|interval
-- e|1|time with time zone
-- f|0|timestamp without time zone
-- g|6|timestamp without time zone
SELECT pg_typeof(a), pg_typeof(b), a + interval '0.4567 sec', b - interval '1 day', a - f, date_trunc('minute', a), extract(milliseconds from a) FROM moments;
-- timestamp without time zone|timestamp with time zone|2024-01-01 00:00:00.5797|2023-12-31 00:00:01+00|8766 days 00:00:01.123|2024-01-01 00:00:00|123.000
INSERT INTO moments (id, a) SELECT 2, a + interval '0.0007 sec' FROM moments;
SELECT a FROM moments WHERE a = '2024-01-01 00:00:00.124';
-- 2024-01-01 00:00:00.124
UPDATE moments SET b = a, f = a WHERE id = 2;
SELECT a, b, f FROM moments ORDER BY id;
-- 2024-01-01 00:00:00.123|2024-01-01 00:00:01+00|1999-12-31 23:59:59
-- 2024-01-01 00:00:00.124|2024-01-01 00:00:00+00|2024-01-01 00:00:00
ALTER TABLE moments ALTER a TYPE timestamp(0);
SELECT a FROM moments ORDER BY id;
-- 2024-01-01 00:00:00
-- 2024-01-01 00:00:00
CREATE TABLE of_arrays (c timestamp(3)[], d timestamptz(0) DEFAULT '2024-05-05 05:05:05.5+00');
INSERT INTO of_arrays (c) VALUES ('{2024-01-01 00:00:00.12345}');
SELECT c, d, pg_typeof(c) FROM of_arrays;
-- {"2024-01-01 00:00:00.123"}|2024-05-05 05:05:06+00|timestamp without time zone[]
SELECT localtimestamp(0) = localtimestamp(0), extract(microseconds from current_timestamp(0))::int % 1000000, now()::timestamp(0) - now()::timestamp(0);
-- t|0|00:00:00

-- # Blanks of char(n)
CREATE TABLE padded (id int PRIMARY KEY, a char(5), b varchar(5), t text);
INSERT INTO padded VALUES (1, 'ab', 'ab', 'ab'), (2, 'ab  ', 'ab  ', 'ab  ');
SELECT id, a = 'ab', a = 'ab   ', b = 'ab ', t = 'ab ', a = b, a = t, a || 'x', length(a), octet_length(a), bit_length(a), upper(a) || '!' FROM padded ORDER BY id;
-- 1|t|t|f|f|t|t|abx|2|5|16|AB!
-- 2|t|t|f|f|t|f|abx|2|5|16|AB!
SELECT id, a LIKE 'ab', a LIKE 'ab   ', a LIKE 'ab%', a::text LIKE 'ab', position(' ' in a), a::varchar || '.', concat(a, '.'), a ~ 'b$', a ~ 'b   $', a ILIKE 'AB   ' FROM padded ORDER BY id;
-- 1|f|t|t|t|0|ab.|ab   .|f|t|t
-- 2|f|t|t|t|0|ab.|ab   .|f|t|t
SELECT DISTINCT a FROM padded;
-- ab   
SELECT a, count(*) FROM padded GROUP BY a;
-- ab   |2
SELECT 'abc'::char(2), 'abc'::char, cast('a' AS char(3)) || '|', 'a'::char(3) = 'a'::char(5);
-- ab|a|a||t
INSERT INTO padded VALUES (3, 'abcdef');
-- ERROR 22001: value too long for type character(5)
INSERT INTO padded VALUES (3, 'abcde   ');
SELECT id FROM padded WHERE a LIKE 'abcd_';
-- 3
