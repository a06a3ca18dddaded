#!/usr/bin/env python3
"""Checks a ledger without any of the code that wrote it.

Written from docs/ledger-format.md alone, with Python's standard library; what a prune leaves, from
docs/backup-format.md. The section numbers in the comments are those of the first page.

    check_chain.py chain DATA_FOLDER [--head BLOCK_HASH]
    check_chain.py receipt RECEIPT.json BLOCK_HASH
    check_chain.py row ROW_RECEIPT.json BLOCK_HASH [--image HEX]

Exit codes: 0 everything holds, 1 it does not, 2 wrong usage or unreadable files,
3 torn or damaged tail (all blocks before it hold).
"""

import argparse
import hashlib
import json
import os
import re
import struct
import sys
import zlib

HEADER_BYTES = 238
ZERO_HASH = bytes(32)
BLOCK_BYTES_MAX = 1 << 30


class Fault(Exception):
    """Something does not hold."""


class TornTail(Exception):
    """The log ends with bytes that are no block."""


def sha256(data):
    return hashlib.sha256(data).digest()


# 2. Merkle trees


def leaf_hash(data):
    return sha256(b"\x00" + data)


def node_hash(left, right):
    return sha256(b"\x01" + left + right)


def merkle_root(leaves):
    if not leaves:
        return sha256(b"")
    level = [leaf_hash(leaf) for leaf in leaves]
    while len(level) > 1:
        pairs = range(0, len(level) - 1, 2)
        above = [node_hash(level[i], level[i + 1]) for i in pairs]
        level = above + level[len(above) * 2 :]
    return level[0]


def root_from_proof(leaf, index, leaves, proof):
    last = leaves - 1
    if not 0 <= index <= last:
        raise Fault(f"index {index} is not below {leaves}")
    node, rest = leaf_hash(leaf), list(proof)
    while last > 0:
        if index % 2 == 1 or index < last:
            if not rest:
                raise Fault("the proof is too short")
            sibling = rest.pop(0)
            node = node_hash(sibling, node) if index % 2 else node_hash(node, sibling)
        index //= 2
        last //= 2
    if rest:
        raise Fault("the proof is too long")
    return node


# Reading


