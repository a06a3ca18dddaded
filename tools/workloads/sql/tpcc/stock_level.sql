-- TPC-C, clause 2.8: of the items in a district's last twenty orders, how many are short of stock.
CREATE FUNCTION tpcc_stock_level(
    warehouse_id integer, district_id integer, threshold integer, OUT low bigint
) LANGUAGE plpgsql AS $$
DECLARE
    next_order integer;
BEGIN
    SELECT d_next_o_id INTO next_order FROM district
    WHERE d_w_id = warehouse_id AND d_id = district_id;
    SELECT count(DISTINCT s_i_id) INTO low FROM order_line JOIN stock ON s_i_id = ol_i_id
    WHERE ol_w_id = warehouse_id AND ol_d_id = district_id
        AND ol_o_id >= next_order - 20 AND ol_o_id < next_order
        AND s_w_id = warehouse_id AND s_quantity < threshold;
END;
$$;
