-- YCSB: one table, ten fields of 100 bytes.
CREATE TABLE usertable (
    ycsb_key bigint PRIMARY KEY,
    field0 text NOT NULL,
    field1 text NOT NULL,
    field2 text NOT NULL,
    field3 text NOT NULL,
    field4 text NOT NULL,
    field5 text NOT NULL,
    field6 text NOT NULL,
    field7 text NOT NULL,
    field8 text NOT NULL,
    field9 text NOT NULL
);
