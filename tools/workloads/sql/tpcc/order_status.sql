-- TPC-C, clause 2.6: a customer's balance and the lines of the last order. By number and by name,
-- as in payment.sql.
--[number] CREATE FUNCTION tpcc_order_status(
--[number]     warehouse_id integer, district_id integer, customer_id integer
--[name] CREATE FUNCTION tpcc_order_status_by_name(
--[name]     warehouse_id integer, district_id integer, customer_name text
) RETURNS TABLE (
    balance bigint, order_id integer, entered timestamptz, carrier integer,
    item integer, supplier integer, quantity integer, amount bigint, delivered timestamptz
) LANGUAGE plpgsql AS $$
--[name] DECLARE
--[name]     named integer[];
--[name]     customer_id integer;
BEGIN
--[name]     SELECT array_agg(numbers.c_id) INTO named FROM (
--[name]         SELECT c_id FROM customer
--[name]         WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = customer_name
--[name]         ORDER BY c_first
--[name]     ) AS numbers;
--[name]     customer_id := named[(cardinality(named) + 1) / 2];
    SELECT c_balance INTO balance FROM customer
    WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;
    SELECT o_id, o_entry_d, o_carrier_id INTO order_id, entered, carrier FROM orders
    WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_c_id = customer_id
    ORDER BY o_id DESC LIMIT 1;
    RETURN QUERY
    SELECT balance, order_id, entered, carrier,
        ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    FROM order_line
    WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;
END;
$$;
