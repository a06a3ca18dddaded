-- Fabric++'s custom workload: accounts with a number each.
CREATE TABLE account (
    id bigint PRIMARY KEY,
    balance bigint NOT NULL
);
