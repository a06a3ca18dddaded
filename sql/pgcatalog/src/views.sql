The views of pg_catalog and information_schema that have rows, in SQL over the tables.

-- pg_catalog.pg_roles
SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
       rolconnlimit, '********' AS rolpassword, rolvaliduntil, rolbypassrls, oid
FROM pg_authid;

-- pg_catalog.pg_user
SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
       rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd,
       rolvaliduntil AS valuntil
FROM pg_authid WHERE rolcanlogin;

-- pg_catalog.pg_tables
SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner,
       c.relhasindex AS hasindexes, c.relhasrules AS hasrules, c.relhastriggers AS hastriggers,
       c.relrowsecurity AS rowsecurity
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r';

-- pg_catalog.pg_views
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
       pg_get_viewdef(c.oid) AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v';

-- pg_catalog.pg_matviews
SELECT n.nspname AS schemaname, c.relname AS matviewname,
       pg_get_userbyid(c.relowner) AS matviewowner, NULL AS tablespace,
       c.relhasindex AS hasindexes, c.relispopulated AS ispopulated,
       pg_get_viewdef(c.oid) AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm';

-- pg_catalog.pg_sequences
SELECT n.nspname AS schemaname, c.relname AS sequencename,
       pg_get_userbyid(c.relowner) AS sequenceowner, s.seqtypid::regtype AS data_type,
       s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value,
       s.seqincrement AS increment_by, s.seqcycle AS cycle, s.seqcache AS cache_size
FROM pg_sequence s
JOIN pg_class c ON c.oid = s.seqrelid
JOIN pg_namespace n ON n.oid = c.relnamespace;

-- pg_catalog.pg_indexes
SELECT n.nspname AS schemaname, t.relname AS tablename, i.relname AS indexname,
       pg_get_indexdef(i.oid) AS indexdef
FROM pg_index x
JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_namespace n ON n.oid = t.relnamespace;

-- pg_catalog.pg_stat_all_tables
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm');

-- pg_catalog.pg_stat_user_tables
SELECT * FROM pg_stat_all_tables WHERE schemaname = 'public';

-- pg_catalog.pg_stat_all_indexes
SELECT t.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, t.relname,
       i.relname AS indexrelname
FROM pg_index x
JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_namespace n ON n.oid = t.relnamespace;

-- pg_catalog.pg_stat_user_indexes
SELECT * FROM pg_stat_all_indexes WHERE schemaname = 'public';

-- pg_catalog.pg_stat_database
SELECT oid AS datid, datname FROM pg_database;

-- information_schema.information_schema_catalog_name
SELECT current_database() AS catalog_name;

-- information_schema.enabled_roles
SELECT rolname AS role_name FROM pg_authid;

-- information_schema.applicable_roles
SELECT current_user AS grantee, rolname AS role_name, 'NO' AS is_grantable
FROM pg_authid WHERE false;

-- information_schema.schemata
SELECT current_database() AS catalog_name, n.nspname AS schema_name,
       pg_get_userbyid(n.nspowner) AS schema_owner
FROM pg_namespace n;

-- information_schema.tables
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       CASE WHEN c.relkind <> 'r' THEN 'VIEW' WHEN c.relpersistence = 't' THEN 'LOCAL TEMPORARY'
            ELSE 'BASE TABLE' END AS table_type,
       CASE WHEN n.nspname IN ('pg_catalog', 'information_schema') OR c.relkind <> 'r' THEN 'NO'
            ELSE 'YES' END AS is_insertable_into,
       'NO' AS is_typed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v');

-- information_schema.views
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       pg_get_viewdef(c.oid) AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable,
       'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
       'NO' AS is_trigger_insertable_into
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v';

-- information_schema.sequences
SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema,
       c.relname AS sequence_name, format_type(s.seqtypid, NULL) AS data_type,
       CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision,
       2 AS numeric_precision_radix, 0 AS numeric_scale, s.seqstart::text AS start_value,
       s.seqmin::text AS minimum_value, s.seqmax::text AS maximum_value,
       s.seqincrement::text AS increment,
       CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
