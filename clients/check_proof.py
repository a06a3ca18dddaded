#!/usr/bin/env python3
"""Checks proofs of a ledger without any of the code that made them.

Written from docs/proofs.md and the pages that it names alone, with Python's standard library; the
section numbers are those of docs/proofs.md.

    check_proof.py FILE TRUST     TRUST: a head, 64 hexadecimal digits, a verifier key, or
                                  "first:" and the hash of the first block's order header
    check_proof.py -              lines "TRUST PROOF" in hexadecimal; answers a line to each

Prints what is proven. Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.
"""

import base64
import hashlib
import json
import sys

import canonical
from check_state import Range, tree_key
from check_state import Refused as StateRefused
from check_state import verify as verify_state

HEADER_BYTES, ORDER_BYTES = 250, 174
ZEROS = bytes(32)


class Refused(Exception):
    """The proof proves nothing; the reason is one word."""


def sha256(data):
    return hashlib.sha256(data).digest()


def number(data):
    return int.from_bytes(data, "big")


def node(left, right):
    return sha256(b"\1" + left + right)


class Reader:
    """Reads bytes from the front; those that are missing make the proof malformed."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        taken = self.data[self.at:self.at + count]
        if len(taken) < count:
            raise Refused("malformed")
        self.at += count
        return taken

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return number(self.take(2))

    def u32(self):
        return number(self.take(4))

    def string(self):
        return self.take(self.u32())

    def hashes(self):
        return [self.take(32) for _ in range(self.u8())]

    def finish(self):
        if self.at < len(self.data):
            raise Refused("malformed")


class Header:
    """A result header."""

    def __init__(self, data):
        if len(data) != HEADER_BYTES or number(data[:2]) != 2:
            raise Refused("malformed")
        self.ledger_id, self.height = data[2:18], number(data[18:26])
        self.previous, self.order_hash = data[26:58], data[58:90]
        self.outcome_count, self.carried_count = number(data[102:106]), number(data[106:110])
        self.outcomes_root, self.state_root = data[110:142], data[218:250]
        self.hash = sha256(b"tally result v2\0" + data)


class Order:
    """An order header."""

    def __init__(self, data):
        if number(data[:2]) != 2:
            raise Refused("malformed")
        self.ledger_id, self.height = data[2:18], number(data[18:26])
        self.previous = data[26:58]
        self.envelope_count, self.envelopes_root = number(data[138:142]), data[142:174]
        self.hash = sha256(b"tally order v2\0\0" + data)


def climb(leaf, index, leaves, proof):
    """The root that an inclusion proof leads to; None if it does not fit."""
    if index >= leaves:
        return None
    proof, last = list(proof), leaves - 1
    while last:
        if index & 1 or index < last:
            if not proof:
                return None
            other = proof.pop(0)
            leaf = node(other, leaf) if index & 1 else node(leaf, other)
        index, last = index >> 1, last >> 1
    return None if proof else leaf


def leaf_hash(data):
    return sha256(b"\0" + data)


# 4. Signed heads. Python has no ed25519, so this is RFC 8032, section 5.1.

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    m, n = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = n - m, d - c, d + c, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar, point):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point_of(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or not x and sign:
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key, text, signature):
    a, r, s = point_of(key), point_of(signature[:32]), int.from_bytes(signature[32:], "little")
    if not a or not r or s >= L:
        return False
    digest = hashlib.sha512(signature[:32] + key + text).digest()
    return same(times(s, BASE), add(r, times(int.from_bytes(digest, "little") % L, a)))


def base64_bytes(text):
    """None if it is not the one spelling of some bytes."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return data if base64.b64encode(data).decode() == text else None


def is_name(name):
    return name != "" and " " not in name and "+" not in name and "\n" not in name


