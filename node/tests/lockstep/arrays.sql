-- # Columns of arrays
CREATE TABLE t (id int PRIMARY KEY, tags text[] DEFAULT '{}', ns int[] NOT NULL DEFAULT '{1,2}', ds numeric(6,2)[], bs boolean[], us uuid[], ts timestamp[], fs float8[]);
INSERT INTO t (id) VALUES (1);
INSERT INTO t VALUES (2, '{a,"b c",NULL,"x\"y"}', '{3,NULL}', '{1.5,2}', '{t,f}', '{6ba7b810-9dad-11d1-80b4-00c04fd430c8}', '{2024-01-02 03:04:05}', '{1.5,NaN}');
INSERT INTO t VALUES (3, ARRAY['a', 'b'], ARRAY[5, 4, 3], ARRAY[9.999, 1]);
INSERT INTO t VALUES (4, NULL, '{}');
INSERT INTO t (id, ns) VALUES (5, NULL);
-- ERROR 23502: null value in column "ns" of relation "t" violates not-null constraint
INSERT INTO t (id, ns) VALUES (5, '{a}');
-- ERROR 22P02: invalid input syntax for type integer: "a"
INSERT INTO t (id, ns) VALUES (5, '{1,2');
-- ERROR 22P02: malformed array literal: "{1,2"
INSERT INTO t (id, ns) VALUES (5, 'x');
-- ERROR 22P02: malformed array literal: "x"
INSERT INTO t (id, ds) VALUES (5, '{12345.5}');
-- ERROR 22003: numeric field overflow
INSERT INTO t (id, ns) VALUES (5, 1);
-- ERROR 42804: column "ns" is of type integer[] but expression is of type integer
INSERT INTO t (id, tags) VALUES (5, ARRAY[1, 2]);
SELECT * FROM t ORDER BY id;
-- 1|{}|{1,2}|NULL|NULL|NULL|NULL|NULL
-- 2|{a,"b c",NULL,"x\"y"}|{3,NULL}|{1.50,2.00}|{t,f}|{6ba7b810-9dad-11d1-80b4-00c04fd430c8}|{"2024-01-02 03:04:05"}|{1.5,NaN}
-- 3|{a,b}|{5,4,3}|{10.00,1.00}|NULL|NULL|NULL|NULL
-- 4|NULL|{}|NULL|NULL|NULL|NULL|NULL
-- 5|{1,2}|{1,2}|NULL|NULL|NULL|NULL|NULL
SELECT id FROM t ORDER BY tags, id;
-- 1
-- 5
-- 3
-- 2
-- 4
SELECT id FROM t ORDER BY ns DESC, id;
-- 3
-- 2
-- 1
-- 5
-- 4
SELECT id FROM t WHERE tags = '{a,b}';
-- 3
SELECT id FROM t WHERE tags = ARRAY['a', 'b'] OR ns > '{4}' ORDER BY id;
-- 3
SELECT id FROM t WHERE 'a' = ANY (tags) ORDER BY id;
-- 2
-- 3
SELECT id FROM t WHERE 3 = ANY (ns) ORDER BY id;
-- 2
-- 3
SELECT id FROM t WHERE 3 <= ALL (ns) ORDER BY id;
-- 3
-- 4
SELECT id FROM t WHERE tags @> '{a}' ORDER BY id;
-- 2
-- 3
SELECT id FROM t WHERE tags <@ ARRAY['a', 'b', 'c'] ORDER BY id;
-- 1
-- 3
SELECT id FROM t WHERE ns && '{2,5}' ORDER BY id;
-- 1
-- 3
-- 5
SELECT id FROM t WHERE tags @> ARRAY[1];
-- ERROR 42883: operator does not exist: text[] @> integer[]
SELECT ARRAY[1, 2] @> ARRAY[NULL::int], ARRAY[1, NULL] && ARRAY[NULL::int], '{}'::int[] <@ ARRAY[1], ARRAY[1, 1] <@ ARRAY[1];
-- f|f|t|t
SELECT id, tags[1], ns[2], ns[9], ns[0] FROM t ORDER BY id;
-- 1|NULL|2|NULL|NULL
-- 2|a|NULL|NULL|NULL
-- 3|a|4|NULL|NULL
-- 4|NULL|NULL|NULL|NULL
-- 5|1|2|NULL|NULL
SELECT ns[1:2], ns[2:], ns[:1], ns[3:9], ns[2:1], tags[NULL:2] FROM t ORDER BY id;
-- {1,2}|{2}|{1}|{}|{}|NULL
-- {3,NULL}|{NULL}|{3}|{}|{}|NULL
-- {5,4}|{4,3}|{5}|{3}|{}|NULL
-- {}|{}|{}|{}|{}|NULL
-- {1,2}|{2}|{1}|{}|{}|NULL
SELECT ('{a,b,c}'::text[])[2], (ARRAY[1, 2, 3])[2:3];
-- b|{2,3}
SELECT id, array_length(tags, 1), cardinality(tags), array_upper(ns, 1), array_lower(ns, 1), array_ndims(ns), array_dims(ns) FROM t ORDER BY id;
-- 1|NULL|0|2|1|1|[1:2]
-- 2|4|4|2|1|1|[1:2]
-- 3|2|2|3|1|1|[1:3]
-- 4|NULL|NULL|NULL|NULL|NULL|NULL
-- 5|2|2|2|1|1|[1:2]
SELECT id, array_append(ns, 9), array_prepend(0, ns), ns || 7, ns || '{7,8}', array_remove(ns, 3) FROM t ORDER BY id;
-- 1|{1,2,9}|{0,1,2}|{1,2,7}|{1,2,7,8}|{1,2}
-- 2|{3,NULL,9}|{0,3,NULL}|{3,NULL,7}|{3,NULL,7,8}|{NULL}
-- 3|{5,4,3,9}|{0,5,4,3}|{5,4,3,7}|{5,4,3,7,8}|{5,4}
-- 4|{9}|{0}|{7}|{7,8}|{}
-- 5|{1,2,9}|{0,1,2}|{1,2,7}|{1,2,7,8}|{1,2}
SELECT id, array_position(tags, 'b'), array_positions(ns, 3), array_replace(ns, 3, 33) FROM t ORDER BY id;
-- 1|NULL|{}|{1,2}
-- 2|NULL|{1}|{33,NULL}
-- 3|2|{3}|{5,4,33}
-- 4|NULL|{}|{}
-- 5|NULL|{}|{1,2}
SELECT id, array_to_string(tags, ','), array_to_string(tags, ',', '*') FROM t ORDER BY id;
-- 1||
-- 2|a,b c,x"y|a,b c,*,x"y
-- 3|a,b|a,b
-- 4|NULL|NULL
-- 5|1,2|1,2
SELECT id, tags::text, ns::text[], ns::bigint[] FROM t ORDER BY id;
-- 1|{}|{1,2}|{1,2}
-- 2|{a,"b c",NULL,"x\"y"}|{3,NULL}|{3,NULL}
-- 3|{a,b}|{5,4,3}|{5,4,3}
-- 4|NULL|{}|{}
-- 5|{1,2}|{1,2}|{1,2}
SELECT id, unnest(ns) FROM t ORDER BY 1, 2;
-- 1|1
-- 1|2
-- 2|3
-- 2|NULL
-- 3|3
-- 3|4
-- 3|5
-- 5|1
-- 5|2
SELECT t.id, x FROM t, unnest(t.tags) AS x ORDER BY 1, 2;
-- 2|a
-- 2|b c
-- 2|x"y
-- 2|NULL
-- 3|a
-- 3|b
-- 5|1
-- 5|2
SELECT t.id, x.v, x.n FROM t CROSS JOIN LATERAL unnest(ns) WITH ORDINALITY AS x(v, n) ORDER BY 1, 3;
-- 1|1|1
-- 1|2|2
-- 2|3|1
-- 2|NULL|2
-- 3|5|1
-- 3|4|2
-- 3|3|3
-- 5|1|1
-- 5|2|2
SELECT count(DISTINCT tags), count(*) FROM t;
-- 4|5
SELECT ns, count(*) FROM t GROUP BY ns ORDER BY ns;
-- {}|1
-- {1,2}|2
-- {3,NULL}|1
-- {5,4,3}|1
SELECT max(ns), min(tags) FROM t;
-- {5,4,3}|{}
SELECT pg_typeof(tags), pg_typeof(ns), pg_typeof(ds) FROM t WHERE id = 1;
-- text[]|integer[]|numeric[]
-- # Assignments
UPDATE t SET tags[1] = 'first' WHERE id = 3;
UPDATE t SET ns[5] = 50, tags[2] = upper(tags[1]) WHERE id = 3;
SELECT tags, ns FROM t WHERE id = 3;
-- {first,FIRST}|{5,4,3,NULL,50}
UPDATE t SET ns[1] = ns[1] + 1, ds[1] = 2.345 WHERE id IN (2, 3);
SELECT ns, ds FROM t WHERE id IN (2, 3) ORDER BY id;
-- {4,NULL}|{2.35,2.00}
-- {6,4,3,NULL,50}|{2.35,1.00}
UPDATE t SET ns[1] = 'x' WHERE id = 3;
-- ERROR 22P02: invalid input syntax for type integer: "x"
UPDATE t SET ns[NULL] = 1 WHERE id = 3;
-- ERROR 22004: array subscript in assignment must not be null
UPDATE t SET id[1] = 1;
-- ERROR 42804: cannot subscript type integer because it does not support subscripting
UPDATE t SET tags = array_append(tags, 'new'), ns = ns || 1 WHERE id = 1;
UPDATE t SET tags = tags || '{x}' WHERE id = 4 RETURNING tags;
-- {x}
INSERT INTO t (id, ns) VALUES (1, '{7}') ON CONFLICT (id) DO UPDATE SET ns = t.ns || excluded.ns RETURNING ns;
-- {1,2,1,7}
-- # Keys, indexes, constraints
CREATE TABLE k (a int[] PRIMARY KEY, b text[] UNIQUE, c text[] CHECK (cardinality(c) < 3));
INSERT INTO k VALUES ('{1}', '{a}'), ('{1,2}', '{a,b}'), ('{}', '{}'), ('{1,NULL}', NULL), ('{-5,100}', '{"",x}');
INSERT INTO k VALUES ('{1,2}', NULL);
-- ERROR 23505: duplicate key value violates unique constraint "k_pkey"
INSERT INTO k VALUES ('{9}', '{a,b}');
-- ERROR 23505: duplicate key value violates unique constraint "k_b_key"
INSERT INTO k VALUES ('{9}', NULL, '{a,b,c}');
-- ERROR 23514: new row for relation "k" violates check constraint "k_c_check"
SELECT a, b FROM k ORDER BY a;
-- {}|{}
-- {-5,100}|{"",x}
-- {1}|{a}
-- {1,2}|{a,b}
-- {1,NULL}|NULL
SELECT a, b FROM k ORDER BY b;
-- {}|{}
-- {-5,100}|{"",x}
-- {1}|{a}
-- {1,2}|{a,b}
-- {1,NULL}|NULL
SELECT a FROM k WHERE a = '{1,2}';
-- {1,2}
SELECT a FROM k WHERE a > '{1}' ORDER BY a;
-- {1,2}
-- {1,NULL}
DELETE FROM k WHERE a = '{}';
SELECT count(*) FROM k;
-- 4
CREATE INDEX ON t (tags);
SELECT id FROM t WHERE tags = '{a,"b c",NULL,"x\"y"}';
-- 2
CREATE TABLE g (id int PRIMARY KEY, a int[], n int GENERATED ALWAYS AS (cardinality(a)) STORED);
INSERT INTO g VALUES (1, '{1,2,3}'), (2, NULL);
SELECT * FROM g ORDER BY id;
-- 1|{1,2,3}|3
-- 2|NULL|NULL
-- # Declarations
CREATE TABLE d (a int[3], b int[][], c varchar(3)[], e integer ARRAY, f text ARRAY[4]);
INSERT INTO d VALUES ('{1,2,3,4}', '{1}', '{abc}', '{5}', '{x}');
INSERT INTO d (c) VALUES ('{abcd}');
-- ERROR 22001: value too long for type character varying(3)
SELECT * FROM d;
-- {1,2,3,4}|{1}|{abc}|{5}|{x}
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'd'::regclass AND attnum > 0 ORDER BY attnum;
-- a|integer[]
-- b|integer[]
-- c|character varying(3)[]
-- e|integer[]
-- f|text[]
SELECT column_name, data_type, udt_name, column_default FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position;
-- id|integer|int4|NULL
-- tags|ARRAY|_text|'{}'::text[]
-- ns|ARRAY|_int4|'{1,2}'::integer[]
-- ds|ARRAY|_numeric|NULL
-- bs|ARRAY|_bool|NULL
-- us|ARRAY|_uuid|NULL
-- ts|ARRAY|_timestamp|NULL
-- fs|ARRAY|_float8|NULL
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass ORDER BY adnum;
-- '{}'::text[]
-- '{1,2}'::integer[]
ALTER TABLE d ADD COLUMN z int[] DEFAULT '{7}';
SELECT z FROM d;
-- {7}
ALTER TABLE d ALTER COLUMN a TYPE bigint[];
SELECT a, pg_typeof(a) FROM d;
-- {1,2,3,4}|bigint[]
ALTER TABLE d ALTER COLUMN e TYPE text[] USING e::text[];
SELECT e FROM d;
-- {5}
ALTER TABLE d ALTER COLUMN b TYPE int USING b[1];
SELECT b FROM d;
-- 1
SELECT array_agg(id ORDER BY id DESC) FROM t;
-- {5,4,3,2,1}
CREATE FUNCTION total(ns int[]) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE s bigint := 0; n int; r int[]; BEGIN FOREACH n IN ARRAY ns LOOP s := s + n; END LOOP; r[1] := 5; r[2] := 6; s := s + r[1] + r[2]; RETURN s; END $$;
SELECT total('{1,2,3}');
-- 17

