#!/usr/bin/env python3
"""Checks a ledger without any of the code that wrote it.

Written from docs/ledger-format.md alone, with Python's standard library; what a prune leaves, from
docs/backup-format.md. The section numbers in the comments are those of the first page.

    check_chain.py chain DATA_FOLDER [--head HEAD]
    check_chain.py receipt RECEIPT.json HEAD
    check_chain.py row ROW_RECEIPT.json HEAD [--image HEX]
    check_chain.py certified RECEIPT.json FIRST_BLOCK

A head is the result hash of a block; a first block is named by its order hash, and names the
members whose votes certify (docs/votes.md).

Exit codes: 0 everything holds, 1 it does not, 2 wrong usage or unreadable files,
3 torn or damaged tail (all blocks before it hold; of the results nothing is lost).
"""

import argparse
import hashlib
import json
import os
import re
import struct
import sys
import zlib

ORDER_HEADER_BYTES = 174
RESULT_HEADER_BYTES = 250
COMMON_BYTES = 58
ZERO_HASH = bytes(32)
RECORD_BYTES_MAX = 1 << 30


class Fault(Exception):
    """Something does not hold."""


class TornTail(Exception):
    """A log ends with bytes that are no record."""


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


class Common:
    """3. What both headers begin with."""

    def __init__(self, data, size, tag):
        if len(data) != size:
            raise Fault(f"a header has {size} bytes, not {len(data)}")
        self.cursor = Cursor(data)
        version = self.cursor.number("H")
        self.ledger_id = self.cursor.take(16)
        self.height = self.cursor.number("Q")
        self.previous_hash = self.cursor.take(32)
        self.hash = sha256(tag + data)
        if version != 2:
            raise Fault(f"header version {version} is not known")


class OrderHeader(Common):
    """3. Order header."""

    SIZE = ORDER_HEADER_BYTES

    def __init__(self, data):
        super().__init__(data, self.SIZE, b"tally order v2\0\0")
        cursor = self.cursor
        self.time_us = cursor.number("q")
        self.proposer = cursor.take(32)
        self.parameters_hash = cursor.take(32)
        self.seen_height = cursor.number("Q")
        if self.seen_height > max(self.height - 1, 0):
            raise Fault("a block has seen one that is not before it")
        self.envelope_count = cursor.number("I")
        self.envelopes_root = cursor.take(32)


class ResultHeader(Common):
    """3. Result header."""

    SIZE = RESULT_HEADER_BYTES

    def __init__(self, data):
        super().__init__(data, self.SIZE, b"tally result v2\0")
        cursor = self.cursor
        self.order_hash = cursor.take(32)
        self.snapshot_height = cursor.number("Q")
        self.executor = cursor.number("I")
        self.outcome_count = cursor.number("I")
        self.carried_count = cursor.number("I")
        self.outcomes_root = cursor.take(32)
        self.effect_count = cursor.number("Q")
        self.effects_root = cursor.take(32)
        self.reorderings = cursor.number("I")
        self.carried_root = cursor.take(32)
        self.state_root = cursor.take(32)


class Batch:
    """4. Batch."""

    def __init__(self, data):
        check_size(data)
        cursor = Cursor(data)
        self.header = OrderHeader(cursor.take(ORDER_HEADER_BYTES))
        self.envelopes = [cursor.string() for _ in range(self.header.envelope_count)]
        cursor.finish()


class Result:
    """4. Result."""

    def __init__(self, data):
        check_size(data)
        cursor = Cursor(data)
        self.header = ResultHeader(cursor.take(RESULT_HEADER_BYTES))
        self.outcomes = [cursor.string() for _ in range(self.header.outcome_count)]
        origins = []
        self.carried = []
        for _ in range(self.header.carried_count):
            origin = cursor.take(12)
            origins.append(origin)
            self.carried.append(origin + cursor.string())
        cursor.finish()
        # Big-endian numbers are ordered as their bytes are.
        if any(left >= right for left, right in zip(origins, origins[1:])):
            raise Fault("carried outcomes do not ascend")
        if origins and struct.unpack(">Q", origins[-1][:8])[0] >= self.header.height:
            raise Fault("a carried outcome is not of an earlier block")


def check_size(data):
    if len(data) > RECORD_BYTES_MAX:
        raise Fault("the block is too large")