class Key:
    def __init__(self, text):
        parts = text.split("+", 2)
        data = base64_bytes(parts[2]) if len(parts) == 3 else None
        if not data or len(data) != 33 or data[0] != 1 or not is_name(parts[0]):
            raise ValueError("this is no verifier key")
        self.name, self.key = parts[0], data[1:]
        self.id = sha256(self.name.encode() + b"\n\1" + self.key)[:4]
        if self.id.hex() != parts[1] or point_of(self.key) is None:
            raise ValueError("this is no verifier key")

    def open(self, note):
        """Origin, size and root that this key has signed."""
        text, lines, head = parse_note(note)
        for name, signed in lines:
            if name == self.name and signed[:4] == self.id:
                signature = signed[4:]
                if len(signature) != 64 or not is_signed(self.key, text.encode(), signature):
                    raise Refused("signature")
                return head
        raise Refused("key")


def parse_note(note):
    try:
        note = note.decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise Refused("note") from None
    end = note.rfind("\n\n")
    if end < 0 or any(c < " " and c != "\n" for c in note) or not note.endswith("\n"):
        raise Refused("note")
    text, signatures = note[:end + 1], note[end + 2:-1].split("\n")
    said = text[:-1].split("\n")
    if end + 2 >= len(note) or len(signatures) > 100 or len(said) < 3 or "" in said:
        raise Refused("note")
    lines = []
    for line in signatures:
        name, space, signed = line[2:].partition(" ")
        signed = base64_bytes(signed)
        if not line.startswith("— ") or not space or not is_name(name) or not signed or (
                len(signed) < 5):
            raise Refused("note")
        lines.append((name, signed))
    origin, size, root = said[:3]
    root = base64_bytes(root)
    plain = all(c in "0123456789" for c in size) and (size == "0" or size[0] != "0")
    if not plain or len(size) > 19 or int(size) >= 2**63 or not root or len(root) != 32:
        raise Refused("note")
    return text, lines, (origin, int(size), root)


# 5. Consistency


def are_consistent(old, new, proof):
    (size, root), (new_size, new_root) = old, new
    if not 0 < size <= new_size:
        return False
    if size == new_size:
        return not proof and root == new_root
    path = ([root] if size & (size - 1) == 0 else []) + proof
    if not path:
        return False
    i, last = size - 1, new_size - 1
    while i & 1:
        i, last = i >> 1, last >> 1
    a = b = path[0]
    for p in path[1:]:
        if last == 0:
            return False
        if i & 1 or i == last:
            a, b = node(p, a), node(p, b)
            while i and not i & 1:
                i, last = i >> 1, last >> 1
        else:
            b = node(b, p)
        i, last = i >> 1, last >> 1
    return last == 0 and a == root and b == new_root


# Envelopes, docs/order-format.md, section 2: as much of them as tells who has signed one


class Envelope(canonical.Reader):
    def signed(self):
        """Keys with signatures, keys with approvals, and the id that both are over."""
        form = self.byte()
        if form >> 3 != 2:
            raise ValueError("an unknown form")
        self.take(16)
        self.string()
        if form & 1:
            self.string()
        else:
            self.take(16)
            self.varint()
        self.varint()
        self.varint()
        if form & 2:
            self.list(lambda: (self.string(), self.string()), 64)
        if form & 4:
            self.take(16)
        self.string()
        body = self.data[: self.at]
        lists = [], []
        if self.left():
            lists = [self.list(lambda: (self.take(32), self.string()), 64) for _ in range(2)]
        self.finish()
        return *lists, sha256(b"tally envelope 1" + body)


def signers(envelope):
    """The keys whose signatures over it are right, then those whose approvals are; none of bytes
    that are no envelope."""
    try:
        signatures, approvals, envelope_id = Envelope(envelope).signed()
    except ValueError:
        return []

    signed = [key.hex() for key, signature in signatures
              if len(signature) == 64
              and is_signed(key, b"tally signature1" + envelope_id, signature)]
    return signed + ["approval:" + key.hex() for key, approval in approvals
                     if is_approved(key, envelope_id, approval)]


