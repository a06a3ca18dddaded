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

-- The same with whole rows read: all ten fields.
CREATE FUNCTION ycsb_rows(reads bigint[], writes bigint[], content text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    f0 text; f1 text; f2 text; f3 text; f4 text; f5 text; f6 text; f7 text; f8 text; f9 text;
    found_rows bigint := 0;
BEGIN
    FOREACH wanted IN ARRAY reads LOOP
        SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9
        INTO f0, f1, f2, f3, f4, f5, f6, f7, f8, f9
        FROM usertable WHERE ycsb_key = wanted;
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
