-- # A view is its query

CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL);
-- CREATE TABLE

INSERT INTO account VALUES (1, 'ada', 500), (2, 'bob', 20), (3, 'ada', 70);
-- INSERT 0 3

CREATE VIEW wealth (who) AS SELECT owner, sum(cents) AS cents FROM account GROUP BY owner;
-- CREATE VIEW

SELECT * FROM wealth ORDER BY who;
-- who text | cents numeric
-- ada | 570
-- bob | 20
-- SELECT 2

SELECT w.cents FROM wealth AS w JOIN account ON owner = who WHERE id = 2;
-- cents numeric
-- 20
-- SELECT 1

-- # A name that WITH gives outside means nothing inside

WITH account AS (SELECT 7 AS id) SELECT count(*) FROM wealth;
-- count bigint
-- 2
-- SELECT 1

-- # Views read views

CREATE VIEW rich AS SELECT who FROM wealth WHERE cents > 100;
-- CREATE VIEW

SELECT * FROM rich;
-- who text
-- ada
-- SELECT 1

-- # What a view reads stays

DROP TABLE account;
-- ERROR 2BP01: cannot drop table account because other objects depend on it
-- DETAIL: view wealth depends on table account
-- HINT: Use DROP ... CASCADE to drop the dependent objects too.

DROP VIEW wealth;
-- ERROR 2BP01: cannot drop view wealth because other objects depend on it
-- DETAIL: view rich depends on view wealth
-- HINT: Use DROP ... CASCADE to drop the dependent objects too.

ALTER TABLE account RENAME TO accounts;
-- ERROR 2BP01: cannot alter table account because other objects depend on it
-- DETAIL: view wealth depends on table account
-- HINT: Drop the view first, and create it again afterwards.

ALTER TABLE account DROP COLUMN cents;
-- ERROR 2BP01: cannot alter table account because other objects depend on it
-- DETAIL: view wealth depends on table account
-- HINT: Drop the view first, and create it again afterwards.

ALTER TABLE account ADD COLUMN city text;
-- ALTER TABLE

CREATE OR REPLACE VIEW wealth AS SELECT who FROM rich;
-- ERROR 42P17: infinite recursion detected in view "wealth"

CREATE TABLE wealth (a int);
-- ERROR 42P07: relation "wealth" already exists

CREATE VIEW rich AS SELECT 1;
-- ERROR 42P07: relation "rich" already exists

CREATE VIEW IF NOT EXISTS rich AS SELECT 1;
-- CREATE VIEW

CREATE VIEW nothing AS SELECT * FROM nowhere;
-- ERROR 42P01: relation "nowhere" does not exist

CREATE MATERIALIZED VIEW m AS SELECT 1;
-- CREATE MATERIALIZED VIEW

DROP VIEW account;
-- ERROR 42809: "account" is not a view
-- HINT: Use DROP TABLE to remove a table.

DROP VIEW IF EXISTS nothing;
-- DROP VIEW

-- # Replaced, and dropped with what it reads

CREATE OR REPLACE VIEW rich AS SELECT owner, id FROM account WHERE cents > 400;
-- CREATE VIEW

SELECT * FROM rich;
-- owner text | id integer
-- ada | 1
-- SELECT 1

DROP TABLE account CASCADE;
-- DROP TABLE

SELECT * FROM rich;
-- ERROR 42P01: relation "rich" does not exist

SELECT * FROM wealth;
-- ERROR 42P01: relation "wealth" does not exist