def is_approved(key, envelope_id, approval):
    """Whether an approval is right: of this transaction alone, or of a tree that it is in."""
    message = b"tally approval 1" + envelope_id
    signature, rest = approval[:64], approval[64:]
    if rest:
        if len(rest) % 32 != 4:
            return False
        leaves, index = int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")
        path = [rest[at:at + 32] for at in range(4, len(rest), 32)]
        root = climb(leaf_hash(message), index, leaves, path)
        if root is None or not 2 <= leaves <= 1024:
            return False
        message = b"tally approvals1" + rest[:2] + root
    return len(signature) == 64 and is_signed(key, message, signature)


# 2. and 3. The bodies, each with what it says if it holds


class Receipt:
    def __init__(self, data):
        reader = Reader(data)
        if reader.u8() != 2:
            raise Refused("malformed")
        self.header = Header(reader.take(HEADER_BYTES))
        self.orders = [Order(reader.take(ORDER_BYTES)) for _ in range(reader.u8())]
        self.index, self.envelope, self.envelope_proof = (
            reader.u32(), reader.string(), reader.hashes())
        self.outcome_index, self.outcome, self.outcome_proof = (
            reader.u32(), reader.string(), reader.hashes())
        reader.finish()
        if not self.orders:
            raise Refused("malformed")

    def holds(self):
        header, orders = self.header, self.orders
        for after, before in zip(orders, orders[1:]):
            if (before.height + 1, before.ledger_id, before.hash) != (
                    after.height, after.ledger_id, after.previous):
                return False
        origin, leaf = orders[-1], self.outcome
        if len(orders) == 1:
            fits = self.outcome_index == self.index and self.index < header.outcome_count
        else:
            fits = self.outcome_index >= header.outcome_count
            leaf = origin.height.to_bytes(8, "big") + self.index.to_bytes(4, "big") + leaf
        envelopes = climb(leaf_hash(self.envelope), self.index, origin.envelope_count,
                          self.envelope_proof)
        outcomes = climb(leaf_hash(leaf), self.outcome_index,
                         header.outcome_count + header.carried_count, self.outcome_proof)
        return fits and header.order_hash == orders[0].hash and (
            envelopes == origin.envelopes_root and outcomes == header.outcomes_root)

    def check(self, _trust):
        if not self.holds():
            raise Refused("receipt")
        said = (f"receipt {self.header.height} {self.orders[-1].height} {self.index} "
                f"{self.envelope.hex()}:{self.outcome.hex()}")
        return " ".join([said, *signers(self.envelope)])


class Rows:
    def __init__(self, data):
        reader = Reader(data)
        self.header = Header(reader.take(HEADER_BYTES))
        self.table, self.first, self.last, self.extends = (
            reader.u32(), reader.string(), reader.string(), reader.u8())
        self.proof = reader.string()
        self.rows = [(reader.string(), reader.string()) for _ in range(reader.u32())]
        reader.finish()
        if self.extends > 1 or not self.contains(self.first):
            raise Refused("malformed")

    def contains(self, key):
        return self.first <= key and (
            key <= self.last or self.extends == 1 and key.startswith(self.last))

    def range(self):
        if self.first == self.last and not self.extends:
            key = tree_key(self.table, self.first)
            return Range(key, key)
        first, last = tree_key(self.table, self.first[:92]), tree_key(self.table, self.last[:92])
        return Range(first, last, self.extends == 1 or len(self.last) > 92)

    def check(self, _trust):
        if self.header.state_root == ZEROS:
            raise Refused("state_root")
        try:
            shown = verify_state(self.proof, self.header.state_root, self.range())
        except StateRefused:
            raise Refused("state") from None
        told = [(tree_key(self.table, key), sha256(b"tally row v1\0\0\0\0" + image))
                for key, image in self.rows]
        if told != [(key, image) for key, image, _ in shown]:
            raise Refused("rows")
        says = [f"rows {self.header.height} {self.table} {self.first.hex()}:{self.last.hex()}:"
                f"{self.extends}"]
        says += [f"{key.hex()}:{image.hex()}:{height}"
                 for (key, image), (_, _, height) in zip(self.rows, shown) if self.contains(key)]
        return " ".join(says)


class Head:
    def __init__(self, data):
        self.header = Header(data)

    def check(self, _trust):
        return f"head {self.header.height} {self.header.hash.hex()}"


