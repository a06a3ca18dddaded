#!/usr/bin/env python3
"""Reads what is ordered, as docs/order-format.md describes it, with Python's standard library and
canonical.py beside it.

    read_envelope.py envelope HEX        prints it and its id as JSON
    read_envelope.py proposal HEX
    read_envelope.py certificate HEX
    read_envelope.py submissions HEX
    read_envelope.py draws SEED_HEX      the first draws
    read_envelope.py vectors FILE        compares with docs/vectors/envelopes.json or draws.json

Exit codes: 0 read, 1 refused, 2 wrong usage. The section numbers in the comments are those of the
page.
"""

import hashlib
import json
import struct
import sys

import canonical

NAME_BYTES_MAX = 255
SETTING_BYTES_MAX = 4096
SIGNATURE_BYTES_MAX = 8192
LIST_MAX = 64
WINDOW = 1024


class Reader(canonical.Reader):
    """1. Strict reading from the front."""

    def name(self):
        name = self.string()
        if not 1 <= len(name) <= NAME_BYTES_MAX:
            raise ValueError("a name of a wrong length")
        return name.decode()


def ascending(keys):
    keys = list(keys)
    if any(left >= right for left, right in zip(keys, keys[1:])):
        raise ValueError("a list that does not ascend")


def read_signatures(reader):
    def signature():
        key_id, data = reader.take(32), reader.string()
        if len(data) > SIGNATURE_BYTES_MAX:
            raise ValueError("a signature that is too long")
        return [key_id.hex(), data.hex()]

    signatures = reader.list(signature, LIST_MAX)
    ascending(key_id for key_id, _ in signatures)
    return signatures


def read_settings(reader):
    def setting():
        name, value = reader.name(), reader.string()
        if len(value) > SETTING_BYTES_MAX:
            raise ValueError("a value that is too long")
        return [name, value.decode()]

    settings = reader.list(setting, LIST_MAX)
    if not settings:
        raise ValueError("an empty list of settings")
    ascending(name.encode() for name, _ in settings)
    return settings


def read_envelope(data):
    """2. Envelopes."""
    reader = Reader(data)
    form = reader.byte()
    if form >> 3 != 2:
        raise ValueError("an unknown form of envelope")
    envelope = {"ledger_id": reader.take(16).hex(), "principal": reader.name()}
    if form & 1:
        envelope["submission"] = {"key": reader.name()}
    else:
        submitter = reader.take(16).hex()
        envelope["submission"] = {"submitter": submitter, "sequence": reader.varint()}
    envelope["expires_us"] = reader.zigzag()
    envelope["seen_height"] = reader.varint()
    envelope["settings"] = read_settings(reader) if form & 2 else []
    seed = reader.take(16) if form & 4 else bytes(16)
    if form & 4 and not any(seed):
        raise ValueError("a seed of zeros")
    envelope["seed"] = seed.hex()
    envelope["request"] = reader.string().hex()
    body = data[: reader.at]
    envelope["signatures"], envelope["approvals"] = [], []
    if reader.left():
        envelope["signatures"] = read_signatures(reader)
        envelope["approvals"] = read_signatures(reader)
        if not envelope["signatures"] and not envelope["approvals"]:
            raise ValueError("an empty tail")
    reader.finish()
    envelope["id"] = hashlib.sha256(b"tally envelope 1" + body).hexdigest()
    return envelope


def words(seed, lane, position):
    """3. Chance."""
    message = b"tally random v1\0" + seed + struct.pack(">QQ", lane, position)
    return struct.unpack(">4Q", hashlib.sha256(message).digest())


def stamped(bits, version):
    bits = bits & ~(15 << 76) | version << 76
    return (bits & ~(3 << 62) | 2 << 62).to_bytes(16, "big").hex()


