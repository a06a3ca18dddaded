-- # Addresses are read and shown
SELECT '10.0.0.1'::inet, '10.0.0.1/8'::inet, '10.1/16'::inet, '::1'::inet, '2001:DB8::/32'::inet, '::ffff:1.2.3.4'::inet;
-- 10.0.0.1|10.0.0.1/8|10.1.0.0/16|::1|2001:db8::/32|::ffff:1.2.3.4
SELECT '10.0.0.1'::cidr, '10'::cidr, '192.168'::cidr, '172.16'::cidr, '::/0'::cidr;
-- 10.0.0.1/32|10.0.0.0/8|192.168.0.0/24|172.16.0.0/16|::/0
SELECT '10.1'::inet;
-- ERROR 22P02: invalid input syntax for type inet: "10.1"
SELECT '1.2.3.4.5'::inet;
-- ERROR 22P02: invalid input syntax for type inet: "1.2.3.4.5"
SELECT '1.2.3.400'::inet;
-- ERROR 22P02: invalid input syntax for type inet: "1.2.3.400"
SELECT '1.2.3.4/33'::inet;
-- ERROR 22P02: invalid input syntax for type inet: "1.2.3.4/33"
SELECT 'x'::cidr;
-- ERROR 22P02: invalid input syntax for type cidr: "x"
SELECT '10.0.0.1/8'::cidr;
-- ERROR 22P02: invalid cidr value: "10.0.0.1/8"
SELECT '10.0.0.1'::inet::text, '10.0.0.0/8'::cidr::text, '10.0.0.1'::inet || '', '10.0.0.1/8'::inet::varchar(20);
-- 10.0.0.1/32|10.0.0.0/8|10.0.0.1/32|10.0.0.1/8
SELECT '10.0.0.1/8'::inet::cidr, '10.0.0.0/8'::cidr::inet, '10.0.0.1'::text::inet;
-- 10.0.0.0/8|10.0.0.0/8|10.0.0.1
SELECT host('10.0.0.1/8'::inet), family('::1'::inet), masklen('10.0.0.0/8'::cidr), host('::1');
-- 10.0.0.1|6|8|::1
SELECT pg_typeof('::1'::inet), pg_typeof('::1'::cidr);
-- inet|cidr
SELECT '1.2.3.4'::inet::int;
-- ERROR 42846: cannot cast type inet to integer
-- # They are ordered, compared and grouped
SELECT a FROM (VALUES ('10.0.0.1'::inet), ('10.0.0.0/8'), ('9.9.9.9'), ('::1'), ('10.1.0.0/16'), ('10.0.0.0/16'), (NULL), ('10.255.0.0/8')) AS v (a) ORDER BY a;
-- 9.9.9.9
-- 10.0.0.0/8
-- 10.255.0.0/8
-- 10.0.0.0/16
-- 10.0.0.1
-- 10.1.0.0/16
-- ::1
-- NULL
SELECT '10.0.0.1'::inet = '10.0.0.1/32', '10.0.0.1'::inet < '10.0.0.2', '10.0.0.0/8'::cidr = '10.0.0.0/8'::inet, '::1' > '255.255.255.255'::inet;
-- t|t|t|t
SELECT max(a), min(a), count(DISTINCT a) FROM (VALUES ('1.1.1.1'::inet), ('1.1.1.1/32'), ('2.2.2.2')) AS v (a);
-- 2.2.2.2|1.1.1.1|2
SELECT '1.1.1.1'::inet IN ('2.2.2.2', '1.1.1.1'), '1.1.1.1'::inet = ANY ('{1.1.1.1,2.2.2.2}');
-- t|t
SELECT array['1.1.1.1'::inet, '::1'], '{1.1.0.0/16}'::cidr[];
-- {1.1.1.1,::1}|{1.1.0.0/16}
-- # In tables
CREATE TABLE t (ip inet PRIMARY KEY, net cidr, v int, UNIQUE (net, v));
INSERT INTO t VALUES ('10.0.0.1', '10/8', 1), ('::1', '::/0', 2), ('10.0.0.2/24', NULL, 3);
INSERT INTO t VALUES ('10.0.0.1', NULL, 4);
-- ERROR 23505: duplicate key value violates unique constraint "t_pkey"
INSERT INTO t VALUES ('10.0.0.9', '10.0.0.0/8', 1);
-- ERROR 23505: duplicate key value violates unique constraint "t_net_v_key"
SELECT * FROM t ORDER BY ip;
-- 10.0.0.2/24|NULL|3
-- 10.0.0.1|10.0.0.0/8|1
-- ::1|::/0|2
SELECT v FROM t WHERE ip = '::1';
-- 2
SELECT v FROM t WHERE ip > '10.0.0.1' ORDER BY ip;
-- 2
SELECT v FROM t WHERE host(ip) LIKE '10.%' ORDER BY v;
-- 1
-- 3
UPDATE t SET net = '192.168.1.0/24' WHERE ip = '10.0.0.2/24';
SELECT net, count(*) FROM t GROUP BY net ORDER BY net;
-- 10.0.0.0/8|1
-- 192.168.1.0/24|1
-- ::/0|1
ALTER TABLE t ADD COLUMN d inet DEFAULT '127.0.0.1';
SELECT d FROM t LIMIT 1;
-- 127.0.0.1
ALTER TABLE t ALTER COLUMN d DROP DEFAULT;
ALTER TABLE t ALTER COLUMN d TYPE text;
SELECT d FROM t LIMIT 1;
-- 127.0.0.1/32
ALTER TABLE t ALTER COLUMN d TYPE inet USING d::inet;
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position;
-- ip|inet
-- net|cidr
-- v|integer
-- d|inet
-- # Casts of what is in tables
SELECT ip::text, net::text, concat(ip, net), ip || '', net || 'x' FROM t WHERE v = 1;
-- 10.0.0.1/32|10.0.0.0/8|10.0.0.110.0.0.0/8|10.0.0.1/32|10.0.0.0/8x
SELECT ip FROM t WHERE net = '10.0.0.0/8' OR net = '192.168.1.0/24'::inet ORDER BY ip DESC;
-- 10.0.0.1
-- 10.0.0.2/24

