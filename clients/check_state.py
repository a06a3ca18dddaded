#!/usr/bin/env python3
"""Checks proofs against a state root without any of the code that made them.

Written from docs/state-tree.md alone, with Python's standard library; the section numbers in the
comments are those of that page.

    check_state.py proof PROOF.hex ROOT --table ID [--key HEX | --first HEX --last HEX]
    check_state.py vectors state_tree.json

A proof shows all rows of a range: of one key, from one to another, or of a whole table. Keys are
the encoded primary keys in hexadecimal.

Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.
"""

import argparse
import hashlib
import json
import sys

PAGE_BYTES_MAX = 512
BELOW_ALL = 1 << 16


class Refused(Exception):
    """The proof proves nothing."""


def sha256(data):
    return hashlib.sha256(data).digest()


def number(data):
    return int.from_bytes(data, "big")


# 1. Rows and their keys


def tree_key(table, key):
    full = table.to_bytes(4, "big") + key
    return full if len(full) <= 127 else full[:96] + sha256(full)


def bit(key, position):
    byte, within = divmod(position, 9)
    return byte < len(key) and (within == 0 or key[byte] >> (8 - within) & 1 == 1)


def first_difference(a, b):
    """None if there is none."""
    if a == b:
        return None
    position = 0
    while bit(a, position) == bit(b, position):
        position += 1
    return position


# 2. The tree


def page_hash(page):
    return sha256(b"tally page v1\0\0\0" + page)


def branch_hash(position, left, right):
    return sha256(b"tally branch v1\0" + position.to_bytes(2, "big") + left + right)


def row_bytes(key, image, height):
    return bytes([len(key)]) + key + image + height.to_bytes(8, "big")


def root(rows):
    """Of (tree key, image hash, height), in the order of the keys."""
    encoded = [row_bytes(*row) for row in rows]
    if len(rows) <= 1 or sum(map(len, encoded)) <= PAGE_BYTES_MAX:
        return page_hash(b"".join(encoded))
    position = first_difference(rows[0][0], rows[-1][0])
    left = [row for row in rows if not bit(row[0], position)]
    return branch_hash(position, root(left), root(rows[len(left):]))


def page_rows(page):
    rows = []
    while page:
        length = page[0]
        if not 1 <= length <= 128 or len(page) < length + 41:
            raise Refused("the proof shows a page that is none")
        key, rest = page[1:length + 1], page[length + 1:]
        rows.append((key, rest[:32], number(rest[32:40])))
        page = rest[40:]
    return rows


# 3. Proofs


class Range:
    """From first to last, and, where it extends, what begins with last."""

    def __init__(self, first, last, extends=False):
        self.first, self.last, self.extends = first, last, extends

    def contains(self, key):
        return self.first <= key and (
            key <= self.last or self.extends and key.startswith(self.last))

    def meets(self, key, position, side):
        """Whether it may hold a key with these bits of key before position, and there side."""
        if against(self.first, key, position, side) > 0:
            return False
        end = 9 * len(self.last)
        difference = first_difference(self.last, key)
        if self.extends and position >= end and (difference is None or difference >= end):
            return True
        return against(self.last, key, position, side) >= 0


def against(bound, key, position, side):
    """Below all keys with these bits: negative; above all: positive; else zero."""
    difference = first_difference(bound, key)
    if difference is not None and difference < position:
        return bit(bound, difference) - bit(key, difference)
    return bit(bound, position) - side


def below(subtree, position, side):
    _, key, top = subtree
    if not key or position >= top or bit(key, position) != side:
        raise Refused("the proof is not the shape of a tree with these keys")


def steps(proof):
    at = 0

    def take(count):
        nonlocal at
        taken = proof[at:at + count]
        if len(taken) < count:
            raise Refused("the proof is cut short")
        at += count
        return taken

    if take(1) != b"\1":
        raise Refused("the proof is of an unknown version")
    while at < len(proof):
        kind, value = take(1)[0], number(take(2))
        if kind > 3:
            raise Refused("the proof has a step that is none")
        yield kind, value, take(value) if kind == 0 else take(32) if kind < 3 else None