def check_equal(what, expected, found):
    if expected != found:
        show = lambda value: value.hex() if isinstance(value, bytes) else value
        raise Fault(f"{what}: expected {show(expected)}, found {show(found)}")


def check_genesis(batch):
    """5. Genesis and parameters: the order."""
    header = batch.header
    check_equal("proposer", ZERO_HASH, header.proposer)
    check_equal("number of envelopes", 1, header.envelope_count)
    tag, parameters = batch.envelopes[0][:16], batch.envelopes[0][16:]
    check_equal("tag of the genesis envelope", b"tally genesis v2", tag)
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


def check_genesis_result(result):
    """5. Genesis and parameters: the result."""
    header = result.header
    check_equal("snapshot height", 0, header.snapshot_height)
    check_equal("outcomes", [b""], result.outcomes)
    check_equal("carried outcomes", [], result.carried)
    check_equal("number of effects", 0, header.effect_count)
    check_equal("effects root", merkle_root([]), header.effects_root)
    check_equal("reorderings", 0, header.reorderings)
    check_equal("carried root", ZERO_HASH, header.carried_root)


def check_order(batch, previous):
    """4. A chain is valid if ..., of orders."""
    header = batch.header
    if previous is None:
        check_equal("height", 0, header.height)
        check_equal("previous order hash", ZERO_HASH, header.previous_hash)
        check_genesis(batch)
    else:
        check_equal("height", previous.height + 1, header.height)
        check_equal("ledger id", previous.ledger_id, header.ledger_id)
        check_equal("previous order hash", previous.hash, header.previous_hash)
        if header.time_us < previous.time_us:
            raise Fault(f"time runs back from {previous.time_us} to {header.time_us}")
    check_equal("envelopes root", header.envelopes_root, merkle_root(batch.envelopes))


def check_result(result, order, previous):
    """4. A chain is valid if ..., of results."""
    header = result.header
    check_equal("height of the result", order.height, header.height)
    check_equal("ledger id of the result", order.ledger_id, header.ledger_id)
    check_equal("order hash", order.hash, header.order_hash)
    before = previous.hash if previous else ZERO_HASH
    check_equal("previous result hash", before, header.previous_hash)
    check_equal("number of outcomes", order.envelope_count, header.outcome_count)
    if header.executor == 0:
        raise Fault("the executor is 0")
    if header.height == 0:
        check_genesis_result(result)
    elif header.snapshot_height >= header.height:
        raise Fault(f"snapshot height {header.snapshot_height} is not in the past")
    leaves = result.outcomes + result.carried
    check_equal("outcomes root", header.outcomes_root, merkle_root(leaves))


# 8. Files

STREAMS = {"orders": 1, "results": 2}
MARKS = (b"TRST", b"TNXT")


