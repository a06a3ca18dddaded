-- # json and jsonb: columns, input, casts, operators, functions
CREATE TABLE j (id int PRIMARY KEY, a json, b jsonb, c jsonb NOT NULL DEFAULT '{}');
INSERT INTO j (id, a, b) VALUES (1, '{"b" : 1,  "a":[1,2.50], "b":2}', '{"b" : 1,  "a":[1,2.50], "b":2}'), (2, '[1, "x", null, {"k": true}]', '[1, "x", null, {"k": true}]'), (3, '"text"', '"text"'), (4, 'null', 'null'), (5, NULL, NULL), (6, '1e2', '1e2'), (7, 'true', 'false');
SELECT * FROM j ORDER BY id;
-- 1|{"b" : 1,  "a":[1,2.50], "b":2}|{"a": [1, 2.50], "b": 2}|{}
-- 2|[1, "x", null, {"k": true}]|[1, "x", null, {"k": true}]|{}
-- 3|"text"|"text"|{}
-- 4|null|null|{}
-- 5|NULL|NULL|{}
-- 6|1e2|100|{}
-- 7|true|false|{}
UPDATE j SET b = b || '{"n": 1}' WHERE id = 1;
UPDATE j SET c = jsonb_set(c, '{x}', to_jsonb(id * 1.50)), a = b WHERE id = 2;
SELECT id, a, b, c FROM j WHERE id < 3 ORDER BY id;
-- 1|{"b" : 1,  "a":[1,2.50], "b":2}|{"a": [1, 2.50], "b": 2, "n": 1}|{}
-- 2|[1, "x", null, {"k": true}]|[1, "x", null, {"k": true}]|{"x": 3.00}
INSERT INTO j (id, b) VALUES (9, 'nope');
-- ERROR 22P02: invalid input syntax for type json
INSERT INTO j (id, a) VALUES (9, 'nope');
-- ERROR 22P02: invalid input syntax for type json
INSERT INTO j (id, b) VALUES (9, 5);
-- ERROR 42804: column "b" is of type jsonb but expression is of type integer
INSERT INTO j (id, b) VALUES (9, '"\u0000"');
-- ERROR 22P05: unsupported Unicode escape sequence
INSERT INTO j (id, a) VALUES (9, '"\u0000"') RETURNING a;
-- "\u0000"
INSERT INTO j (id, b) VALUES (10, NULL), (11, '[]'), (12, '{"a": 1.0}'), (13, '{"a": 1.00}');
-- # order, groups, keys
SELECT id, b FROM j ORDER BY b, id;
-- 11|[]
-- 4|null
-- 3|"text"
-- 6|100
-- 7|false
-- 2|[1, "x", null, {"k": true}]
-- 12|{"a": 1.0}
-- 13|{"a": 1.00}
-- 1|{"a": [1, 2.50], "b": 2, "n": 1}
-- 5|NULL
-- 9|NULL
-- 10|NULL
SELECT id FROM j ORDER BY b DESC NULLS LAST, id DESC;
-- 1
-- 13
-- 12
-- 2
-- 7
-- 6
-- 3
-- 4
-- 11
-- 10
-- 9
-- 5
SELECT count(DISTINCT b) FROM j;
-- 8
SELECT b, count(*) FROM j WHERE id > 9 GROUP BY b ORDER BY b NULLS FIRST;
-- NULL|1
-- []|1
-- {"a": 1.0}|2
SELECT id FROM j WHERE b = '{"a":1}' ORDER BY id;
-- 12
-- 13
SELECT id FROM j WHERE b IN ('null', '[]', '100') ORDER BY id;
-- 4
-- 6
-- 11
SELECT id FROM j WHERE b <> 'null' AND b < '"z"' ORDER BY id;
-- 3
-- 11
SELECT DISTINCT b -> 'a' FROM j ORDER BY 1;
-- 1.0
-- [1, 2.50]
-- NULL
SELECT a FROM j ORDER BY a;
-- ERROR 42883: could not identify an ordering operator for type json
SELECT DISTINCT a FROM j;
-- ERROR 42883: could not identify an equality operator for type json
SELECT a FROM j GROUP BY a;
-- ERROR 42883: could not identify an equality operator for type json
SELECT a FROM j UNION SELECT a FROM j;
-- ERROR 42883: could not identify an equality operator for type json
SELECT count(DISTINCT a) FROM j;
-- ERROR 42883: could not identify an equality operator for type json
SELECT min(a) FROM j;
-- ERROR 42883: function min(json) does not exist
SELECT min(b) FROM j;
-- ERROR 42883: function min(jsonb) does not exist
SELECT id FROM j WHERE a = '1';
-- ERROR 42883: operator does not exist: json = unknown
SELECT id FROM j WHERE a = a;
-- ERROR 42883: operator does not exist: json = json
SELECT id FROM j WHERE a IN ('1');
-- ERROR 42883: operator does not exist: json = unknown
CREATE TABLE k (v jsonb PRIMARY KEY, n int);
INSERT INTO k VALUES ('{"a": 1}', 1), ('[1, 2]', 2), ('"s"', 3), ('2.50', 4), ('true', 5), ('null', 6);
INSERT INTO k VALUES ('{"a": 1.00}', 7);
-- ERROR 23505: duplicate key value violates unique constraint "k_pkey"
INSERT INTO k VALUES ('{"a": 1.0}', 8) ON CONFLICT (v) DO UPDATE SET n = k.n + 10 RETURNING v, n;
-- {"a": 1}|11
SELECT v, n FROM k ORDER BY v;
-- null|6
-- "s"|3
-- 2.50|4
-- true|5
-- [1, 2]|2
-- {"a": 1}|11
SELECT n FROM k WHERE v = '2.5';
-- 4
SELECT n FROM k WHERE v > '2' AND v < '[1, 3]' ORDER BY v;
-- 4
-- 5
-- 2
CREATE TABLE bad (v json PRIMARY KEY);
-- ERROR 42704: data type json has no default operator class for access method "btree"
CREATE TABLE bad (v json UNIQUE);
-- ERROR 42704: data type json has no default operator class for access method "btree"
CREATE INDEX bad ON j (a);
-- ERROR 42704: data type json has no default operator class for access method "btree"
CREATE INDEX j_b ON j (b);
SELECT id FROM j WHERE b = '"text"';
-- 3
-- # operators
SELECT a -> 'a', a ->> 'a', a -> 'b', a #> '{a,1}', a #>> '{a,1}', a -> 0 FROM j WHERE id = 1;
-- [1,2.50]|[1,2.50]|2|2.50|2.50|NULL
SELECT b -> 'a', b ->> 'a', b -> 'b', b #> '{a,1}', b #>> '{a,1}', b -> 0 FROM j WHERE id = 1;
-- [1, 2.50]|[1, 2.50]|2|2.50|2.50|NULL
SELECT b -> 1, b -> -1, b -> 4, b ->> 2, b -> 2, b -> '1', b #> '{3,k}', b #> '{-1,k}', b #> '{x}', b #> '{}', b #> ARRAY[NULL] FROM j WHERE id = 2;
-- "x"|{"k": true}|NULL|NULL|null|NULL|true|true|NULL|[1, "x", null, {"k": true}]|NULL
SELECT '1'::jsonb -> 0, '1'::jsonb -> 1, '1'::json -> 0, '1'::jsonb #> '{0}', '"x"'::jsonb ->> 0;
-- 1|NULL|NULL|NULL|x
SELECT id FROM j WHERE b @> '{"a": [2.5]}' ORDER BY id;
-- 1
SELECT id FROM j WHERE b @> '[{"k": true}]' ORDER BY id;
-- 2
SELECT id FROM j WHERE b @> '"x"' ORDER BY id;
-- 2
SELECT '{"a":{"b":1,"c":2}}'::jsonb @> '{"a":{"c":2}}', '{"a":{"b":1}}'::jsonb @> '{"a":1}', '[1,2,[3]]'::jsonb @> '[[3],1,1]', '1'::jsonb @> '[1]', '[1]'::jsonb @> '1', '[[1]]'::jsonb @> '1', '{}'::jsonb @> '[]', '[]'::jsonb @> '[]', '{"a":1}'::jsonb <@ '{"a":1.0,"b":2}';
-- t|f|t|f|t|f|f|t|t
SELECT '{"a":1,"b":2}'::jsonb ? 'a', '["a"]'::jsonb ? 'a', '"a"'::jsonb ? 'a', '{"a":1}'::jsonb ?| '{x,a}', '{"a":1}'::jsonb ?& '{x,a}', '{"a":1}'::jsonb ?& '{}', '{"a":1}'::jsonb ?| '{}';
-- t|t|t|t|f|t|f
SELECT '{"a":1,"bb":2}'::jsonb || '{"a":3,"c":4}', '[1]'::jsonb || '[2]', '[1]'::jsonb || '2', '1'::jsonb || '2', '{"a":1}'::jsonb || '[2]', '[2]'::jsonb || '{"a":1}', '1'::jsonb || '{}', '[]'::jsonb || '[]', '{}'::jsonb || '{}';
-- {"a": 3, "c": 4, "bb": 2}|[1, 2]|[1, 2]|[1, 2]|[{"a": 1}, 2]|[2, {"a": 1}]|[1, {}]|[]|{}
SELECT '{"a":1,"b":2}'::jsonb - 'a', '["a","b","a",1]'::jsonb - 'a', '[1,2,3]'::jsonb - 1, '[1,2,3]'::jsonb - -1, '[1,2,3]'::jsonb - 7, '{"a":1,"b":2,"c":3}'::jsonb - '{a,c}'::text[], '["a","b"]'::jsonb - '{b}'::text[];
-- {"b": 2}|["b", 1]|[1, 3]|[1, 2]|[1, 2, 3]|{"b": 2}|["a"]
SELECT '1'::jsonb - 'a';
-- ERROR 22023: cannot delete from scalar
SELECT '{}'::jsonb - 1;
-- ERROR 22023: cannot delete from object using integer index
SELECT '{"a":{"b":[1,2]}}'::jsonb #- '{a,b,0}', '{"a":1}'::jsonb #- '{x,y}', '[1,2]'::jsonb #- '{-1}', '[1]'::jsonb #- '{}';
-- {"a": {"b": [2]}}|{"a": 1}|[1]|[1]
SELECT '[1]'::jsonb #- '{a}';
-- ERROR 22P02: path element at position 1 is not an integer: "a"
SELECT '{"a":1}'::jsonb #- ARRAY[NULL];
-- ERROR 22004: path element at position 1 is null
SELECT '{"a":1}'::json || '{}';
-- {"a":1}{}
SELECT '{"a":1}'::json @> '{}';
-- ERROR 42883: operator does not exist: json @> unknown
SELECT '{"a":1}'::json ? 'a';
-- ERROR 42883: operator does not exist: json ? unknown
SELECT '{"a":1}'::jsonb -> 1.5;
-- ERROR 42883: operator does not exist: jsonb -> numeric
SELECT '{"a":1}'::jsonb + 1;
-- ERROR 42883: operator does not exist: jsonb + integer
SELECT 'x: ' || '{"a":1}'::jsonb, '{"a":1}'::json || ' is x'::text;
-- ERROR 22P02: invalid input syntax for type json
-- # casts
SELECT '5'::jsonb::int, '5.5'::jsonb::int, '2.50'::jsonb::numeric, '2.55'::jsonb::numeric(3,1), '1e2'::jsonb::float8, 'true'::jsonb::bool, '7'::jsonb::bigint, '7'::jsonb::smallint;
-- 5|6|2.50|2.6|100|t|7|7
SELECT '"a"'::jsonb::int;
-- ERROR 22023: cannot cast jsonb string to type integer
SELECT 'null'::jsonb::bool;
-- ERROR 22023: cannot cast jsonb null to type boolean
SELECT '[]'::jsonb::numeric;
-- ERROR 22023: cannot cast jsonb array to type numeric
SELECT '{}'::jsonb::float8;
-- ERROR 22023: cannot cast jsonb object to type double precision
SELECT 'true'::jsonb::int;
-- ERROR 22023: cannot cast jsonb boolean to type integer
SELECT '1'::jsonb::bool;
-- ERROR 22023: cannot cast jsonb numeric to type boolean
SELECT '1'::json::int;
-- ERROR 42846: cannot cast type json to integer
SELECT 1::jsonb;
-- ERROR 42846: cannot cast type integer to jsonb
SELECT '70000'::jsonb::smallint;
-- ERROR 22003: smallint out of range
SELECT '{"b":1, "a":2}'::json::jsonb, '{"b":1, "a":2}'::jsonb::json, '{"b":1, "a":2}'::json::text, '{"b":1, "a":2}'::jsonb::text, '[1]'::text::jsonb, '[1]'::varchar(9)::json;
-- {"a": 2, "b": 1}|{"a": 2, "b": 1}|{"b":1, "a":2}|{"a": 2, "b": 1}|[1]|[1]
SELECT pg_typeof('1'::json), pg_typeof('1'::jsonb -> 'a'), pg_typeof('1'::json ->> 'a'), pg_typeof(to_json(1)), pg_typeof('{}'::jsonb || '{}');
-- json|jsonb|text|json|jsonb
SELECT json '{"a": 1}', jsonb '{"a": 1}', CAST('1' AS jsonb);
-- {"a": 1}|{"a": 1}|1
SELECT '{"a'::json;
-- ERROR 22P02: invalid input syntax for type json
SELECT ''::jsonb;
-- ERROR 22P02: invalid input syntax for type json
SELECT '{"a": 1}'::jsonb IS NULL, NULL::jsonb -> 'a', coalesce(NULL::jsonb, '[]'), CASE WHEN true THEN '1'::jsonb ELSE '2' END;
-- f|NULL|[]|1
SELECT ('{"a": {"b": 5}}'::jsonb -> 'a' ->> 'b')::int + 1;
-- 6
-- # functions that make JSON
SELECT to_json(1), to_json('a"b'::text), to_json(1.50), to_json(true), to_json(NULL::int), to_json(ARRAY[1, NULL, 2]), to_json(ARRAY['a', 'b"']), to_json('{"a" : 1}'::json), to_json('2.0'::float8);
-- 1|"a\"b"|1.50|true|NULL|[1,null,2]|["a","b\""]|{"a" : 1}|2
SELECT to_jsonb(1), to_jsonb('a"b'::text), to_jsonb(1.50), to_jsonb(ARRAY['a', NULL]), to_jsonb('{"b" : 1, "a":2}'::json), to_jsonb('NaN'::float8), to_jsonb(1e20::float8), to_jsonb('-Infinity'::numeric);
-- 1|"a\"b"|1.50|["a", null]|{"a": 2, "b": 1}|"NaN"|100000000000000000000|"-Infinity"
SELECT to_json('x'::char(3)), to_json('2000-01-02'::date), to_json('2000-01-02 03:04:05.6'::timestamp), to_json('\x01'::bytea), to_json('00000000-0000-0000-0000-000000000001'::uuid);
-- "x  "|"2000-01-02"|"2000-01-02T03:04:05.6"|"\\x01"|"00000000-0000-0000-0000-000000000001"
SELECT json_build_object('a', 1, 'b', 'x', 'c', NULL, 'd', ARRAY[1,2], 'e', '{"z" : 1}'::json, 5, true);
-- {"a" : 1, "b" : "x", "c" : null, "d" : [1,2], "e" : {"z" : 1}, "5" : true}
SELECT jsonb_build_object('a', 1, 'bb', 'x', 'c', NULL, 'd', ARRAY[1,2], 'e', '{"z" : 1}'::json, 5, true, 'a', 2);
-- {"5": true, "a": 2, "c": null, "d": [1, 2], "e": {"z": 1}, "bb": "x"}
SELECT json_build_object(), jsonb_build_object(), json_build_array(), jsonb_build_array();
-- {}|{}|[]|[]
SELECT json_build_array(1, 'a', NULL, 2.50, '[1,2]'::jsonb), jsonb_build_array(1, 'a', NULL, 2.50, '[1,2]'::json);
-- [1, "a", null, 2.50, [1, 2]]|[1, "a", null, 2.50, [1, 2]]
SELECT json_build_object('a');
-- ERROR 22023: argument list must have even number of elements
SELECT jsonb_build_object('a', 1, NULL, 2);
-- ERROR 22023: argument 3: key must not be null
SELECT json_build_object(NULL, 2);
-- ERROR 22023: argument 1 cannot be null
SELECT jsonb_build_object('{}'::jsonb, 1);
-- ERROR 22023: key value must be scalar, not array, composite, or json
SELECT json_object('{a,1,b,NULL}'), jsonb_object('{a,1,b,NULL}'), json_object('{a,b}', '{1,2}'), jsonb_object('{a,b}', '{1,NULL}'), json_object('{}');
-- {"a" : "1", "b" : null}|{"a": "1", "b": null}|{"a" : "1", "b" : "2"}|{"a": "1", "b": null}|{}
SELECT json_object('{a}');
-- ERROR 2202E: array must have even number of elements
SELECT json_object('{a,b}', '{1}');
-- ERROR 2202E: mismatched array dimensions
SELECT jsonb_object('{NULL,b}');
-- ERROR 22004: null value not allowed for object key
SELECT row_to_json(t), to_jsonb(t) FROM (SELECT 1 AS x, 'a' AS y, NULL::int AS z, '{"k": [1, 2]}'::jsonb AS w) t;
-- {"x":1,"y":"a","z":null,"w":{"k": [1, 2]}}|{"w": {"k": [1, 2]}, "x": 1, "y": "a", "z": null}
SELECT row_to_json(ROW(1, 'a', true)), row_to_json(k) FROM k WHERE n = 3;
-- {"f1":1,"f2":"a","f3":true}|{"v":"s","n":3}
SELECT replace(row_to_json(t, true)::text, E'\n', '~') FROM (SELECT 1 AS x, 'a' AS y) t;
-- {"x":1,~ "y":"a"}
SELECT row_to_json(u), to_jsonb(u) FROM (VALUES (1), (2)) t(x) LEFT JOIN (VALUES (1, 'a')) u(x, y) ON t.x = u.x ORDER BY t.x;
-- {"x":1,"y":"a"}|{"x": 1, "y": "a"}
-- NULL|NULL
SELECT to_json(ROW(1, ROW('a', NULL))), json_build_object('r', ROW(1, 2)), jsonb_build_array(ROW('x'));
-- {"f1":1,"f2":{"f1":"a","f2":null}}|{"r" : {"f1":1,"f2":2}}|[{"f1": "x"}]
SELECT to_json(CASE WHEN n > 2 THEN ROW(n) END) FROM k WHERE n < 4 ORDER BY n;
-- NULL
-- {"f1":3}
SELECT json_build_object(ROW(1), 2);
-- ERROR 22023: key value must be scalar, not array, composite, or json
SELECT replace(json_agg(u ORDER BY t.x)::text, E'\n', '~'), replace(row_to_json(ROW(1, NULL), true)::text, E'\n', '~') FROM (VALUES (1), (2)) t(x) LEFT JOIN (VALUES (1, 'a')) u(x, y) ON t.x = u.x;
-- [{"x":1,"y":"a"}, null]|{"f1":1,~ "f2":null}
SELECT array_to_json(ARRAY[1, 2]), array_to_json(ARRAY['a', NULL]), replace(array_to_json(ARRAY[1, 2], true)::text, E'\n', '~');
-- [1,2]|["a",null]|[1,~ 2]
SELECT json_agg(n ORDER BY n), jsonb_agg(n ORDER BY n DESC), json_agg(v ORDER BY n), jsonb_agg(v ORDER BY n) FROM k;
-- [2, 3, 4, 5, 6, 11]|[11, 6, 5, 4, 3, 2]|[[1, 2], "s", 2.50, true, null, {"a": 1}]|[[1, 2], "s", 2.50, true, null, {"a": 1}]
SELECT json_agg(n) FILTER (WHERE n > 100), jsonb_agg(NULL::int) FROM k;
-- NULL|[null, null, null, null, null, null]
SELECT replace(json_agg(t ORDER BY x)::text, E'\n', '~'), jsonb_agg(t ORDER BY x) FROM (VALUES (1, 'a'), (2, NULL)) t(x, y);
-- [{"x":1,"y":"a"}, ~ {"x":2,"y":null}]|[{"x": 1, "y": "a"}, {"x": 2, "y": null}]
SELECT replace(json_agg(ARRAY[n] ORDER BY n)::text, E'\n', '~') FROM k WHERE n < 4;
-- [[2], ~ [3]]
SELECT json_agg(DISTINCT n % 2) FROM k;
-- [0, 1]
SELECT json_agg(DISTINCT '{}'::json) FROM k;
-- ERROR 42883: could not identify an equality operator for type json
SELECT json_object_agg(v ->> 0, n ORDER BY n) FROM k WHERE n IN (3, 4);
-- { "s" : 3, "2.50" : 4 }
SELECT json_object_agg('k' || n, v ORDER BY n), jsonb_object_agg('k' || n, v ORDER BY n) FROM k WHERE n < 4;
-- { "k2" : [1, 2], "k3" : "s" }|{"k2": [1, 2], "k3": "s"}
SELECT jsonb_object_agg(n, n * 2) FROM k WHERE n < 4;
-- {"2": 4, "3": 6}
SELECT jsonb_object_agg(NULL::text, n) FROM k;
-- ERROR 22023: field name must not be null
SELECT n % 2 AS odd, json_agg(n ORDER BY n) FROM k GROUP BY 1 ORDER BY 1;
-- 0|[2, 4, 6]
-- 1|[3, 5, 11]
SELECT json_agg(1, 2) FROM k;
-- ERROR 42883: function json_agg(integer, integer) does not exist
-- # functions that change and look into it
SELECT jsonb_set('{"a":1}', '{b}', '2'), jsonb_set('{"a":1}', '{b}', '2', false), jsonb_set('{"a":[1,2]}', '{a,-1}', '9'), jsonb_set('{"a":[1]}', '{a,5}', '2'), jsonb_set('{"a":[1]}', '{a,-5}', '2'), jsonb_set('{"a":[1]}', '{a,-5}', '2', false), jsonb_set('{"a":1}', '{x,y}', '2'), jsonb_set('{"a":{"b":1}}', '{a,b}', '{"c": 2}'), jsonb_set('[]', '{0}', '1');
-- {"a": 1, "b": 2}|{"a": 1}|{"a": [1, 9]}|{"a": [1, 2]}|{"a": [2, 1]}|{"a": [1]}|{"a": 1}|{"a": {"b": {"c": 2}}}|[1]
SELECT jsonb_set('1', '{a}', '1');
-- ERROR 22023: cannot set path in scalar
SELECT jsonb_set('[1]', '{a}', '1');
-- ERROR 22P02: path element at position 1 is not an integer: "a"
SELECT jsonb_set('{"a":1}', ARRAY[NULL], '1');
-- ERROR 22004: path element at position 1 is null
SELECT jsonb_insert('[1,2]', '{1}', '9'), jsonb_insert('[1,2]', '{1}', '9', true), jsonb_insert('[1,2]', '{-1}', '9', true), jsonb_insert('{"a":{}}', '{a,b}', '9'), jsonb_insert('[]', '{3}', '9'), jsonb_insert('[1]', '{-9}', '9');
-- [1, 9, 2]|[1, 2, 9]|[1, 2, 9]|{"a": {"b": 9}}|[9]|[9, 1]
SELECT jsonb_insert('{"a":1}', '{a}', '9');
-- ERROR 22023: cannot replace existing key
SELECT json_strip_nulls('{"a" : 1, "b":null, "c":[1, null,{"x":null}]}'), jsonb_strip_nulls('{"a" : 1, "b":null, "c":[1, null,{"x":null}]}');
-- {"a":1,"c":[1,null,{}]}|{"a": 1, "c": [1, null, {}]}
SELECT json_typeof('1'), json_typeof('"a"'), json_typeof('[]'), json_typeof('{}'), json_typeof('true'), jsonb_typeof('null'), jsonb_typeof('-1');
-- number|string|array|object|boolean|null|number
SELECT json_array_length('[1, [2, 3], {}]'), jsonb_array_length('[]');
-- 3|0
SELECT json_array_length('{}');
-- ERROR 22023: cannot get array length of a non-array
SELECT jsonb_array_length('1');
-- ERROR 22023: cannot get array length of a scalar
SELECT json_extract_path('{"a":{"b":[1,2]}}', 'a', 'b', '1'), json_extract_path_text('{"a":"x"}', 'a'), jsonb_extract_path('{"a":{"b":[1,2]}}', 'a', 'b'), jsonb_extract_path_text('{"a":null}', 'a');
-- 2|x|[1, 2]|NULL
SELECT replace(jsonb_pretty('{"a": [1, {"b": []}], "c": {}, "d": "x, {y}"}'), E'\n', '~');
-- {~    "a": [~        1,~        {~            "b": [~            ]~        }~    ],~    "c": {~    },~    "d": "x, {y}"~}
-- # rows
SELECT * FROM json_array_elements('[1, "a", null, {"x" : 1}]');
-- 1
-- "a"
-- null
-- {"x" : 1}
SELECT value, value IS NULL FROM jsonb_array_elements('[1, "a", null, {"x" : 1}]');
-- 1|f
-- "a"|f
-- null|f
-- {"x": 1}|f
SELECT * FROM json_array_elements_text('[1, "a", null, {"x" : 1}]') WITH ORDINALITY;
-- 1|1
-- a|2
-- NULL|3
-- {"x" : 1}|4
SELECT x.value FROM jsonb_array_elements_text('["b", "a"]') AS x ORDER BY 1;
-- a
-- b
SELECT e FROM jsonb_array_elements_text('["b", "a"]') AS t(e);
-- b
-- a
SELECT * FROM json_each('{"a" : 1, "b":[1,2], "a":"x"}');
-- a|1
-- b|[1,2]
-- a|"x"
SELECT * FROM jsonb_each('{"a" : 1, "b":[1,2], "a":"x"}');
-- a|"x"
-- b|[1, 2]
SELECT key, value FROM jsonb_each_text('{"a" : 1, "b":[1,2], "c":"x", "d": null}');
-- a|1
-- b|[1, 2]
-- c|x
-- d|NULL
SELECT t.k, t.v FROM json_each_text('{"a" : 1, "b":"y"}') AS t(k, v);
-- a|1
-- b|y
SELECT * FROM json_object_keys('{"b":1,"a":2,"b":3}');
-- b
-- a
-- b
SELECT k FROM jsonb_object_keys('{"b":1,"a":2,"b":3}') AS k;
-- a
-- b
SELECT id, e.value FROM j, jsonb_array_elements(j.b) AS e WHERE id = 2;
-- 2|1
-- 2|"x"
-- 2|null
-- 2|{"k": true}
SELECT id, e.key, e.value FROM j CROSS JOIN LATERAL jsonb_each(j.b) AS e WHERE id IN (1, 12) ORDER BY id, key;
-- 1|a|[1, 2.50]
-- 1|b|2
-- 1|n|1
-- 12|a|1.0
SELECT jsonb_array_elements('[3, 1, 2]'), 7;
-- 3|7
-- 1|7
-- 2|7
SELECT jsonb_object_keys(b) FROM j WHERE id = 1;
-- a
-- b
-- n
SELECT json_array_elements('{}');
-- ERROR 22023: cannot call json_array_elements on a non-array
SELECT json_array_elements('1');
-- ERROR 22023: cannot call json_array_elements on a scalar
SELECT jsonb_array_elements('{}');
-- ERROR 22023: cannot extract elements from an object
SELECT jsonb_array_elements('1');
-- ERROR 22023: cannot extract elements from a scalar
SELECT * FROM json_each('[]');
-- ERROR 22023: cannot deconstruct an array as an object
SELECT * FROM json_each('1');
-- ERROR 22023: cannot deconstruct a scalar
SELECT * FROM jsonb_each('[]');
-- ERROR 22023: cannot call jsonb_each on a non-object
SELECT * FROM jsonb_each_text('1');
-- ERROR 22023: cannot call jsonb_each_text on a non-object
SELECT * FROM json_object_keys('[]');
-- ERROR 22023: cannot call json_object_keys on an array
SELECT * FROM jsonb_object_keys('1');
-- ERROR 22023: cannot call jsonb_object_keys on a scalar
SELECT * FROM jsonb_to_recordset('[{"a":1,"b":"x","c":{"k":1}},{"a":null,"c":null},{"B":2}]') AS x(a int, b text, c jsonb);
-- 1|x|{"k": 1}
-- NULL|NULL|NULL
-- NULL|NULL|NULL
SELECT * FROM json_to_record('{"a":"1","b":[1, 2],"c":true,"d":1.50}') AS x(a int, b json, c text, d numeric(5,1));
-- 1|[1, 2]|true|1.5
SELECT id, x.k FROM j, jsonb_to_recordset(j.b) AS x(k bool) WHERE id = 11;
SELECT j.id, x.a FROM j, LATERAL jsonb_to_record(j.b) AS x(a text) WHERE id IN (1, 12) ORDER BY id;
-- 1|[1, 2.50]
-- 12|1.0
SELECT * FROM json_to_record('[1]') AS x(a int);
-- ERROR 22023: cannot call populate_composite on an array
SELECT * FROM jsonb_to_record('1') AS x(a int);
-- ERROR 22023: cannot call populate_composite on a scalar
SELECT * FROM jsonb_to_recordset('{}') AS x(a int);
-- ERROR 22023: cannot call jsonb_to_recordset on a non-array
SELECT * FROM jsonb_to_recordset('[1]') AS x(a int);
-- ERROR 22023: argument of jsonb_to_recordset must be an array of objects
SELECT * FROM json_to_recordset('{}') AS x(a int);
-- ERROR 22023: cannot call json_to_recordset on an object
SELECT * FROM json_to_recordset('1') AS x(a int);
-- ERROR 22023: cannot call json_to_recordset on a scalar
SELECT * FROM json_to_record('{"a":"zz"}') AS x(a int);
-- ERROR 22P02: invalid input syntax for type integer: "zz"
SELECT * FROM json_to_record('{}');
-- ERROR 42601: a column definition list is required for functions returning "record"
SELECT a IS NULL FROM json_to_record(NULL) AS x(a int);
-- t
SELECT count(*) FROM json_to_recordset(NULL) AS x(a int);
-- 0
SELECT count(*) FROM jsonb_array_elements(NULL);
-- 0
SELECT sum(value::int) FROM jsonb_array_elements('[1, 2, 3]');
-- 6
SELECT array_agg(value ORDER BY value) FROM jsonb_array_elements('[3, 1, 2]');
-- {1,2,3}
-- # arrays, defaults, checks, generated columns
SELECT ARRAY['1'::jsonb, '{"a": "x"}'], '{"{\"a\": 1}",NULL,3}'::jsonb[];
-- {1,"{\"a\": \"x\"}"}|{"{\"a\": 1}",NULL,3}
CREATE TABLE g (doc jsonb NOT NULL DEFAULT '{"tags": []}', name text GENERATED ALWAYS AS (doc ->> 'name') STORED, CHECK (doc ? 'tags'), CHECK (jsonb_typeof(doc -> 'tags') = 'array'));
INSERT INTO g DEFAULT VALUES;
INSERT INTO g (doc) VALUES ('{"name": "n", "tags": [1]}'), ('{"tags": ["a", "b"], "name": null}');
INSERT INTO g (doc) VALUES ('{"name": "n"}');
-- ERROR 23514: new row for relation "g" violates check constraint "g_doc_check"
INSERT INTO g (doc) VALUES ('{"tags": 1}');
-- ERROR 23514: new row for relation "g" violates check constraint "g_doc_check1"
SELECT doc, name FROM g ORDER BY doc;
-- {"tags": []}|NULL
-- {"name": null, "tags": ["a", "b"]}|NULL
-- {"name": "n", "tags": [1]}|n
UPDATE g SET doc = jsonb_set(doc, '{name}', '"new"') WHERE doc @> '{"tags": ["a"]}' RETURNING doc, name;
-- {"name": "new", "tags": ["a", "b"]}|new
DELETE FROM g WHERE doc -> 'tags' = '[]' RETURNING doc;
-- {"tags": []}

-- # Rows of constants, and what is empty
SELECT row_to_json(row(1, '[]'::json)), to_json(row('{}'::json));
-- {"f1":1,"f2":[]}|{"f1":{}}
SELECT '[]'::jsonb #- '{zz}', '{}'::jsonb #- '{a,b}', jsonb_set('[]', '{zz}', '1', false);
-- []|{}|[]
