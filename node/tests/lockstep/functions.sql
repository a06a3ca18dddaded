-- # Functions of arrays, bytes and characters, and calls that give rows of what subqueries say
CREATE TABLE t (id int PRIMARY KEY, f bool, a text, b bytea, d date);
INSERT INTO t VALUES (1, true, '{1,2}', '\x000100', '2024-02-29'), (2, false, NULL, '\x0102', '1999-12-31'), (3, NULL, '{}', NULL, NULL);
SELECT '{a,b}'::text[] || NULL::text[], NULL::int[] || '{1}'::int[], NULL::int[] || NULL::int[];
-- {a,b}|{1}|NULL
SELECT id, a::int[] || a::int[], a::int[] || 7, 7 || a::int[], a::int[] || NULL, '{8,9}' || a::int[] FROM t ORDER BY id;
-- 1|{1,2,1,2}|{1,2,7}|{7,1,2}|{1,2}|{8,9,1,2}
-- 2|NULL|{7}|{7}|NULL|{8,9}
-- 3|{}|{7}|{7}|{}|{8,9}
SELECT ARRAY[1] || ARRAY[3000000000], ARRAY[1] || ARRAY[2.5], ARRAY[1,2] || 2.5;
-- {1,3000000000}|{1,2.5}|{1,2,2.5}
SELECT array_append(ARRAY[1], 2.5), array_prepend(2.5, ARRAY[1]), array_cat(ARRAY[1], ARRAY[2.5]);
-- {1,2.5}|{2.5,1}|{1,2.5}
SELECT array_replace(ARRAY[1,2], 1.5, 9), array_position(ARRAY[1,2], 1.4), array_remove(ARRAY[1,2], 3000000000);
-- {1,2}|NULL|{1,2}
SELECT array_append(a::int[], 3000000000), array_positions(a::int[], 2) FROM t ORDER BY id;
-- {1,2,3000000000}|{2}
-- {3000000000}|NULL
-- {3000000000}|{}
SELECT array_append(ARRAY[1], 'x');
-- ERROR 22P02: invalid input syntax for type integer: "x"
SELECT array_to_string(ARRAY[true,false,NULL], ','), array_to_string(ARRAY[true,NULL], ',', '?');
-- t,f|t,?
SELECT array_to_string('{1,2}'::int[], ','), cardinality('{1,2}'::int[]), cardinality('{}'::int[]);
-- 1,2|2|0
SELECT btrim('\x000100'::bytea, '\x00'::bytea), ltrim('\x0001'::bytea, '\x00'::bytea), rtrim('\x0100'::bytea, '\x00'::bytea);
-- \x01|\x01|\x01
SELECT btrim(b, '\x0001'), trim(BOTH '\x00'::bytea FROM b), position('\x02'::bytea IN b), position(''::bytea IN b) FROM t ORDER BY id;
-- \x|\x01|0|1
-- \x02|\x0102|2|1
-- NULL|NULL|NULL|NULL
SELECT position('\x0100'::bytea IN b), substring(b FROM 2 FOR 1), octet_length(b) FROM t ORDER BY id;
-- 2|\x01|3
-- 0|\x02|2
-- NULL|NULL|NULL
SELECT chr(-1);
-- ERROR 22023: character number must be positive
SELECT chr(0);
-- ERROR 54000: null character not permitted
SELECT chr(1114112);
-- ERROR 54000: requested character too large for encoding: 1114112
SELECT chr(55296);
-- ERROR 54000: requested character not valid for encoding: 55296
SELECT chr(233), ascii('é');
-- é|233
SELECT extract(hour FROM d) FROM t;
-- ERROR 0A000: unit "hour" not supported for type date
SELECT date_part('hour', d), extract(day FROM d) FROM t ORDER BY id;
-- 0|29
-- 0|31
-- NULL|NULL
SELECT id, g, h FROM t, unnest(ARRAY[1], ARRAY(SELECT 1 WHERE t.f)) u(g, h) ORDER BY id, g;
-- 1|1|1
-- 2|1|NULL
-- 3|1|NULL
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM unnest(ARRAY[1], ARRAY(SELECT 1 WHERE t.f)) u(a, b) WHERE b = 1) ORDER BY id;
-- 1
SELECT id, g, n FROM t CROSS JOIN unnest(ARRAY(SELECT t.id + x FROM (VALUES (1), (2)) v(x))) WITH ORDINALITY u(g, n) ORDER BY id, n;
-- 1|2|1
-- 1|3|2
-- 2|3|1
-- 2|4|2
-- 3|4|1
-- 3|5|2
SELECT id, g FROM t, generate_series(1, (SELECT max(x) FROM (VALUES (t.id), (2)) v(x))) g ORDER BY id, g;
-- 1|1
-- 1|2
-- 2|1
-- 2|2
-- 3|1
-- 3|2
-- 3|3
BEGIN;
DELETE FROM t WHERE (SELECT count(*) FROM unnest(ARRAY[1], ARRAY(SELECT 1 WHERE t.f)) u(a, b) WHERE b = 1) = 1;
SELECT id FROM t ORDER BY id;
-- 2
-- 3
SELECT id, g, h FROM t, unnest(ARRAY[1,2], ARRAY(SELECT t.id)) u(g, h) ORDER BY id, g;
-- 2|1|2
-- 2|2|NULL
-- 3|1|3
-- 3|2|NULL
ROLLBACK;
SELECT id, count(*) FROM t GROUP BY ROLLUP (id, 1::bigint) HAVING count(*) >= 1 ORDER BY 1, 2;
-- 1|1
-- 1|1
-- 2|1
-- 2|1
-- 3|1
-- 3|1
-- NULL|3
SELECT f, sum(id) + 0 FROM t GROUP BY ROLLUP (f, CAST(false AS int)) ORDER BY 1, 2;
-- f|2
-- f|2
-- t|1
-- t|1
-- NULL|3
-- NULL|3
-- NULL|6
CREATE FUNCTION last_of_declared() RETURNS int LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN SELECT id INTO r FROM t WHERE id = 2; FOR r IN SELECT id FROM t WHERE id IN (1, 3) ORDER BY id LOOP NULL; END LOOP; RETURN r.id; END $$;
SELECT last_of_declared();
-- 3
CREATE FUNCTION left_at() RETURNS int LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT id FROM t ORDER BY id LOOP EXIT WHEN r.id = 2; END LOOP; RETURN r.id; END $$;
SELECT left_at();
-- 2
CREATE FUNCTION none_came() RETURNS int LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN SELECT id INTO r FROM t WHERE id = 2; FOR r IN SELECT id FROM t WHERE id > 9 LOOP NULL; END LOOP; RETURN r.id; END $$;
SELECT none_came();
-- NULL
CREATE FUNCTION inner_one() RETURNS int LANGUAGE plpgsql AS $$ DECLARE r record; n int := 0; BEGIN FOR r IN SELECT id FROM t ORDER BY id LOOP FOR r IN SELECT id FROM t WHERE id < 3 ORDER BY id LOOP NULL; END LOOP; n := n * 10 + r.id; END LOOP; RETURN n; END $$;
SELECT inner_one();
-- 222
CREATE FUNCTION other_columns() RETURNS text LANGUAGE plpgsql AS $$ DECLARE r record; s text := ''; BEGIN FOR r IN SELECT id FROM t ORDER BY id LOOP s := s || r.id; END LOOP; FOR r IN SELECT f, d FROM t WHERE id = 1 LOOP s := s || r.d; END LOOP; RETURN s || r.f; END $$;
SELECT other_columns();
-- 1232024-02-29true
CREATE FUNCTION of_row_type() RETURNS text LANGUAGE plpgsql AS $$ DECLARE r t%ROWTYPE; BEGIN FOR r IN SELECT id, f FROM t ORDER BY id LOOP EXIT WHEN r.id = 2; END LOOP; RETURN r.id || ' ' || r.f || ' ' || (r.a IS NULL); END $$;
SELECT of_row_type();
-- 2 false true
CREATE FUNCTION scalar_none() RETURNS int LANGUAGE plpgsql AS $$ DECLARE x int := 7; BEGIN FOR x IN SELECT id FROM t WHERE id > 9 LOOP NULL; END LOOP; RETURN x; END $$;
SELECT scalar_none();
-- NULL
SELECT unnest(ARRAY[2,3,1]) u ORDER BY u;
-- 1
-- 2
-- 3
SELECT generate_series(1,3) g ORDER BY g DESC LIMIT 2;
-- 3
-- 2
SELECT ARRAY(SELECT unnest(ARRAY[2,3,1]) ORDER BY 1);
-- {1,2,3}
SELECT id, unnest(ARRAY[2,1]) u FROM t ORDER BY id, u;
-- 1|1
-- 1|2
-- 2|1
-- 2|2
-- 3|1
-- 3|2
CREATE TABLE m (v varchar(6), e numeric(8,2), c char(4));
INSERT INTO m VALUES ('abc', 1.5, 'ab'), (NULL, NULL, NULL);
SELECT coalesce(v, 'longer than six'), coalesce(e, '1.239'), greatest(e, '1.239'), CASE WHEN v IS NULL THEN 'longer than six' ELSE v END FROM m ORDER BY 1;
-- abc|1.50|1.50|abc
-- longer than six|1.239|1.239|longer than six
SELECT v FROM m UNION ALL SELECT 'longer than six' ORDER BY 1;
-- abc
-- longer than six
-- NULL
SELECT e FROM m UNION ALL SELECT '1.239' ORDER BY 1;
-- 1.239
-- 1.50
-- NULL
SELECT count(*) FROM m WHERE c = 'ab  ' AND v = 'abc' AND e = '1.50';
-- 1
SELECT max(id) FROM t GROUP BY 1;
-- ERROR 42803: aggregate functions are not allowed in GROUP BY
SELECT count(*) AS n FROM t GROUP BY n;
-- ERROR 42803: aggregate functions are not allowed in GROUP BY
SELECT concat('\x61'::bytea, 1), concat_ws(',', '\x61'::bytea, 1);
-- \x611|\x61,1
CREATE TABLE kept AS SELECT coalesce(e, e) AS e, CASE WHEN true THEN v ELSE v END AS v, coalesce(e, 1) AS n FROM m;
SELECT column_name, numeric_precision, numeric_scale, character_maximum_length FROM information_schema.columns WHERE table_name = 'kept' ORDER BY 1;
-- e|8|2|NULL
-- n|NULL|NULL|NULL
-- v|NULL|NULL|6