class Segment:
    def __init__(self, path, stream, first_height, successor, before):
        """`successor`: path of the next one, if there is one; `before`: the segment before."""
        with open(path, "rb") as file:
            self.data = file.read()
        self.path, self.is_last = path, successor is None
        self.stream, self.closed, self.successor = stream, False, successor
        header = self.data[:52]
        if len(header) < 52 or header[:8] != b"TALLYSEG" or zlib.crc32(header[:48]) != u32(header, 48):
            after_closed = before is not None and before.closed
            if self.is_last and not any(self.data[52:]) and not after_closed:
                raise TornTail(f"torn or damaged tail at block {first_height} ({path}, offset 0)")
            raise Fault("the segment header is damaged")
        version, code, self.ledger_id, first, self.salt = struct.unpack(">II16sQ8s", header[8:48])
        check_equal("segment format version", 2, version)
        check_equal("stream", STREAMS[stream], code)
        check_equal("first height", first_height, first)
        self.at = 52

    def record_header(self, at, magics=(b"TREC",)):
        """Length, height, durable_below and payload checksum, or None."""
        header = self.data[at : at + 32]
        if len(header) < 32 or header[:4] not in magics:
            return None
        if zlib.crc32(self.salt + header[:28]) != u32(header, 28):
            return None
        return struct.unpack(">IQQI", header[4:28])

    def mark(self, height, head):
        """The magic of a valid mark at the end of the records, or None."""
        mark = self.record_header(self.at, MARKS)
        named = self.data[self.at + 32 : self.at + 64]
        if not mark or mark[0] != 32 or len(named) != 32 or zlib.crc32(self.salt + named) != mark[3]:
            return None
        check_equal("height of the mark", height, mark[1])
        check_equal("durable_below of the mark", height, mark[2])
        if head is not None:
            check_equal("head of the mark", head, named)
        return self.data[self.at : self.at + 4]

    def ends(self, height, head):
        """Whether the records end here, as they may."""
        rest = self.data[self.at :]
        mark = self.mark(height, head)
        self.closed = mark == b"TNXT" and len(rest) == 64
        if self.closed:
            if self.is_last:
                raise Fault("the segment behind this one is missing")
            return True
        quiet = not any(rest[64:] if mark == b"TRST" else rest)
        if self.is_last:
            return quiet
        return not rest or self.is_unfinished(height)

    def is_unfinished(self, height):
        """Whether a crash may have come before this segment was closed: the next one is empty."""
        if os.path.basename(self.successor) != f"{height:020}.tally":
            return False
        with open(self.successor, "rb") as file:
            return not any(file.read()[52:84])

    def payloads(self, height, head):
        """The records' bytes, in order; `height` is that of the next one, `head` the hash before."""
        while self.at < len(self.data):
            record = self.record_header(self.at)
            if not record and self.ends(height, head):
                return
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
            kind = OrderHeader if self.stream == "orders" else ResultHeader
            head = kind(payload[: kind.SIZE]).hash

    def unreadable(self, height):
        if self.is_last and not self.proves_durable(height):
            raise TornTail(
                f"torn or damaged tail at block {height} ({self.path}, offset {self.at})"
            )
        raise Fault(f"damage at offset {self.at}")

    def proves_durable(self, height):
        for magic in (b"TREC", *MARKS):
            at = self.data.find(magic, self.at)
            while at >= 0:
                record = self.record_header(at, (magic,))
                if record and record[1] > height and record[2] > height:
                    return True
                at = self.data.find(magic, at + 1)
        return False


def u32(data, offset):
    return struct.unpack_from(">I", data, offset)[0]


# Headers of pruned blocks: docs/backup-format.md, section 3

# Offsets of the fields that a header may share with the one before.
REPEATED = {OrderHeader: (66, 98), ResultHeader: (186, 218)}


def check_piece(data, kind, stream, height, head):
    """Checks a file of headers that follows the header `head`; returns the last one."""
    check_equal("hash of the file", sha256(b"tally heads v2\0\0" + data[:-32]), data[-32:])
    cursor = Cursor(data[:-32])
    check_equal("magic", b"TALLYHDR", cursor.take(8))
    check_equal("format version", 2, cursor.number("I"))
    check_equal("stream", STREAMS[stream], cursor.number("I"))
    ledger_id = cursor.take(16)
    check_equal("first height", height, cursor.number("Q"))
    previous_hash = cursor.take(32)
    genesis = cursor.string()
    check_equal("genesis is there", height == 0 and kind is OrderHeader, genesis != b"")
    if head:
        check_equal("ledger id", head.ledger_id, ledger_id)
    check_equal("previous hash", head.hash if head else ZERO_HASH, previous_hash)
    repeated = [ZERO_HASH, ZERO_HASH]
    for _ in range(cursor.number("I")):
        changed = cursor.number("B")
        if changed > 3:
            raise Fault("it does not say which fields of a header changed")
        for bit in range(2):
            if changed >> bit & 1:
                field = cursor.take(32)
                if field == repeated[bit]:
                    raise Fault("a field is said to change and does not")
                repeated[bit] = field
        fields = [b"\0\2", ledger_id, struct.pack(">Q", height), previous_hash]
        start = COMMON_BYTES
        for offset, field in zip(REPEATED[kind], repeated):
            fields += [cursor.take(offset - start), field]
            start = offset + 32
        fields.append(cursor.take(kind.SIZE - start))
        head = kind(b"".join(fields))
        if genesis and height == 0:
            batch = Batch(genesis)
            check_order(batch, None)
            check_equal("genesis", batch.header.hash, head.hash)
        previous_hash = head.hash
        height += 1
    cursor.finish()
    return head


