-- TPC-C, clause 2.7: the oldest order of each district is delivered. Returns how many there were.
CREATE FUNCTION tpcc_delivery(
    warehouse_id integer, carrier integer, OUT delivered integer
) LANGUAGE plpgsql AS $$
DECLARE
    order_id integer;
    customer_id integer;
    amount bigint;
BEGIN
    delivered := 0;
    FOR district_id IN 1..10 LOOP
        SELECT no_o_id INTO order_id FROM new_order
        WHERE no_w_id = warehouse_id AND no_d_id = district_id
        ORDER BY no_o_id LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM new_order
        WHERE no_w_id = warehouse_id AND no_d_id = district_id AND no_o_id = order_id;
        SELECT o_c_id INTO customer_id FROM orders
        WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_id = order_id;
        UPDATE orders SET o_carrier_id = carrier
        WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_id = order_id;
        SELECT sum(ol_amount) INTO amount FROM order_line
        WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;
        UPDATE order_line SET ol_delivery_d = now()
        WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;
        UPDATE customer SET
            c_balance = c_balance + amount,
            c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;
        delivered := delivered + 1;
    END LOOP;
END;
$$;
