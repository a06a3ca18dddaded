-- YCSB: one table of text fields.
CREATE TABLE usertable (
    ycsb_key bigint PRIMARY KEY,
    {columns}
);