class Consistency:
    header = None

    def __init__(self, data):
        reader = Reader(data)
        self.old, self.new, self.hashes = reader.string(), reader.string(), reader.hashes()
        reader.finish()

    def check(self, trust):
        if not isinstance(trust, Key):
            raise Refused("trust")
        (old_origin, *old), (origin, *new) = trust.open(self.old), trust.open(self.new)
        if old_origin != origin:
            raise Refused("origin")
        if not are_consistent(old, new, self.hashes):
            raise Refused("consistency")
        return f"consistency {old[0]}:{old[1].hex()} {new[0]}:{new[1].hex()}"


# Votes: docs/votes.md, sections 1 to 3 and 6.


class Electors:
    """Whose votes count, and how many are needed."""

    def __init__(self, keys, votes, liars):
        self.keys, self.votes, self.above = keys, votes, None
        self.holds = votes <= len(keys) and 2 * votes > len(keys) + liars
        data = b"".join(n.to_bytes(2, "big") for n in (votes, liars, len(keys)) if self.holds)
        members = (member.to_bytes(8, "big") + key for member, key in sorted(keys.items()))
        self.hash = sha256(b"tally elect v1\0\0" + data + b"".join(members))


class Certificate:
    def __init__(self, reader):
        if reader.u8() != 1:
            raise Refused("malformed")
        self.ledger_id, self.height = reader.take(16), number(reader.take(8))
        self.result_hash, self.electors = reader.take(32), reader.take(32)
        self.votes = {}
        for _ in range(reader.u16()):
            member, signature = number(reader.take(8)), reader.take(64)
            if self.votes and max(self.votes) >= member:
                raise Refused("malformed")
            self.votes[member] = signature
        reader.finish()

    def is_by(self, ledger_id, electors):
        """Whether these electors have made it, also for a block that is for others."""
        def is_vote(member, signature):
            message = b"tally vote v1\0\0\0" + ledger_id + member.to_bytes(8, "big")
            message += self.height.to_bytes(8, "big") + self.result_hash + self.electors
            return member in electors.keys and is_signed(electors.keys[member], message, signature)
        return (self.ledger_id == ledger_id and len(self.votes) >= electors.votes
                and all(is_vote(*vote) for vote in self.votes.items()))


class Succession:
    def __init__(self, data):
        reader = Reader(data)
        votes, liars, keys = reader.u16(), reader.u16(), {}
        for _ in range(reader.u16()):
            member = number(reader.take(8))
            if keys and max(keys) >= member:
                raise Refused("malformed")
            keys[member] = reader.take(32)
        self.next, self.certificate = Electors(keys, votes, liars), Certificate(reader)
        self.next.above = self.certificate.height

    def holds(self, ledger_id, before):
        named = self.next.hash
        return (self.next.holds and self.certificate.electors == named != before.hash
                and (before.above is None or before.above < self.certificate.height)
                and self.certificate.is_by(ledger_id, before))


