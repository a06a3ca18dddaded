"""Transactions that their user has signed: clients/tally_sign.py over psycopg."""

import datetime
import decimal
import os
import pathlib
import sys
import uuid

import psycopg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients"))

from tally_sign import Signer, approved, submit  # noqa: E402

KINDS = "i bigint, n numeric, f float8, b boolean, t text, y bytea, u uuid, d date, \
         s timestamp, z timestamptz"
MOMENT = datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999)
VALUES = [
    -(2**63), decimal.Decimal("-12.3400"), -1.5, True, "naïve 'text'", b"\0\xff", uuid.uuid4(),
    datetime.date(1987, 6, 5), MOMENT, MOMENT.replace(tzinfo=datetime.timezone.utc),
]
ROOT, ADA = bytes([101]) * 32, bytes([102]) * 32


def refused(connection, envelope):
    try:
        submit(connection, envelope)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def enrol(connection, ledger, text):
    root = Signer("tally", ledger, ROOT)
    submit(connection, root.schema(f"ALTER ORGANISATION signed_py {text}"))


def main():
    with psycopg.connect(os.environ["CLIENT_URL"], autocommit=True) as connection:
        say = connection.execute
        ledger = say("SHOW ledger.id").fetchone()[0]
        root, ada = Signer("tally", ledger, ROOT), Signer("signed_ada", ledger, ADA)
        say(f"CREATE TABLE signed_py ({KINDS})")
        say(f"CREATE FUNCTION signed_put({KINDS}) RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
              INSERT INTO signed_py VALUES (i, n, f, b, t, y, u, d, s, z); \
              RETURN 'put ' || t; END $$")
        say("CREATE USER signed_ada")
        say("GRANT INSERT ON signed_py TO signed_ada")
        say(f"CREATE ORGANISATION signed_py KEY '{root.key_id.hex()}'")
        enrol(connection, ledger, "ADD USER signed_ada WITH CLIENT SIGNATURE")
        enrol(connection, ledger, f"ADD KEY '{ada.key_id.hex()}' FOR USER signed_ada")

        envelope = ada.call("signed_put", *VALUES)
        answer = submit(connection, envelope)
        assert answer.rows == [["put naïve 'text'"]] and answer.block > 0, answer
        row = say("SELECT * FROM signed_py").fetchone()
        assert list(row) == VALUES, row
        assert refused(connection, envelope) == "08P01", "replayed"
        keyed = ada.call("signed_put", 1, *[None] * 9, key="once")
        assert submit(connection, keyed).rows == [[None]]
        assert refused(connection, keyed) == "42710", "a repeat of what ran under its key"
        statement = "INSERT INTO signed_py (i, t) VALUES ($1, $2)"
        assert submit(connection, ada.statement(statement, 7, "x")).count == 1
        edited = envelope.replace(b"text'", b"test'")
        assert refused(connection, edited) == "28000", "edited"
        other = Signer("signed_ada", ledger, bytes([103]) * 32)
        assert refused(connection, other.call("signed_put", *VALUES)) == "28000", "another key"
        foreign = Signer("signed_ada", "00" * 16, ADA)
        assert refused(connection, foreign.call("signed_put", *VALUES)) == "08P01", "foreign"
        late = Signer("signed_ada", ledger, ADA, expires_seconds=-3600)
        assert refused(connection, late.call("signed_put", *VALUES)) == "57014", "expired"
        assert say("SELECT count(*) FROM signed_py").fetchone()[0] == 3

        # Two have to agree, each by a key of its own.
        other_root = bytes([104]) * 32
        other_key = Signer("tally", ledger, other_root).key_id.hex()
        say(f"CREATE ORGANISATION signed_other KEY '{other_key}'")
        say("ALTER TABLE signed_py SET APPROVAL POLICY 'AND(signed_py.signed_ada, signed_other)'")
        asked = ada.statement(statement, 8, "x")
        assert refused(connection, asked) == "42T01", "lacking"
        assert refused(connection, approved(asked, ROOT)) == "42T01", "by another"
        whole = approved(approved(asked, ROOT), other_root)
        assert approved(whole, other_root) == whole
        assert refused(connection, whole[:-1] + bytes([whole[-1] ^ 1])) == "28000", "forged"
        taken = approved(ada.statement(statement, 9, "x"), other_root)
        taken = asked[:-1] + taken[-98:]
        assert refused(connection, taken) == "28000", "of another transaction"
        assert submit(connection, whole).count == 1
        assert refused(connection, whole) == "08P01", "replayed"
        shown = say("SELECT kind, name, policy, can_be_met FROM tally_policies").fetchone()
        policy = "AND(signed_other, signed_py.signed_ada)"
        assert shown == ("table", "signed_py", policy, True), shown
        drop = Signer("tally", ledger, other_root).schema("DROP TABLE signed_py")
        assert refused(connection, drop) == "42T01"

        say("DROP FUNCTION signed_put")
        submit(connection, approved(drop, ROOT))
        say("DROP ORGANISATION signed_other")
        say("DROP ROLE signed_ada")
        say("DROP ORGANISATION signed_py")
    print("psycopg: signed transactions passed")


if __name__ == "__main__":
    main()
