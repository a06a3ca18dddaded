-- # Regular expressions over tables, in reads, writes and constraints
CREATE TABLE texts (id int PRIMARY KEY, s text);
INSERT INTO texts VALUES (1, 'foobar'), (2, 'Foo 12'), (3, NULL), (4, 'a-b');
SELECT id, s ~ '^foo', s ~* '^foo', s !~ 'o', s !~* 'F' FROM texts ORDER BY id;
-- 1|t|t|f|f
-- 2|f|t|f|f
-- 3|NULL|NULL|NULL|NULL
-- 4|f|f|t|t
SELECT id FROM texts WHERE s ~ '[0-9]+$';
-- 2
SELECT id FROM texts WHERE s ~* ANY (ARRAY['^F', 'b$']) ORDER BY id;
-- 1
-- 2
-- 4
SELECT id, s SIMILAR TO 'foo%', s SIMILAR TO '%(oo|12)%', s NOT SIMILAR TO '_oo%' FROM texts ORDER BY id;
-- 1|t|t|f
-- 2|f|t|f
-- 3|NULL|NULL|NULL
-- 4|f|f|t
SELECT 'a_c' SIMILAR TO 'a#_c' ESCAPE '#', 'abc' SIMILAR TO 'a#_c' ESCAPE '#', 'abc' SIMILAR TO 'a|b|abc', 'aaa' SIMILAR TO 'a{3}', 'a.c' SIMILAR TO 'a.c', 'abc' SIMILAR TO 'a.c';
-- t|f|t|t|t|f
SELECT regexp_replace(s, 'o', '0'), regexp_replace(s, 'o', '0', 'g'), regexp_replace(s, '(F)(o)', '\2\1', 'i') FROM texts ORDER BY id;
-- f0obar|f00bar|ofobar
-- F0o 12|F00 12|oFo 12
-- NULL|NULL|NULL
-- a-b|a-b|a-b
SELECT regexp_replace('abc', 'b*', 'X', 'g'), regexp_replace('abc', '', '-', 'g'), regexp_replace('abc', '(b)', '<\&\1\\>'), regexp_replace('aaa', 'a', 'b', 2), regexp_replace('aaa', 'a', 'b', 1, 2), regexp_replace('AAA', 'a', 'b', 1, 0, 'i');
-- XaXXcX|-a-b-c-|a<bb\>c|aba|aba|bbb
SELECT regexp_match(s, '(o)(o)'), regexp_match(s, 'zz'), regexp_match(s, 'o+') FROM texts ORDER BY id;
-- {o,o}|NULL|{oo}
-- {o,o}|NULL|{oo}
-- NULL|NULL|NULL
-- NULL|NULL|NULL
SELECT regexp_match('abc', 'b', 'g');
-- ERROR 22023: regexp_match() does not support the "global" option
SELECT regexp_match('abc', 'b', 'z');
-- ERROR 22023: invalid regular expression option: "z"
SELECT id, regexp_matches(s, 'o', 'g') FROM texts ORDER BY id;
-- 1|{o}
-- 1|{o}
-- 2|{o}
-- 2|{o}
SELECT * FROM regexp_matches('foobarbequebaz', '(b[^b]+)(b[^b]+)', 'g');
-- {bar,beque}
SELECT regexp_split_to_array('a, b,c', ',\s*'), regexp_split_to_array('hello', ''), regexp_split_to_array('', 'x'), regexp_split_to_array('aXbxc', 'x', 'i');
-- {a,b,c}|{h,e,l,l,o}|{""}|{a,b,c}
SELECT * FROM regexp_split_to_table('the quick fox', '\s+');
-- the
-- quick
-- fox
SELECT regexp_count('abab', 'a'), regexp_count('abab', 'A', 1, 'i'), regexp_count('abab', 'a', 2), regexp_like('abc', 'B', 'i'), regexp_substr('abcabc', 'b.'), regexp_substr('abcabd', 'b.', 1, 2), regexp_substr('abcabd', '(b)(.)', 1, 2, '', 2), regexp_instr('abcabc', 'c'), regexp_instr('abcabc', 'c', 1, 2), regexp_instr('abcabc', 'c', 1, 1, 1);
-- 2|2|1|t|bc|bd|d|3|6|4
SELECT substring(s from 'o+'), substring(s from 'f(o+)b'), substring(s, 2), substring(s from 2 for 2) FROM texts ORDER BY id;
-- oo|oo|oobar|oo
-- oo|NULL|oo 12|oo
-- NULL|NULL|NULL|NULL
-- NULL|NULL|-b|-b
SELECT substring('foobar' from '%#"o_b#"%' for '#'), substring('foobar' from '#"o_b#"%' for '#'), substring('abcdefg' from 'a#"%#"g' for '#'), substring('abc' from 'a%' for '#');
-- oob|NULL|bcdef|abc
SELECT 'xabcdx' ~ 'ab|abcd', substring('xabcdx' from 'ab|abcd'), substring('XY1234Z' from 'Y*([0-9]{1,3})'), substring('XY1234Z' from 'Y*?([0-9]{1,3})'), substring('abc123' from '(.*?)[0-9]+');
-- t|abcd|123|1|abc
SELECT 'word here' ~ '\mhere\M', 'abc' ~ '^\w+$', 'a1' ~ '[[:alpha:]][[:digit:]]', ']-a' ~ '^[]a-]+$', 'a.c' ~ '***=a.c', 'ABC' ~ '(?i)abc', 'tab	x' ~ '\t';
-- t|t|t|t|t|t|t
SELECT E'a\nb' ~ 'a.b', E'a\nb' ~ '^b', E'a\nb' ~ '(?n)^b', E'a\nb' ~ '(?n)a.b', E'a\nb' ~ 'a$';
-- t|f|t|f|f
SELECT 'x' ~ '(';
-- ERROR 2201B: invalid regular expression: parentheses () not balanced
SELECT 'x' ~ '[a';
-- ERROR 2201B: invalid regular expression: brackets [] not balanced
SELECT 'x' ~ '*a';
-- ERROR 2201B: invalid regular expression: quantifier operand invalid
SELECT 'x' ~ 'a{3,2}';
-- ERROR 2201B: invalid regular expression: invalid repetition count(s)
SELECT 'x' ~ '\q';
-- ERROR 2201B: invalid regular expression: invalid escape \ sequence
SELECT 'x' ~ '[[:no:]]';
-- ERROR 2201B: invalid regular expression: invalid character class
SELECT 1 ~ 'a';
-- ERROR 42883: operator does not exist: integer ~ unknown
SELECT regexp_replace('a', 'a', 'b', 0);
-- ERROR 22023: invalid value for parameter "start": 0
SELECT regexp_count('a', 'a', 1, 'g');
-- ERROR 22023: regexp_count() does not support the "global" option
UPDATE texts SET s = regexp_replace(s, 'o+', 'O') WHERE s ~ 'oo';
SELECT * FROM texts ORDER BY id;
-- 1|fObar
-- 2|FO 12
-- 3|NULL
-- 4|a-b
DELETE FROM texts WHERE s ~ '12';
CREATE TABLE mails (e text CHECK (e ~ '^[^@]+@[^@]+$'), l text GENERATED ALWAYS AS (regexp_replace(e, '@.*', '')) STORED);
INSERT INTO mails VALUES ('a@b');
INSERT INTO mails VALUES ('ab');
-- ERROR 23514: new row for relation "mails" violates check constraint "mails_e_check"
SELECT * FROM mails;
-- a@b|a
SELECT count(*) FROM texts t JOIN mails m ON t.s ~ m.l;
-- 2
SELECT s ~ NULL, regexp_replace(s, NULL, 'x'), regexp_match(NULL, 'x') FROM texts WHERE id = 1;
-- NULL|NULL|NULL
SELECT 'a' ~ s FROM texts WHERE id = 4;
-- f
SELECT proname FROM pg_proc WHERE proname ~ '^int4(in|out)$' ORDER BY 1;
-- int4in
-- int4out