class Cursor:
    """Strict reading from the front."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, length):
        if length > len(self.data) - self.at:
            raise Fault(f"{length} bytes expected at offset {self.at}")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, code):
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def string(self):
        return self.take(self.number("I"))

    def finish(self):
        if self.at != len(self.data):
            raise Fault(f"{len(self.data) - self.at} bytes left over")


class Header:
    """3. Block header."""

    def __init__(self, data):
        if len(data) != HEADER_BYTES:
            raise Fault(f"a header has {HEADER_BYTES} bytes, not {len(data)}")
        cursor = Cursor(data)
        version = cursor.number("H")
        self.ledger_id = cursor.take(16)
        self.height = cursor.number("Q")
        self.previous_hash = cursor.take(32)
        self.time_us = cursor.number("q")
        self.snapshot_height = cursor.number("Q")
        self.parameters_hash = cursor.take(32)
        self.transaction_count = cursor.number("I")
        self.transactions_root = cursor.take(32)
        self.outcomes_root = cursor.take(32)
        self.effects_root = cursor.take(32)
        state_root = cursor.take(32)
        self.hash = sha256(b"tally block v1\0\0" + data)
        if version != 1:
            raise Fault(f"header version {version} is not known")
        if state_root != ZERO_HASH:
            raise Fault("the state root is not zero")


class Block:
    """4. Block."""

    def __init__(self, data):
        if len(data) > BLOCK_BYTES_MAX:
            raise Fault("the block is too large")
        cursor = Cursor(data)
        self.header = Header(cursor.take(HEADER_BYTES))
        count = self.header.transaction_count
        self.transactions = [cursor.string() for _ in range(count)]
        self.outcomes = [cursor.string() for _ in range(count)]
        cursor.finish()


def check_equal(what, expected, found):
    if expected != found:
        show = lambda value: value.hex() if isinstance(value, bytes) else value
        raise Fault(f"{what}: expected {show(expected)}, found {show(found)}")


def check_genesis(block):
    """5. Genesis and parameters."""
    header = block.header
    check_equal("height", 0, header.height)
    check_equal("previous hash", ZERO_HASH, header.previous_hash)
    check_equal("snapshot height", 0, header.snapshot_height)
    check_equal("effects root", merkle_root([]), header.effects_root)
    check_equal("number of transactions", 1, header.transaction_count)
    check_equal("outcome", b"", block.outcomes[0])
    tag, parameters = block.transactions[0][:16], block.transactions[0][16:]
    check_equal("tag of the genesis transaction", b"tally genesis v1", tag)
    check_equal("parameters hash", sha256(b"tally params v1\0" + parameters), header.parameters_hash)
    cursor = Cursor(parameters)
    names = []
    try:
        cursor.string().decode(), cursor.string().decode()
        for _ in range(cursor.number("I")):
            names.append(cursor.string())
            names[-1].decode(), cursor.string().decode()
    except UnicodeDecodeError as error:
        raise Fault(f"parameters are not UTF-8: {error}") from None
    cursor.finish()
    if any(left >= right for left, right in zip(names, names[1:])):
        raise Fault("the parameters are out of order")


def check_next(block, previous):
    """4. A chain is valid if ..."""
    header = block.header
    if previous is None:
        check_genesis(block)
    else:
        check_equal("height", previous.height + 1, header.height)
        check_equal("ledger id", previous.ledger_id, header.ledger_id)
        check_equal("previous hash", previous.hash, header.previous_hash)
        if header.time_us < previous.time_us:
            raise Fault(f"time runs back from {previous.time_us} to {header.time_us}")
        if header.snapshot_height >= header.height:
            raise Fault(f"snapshot height {header.snapshot_height} is not in the past")
    check_equal("transactions root", header.transactions_root, merkle_root(block.transactions))
    check_equal("outcomes root", header.outcomes_root, merkle_root(block.outcomes))


# 8. Files


class Segment:
    def __init__(self, path, first_height, is_last):
        with open(path, "rb") as file:
            self.data = file.read()
        self.path, self.is_last = path, is_last
        header = self.data[:48]
        if len(header) < 48 or header[:8] != b"TALLYSEG" or zlib.crc32(header[:44]) != u32(header, 44):
            if is_last and not any(self.data[48:]):
                raise TornTail(f"torn or damaged tail at block {first_height} ({path}, offset 0)")
            raise Fault("the segment header is damaged")
        version, self.ledger_id, first, self.salt = struct.unpack(">I16sQ8s", header[8:44])
        check_equal("segment format version", 1, version)
        check_equal("first height", first_height, first)
        self.at = 48

    def record_header(self, at):
        """Length, height, durable_below and payload checksum, or None."""
        header = self.data[at : at + 32]
        if len(header) < 32 or header[:4] != b"TREC":
            return None
        if zlib.crc32(self.salt + header[:28]) != u32(header, 28):
            return None
        return struct.unpack(">IQQI", header[4:28])

    def payloads(self, height):
        """The blocks' bytes, in order; `height` is the next block's."""
        while self.at < len(self.data):
            if self.is_last and not any(self.data[self.at :]):
                return
            record = self.record_header(self.at)
            payload = b""
            if record:
                start = self.at + 32
                payload = self.data[start : start + record[0]]
            if (
                not record
                or len(payload) != record[0]
                or zlib.crc32(self.salt + payload) != record[3]
            ):
                self.unreadable(height)
            check_equal("height of the record", height, record[1])
            if record[2] > height:
                raise Fault("the record says that it was synced before it was written")
            yield payload
            self.at += 32 + len(payload)
            height += 1

    def unreadable(self, height):
        if self.is_last and not self.proves_durable(height):
            raise TornTail(
                f"torn or damaged tail at block {height} ({self.path}, offset {self.at})"
            )
        raise Fault(f"damage at offset {self.at}")

    def proves_durable(self, height):
        at = self.data.find(b"TREC", self.at)
        while at >= 0:
            record = self.record_header(at)
            if record and record[1] > height and record[2] > height:
                return True
            at = self.data.find(b"TREC", at + 1)
        return False


def u32(data, offset):
    return struct.unpack_from(">I", data, offset)[0]


# Headers of pruned blocks: docs/backup-format.md, section 3


def check_piece(data, height, head):
    """Checks a file of headers that follows the header `head`; returns the last one."""
    check_equal("hash of the file", sha256(b"tally heads v1\0\0" + data[:-32]), data[-32:])
    cursor = Cursor(data[:-32])
    check_equal("magic", b"TALLYHDR", cursor.take(8))
    check_equal("format version", 1, cursor.number("I"))
    ledger_id = cursor.take(16)
    check_equal("first height", height, cursor.number("Q"))
    previous_hash = cursor.take(32)
    genesis = cursor.string()
    if head:
        check_equal("ledger id", head.ledger_id, ledger_id)
        check_equal("previous hash", head.hash, previous_hash)
    parameters_hash = None
    for _ in range(cursor.number("I")):
        if cursor.number("B"):
            parameters_hash = cursor.take(32)
        time_and_snapshot, count_and_roots = cursor.take(16), cursor.take(4 + 96)
        fields = [b"\0\1", ledger_id, struct.pack(">Q", height), previous_hash, time_and_snapshot]
        head = Header(b"".join(fields) + parameters_hash + count_and_roots + ZERO_HASH)
        if height == 0:
            block = Block(genesis)
            check_next(block, None)
            check_equal("genesis", block.header.hash, head.hash)
        previous_hash = head.hash
        height += 1
    cursor.finish()
    return head


def check_headers(folder, first_block):
    """Checks the headers of the blocks below `first_block`; returns the last one."""
    folder = os.path.join(folder, "headers")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    head = None
    for name in names:
        height = head.height + 1 if head else 0
        if height == first_block:
            break
        path = os.path.join(folder, name)
        try:
            check_equal("name", f"{height:020}.headers", name)
            with open(path, "rb") as file:
                head = check_piece(file.read(), height, head)
        except Fault as fault:
            raise Fault(f"headers from block {height} on ({path}): {fault}") from None
    return head


def check_chain(folder):
    """Checks all blocks of a data folder; returns the last header."""
    segments = os.path.join(folder, "segments")
    names = sorted(os.listdir(segments))
    pruned = names and re.fullmatch(r"[0-9]{20}\.tally", names[0]) and int(names[0][:20])
    head = check_headers(folder, pruned) if pruned else None
    folder = segments
    for position, name in enumerate(names):
        path = os.path.join(folder, name)
        height = head.height + 1 if head else 0
        try:
            if not re.fullmatch(r"[0-9]{20}\.tally", name):
                raise Fault("this is not a segment's name")
            check_equal("first height of the segment", height, int(name[:20]))
            segment = Segment(path, height, position == len(names) - 1)
            for payload in segment.payloads(height):
                block = Block(payload)
                check_equal("ledger id", segment.ledger_id, block.header.ledger_id)
                check_next(block, head)
                head = block.header
                height += 1
        except Fault as fault:
            raise Fault(f"block {height} ({path}): {fault}") from None
        except TornTail as tail:
            tail.head = head
            raise
    return head


# 7. Receipts

RECEIPT_MEMBERS = {
    "version", "height", "block_hash", "header", "index",
    "transaction", "outcome", "transaction_proof", "outcome_proof",
}  # fmt: skip


def unhex(text):
    if not isinstance(text, str) or not re.fullmatch(r"([0-9a-f]{2})*", text):
        raise Fault("lower-case hexadecimal text expected")
    return bytes.fromhex(text)


def unhex_hash(text):
    value = unhex(text)
    check_equal("bytes of a hash", 32, len(value))
    return value


def check_receipt(receipt, trusted_hash):
    """Checks a receipt's JSON form; returns its header."""
    if not isinstance(receipt, dict) or set(receipt) != RECEIPT_MEMBERS:
        raise Fault("this is not a receipt")
    for name in ("version", "height", "index"):
        if type(receipt[name]) is not int:
            raise Fault(f"{name} is not a number")
    check_equal("version", 1, receipt["version"])
    header = Header(unhex(receipt["header"]))
    check_equal("height", header.height, receipt["height"])
    check_equal("block_hash", header.hash, unhex(receipt["block_hash"]))
    check_equal("block hash", trusted_hash, header.hash)
    for what, root in (("transaction", header.transactions_root), ("outcome", header.outcomes_root)):
        if not isinstance(receipt[what + "_proof"], list):
            raise Fault(f"{what}_proof is not a list")
        proof = [unhex_hash(text) for text in receipt[what + "_proof"]]
        leaf = unhex(receipt[what])
        found = root_from_proof(leaf, receipt["index"], header.transaction_count, proof)
        check_equal(f"{what}s root", root, found)
    return header


