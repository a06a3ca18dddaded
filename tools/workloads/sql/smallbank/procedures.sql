-- The six transactions of SmallBank. A refusal for want of funds writes nothing and returns false
-- (or null); a customer who does not exist and an amount that makes no sense are errors.
--
-- Lines that begin with two dashes and a word in brackets are switched on by that variant:
-- [audited] books what enters and leaves the bank, [raising] makes a refusal an error.

CREATE FUNCTION sb_balance(customer bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
    held bigint;
BEGIN
    SELECT bal INTO saved FROM savings WHERE custid = customer;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    SELECT bal INTO held FROM checking WHERE custid = customer;
    RETURN saved + held;
END;
$$;

CREATE FUNCTION sb_deposit_checking(customer bigint, amount bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION 'a deposit is not negative' USING ERRCODE = '22023';
    END IF;
    UPDATE checking SET bal = bal + amount WHERE custid = customer;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    --[audited] UPDATE outside SET bal = bal - amount WHERE id = customer % 1024;
    RETURN true;
END;
$$;

CREATE FUNCTION sb_transact_savings(customer bigint, amount bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
BEGIN
    SELECT bal INTO saved FROM savings WHERE custid = customer;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    IF saved + amount < 0 THEN
        --[raising] RAISE EXCEPTION 'insufficient funds' USING ERRCODE = 'SB001';
        RETURN false;
    END IF;
    UPDATE savings SET bal = bal + amount WHERE custid = customer;
    --[audited] UPDATE outside SET bal = bal - amount WHERE id = customer % 1024;
    RETURN true;
END;
$$;

CREATE FUNCTION sb_write_check(customer bigint, amount bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
    held bigint;
    charge bigint;
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION 'a check is not negative' USING ERRCODE = '22023';
    END IF;
    SELECT bal INTO saved FROM savings WHERE custid = customer;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    SELECT bal INTO held FROM checking WHERE custid = customer;
    charge := amount;
    IF saved + held < amount THEN
        charge := amount + 100;
    END IF;
    UPDATE checking SET bal = bal - charge WHERE custid = customer;
    --[audited] UPDATE outside SET bal = bal + charge WHERE id = customer % 1024;
    RETURN true;
END;
$$;

CREATE FUNCTION sb_send_payment(sender bigint, receiver bigint, amount bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION 'a payment is not negative' USING ERRCODE = '22023';
    END IF;
    SELECT bal INTO held FROM checking WHERE custid = sender;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    IF held < amount THEN
        --[raising] RAISE EXCEPTION 'insufficient funds' USING ERRCODE = 'SB001';
        RETURN false;
    END IF;
    UPDATE checking SET bal = bal - amount WHERE custid = sender;
    UPDATE checking SET bal = bal + amount WHERE custid = receiver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    RETURN true;
END;
$$;

CREATE FUNCTION sb_amalgamate(giver bigint, receiver bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    saved bigint;
    held bigint;
BEGIN
    IF giver = receiver THEN
        RAISE EXCEPTION 'two customers are needed' USING ERRCODE = '22023';
    END IF;
    SELECT bal INTO saved FROM savings WHERE custid = giver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    SELECT bal INTO held FROM checking WHERE custid = giver;
    UPDATE savings SET bal = 0 WHERE custid = giver;
    UPDATE checking SET bal = 0 WHERE custid = giver;
    UPDATE checking SET bal = bal + (saved + held) WHERE custid = receiver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such customer' USING ERRCODE = 'P0002';
    END IF;
    RETURN true;
END;
$$;
