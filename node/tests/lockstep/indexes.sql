-- # Of expressions
CREATE TABLE t (id int PRIMARY KEY, a text, b int, c boolean);
INSERT INTO t VALUES (1, 'Ada', 1, true), (2, 'ADA', 2, false), (3, 'bob', 3, NULL);
CREATE UNIQUE INDEX t_lower ON t (lower(a));
-- ERROR 23505: could not create unique index "t_lower"
UPDATE t SET a = 'Eve' WHERE id = 2;
CREATE UNIQUE INDEX t_lower ON t (lower(a));
INSERT INTO t VALUES (4, 'eVE', 4, true);
-- ERROR 23505: duplicate key value violates unique constraint "t_lower"
UPDATE t SET a = 'BOB' WHERE id = 1;
-- ERROR 23505: duplicate key value violates unique constraint "t_lower"
UPDATE t SET a = 'BOB' WHERE id = 3;
INSERT INTO t VALUES (4, NULL, 4, true), (5, NULL, 5, true);
SELECT * FROM t ORDER BY id;
-- 1|Ada|1|t
-- 2|Eve|2|f
-- 3|BOB|3|NULL
-- 4|NULL|4|t
-- 5|NULL|5|t
INSERT INTO t VALUES (6, 'EVE', 6, true) ON CONFLICT DO NOTHING;
SELECT count(*) FROM t;
-- 5
CREATE INDEX t_sum ON t ((b + id));
CREATE INDEX ON t (upper(a), b);
CREATE INDEX t_now ON t ((now() + a));
-- ERROR 42883: operator does not exist: timestamp with time zone + text
CREATE INDEX t_random ON t ((random() + b));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX t_nothing ON t (lower(nothing));
-- ERROR 42703: column "nothing" does not exist
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't' AND indexname <> 't_lower' AND indexname <> 't_upper_b_idx' ORDER BY 1;
-- t_pkey|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)
-- t_sum|CREATE INDEX t_sum ON public.t USING btree (((b + id)))
-- # Of some rows
CREATE UNIQUE INDEX t_some ON t (c) WHERE b > 3;
-- ERROR 23505: could not create unique index "t_some"
DELETE FROM t WHERE id = 5;
CREATE UNIQUE INDEX t_some ON t (c) WHERE b > 3;
INSERT INTO t VALUES (7, 'x', 3, true), (8, 'y', 2, true);
INSERT INTO t VALUES (9, 'z', 9, true);
-- ERROR 23505: duplicate key value violates unique constraint "t_some"
UPDATE t SET b = 9 WHERE id = 8;
-- ERROR 23505: duplicate key value violates unique constraint "t_some"
UPDATE t SET b = 9, c = false WHERE id = 8;
CREATE INDEX t_part ON t (b) WHERE c IS NOT NULL;
CREATE INDEX t_odd ON t (b) WHERE b;
-- ERROR 42804: argument of WHERE must be type boolean, not type integer
SELECT id FROM t WHERE b = 9;
-- 8
SELECT indexdef FROM pg_indexes WHERE indexname IN ('t_some', 't_part') ORDER BY 1;
-- CREATE INDEX t_part ON public.t USING btree (b) WHERE (c IS NOT NULL)
-- CREATE UNIQUE INDEX t_some ON public.t USING btree (c) WHERE (b > 3)
SELECT relname, indnatts, indkey::text, indpred IS NULL, indexprs IS NULL FROM pg_index JOIN pg_class ON indexrelid = oid WHERE relname IN ('t_some', 't_lower', 't_part') ORDER BY 1;
-- t_lower|1|0|t|f
-- t_part|1|3|f|t
-- t_some|1|4|f|t
-- # In another order
CREATE INDEX t_order ON t (b DESC, a NULLS FIRST, c DESC NULLS LAST);
SELECT indexdef, indoption::text FROM pg_indexes JOIN pg_class ON relname = indexname JOIN pg_index ON indexrelid = oid WHERE indexname = 't_order';
-- CREATE INDEX t_order ON public.t USING btree (b DESC, a NULLS FIRST, c DESC NULLS LAST)|3 2 1
-- # What they hold is not seen
SELECT * FROM t ORDER BY id LIMIT 1;
-- 1|Ada|1|t
INSERT INTO t VALUES (20, 'q', 20, false, 'more');
-- ERROR 42601: INSERT has more expressions than target columns
SELECT count(*) FROM information_schema.columns WHERE table_name = 't';
-- 4
SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
-- id
-- a
-- b
-- c
-- # They go with their columns
ALTER TABLE t RENAME COLUMN a TO aa;
INSERT INTO t VALUES (21, 'EVE', 21, false);
-- ERROR 23505: duplicate key value violates unique constraint "t_lower"
DROP INDEX t_lower;
INSERT INTO t VALUES (21, 'EVE', 21, NULL);
ALTER TABLE t DROP COLUMN c;
SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1;
-- t_pkey
-- t_sum
-- t_upper_b_idx
ALTER TABLE t DROP COLUMN aa;
SELECT * FROM t ORDER BY id LIMIT 2;
-- 1|1
-- 2|2
-- # Tables without a key, and generated columns
CREATE TABLE g (a text, u text GENERATED ALWAYS AS (upper(a)) STORED);
INSERT INTO g VALUES ('x'), ('y');
CREATE UNIQUE INDEX g_u ON g (left(u, 1));
INSERT INTO g VALUES ('xx');
-- ERROR 23505: duplicate key value violates unique constraint "g_u"
INSERT INTO g VALUES ('zz');
UPDATE g SET a = 'y' || a WHERE a = 'zz';
-- ERROR 23505: duplicate key value violates unique constraint "g_u"
SELECT * FROM g ORDER BY a;
-- x|X
-- y|Y
-- zz|ZZ
-- # Primary keys go, and come again
CREATE TABLE k (id int PRIMARY KEY, v int);
CREATE TABLE child (id int REFERENCES k);
INSERT INTO k VALUES (2, 1), (1, 2);
ALTER TABLE k DROP CONSTRAINT k_pkey;
-- ERROR 2BP01: cannot drop constraint k_pkey on table k because other objects depend on it
ALTER TABLE k DROP CONSTRAINT k_pkey CASCADE;
INSERT INTO k VALUES (1, 3);
INSERT INTO k VALUES (NULL, 3);
-- ERROR 23502: null value in column "id" of relation "k" violates not-null constraint
INSERT INTO child VALUES (7);
SELECT * FROM k ORDER BY v;
-- 2|1
-- 1|2
-- 1|3
DELETE FROM k WHERE v = 3;
ALTER TABLE k ADD PRIMARY KEY (v);
INSERT INTO k VALUES (1, 2);
-- ERROR 23505: duplicate key value violates unique constraint "k_pkey"
ALTER TABLE k DROP COLUMN v;
INSERT INTO k VALUES (1);
SELECT * FROM k ORDER BY id;
-- 1
-- 1
-- 2
-- # Columns with sequences get other types
CREATE TABLE q (id serial PRIMARY KEY, n int GENERATED BY DEFAULT AS IDENTITY, v text);
INSERT INTO q (v) VALUES ('a');
ALTER TABLE q ALTER COLUMN id TYPE bigint;
ALTER TABLE q ALTER COLUMN n TYPE bigint;
INSERT INTO q (v) VALUES ('b');
SELECT id, n > id - 1, v FROM q ORDER BY id;
-- 1|t|a
-- 2|t|b
SELECT data_type FROM pg_sequences WHERE sequencename = 'q_n_seq';
-- bigint
SELECT data_type FROM information_schema.columns WHERE table_name = 'q' ORDER BY ordinal_position;
-- bigint
-- bigint
-- text
-- # UNIQUE that waits
CREATE TABLE u (id int PRIMARY KEY, n int UNIQUE DEFERRABLE INITIALLY DEFERRED, m int, CONSTRAINT u_m UNIQUE (m) DEFERRABLE);
INSERT INTO u VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO u VALUES (3, 1, 3);
-- ERROR 23505: duplicate key value violates unique constraint "u_n_key"
BEGIN;
UPDATE u SET n = 2 WHERE id = 1;
UPDATE u SET n = 1 WHERE id = 2;
COMMIT;
SELECT id, n FROM u ORDER BY id;
-- 1|2
-- 2|1
BEGIN;
UPDATE u SET n = 1 WHERE id = 1;
COMMIT;
-- ERROR 23505: duplicate key value violates unique constraint "u_n_key"
SELECT id, n FROM u ORDER BY id;
-- 1|2
-- 2|1
BEGIN;
UPDATE u SET m = 2 WHERE id = 1;
-- ERROR 23505: duplicate key value violates unique constraint "u_m"
ROLLBACK;
BEGIN;
SET CONSTRAINTS u_m DEFERRED;
UPDATE u SET m = 2 WHERE id = 1;
SET CONSTRAINTS u_m IMMEDIATE;
-- ERROR 23505: duplicate key value violates unique constraint "u_m"
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE u SET m = 2 WHERE id = 1;
UPDATE u SET m = 1 WHERE id = 2;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
SELECT id, m FROM u ORDER BY id;
-- 1|2
-- 2|1
INSERT INTO u VALUES (4, 1, 4) ON CONFLICT (n) DO NOTHING;
-- ERROR 55000: ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
CREATE TABLE v (n int REFERENCES u (n));
-- ERROR 55000: cannot use a deferrable unique constraint for referenced table "u"
SELECT conname, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'u'::regclass ORDER BY 1;
-- u_m|t|f|UNIQUE (m) DEFERRABLE
-- u_n_key|t|t|UNIQUE (n) DEFERRABLE INITIALLY DEFERRED
-- u_pkey|f|f|PRIMARY KEY (id)
-- # COMMIT AND CHAIN
COMMIT AND CHAIN;
-- ERROR 25P01: COMMIT AND CHAIN can only be used in transaction blocks
BEGIN READ ONLY;
COMMIT AND CHAIN;
SHOW transaction_read_only;
-- on
ROLLBACK AND CHAIN;
SHOW transaction_read_only;
-- on
ROLLBACK;
BEGIN;
INSERT INTO u VALUES (9, 9, 9);
COMMIT AND CHAIN;
INSERT INTO u VALUES (10, 10, 10);
ROLLBACK AND NO CHAIN;
SELECT id FROM u WHERE id > 8;
-- 9
-- # Small things
CREATE TABLE none ();
INSERT INTO none DEFAULT VALUES;
SELECT count(*) FROM none;
-- 1
ALTER TABLE none ADD COLUMN a int;
SELECT * FROM none;
-- NULL
SELECT 1 FOR UPDATE;
-- 1
SELECT id FROM u ORDER BY id FETCH FIRST (1 + 1) ROWS ONLY;
-- 1
-- 2
SELECT id FROM u ORDER BY id OFFSET 1 ROW FETCH NEXT (1) ROW ONLY;
-- 2
CREATE TABLE twice (id int PRIMARY KEY, c int, UNIQUE (id, c), FOREIGN KEY (c, c) REFERENCES twice (id, c));
INSERT INTO twice VALUES (1, 1);
INSERT INTO twice VALUES (2, 1);
INSERT INTO twice VALUES (3, 4);
-- ERROR 23503: insert or update on table "twice" violates foreign key constraint "twice_c_c_fkey"
DELETE FROM twice WHERE id = 1;
-- ERROR 23503: update or delete on table "twice" violates foreign key constraint "twice_c_c_fkey" on table "twice"