def check_headers(folder, kind, stream, first_record):
    """Checks the headers of the records below `first_record`; returns them all."""
    folder = os.path.join(folder, stream[:-1] + "-headers")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    head = None
    for name in names:
        height = head.height + 1 if head else 0
        if height == first_record:
            break
        path = os.path.join(folder, name)
        try:
            check_equal("name", f"{height:020}.headers", name)
            with open(path, "rb") as file:
                head = check_piece(file.read(), kind, stream, height, head)
        except Fault as fault:
            raise Fault(f"headers from block {height} on ({path}): {fault}") from None
    check_equal(f"first of the {stream}", head.height + 1 if head else 0, first_record)
    return head


def first_height(folder, stream):
    """Of the oldest record of a stream."""
    segments = os.path.join(folder, stream)
    names = sorted(os.listdir(segments)) if os.path.isdir(segments) else []
    if names and re.fullmatch(r"[0-9]{20}\.tally", names[0]):
        return int(names[0][:20])
    return 0


def records(folder, stream, height):
    """Yields ledger id, path and bytes of each record of a stream, from `height` on."""
    segments = os.path.join(folder, stream)
    names = sorted(os.listdir(segments)) if os.path.isdir(segments) else []
    segment = None
    for position, name in enumerate(names):
        path = os.path.join(segments, name)
        try:
            if not re.fullmatch(r"[0-9]{20}\.tally", name):
                raise Fault("this is not a segment's name")
            check_equal("first height of the segment", height, int(name[:20]))
            successor = os.path.join(segments, names[position + 1]) if names[position + 1 :] else None
            segment = Segment(path, stream, height, successor, segment)
            for payload in segment.payloads(height, None):
                yield segment.ledger_id, path, payload
                height += 1
        except Fault as fault:
            raise Fault(f"block {height} ({path}): {fault}") from None


def check_chain(folder):
    """Checks all blocks of a data folder. Returns the last order header, the last result header and
    the torn tails."""
    torn = []
    first, first_result = first_height(folder, "orders"), first_height(folder, "results")
    head = check_headers(folder, OrderHeader, "orders", first)
    result_head = check_headers(folder, ResultHeader, "results", first_result)
    if first_result > first:
        raise Fault(f"results {first} to {first_result - 1} are missing")
    results = records(folder, "results", first_result)
    try:
        # Of pruned orders only the headers are left, of which a result names the hash.
        while result_head is None or result_head.height + 1 < first:
            if first == 0:
                break
            ledger_id, path, payload = next(results)
            header = Result(payload).header
            check_equal("ledger id", ledger_id, header.ledger_id)
            check_equal("height", result_head.height + 1 if result_head else 0, header.height)
            before = result_head.hash if result_head else ZERO_HASH
            check_equal("previous result hash", before, header.previous_hash)
            result_head = header
    except (StopIteration, TornTail):
        raise Fault("results are missing whose orders were pruned") from None
    if first > 0:
        check_equal("order hash of the last pruned result", head.hash, result_head.order_hash)
    try:
        for ledger_id, path, payload in records(folder, "orders", first):
            try:
                batch = Batch(payload)
                check_equal("ledger id", ledger_id, batch.header.ledger_id)
                check_order(batch, head)
                head = batch.header
                found = next_result(results, torn)
                if found:
                    result = Result(found[2])
                    check_equal("ledger id", found[0], result.header.ledger_id)
                    check_result(result, head, result_head)
                    result_head = result.header
            except Fault as fault:
                height = head.height + 1 if head else 0
                raise Fault(f"block {height} ({path}): {fault}") from None
    except TornTail as tail:
        torn.append(str(tail))
    if head is None:
        if next_result(results, torn):
            raise Fault("there are results, and no orders")
    elif result_head and result_head.height == head.height:
        check_end(results, torn)
    return head, result_head, torn


def check_end(results, torn):
    """Whatever lies behind the result of the last order does not count."""
    try:
        behind = next_result(results, torn)
    except Fault as fault:
        behind = str(fault)
    if behind:
        torn.append("there are results behind the last order; they do not count")


def next_result(results, torn):
    """A torn tail of the results is their end."""
    try:
        return next(results, None)
    except TornTail as tail:
        torn.append(f"results: {tail}; nothing is lost, they are computed again")
        return None


# 7. Receipts

RECEIPT_MEMBERS = {
    "version", "height", "head", "result", "orders", "index", "envelope", "envelope_proof",
    "outcome_index", "outcome", "outcome_proof",
}  # fmt: skip
CERTIFIED_MEMBERS = {"first_block", "successions", "links", "certificate"}


