-- Paths that a store of rows takes from stock to its suppliers and back.
CREATE INDEX ON supplier (su_nationkey);
CREATE INDEX ON stock (s_i_id);
CREATE INDEX ON stock (mod(s_w_id * s_i_id, 10000));
CREATE INDEX ON order_line (ol_i_id);
