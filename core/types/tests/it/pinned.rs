//! Hashes of what many random values come to: the same on every machine, and with every toolchain.
//! Another hash is another executor.

use kit::random::Random;
use sha2::{Digest, Sha256};
use types::arithmetic::{ArithmeticOp, arithmetic, ceil, floor, round};
use types::{DataType, Error, Result, Value};

const ROUNDS: usize = 20_000;

/// Of values in the bytes that the ledger has of them, and of SQLSTATEs.
struct Results(Sha256);

impl Results {
    fn new() -> Results {
        Results(Sha256::new())
    }

    fn push(&mut self, result: Result<Value>) {
        let mut bytes = Vec::new();
        match result {
            Ok(value) => types::codec::encode_value(&value, &mut bytes),
            Err(error) => bytes.extend_from_slice(&Error::code(&error).0),
        }
        self.0.update(bytes);
    }

    fn hash(self) -> String {
        self.0.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

const OPS: [ArithmeticOp; 4] =
    [ArithmeticOp::Add, ArithmeticOp::Sub, ArithmeticOp::Mul, ArithmeticOp::Div];

/// Any bits half of the time, else a number of some digits.
fn float(random: &mut Random) -> f64 {
    match random.below(2) {
        0 => f64::from_bits(random.next_u64()),
        _ => (random.next_u64() % 2_000_000) as f64 / 1000.0 - 1000.0,
    }
}

#[test]
fn floats_are_computed_written_and_read_as_they_were() {
    let (mut random, mut results) = (Random::new(1), Results::new());
    for _ in 0..ROUNDS {
        let (a, b) = (Value::Float(float(&mut random)), Value::Float(float(&mut random)));
        for op in OPS {
            results.push(arithmetic(op, &a, &b, &DataType::Float8));
        }
        let text = a.to_text(&DataType::Float8);
        let again = Value::read_text(&DataType::Float8, &text);
        assert_eq!(again.as_ref(), Ok(&a), "{text}");
        results.push(again);
        results.push(Value::read_text(&DataType::Float8, &format!("{}.5e-9", text.len())));
        results.push(Ok(Value::text(text)));
        results.push(round(&a, 0));
        results.push(floor(&a));
        results.push(ceil(&b));
        for to in [DataType::Int8, DataType::Numeric(None), DataType::Numeric(Some((12, 3)))] {
            results.push(types::cast::cast(&b, &to, true));
        }
    }
    assert_eq!(results.hash(), "f9818d785b79b492e07ca962a4269fc4");
}

#[test]
fn numerics_are_computed_written_and_read_as_they_were() {
    let (mut random, mut results) = (Random::new(2), Results::new());
    let numeric = |random: &mut Random| {
        let digits = random.next_u64() >> random.below(60);
        let text = format!("{}.{}", random.next_u64() as i64 >> random.below(60), digits);
        Value::read_text(&DataType::Numeric(None), &text)
    };
    for _ in 0..ROUNDS {
        let (a, b) = (numeric(&mut random), numeric(&mut random));
        let (Ok(a), Ok(b)) = (a, b) else { continue };
        for op in OPS {
            results.push(arithmetic(op, &a, &b, &DataType::Numeric(None)));
        }
        results.push(round(&a, random.below(9) as i32));
        results.push(floor(&a));
        results.push(ceil(&b));
        results.push(types::cast::cast(&a, &DataType::Float8, true));
        results.push(Ok(Value::text(b.to_text(&DataType::Numeric(None)))));
    }
    assert_eq!(results.hash(), "a711c2df8deb58aadf65f53e97e576ef");
}

#[test]
fn times_are_written_and_read_as_they_were() {
    let (mut random, mut results) = (Random::new(3), Results::new());
    for _ in 0..ROUNDS {
        // From 4300 BC on, more often near to it.
        let us = (random.below(9_000_000_000_000_000_000) >> random.below(8)) as i64;
        let us = us - 200_000_000_000_000_000;
        let days = (us / 86_400_000_000) as i32;
        for value in [Value::Timestamp(us), Value::Timestamptz(us), Value::Date(days)] {
            let of = value.data_type_hint();
            let text = value.to_text(&of);
            results.push(Value::read_text(&of, &text));
            results.push(Ok(Value::text(text)));
        }
    }
    assert_eq!(results.hash(), "ad722625d3915c33b2a213006bac08fc");
}
