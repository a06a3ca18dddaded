select md5('abc'), md5(''), md5('\x00ff'::bytea), md5(null);
-- md5 text | md5 text | md5 text | md5 text
-- 900150983cd24fb0d6963f7d28e17f72 | d41d8cd98f00b204e9800998ecf8427e | d07d34efac6328007ad67c7e0a985e00 | NULL
-- SELECT 1
select sha224('abc'::bytea), sha384('abc'::bytea), sha512('abc'::bytea);
-- sha224 bytea | sha384 bytea | sha512 bytea
-- \x23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7 | \xcb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7 | \xddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f
-- SELECT 1
select encode(sha512('\x00'::bytea), 'hex');
-- encode text
-- b8244d028981d693af7b456af8efa4cad63d282e19ff14942c246e50d9351d22704a802a71c3580b6370de4ceb293c324a8423342557d4e5c38438f0e36910ee
-- SELECT 1
select gcd(12, 18), gcd(-12, 18), gcd(0, 0), gcd(0, -5), gcd(6::bigint, 4);
-- gcd integer | gcd integer | gcd integer | gcd integer | gcd bigint
-- 6 | 6 | 0 | 5 | 2
-- SELECT 1
select lcm(4, 6), lcm(-4, 6), lcm(0, 5), lcm(0, 0), lcm(6::bigint, 4);
-- lcm integer | lcm integer | lcm integer | lcm integer | lcm bigint
-- 12 | 12 | 0 | 0 | 12
-- SELECT 1
select gcd((-2147483648)::int, 0);
-- ERROR 22003: integer out of range
select gcd((-2147483648)::int, (-2147483648)::int);
-- ERROR 22003: integer out of range
select lcm(2147483647, 2);
-- ERROR 22003: integer out of range
select gcd((-9223372036854775807 - 1)::bigint, 0::bigint);
-- ERROR 22003: bigint out of range
select lcm(9223372036854775807, 2::bigint);
-- ERROR 22003: bigint out of range
select bit_length('abc'), bit_length('ü'), bit_length('\x0102'::bytea), bit_length('');
-- bit_length integer | bit_length integer | bit_length integer | bit_length integer
-- 24 | 16 | 16 | 0
-- SELECT 1
select overlay('Txxxxas' placing 'hom' from 2 for 4), overlay('abcdef' placing '45' from 4), overlay('yabadoo' placing 'daba' from 5 for 0), overlay('babosa' placing 'ubb' from 2 for 4);
-- overlay text | overlay text | overlay text | overlay text
-- Thomas | abc45f | yabadabadoo | bubba
-- SELECT 1
select overlay('abc', 'xyz', 2), overlay('abc', 'xyz', 9, 1), overlay('ünïcode', 'É', 1, 2), overlay('abcdef', 'x', 3, -1);
-- overlay text | overlay text | overlay text | overlay text
-- axyz | abcxyz | Éïcode | abxbcdef
-- SELECT 1
select overlay('\x00112233'::bytea placing '\xff'::bytea from 2 for 2);
-- overlay bytea
-- \x00ff33
-- SELECT 1
select overlay('abc' placing 'x' from 0);
-- ERROR 22011: negative substring length not allowed
select overlay('abc' placing 'x' from 1 for 2147483647);
-- ERROR 22003: integer out of range
select get_byte('\x0102ff'::bytea, 2), set_byte('\x0102ff'::bytea, 0, 258), set_byte('\x00'::bytea, 0, -1);
-- get_byte integer | set_byte bytea | set_byte bytea
-- 255 | \x0202ff | \xff
-- SELECT 1
select get_byte('\x0102'::bytea, 2);
-- ERROR 2202E: index 2 out of valid range, 0..1
select get_byte('\x0102'::bytea, -1);
-- ERROR 2202E: index -1 out of valid range, 0..1
select get_byte(''::bytea, 0);
-- ERROR 2202E: index 0 out of valid range, 0..-1
select set_byte('\x'::bytea, 0, 1);
-- ERROR 2202E: index 0 out of valid range, 0..-1
select quote_literal('O''Reilly'), quote_literal('a\b'), quote_literal(42.5), quote_literal(true), quote_literal(null::text), quote_nullable(null::text), quote_nullable('x'), quote_literal(date '2024-02-29');
-- quote_literal text | quote_literal text | quote_literal text | quote_literal text | quote_literal text | quote_nullable text | quote_nullable text | quote_literal text
-- 'O''Reilly' | E'a\\b' | '42.5' | 'true' | NULL | NULL | 'x' | '2024-02-29'
-- SELECT 1
select array_to_string(array[1, 2, null, 3], ','), array_to_string(array[1, 2, null, 3], ',', '*'), array_to_string(array['a', null], '-', ''), array_to_string(array[true, false], ' '), array_to_string('{}'::int[], ','), array_to_string(null::int[], ','), array_to_string(array[1], null);
-- array_to_string text | array_to_string text | array_to_string text | array_to_string text | array_to_string text | array_to_string text | array_to_string text
-- 1,2,3 | 1,2,*,3 | a- | t f |  | NULL | NULL
-- SELECT 1
select string_to_array('a,b,,c', ','), string_to_array('abc', null), string_to_array('', ','), string_to_array('a,b', ''), string_to_array(null, ','), string_to_array('xx~~yy~~zz', '~~', 'yy'), string_to_array('a', 'a');
-- string_to_array text[] | string_to_array text[] | string_to_array text[] | string_to_array text[] | string_to_array text[] | string_to_array text[] | string_to_array text[]
-- {a,b,"",c} | {a,b,c} | {} | {"a,b"} | NULL | {xx,NULL,zz} | {"",""}
-- SELECT 1
select array_remove(array[1, 2, 3, 2], 2), array_remove(array[1, null, 2], null), array_remove(null::int[], 1), array_replace(array[1, 2, 5, 4], 5, 3), array_replace(array[1, null], null, 7), array_replace(null::int[], 1, 2);
-- array_remove integer[] | array_remove integer[] | array_remove integer[] | array_replace integer[] | array_replace integer[] | array_replace integer[]
-- {1,3} | {1,2} | NULL | {1,2,3,4} | {1,7} | NULL
-- SELECT 1
select array_positions(array['A', 'A', 'B', 'A'], 'A'), array_positions(array[1, null, null], null), array_positions(array[1], 2), array_positions(null::int[], 1);
-- array_positions integer[] | array_positions integer[] | array_positions integer[] | array_positions integer[]
-- {1,2,4} | {2,3} | {} | NULL
-- SELECT 1
select md5(1);
-- ERROR 42883: function md5(integer) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select sha512('abc'::text);
-- ERROR 42883: function sha512(text) does not exist
-- HINT: No function matches the given name and argument types. You might need to add explicit type casts.
select digest('abc', 'md5'), digest('abc', 'sha1'), digest('abc'::bytea, 'SHA256'), digest('', 'sha512'), digest(null, 'md5');
-- digest bytea | digest bytea | digest bytea | digest bytea | digest bytea
-- \x900150983cd24fb0d6963f7d28e17f72 | \xa9993e364706816aba3e25717850c26c9cd0d89d | \xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad | \xcf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e | NULL
-- SELECT 1
select hmac('what do ya want for nothing?', 'Jefe', 'sha256'), hmac('\x0102'::bytea, '\x00'::bytea, 'sha1'), hmac('', '', 'md5'), hmac('a', repeat('k', 200), 'sha384');
-- hmac bytea | hmac bytea | hmac bytea | hmac bytea
-- \x5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843 | \x5d1044a82d6355b08b05fcee3991f5d219bfe7c0 | \x74e6f7298a9c2d168935f58c001bad88 | \x0261e66e0d22076a2a446ce2c5f44da8e57015ab7eb2dacd080efc629b2ba8ee8442b6ac05135a40bbee852447b0d628
-- SELECT 1
select digest('abc', 'sha3');
-- ERROR 22023: Cannot use "sha3": No such hash algorithm
select hmac('abc', 'k', 'none');
-- ERROR 22023: Cannot use "none": No such hash algorithm

