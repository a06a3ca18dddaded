-- Some accounts are read, others get new balances: the first of them the first amount, and so on.
CREATE FUNCTION read_write(reads bigint[], writes bigint[], amounts bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
BEGIN
    FOREACH wanted IN ARRAY reads LOOP
        PERFORM balance FROM account WHERE id = wanted;
    END LOOP;
    FOR n IN 1..cardinality(writes) LOOP
        UPDATE account SET balance = amounts[n] WHERE id = writes[n];
    END LOOP;
END;
$$;
