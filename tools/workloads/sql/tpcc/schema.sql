-- TPC-C, clause 1.3: nine tables, with the specification's keys. Money is in cents, taxes and
-- discounts are ten-thousandths. What is updated may be NULL as far as the schema knows: so updates
-- cannot fail, and those of one row may change places where a protocol knows how.
CREATE TABLE warehouse (
    w_id integer PRIMARY KEY,
    w_name text NOT NULL,
    w_street_1 text,
    w_street_2 text,
    w_city text,
    w_state text,
    w_zip text,
    w_tax bigint NOT NULL,
    w_ytd bigint
);

CREATE TABLE district (
    d_w_id integer,
    d_id integer,
    d_name text NOT NULL,
    d_street_1 text,
    d_street_2 text,
    d_city text,
    d_state text,
    d_zip text,
    d_tax bigint NOT NULL,
    d_ytd bigint,
    d_next_o_id integer,
    PRIMARY KEY (d_w_id, d_id)
);

CREATE TABLE customer (
    c_w_id integer,
    c_d_id integer,
    c_id integer,
    c_first text NOT NULL,
    c_middle text,
    c_last text NOT NULL,
    c_street_1 text,
    c_street_2 text,
    c_city text,
    c_state text,
    c_zip text,
    c_phone text,
    c_since timestamptz,
    c_credit text NOT NULL,
    c_credit_lim bigint,
    c_discount bigint NOT NULL,
    c_balance bigint,
    c_ytd_payment bigint,
    c_payment_cnt integer,
    c_delivery_cnt integer,
    c_data text,
    PRIMARY KEY (c_w_id, c_d_id, c_id)
);

-- Entries end with the primary key, so that customers of one name come by first name and number.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);

CREATE TABLE history (
    h_c_id integer,
    h_c_d_id integer,
    h_c_w_id integer,
    h_d_id integer,
    h_w_id integer,
    h_date timestamptz,
    h_amount bigint,
    h_data text
);

CREATE TABLE new_order (
    no_w_id integer,
    no_d_id integer,
    no_o_id integer,
    PRIMARY KEY (no_w_id, no_d_id, no_o_id)
);

CREATE TABLE orders (
    o_w_id integer,
    o_d_id integer,
    o_id integer,
    o_c_id integer NOT NULL,
    o_entry_d timestamptz,
    o_carrier_id integer,
    o_ol_cnt integer,
    o_all_local integer,
    PRIMARY KEY (o_w_id, o_d_id, o_id)
);

CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id);

CREATE TABLE order_line (
    ol_w_id integer,
    ol_d_id integer,
    ol_o_id integer,
    ol_number integer,
    ol_i_id integer,
    ol_supply_w_id integer,
    ol_delivery_d timestamptz,
    ol_quantity integer,
    ol_amount bigint,
    ol_dist_info text,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);

CREATE TABLE item (
    i_id integer PRIMARY KEY,
    i_im_id integer,
    i_name text NOT NULL,
    i_price bigint NOT NULL,
    i_data text NOT NULL
);

CREATE TABLE stock (
    s_w_id integer,
    s_i_id integer,
    s_quantity integer,
    s_dist_01 text NOT NULL,
    s_dist_02 text NOT NULL,
    s_dist_03 text NOT NULL,
    s_dist_04 text NOT NULL,
    s_dist_05 text NOT NULL,
    s_dist_06 text NOT NULL,
    s_dist_07 text NOT NULL,
    s_dist_08 text NOT NULL,
    s_dist_09 text NOT NULL,
    s_dist_10 text NOT NULL,
    s_ytd bigint,
    s_order_cnt integer,
    s_remote_cnt integer,
    s_data text NOT NULL,
    PRIMARY KEY (s_w_id, s_i_id)
);
