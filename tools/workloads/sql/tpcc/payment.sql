-- TPC-C, clause 2.5: a customer pays. One of bad credit has the payment written into c_data.
--
-- This is two procedures, the customer by number or by name: lines that begin with two dashes and a
-- word in brackets belong to one of them. So those by number can be planned before they run.
--[number] CREATE FUNCTION tpcc_payment(
--[name] CREATE FUNCTION tpcc_payment_by_name(
    warehouse_id integer, district_id integer,
    customer_warehouse integer, customer_district integer,
--[number]     customer_id integer,
--[name]     customer_name text,
    amount bigint, OUT balance bigint
) LANGUAGE plpgsql AS $$
DECLARE
    warehouse_name text;
    district_name text;
    credit text;
--[name]     named integer[];
--[name]     customer_id integer;
BEGIN
    SELECT w_name INTO warehouse_name FROM warehouse WHERE w_id = warehouse_id;
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = warehouse_id;
    SELECT d_name INTO district_name FROM district
    WHERE d_w_id = warehouse_id AND d_id = district_id;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = warehouse_id AND d_id = district_id;
--[name]     SELECT array_agg(numbers.c_id) INTO named FROM (
--[name]         SELECT c_id FROM customer
--[name]         WHERE c_w_id = customer_warehouse AND c_d_id = customer_district
--[name]             AND c_last = customer_name
--[name]         ORDER BY c_first
--[name]     ) AS numbers;
--[name]     customer_id := named[(cardinality(named) + 1) / 2];
    SELECT c_credit, c_balance INTO credit, balance FROM customer
    WHERE c_w_id = customer_warehouse AND c_d_id = customer_district AND c_id = customer_id;
    balance := balance - amount;
    IF credit = 'BC' THEN
        UPDATE customer SET
            c_balance = c_balance - amount,
            c_ytd_payment = c_ytd_payment + amount,
            c_payment_cnt = c_payment_cnt + 1,
            c_data = left(concat_ws(' ', customer_id, customer_district, customer_warehouse,
                district_id, warehouse_id, amount, c_data), 500)
        WHERE c_w_id = customer_warehouse AND c_d_id = customer_district AND c_id = customer_id;
    ELSE
        UPDATE customer SET
            c_balance = c_balance - amount,
            c_ytd_payment = c_ytd_payment + amount,
            c_payment_cnt = c_payment_cnt + 1
        WHERE c_w_id = customer_warehouse AND c_d_id = customer_district AND c_id = customer_id;
    END IF;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (
        customer_id, customer_district, customer_warehouse, district_id, warehouse_id,
        now(), amount, warehouse_name || '    ' || district_name
    );
END;
$$;
