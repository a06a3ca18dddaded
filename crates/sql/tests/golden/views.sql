-- # A view is its query

CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL);

INSERT INTO account VALUES (1, 'ada', 500), (2, 'bob', 20), (3, 'ada', 70);

CREATE VIEW wealth (who) AS SELECT owner, sum(cents) AS cents FROM account GROUP BY owner;

SELECT * FROM wealth ORDER BY who;

SELECT w.cents FROM wealth AS w JOIN account ON owner = who WHERE id = 2;

-- # A name that WITH gives outside means nothing inside

WITH account AS (SELECT 7 AS id) SELECT count(*) FROM wealth;

-- # Views read views

CREATE VIEW rich AS SELECT who FROM wealth WHERE cents > 100;

SELECT * FROM rich;

-- # What a view reads stays

DROP TABLE account;

DROP VIEW wealth;

ALTER TABLE account RENAME TO accounts;

ALTER TABLE account DROP COLUMN cents;

ALTER TABLE account ADD COLUMN city text;

CREATE OR REPLACE VIEW wealth AS SELECT who FROM rich;

CREATE TABLE wealth (a int);

CREATE VIEW rich AS SELECT 1;

CREATE VIEW IF NOT EXISTS rich AS SELECT 1;

CREATE VIEW nothing AS SELECT * FROM nowhere;

CREATE MATERIALIZED VIEW m AS SELECT 1;

DROP VIEW account;

DROP VIEW IF EXISTS nothing;

-- # Replaced, and dropped with what it reads

CREATE OR REPLACE VIEW rich AS SELECT owner, id FROM account WHERE cents > 400;

SELECT * FROM rich;

DROP TABLE account CASCADE;

SELECT * FROM rich;

SELECT * FROM wealth;
