//! Integers as text.

use bytes::BufMut;

/// Two digits at a time, backwards, on the stack.
pub(crate) fn write_int(number: i64, out: &mut impl BufMut) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut i = 0;
        while i < pairs.len() {
            pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
            i += 1;
        }
        pairs
    };
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    let mut rest = number.unsigned_abs();
    while rest >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    // What is left is one digit, or the 0 before a pair that was written in full.
    if rest > 0 || at == buffer.len() {
        at -= 1;
        buffer[at] = b'0' + rest as u8;
    }
    if number < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    out.put_slice(&buffer[at..]);
}
