-- # Orders of languages
CREATE TABLE w (id int PRIMARY KEY, word text COLLATE "sv-x-icu", plain text, d text COLLATE "de-x-icu", c text COLLATE "C");
INSERT INTO w SELECT g, a, a, a, a FROM unnest(ARRAY['zebra', 'Ärlig', 'arg', 'öl', 'Ost', 'åka', 'ZZ', 'ost', 'resumé', 'resume', 'Resume', '', 'a b', 'ab', 'a-b', 'ñ', 'n', 'o', '10', '9', 'ß', 'ss']) WITH ORDINALITY AS t(a, g);
INSERT INTO w VALUES (100, NULL, NULL, NULL, NULL);
SELECT word FROM w ORDER BY word;
-- 
-- 10
-- 9
-- a b
-- a-b
-- ab
-- arg
-- n
-- ñ
-- o
-- ost
-- Ost
-- resume
-- Resume
-- resumé
-- ss
-- ß
-- zebra
-- ZZ
-- åka
-- Ärlig
-- öl
-- NULL
SELECT word FROM w ORDER BY word DESC NULLS LAST LIMIT 5;
-- öl
-- Ärlig
-- åka
-- ZZ
-- zebra
SELECT d FROM w ORDER BY d;
-- 
-- 10
-- 9
-- a b
-- a-b
-- ab
-- åka
-- arg
-- Ärlig
-- n
-- ñ
-- o
-- öl
-- ost
-- Ost
-- resume
-- Resume
-- resumé
-- ss
-- ß
-- zebra
-- ZZ
-- NULL
SELECT c FROM w ORDER BY c LIMIT 8;
-- 
-- 10
-- 9
-- Ost
-- Resume
-- ZZ
-- a b
-- a-b
SELECT plain FROM w ORDER BY plain COLLATE "en-x-icu" LIMIT 12;
-- 
-- 10
-- 9
-- a b
-- a-b
-- ab
-- åka
-- arg
-- Ärlig
-- n
-- ñ
-- o
SELECT plain FROM w ORDER BY plain COLLATE "und-x-icu" OFFSET 12;
-- öl
-- ost
-- Ost
-- resume
-- Resume
-- resumé
-- ss
-- ß
-- zebra
-- ZZ
-- NULL
SELECT word FROM w ORDER BY word COLLATE "C" LIMIT 6;
-- 
-- 10
-- 9
-- Ost
-- Resume
-- ZZ
SELECT word AS x FROM w ORDER BY x LIMIT 4;
-- 
-- 10
-- 9
-- a b
SELECT word FROM w ORDER BY 1 LIMIT 4;
-- 
-- 10
-- 9
-- a b
SELECT lower(word) FROM w ORDER BY lower(word) LIMIT 8;
-- 
-- 10
-- 9
-- a b
-- a-b
-- ab
-- arg
-- n
SELECT word || '!' FROM w ORDER BY word || '!' LIMIT 8;
-- !
-- 10!
-- 9!
-- a b!
-- a-b!
-- ab!
-- arg!
-- n!
SELECT DISTINCT word FROM w WHERE id < 9 ORDER BY word;
-- arg
-- ost
-- Ost
-- zebra
-- ZZ
-- åka
-- Ärlig
-- öl
SELECT DISTINCT ON (word) word, id FROM w WHERE id < 9 ORDER BY word, id;
-- arg|3
-- ost|8
-- Ost|5
-- zebra|1
-- ZZ|7
-- åka|6
-- Ärlig|2
-- öl|4
SELECT word FROM w WHERE word > 'z' ORDER BY word;
-- zebra
-- ZZ
-- åka
-- Ärlig
-- öl
SELECT d FROM w WHERE d > 'z' ORDER BY d;
-- zebra
-- ZZ
SELECT word FROM w WHERE word BETWEEN 'o' AND 'p' ORDER BY id;
-- Ost
-- ost
-- o
SELECT word FROM w WHERE word = 'åka';
-- åka
SELECT word FROM w WHERE word = 'Åka';
SELECT word FROM w WHERE word IN ('öl', 'OST', 'arg') ORDER BY word;
-- arg
-- öl
SELECT min(word), max(word), min(d), max(d), min(c), max(c) FROM w;
-- |öl||ZZ||öl
SELECT max(word) FILTER (WHERE id < 5) FROM w;
-- öl
SELECT id, max(word) OVER (ORDER BY id) FROM w WHERE id < 5 ORDER BY id;
-- 1|zebra
-- 2|Ärlig
-- 3|Ärlig
-- 4|öl
SELECT greatest(word, 'p'), least(d, 'z') FROM w WHERE id IN (2, 4) ORDER BY id;
-- Ärlig|Ärlig
-- öl|öl
SELECT 'ä' < 'z', 'ä' < 'z' COLLATE "sv-x-icu", 'ä' COLLATE "de-x-icu" < 'z';
-- f|f|t
SELECT string_agg(word, ',' ORDER BY word) FROM w WHERE id < 7;
-- arg,Ost,zebra,åka,Ärlig,öl
SELECT array_agg(plain ORDER BY plain COLLATE "sv-x-icu") FROM w WHERE id < 7;
-- {arg,Ost,zebra,åka,Ärlig,öl}
SELECT word, row_number() OVER (ORDER BY word) FROM w WHERE id < 6 ORDER BY id;
-- zebra|3
-- Ärlig|4
-- arg|1
-- öl|5
-- Ost|2
SELECT word, count(*) FROM w WHERE id < 6 GROUP BY word ORDER BY word;
-- arg|1
-- Ost|1
-- zebra|1
-- Ärlig|1
-- öl|1
SELECT s.word FROM (SELECT word FROM w WHERE id < 6) AS s ORDER BY s.word;
-- arg
-- Ost
-- zebra
-- Ärlig
-- öl
WITH s AS (SELECT word FROM w WHERE id < 6) SELECT word FROM s ORDER BY word;
-- arg
-- Ost
-- zebra
-- Ärlig
-- öl
SELECT word FROM w WHERE id < 4 UNION ALL SELECT word FROM w WHERE id BETWEEN 4 AND 6 ORDER BY word;
-- arg
-- Ost
-- zebra
-- åka
-- Ärlig
-- öl
SELECT CASE WHEN id > 3 THEN word ELSE 'b' END AS x FROM w WHERE id < 7 ORDER BY x;
-- b
-- b
-- b
-- Ost
-- åka
-- öl
SELECT coalesce(word, 'c') FROM w WHERE id < 4 OR id = 100 ORDER BY coalesce(word, 'c');
-- arg
-- c
-- zebra
-- Ärlig
CREATE VIEW v AS SELECT id, word FROM w;
SELECT word FROM v WHERE id < 7 ORDER BY word;
-- arg
-- Ost
-- zebra
-- åka
-- Ärlig
-- öl
SELECT a.word FROM w a JOIN w b ON a.word = b.plain WHERE a.id < 5 ORDER BY a.word;
-- arg
-- zebra
-- Ärlig
-- öl
SELECT word FROM w WHERE (SELECT word FROM w WHERE id = 2) < word ORDER BY word;
-- öl
SELECT count(*) FROM w WHERE word < d;
-- ERROR 42P22: could not determine which collation to use for string comparison
SELECT word FROM w WHERE word < d COLLATE "C" AND id < 5 ORDER BY id;
SELECT word COLLATE "C" || d COLLATE "de-x-icu" FROM w;
-- ERROR 42P21: collation mismatch between explicit collations "C" and "de-x-icu"
SELECT word FROM w ORDER BY word || d;
-- ERROR 42P21: collation mismatch between implicit collations "sv-x-icu" and "de-x-icu"
SELECT word COLLATE "nosuch" FROM w;
-- ERROR 42704: collation "nosuch" for encoding "UTF8" does not exist
SELECT id COLLATE "sv-x-icu" FROM w;
-- ERROR 42804: collations are not supported by type integer
SELECT plain FROM w WHERE id < 10 ORDER BY plain COLLATE pg_catalog."sv-x-icu" LIMIT 3;
-- arg
-- ost
-- Ost
UPDATE w SET plain = 'late' WHERE word > 'z' AND word < 'å';
SELECT word, plain FROM w WHERE plain = 'late' ORDER BY id;
-- zebra|late
-- ZZ|late