def uuid7(seed, lane, position, now_us):
    high, low = words(seed, (1 << 64) - 1, (1 << 64) - 1)[:2]
    bits = ((high << 64 | low) >> 55) + (lane << 44) + position
    ms = max(now_us // 1000 + 946684800000, 0) & (1 << 48) - 1
    return stamped(ms << 80 | bits >> 62 << 64 | bits & (1 << 62) - 1, 7)


def draw(seed, lane=0, position=0, now_us=0):
    drawn = words(seed, lane, position)
    return {
        "seed": seed.hex(),
        "lane": lane,
        "position": position,
        "now_us": now_us,
        "words": [f"{word:016x}" for word in drawn],
        "random": (drawn[0] >> 11) / 2**53,
        "uuid4": stamped(drawn[0] << 64 | drawn[1], 4),
        "uuid7": uuid7(seed, lane, position, now_us),
    }


def draws(seed):
    return [draw(seed, 0, position) for position in range(3)]


def read_proposal(data):
    """4. Proposals."""
    reader = Reader(data)
    proposal = {"time_us": reader.zigzag(), "proposer": reader.take(32).hex()}
    proposal["seen_height"] = reader.varint()
    proposal["envelopes"] = reader.list(lambda: reader.string().hex(), (1 << 32) - 1)
    reader.finish()
    return proposal


def read_certificate(data):
    """5. Certificates."""
    reader = Reader(data)
    certificate = {"kind": reader.byte(), "evidence": reader.string().hex()}
    reader.finish()
    if certificate["kind"] not in (0, 1, 2, 3, 255):
        raise ValueError("an unknown kind of certificate")
    if certificate["kind"] == 0 and certificate["evidence"]:
        raise ValueError("evidence of a lone node")
    return certificate


def read_submissions(data):
    """6. Submissions."""
    reader = Reader(data)
    if reader.byte() != 2:
        raise ValueError("an unknown format of submissions")
    state = {"ledger_id": reader.take(16).hex(), "time_us": reader.zigzag()}

    def submitter():
        found = {"id": reader.take(16).hex(), "expires_us": reader.zigzag()}
        highest, bitmap = reader.varint(), int.from_bytes(reader.take(WINDOW // 8), "big")
        backs = [back for back in range(WINDOW) if bitmap >> (WINDOW - 1 - back) & 1]
        if found["expires_us"] < state["time_us"] or not backs or backs[0] or backs[-1] > highest:
            raise ValueError("a submitter that cannot be")
        found["used"] = sorted(highest - back for back in backs)
        return found

    def key():
        found = {"key": reader.name(), "id": reader.take(32).hex()}
        found["height"], found["index"] = reader.varint(), reader.varint()
        status = reader.byte()
        if status > 3 or found["index"] >= 1 << 32:
            raise ValueError("a key that cannot be")
        found["status"] = ["pending", "retry", "committed", "rejected"][status]
        if status == 3:
            found["sqlstate"] = reader.take(5).decode("ascii")
        found["expires_us"] = reader.zigzag()
        return found

    def principal():
        found = {"name": reader.name()}
        found["submitters"] = reader.list(submitter, len(data))
        found["keys"] = reader.list(key, len(data))
        ascending(item["id"] for item in found["submitters"])
        ascending(item["key"].encode() for item in found["keys"])
        if not found["submitters"] and not found["keys"]:
            raise ValueError("a principal of whom nothing is known")
        return found

    state["principals"] = reader.list(principal, len(data))
    ascending(item["name"].encode() for item in state["principals"])
    reader.finish()
    return state


READERS = {
    "envelope": read_envelope,
    "proposal": read_proposal,
    "certificate": read_certificate,
    "submissions": read_submissions,
    "draws": draws,
}


def check_draws(vectors):
    for vector in vectors:
        arguments = (vector["lane"], vector["position"], vector["now_us"])
        if draw(bytes.fromhex(vector["seed"]), *arguments) != vector:
            raise ValueError(f"another draw than {vector}")


def check_vectors(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    if "draws" in vectors:
        return check_draws(vectors["draws"])

    def compare(reader, vector):
        found = {"bytes": vector["bytes"], **reader(bytes.fromhex(vector["bytes"]))}
        if found != vector:
            raise ValueError(f"expected {vector}, found {found}")

    for vector in vectors["envelopes"]:
        compare(read_envelope, vector)
    for why, data in vectors["no_envelopes"]:
        try:
            read_envelope(bytes.fromhex(data))
        except ValueError:
            continue
        raise ValueError(f"{why} is not refused")
    for name in ("proposal", "certificate", "submissions"):
        compare(READERS[name], vectors[name])


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in [*READERS, "vectors"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    what, argument = arguments
    try:
        if what == "vectors":
            check_vectors(argument)
            print("all vectors are read as they should be")
        else:
            print(json.dumps(READERS[what](bytes.fromhex(argument)), indent=2))
    except ValueError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