def check_row_receipt(receipt, trusted_hash):
    """Checks a row receipt's JSON form; returns its header and the hash of the row afterwards."""
    if not isinstance(receipt, dict):
        raise Fault("this is not a row receipt")
    cursor = Cursor(unhex(receipt.get("row_receipt")))
    check_equal("version", 1, cursor.number("B"))
    header = Header(cursor.take(HEADER_BYTES))
    check_equal("block hash", trusted_hash, header.hash)
    leaf = cursor.string()
    node = leaf_hash(leaf)
    for _ in range(cursor.number("B")):
        side, sibling = cursor.number("B"), cursor.take(32)
        if side > 1:
            raise Fault(f"{side} is no side")
        node = node_hash(node, sibling) if side else node_hash(sibling, node)
    cursor.finish()
    check_equal("effects root", header.effects_root, node)

    # 6. Effects
    effect = Cursor(leaf)
    table, key = effect.number("I"), effect.string()
    before, after = effect.take(32), effect.take(32)
    previous_height = effect.number("Q")
    effect.finish()
    if before == ZERO_HASH and after == ZERO_HASH:
        raise Fault("the effect has no image")
    said = {
        "row_receipt": receipt["row_receipt"],
        "height": header.height,
        "block_hash": header.hash.hex(),
        "table": table,
        "key": key.hex(),
        "before": None if before == ZERO_HASH else before.hex(),
        "after": None if after == ZERO_HASH else after.hex(),
        "previous_height": previous_height,
    }
    check_equal("members", said, receipt)
    return header, after


