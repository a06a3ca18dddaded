-- # Roles
CREATE ROLE owner_role LOGIN;
CREATE ROLE reader LOGIN;
CREATE ROLE writer LOGIN NOINHERIT;
CREATE ROLE staff;
CREATE ROLE boss LOGIN CREATEROLE;
CREATE ROLE reader;
-- ERROR 42710: role "reader" already exists
CREATE ROLE pg_mine;
-- ERROR 42939: role name "pg_mine" is reserved
CREATE ROLE "none";
-- ERROR 42939: role name "none" is reserved
CREATE ROLE "public";
-- ERROR 42939: role name "public" is reserved
CREATE ROLE x LOGIN NOLOGIN;
-- ERROR 42601: conflicting or redundant options
CREATE ROLE x IN ROLE nothing;
-- ERROR 42704: role "nothing" does not exist
GRANT staff TO reader;
GRANT staff TO reader;
GRANT staff TO writer WITH ADMIN OPTION;
GRANT reader TO staff;
-- ERROR 0LP01: role "reader" is a member of role "staff"
GRANT staff TO staff;
-- ERROR 0LP01: role "staff" is a member of role "staff"
GRANT nothing TO reader;
-- ERROR 42704: role "nothing" does not exist
GRANT staff TO nothing;
-- ERROR 42704: role "nothing" does not exist
REVOKE staff FROM owner_role;
DROP ROLE IF EXISTS nothing;
DROP ROLE nothing;
-- ERROR 42704: role "nothing" does not exist
DROP ROLE tally;
-- ERROR 55006: current user cannot be dropped
SELECT rolname, rolsuper, rolinherit, rolcanlogin FROM pg_roles WHERE rolname IN ('reader', 'writer', 'staff') ORDER BY 1;
-- reader|f|t|t
-- staff|f|t|f
-- writer|f|f|t
SET SESSION AUTHORIZATION reader;
SELECT current_user, session_user;
-- reader|reader
SET ROLE staff;
SELECT current_user, session_user;
-- staff|reader
SET ROLE writer;
-- ERROR 42501: permission denied to set role "writer"
SET ROLE nothing;
-- ERROR 22023: role "nothing" does not exist
RESET ROLE;
SELECT current_user;
-- reader
CREATE ROLE y;
-- ERROR 42501: permission denied to create role
DROP ROLE staff;
-- ERROR 42501: permission denied to drop role
ALTER ROLE staff LOGIN;
-- ERROR 42501: permission denied
ALTER ROLE staff RENAME TO crew;
-- ERROR 42501: permission denied to rename role
GRANT boss TO reader;
-- ERROR 42501: must have admin option on role "boss"
GRANT tally TO reader;
-- ERROR 42501: must be superuser to alter superusers
SET SESSION AUTHORIZATION boss;
CREATE ROLE y SUPERUSER;
-- ERROR 42501: must be superuser to create superusers
CREATE ROLE y REPLICATION;
-- ERROR 42501: must be superuser to create replication users
CREATE ROLE y BYPASSRLS;
-- ERROR 42501: must be superuser to create bypassrls users
CREATE ROLE y;
ALTER ROLE y SUPERUSER;
-- ERROR 42501: must be superuser to alter superuser roles or change superuser attribute
ALTER ROLE tally NOLOGIN;
-- ERROR 42501: must be superuser to alter superuser roles or change superuser attribute
ALTER ROLE y CREATEDB;
ALTER ROLE y RENAME TO z;
ALTER ROLE z RENAME TO reader;
-- ERROR 42710: role "reader" already exists
GRANT z TO reader;
GRANT tally TO reader;
-- ERROR 42501: must be superuser to alter superusers
DROP ROLE tally;
-- ERROR 42501: must be superuser to drop superusers
DROP ROLE boss;
-- ERROR 55006: current user cannot be dropped
DROP ROLE current_user;
-- ERROR 22023: cannot use special role specifier in DROP ROLE
DROP ROLE z;
SET SESSION AUTHORIZATION writer;
GRANT staff TO owner_role;
REVOKE staff FROM owner_role;
RESET SESSION AUTHORIZATION;