-- # Keys that can wait, and rows in any order
CREATE TABLE turns (a int UNIQUE DEFERRABLE, b int UNIQUE DEFERRABLE INITIALLY DEFERRED, c int);
INSERT INTO turns SELECT n, n, n FROM generate_series(1, 4) n;
UPDATE turns SET a = a + 1;
UPDATE turns SET b = 5 - b;
UPDATE turns SET a = 7 - a, b = b + 1 WHERE c > 1;
-- ERROR 23505: duplicate key value violates unique constraint "turns_a_key"
SELECT * FROM turns ORDER BY c;
-- 2|4|1
-- 3|3|2
-- 4|2|3
-- 5|1|4
UPDATE turns SET a = 1;
-- ERROR 23505: duplicate key value violates unique constraint "turns_a_key"
UPDATE turns SET b = 3 WHERE c > 2;
-- ERROR 23505: duplicate key value violates unique constraint "turns_b_key"
INSERT INTO turns VALUES (2, 9, 9);
-- ERROR 23505: duplicate key value violates unique constraint "turns_a_key"
INSERT INTO turns VALUES (9, 9, 9) ON CONFLICT DO NOTHING;
-- ERROR 55000: ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
BEGIN;
UPDATE turns SET a = a + 1;
UPDATE turns SET b = 5;
UPDATE turns SET b = c + 10;
COMMIT;
BEGIN;
UPDATE turns SET a = 8;
-- ERROR 23505: duplicate key value violates unique constraint "turns_a_key"
ROLLBACK;
SELECT * FROM turns ORDER BY c;
-- 3|11|1
-- 4|12|2
-- 5|13|3
-- 6|14|4
-- # What is no constraint
CREATE UNIQUE INDEX portion ON turns (c) WHERE a > 0;
CREATE UNIQUE INDEX sums ON turns ((c + 1));
ALTER TABLE turns ADD CONSTRAINT k UNIQUE USING INDEX portion;
-- ERROR 42809: "portion" is a partial index
ALTER TABLE turns ADD CONSTRAINT k UNIQUE USING INDEX sums;
-- ERROR 42809: index "sums" contains expressions
-- # A key that a view groups by
CREATE TABLE grouped (a int PRIMARY KEY, b int, c int);
CREATE VIEW by_key AS SELECT a, b, count(*) FROM grouped GROUP BY a;
CREATE VIEW plain AS SELECT a, count(*) FROM grouped GROUP BY a;
ALTER TABLE grouped DROP CONSTRAINT grouped_pkey;
-- ERROR 2BP01: cannot drop constraint grouped_pkey on table grouped because other objects depend on it
SELECT * FROM by_key;
ALTER TABLE grouped DROP CONSTRAINT grouped_pkey CASCADE;
SELECT * FROM by_key;
-- ERROR 42P01: relation "by_key" does not exist
SELECT * FROM plain;
-- # Falling indexes that are unique
CREATE TABLE falls (a int, b int);
CREATE UNIQUE INDEX falling ON falls (a DESC);
CREATE UNIQUE INDEX firsts ON falls (b NULLS FIRST, a);
INSERT INTO falls VALUES (1, 1), (2, 1), (3, NULL);
INSERT INTO falls VALUES (1, 2);
-- ERROR 23505: duplicate key value violates unique constraint "falling"
UPDATE falls SET a = 2;
-- ERROR 23505: duplicate key value violates unique constraint "falling"
INSERT INTO falls VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET b = 7;
SELECT * FROM falls ORDER BY a;
-- 1|7
-- 2|1
-- 3|NULL
ALTER TABLE falls ADD CONSTRAINT k UNIQUE USING INDEX falling;
-- ERROR 42809: index "falling" column number 1 does not have default sorting behavior
INSERT INTO falls VALUES (4, 9), (4, 9);
-- ERROR 23505: duplicate key value violates unique constraint "falling"
DROP INDEX falling;
INSERT INTO falls VALUES (4, 9), (4, 8);
CREATE UNIQUE INDEX falling ON falls (a DESC);
-- ERROR 23505: could not create unique index "falling"
-- # Of what is not immutable
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE moods (e mood, d date, x text, ts timestamp, n int, j jsonb);
CREATE INDEX ON moods ((e::text));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((x::mood));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((coalesce(e::text, '')));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((e || ''));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods (('' || e));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((x || d));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((concat(x, n)));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((x::date));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods ((to_jsonb(n)));
-- ERROR 42P17: functions in index expression must be marked IMMUTABLE
CREATE INDEX ON moods (n) WHERE e::text = 'sad';
-- ERROR 42P17: functions in index predicate must be marked IMMUTABLE
CREATE INDEX ON moods (n) WHERE e > 'sad';
CREATE INDEX ON moods ((ts::date));
CREATE INDEX ON moods ((x || n));
CREATE INDEX ON moods ((j::text));
CREATE TABLE generated (e mood, x text GENERATED ALWAYS AS (e::text) STORED);
-- ERROR 42P17: generation expression is not immutable
CREATE TABLE generated (d date, x text GENERATED ALWAYS AS ('on ' || d) STORED);
-- ERROR 42P17: generation expression is not immutable
CREATE TABLE checked (e mood, CHECK (e::text = 'sad'));
