#!/usr/bin/env python3
"""Transactions that bear their user's signature, for Python and any PostgreSQL driver.

    from tally_sign import Signer, submit

    ada = Signer("ada", ledger_id, seed)           # 32 bytes of a key: tally identity new
    envelope = ada.call("transfer", 1, 2, 100)     # signed here; the seed goes nowhere
    answer = submit(psycopg_connection, envelope)  # any session can hand it in
    answer.block, answer.index, answer.rows

Written from docs/order-format.md and docs/transaction-format.md alone. Python's standard library
is enough; where the package `cryptography` is there, it signs, in less time and with care for it.

    tally_sign.py vectors FILE       compares with docs/vectors/envelopes.json
"""

import dataclasses
import datetime
import decimal
import hashlib
import json
import os
import struct
import sys
import time
import uuid

from check_proof import BASE, L, P, times

EPOCH_US = 946_684_800_000_000
EPOCH = datetime.datetime(2000, 1, 1)
NUMERICS = {"Infinity": 32768, "-Infinity": 32769, "NaN": 32770}


def public_key(seed):
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519

        return ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    except ImportError:
        return _bytes_of(times(_scalar(seed)[0], BASE))


def sign_bytes(seed, message):
    """RFC 8032, section 5.1.6."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519

        return ed25519.Ed25519PrivateKey.from_private_bytes(seed).sign(message)
    except ImportError:
        secret, prefix = _scalar(seed)
        r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % L
        point = _bytes_of(times(r, BASE))
        key = _bytes_of(times(secret, BASE))
        k = int.from_bytes(hashlib.sha512(point + key + message).digest(), "little") % L
        return point + ((r + k * secret) % L).to_bytes(32, "little")


def _scalar(seed):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
    return scalar, digest[32:]


def _bytes_of(point):
    x, y, z, _ = point
    inverse = pow(z, P - 2, P)
    x, y = x * inverse % P, y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number):
    return varint(2 * number if number >= 0 else -2 * number - 1)


def string(data):
    data = data.encode() if isinstance(data, str) else bytes(data)
    return varint(len(data)) + data


def microseconds(moment):
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    passed = moment - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _numeric(number):
    if not number.is_finite():
        name = "NaN" if number.is_nan() else "Infinity" if number > 0 else "-Infinity"
        return b"\x05" + varint(NUMERICS[name])
    negative, digits, exponent = number.as_tuple()
    size = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    scale = max(-exponent, 0)
    return b"\x05" + varint(2 * scale + (negative if size else 0)) + varint(size)


def value(given):
    """A value by its Python type: an argument is of the kind that the parameter has."""
    if given is None or isinstance(given, bool):
        return bytes([0 if given is None else 1 + given])
    if isinstance(given, int):
        if not -(2**63) <= given < 2**63:
            raise ValueError("an integer of more than 64 bits: give a Decimal")
        return b"\x03" + zigzag(given)
    if isinstance(given, float):
        number = float("nan") if given != given else given + 0.0
        return b"\x04" + struct.pack(">d", number)
    if isinstance(given, decimal.Decimal):
        return _numeric(given)
    if isinstance(given, str):
        return b"\x06" + string(given)
    if isinstance(given, (bytes, bytearray, memoryview)):
        return b"\x07" + string(given)
    if isinstance(given, uuid.UUID):
        return b"\x08" + given.bytes
    if isinstance(given, datetime.datetime):
        return (b"\x0a" if given.tzinfo is None else b"\x0b") + zigzag(microseconds(given))
    if isinstance(given, datetime.date):
        return b"\x09" + zigzag((given - EPOCH.date()).days)
    if isinstance(given, (list, tuple)):
        return b"\x0c" + varint(len(given)) + b"".join(map(value, given))
    raise TypeError(f"no value of a transaction: {type(given).__name__}")


@dataclasses.dataclass(frozen=True)
class Answer:
    block: int
    index: int
    count: int
    rows: list


class Signer:
    """Makes transactions of one user. Not to be used by two threads at once."""

    def __init__(self, principal, ledger_id, seed, expires_seconds=300):
        ledger_id = bytes.fromhex(ledger_id) if isinstance(ledger_id, str) else bytes(ledger_id)
        if len(ledger_id) != 16 or len(seed) != 32:
            raise ValueError("a ledger's id has 16 bytes, the seed of a key 32")
        self.principal, self.ledger_id, self._seed = principal, ledger_id, bytes(seed)
        self.key_id = public_key(self._seed)
        self.expires_seconds = expires_seconds
        self._submitter, self._sequence = os.urandom(16), 0

    @classmethod
    def of_file(cls, principal, ledger_id, path, **options):
        """With a key that `tally identity new` has made."""
        with open(path, encoding="ascii") as file:
            return cls(principal, ledger_id, bytes.fromhex(file.read().strip()), **options)

    def __repr__(self):
        return f"Signer({self.principal!r}, key={self.key_id.hex()})"

    def call(self, procedure, *arguments, **options):
        """A procedure or function by its name. See `envelope` for the options."""
        return self.envelope(b"\x02" + string(procedure) + _row(arguments), **options)

    def statement(self, text, *arguments, **options):
        """One INSERT, UPDATE, DELETE, MERGE or SELECT of a function, with $1, $2, …"""
        return self.envelope(b"\x01" + string(text) + _row(arguments), **options)

    def schema(self, text, **options):
        """A schema change, such as ALTER ORGANISATION."""
        return self.envelope(b"\x05" + string(text), **options)

    def envelope(self, request, *, key=None, role=None, seed=None, expires_us=None):
        """`key` names the transaction, which then runs at most once under that name; `role` is the
        one that it acts as; `seed`, 16 bytes, is what random values are drawn from."""
        form = 0x10 | (key is not None) | 2 * (role is not None) | 4 * (seed is not None)
        if expires_us is None:
            now_us = time.time_ns() // 1000 - EPOCH_US
            expires_us = now_us + int(self.expires_seconds * 1_000_000)
        if key is None:
            submission = self._submitter + varint(self._sequence)
            self._sequence += 1
        else:
            submission = string(key)
        settings = b"" if role is None else b"\x01" + string("role") + string(role)
        body = bytes([form]) + self.ledger_id + string(self.principal) + submission
        body += zigzag(expires_us) + b"\0" + settings + (seed or b"") + string(request)
        return signed(body, self._seed, self.key_id)


def _row(values):
    return varint(len(values)) + b"".join(map(value, values))


def signed(body, seed, key_id):
    envelope_id = hashlib.sha256(b"tally envelope 1" + body).digest()
    signature = sign_bytes(seed, b"tally signature1" + envelope_id)
    return body + b"\x01" + key_id + string(signature) + b"\0"


def approved(envelope, seed):
    """The envelope with the approval of a key, for which a policy may ask, in place of one that it
    had by that key. An approval is over the whole transaction: look at it first."""
    body, signatures, approvals = _parts(bytes(envelope))
    message = b"tally approval 1" + hashlib.sha256(b"tally envelope 1" + body).digest()
    approvals[public_key(seed)] = sign_bytes(seed, message)
    return body + _listed(signatures) + _listed(approvals)


def _listed(signatures):
    pairs = (key + string(signature) for key, signature in sorted(signatures.items()))
    return varint(len(signatures)) + b"".join(pairs)


def _parts(envelope):
    """What its id covers, its signatures and its approvals, both by key."""
    rest = memoryview(envelope)

    def take(count):
        nonlocal rest
        if count > len(rest):
            raise ValueError("the envelope is cut short")
        taken, rest = rest[:count], rest[count:]
        return bytes(taken)

    def number():
        value = shift = 0
        while True:
            byte = take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signatures():
        return {take(32): take(number()) for _ in range(number())}

    form = take(1)[0]
    if form >> 3 != 2:
        raise ValueError("no envelope")
    take(16)
    take(number())
    if form & 1:
        take(number())
    else:
        take(16)
        number()
    number(), number()
    if form & 2:
        for _ in range(2 * number()):
            take(number())
    if form & 4:
        take(16)
    take(number())
    body = envelope[: len(envelope) - len(rest)]
    lists = (signatures(), signatures()) if rest else ({}, {})
    if rest:
        raise ValueError("bytes behind an envelope")
    return body, *lists


def submit(connection, envelope):
    """Hands it in and waits for its block. The driver raises what the ledger rejects it with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tally_submit_signed(%s)", (envelope,))
        block, index, count, rows = cursor.fetchone()
    return Answer(block, index, count, rows if isinstance(rows, list) else json.loads(rows))


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["signed"]
    for vector in vectors:
        seed, body = bytes.fromhex(vector["seed"]), bytes.fromhex(vector["body"])
        if public_key(seed).hex() != vector["key"]:
            raise ValueError(f"another key than {vector['key']}")
        if signed(body, seed, public_key(seed)).hex() != vector["envelope"]:
            raise ValueError(f"another envelope than {vector['envelope']}")
    print(f"{len(vectors)} envelopes are signed as they should be")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "vectors":
        sys.exit(__doc__)
    check_vectors(sys.argv[2])
