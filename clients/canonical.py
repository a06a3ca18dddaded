"""Strict reading of canonical bytes from the front: one encoding a value, nothing left over."""


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count > self.left():
            raise ValueError("cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.take(1)[0]

    def flag(self):
        byte = self.byte()
        if byte > 1:
            raise ValueError("a flag that is neither 0 nor 1")
        return byte == 1

    def varint(self, bits=64):
        number, shift = 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if number >= 1 << bits:
                raise ValueError(f"a number beyond {bits} bits")
            if byte < 0x80:
                if byte == 0 and shift > 0:
                    raise ValueError("an overlong number")
                return number
            shift += 7

    def zigzag(self, bits=64):
        number = self.varint(bits)
        return number >> 1 if number % 2 == 0 else -(number >> 1) - 1

    def string(self):
        return self.take(self.varint())

    def text(self):
        return self.string().decode()

    def list(self, item, count_max=None):
        count = self.varint()
        # An item has at least one byte.
        if count > (self.left() if count_max is None else count_max):
            raise ValueError("a list that is too long")
        return [item() for _ in range(count)]

    def left(self):
        return len(self.data) - self.at

    def finish(self):
        if self.left():
            raise ValueError(f"{self.left()} bytes left over")
