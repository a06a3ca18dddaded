-- # Intervals and times of day: what is read, shown, computed, compared, grouped and kept
CREATE TABLE spans (id int PRIMARY KEY, i interval, t time, z timetz, ts timestamp, d date);
INSERT INTO spans VALUES (1, '1 day', '04:05:06.789', '04:05:06+02', '2024-02-29 12:00', '2024-02-29');
INSERT INTO spans VALUES (2, '24 hours', '23:59:59.999999', '04:05:06-08', '2023-12-31 23:59:59.5', '1999-12-31');
INSERT INTO spans VALUES (3, '1 mon', '24:00', '00:00+00', '2000-01-01', '2000-01-01'), (4, '30 days', '00:00', '02:00+02', NULL, NULL), (5, NULL, NULL, NULL, NULL, NULL);
INSERT INTO spans VALUES (6, '1 year 2 mons -3 days 04:05:06.7', 'allballs', '12:00:00.5+05:30', '2024-01-31', '2024-01-31'), (7, '-1 mons +5 days', '1:2', '1:2 PM', '1969-07-20 20:17:40', '1969-07-20');
SELECT * FROM spans ORDER BY id;
-- 1|1 day|04:05:06.789|04:05:06+02|2024-02-29 12:00:00|2024-02-29
-- 2|24:00:00|23:59:59.999999|04:05:06-08|2023-12-31 23:59:59.5|1999-12-31
-- 3|1 mon|24:00:00|00:00:00+00|2000-01-01 00:00:00|2000-01-01
-- 4|30 days|00:00:00|02:00:00+02|NULL|NULL
-- 5|NULL|NULL|NULL|NULL|NULL
-- 6|1 year 2 mons -3 days +04:05:06.7|00:00:00|12:00:00.5+05:30|2024-01-31 00:00:00|2024-01-31
-- 7|-1 mons +5 days|01:02:00|13:02:00+00|1969-07-20 20:17:40|1969-07-20
SELECT id, i FROM spans ORDER BY i, id;
-- 7|-1 mons +5 days
-- 1|1 day
-- 2|24:00:00
-- 3|1 mon
-- 4|30 days
-- 6|1 year 2 mons -3 days +04:05:06.7
-- 5|NULL
SELECT id, i FROM spans ORDER BY i DESC NULLS LAST, id DESC;
-- 6|1 year 2 mons -3 days +04:05:06.7
-- 4|30 days
-- 3|1 mon
-- 2|24:00:00
-- 1|1 day
-- 7|-1 mons +5 days
-- 5|NULL
SELECT id, t FROM spans ORDER BY t, id;
-- 4|00:00:00
-- 6|00:00:00
-- 7|01:02:00
-- 1|04:05:06.789
-- 2|23:59:59.999999
-- 3|24:00:00
-- 5|NULL
SELECT id, z FROM spans ORDER BY z, id;
-- 4|02:00:00+02
-- 3|00:00:00+00
-- 1|04:05:06+02
-- 6|12:00:00.5+05:30
-- 2|04:05:06-08
-- 7|13:02:00+00
-- 5|NULL
SELECT count(*), min(id) FROM spans GROUP BY i ORDER BY 2;
-- 2|1
-- 2|3
-- 1|5
-- 1|6
-- 1|7
SELECT count(DISTINCT i), count(DISTINCT t), count(DISTINCT z) FROM spans;
-- 4|5|6
SELECT sum(i), avg(i), min(i), max(i) FROM spans;
-- 1 year 2 mons 33 days 28:05:06.7|2 mons 15 days 16:40:51.116667|-1 mons +5 days|1 year 2 mons -3 days +04:05:06.7
SELECT min(t), max(t), min(z), max(z), sum(t), avg(t) FROM spans;
-- 00:00:00|24:00:00|02:00:00+02|13:02:00+00|53:07:06.788999|08:51:11.1315
SELECT a.id, b.id FROM spans a JOIN spans b ON a.i = b.i AND a.id < b.id ORDER BY 1;
-- 1|2
-- 3|4
SELECT id FROM spans WHERE i > interval '1 day' ORDER BY id;
-- 3
-- 4
-- 6
SELECT id FROM spans WHERE i = '24:00:00' ORDER BY id;
-- 1
-- 2
SELECT id FROM spans WHERE i IN ('1 day', '1 mon') ORDER BY id;
-- 1
-- 2
-- 3
-- 4
SELECT id FROM spans WHERE i BETWEEN '1 day' AND '1 month' ORDER BY id;
-- 1
-- 2
-- 3
-- 4
SELECT id FROM spans WHERE t >= '04:05' AND t < time '24:00' ORDER BY id;
-- 1
-- 2
SELECT id FROM spans WHERE z = '02:05:06+00' OR z > '12:00+00' ORDER BY id;
-- 2
-- 7
SELECT id, ts + i, ts - i, d + i, d - i FROM spans ORDER BY id;
-- 1|2024-03-01 12:00:00|2024-02-28 12:00:00|2024-03-01 00:00:00|2024-02-28 00:00:00
-- 2|2024-01-01 23:59:59.5|2023-12-30 23:59:59.5|2000-01-01 00:00:00|1999-12-30 00:00:00
-- 3|2000-02-01 00:00:00|1999-12-01 00:00:00|2000-02-01 00:00:00|1999-12-01 00:00:00
-- 4|NULL|NULL|NULL|NULL
-- 5|NULL|NULL|NULL|NULL
-- 6|2025-03-28 04:05:06.7|2022-12-02 19:54:53.3|2025-03-28 04:05:06.7|2022-12-02 19:54:53.3
-- 7|1969-06-25 20:17:40|1969-08-15 20:17:40|1969-06-25 00:00:00|1969-08-15 00:00:00
SELECT id, i + i, i - interval '1 day', -i, i * 2, i * 1.5, 0.5 * i, i / 3 FROM spans ORDER BY id;
-- 1|2 days|00:00:00|-1 days|2 days|1 day 12:00:00|12:00:00|08:00:00
-- 2|48:00:00|-1 days +24:00:00|-24:00:00|48:00:00|36:00:00|12:00:00|08:00:00
-- 3|2 mons|1 mon -1 days|-1 mons|2 mons|1 mon 15 days|15 days|10 days
-- 4|60 days|29 days|-30 days|60 days|45 days|15 days|10 days
-- 5|NULL|NULL|NULL|NULL|NULL|NULL|NULL
-- 6|2 years 4 mons -6 days +08:10:13.4|1 year 2 mons -4 days +04:05:06.7|-1 years -2 mons +3 days -04:05:06.7|2 years 4 mons -6 days +08:10:13.4|1 year 9 mons -4 days -05:52:19.95|7 mons -1 days -09:57:26.65|4 mons 19 days 01:21:42.233333
-- 7|-2 mons +10 days|-1 mons +4 days|1 mon -5 days|-2 mons +10 days|-1 mons -8 days +12:00:00|-13 days +12:00:00|-9 days +16:00:00
SELECT id, t + i, t - i, z + i, z - interval '1 hour', t - time '04:00' FROM spans ORDER BY id;
-- 1|04:05:06.789|04:05:06.789|04:05:06+02|03:05:06+02|00:05:06.789
-- 2|23:59:59.999999|23:59:59.999999|04:05:06-08|03:05:06-08|19:59:59.999999
-- 3|00:00:00|00:00:00|00:00:00+00|23:00:00+00|20:00:00
-- 4|00:00:00|00:00:00|02:00:00+02|01:00:00+02|-04:00:00
-- 5|NULL|NULL|NULL|NULL|NULL
-- 6|04:05:06.7|19:54:53.3|16:05:07.2+05:30|11:00:00.5+05:30|-04:00:00
-- 7|01:02:00|01:02:00|13:02:00+00|12:02:00+00|-02:58:00
SELECT id, d + t, t + d, ts - d, d - ts::date, ts - timestamp '2024-01-01' FROM spans ORDER BY id;
-- 1|2024-02-29 04:05:06.789|2024-02-29 04:05:06.789|12:00:00|0|59 days 12:00:00
-- 2|1999-12-31 23:59:59.999999|1999-12-31 23:59:59.999999|8766 days 23:59:59.5|-8766|-00:00:00.5
-- 3|2000-01-02 00:00:00|2000-01-02 00:00:00|00:00:00|0|-8766 days
-- 4|NULL|NULL|NULL|NULL|NULL
-- 5|NULL|NULL|NULL|NULL|NULL
-- 6|2024-01-31 00:00:00|2024-01-31 00:00:00|00:00:00|0|30 days
-- 7|1969-07-20 01:02:00|1969-07-20 01:02:00|20:17:40|0|-19887 days -03:42:20
SELECT id, justify_days(i), justify_hours(i), justify_interval(i) FROM spans ORDER BY id;
-- 1|1 day|1 day|1 day
-- 2|24:00:00|1 day|1 day
-- 3|1 mon|1 mon|1 mon
-- 4|1 mon|30 days|1 mon
-- 5|NULL|NULL|NULL
-- 6|1 year 1 mon 27 days 04:05:06.7|1 year 2 mons -2 days -19:54:53.3|1 year 1 mon 27 days 04:05:06.7
-- 7|-25 days|-1 mons +5 days|-25 days
SELECT id, extract(epoch FROM i), extract(year FROM i), extract(month FROM i), extract(day FROM i), extract(hour FROM i), extract(second FROM i), extract(quarter FROM i) FROM spans ORDER BY id;
-- 1|86400.000000|0|0|1|0|0.000000|1
-- 2|86400.000000|0|0|0|24|0.000000|1
-- 3|2592000.000000|0|1|0|0|0.000000|1
-- 4|2592000.000000|0|0|30|0|0.000000|1
-- 5|NULL|NULL|NULL|NULL|NULL|NULL|NULL
-- 6|36497106.700000|1|2|-3|4|6.700000|1
-- 7|-2160000.000000|0|-1|5|0|0.000000|1
SELECT id, date_part('epoch', i), date_part('minute', t), date_part('second', t), extract(epoch FROM t), extract(epoch FROM z), extract(timezone FROM z), extract(timezone_hour FROM z) FROM spans ORDER BY id;
-- 1|86400|5|6.789|14706.789000|7506.000000|7200|2
-- 2|86400|59|59.999999|86399.999999|43506.000000|-28800|-8
-- 3|2592000|0|0|86400.000000|0.000000|0|0
-- 4|2592000|0|0|0.000000|0.000000|7200|2
-- 5|NULL|NULL|NULL|NULL|NULL|NULL|NULL
-- 6|36497106.7|0|0|0.000000|23400.500000|19800|5
-- 7|-2160000|2|0|3720.000000|46920.000000|0|0
SELECT id, date_trunc('year', i), date_trunc('month', i), date_trunc('day', i), date_trunc('hour', i), date_trunc('second', i), date_trunc('quarter', i) FROM spans ORDER BY id;
-- 1|00:00:00|00:00:00|1 day|1 day|1 day|00:00:00
-- 2|00:00:00|00:00:00|00:00:00|24:00:00|24:00:00|00:00:00
-- 3|00:00:00|1 mon|1 mon|1 mon|1 mon|00:00:00
-- 4|00:00:00|00:00:00|30 days|30 days|30 days|00:00:00
-- 5|NULL|NULL|NULL|NULL|NULL|NULL
-- 6|1 year|1 year 2 mons|1 year 2 mons -3 days|1 year 2 mons -3 days +04:00:00|1 year 2 mons -3 days +04:05:06|1 year
-- 7|00:00:00|-1 mons|-1 mons +5 days|-1 mons +5 days|-1 mons +5 days|00:00:00
SELECT id, i::text, t::text, z::text, i::time, t::interval, z::time, ts::time FROM spans ORDER BY id;
-- 1|1 day|04:05:06.789|04:05:06+02|00:00:00|04:05:06.789|04:05:06|12:00:00
-- 2|24:00:00|23:59:59.999999|04:05:06-08|00:00:00|23:59:59.999999|04:05:06|23:59:59.5
-- 3|1 mon|24:00:00|00:00:00+00|00:00:00|24:00:00|00:00:00|00:00:00
-- 4|30 days|00:00:00|02:00:00+02|00:00:00|00:00:00|02:00:00|NULL
-- 5|NULL|NULL|NULL|NULL|NULL|NULL|NULL
-- 6|1 year 2 mons -3 days +04:05:06.7|00:00:00|12:00:00.5+05:30|04:05:06.7|00:00:00|12:00:00.5|00:00:00
-- 7|-1 mons +5 days|01:02:00|13:02:00+00|00:00:00|01:02:00|13:02:00|20:17:40
SELECT id, age(ts, timestamp '2001-04-10'), age(timestamp '2001-04-10', ts) FROM spans ORDER BY id;
-- 1|22 years 10 mons 19 days 12:00:00|-22 years -10 mons -19 days -12:00:00
-- 2|22 years 8 mons 21 days 23:59:59.5|-22 years -8 mons -21 days -23:59:59.5
-- 3|-1 years -3 mons -9 days|1 year 3 mons 9 days
-- 4|NULL|NULL
-- 5|NULL|NULL
-- 6|22 years 9 mons 21 days|-22 years -9 mons -21 days
-- 7|-31 years -8 mons -20 days -03:42:20|31 years 8 mons 20 days 03:42:20
UPDATE spans SET i = i + '1 hour', t = t + interval '1 hour' WHERE id IN (1, 3, 5);
SELECT id, i, t FROM spans WHERE id IN (1, 3, 5) ORDER BY id;
-- 1|1 day 01:00:00|05:05:06.789
-- 3|1 mon 01:00:00|01:00:00
-- 5|NULL|NULL
UPDATE spans SET i = ts - timestamp '2024-01-01' WHERE id = 2;
SELECT i FROM spans WHERE id = 2;
-- -00:00:00.5
DELETE FROM spans WHERE i > '30 days';
SELECT id FROM spans ORDER BY id;
-- 1
-- 2
-- 4
-- 5
-- 7
DROP TABLE spans;
-- # Keys, unique indexes, defaults, generated columns, checks
CREATE TABLE keyed (i interval PRIMARY KEY, n int);
INSERT INTO keyed VALUES ('1 mon', 1), ('-1 day', 2), ('00:00', 3), ('100 years', 4);
INSERT INTO keyed VALUES ('30 days', 5);
-- ERROR 23505: duplicate key value violates unique constraint "keyed_pkey"
INSERT INTO keyed VALUES ('-24:00', 6);
-- ERROR 23505: duplicate key value violates unique constraint "keyed_pkey"
SELECT * FROM keyed ORDER BY i;
-- -1 days|2
-- 00:00:00|3
-- 1 mon|1
-- 100 years|4
SELECT n FROM keyed WHERE i = '720 hours';
-- 1
SELECT n FROM keyed WHERE i > '-1 day' AND i <= '1 mon' ORDER BY i;
-- 3
-- 1
INSERT INTO keyed VALUES ('30 days', 7) ON CONFLICT (i) DO UPDATE SET n = excluded.n RETURNING i, n;
-- 1 mon|7
CREATE TABLE clocks (t time PRIMARY KEY, z timetz UNIQUE);
INSERT INTO clocks VALUES ('01:00', '01:00+01'), ('02:00', '01:00+02'), ('03:00', NULL);
INSERT INTO clocks VALUES ('01:00:00', '05:00');
-- ERROR 23505: duplicate key value violates unique constraint "clocks_pkey"
INSERT INTO clocks VALUES ('04:00', '01:00:00+01:00');
-- ERROR 23505: duplicate key value violates unique constraint "clocks_z_key"
INSERT INTO clocks VALUES ('04:00', '00:00+00');
SELECT * FROM clocks ORDER BY z, t;
-- 02:00:00|01:00:00+02
-- 01:00:00|01:00:00+01
-- 04:00:00|00:00:00+00
-- 03:00:00|NULL
SELECT t FROM clocks WHERE z < '01:00+01' ORDER BY t;
-- 02:00:00
CREATE TABLE declared (id int PRIMARY KEY, w interval DEFAULT '2 weeks', s interval second(2), y interval year to month, h interval day to hour, p interval(0), t time(0) DEFAULT '12:34:56.7', z timetz(3), g interval GENERATED ALWAYS AS (w * 2) STORED, CHECK (w > '0'));
INSERT INTO declared (id, s, y, h, p, z) VALUES (1, '1.2345', '14', '1 2:34', '1.5', '01:02:03.45678+01');
INSERT INTO declared (id, w) VALUES (2, '-1 day');
-- ERROR 23514: new row for relation "declared" violates check constraint "declared_w_check"
INSERT INTO declared (id, w, t, s) VALUES (3, '1 hour', '23:59:59.5', '1 day 2:03:04.567');
SELECT * FROM declared ORDER BY id;
-- 1|14 days|00:00:01.23|1 year 2 mons|1 day 02:00:00|00:00:02|12:34:57|01:02:03.457+01|28 days
-- 3|01:00:00|1 day 02:03:04.57|NULL|NULL|NULL|24:00:00|NULL|02:00:00
SELECT column_name, data_type, datetime_precision, interval_type FROM information_schema.columns WHERE table_name = 'declared' ORDER BY ordinal_position;
-- id|integer|NULL|NULL
-- w|interval|6|NULL
-- s|interval|2|SECOND(2)
-- y|interval|6|YEAR TO MONTH
-- h|interval|6|DAY TO HOUR
-- p|interval|0|NULL
-- t|time without time zone|0|NULL
-- z|time with time zone|3|NULL
-- g|interval|6|NULL
SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute WHERE attrelid = 'declared'::regclass AND attnum > 0 ORDER BY attnum;
-- id|integer|-1
-- w|interval|-1
-- s|interval second(2)|268435458
-- y|interval year to month|458751
-- h|interval day to hour|67698687
-- p|interval(0)|2147418112
-- t|time(0) without time zone|0
-- z|time(3) with time zone|3
-- g|interval|-1
DROP TABLE keyed, clocks, declared;
-- # What is read
SELECT '1 year 2 months 3 days 4 hours 5 minutes 6 seconds'::interval, '1y 2mon 3d 4h 5m 6s'::interval, '@ 1 minute ago'::interval, '1-2 3 4:05:06'::interval, 'P1Y2M3DT4H5M6S'::interval, 'P0001-02-03T04:05:06'::interval;
-- 1 year 2 mons 3 days 04:05:06|1 year 2 mons 3 days 04:05:06|-00:01:00|1 year 2 mons 3 days 04:05:06|1 year 2 mons 3 days 04:05:06|1 year 2 mons 3 days 04:05:06
SELECT '1.5 years'::interval, '1.25 months'::interval, '0.5 weeks'::interval, '1.5 days'::interval, '1e-1 s'::interval;
-- ERROR 22007: invalid input syntax for type interval: "1e-1 s"
SELECT '5'::interval, '-5.5'::interval, '1 2'::interval, '1 day 2'::interval, '- 1 day'::interval;
-- ERROR 22007: invalid input syntax for type interval: "1 2"
SELECT '1 century 2 decades 1 millennium'::interval, '3 qtr'::interval;
-- ERROR 22007: invalid input syntax for type interval: "3 qtr"
SELECT '100 milliseconds 5 us'::interval, '1:02.5'::interval, '1:2:3.4567891'::interval;
-- 00:00:00.100005|00:01:02.5|01:02:03.456789
SELECT interval '1' year, interval '2' month, interval '3' day, interval '4' hour, interval '5' minute, interval '6.5' second;
-- 1 year|2 mons|3 days|04:00:00|00:05:00|00:00:06.5
SELECT interval '1-2' year to month, interval '1 2' day to hour, interval '1 2:03' day to minute, interval '1 2:03:04.5678' day to second(2), interval '2:03' hour to minute, interval '2:03' minute to second;
-- 1 year 2 mons|1 day 02:00:00|1 day 02:03:00|1 day 02:03:04.57|02:03:00|00:02:03
SELECT interval '1 day 02:03:04.5678' hour, interval '1 year 2 days' month;
-- 1 day 02:00:00|1 year
SELECT cast('1 day 02:03:04.5678' AS interval(2)), '1.999999'::interval(0), '-1.5'::interval second(0);
-- 1 day 02:03:04.57|00:00:02|-00:00:02
SELECT ''::interval;
-- ERROR 22007: invalid input syntax for type interval: ""
SELECT 'nonsense'::interval;
-- ERROR 22007: invalid input syntax for type interval: "nonsense"
SELECT '1 day 1 day'::interval;
-- ERROR 22007: invalid input syntax for type interval: "1 day 1 day"
SELECT '1:60'::interval;
-- ERROR 22015: interval field value out of range: "1:60"
SELECT '99999999999 days'::interval;
-- ERROR 22015: interval field value out of range: "99999999999 days"
SELECT '178956971 years'::interval;
-- ERROR 22008: interval out of range
SELECT '1 nonsense'::interval;
-- ERROR 22007: invalid input syntax for type interval: "1 nonsense"
SELECT '04:05'::time, '040506.5'::time, '4:05 AM'::time, '12:00 pm'::time, '12:30 am'::time, '04:05:06 UTC'::time, '2024-01-02 04:05:06+03'::time;
-- 04:05:00|04:05:06.5|04:05:00|12:00:00|00:30:00|04:05:06|04:05:06
SELECT time '04:05:06.789', time(1) '04:05:06.789', '23:59:59.99'::time(1), '24:00:00'::time, time with time zone '04:05:06+02:30';
-- 04:05:06.789|04:05:06.8|24:00:00|24:00:00|04:05:06+02:30
SELECT '25:00'::time;
-- ERROR 22008: date/time field value out of range: "25:00"
SELECT '04:60'::time;
-- ERROR 22008: date/time field value out of range: "04:60"
SELECT 'noon'::time;
-- ERROR 22007: invalid input syntax for type time: "noon"
SELECT '04:05:06.7+02'::timetz, '04:05Z'::timetz, '04:05:06.78'::timetz(1), '040506-08'::timetz, '2024-07-01 04:05+05:45'::timetz;
-- 04:05:06.7+02|04:05:00+00|04:05:06.8+00|04:05:06-08|04:05:00+05:45
SELECT '04:05+17'::timetz;
-- ERROR 22009: time zone displacement out of range: "04:05+17"
-- # What is computed
SELECT interval '1 day' > interval '23 hours', interval '1 mon' = interval '30 days', interval '1 day' < '24:00:01', interval '1 year' = interval '360 days';
-- t|t|t|t
SELECT max(v::interval), min(v::interval) FROM (VALUES ('9 days'), ('10 days')) AS x(v);
-- 10 days|9 days
SELECT date '2024-01-31' + interval '1 month', date '2024-03-31' - interval '1 month', timestamp '2024-02-29' + interval '1 year', timestamptz '2024-01-31 10:00+00' + interval '1 mon 1 day 1 hour';
-- 2024-02-29 00:00:00|2024-02-29 00:00:00|2025-02-28 00:00:00|2024-03-01 11:00:00+00
SELECT timestamp '2024-03-01' - timestamp '2024-02-28 12:00', timestamptz '2024-03-01 00:00+00' - timestamptz '2024-03-01 12:00+00', date '2024-03-01' - date '2024-02-28', timestamp '2024-03-01' - date '2024-02-01';
-- 1 day 12:00:00|-12:00:00|2|29 days
SELECT interval '1 mon' * 1.5, interval '1 day' / 7, 2 * interval '1 hour', interval '1 year 2 mons 3 days 04:05:06' * 0.1, interval '-1 mon' / 4;
-- 1 mon 15 days|03:25:42.857143|02:00:00|1 mon 12 days 07:36:30.6|-7 days -12:00:00
SELECT interval '1 day' / 0;
-- ERROR 22012: division by zero
SELECT interval '2147483647 days' + interval '1 day';
-- ERROR 22008: interval out of range
SELECT interval '2147483647 months' * 2;
-- ERROR 22008: interval out of range
SELECT -interval '-2147483648 days';
-- ERROR 22008: interval out of range
SELECT date '2024-01-01' + '1 day';
-- ERROR 42725: operator is not unique: date + unknown
SELECT interval '1 day' + 1;
-- ERROR 42883: operator does not exist: interval + integer
SELECT interval '1 day' - timestamp '2024-01-01';
-- ERROR 42883: operator does not exist: interval - timestamp without time zone
SELECT interval '1 day' * interval '1 day';
-- ERROR 42883: operator does not exist: interval * interval
SELECT timestamp '2024-01-01' + '1 day', '1 day' + timestamp '2024-01-01', interval '1 day' + '2 hours';
-- 2024-01-02 00:00:00|2024-01-02 00:00:00|1 day 02:00:00
SELECT time '01:00' + interval '25 hours', interval '2 hours' + time '23:00', time '00:30' - interval '1 hour', timetz '01:00+01' - interval '2 hours', time '03:00' - time '04:30';
-- 02:00:00|01:00:00|23:30:00|23:00:00+01|-01:30:00
SELECT date '2024-01-02' + time '03:04', date '2024-01-02' + timetz '03:04+02', date '2024-01-02' - time '03:04';
-- 2024-01-02 03:04:00|2024-01-02 01:04:00+00|2024-01-01 20:56:00
SELECT age(timestamp '2001-04-10', timestamp '1957-06-13'), age(date '2024-03-31', date '2024-02-29'), age(timestamp '2024-02-29', timestamp '2024-03-31 12:00');
-- 43 years 9 mons 27 days|1 mon 2 days|-1 mons -2 days -12:00:00
SELECT justify_days('35 days'), justify_hours('27 hours'), justify_interval('1 mon -1 hour'), justify_interval('-1 mon 1 day'), justify_hours('-1 day 25 hours');
-- 1 mon 5 days|1 day 03:00:00|29 days 23:00:00|-29 days|01:00:00
SELECT make_interval(), make_interval(1, 2, 3, 4, 5, 6, 7.5), make_interval(days => 10), make_interval(hours => 2, secs => -1.25), make_interval(1, mins => 5);
-- 00:00:00|1 year 2 mons 25 days 05:06:07.5|10 days|01:59:58.75|1 year 00:05:00
SELECT make_time(8, 15, 23.5), make_time(24, 0, 0), make_timestamp(2024, 2, 29, 8, 15, 23.5), make_timestamptz(2024, 2, 29, 8, 15, 23.5);
-- 08:15:23.5|24:00:00|2024-02-29 08:15:23.5|2024-02-29 08:15:23.5+00
SELECT make_time(25, 0, 0);
-- ERROR 22008: time field value out of range: 25:00:00
SELECT extract(century FROM interval '1234 years'), extract(millennium FROM interval '-1234 years'), extract(decade FROM interval '25 years'), extract(milliseconds FROM interval '1.5 s'), extract(microseconds FROM interval '1.5 s');
-- 12|-1|2|1500.000|1500000
SELECT extract(week FROM interval '1 day');
-- ERROR 0A000: unit "week" not supported for type interval
SELECT extract(day FROM time '01:00');
-- ERROR 0A000: unit "day" not supported for type time without time zone
SELECT date_part('epoch', interval '1 year 1 mon 1 day'), extract(epoch FROM interval '1 year 1 mon 1 day'), date_part('hour', time '13:14:15.5'), extract(second FROM time '13:14:15.5');
-- 34236000|34236000.000000|13|15.500000
SELECT date_trunc('hour', interval '2 days 03:04:05'), date_trunc('century', interval '1234 years'), date_trunc('millisecond', interval '1.23456 s');
-- 2 days 03:00:00|1200 years|00:00:01.234
SELECT date_trunc('week', interval '1 day');
-- ERROR 0A000: unit "week" not supported for type interval
SELECT date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01'), date_bin('1 day', timestamp '1999-12-31 15:44:17', timestamp '2001-01-01 06:00'), date_bin('2 hours', timestamptz '2020-02-11 15:44:17+00', timestamptz '2001-01-01 00:00+00');
-- 2020-02-11 15:30:00|1999-12-31 06:00:00|2020-02-11 14:00:00+00
SELECT date_bin('1 month', timestamp '2020-02-11', timestamp '2001-01-01');
-- ERROR 0A000: timestamps cannot be binned into intervals containing months or years
SELECT date_bin('0 s', timestamp '2020-02-11', timestamp '2001-01-01');
-- ERROR 22008: stride must be greater than zero
SELECT to_char(interval '15h 2m 12s', 'HH24:MI:SS'), to_char(interval '1 year 2 mons 3 days 04:05:06.789', 'YYYY-MM-DD HH12:MI:SS.MS US'), to_char(interval '-3 days -04:05', 'DD HH24:MI'), to_char(interval '100 hours', 'HH24 HH12 SSSS'), to_char(interval '14 months', 'RM CC Q Y,YYY DDD WW');
-- 15:02:12|0001-02-03 04:05:06.789 789000|-3 -04:-05|100 04 360000|II   00 1 0,001 420 60
SELECT to_char(interval '1 day', 'Month');
-- ERROR 22007: invalid format specification for an interval value
SELECT to_char(time '13:14:15', 'HH12:MI PM'), to_char(interval '1 day', 'FMDD "d" th');
-- 01:14 PM|1 d th
SELECT timestamp '2024-01-01 12:00' AT TIME ZONE interval '2 hours', timestamptz '2024-01-01 12:00+00' AT TIME ZONE interval '-05:30', timetz '12:00+00' AT TIME ZONE interval '2 hours', timestamp '2024-01-01 12:00' AT TIME ZONE 'UTC', timestamptz '2024-01-01 12:00+02' AT TIME ZONE 'UTC';
-- 2024-01-01 10:00:00+00|2024-01-01 06:30:00|14:00:00+02|2024-01-01 12:00:00+00|2024-01-01 10:00:00
SELECT timestamp '2024-01-01 12:00' AT TIME ZONE interval '1 day';
-- ERROR 22023: interval time zone "1 day" must not include months or days
SELECT (date '2024-01-01', date '2024-03-01') OVERLAPS (date '2024-02-01', date '2024-04-01'), (timestamp '2024-01-01', interval '10 days') OVERLAPS (timestamp '2024-01-11', interval '1 day'), (time '01:00', time '02:00') OVERLAPS (time '01:30', interval '1 hour'), (date '2024-01-01', NULL) OVERLAPS (date '2024-02-01', date '2024-04-01'), (date '2024-03-01', NULL) OVERLAPS (date '2024-02-01', date '2024-04-01');
-- t|f|t|NULL|t
SELECT generate_series(timestamp '2024-01-31', timestamp '2024-05-31', interval '1 month');
-- 2024-01-31 00:00:00
-- 2024-02-29 00:00:00
-- 2024-03-29 00:00:00
-- 2024-04-29 00:00:00
-- 2024-05-29 00:00:00
SELECT count(*) FROM generate_series(timestamptz '2024-01-01 00:00+00', timestamptz '2024-01-02 00:00+00', '90 minutes');
-- 17
SELECT g FROM generate_series(timestamp '2024-01-03', '2024-01-01', interval '-1 day') g;
-- 2024-01-03 00:00:00
-- 2024-01-02 00:00:00
-- 2024-01-01 00:00:00
SELECT generate_series(timestamp '2024-01-01', timestamp '2024-01-02', interval '0');
-- ERROR 22023: step size cannot equal zero
SELECT isfinite(interval '1 day'), isfinite(date '2024-01-01'), isfinite(timestamp '2024-01-01'), isfinite(NULL::date);
-- t|t|t|NULL
SELECT to_timestamp(0), to_timestamp(1700000000.5);
-- 1970-01-01 00:00:00+00|2023-11-14 22:13:20.5+00
SELECT pg_typeof(interval '1 day'), pg_typeof(now() - now()), pg_typeof(time '01:00'), pg_typeof(current_time), pg_typeof(localtime), pg_typeof(date '2024-01-01' + time '01:00'), pg_typeof(interval '1 day' * 2);
-- interval|interval|time without time zone|time with time zone|time without time zone|timestamp without time zone|interval
SELECT ARRAY[interval '1 day', '2 hours'], '{1 day,NULL,"1 mon 2 days"}'::interval[], ARRAY[time '01:00'], interval '1 day' = ANY ('{24:00,48:00}'::interval[]);
-- {"1 day",02:00:00}|{"1 day",NULL,"1 mon 2 days"}|{01:00:00}|t
SELECT coalesce(NULL, interval '1 day'), CASE WHEN true THEN interval '1 hour' END, greatest(interval '1 mon', '29 days'), nullif(interval '1 mon', interval '30 days');
-- 1 day|01:00:00|1 mon|NULL
SELECT interval '1 day' || ' x', 'in ' || interval '2 hours', concat(interval '1 day', time '01:00');
-- 1 day x|in 02:00:00|1 day01:00:00
SELECT v::interval FROM (VALUES ('1 day'), ('24:00'), ('86400 s')) x(v) GROUP BY v::interval;
-- 1 day
SELECT interval '1 day' UNION SELECT interval '24 hours';
-- 1 day
-- # Styles
SET intervalstyle = 'postgres_verbose';
SELECT interval '1 year 2 mons -3 days 04:05:06.789', interval '-1 day -1 s', interval '0', interval '1 mon -1 day';
-- @ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs|@ 1 day 1 sec ago|@ 0|@ 1 mon -1 days
SET intervalstyle = 'sql_standard';
SELECT interval '1 year 2 mons -3 days 04:05:06.789', interval '-1 day -1 s', interval '0', interval '1 year 2 mons', interval '3 days 04:05', interval '-04:05:06.5';
-- +1-2 -3 +4:05:06.789|-1 0:00:01|0|1-2|3 4:05:00|-4:05:06.5
SELECT '-1 2:03:04'::interval, '-1-2'::interval, '-1 day +02:03'::interval, ARRAY[interval '1-2'];
-- -1 2:03:04|-1-2|+0-0 -1 +2:03:00|{1-2}
SELECT (interval '1 day')::text, interval '3 days 1 hour' || '';
-- 1 0:00:00|3 1:00:00
SET intervalstyle = 'iso_8601';
SELECT interval '1 year 2 mons -3 days 04:05:06.789', interval '-1 day -1 s', interval '0', interval '1 year 2 mons', ARRAY[interval '1 day'];
-- P1Y2M-3DT4H5M6.789S|P-1DT-1S|PT0S|P1Y2M|{P1D}
RESET intervalstyle;
SHOW intervalstyle;
-- postgres

-- # Hours alone are west of Greenwich where a zone is named; no second is after a day
SELECT '2020-07-01 10:00Z'::timestamptz AT TIME ZONE '+3', '10:00Z'::timetz AT TIME ZONE '-03', '2020-07-01 10:00'::timestamp AT TIME ZONE '3';
-- 2020-07-01 07:00:00|13:00:00+03|2020-07-01 13:00:00+00
SELECT '12:00:60.5'::time, '23:59:60'::time;
-- 12:01:00.5|24:00:00
SELECT '23:59:60.5'::time;
-- ERROR 22008: date/time field value out of range: "23:59:60.5"
SELECT '23:59:60.000001+01'::timetz;
-- ERROR 22008: date/time field value out of range: "23:59:60.000001+01"
-- # Literals with a precision
SELECT interval(2) '1.23456 seconds', interval (0) '1.5 seconds';
-- 00:00:01.23|00:00:02
