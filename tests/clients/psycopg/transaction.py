"""One transaction test through psycopg 3: extended protocol, text and binary, pipeline."""

import datetime
import decimal
import os
import uuid

import psycopg
from psycopg import errors

OPENED = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
TOKEN = uuid.UUID("6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33")
ROW = (1, "ada", decimal.Decimal("100.50"), OPENED, b"\x00\xff\x10", TOKEN, None)


def create(connection):
    connection.execute("DROP TABLE IF EXISTS psycopg_accounts")
    connection.execute(
        """CREATE TABLE psycopg_accounts (
            id bigint PRIMARY KEY, owner text NOT NULL,
            amount numeric(12,2) NOT NULL CHECK (amount >= 0),
            opened timestamptz, payload bytea, token uuid, note varchar(20))"""
    )
    connection.execute(
        """CREATE OR REPLACE PROCEDURE psycopg_move(
            giver bigint, receiver bigint, sum_moved numeric)
        LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE psycopg_accounts SET amount = amount - sum_moved WHERE id = giver;
            UPDATE psycopg_accounts SET amount = amount + sum_moved WHERE id = receiver;
        END;
        $$"""
    )


def commit(connection):
    insert = "INSERT INTO psycopg_accounts VALUES (%s, %s, %s, %s, %s, %s, %s)"
    with connection.transaction():
        connection.execute(insert, ROW)
        connection.execute(insert, (2, "bob", 7, None, None, None, "empty"))
        connection.execute(
            "UPDATE psycopg_accounts SET amount = amount + %s WHERE id = %s",
            (decimal.Decimal("0.25"), 2),
        )
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            cursor.execute("SELECT * FROM psycopg_accounts WHERE id = %s", (1,))
            row = cursor.fetchone()
            assert row == ROW, (binary, row)


def roll_back(connection):
    with connection.transaction(force_rollback=True):
        deleted = connection.execute("DELETE FROM psycopg_accounts").rowcount
        assert deleted == 2, deleted
    count = connection.execute("SELECT count(*) FROM psycopg_accounts").fetchone()[0]
    assert count == 2, count


def fail(connection):
    insert = "INSERT INTO psycopg_accounts (id, owner, amount) VALUES (%s, %s, %s)"
    for row, error in (
        ((1, "eve", 0), errors.UniqueViolation),
        ((3, None, 0), errors.NotNullViolation),
        ((3, "eve", -1), errors.CheckViolation),
    ):
        try:
            connection.execute(insert, row)
        except error as raised:
            assert raised.diag.sqlstate == error.sqlstate
            assert raised.diag.message_primary
        else:
            raise AssertionError(f"{row} was accepted")
    with connection.transaction():
        connection.execute(insert, (3, "eve", 0))
        try:
            with connection.transaction():  # A savepoint.
                connection.execute(insert, (3, "eve", 0))
        except errors.UniqueViolation:
            pass
    owners = connection.execute("SELECT owner FROM psycopg_accounts ORDER BY id").fetchall()
    assert owners == [("ada",), ("bob",), ("eve",)], owners


def call(connection):
    connection.execute("CALL psycopg_move(%s, %s, %s)", (1, 2, decimal.Decimal("0.75")))
    with connection.pipeline():
        amounts = [
            connection.execute("SELECT amount FROM psycopg_accounts WHERE id = %s", (i,))
            for i in (1, 2)
        ]
        amounts = [cursor.fetchone()[0] for cursor in amounts]
    assert amounts == [decimal.Decimal("99.75"), decimal.Decimal("8.00")], amounts


def copy(connection):
    with connection.cursor() as cursor:
        with cursor.copy("COPY psycopg_accounts (id, owner, amount) FROM STDIN") as rows:
            for i in range(10, 20):
                rows.write_row((i, f"customer {i}", i))
        total = cursor.execute("SELECT sum(amount) FROM psycopg_accounts WHERE id >= 10")
        assert total.fetchone()[0] == sum(range(10, 20))
    out = "COPY (SELECT id, owner FROM psycopg_accounts WHERE id >= 10 ORDER BY id) TO STDOUT"
    expected = [(i, f"customer {i}") for i in range(10, 20)]
    for options in ("", " (FORMAT binary)"):
        with connection.cursor() as cursor, cursor.copy(out + options) as rows:
            rows.set_types(["int8", "text"])
            assert list(rows.rows()) == expected, options
        with connection.cursor() as cursor, cursor.copy(out + options) as rows:
            messages = [bytes(message) for message in rows]
        trailer = [b"\xff\xff"] if options else []
        assert len(messages) == 10 + len(trailer) and messages[10:] == trailer, messages


with psycopg.connect(os.environ["CLIENT_URL"], autocommit=True) as connection:
    connection.prepare_threshold = 1
    for step in (create, commit, roll_back, fail, call, copy):
        step(connection)