def unhex(text):
    if not isinstance(text, str) or not re.fullmatch(r"([0-9a-f]{2})*", text):
        raise Fault("lower-case hexadecimal text expected")
    return bytes.fromhex(text)


def unhex_hash(text):
    value = unhex(text)
    check_equal("bytes of a hash", 32, len(value))
    return value


def unhex_list(receipt, name):
    if not isinstance(receipt[name], list):
        raise Fault(f"{name} is not a list")
    return [unhex(text) for text in receipt[name]]


def check_proof(receipt, what, leaf, index, leaves, root):
    proof = unhex_list(receipt, what + "_proof")
    for value in proof:
        check_equal("bytes of a hash", 32, len(value))
    check_equal(f"{what}s root", root, root_from_proof(leaf, index, leaves, proof))


def check_receipt(receipt, trusted_head):
    """Checks a receipt's JSON form; returns the header of the deciding result."""
    if not isinstance(receipt, dict) or set(receipt) != RECEIPT_MEMBERS:
        raise Fault("this is not a receipt")
    for name in ("version", "height", "index", "outcome_index"):
        if type(receipt[name]) is not int:
            raise Fault(f"{name} is not a number")
    check_equal("version", 2, receipt["version"])
    result = ResultHeader(unhex(receipt["result"]))
    check_equal("height", result.height, receipt["height"])
    check_equal("head", result.hash, unhex(receipt["head"]))
    check_equal("trusted head", trusted_head, result.hash)
    orders = [OrderHeader(data) for data in unhex_list(receipt, "orders")]
    if not orders:
        raise Fault("there is no order header")
    check_equal("order hash", result.order_hash, orders[0].hash)
    for after, before in zip(orders, orders[1:]):
        check_equal("ledger id", after.ledger_id, before.ledger_id)
        check_equal("height", after.height, before.height + 1)
        check_equal("previous order hash", after.previous_hash, before.hash)
    origin, index, outcome_index = orders[-1], receipt["index"], receipt["outcome_index"]
    envelope, outcome = unhex(receipt["envelope"]), unhex(receipt["outcome"])
    check_proof(receipt, "envelope", envelope, index, origin.envelope_count, origin.envelopes_root)
    if len(orders) == 1:
        check_equal("index of the outcome", index, outcome_index)
        if outcome_index >= result.outcome_count:
            raise Fault("the outcome is not one of the block's own")
    else:
        if outcome_index < result.outcome_count:
            raise Fault("the outcome is not a carried one")
        outcome = struct.pack(">QI", origin.height, index) + outcome
    leaves = result.outcome_count + result.carried_count
    check_proof(receipt, "outcome", outcome, outcome_index, leaves, result.outcomes_root)
    return result


def check_row_receipt(receipt, trusted_head):
    """Checks a row receipt's JSON form; returns its header and the hash of the row afterwards."""
    if not isinstance(receipt, dict):
        raise Fault("this is not a row receipt")
    cursor = Cursor(unhex(receipt.get("row_receipt")))
    check_equal("version", 2, cursor.number("B"))
    header = ResultHeader(cursor.take(RESULT_HEADER_BYTES))
    check_equal("trusted head", trusted_head, header.hash)
    index = cursor.number("Q")
    leaf = cursor.string()
    proof = [cursor.take(32) for _ in range(cursor.number("B"))]
    cursor.finish()
    root = root_from_proof(leaf, index, header.effect_count, proof)
    check_equal("effects root", header.effects_root, root)

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
        "head": header.hash.hex(),
        "table": table,
        "key": key.hex(),
        "before": None if before == ZERO_HASH else before.hex(),
        "after": None if after == ZERO_HASH else after.hex(),
        "previous_height": previous_height,
    }
    check_equal("members", said, receipt)
    return header, after