-- # Elements that are assigned, and those that are compared where others are assigned
CREATE TABLE s (id int PRIMARY KEY, a int[], "A" text[], v varchar(3)[]);
INSERT INTO s VALUES (1, '{1,2,3}', '{x,y}', '{abc}'), (2, NULL, NULL, NULL);
UPDATE s SET a[1] = 10, a[3] = a[2] + 5, id = 3 WHERE id = 1;
UPDATE s SET "A"[2] = 'z', a[2] = 0 WHERE id = 3 AND (id, a[1] = 10) = (3, true);
SELECT id, a[1] = 10 AS is_ten, a[9] = NULL AS is_unknown, a[2] = 0 AND (SELECT true) FROM s ORDER BY id;
-- 2|NULL|NULL|NULL
-- 3|t|NULL|t
SELECT * FROM s ORDER BY id;
-- 2|NULL|NULL|NULL
-- 3|{10,0,7}|{x,z}|{abc}
SELECT coalesce(false, a[1] = 10), row(id, a[1] = 10) FROM s ORDER BY id;
-- f|(2,)
-- f|(3,t)
INSERT INTO s (id, a) VALUES (3, '{7}') ON CONFLICT (id) DO UPDATE SET a[1] = excluded.a[1], a[2] = s.a[1] RETURNING a;
-- {7,10,7}
SELECT '{abcdef,gh}'::varchar(3)[], '{1.26}'::numeric(3,1)[];
-- {abc,gh}|{1.3}
INSERT INTO s (id, v) VALUES (4, '{abcd}');
-- ERROR 22001: value too long for type character varying(3)
-- # Arrays that are written out where a table is made of them
CREATE TABLE made AS SELECT array[null]::int[] AS n, array['']::text[] AS e, array['{}'::jsonb] AS j;
SELECT n, e, j FROM made;
-- {NULL}|{""}|{"{}"}
CREATE TABLE spelled (a int ARRAY, b varchar(2) ARRAY[3] DEFAULT ARRAY['x'], c int[] CHECK (c <> ARRAY[1]));
INSERT INTO spelled VALUES (ARRAY[1]);
ALTER TABLE spelled ADD COLUMN d numeric(4,1) ARRAY DEFAULT ARRAY[1.5], ALTER COLUMN a TYPE bigint ARRAY USING ARRAY[2];
SELECT * FROM spelled;
-- {2}|{x}|NULL|{1.5}
-- # Names are arrays of characters that count from 0
SELECT typname[0], typname[1] = 'n' AND (SELECT true) AS n FROM pg_type WHERE typname = 'int4';
-- i|t
-- # Elements that MERGE assigns, up to its next WHEN
CREATE TABLE merged (id int PRIMARY KEY, ns int[]);
INSERT INTO merged VALUES (1, '{1,2}');
MERGE INTO merged USING (VALUES (1, 7), (2, 8)) AS s (id, n) ON merged.id = s.id WHEN MATCHED AND ns[1] = 1 THEN UPDATE SET ns[1] = CASE WHEN s.n > 5 THEN s.n ELSE 0 END WHEN NOT MATCHED THEN INSERT (id, ns) VALUES (s.id, ARRAY[s.n]);
SELECT * FROM merged ORDER BY id;
-- 1|{7,2}
-- 2|{8}
MERGE INTO merged USING (VALUES (1)) AS s (id) ON merged.id = s.id WHEN MATCHED THEN UPDATE SET ns[2] = 3, ns[3] = 4 WHEN NOT MATCHED THEN DO NOTHING;
SELECT * FROM merged ORDER BY id;
-- 1|{7,3,4}
-- 2|{8}