-- # Arrays and rows of addresses as text
CREATE TABLE lists (a inet[], c cidr[], one inet);
INSERT INTO lists VALUES ('{1.2.3.4,10.0.0.0/8,::1,NULL}', '{10.0.0.0/8,1.2.3.4}', '1.2.3.4');
SELECT a::text, c::text, a::text[], array_to_string(a, ';'), row(one, a)::text, lists FROM lists;
-- {1.2.3.4,10.0.0.0/8,::1,NULL}|{10.0.0.0/8,1.2.3.4/32}|{1.2.3.4/32,10.0.0.0/8,::1/128,NULL}|1.2.3.4;10.0.0.0/8;::1|(1.2.3.4,"{1.2.3.4,10.0.0.0/8,::1,NULL}")|("{1.2.3.4,10.0.0.0/8,::1,NULL}","{10.0.0.0/8,1.2.3.4/32}",1.2.3.4)
SELECT to_json(a), jsonb_build_object(one, c), json_agg(a), concat(a, one), one || '' FROM lists GROUP BY a, c, one;
-- ["1.2.3.4","10.0.0.0/8","::1",null]|{"1.2.3.4": ["10.0.0.0/8", "1.2.3.4/32"]}|[["1.2.3.4","10.0.0.0/8","::1",null]]|{1.2.3.4,10.0.0.0/8,::1,NULL}1.2.3.4|1.2.3.4/32
SELECT '224'::cidr, '224.1'::cidr, '225'::cidr, '10'::cidr;
-- 224.0.0.0/4|224.1.0.0/16|225.0.0.0/8|10.0.0.0/8
-- # Literals of a type
SELECT inet '10.0.0.1/8', cidr '10.0.0.0/8', host(inet '::1');
-- 10.0.0.1/8|10.0.0.0/8|::1
SELECT inet 'nothing';
-- ERROR 22P02: invalid input syntax for type inet: "nothing"
SELECT nosuch '10.0.0.1';
-- ERROR 42704: type "nosuch" does not exist