def verify(proof, trusted_root, wanted):
    """All rows of the range: (tree key, image hash, height)."""
    stack, found = [], []
    for kind, value, data in steps(proof):
        if kind == 0:
            rows = page_rows(data)
            keys = [row[0] for row in rows]
            if any(a >= b for a, b in zip(keys, keys[1:])) or (
                    len(rows) > 1 and len(data) > PAGE_BYTES_MAX):
                raise Refused("the proof shows a page that is none")
            top = first_difference(keys[0], keys[-1]) if len(keys) > 1 else BELOW_ALL
            stack.append((page_hash(data), keys[0] if keys else b"", top))
            found += [row for row in rows if wanted.contains(row[0])]
            continue
        if len(stack) < (2 if kind == 3 else 1):
            raise Refused("the proof has a step that is none")
        shown = stack.pop()
        if kind == 3:
            left, right = stack.pop(), shown
            below(left, value, False)
            below(right, value, True)
            if first_difference(left[1], right[1]) != value:
                raise Refused("the proof is not the shape of a tree with these keys")
            hashes, key = (left[0], right[0]), left[1]
        else:
            side, key = kind == 2, shown[1]
            below(shown, value, not side)
            if wanted.meets(key, value, side):
                raise Refused("the proof hides rows of the range")
            hashes = (shown[0], data) if side else (data, shown[0])
        stack.append((branch_hash(value, *hashes), key, value))
    if len(stack) != 1:
        raise Refused("the proof is cut short")
    if stack[0][0] != trusted_root:
        raise Refused("the proof leads to another root")
    return found


def wanted_range(item):
    return Range(bytes.fromhex(item["first"]), bytes.fromhex(item["last"]), item["extends"])


def check_vectors(vectors):
    for tree in vectors["trees"]:
        rows = []
        for row in tree["rows"]:
            key = tree_key(row["table"], bytes.fromhex(row["key"]))
            assert key.hex() == row["tree_key"], row
            rows.append((key, bytes.fromhex(row["image"]), row["height"]))
        assert root(rows).hex() == tree["root"], "another root"
        for item in tree["proofs"]:
            wanted = wanted_range(item)
            found = verify(bytes.fromhex(item["proof"]), root(rows), wanted)
            assert found == [row for row in rows if wanted.contains(row[0])], item
            assert [row[0].hex() for row in found] == item["keys"], item
    forgeries = vectors["forgeries"]
    for item in forgeries["refused"]:
        proof, trusted = bytes.fromhex(item["proof"]), bytes.fromhex(forgeries["root"])
        try:
            verify(proof, trusted, wanted_range(item))
        except Refused as why:
            assert str(why) == item["why"], (str(why), item["why"])
        else:
            raise AssertionError(f"passes: {item}")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    proof = commands.add_parser("proof")
    proof.add_argument("proof")
    proof.add_argument("root", type=bytes.fromhex)
    proof.add_argument("--table", type=int, required=True)
    proof.add_argument("--key", type=bytes.fromhex)
    proof.add_argument("--first", type=bytes.fromhex)
    proof.add_argument("--last", type=bytes.fromhex)
    vectors = commands.add_parser("vectors")
    vectors.add_argument("file")
    arguments = parser.parse_args()
    if arguments.command == "vectors":
        with open(arguments.file, encoding="utf-8") as file:
            check_vectors(json.load(file))
        return
    table = arguments.table
    if arguments.key is not None:
        first = last = tree_key(table, arguments.key)
        wanted = Range(first, last)
    elif arguments.first is not None and arguments.last is not None:
        # Long keys that agree in 96 bytes are in no order.
        wanted = Range(tree_key(table, arguments.first[:92]),
                       tree_key(table, arguments.last[:92]), len(arguments.last) > 92)
    else:
        wanted = Range(table.to_bytes(4, "big"), table.to_bytes(4, "big"), True)
    with open(arguments.proof, encoding="ascii") as file:
        proof = bytes.fromhex(file.read())
    for key, image, height in verify(proof, arguments.root, wanted):
        print(f"key {key[4:].hex()} image {image.hex()} height {height}")


if __name__ == "__main__":
    try:
        main()
    except (Refused, AssertionError) as fault:
        print(fault, file=sys.stderr)
        sys.exit(1)
    except (OSError, ValueError) as fault:
        print(fault, file=sys.stderr)
        sys.exit(2)