FROM pg_sequence s
JOIN pg_class c ON c.oid = s.seqrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_depend d ON d.objid = s.seqrelid AND d.deptype = 'i'
WHERE d.objid IS NULL;

-- information_schema.columns
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       a.attname AS column_name, a.attnum AS ordinal_position,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS column_default,
       CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
            WHEN t.typtype IN ('d', 'e') THEN 'USER-DEFINED'
            ELSE format_type(t.oid, NULL) END AS data_type,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) > 0
            THEN
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END)
            - 4 END AS character_maximum_length,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) > 0
            THEN ((CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) - 4) * 4
            WHEN t.typname IN ('text', 'varchar', 'bpchar') THEN 1073741824
       END AS character_octet_length,
       CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64
            WHEN 'float4' THEN 24 WHEN 'float8' THEN 53
            WHEN 'numeric' THEN
                CASE WHEN
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) > 0 THEN (
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) - 4) >> 16 END
       END AS numeric_precision,
       CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2
            WHEN t.typname = 'numeric' THEN 10 END AS numeric_precision_radix,
       CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0
            WHEN t.typname = 'numeric' AND
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) > 0
            THEN (
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END)
            - 4) & 65535 END AS numeric_scale,
       CASE WHEN t.typname = 'date' THEN 0
            WHEN t.typname IN ('time', 'timetz', 'timestamp', 'timestamptz') THEN
                CASE WHEN
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) < 0 THEN 6 ELSE
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) END
            WHEN t.typname = 'interval' THEN
                CASE WHEN
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) < 0 OR
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) & 65535 = 65535 THEN 6
                     ELSE
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END) & 65535 END
       END AS datetime_precision,
       CASE WHEN format_type(t.oid,
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END)) LIKE 'interval %'
            THEN upper(substr(format_type(t.oid,
            (CASE dt.typtype WHEN 'd' THEN dt.typtypmod ELSE a.atttypmod END)
            ), 10)) END AS interval_type,
       CASE WHEN co.oid IS NOT NULL THEN current_database() END AS collation_catalog,
       con.nspname AS collation_schema, co.collname AS collation_name,
       CASE WHEN dt.typtype = 'd' THEN current_database() END AS domain_catalog,
       CASE WHEN dt.typtype = 'd' THEN dn.nspname END AS domain_schema,
       CASE WHEN dt.typtype = 'd' THEN dt.typname END AS domain_name,
       current_database() AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name,
       a.attnum AS dtd_identifier, 'NO' AS is_self_referencing,
       CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END AS is_identity,
       CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT'
            END AS identity_generation,
       s.seqstart::text AS identity_start, s.seqincrement::text AS identity_increment,
       s.seqmax::text AS identity_maximum, s.seqmin::text AS identity_minimum,
       CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS identity_cycle,
       CASE WHEN a.attgenerated = '' THEN 'NEVER' ELSE 'ALWAYS' END AS is_generated,
       CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid)
            END AS generation_expression,
       CASE WHEN n.nspname = 'public' AND c.relkind = 'r' THEN 'YES' ELSE 'NO' END AS is_updatable
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type dt ON dt.oid = a.atttypid
JOIN pg_type t ON t.oid = CASE dt.typtype WHEN 'd' THEN dt.typbasetype ELSE dt.oid END
JOIN pg_namespace tn ON tn.oid = t.typnamespace
JOIN pg_namespace dn ON dn.oid = dt.typnamespace
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_depend o ON o.refobjid = a.attrelid AND o.refobjsubid = a.attnum AND o.deptype = 'i'
LEFT JOIN pg_sequence s ON s.seqrelid = o.objid
LEFT JOIN pg_collation co ON co.oid = a.attcollation AND co.oid <> 100
LEFT JOIN pg_namespace con ON con.oid = co.collnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v');

