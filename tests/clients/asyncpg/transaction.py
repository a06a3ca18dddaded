"""One transaction test through asyncpg: a pool, errors at every step, listeners, advisory locks."""

import asyncio
import datetime
import decimal
import os
import uuid

import asyncpg

OPENED = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
TOKEN = uuid.UUID("6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33")
ROW = (1, "ada", decimal.Decimal("100.50"), OPENED, b"\x00\xff\x10", TOKEN, None)
PATIENCE_S = 20


async def create(pool):
    await pool.execute("DROP TABLE IF EXISTS asyncpg_accounts")
    await pool.execute(
        """CREATE TABLE asyncpg_accounts (
            id bigint PRIMARY KEY, owner text NOT NULL,
            amount numeric(12,2) NOT NULL CHECK (amount >= 0),
            opened timestamptz, payload bytea, token uuid, note varchar(20))"""
    )


async def commit(pool):
    insert = "INSERT INTO asyncpg_accounts VALUES ($1, $2, $3, $4, $5, $6, $7)"
    async with pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute(insert, *ROW)
            await connection.executemany(
                insert, [(n, "bob", n, None, None, None, "empty") for n in range(2, 6)]
            )
        row = await connection.fetchrow("SELECT * FROM asyncpg_accounts WHERE id = $1", 1)
        assert tuple(row) == ROW, row
        numbers = []
        async with connection.transaction():
            query = "SELECT id FROM asyncpg_accounts ORDER BY id"
            async for record in connection.cursor(query, prefetch=2):
                numbers.append(record["id"])
        assert numbers == [1, 2, 3, 4, 5], numbers


async def fail(pool):
    """Errors of preparing and of running arrive, and the connection goes on."""
    insert = "INSERT INTO asyncpg_accounts (id, owner, amount) VALUES ($1, $2, $3)"
    for sql, arguments, expected in (
        ("SELEKT 1", (), asyncpg.PostgresSyntaxError),
        ("SELECT nope()", (), asyncpg.UndefinedFunctionError),
        ("SELECT nope FROM asyncpg_accounts", (), asyncpg.UndefinedColumnError),
        ("SELECT * FROM nope", (), asyncpg.UndefinedTableError),
        ("SELECT 1 / $1::int", (0,), asyncpg.DivisionByZeroError),
        (insert, (1, "eve", 0), asyncpg.UniqueViolationError),
        (insert, (9, "eve", -1), asyncpg.CheckViolationError),
    ):
        async with pool.acquire() as connection:
            try:
                await connection.fetch(sql, *arguments)
            except expected:
                pass
            else:
                raise AssertionError(f"{sql} was accepted")
            assert await connection.fetchval("SELECT 1") == 1
    assert await pool.fetchval("SELECT count(*) FROM asyncpg_accounts") == 5
    assert await pool.fetch("") == []


async def listen(pool):
    told = asyncio.Queue()
    async with pool.acquire() as listener:
        hear = lambda _connection, pid, channel, payload: told.put_nowait((channel, payload))
        await listener.add_listener("asyncpg_news", hear)
        async with pool.acquire() as connection:
            async with connection.transaction():
                await connection.execute("NOTIFY asyncpg_news, 'first'")
                await connection.execute("SELECT pg_notify('asyncpg_news', $1)", "second")
                await connection.execute("NOTIFY asyncpg_news, 'first'")
                assert told.empty()
        for expected in ("first", "second"):
            heard = await asyncio.wait_for(told.get(), PATIENCE_S)
            assert heard == ("asyncpg_news", expected), heard
        await listener.remove_listener("asyncpg_news", hear)


async def lock(pool):
    async with pool.acquire() as first, pool.acquire() as second:
        await first.execute("SELECT pg_advisory_lock(7)")
        assert not await second.fetchval("SELECT pg_try_advisory_lock(7)")
        waiting = asyncio.create_task(second.fetchval("SELECT pg_advisory_lock($1)", 7))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert await first.fetchval("SELECT pg_advisory_unlock(7)")
        await asyncio.wait_for(waiting, PATIENCE_S)
    # What a connection holds ends with its return to the pool.
    async with pool.acquire() as connection:
        assert await connection.fetchval("SELECT pg_try_advisory_lock(7)")


async def cancel(pool):
    async with pool.acquire() as connection:
        try:
            await connection.execute("SELECT pg_sleep(600)", timeout=0.2)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError("the sleep ended")
        assert await connection.fetchval("SELECT 1") == 1


async def main():
    url = os.environ["CLIENT_URL"]
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as pool:
        for step in (create, commit, fail, listen, lock, cancel):
            await asyncio.wait_for(step(pool), 2 * PATIENCE_S)


asyncio.run(main())
