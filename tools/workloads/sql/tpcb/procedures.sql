-- pgbench's tpcb-like transaction as one call, on the tables that `pgbench -i` makes.
CREATE FUNCTION tpcb(
    account_id integer, branch_id integer, teller_id integer, amount integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    balance integer;
BEGIN
    UPDATE pgbench_accounts SET abalance = abalance + amount WHERE aid = account_id;
    SELECT abalance INTO balance FROM pgbench_accounts WHERE aid = account_id;
    UPDATE pgbench_tellers SET tbalance = tbalance + amount WHERE tid = teller_id;
    UPDATE pgbench_branches SET bbalance = bbalance + amount WHERE bid = branch_id;
    INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES (teller_id, branch_id, account_id, amount, CURRENT_TIMESTAMP);
    RETURN balance;
END;
$$;