-- information_schema.domains
SELECT current_database() AS domain_catalog, n.nspname AS domain_schema,
       d.typname AS domain_name,
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
            WHEN tn.nspname = 'pg_catalog' THEN format_type(t.oid, NULL)
            ELSE 'USER-DEFINED' END AS data_type,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND d.typtypmod > 0
            THEN d.typtypmod - 4 END AS character_maximum_length,
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND d.typtypmod > 0
            THEN (d.typtypmod - 4) * 4
            WHEN t.typname IN ('text', 'varchar', 'bpchar') THEN 1073741824
       END AS character_octet_length,
       CASE WHEN co.oid IS NOT NULL THEN current_database() END AS collation_catalog,
       con.nspname AS collation_schema, co.collname AS collation_name,
       CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64
            WHEN 'float4' THEN 24 WHEN 'float8' THEN 53
            WHEN 'numeric' THEN
                CASE WHEN d.typtypmod > 0 THEN (d.typtypmod - 4) >> 16 END
       END AS numeric_precision,
       CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2
            WHEN t.typname = 'numeric' THEN 10 END AS numeric_precision_radix,
       CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0
            WHEN t.typname = 'numeric' AND d.typtypmod > 0
            THEN (d.typtypmod - 4) & 65535 END AS numeric_scale,
       CASE WHEN t.typname = 'date' THEN 0
            WHEN t.typname IN ('time', 'timetz', 'timestamp', 'timestamptz') THEN
                CASE WHEN d.typtypmod < 0 THEN 6 ELSE d.typtypmod END
       END AS datetime_precision,
       d.typdefault AS domain_default, current_database() AS udt_catalog,
       tn.nspname AS udt_schema, t.typname AS udt_name, '1' AS dtd_identifier
FROM pg_type d
JOIN pg_namespace n ON n.oid = d.typnamespace
JOIN pg_type t ON t.oid = d.typbasetype
JOIN pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_collation co ON co.oid = d.typcollation AND co.oid <> 100
LEFT JOIN pg_namespace con ON con.oid = co.collnamespace
WHERE d.typtype = 'd';

-- information_schema.domain_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name, current_database() AS domain_catalog,
       tn.nspname AS domain_schema, t.typname AS domain_name,
       'NO' AS is_deferrable, 'NO' AS initially_deferred
FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
JOIN pg_type t ON t.oid = k.contypid
JOIN pg_namespace tn ON tn.oid = t.typnamespace;

-- information_schema.table_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name, current_database() AS table_catalog,
       n.nspname AS table_schema, c.relname AS table_name,
       CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE'
            WHEN 'f' THEN 'FOREIGN KEY' ELSE 'CHECK' END AS constraint_type,
       CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable,
       CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred, 'YES' AS enforced,
       CASE WHEN k.contype = 'u' THEN 'YES' END AS nulls_distinct
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || c.oid::text || '_' || a.attnum::text
       || '_not_null', current_database(), n.nspname, c.relname, 'CHECK', 'NO', 'NO', 'YES', NULL
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r';

-- information_schema.check_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name, '(' || k.conbin::text || ')' AS check_clause
FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
WHERE k.contype = 'c'
UNION ALL
SELECT current_database(), n.nspname, n.oid::text || '_' || c.oid::text || '_' || a.attnum::text
       || '_not_null', a.attname::text || ' IS NOT NULL'
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r';

-- information_schema.key_column_usage
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name, current_database() AS table_catalog,
       n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       p.n AS ordinal_position,
       CASE WHEN k.contype = 'f' THEN
            (SELECT i.at FROM pg_index x, unnest(x.indkey) WITH ORDINALITY AS i(attnum, at)
             WHERE x.indexrelid = k.conindid AND i.attnum = k.confkey[p.n])
       END AS position_in_unique_constraint
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN generate_series(1, 1600) AS p(n) ON p.n <= cardinality(k.conkey)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[p.n]
WHERE k.contype IN ('p', 'u', 'f');

