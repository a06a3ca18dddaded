"""Inserts by psycopg 3, which is told all hosts, while nodes are killed."""

import os
import sys
import time

import psycopg
from psycopg import errors

TARGET = (
    f"host={os.environ['HOSTS']} port={os.environ['PORTS']} user=tally dbname=tally"
    " target_session_attrs=read-write connect_timeout=5"
    " options='-c tally.catch_up_timeout=2s -c tally.commit_timeout=5s'"
)
PATIENCE_S = 30


def insert(connection, number):
    """Whether it ran now, or had run when its answer was lost."""
    try:
        connection.execute(f"SET tally.transaction_key = 'psycopg {number}'")
        connection.execute("INSERT INTO told_psycopg VALUES (%s)", (number,))
    except (errors.InvalidParameterValue, errors.DuplicateObject):
        connection.execute("RESET tally.transaction_key")


def main():
    connection, longest, number = None, 0.0, 0
    ends = time.monotonic() + float(os.environ["LOAD_SECONDS"])
    while time.monotonic() < ends:
        began = time.monotonic()
        while True:
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(TARGET, autocommit=True)
                insert(connection, number)
                break
            except psycopg.OperationalError as error:
                print(f"reconnected: {error}".replace("\n", " "), file=sys.stderr)
                assert time.monotonic() - began < PATIENCE_S, "no node takes writes"
                if connection is not None:
                    connection.close()
                time.sleep(0.1)
        longest = max(longest, time.monotonic() - began)
        print(number, flush=True)
        number += 1
    print(f"longest wait: {longest:.1f}", file=sys.stderr)


main()
