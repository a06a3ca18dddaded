//! Messages of the protocol as no driver sends them: in any order, cut, mutated, with lengths and
//! counts that promise more than follows.

use std::time::Duration;

use kit::random::Random;

use super::session::{Found, Wire, error_of, of};

/// How long replies are read after a turn.
const READING: Duration = Duration::from_millis(60);

/// `tell` is told each message before it is sent.
pub fn turn(address: &str, random: &mut Random, tell: &mut dyn FnMut(&str)) -> Found {
    let is_stranger = random.chance(8);
    let opened = match is_stranger {
        true => Wire::raw(address),
        false => Wire::connect(address),
    };
    let Ok(mut wire) = opened else {
        return Found { errors: 1, fault: Some("the node lets no sessions in".to_owned()) };
    };
    if is_stranger {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next_u64() as u8).collect();
        // The server may hang up at any time, which is its right.
        _ = wire.send_raw(&startup(random, bytes));
    }
    for _ in 0..1 + random.below(12) {
        let mut message = message(random);
        if random.chance(4) {
            mutate(&mut message, random);
        }
        tell(&String::from_utf8_lossy(&message));
        if wire.send_raw(&message).is_err() {
            break;
        }
    }
    let (replies, _) = wire.drain(READING);
    let mut found = Found::default();
    for error in errors_in(&replies) {
        found.errors += 1;
        if error.0 == "XX000" {
            found.fault = Some(format!("{} {}", error.0, error.1));
        }
    }
    found
}

fn startup(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    let versions = [0x0003_0000_u32, 0x0003_0002, 0x04d2_162f, 0x04d2_1630, 0x04d2_162e, 7];
    let version = versions[random.below(6) as usize];
    let length = match random.below(3) {
        0 => random.next_u64() as u32,
        _ => bytes.len() as u32 + 8,
    };
    bytes.splice(0..0, [length.to_be_bytes(), version.to_be_bytes()].concat());
    bytes
}

fn message(random: &mut Random) -> Vec<u8> {
    let name = |random: &mut Random| of(random, &["", "a", "b", "é"]).as_bytes().to_vec();
    let zero = || vec![0];
    let small = |random: &mut Random| (random.below(4) as i16).to_be_bytes().to_vec();
    let (kind, parts) = match random.below(16) {
        0 | 1 => (b'Q', vec![statement(random), zero()]),
        2..=4 => {
            let types = random.below(3) as i16;
            let oids = (0..types).map(|_| random.below(2000) as u32);
            let oids = oids.flat_map(u32::to_be_bytes).collect();
            let count = types.to_be_bytes().to_vec();
            (b'P', vec![name(random), zero(), statement(random), zero(), count, oids])
        }
        5..=7 => {
            let portal = [name(random), zero(), name(random), zero()].concat();
            let values = random.below(4) as i16;
            let mut bound = [portal, small(random)].concat();
            bound.extend(values.to_be_bytes());
            for _ in 0..values {
                let value = vec![b'1'; random.below(3) as usize * random.below(5000) as usize];
                bound.extend((value.len() as i32).to_be_bytes());
                bound.extend(value);
            }
            (b'B', vec![bound, small(random)])
        }
        8 => (b'D', vec![of(random, &["S", "P", "X"]).into(), name(random), zero()]),
        9 | 10 => {
            let rows = [0, 1, 7, -1][random.below(4) as usize] as i32;
            (b'E', vec![name(random), zero(), rows.to_be_bytes().to_vec()])
        }
        11 => (b'C', vec![of(random, &["S", "P", "X"]).into(), name(random), zero()]),
        12 => (b'S', Vec::new()),
        13 => (b'H', Vec::new()),
        14 => {
            let rows = "1000\tv\n".repeat(random.below(3000) as usize);
            (of(random, &["d", "c", "f"]).as_bytes()[0], vec![rows.into_bytes(), zero()])
        }
        _ => (random.next_u64() as u8, vec![b"x".repeat(random.below(300) as usize)]),
    };
    let body = parts.concat();
    let mut message = vec![kind];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

fn statement(random: &mut Random) -> Vec<u8> {
    let statements = [
        "SELECT 1",
        "SELECT $1",
        "SELECT $1::int + $2::int",
        "",
        ";;",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n",
        "SELECT 1/0",
        "COPY fuzzed FROM STDIN",
        "COPY fuzzed TO STDOUT",
        "SELECT relname FROM pg_class",
        "INSERT INTO fuzzed VALUES ($1, $2) ON CONFLICT DO NOTHING",
        "UPDATE fuzzed SET v = 'v' RETURNING id",
        "PREPARE a AS SELECT 1",
        "EXECUTE a",
        "DEALLOCATE ALL",
        "DISCARD ALL",
        "SELECT 1; SELECT 2; SELECT 3",
        "SELECT 1; COMMIT; SELECT nothing",
        "SHOW ALL",
        "SELECT 1\u{a0}",
        "SELECT 1 \u{2003}",
        "UPDATE fuzzed SET v = 'v'\u{200b} WHERE id = $1",
        "DELETE FROM fuzzed WHERE id = \u{feff}-1",
    ];
    of(random, &statements).as_bytes().to_vec()
}

fn mutate(message: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(message.len() as u64) as usize;
    match random.below(5) {
        0 => message[at] ^= 1 << random.below(8),
        1 => message.truncate(at),
        2 => message.insert(at, random.next_u64() as u8),
        3 if message.len() >= 5 => {
            let length = [0, 3, 4, 5, 1000, 70_000_000, u32::MAX][random.below(7) as usize];
            message[1..5].copy_from_slice(&length.to_be_bytes());
        }
        _ => message[at] = random.next_u64() as u8,
    }
}

/// The ErrorResponses among whole messages.
fn errors_in(replies: &[u8]) -> Vec<(String, String)> {
    let (mut rest, mut errors) = (replies, Vec::new());
    while let Some(header) = rest.first_chunk::<5>() {
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let Some(body) = rest.get(5..1 + length) else { break };
        if header[0] == b'E' {
            errors.push(error_of(body));
        }
        rest = &rest[1 + length..];
    }
    errors
}