def run(arguments):
    if arguments.command == "chain":
        head = check_chain(arguments.folder)
        if head is None:
            raise Fault("there are no blocks")
        if arguments.head is not None:
            check_equal("hash of the last block", unhex_hash(arguments.head), head.hash)
        print(f"{head.height + 1} blocks hold, the last one is {head.hash.hex()}")
        return 0
    trusted_hash = unhex_hash(arguments.block_hash)
    with open(arguments.file, encoding="utf-8") as file:
        value = json.load(file)
    if arguments.command == "receipt":
        header = check_receipt(value, trusted_hash)
        print(f"transaction {value['index']} of block {header.height} holds")
        return 0
    header, after = check_row_receipt(value, trusted_hash)
    if arguments.image is not None:
        image = sha256(b"tally row v1\0\0\0\0" + unhex(arguments.image))
        check_equal("row image hash", after, image)
    print(f"the row change of block {header.height} holds")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Checks a ledger from its documented bytes alone.")
    commands = parser.add_subparsers(dest="command", required=True)
    chain = commands.add_parser("chain", help="check all blocks of a data folder")
    chain.add_argument("folder")
    chain.add_argument("--head", help="the hash that the last block must have")
    receipt = commands.add_parser("receipt", help="check one receipt")
    receipt.add_argument("file")
    receipt.add_argument("block_hash", help="the block hash that you trust")
    row = commands.add_parser("row", help="check one row receipt")
    row.add_argument("file")
    row.add_argument("block_hash", help="the block hash that you trust")
    row.add_argument("--image", help="the image that the row must have after the block")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except TornTail as tail:
        before = f"{tail.head.height + 1} blocks before it hold" if tail.head else "no block before it"
        print(f"{tail}; {before}", file=sys.stderr)
        return 3
    except Fault as fault:
        print(f"does not hold: {fault}", file=sys.stderr)
        return 1
    except (OSError, ValueError, RecursionError) as error:
        print(f"cannot be read: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
