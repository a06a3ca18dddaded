-- Whole rows are read, one field of others is overwritten without being read.
CREATE FUNCTION ycsb(reads bigint[], writes bigint[], content text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
BEGIN
    FOREACH wanted IN ARRAY reads LOOP
        PERFORM {fields} FROM usertable WHERE ycsb_key = wanted;
    END LOOP;
    FOREACH wanted IN ARRAY writes LOOP
        UPDATE usertable SET field0 = content WHERE ycsb_key = wanted;
    END LOOP;
END;
$$;

-- All that a transaction can do. A read-modify-write reads the whole row and writes a field back,
-- turned by one character; a command turns it in one statement. A scan reads one field.
CREATE FUNCTION ycsb_mixed(
    reads bigint[], writes bigint[], rmws bigint[], commands bigint[],
    scans bigint[], scan_rows bigint, inserts bigint[], content text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    seen text;
BEGIN
    FOREACH wanted IN ARRAY reads LOOP
        PERFORM {fields} FROM usertable WHERE ycsb_key = wanted;
    END LOOP;
    FOREACH wanted IN ARRAY writes LOOP
        UPDATE usertable SET field0 = content WHERE ycsb_key = wanted;
    END LOOP;
    FOREACH wanted IN ARRAY rmws LOOP
        SELECT {fields} INTO seen FROM usertable WHERE ycsb_key = wanted;
        UPDATE usertable SET field0 = substring(seen, 2) || left(seen, 1) WHERE ycsb_key = wanted;
    END LOOP;
    FOREACH wanted IN ARRAY commands LOOP
        UPDATE usertable SET field0 = substring(field0, 2) || left(field0, 1)
        WHERE ycsb_key = wanted;
    END LOOP;
    FOREACH wanted IN ARRAY scans LOOP
        SELECT max(field0) INTO seen FROM usertable
        WHERE ycsb_key >= wanted AND ycsb_key < wanted + scan_rows;
    END LOOP;
    FOREACH wanted IN ARRAY inserts LOOP
        INSERT INTO usertable VALUES (wanted, {contents});
    END LOOP;
END;
$$;
