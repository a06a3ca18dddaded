-- One transaction reads some rows and overwrites a field of others, as the concurrency-control
-- studies do (ten keys in all). Returns how many of the keys exist.
CREATE FUNCTION ycsb(reads bigint[], writes bigint[], content text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    seen text;
    found_rows bigint := 0;
BEGIN
    FOREACH wanted IN ARRAY reads LOOP
        SELECT field0 INTO seen FROM usertable WHERE ycsb_key = wanted;
        IF FOUND THEN
            found_rows := found_rows + 1;
        END IF;
    END LOOP;
    FOREACH wanted IN ARRAY writes LOOP
        UPDATE usertable SET field0 = content WHERE ycsb_key = wanted;
        IF FOUND THEN
            found_rows := found_rows + 1;
        END IF;
    END LOOP;
    RETURN found_rows;
END;
$$;
