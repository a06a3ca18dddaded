-- TPC-C, clause 2.4: an order of some items.
-- All that is drawn at random comes as an argument, so that the keys follow from the arguments but
-- for the order's number. An item number of which there is no item rolls the order back (2.4.2.3).
CREATE FUNCTION tpcc_new_order(
    warehouse_id integer, district_id integer, customer_id integer, all_local integer,
    items integer[], suppliers integer[], quantities integer[]
) RETURNS TABLE (order_id integer, total bigint) LANGUAGE plpgsql AS $$
DECLARE
    warehouse_tax bigint;
    district_tax bigint;
    discount bigint;
    price bigint;
    district_info text;
    amounts bigint := 0;
BEGIN
    SELECT w_tax INTO warehouse_tax FROM warehouse WHERE w_id = warehouse_id;
    SELECT c_discount INTO discount FROM customer
    WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;
    SELECT d_next_o_id, d_tax INTO order_id, district_tax FROM district
    WHERE d_w_id = warehouse_id AND d_id = district_id;
    UPDATE district SET d_next_o_id = d_next_o_id + 1
    WHERE d_w_id = warehouse_id AND d_id = district_id;
    INSERT INTO orders (
        o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local
    ) VALUES (
        warehouse_id, district_id, order_id, customer_id, now(), NULL, cardinality(items), all_local
    );
    INSERT INTO new_order (no_w_id, no_d_id, no_o_id)
    VALUES (warehouse_id, district_id, order_id);
    FOR n IN 1..cardinality(items) LOOP
        SELECT i_price INTO price FROM item WHERE i_id = items[n];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'item number is not valid' USING ERRCODE = 'TC001';
        END IF;
        -- The text of the district, found by halving.
        IF district_id <= 5 THEN
            IF district_id <= 3 THEN
                IF district_id <= 2 THEN
                    IF district_id <= 1 THEN
                        SELECT s_dist_01 INTO district_info FROM stock
                        WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                    ELSE
                        SELECT s_dist_02 INTO district_info FROM stock
                        WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                    END IF;
                ELSE
                    SELECT s_dist_03 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                END IF;
            ELSE
                IF district_id <= 4 THEN
                    SELECT s_dist_04 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                ELSE
                    SELECT s_dist_05 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                END IF;
            END IF;
        ELSE
            IF district_id <= 8 THEN
                IF district_id <= 7 THEN
                    IF district_id <= 6 THEN
                        SELECT s_dist_06 INTO district_info FROM stock
                        WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                    ELSE
                        SELECT s_dist_07 INTO district_info FROM stock
                        WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                    END IF;
                ELSE
                    SELECT s_dist_08 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                END IF;
            ELSE
                IF district_id <= 9 THEN
                    SELECT s_dist_09 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                ELSE
                    SELECT s_dist_10 INTO district_info FROM stock
                    WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
                END IF;
            END IF;
        END IF;
        UPDATE stock SET
            s_quantity = s_quantity - quantities[n]
                + CASE WHEN s_quantity - quantities[n] >= 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantities[n],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + CASE WHEN suppliers[n] = warehouse_id THEN 0 ELSE 1 END
        WHERE s_w_id = suppliers[n] AND s_i_id = items[n];
        INSERT INTO order_line (
            ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
            ol_quantity, ol_amount, ol_dist_info
        ) VALUES (
            warehouse_id, district_id, order_id, n, items[n], suppliers[n], NULL,
            quantities[n], quantities[n] * price, district_info
        );
        amounts := amounts + quantities[n] * price;
    END LOOP;
    total := amounts * (10000 - discount) * (10000 + warehouse_tax + district_tax) / 100000000;
    RETURN NEXT;
END;
$$;