def first_electors(block, trusted_hash):
    """Ledger id and electors of a first block, if it is the trusted one."""
    order, envelope = Order(block[:ORDER_BYTES]), block[ORDER_BYTES:]
    is_it = (order.hash == trusted_hash and order.height == 0 and order.envelope_count == 1
             and order.envelopes_root == leaf_hash(envelope)
             and envelope[:16] == b"tally genesis v2")
    try:
        if not is_it:
            raise Refused("first")
        reader = Reader(envelope[16:])
        reader.string(), reader.string()
        others = {reader.string(): reader.string().decode() for _ in range(reader.u32())}
        reader.finish()
        members = [member.split(" ") for member in others[b"electors"].split(", ")]
        keys = {int(member[0]): bytes.fromhex(member[1]) for member in members}
        votes = int(others.get(b"votes", 2 * len(keys) // 3 + 1))
        electors = Electors(keys, votes, int(others.get(b"liars", (len(keys) - 1) // 3)))
        if not electors.holds:
            raise Refused("first")
    except (Refused, KeyError, ValueError, IndexError) as fault:
        raise Refused("first") from fault
    return order.ledger_id, electors


class Votes:
    """An anchor that leads to the first block."""

    def __init__(self, reader):
        self.first_block = reader.string()
        if len(self.first_block) < ORDER_BYTES:
            raise Refused("malformed")
        Order(self.first_block[:ORDER_BYTES])
        self.successions = [Succession(reader.string()) for _ in range(reader.u32())]
        self.links = [Header(reader.take(HEADER_BYTES)) for _ in range(reader.u32())]
        self.certificate = Certificate(Reader(reader.string()))

    def check(self, header, first_block):
        ledger_id, electors = first_electors(self.first_block, first_block)
        for succession in self.successions:
            if not succession.holds(ledger_id, electors):
                raise Refused("electors")
            electors = succession.next
        certificate = self.certificate
        if certificate.electors != electors.hash or not certificate.is_by(ledger_id, electors):
            raise Refused("votes")
        last = last_of(header, self.links)
        if (last.ledger_id, last.height, last.hash) != (
                ledger_id, certificate.height, certificate.result_hash):
            raise Refused("head")


class FirstBlock(bytes):
    """The hash of a first block's order header."""


def last_of(header, links):
    for behind in links:
        if (behind.previous, behind.height, behind.ledger_id) != (
                header.hash, header.height + 1, header.ledger_id):
            raise Refused("links")
        header = behind
    return header


def check_anchor(header, kind, anchor, trust):
    if isinstance(trust, Key):
        if kind != 2:
            raise Refused("trust")
        note, hashes = anchor
        origin, size, root = trust.open(note)
        if origin != "tally/" + header.ledger_id.hex():
            raise Refused("origin")
        if climb(leaf_hash(header.hash), header.height, size, hashes) != root:
            raise Refused("inclusion")
        return
    if isinstance(trust, FirstBlock):
        if kind != 3:
            raise Refused("trust")
        anchor.check(header, trust)
        return
    if last_of(header, anchor if kind == 1 else []).hash != trust:
        raise Refused("head")


def verify(proof, trust):
    """What a proof proves to a client that trusts a head (bytes), a Key or a FirstBlock."""
    reader = Reader(proof)
    if reader.u8() != 1:
        raise Refused("malformed")
    kind, data = reader.u8(), reader.string()
    if not 1 <= kind <= 4:
        raise Refused("malformed")
    body = (Receipt, Rows, Head, Consistency)[kind - 1](data)
    anchored, anchor = reader.u8(), None
    if anchored > 3 or kind == 4 and anchored:
        raise Refused("malformed")
    if anchored == 1:
        anchor = [Header(reader.take(HEADER_BYTES)) for _ in range(reader.u32())]
    elif anchored == 2:
        anchor = reader.string(), reader.hashes()
    elif anchored == 3:
        anchor = Votes(reader)
    reader.finish()
    if body.header:
        check_anchor(body.header, anchored, anchor, trust)
    return body.check(trust)


def trusted(text):
    head = text.removeprefix("first:")
    if len(head) != 64 or any(c not in "0123456789abcdef" for c in head):
        return Key(text)
    return bytes.fromhex(head) if head == text else FirstBlock(bytes.fromhex(head))


def answer_lines():
    for line in sys.stdin:
        trust, _, proof = line.rstrip("\n").partition(" ")
        try:
            print("ok", verify(bytes.fromhex(proof), trusted(trust)))
        except Refused as why:
            print("no", why)


def main():
    if sys.argv[1:] == ["-"]:
        return answer_lines()
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    with open(sys.argv[1], "rb") as file:
        proof = file.read()
    if proof.startswith(b"{"):
        proof = bytes.fromhex(json.loads(proof)["proof"])
    return print(verify(proof, trusted(sys.argv[2])))


if __name__ == "__main__":
    try:
        main()
    except Refused as why:
        print("the proof does not hold:", why, file=sys.stderr)
        sys.exit(1)
    except (OSError, ValueError, KeyError) as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)