-- # Settings of locales
CREATE COLLATION numeric (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION numeric (provider = icu, locale = 'en');
-- ERROR 42710: collation "numeric" already exists
CREATE COLLATION IF NOT EXISTS numeric (provider = icu, locale = 'en');
SELECT x FROM unnest(ARRAY['a10', 'a9', 'a', 'b1', 'a2b', 'a02b']) AS x ORDER BY x COLLATE numeric;
-- a
-- a02b
-- a2b
-- a9
-- a10
-- b1
CREATE COLLATION upper_first (provider = icu, locale = 'und-u-kf-upper');
SELECT x FROM unnest(ARRAY['a', 'A', 'b', 'B']) AS x ORDER BY x COLLATE upper_first;
-- A
-- a
-- B
-- b
CREATE COLLATION phonebook (provider = icu, locale = 'de-u-co-phonebk');
SELECT x FROM unnest(ARRAY['Göthe', 'Goethe', 'Gothe', 'Goldmann', 'Götz']) AS x ORDER BY x COLLATE phonebook;
-- Goethe
-- Göthe
-- Götz
-- Goldmann
-- Gothe
SELECT x FROM unnest(ARRAY['Göthe', 'Goethe', 'Gothe', 'Goldmann', 'Götz']) AS x ORDER BY x COLLATE "de-x-icu";
-- Goethe
-- Goldmann
-- Gothe
-- Göthe
-- Götz
CREATE COLLATION shifted (provider = icu, locale = 'und-u-ka-shifted');
SELECT x FROM unnest(ARRAY['de luge', 'de-luge', 'deluge', 'de Luge', 'demark']) AS x ORDER BY x COLLATE shifted;
-- de luge
-- de-luge
-- deluge
-- de Luge
-- demark
CREATE COLLATION copied FROM "sv-x-icu";
SELECT x FROM unnest(ARRAY['ö', 'z', 'ä', 'å']) AS x ORDER BY x COLLATE copied;
-- z
-- å
-- ä
-- ö
CREATE COLLATION broken (provider = icu);
-- ERROR 42P17: parameter "locale" must be specified
CREATE COLLATION broken (provider = nosuch, locale = 'en');
-- ERROR 42P17: unrecognized collation provider: nosuch
CREATE COLLATION broken (provider = icu, locale = 'en', colour = 'blue');
-- ERROR 42601: collation attribute "colour" not recognized
CREATE COLLATION broken (provider = icu, locale = 'en', locale = 'de');
-- ERROR 42601: conflicting or redundant options
CREATE COLLATION broken (lc_collate = 'C');
-- ERROR 42P17: parameter "lc_ctype" must be specified
CREATE COLLATION broken (locale = 'C', deterministic = false);
-- ERROR 0A000: nondeterministic collations not supported with this provider
CREATE COLLATION broken (locale = 'xx_YY');
-- ERROR 22023: could not create locale "xx_YY": No such file or directory
CREATE COLLATION broken FROM nosuch;
-- ERROR 42704: collation "nosuch" for encoding "UTF8" does not exist
CREATE COLLATION posix_like (lc_collate = 'POSIX', lc_ctype = 'POSIX');
SELECT x FROM unnest(ARRAY['b', 'A', 'a']) AS x ORDER BY x COLLATE posix_like;
-- A
-- a
-- b

-- # Collations that take texts for the same
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE n (id int PRIMARY KEY, name text COLLATE ci);
INSERT INTO n VALUES (1, 'Andrew'), (2, 'ANDREW'), (3, 'Andréw'), (4, 'Bob');
SELECT id FROM n WHERE name = 'andrew' ORDER BY id;
-- 1
-- 2
SELECT id FROM n WHERE name <> 'andrew' ORDER BY id;
-- 3
-- 4
SELECT id FROM n WHERE name < 'b' ORDER BY id;
-- 1
-- 2
-- 3
SELECT id FROM n WHERE name = 'andrew' COLLATE "C" ORDER BY id;
SELECT 'a' = 'A' COLLATE ci, 'a' IS DISTINCT FROM 'A' COLLATE ci;
-- t|f
SELECT id FROM n ORDER BY name, id;
-- 1
-- 2
-- 3
-- 4
SELECT a.id, b.id FROM n a JOIN n b ON a.name = b.name WHERE a.id < b.id;
-- 1|2
SELECT id FROM n WHERE name LIKE 'and%';
-- ERROR 0A000: nondeterministic collations are not supported for LIKE
UPDATE n SET name = 'Robert' WHERE name = 'BOB';
SELECT * FROM n WHERE id = 4;
-- 4|Robert

-- # Columns change their collations, and definitions name them
CREATE TABLE a (id int PRIMARY KEY, name varchar(20), n int);
INSERT INTO a VALUES (1, 'ö'), (2, 'z'), (3, 'o');
SELECT name FROM a ORDER BY name;
-- o
-- z
-- ö
ALTER TABLE a ALTER COLUMN name TYPE varchar(30) COLLATE "de-x-icu";
SELECT name FROM a ORDER BY name;
-- o
-- ö
-- z
ALTER TABLE a ALTER name TYPE text COLLATE "sv-x-icu" USING (name || '!'), ALTER n TYPE bigint;
SELECT name FROM a ORDER BY name;
-- o!
-- z!
-- ö!
SELECT column_name, collation_schema, collation_name FROM information_schema.columns WHERE table_name = 'a' ORDER BY 1;
-- id|NULL|NULL
-- n|NULL|NULL
-- name|pg_catalog|sv-x-icu
ALTER TABLE a ALTER name TYPE text;
SELECT name FROM a ORDER BY name;
-- o!
-- z!
-- ö!
ALTER TABLE a ALTER n TYPE int COLLATE "C";
-- ERROR 42804: collations are not supported by type integer
CREATE TABLE bad (x int COLLATE "C");
-- ERROR 42804: collations are not supported by type integer
CREATE TABLE bad (x text COLLATE "C" COLLATE "C");
-- ERROR 42601: multiple COLLATE clauses not allowed
CREATE TABLE bad (x text COLLATE "nosuch");
-- ERROR 42704: collation "nosuch" for encoding "UTF8" does not exist
CREATE TABLE q (x text COLLATE "default", y varchar(3)[] COLLATE "C");
SELECT attname, collname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation WHERE attrelid = 'q'::regclass AND attnum > 0 ORDER BY attnum;
-- x|default
-- y|C
CREATE INDEX w_word ON w (word, plain COLLATE "de-x-icu", c COLLATE "C");
SELECT pg_get_indexdef('w_word'::regclass);
-- CREATE INDEX w_word ON public.w USING btree (word, plain COLLATE "de-x-icu", c)
SELECT word FROM w WHERE id < 7 ORDER BY word;
-- arg
-- Ost
-- zebra
-- åka
-- Ärlig
-- öl
CREATE UNIQUE INDEX w_plain ON w ((plain || id) COLLATE "de-x-icu");
SELECT collname, collprovider, collisdeterministic, colliculocale FROM pg_collation WHERE collname IN ('ci', 'sv-x-icu', 'C', 'copied') ORDER BY 1;
-- C|c|t|NULL
-- ci|i|f|und-u-ks-level2
-- copied|i|t|sv
-- sv-x-icu|i|t|sv
ALTER TABLE a ADD COLUMN e text COLLATE ci DEFAULT 'x';
SELECT count(*) FROM a WHERE e = 'X';
-- 3

-- # What depends on a collation
DROP COLLATION ci;
-- ERROR 2BP01: cannot drop collation ci because other objects depend on it
DROP COLLATION "C";
-- ERROR 2BP01: cannot drop collation "C" because it is required by the database system
DROP COLLATION nosuch;
-- ERROR 42704: collation "nosuch" for encoding "UTF8" does not exist
DROP COLLATION IF EXISTS nosuch;
ALTER COLLATION copied RENAME TO swedish;
SELECT x FROM unnest(ARRAY['ö', 'z', 'ä', 'å']) AS x ORDER BY x COLLATE swedish;
-- z
-- å
-- ä
-- ö
ALTER COLLATION copied RENAME TO other;
-- ERROR 42704: collation "copied" for encoding "UTF8" does not exist
CREATE SCHEMA s;
ALTER COLLATION swedish SET SCHEMA s;
SELECT 'a' < 'b' COLLATE swedish;
-- ERROR 42704: collation "swedish" for encoding "UTF8" does not exist
SELECT 'a' < 'b' COLLATE s.swedish;
-- t
SET search_path TO s, public;
SELECT 'a' < 'b' COLLATE swedish;
-- t
CREATE TABLE t (x text COLLATE swedish);
RESET search_path;
DROP COLLATION ci CASCADE;
SELECT * FROM n ORDER BY id;
-- 1
-- 2
-- 3
-- 4
DROP SCHEMA s CASCADE;
BEGIN;
CREATE COLLATION gone (provider = icu, locale = 'fr');
SELECT 'a' < 'b' COLLATE gone;
-- t
ROLLBACK;
SELECT 'a' < 'b' COLLATE gone;
-- ERROR 42704: collation "gone" for encoding "UTF8" does not exist

-- # Columns that USING merges
CREATE TABLE merged_l (k text);
CREATE TABLE merged_r (k text COLLATE "sv-x-icu");
INSERT INTO merged_l VALUES ('ä'), ('å');
INSERT INTO merged_r VALUES ('ä'), ('å');
SELECT k FROM merged_l JOIN merged_r USING (k) ORDER BY k;
-- ä
-- å
SELECT k FROM merged_l RIGHT JOIN merged_r USING (k) ORDER BY k;
-- å
-- ä
SELECT * FROM merged_l FULL JOIN merged_r USING (k) ORDER BY k;
-- å
-- ä
SELECT * FROM (merged_l NATURAL FULL JOIN merged_r) AS j ORDER BY k;
-- å
-- ä

-- # Extremes of constants
SELECT max('b' COLLATE "sv-x-icu"), min('b' COLLATE "sv-x-icu");
-- b|b
SELECT max('b' COLLATE "sv-x-icu") OVER ();
-- b
SELECT max(k) AS m FROM merged_r GROUP BY k ORDER BY max(k);
-- å
-- ä

-- # A key that is compared by its bytes
CREATE COLLATION either_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE either (x text COLLATE either_case);
CREATE UNIQUE INDEX either_key ON either (lower(x) COLLATE "C");
INSERT INTO either VALUES ('A'), ('b');
INSERT INTO either VALUES ('a');
-- ERROR 23505: duplicate key value violates unique constraint "either_key"
SELECT count(*) FROM either WHERE x = 'a';
-- 1
