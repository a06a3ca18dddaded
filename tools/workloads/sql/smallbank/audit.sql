-- What entered or left the bank, so that the money can be counted to the cent: `bal` falls by what
-- was paid in and rises by what was paid out. Many rows, lest every transaction meet in one.
CREATE TABLE outside (
    id bigint PRIMARY KEY,
    bal bigint NOT NULL
);

-- One row for each transaction that a recording client sent, written by that same transaction.
CREATE TABLE journal (
    client bigint NOT NULL,
    sequence bigint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (client, sequence)
);

CREATE FUNCTION sb_recorded_payment(
    client_id bigint, sequence_number bigint, sender bigint, receiver bigint, amount bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO journal (client, sequence, amount) VALUES (client_id, sequence_number, amount);
    UPDATE checking SET bal = bal - amount WHERE custid = sender;
    UPDATE checking SET bal = bal + amount WHERE custid = receiver;
    RETURN sequence_number;
END;
$$;
