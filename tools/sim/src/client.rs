//! A client: one request after the other, sent again until its fate is known.

use bytes::Bytes;
use concurrency::Outcome;
use engine::Body;
use kit::random::Random;
use ledger::LedgerId;
use order::{Submission, View};
use types::{Height, SqlState};

use crate::operation::{Call, KEYS, KINDS, Kind, TABLES};
use crate::options::Options;
use crate::{Wrong, wrong};

/// Times that a request is made anew: after a retry, or with another expiry.
const REMADE_MAX: u32 = 6;

/// What a request is waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// An answer.
    Answer,
    /// It is in the ledger; how it ended is asked for.
    Standing,
}

pub struct Asked {
    pub body: Body,
    pub submission: Submission,
    pub envelope: Bytes,
    pub expires_us: i64,
    pub waits: Waits,
    /// Of the step in which it was sent last.
    pub sent: u64,
    remade: u32,
}

pub struct Client {
    pub id: usize,
    pub principal: String,
    /// The newest height that it was told of.
    pub seen: Height,
    pub asked: Option<Asked>,
    named: u64,
    begun: u64,
}

impl Client {
    pub fn new(id: usize) -> Client {
        let principal = format!("p{}", id % 2);
        Client { id, principal, seen: 0, asked: None, named: 0, begun: 0 }
    }

    /// Begins a request.
    pub fn ask(
        &mut self,
        ledger_id: LedgerId,
        now_us: i64,
        options: &Options,
        random: &mut Random,
    ) -> Result<(), Wrong> {
        self.begun += 1;
        let body = match (self.id, self.begun) {
            (0, 1) => Body::Schema { text: "create table main".into() },
            _ => draw_body(options, random),
        };
        let submission = self.name(random.chance(2));
        let envelope = Bytes::new();
        let (waits, sent, remade, expires_us) = (Waits::Answer, 0, 0, 0);
        self.asked = Some(Asked { body, submission, envelope, expires_us, waits, sent, remade });
        self.make(ledger_id, now_us, random)
    }

    fn name(&mut self, key: bool) -> Submission {
        self.named += 1;
        match key {
            true => Submission::Key(format!("k{}-{}", self.id, self.named)),
            false => {
                let submitter = [self.id as u8; 16];
                Submission::Sequence { submitter, sequence: self.named }
            }
        }
    }

    /// Makes the envelope of what is asked, with a new expiry.
    fn make(&mut self, ledger_id: LedgerId, now_us: i64, random: &mut Random) -> Result<(), Wrong> {
        let Some(asked) = &mut self.asked else { return Ok(()) };
        let expires_us = now_us + 50_000 + random.below(2_500_000) as i64;
        // An attempt that follows another one must not expire before it.
        asked.expires_us = asked.expires_us.max(expires_us);
        let submission = match &asked.submission {
            Submission::Sequence { submitter, sequence } => {
                Submission::Sequence { submitter: *submitter, sequence: *sequence }
            }
            Submission::Key(key) => Submission::Key(key.as_str()),
        };
        let view = View {
            ledger_id,
            principal: &self.principal,
            submission,
            expires_us: asked.expires_us,
            seen_height: self.seen,
            settings: Vec::new(),
            seed: [0; 16],
            request: &asked.body.to_request(),
            signatures: Vec::new(),
            approvals: Vec::new(),
        };
        asked.envelope = view.encode().map_err(|error| wrong("encoding", error))?;
        Ok(())
    }

    /// Its request ended so, or its copy was turned away.
    pub fn hear(
        &mut self,
        outcome: &Outcome,
        ledger_id: LedgerId,
        now_us: i64,
        random: &mut Random,
    ) -> Result<(), Wrong> {
        let Some(asked) = &mut self.asked else { return Ok(()) };
        let is_key = matches!(asked.submission, Submission::Key(_));
        let again = match outcome {
            Outcome::Retry(_) => true,
            // It expires too late. A key is not used again with other bytes: a copy of the first
            // ones may come when it is forgotten.
            Outcome::Rejected(error) if error.code() == SqlState::INVALID_PARAMETER_VALUE => {
                !is_key
            }
            Outcome::Rejected(error) if error.code() == SqlState::DUPLICATE_OBJECT && is_key => {
                asked.waits = Waits::Standing;
                return Ok(());
            }
            _ => false,
        };
        if !again || asked.remade >= REMADE_MAX {
            self.asked = None;
            return Ok(());
        }
        asked.remade += 1;
        asked.sent = 0;
        asked.waits = Waits::Answer;
        if !is_key {
            let submission = self.name(false);
            if let Some(asked) = &mut self.asked {
                asked.submission = submission;
            }
        }
        self.make(ledger_id, now_us, random)
    }
}

fn draw_body(options: &Options, random: &mut Random) -> Body {
    if options.schema_changes && random.chance(30) {
        let what = ["create table", "drop table", "create index", "drop index", "create index"];
        let what = what[random.below(5) as usize];
        let table = TABLES[usize::from(what.ends_with("table") || random.chance(3))];
        return Body::Schema { text: format!("{what} {table}") };
    }
    if options.parameter_changes && random.chance(60) {
        return draw_parameter(options, random);
    }
    draw_call(options.hot, random).body()
}

fn draw_parameter(options: &Options, random: &mut Random) -> Body {
    let numbers = ["0", "1", "3", "100"];
    let (name, value) = match random.below(4) {
        0 => ("attempts_max", numbers[random.below(4) as usize].to_owned()),
        1 => ("expiry_us_max", ["2000000", "86400000000"][random.below(2) as usize].to_owned()),
        2 => ("state_root", random.below(2).to_string()),
        _ => ("protocol", options.another_protocol(random)),
    };
    Body::Parameter { name: name.into(), value }
}

/// `hot`: few keys, and more of what reads before it writes.
pub fn draw_call(hot: bool, random: &mut Random) -> Call {
    let kind = match random.below(4) {
        0 => Kind::Insert,
        1 if hot => [Kind::Capped, Kind::Chain][random.below(2) as usize],
        _ => KINDS[random.below(KINDS.len() as u64) as usize],
    };
    let table = TABLES[usize::from(random.chance(5))];
    let keys = if hot || random.chance(2) { 3 } else { KEYS };
    let x = random.below(keys) as i64;
    let y = match kind {
        Kind::Range | Kind::ByIndex => x + random.below(6) as i64,
        Kind::Add | Kind::Capped => random.below(4) as i64,
        _ => random.below(keys) as i64,
    };
    Call { kind, table, x, y }
}

/// A call that changes nothing.
pub fn draw_read(random: &mut Random) -> Call {
    let kind = [Kind::Read, Kind::Range, Kind::ByIndex][random.below(3) as usize];
    Call { kind, ..draw_call(false, random) }
}
