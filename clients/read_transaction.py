#!/usr/bin/env python3
"""Reads requests and outcomes as docs/transaction-format.md describes them.

    read_transaction.py request HEX      prints it as JSON
    read_transaction.py outcome HEX
    read_transaction.py vectors FILE     compares with docs/vectors/transactions.json

An envelope, which a request stands in, is read by read_envelope.py.
"""

import json
import struct
import sys

import canonical

# 131,072 digits before the point and 16,383 behind it.
DIGITS_MAX = 147_455
DIGITS_BITS = 489_835
sys.set_int_max_str_digits(DIGITS_MAX)

TYPES = [
    "not declared", "boolean", "smallint", "integer", "bigint", "double precision", "numeric",
    "text", "varchar", "bytea", "uuid", "date", "timestamp", "timestamptz", "void",
]

LATER_TYPES = {
    20: "json", 21: "jsonb", 22: "interval", 23: "time", 24: "timetz", 27: "inet", 28: "cidr",
    29: "real",
}

# Numerics in place of twice a scale.
NO_DIGITS = {32768: "Infinity", 32769: "-Infinity", 32770: "NaN"}


class Reader(canonical.Reader):
    def value(self):
        tag = self.byte()
        if tag <= 2:
            return [None, False, True][tag]
        if tag == 5:
            scale_sign = self.varint()
            if scale_sign in NO_DIGITS:
                return {"numeric": NO_DIGITS[scale_sign]}
            size = self.varint(bits=DIGITS_BITS)
            scale = scale_sign >> 1
            if scale > 16383 or (scale_sign & 1 and size == 0):
                raise ValueError("a numeric out of range")
            digits = str(size)
            digits = digits.rjust(scale + 1, "0")
            point = len(digits) - scale
            shown = digits[:point] + ("." + digits[point:] if scale else "")
            return {"numeric": ("-" if scale_sign & 1 else "") + shown}
        return {
            3: self.zigzag,
            4: lambda: struct.unpack(">d", self.take(8))[0],
            6: self.text,
            7: lambda: {"bytea": self.string().hex()},
            8: lambda: {"uuid": self.take(16).hex()},
            9: lambda: {"date": self.zigzag()},
            10: lambda: {"timestamp": self.zigzag()},
            11: lambda: {"timestamptz": self.zigzag()},
            12: lambda: self.list(self.value),
            13: lambda: {"jsonb": self.text()},
            14: self.interval,
            15: lambda: {"time": self.time()},
            16: lambda: {"timetz": [self.time(), self.west()]},
        }[tag]()

    def interval(self):
        return {"interval": [self.zigzag(bits=32), self.zigzag(bits=32), self.zigzag()]}

    def time(self):
        us = self.varint()
        if us > 86_400_000_000:
            raise ValueError("no time of day")
        return us

    def west(self):
        seconds = self.zigzag()
        if abs(seconds) >= 57_600:
            raise ValueError("no offset from UTC")
        return seconds

    def row(self):
        return self.list(self.value)

    def type(self):
        code = self.byte()
        if code == 16:
            return f"numeric({self.varint()},{self.varint()})"
        if code in (17, 18):
            return f"{'varchar' if code == 17 else 'char'}({self.varint()})"
        if code in LATER_TYPES:
            return LATER_TYPES[code]
        if code == 25:
            return f"enum {self.varint()}"
        return self.type() + "[]" if code == 19 else TYPES[code]

    def body(self):
        kind = self.byte()
        if kind in (1, 7):
            said = {"statement": self.text()}
            if kind == 7:
                said["types"] = self.list(self.type)
            return said | {"arguments": self.row()}
        if kind == 2:
            return {"call": self.text(), "arguments": self.row()}
        if kind == 3:
            return {"load": self.text(), "rows": self.list(self.row)}
        if kind in (4, 9):
            now, schema = self.zigzag(), self.varint()
            return {
                "now": now,
                "schema_version": schema >> 1,
                "whole_schema": schema & 1 == 1,
                "rows_read": self.list(self.row_read),
                "ranges_read": self.list(self.range_read),
                "writes": self.list(self.write),
            }
        if kind == 5:
            return {"schema": self.text()}
        if kind == 6:
            return {"parameter": self.text(), "value": self.text()}
        if kind == 8:
            return {"checkpoint": self.varint(), "digest": self.take(32).hex()}
        if kind == 10:
            first, order = self.varint(), self.take(32).hex()
            return {"skip": first, "order": order, "reason": self.text()}
        if kind == 11:
            return {
                "proposal": self.proposal(),
                "schema_version": self.varint(),
                "now": self.zigzag(),
                "rows_read": self.list(self.row_read),
                "ranges_read": self.list(lambda: self.range_read(32)),
                "writes": self.list(self.row_write),
                "result": self.take(32).hex(),
            }
        raise ValueError(f"a request of kind {kind}")

    def image(self):
        table, is_row = self.varint(), self.flag()
        return {"table": table, "image" if is_row else "gone": self.string().hex()}

    def names(self):
        which = self.byte()
        if which > 7:
            raise ValueError(f"names of kind {which}")
        names = enumerate(["table", "column", "constraint"])
        return {name: self.text() for bit, name in names if which >> bit & 1}

    def committed(self):
        said, form = {"committed": self.varint()}, self.byte()
        if form == 1:
            rows = Reader(self.string())
            said["rows"] = rows.list(rows.row)
            rows.finish()
        elif form == 2:
            said["rows_hash"] = self.take(32).hex()
        elif form != 0:
            raise ValueError(f"rows of form {form}")
        return said

    def outcome(self):
        kind = self.byte()
        if kind == 0:
            return self.committed()
        if kind in (1, 2):
            said = {["rejected", "retry"][kind - 1]: self.take(5).decode("ascii")}
            return said | self.names()
        if kind == 3:
            return {"deferred": True}
        if kind == 4:
            return {"repeat": {"height": self.varint(), "index": self.varint()}}
        if kind == 5:
            left, said = self.list(self.image), self.outcome()
            if not said.keys() & {"committed", "rejected", "retry", "repeat"} or "left" in said:
                raise ValueError("rows of a transaction that did not end")
            return said | {"left": left}
        raise ValueError(f"an outcome of kind {kind}")

    def row_read(self):
        return {"table": self.varint(), "key": self.string().hex(), "stamp": self.varint()}

    def bound(self):
        kind = self.byte()
        return None if kind == 0 else {["", "at", "beyond"][kind]: self.string().hex()}

    def range_read(self, digest=16):
        said = {"table": self.varint(), "index": self.varint(), "backwards": self.flag()}
        said |= {"low": self.bound(), "high": self.bound()}
        rows = self.varint()
        said |= {"rows": rows >> 1, "stopped": rows % 2 == 1}
        return said | {"digest": self.take(digest).hex()}

    def write(self):
        return self.body() | {"count": self.varint(), "answer": self.list(self.row)}


    def proposal(self):
        said = self.body()
        commits = "now" in said and not any("schema" in write for write in said["writes"])
        if not commits and not said.keys() & {"statement", "call", "load"}:
            raise ValueError("a proposal of another kind")
        return said

    def row_write(self):
        table, kind = self.varint(), self.byte()
        if kind == 0:
            return {"table": table, "insert": self.row()}
        if kind == 1:
            key = self.row()
            changes = self.list(lambda: {"column": self.varint(), "value": self.value()})
            return {"table": table, "update": key, "changes": changes}
        if kind == 2:
            return {"table": table, "delete": self.row()}
        raise ValueError(f"a write of kind {kind}")


def whole(data, read):
    reader = Reader(data)
    said = read(reader)
    reader.finish()
    return said


READERS = {"request": Reader.body, "outcome": Reader.outcome}


def vectors(path):
    wrong = 0
    for vector in json.load(open(path, encoding="utf-8")):
        said = whole(bytes.fromhex(vector["bytes"]), READERS[vector["of"]])
        if said != vector["means"]:
            wrong += 1
            print(f"{vector['bytes']}\n  means {vector['means']}\n  read  {said}", file=sys.stderr)
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("vectors", *READERS):
        sys.exit(__doc__)
    if sys.argv[1] == "vectors":
        sys.exit(1 if vectors(sys.argv[2]) else 0)
    said = whole(bytes.fromhex(sys.argv[2]), READERS[sys.argv[1]])
    print(json.dumps(said, indent=2))
