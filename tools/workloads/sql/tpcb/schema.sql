-- The tables of `pgbench -i`.
CREATE TABLE pgbench_branches (
    bid integer PRIMARY KEY,
    bbalance integer,
    filler char(88)
);

CREATE TABLE pgbench_tellers (
    tid integer PRIMARY KEY,
    bid integer,
    tbalance integer,
    filler char(84)
);

CREATE TABLE pgbench_accounts (
    aid integer PRIMARY KEY,
    bid integer,
    abalance integer,
    filler char(84)
);

CREATE TABLE pgbench_history (
    tid integer,
    bid integer,
    aid integer,
    delta integer,
    mtime timestamp,
    filler char(22)
);
