-- CH-benCHmark: what TPC-C's schema lacks of TPC-H's.
CREATE TABLE region (
    r_regionkey integer PRIMARY KEY,
    r_name text NOT NULL,
    r_comment text
);

CREATE TABLE nation (
    n_nationkey integer PRIMARY KEY,
    n_name text NOT NULL,
    n_regionkey integer NOT NULL,
    n_comment text
);

CREATE TABLE supplier (
    su_suppkey integer PRIMARY KEY,
    su_name text NOT NULL,
    su_address text NOT NULL,
    su_nationkey integer NOT NULL,
    su_phone text NOT NULL,
    su_acctbal bigint NOT NULL,
    su_comment text NOT NULL
);
