-- # Frames of windows by how far values are apart
CREATE TABLE readings (id int PRIMARY KEY, grp int, n int, big bigint, num numeric(10,2), f float8, d date, ts timestamp, tz timestamptz, span interval, name text)
INSERT INTO readings VALUES (1, 1, 1, 9223372036854775807, 1.00, 1.5, '2026-01-01', '2026-01-01 00:00', '2026-01-01 00:00+00', '1 hour', 'a')
INSERT INTO readings VALUES (2, 1, 2, 9223372036854775806, 1.25, 2.5, '2026-01-03', '2026-01-01 06:00', '2026-01-01 06:00+00', '2 hours', 'b')
INSERT INTO readings VALUES (3, 1, 2, 5, 1.50, 'Infinity', '2026-01-08', '2026-01-02 00:00', '2026-01-02 00:00+00', '1 day', 'c')
INSERT INTO readings VALUES (4, 2, 5, -9223372036854775808, 4.00, '-Infinity', '2026-01-31', '2026-01-02 06:30', '2026-01-02 06:30+00', '30 days', 'd')
INSERT INTO readings VALUES (5, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
INSERT INTO readings VALUES (6, 2, NULL, 0, 9.99, 'NaN', '2026-02-28', '2026-02-01', '2026-02-01', '1 month', 'f')
INSERT INTO readings VALUES (7, 2, 6, 1, 4.01, 2.4, '2026-02-28', '2026-03-01', '2026-03-01', '31 days', 'g')
SELECT id, n, count(*) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW), sum(id) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM readings ORDER BY n, id
-- 1|1|1|6
-- 2|2|3|6
-- 3|2|3|6
-- 4|5|1|11
-- 7|6|2|11
-- 5|NULL|2|11
-- 6|NULL|2|11
SELECT id, sum(id) OVER (ORDER BY n DESC RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING) FROM readings ORDER BY id
-- 1|6
-- 2|6
-- 3|6
-- 4|16
-- 5|11
-- 6|11
-- 7|11
SELECT id, sum(id) OVER (ORDER BY n NULLS FIRST RANGE BETWEEN 3 FOLLOWING AND 5 FOLLOWING) FROM readings ORDER BY id
-- 1|11
-- 2|11
-- 3|11
-- 4|NULL
-- 5|11
-- 6|11
-- 7|NULL
SELECT id, sum(id) OVER (ORDER BY n NULLS FIRST RANGE BETWEEN 4 PRECEDING AND 1 PRECEDING) FROM readings ORDER BY id
-- 1|NULL
-- 2|1
-- 3|1
-- 4|6
-- 5|11
-- 6|11
-- 7|9
SELECT id, sum(id) OVER (ORDER BY n NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) FROM readings ORDER BY id
-- 1|17
-- 2|17
-- 3|17
-- 4|28
-- 5|11
-- 6|11
-- 7|28
SELECT id, sum(id) OVER (ORDER BY n NULLS LAST RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) FROM readings ORDER BY id
-- 1|28
-- 2|28
-- 3|28
-- 4|22
-- 5|11
-- 6|11
-- 7|22
SELECT id, sum(id) OVER (PARTITION BY grp ORDER BY n RANGE 1 PRECEDING) FROM readings ORDER BY id
-- 1|1
-- 2|6
-- 3|6
-- 4|4
-- 5|11
-- 6|11
-- 7|11
SELECT id, first_value(id) OVER w, last_value(id) OVER w, nth_value(id, 2) OVER w FROM readings WHERE n IS NOT NULL WINDOW w AS (ORDER BY n, id ROWS 1 PRECEDING) ORDER BY id
-- 1|1|1|NULL
-- 2|1|2|2
-- 3|2|3|3
-- 4|3|4|4
-- 7|4|7|7
SELECT id, count(*) OVER (ORDER BY big RANGE BETWEEN 1 PRECEDING AND 9223372036854775807 FOLLOWING) FROM readings ORDER BY id
-- 1|2
-- 2|2
-- 3|3
-- 4|1
-- 5|1
-- 6|5
-- 7|5
SELECT id, sum(id) OVER (ORDER BY num RANGE BETWEEN 0.25 PRECEDING AND 0.01 FOLLOWING) FROM readings ORDER BY id
-- 1|1
-- 2|3
-- 3|5
-- 4|11
-- 5|5
-- 6|6
-- 7|11
SELECT id, sum(id) OVER (ORDER BY num DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM readings ORDER BY id
-- 1|6
-- 2|5
-- 3|3
-- 4|11
-- 5|5
-- 6|6
-- 7|7
SELECT id, sum(id) OVER (ORDER BY f RANGE BETWEEN 1 PRECEDING AND 0.1 FOLLOWING) FROM readings WHERE f < 'Infinity' AND f > '-Infinity' OR f IS NULL OR f = 'NaN' ORDER BY id
-- 1|1
-- 2|10
-- 5|5
-- 6|6
-- 7|10
SELECT id, sum(id) OVER (ORDER BY d RANGE BETWEEN '7 days' PRECEDING AND CURRENT ROW) FROM readings ORDER BY id
-- 1|1
-- 2|3
-- 3|6
-- 4|4
-- 5|5
-- 6|13
-- 7|13
SELECT id, sum(id) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '1 day' FOLLOWING) FROM readings ORDER BY id
-- 1|1
-- 2|3
-- 3|6
-- 4|10
-- 5|5
-- 6|17
-- 7|17
SELECT id, sum(id) OVER (ORDER BY d DESC RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '1 day' FOLLOWING) FROM readings ORDER BY id
-- 1|10
-- 2|9
-- 3|7
-- 4|17
-- 5|5
-- 6|13
-- 7|13
SELECT id, sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '6 hours' PRECEDING AND INTERVAL '1 day' FOLLOWING) FROM readings ORDER BY id
-- 1|6
-- 2|6
-- 3|7
-- 4|4
-- 5|5
-- 6|6
-- 7|7
SELECT id, sum(id) OVER (ORDER BY tz RANGE BETWEEN INTERVAL '6 hours' PRECEDING AND INTERVAL '18 hours' FOLLOWING) FROM readings ORDER BY id
-- 1|3
-- 2|6
-- 3|7
-- 4|4
-- 5|5
-- 6|6
-- 7|7
SELECT id, sum(id) OVER (ORDER BY span RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '23 hours' FOLLOWING) FROM readings ORDER BY id
-- 1|6
-- 2|6
-- 3|3
-- 4|10
-- 5|5
-- 6|10
-- 7|7
SELECT id, avg(n) OVER (ORDER BY n + 0 RANGE BETWEEN 1 + 1 PRECEDING AND 0 FOLLOWING) FROM readings ORDER BY id
-- 1|1.00000000000000000000
-- 2|1.6666666666666667
-- 3|1.6666666666666667
-- 4|5.0000000000000000
-- 5|NULL
-- 6|NULL
-- 7|5.5000000000000000
-- # What is refused
SELECT sum(id) OVER (ORDER BY n RANGE -1 PRECEDING) FROM readings
-- ERROR 22013: invalid preceding or following size in window function
SELECT sum(id) OVER (ORDER BY n RANGE NULL::int PRECEDING) FROM readings
-- ERROR 22004: frame starting offset must not be null
SELECT sum(id) OVER (ORDER BY num RANGE -0.5 PRECEDING) FROM readings
-- ERROR 22013: invalid preceding or following size in window function
SELECT sum(id) OVER (ORDER BY f RANGE 'NaN' PRECEDING) FROM readings
-- ERROR 22013: invalid preceding or following size in window function
SELECT sum(id) OVER (ORDER BY d RANGE INTERVAL '-1 day' PRECEDING) FROM readings
-- ERROR 22013: invalid preceding or following size in window function
SELECT sum(id) OVER (RANGE 1 PRECEDING) FROM readings
-- ERROR 42P20: RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column
SELECT sum(id) OVER (ORDER BY n, id RANGE 1 PRECEDING) FROM readings
-- ERROR 42P20: RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column
SELECT sum(id) OVER (ORDER BY name RANGE 1 PRECEDING) FROM readings
-- ERROR 0A000: RANGE with offset PRECEDING/FOLLOWING is not supported for column type text
SELECT sum(id) OVER (ORDER BY n RANGE INTERVAL '1 day' PRECEDING) FROM readings
-- ERROR 0A000: RANGE with offset PRECEDING/FOLLOWING is not supported for column type integer and offset type interval
SELECT sum(id) OVER (ORDER BY d RANGE 1 PRECEDING) FROM readings
-- ERROR 0A000: RANGE with offset PRECEDING/FOLLOWING is not supported for column type date and offset type integer
SELECT sum(id) OVER (ORDER BY n RANGE n PRECEDING) FROM readings
-- ERROR 42P10: argument of RANGE must not contain variables
