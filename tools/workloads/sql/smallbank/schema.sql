-- SmallBank: a customer has one savings and one checking account. Amounts are cents.
CREATE TABLE accounts (
    custid bigint PRIMARY KEY,
    name varchar(64) NOT NULL
);

CREATE TABLE savings (
    custid bigint PRIMARY KEY,
    bal bigint NOT NULL
);

CREATE TABLE checking (
    custid bigint PRIMARY KEY,
    bal bigint NOT NULL
);
