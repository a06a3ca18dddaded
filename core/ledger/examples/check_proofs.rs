//! Answers a line to each line `TRUST PROOF` of standard input, as the verifiers in `clients` do:
//! `ok` and what the proof proves, or `no` and why it is refused.
//!
//!     cargo build -p ledger --example check_proofs

use std::io::{BufRead, BufWriter, Write};

use ledger::hash::from_hex;
use ledger::{Proof, Trust};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (trust, proof) = line.split_once(' ').ok_or("a line is TRUST PROOF")?;
        let (trust, proof) = (Trust::parse(trust)?, from_hex(proof)?);
        match Proof::decode(&proof).and_then(|proof| proof.verify(&trust)) {
            Ok(proven) => writeln!(out, "ok {proven}")?,
            Err(why) => writeln!(out, "no {}", why.word())?,
        }
    }
    Ok(out.flush()?)
}