-- information_schema.constraint_column_usage
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       a.attname AS column_name, current_database() AS constraint_catalog,
       n.nspname AS constraint_schema, k.conname AS constraint_name
FROM pg_constraint k
JOIN pg_class c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid
     AND a.attnum = ANY (CASE WHEN k.contype = 'f' THEN k.confkey ELSE k.conkey END);

-- information_schema.constraint_table_usage
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name
FROM pg_constraint k
JOIN pg_class c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype IN ('p', 'u', 'f');

-- information_schema.referential_constraints
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
       k.conname AS constraint_name, current_database() AS unique_constraint_catalog,
       n.nspname AS unique_constraint_schema, u.conname AS unique_constraint_name,
       'NONE' AS match_option,
       CASE k.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
            WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END AS update_rule,
       CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
            ELSE 'NO ACTION' END AS delete_rule
FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
LEFT JOIN pg_constraint u ON u.conrelid = k.confrelid AND u.conindid = k.conindid
     AND u.contype IN ('p', 'u')
WHERE k.contype = 'f';

-- information_schema.routines
SELECT current_database() AS specific_catalog, n.nspname AS specific_schema,
       p.proname || '_' || p.oid::text AS specific_name,
       current_database() AS routine_catalog, n.nspname AS routine_schema,
       p.proname AS routine_name,
       CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS routine_type,
       CASE WHEN p.prokind <> 'p' THEN format_type(p.prorettype, NULL) END AS data_type,
       CASE WHEN p.prokind <> 'p' THEN current_database() END AS type_udt_catalog,
       CASE WHEN p.prokind <> 'p' THEN 'pg_catalog' END AS type_udt_schema,
       CASE WHEN p.prokind <> 'p' THEN t.typname END AS type_udt_name,
       CASE WHEN p.prokind <> 'p' THEN 0 END AS dtd_identifier,
       CASE l.lanname WHEN 'sql' THEN 'SQL' ELSE 'EXTERNAL' END AS routine_body,
       p.prosrc AS routine_definition, upper(l.lanname) AS external_language,
       'GENERAL' AS parameter_style, 'NO' AS is_deterministic, 'MODIFIES' AS sql_data_access,
       CASE WHEN p.prokind <> 'p' THEN 'NO' END AS is_null_call, 'YES' AS schema_level_routine,
       0 AS max_dynamic_result_sets, 'INVOKER' AS security_type, 'NO' AS as_locator,
       'NO' AS is_udt_dependent
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_language l ON l.oid = p.prolang
LEFT JOIN pg_type t ON t.oid = p.prorettype;

-- information_schema.parameters
SELECT current_database() AS specific_catalog, n.nspname AS specific_schema,
       p.proname || '_' || p.oid::text AS specific_name, a.n AS ordinal_position,
       CASE p.proargmodes[a.n] WHEN 'o' THEN 'OUT' WHEN 'b' THEN 'INOUT' WHEN 't' THEN 'OUT'
            ELSE 'IN' END AS parameter_mode,
       'NO' AS is_result, 'NO' AS as_locator,
       CASE WHEN p.proargnames[a.n] <> '' THEN p.proargnames[a.n] END AS parameter_name,
       CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
            ELSE format_type(t.oid, NULL) END AS data_type,
       current_database() AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
       a.n AS dtd_identifier,
       pg_get_function_arg_default(p.oid, a.n) AS parameter_default
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace,
     LATERAL unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS a(type, n)
JOIN pg_type t ON t.oid = a.type
WHERE n.nspname = 'public';

-- information_schema.table_privileges
SELECT pg_get_userbyid(c.relowner) AS grantor, r.rolname AS grantee,
       current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       p.kind AS privilege_type, 'YES' AS is_grantable,
       CASE p.kind WHEN 'SELECT' THEN 'YES' ELSE 'NO' END AS with_hierarchy
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN pg_authid r
CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) AS p(kind)
WHERE c.relkind = 'r' AND n.nspname = 'public';

-- information_schema.character_sets
SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
       current_database() AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
       'C' AS default_collate_name;
