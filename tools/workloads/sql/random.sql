-- Three small tables in which every column but the key may be NULL.
CREATE TABLE a (
    id integer PRIMARY KEY,
    i integer,
    l bigint,
    n numeric(10, 2),
    t text,
    d date,
    b boolean
);

CREATE TABLE b (
    id integer PRIMARY KEY,
    a_id integer,
    i integer,
    l bigint,
    n numeric(10, 2),
    t varchar(20),
    d date,
    b boolean
);

CREATE TABLE c (
    id integer PRIMARY KEY,
    b_id integer,
    i integer,
    n numeric(10, 2),
    t text,
    d date
);