# docs/votes.md: Ed25519 by the rules of ZIP 215, in the plainest form.

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    """Of points in extended coordinates."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(number, point):
    total = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = add(total, point)
        point = add(point, point)
        number >>= 1
    return total


def point_of(data):
    number = int.from_bytes(data, "little")
    y, sign = (number & (1 << 255) - 1) % P, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        raise Fault("this is no point of the curve")
    if x & 1 != sign:
        x = -x % P
    return x, y, 1, x * y % P


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signature_holds(key, message, signature):
    r, s = point_of(signature[:32]), int.from_bytes(signature[32:], "little")
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    k = int.from_bytes(digest, "little") % L
    right = times(8, add(r, times(k, point_of(key))))
    left = times(8, times(s, BASE))
    same = (left[0] * right[2] - right[0] * left[2], left[1] * right[2] - right[1] * left[2])
    return s < L and all(value % P == 0 for value in same)


def electors_of(first_block):
    """The header of the first block's bytes, and the electors that it names."""
    header = OrderHeader(first_block[:ORDER_HEADER_BYTES])
    envelope = first_block[ORDER_HEADER_BYTES:]
    check_equal("height of the first block", 0, header.height)
    check_equal("envelopes root", header.envelopes_root, merkle_root([envelope]))
    if not envelope.startswith(b"tally genesis v2"):
        raise Fault("the first block's envelope is none of genesis")
    others = parameters_of(envelope[16:])
    keys = keys_of(others, "electors")
    votes = int(others.get("votes", 2 * len(keys) // 3 + 1))
    liars = int(others.get("liars", max(len(keys) - 1, 0) // 3))
    return header, Electors(header.ledger_id, keys, votes, liars, None)


def parameters_of(data):
    """The parameters by name, but for protocol and encoding of rows."""
    cursor = Cursor(data)
    cursor.string()
    cursor.string()
    others, last = {}, ""
    for place in range(cursor.number("I")):
        name = cursor.string().decode()
        if place and name.encode() <= last:
            raise Fault("parameters are out of order")
        others[name], last = cursor.string().decode(), name.encode()
    cursor.finish()
    return others


def keys_of(others, name):
    if name not in others:
        raise Fault(f"the ledger has no {name}")
    keys = {}
    for member in others[name].split(", "):
        number, key = member.split(" ")[:2]
        if int(number) in keys:
            raise Fault("two members have one number")
        keys[int(number)] = unhex_hash(key)
    return keys


class Electors:
    """Whose votes count, how many are needed, and behind which block they are known."""

    def __init__(self, ledger_id, keys, votes, liars, above):
        self.ledger_id, self.keys, self.votes, self.above = ledger_id, keys, votes, above
        if votes > len(keys) or 2 * votes <= len(keys) + liars:
            raise Fault("the rule of votes does not hold together")
        data = struct.pack(">HHH", votes, liars, len(keys))
        for number, key in sorted(keys.items()):
            data += struct.pack(">Q", number) + key
        self.hash = sha256(b"tally elect v1\0\0" + data)

    def successors(self, data):
        """Those who follow, if these have certified a block that is for them."""
        cursor = Cursor(data)
        votes, liars, count = cursor.number("H"), cursor.number("H"), cursor.number("H")
        keys, last = {}, -1
        for _ in range(count):
            number = cursor.number("Q")
            if number <= last:
                raise Fault("electors are out of order")
            keys[number], last = cursor.take(32), number
        certificate = Certificate(cursor.take(len(data) - 6 - 40 * count))
        certificate.check_votes(self)
        if self.above is not None and certificate.height <= self.above:
            raise Fault(f"block {certificate.height} does not lead on to other electors")
        others = Electors(self.ledger_id, keys, votes, liars, certificate.height)
        check_equal("electors", certificate.electors, others.hash)
        if others.hash == self.hash:
            raise Fault("the electors would follow themselves")
        return others


class Certificate:
    """Enough votes for one result."""

    def __init__(self, data):
        cursor = Cursor(data)
        check_equal("version of the certificate", 1, cursor.number("B"))
        self.ledger_id, self.height = cursor.take(16), cursor.number("Q")
        self.result_hash, self.electors = cursor.take(32), cursor.take(32)
        self.votes = {}
        for _ in range(cursor.number("H")):
            member, signature = cursor.number("Q"), cursor.take(64)
            if self.votes and max(self.votes) >= member:
                raise Fault("votes are not in the order of members")
            self.votes[member] = signature
        cursor.finish()

    def check(self, electors):
        """Whether the electors in force for its block have made it."""
        if self.electors != electors.hash:
            raise Fault(f"block {self.height} is for other electors")
        self.check_votes(electors)

    def check_votes(self, electors):
        check_equal("ledger id of the certificate", electors.ledger_id, self.ledger_id)
        if len(self.votes) < electors.votes:
            raise Fault(f"{len(self.votes)} votes, and {electors.votes} are needed")
        for member, signature in self.votes.items():
            if member not in electors.keys:
                raise Fault(f"{member} is no elector")
            message = b"tally vote v1\0\0\0" + self.ledger_id
            message += struct.pack(">QQ", member, self.height) + self.result_hash + self.electors
            if not signature_holds(electors.keys[member], message, signature):
                raise Fault(f"the signature of member {member} is not its own")


def check_certified(receipt, trusted_first_block):
    """Checks a receipt with a certificate by the hash of the first block's order header."""
    certified = receipt.pop("certified", None) if isinstance(receipt, dict) else None
    if not isinstance(certified, dict) or set(certified) != CERTIFIED_MEMBERS:
        raise Fault("this is no receipt with a certificate")
    first, electors = electors_of(unhex(certified["first_block"]))
    check_equal("first block", trusted_first_block, first.hash)
    for data in unhex_list(certified, "successions"):
        electors = electors.successors(data)
    certificate = Certificate(unhex(certified["certificate"]))
    certificate.check(electors)
    height, result_hash = certificate.height, certificate.result_hash
    below = check_receipt(receipt, unhex_hash(receipt.get("head")))
    decided = below
    check_equal("ledger id", first.ledger_id, below.ledger_id)
    for data in unhex_list(certified, "links"):
        link = ResultHeader(data)
        check_equal("height of a link", below.height + 1, link.height)
        check_equal("ledger id of a link", first.ledger_id, link.ledger_id)
        check_equal("previous result hash", link.previous_hash, below.hash)
        below = link
    check_equal("certified height", height, below.height)
    check_equal("certified result", result_hash, below.hash)
    return decided, height, list(certificate.votes)


def run(arguments):
    if arguments.command == "chain":
        return run_chain(arguments)
    if arguments.command == "certified":
        first_block = unhex_hash(arguments.first_block)
        with open(arguments.file, encoding="utf-8") as file:
            value = json.load(file)
        header, height, members = check_certified(value, first_block)
        print(f"envelope {value['index']} and its outcome in block {header.height} hold")
        print(f"members {', '.join(map(str, members))} have certified block {height}")
        return 0
    trusted_head = unhex_hash(arguments.head)
    with open(arguments.file, encoding="utf-8") as file:
        value = json.load(file)
    if arguments.command == "receipt":
        header = check_receipt(value, trusted_head)
        print(f"envelope {value['index']} and its outcome in block {header.height} hold")
        return 0
    header, after = check_row_receipt(value, trusted_head)
    if arguments.image is not None:
        image = sha256(b"tally row v1\0\0\0\0" + unhex(arguments.image))
        check_equal("row image hash", after, image)
    print(f"the row change of block {header.height} holds")
    return 0


def run_chain(arguments):
    order, result, torn = check_chain(arguments.folder)
    for tail in torn:
        print(tail, file=sys.stderr)
    orders = order.height + 1 if order else 0
    results = result.height + 1 if result else 0
    if orders == 0 and not torn:
        raise Fault("there are no blocks")
    if arguments.head is not None:
        head = result.hash if result and results == orders else b""
        check_equal("result hash of the last block", unhex_hash(arguments.head), head)
    print(f"{orders} orders and {results} results hold")
    if result:
        print(f"the last result is {result.hash.hex()}")
    return 3 if torn else 0


def main():
    parser = argparse.ArgumentParser(description="Checks a ledger from its documented bytes alone.")
    commands = parser.add_subparsers(dest="command", required=True)
    chain = commands.add_parser("chain", help="check all blocks of a data folder")
    chain.add_argument("folder")
    chain.add_argument("--head", help="the result hash that the last block must have")
    receipt = commands.add_parser("receipt", help="check one receipt")
    receipt.add_argument("file")
    receipt.add_argument("head", help="the result hash that you trust")
    certified = commands.add_parser("certified", help="check one receipt with a certificate")
    certified.add_argument("file")
    certified.add_argument("first_block", help="the hash of the first block that you trust")
    row = commands.add_parser("row", help="check one row receipt")
    row.add_argument("file")
    row.add_argument("head", help="the result hash that you trust")
    row.add_argument("--image", help="the image that the row must have after the block")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except Fault as fault:
        print(f"does not hold: {fault}", file=sys.stderr)
        return 1
    except (OSError, ValueError, RecursionError) as error:
        print(f"cannot be read: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