-- # dates and times as PostgreSQL 15 shows them
select to_char(timestamptz '2014-12-31 12:27:54.379813', E'YYYY:DaFF4THMonthyYyY');
-- to_char text
-- 2014:4a3798THDecember 4444
-- SELECT 1
select to_char(timestamptz '0288-12-08 15:00:00.808589', E'yYyYFF1thFMdyTHff1');
-- to_char text
-- 88888thsat8
-- SELECT 1
select to_char(timestamp '2000-05-28 11:30:06.312419', E'HH24FMofTHfmIDthMon.fm.');
-- to_char text
-- 11+07thMay..
-- SELECT 1
select to_char(timestamptz '2024-07-12 12:49:07.971965', E'%');
-- to_char text
-- %
-- SELECT 1
select to_char(timestamp '6927-10-17 13:43:43.704835', E'FMYYYYTHFMOFthfmpm');
-- to_char text
-- 6927TH+0pm
-- SELECT 1
select to_char(date '2028-02-22 12:43:33.040931', E'YYTMFMMoné');
-- to_char text
-- 28F02oné
-- SELECT 1
select to_char(date '2000-05-05 02:59:21.682397', E'"lit"TH%');
-- to_char text
-- litTH%
-- SELECT 1
select to_char(timestamp '6631-06-21 05:44:38.414367', E'FMDAYFMOFMon.IDwwID');
-- to_char text
-- TUESDAY+0Jun.2252
-- SELECT 1
select to_char(timestamptz '2024-06-21 23:30:49.927369', E':FM%Mon.IDDDthx');
-- to_char text
-- :%Jun.173rdx
-- SELECT 1
select to_char(date '1900-08-02 13:15:03.822314', E'yYyY');
-- to_char text
-- 0000
-- SELECT 1
select to_char(timestamptz '2024-11-10 13:08:14.887010', E':THDa\\FMID');
-- to_char text
-- :TH1a\7
-- SELECT 1
select to_char(timestamp '2022-03-17 23:46:38.420731', E'fmmonthTMA.M.TH');
-- to_char text
-- marchP.M.
-- SELECT 1
select to_char(timestamptz '2024-08-01 11:47:30.234271', E'FMfx\\"FMyyFMITH');
-- to_char text
-- "244TH
-- SELECT 1
select to_char(timestamp '2024-06-02 15:22:20.223131', E'TMIDDDthIDfmiyyythMONTHth');
-- to_char text
-- 154th72024thJUNE     
-- SELECT 1
select to_char(timestamp '2017-08-17 23:13:08.679100', E'-SSSSSTHTH:');
-- to_char text
-- -83588THTH:
-- SELECT 1
select to_char(timestamptz '2000-05-28 23:33:21.957296', E'TMDAYFM');
-- to_char text
-- SUNDAY
-- SELECT 1
select to_char(timestamptz '4112-04-09 00:55:26.256951', E'MoTMmmTMRM');
-- to_char text
-- Mo04IV  
-- SELECT 1
select to_char(timestamp '1900-10-31 12:44:07.791517', E'SSthHHHH');
-- to_char text
-- 07th1212
-- SELECT 1
select to_char(timestamptz '2000-07-23 12:41:29.698724', E'FMmmTHfmrmCC');
-- to_char text
-- 7THvii20
-- SELECT 1
select to_char(date '2029-03-10 23:30:30.331226', E'FMj');
-- to_char text
-- 2462206
-- SELECT 1
select to_char(timestamp '6827-10-31 13:40:01.158348', E'"a\\"b"');
-- to_char text
-- a"b
-- SELECT 1
select to_char(date '2024-08-26 00:19:12.995328', E'fmCCthfmFF4');
-- to_char text
-- 21st0000
-- SELECT 1
select to_char(timestamp '1900-02-13 16:03:50.747291', E'SPTHFF1TH/');
-- to_char text
-- SPTH7TH/
-- SELECT 1
select to_char(date '2024-09-04 23:15:11.773253', E'pmTHfmyyxTMA.M.THmonfmiyyTH');
-- to_char text
-- am24xA.M.sep24TH
-- SELECT 1
select to_char(timestamp '2007-02-01 12:07:08.369419', E'FMpmTHTMSP');
-- to_char text
-- pmSP
-- SELECT 1
select to_char(timestamptz '2000-02-27 11:24:26.613720', E'SSSSTMTZMthusDAYyYyYID');
-- to_char text
-- 4106600613720SUNDAY   00007
-- SELECT 1
select to_char(timestamptz '2024-09-26 23:53:41.363000', E'adthTMDy%iddd%Da');
-- to_char text
-- adThu%270%5a
-- SELECT 1
select to_char(timestamp '2024-06-20 13:30:30.321755', E'DyMoTMYth');
-- to_char text
-- ThuMo4th
-- SELECT 1
select to_char(date '2000-12-31 12:38:15.084114', E'FMiyythccfmb.c./ID');
-- to_char text
-- 0th20a.d./7
-- SELECT 1
select to_char(date '2024-11-30 12:12:21.313729', E'wTH-IWTH');
-- to_char text
-- 5TH-48TH
-- SELECT 1
select to_char(timestamp '1900-09-30 02:48:29.119645', E'\\"\\"TM');
-- to_char text
-- ""
-- SELECT 1
select to_char(timestamptz '1900-06-12 13:54:54.310221', E'fmdMIfmTZ');
-- to_char text
-- 354UTC
-- SELECT 1
select to_char(date '2000-09-06 00:12:14.168722', E'DaYYthMMfmMonth');
-- to_char text
-- 4a00th09September
-- SELECT 1
select to_char(timestamp '1995-04-15 11:48:00.338634', E'fmIDDDTHTMHH12th%');
-- to_char text
-- 104TH11th%
-- SELECT 1
select to_char(date '2042-07-23 23:43:27.504782', E'TMWBCTHfmAMTMDay');
-- to_char text
-- 4ADAMWednesday
-- SELECT 1
select to_char(date '2024-10-09 04:03:22.543322', E'.');
-- to_char text
-- .
-- SELECT 1
select to_char(timestamp '9148-08-31 09:54:29.348018', E'ff1"TMRMMo');
-- to_char text
-- 3TMRMMo
-- SELECT 1
select to_char(date '2024-03-31 12:50:32.094053', E'DyTHRMth_');
-- to_char text
-- SunIII _
-- SELECT 1
select to_char(timestamp '1696-11-22 17:53:03.690800', E'tzTMBCTHusTH');
-- to_char text
-- AD690800TH
-- SELECT 1
select to_char(timestamp '2024-05-31 12:24:12.747974', E'Mon.');
-- to_char text
-- May.
-- SELECT 1
select to_char(date '1900-10-27 11:14:16.376432', E':SPTMyyyTHff4FMdyth');
-- to_char text
-- :SP900TH0000sat
-- SELECT 1
select to_char(date '2024-01-31 08:20:29.411068 BC', E'MofmSSSSMo');
-- to_char text
-- M+00m0Mo
-- SELECT 1
select to_char(date '2024-03-12 00:56:18.488400', E'FMof \\bcmsYY');
-- to_char text
-- +0 \ad00024
-- SELECT 1
select to_char(timestamp '2024-08-11 07:07:05.121479', E':Q');
-- to_char text
-- :3
-- SELECT 1
select to_char(timestamptz '6509-06-14 15:07:09.411310', E'Mon.fmssthfmA.M.TH');
-- to_char text
-- Jun.9thP.M.
-- SELECT 1
select to_char(timestamptz '2000-12-31 13:40:21.116115', E'FMmsTMRMMofmI\\');
-- to_char text
-- 116XII M+00m0\
-- SELECT 1
select to_char(timestamptz '2005-07-23 00:08:33.077993', E'idyyth\\"');
-- to_char text
-- 605th"
-- SELECT 1
select to_char(timestamp '1900-08-13 11:58:34.381395', E'fmY');
-- to_char text
-- 0
-- SELECT 1
select to_char(timestamptz '2024-08-22 13:12:00.551985', E'dfmIYYYTHFMIDDD');
-- to_char text
-- 52024TH235
-- SELECT 1
select to_char(date '2024-12-31 11:36:49.915189', E'dayTHDafmAD\\"fmFXth"');
-- to_char text
-- tuesday  3aAD"
-- SELECT 1
select to_char(timestamp '1900-09-20 13:51:53.597579', E'TMMONTH');
-- to_char text
-- SEPTEMBER
-- SELECT 1
select to_char(date '1900-09-30 23:36:41.247859', E'TMRMthFMiyfmCCth\\"FF6a.d.');
-- to_char text
-- IX  019th"000000a.d.
-- SELECT 1
select to_char(timestamptz '2024-07-08 12:40:23.991986', E'Montha.m.%TMrmTHfmB.C.th ');
-- to_char text
-- July     p.m.%vii A.D. 
-- SELECT 1
select to_char(timestamptz '2000-10-31 00:35:53.158957', E'ms');
-- to_char text
-- 158
-- SELECT 1
select to_char(date '7597-07-15 00:43:55.457568', E'TMPMTH,thbc');
-- to_char text
-- AM,thad
-- SELECT 1
select to_char(date '2000-06-06 13:04:56.920658', E'Mon.FMOFthmonthth:"a\\"b"');
-- to_char text
-- Jun.+0june     :a"b
-- SELECT 1
select to_char(date '2024-07-03 00:37:25.560446', E'TMWthA.M.THfmWTHfmyyTMith');
-- to_char text
-- 1stA.M.1ST244th
-- SELECT 1
select to_char(timestamptz '1900-11-03 23:54:36.196171', E'Mon.dyfmFF5_iyTHHH12th');
-- to_char text
-- Nov.sat19617_00TH11th
-- SELECT 1
select to_char(date '2024-06-12 11:53:49.901365', E'iyfmFF6yYyYTMRMth');
-- to_char text
-- 240000004444VI  
-- SELECT 1
select to_char(timestamptz '2024-06-03 13:20:23.874312', E':tz');
-- to_char text
-- :utc
-- SELECT 1
select to_char(date '1900-02-05 08:21:30.889945', E'TMPMDaFMmm"lit"DaTMpm');
-- to_char text
-- AM2a2lit2aam
-- SELECT 1
select to_char(timestamp '1900-03-19 23:07:52.455465', E'ssFF5monTHTZH/fmDay');
-- to_char text
-- 5245546mar+00/Monday
-- SELECT 1
select to_char(timestamptz '2024-09-02 01:04:26.958702', E'"DY');
-- to_char text
-- DY
-- SELECT 1
select to_char(timestamptz '5570-12-31 23:24:50.887294', E'"a\\"b"TMDayFF5THYYTH');
-- to_char text
-- a"bThursday88729TH70TH
-- SELECT 1
select to_char(timestamp '2024-01-31 01:56:55.261476', E'fmff1');
-- to_char text
-- 2
-- SELECT 1
select to_char(date '2000-10-23 11:52:05.410200', E'FXTMMon_');
-- to_char text
-- Oct_
-- SELECT 1
select to_char(timestamptz '2024-03-31 00:41:06.519110', E',TMmonthTH_');
-- to_char text
-- ,march_
-- SELECT 1
select to_char(timestamp '1900-08-15 13:40:02.543840 BC', E'-rmW');
-- to_char text
-- -viii3
-- SELECT 1
select to_char(timestamp '4597-06-20 23:47:12.381709', E'\\');
-- to_char text
-- \
-- SELECT 1
select to_char(timestamp '7000-02-28 12:46:48.167833', E'yFMofthTHFMTZfmdy');
-- to_char text
-- 0+0THfri
-- SELECT 1
