//! What each client does, and what it must have left in the database.
//!
//! The operation of a (client, sequence) follows from the run's seed. A client's operations touch
//! rows of its own (and purses, in which only sums matter), so what the tables hold of it follows
//! from one number: how many of its operations took effect. After a crash that number must be what
//! was acknowledged, or one more if an answer was still to come.
//!
//! ```text
//! Payment    one call             journal row, two accounts
//! Step       one INSERT, UPDATE or DELETE
//! Transfer   BEGIN … COMMIT       left_half row, two purses, right_half row; blind or after a read
//! Load       one COPY             some rows of one sequence
//! Schema     CREATE, ALTER, ALTER, DROP of the client's own table, in turn
//! Protocol   SET ledger.protocol  client 0 alone
//! ```

use std::collections::BTreeMap;

use kit::random::Random;

pub const PURSES: usize = 16;
pub const PURSE_CENTS: i64 = 1_000_000;
pub const CUSTOMERS: u64 = 1_000;

/// A client's own table: absent, then of two, three, four columns.
const STAGES: usize = 4;

/// Steps delete what is older than this many sequence numbers, so that updates of all stay small.
const STEPS_KEPT: i64 = 40;

pub const TABLES: &str = "
    CREATE TABLE purses (id bigint PRIMARY KEY, cents bigint NOT NULL);
    CREATE TABLE left_half (
        client bigint, sequence bigint, amount bigint NOT NULL, PRIMARY KEY (client, sequence));
    CREATE TABLE right_half (
        client bigint, sequence bigint, amount bigint NOT NULL, PRIMARY KEY (client, sequence));
    CREATE TABLE steps (
        client bigint, sequence bigint, amount bigint NOT NULL, PRIMARY KEY (client, sequence));
    CREATE TABLE counters (client bigint PRIMARY KEY, total bigint NOT NULL);
    CREATE TABLE loaded (
        client bigint, sequence bigint, line bigint, PRIMARY KEY (client, sequence, line));";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Insert,
    UpdateAll,
    Count,
    DeleteOld,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Payment,
    Step(Step),
    Transfer { reads: bool },
    Load { lines: i64 },
    Schema,
    Protocol,
}

/// What a client does once.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub client: i64,
    pub sequence: i64,
    pub kind: Kind,
    pub amount: i64,
    /// Two different purses.
    pub from: usize,
    pub to: usize,
    /// Two different customers.
    pub payer: i64,
    pub payee: i64,
}

impl Operation {
    pub fn of(seed: u64, client: i64, sequence: i64) -> Operation {
        let place = (client as u64) << 40 | sequence as u64;
        let mut random = Random::new(seed.wrapping_add(place));
        let kind = match random.below(1_000) {
            0..=399 => Kind::Payment,
            400..=519 => Kind::Step(Step::Insert),
            520..=569 => Kind::Step(Step::UpdateAll),
            570..=619 => Kind::Step(Step::Count),
            620..=659 => Kind::Step(Step::DeleteOld),
            660..=799 => Kind::Transfer { reads: false },
            800..=909 => Kind::Transfer { reads: true },
            910..=969 => Kind::Load { lines: 1 + random.below(40) as i64 },
            970..=979 if client == 0 => Kind::Protocol,
            _ => Kind::Schema,
        };
        let purses = PURSES as u64;
        let (from, payer) = (random.below(purses), random.below(CUSTOMERS));
        let to = (from + 1 + random.below(purses - 1)) % purses;
        let payee = (payer + 1 + random.below(CUSTOMERS - 1)) % CUSTOMERS;
        Operation {
            client,
            sequence,
            kind,
            amount: 1 + random.below(10_000) as i64,
            from: from as usize,
            to: to as usize,
            payer: payer as i64 + 1,
            payee: payee as i64 + 1,
        }
    }

    pub fn protocol(&self) -> &'static str {
        protocols::ALL[self.amount as usize % protocols::ALL.len()].info.name
    }
}

/// The statement that takes a client's own table from a stage to the next; the last one drops it.
pub fn schema_change(client: i64, stage: usize) -> String {
    match stage {
        0 => format!("CREATE TABLE made_{client} (id bigint PRIMARY KEY, note text UNIQUE)"),
        1 => format!("ALTER TABLE made_{client} ADD COLUMN extra bigint DEFAULT 7"),
        2 => format!("ALTER TABLE made_{client} ADD COLUMN more numeric(8,2)"),
        _ => format!("DROP TABLE made_{client}"),
    }
}

pub fn delete_below(sequence: i64) -> i64 {
    sequence - STEPS_KEPT
}

/// By sequence number.
type Rows = BTreeMap<i64, i64>;

/// The rows of one client, as found or as they should be.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Owned {
    pub journal: Rows,
    pub left: Rows,
    pub right: Rows,
    pub steps: Rows,
    pub loaded: BTreeMap<i64, Vec<i64>>,
    pub counter: i64,
    /// Of the client's own table: 0 if there is none, else its columns less one.
    pub stage: usize,
}

impl Owned {
    /// Names the first table that differs, and where.
    pub fn difference(&self, found: &Owned) -> Option<String> {
        let tables = [
            ("journal", &self.journal, &found.journal),
            ("left_half", &self.left, &found.left),
            ("right_half", &self.right, &found.right),
            ("steps", &self.steps, &found.steps),
        ];
        for (name, ours, theirs) in tables {
            if let Some(what) = first_difference(ours, theirs) {
                return Some(format!("{name}: {what}"));
            }
        }
        if let Some(what) = first_difference(&self.loaded, &found.loaded) {
            return Some(format!("loaded: {what}"));
        }
        if self.counter != found.counter {
            return Some(format!("counters: expected {}, found {}", self.counter, found.counter));
        }
        (self.stage != found.stage)
            .then(|| format!("own table: expected stage {}, found {}", self.stage, found.stage))
    }
}

fn first_difference<V: PartialEq + std::fmt::Debug>(
    expected: &BTreeMap<i64, V>,
    found: &BTreeMap<i64, V>,
) -> Option<String> {
    if expected == found {
        return None;
    }
    let sequences = expected.keys().chain(found.keys());
    let first = sequences.filter(|s| expected.get(s) != found.get(s)).min()?;
    Some(format!(
        "sequence {first}: expected {:?}, found {:?}",
        expected.get(first),
        found.get(first)
    ))
}

/// Where a client is in its endless list of operations.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    seed: u64,
    client: i64,
    /// Of the last operation done.
    pub sequence: i64,
    /// Of the client's own table, see [`schema_change`].
    pub stage: usize,
}

impl Cursor {
    pub fn next(&self) -> Operation {
        Operation::of(self.seed, self.client, self.sequence + 1)
    }

    pub fn advance(&mut self) {
        if self.next().kind == Kind::Schema {
            self.stage = (self.stage + 1) % STAGES;
        }
        self.sequence += 1;
    }
}

/// One client, as far as its operations took effect.
#[derive(Clone, Debug)]
pub struct Model {
    seed: u64,
    client: i64,
    pub sequence: i64,
    pub owned: Owned,
    pub purse_changes: [i64; PURSES],
    /// What client 0 last set.
    pub protocol: &'static str,
}

impl Model {
    pub fn new(seed: u64, client: i64) -> Model {
        Model {
            seed,
            client,
            sequence: 0,
            owned: Owned::default(),
            purse_changes: [0; PURSES],
            protocol: "harmony",
        }
    }

    pub fn cursor(&self) -> Cursor {
        Cursor {
            seed: self.seed,
            client: self.client,
            sequence: self.sequence,
            stage: self.owned.stage,
        }
    }

    /// The next operation took effect.
    pub fn advance(&mut self) {
        let operation = self.cursor().next();
        let Operation { sequence, amount, .. } = operation;
        self.sequence = sequence;
        let owned = &mut self.owned;
        match operation.kind {
            Kind::Payment => drop(owned.journal.insert(sequence, amount)),
            Kind::Step(Step::Insert) => drop(owned.steps.insert(sequence, amount)),
            Kind::Step(Step::UpdateAll) => owned.steps.values_mut().for_each(|v| *v += amount),
            Kind::Step(Step::Count) => owned.counter += amount,
            Kind::Step(Step::DeleteOld) => {
                owned.steps = owned.steps.split_off(&delete_below(sequence));
            }
            Kind::Transfer { .. } => {
                owned.left.insert(sequence, amount);
                owned.right.insert(sequence, amount);
                self.purse_changes[operation.from] -= amount;
                self.purse_changes[operation.to] += amount;
            }
            Kind::Load { lines } => drop(owned.loaded.insert(sequence, (1..=lines).collect())),
            Kind::Schema => owned.stage = (owned.stage + 1) % STAGES,
            Kind::Protocol => self.protocol = operation.protocol(),
        }
    }

    /// Finds the number of operations, from `least` to `most`, that explains what is there, the
    /// protocol included if this client sets it. The model stays at that number.
    pub fn resolve(
        &mut self,
        found: &Owned,
        protocol: Option<&str>,
        least: i64,
        most: i64,
    ) -> Result<(), String> {
        while self.sequence < least {
            self.advance();
        }
        let at_least = self.owned.difference(found);
        while self.owned != *found || protocol.is_some_and(|protocol| protocol != self.protocol) {
            if self.sequence >= most {
                let protocol = protocol.map(|protocol| format!("the protocol is {protocol}"));
                return Err(format!(
                    "client {} was told of {least} operations, {most} at most were sent: {}",
                    self.client,
                    at_least.or(protocol).unwrap_or_default()
                ));
            }
            self.advance();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(operations: i64) -> Model {
        let mut model = Model::new(7, 0);
        while model.sequence < operations {
            model.advance();
        }
        model
    }

    #[test]
    fn a_loss_and_an_invention_are_told_from_what_was_under_way() {
        let found = after(300).owned;
        assert!(Model::new(7, 0).resolve(&found, None, 300, 300).is_ok());
        assert!(Model::new(7, 0).resolve(&found, None, 299, 300).is_ok());
        assert!(Model::new(7, 0).resolve(&found, None, 301, 302).is_err(), "lost");
        assert!(Model::new(7, 0).resolve(&found, None, 298, 299).is_err(), "invented");
        let (&first, _) = found.left.first_key_value().unwrap();
        let mut half = found.clone();
        half.left.remove(&first);
        let said = Model::new(7, 0).resolve(&half, None, 300, 301).unwrap_err();
        assert!(said.contains(&format!("left_half: sequence {first}")), "{said}");
    }

    /// It leaves no row, so the rows alone do not tell whether it took effect.
    #[test]
    fn a_protocol_that_was_set_last_is_told_from_one_that_was_not() {
        let set = |sequence: &i64| Operation::of(7, 0, *sequence).kind == Kind::Protocol;
        let set = (1..3_000).find(set).unwrap();
        let (before, behind) = (after(set - 1), after(set));
        assert_eq!(before.owned, behind.owned);
        assert_ne!(before.protocol, behind.protocol);
        for expected in [&before, &behind] {
            let mut model = Model::new(7, 0);
            model.resolve(&behind.owned, Some(expected.protocol), set - 1, set).unwrap();
            assert_eq!(model.sequence, expected.sequence);
        }
        assert!(Model::new(7, 0).resolve(&before.owned, Some("none"), set - 1, set).is_err());
    }

    #[test]
    fn every_kind_comes_up_and_purses_conserve_their_sum() {
        let model = after(3_000);
        assert_eq!(model.purse_changes.iter().sum::<i64>(), 0);
        let owned = &model.owned;
        assert!(!owned.journal.is_empty() && owned.left == owned.right);
        assert!(owned.counter > 0 && !owned.loaded.is_empty() && !owned.steps.is_empty());
        let kinds = (1..3_000).map(|s| Operation::of(7, 0, s).kind);
        let (mut schema, mut protocol) = (0, 0);
        for kind in kinds {
            schema += u64::from(kind == Kind::Schema);
            protocol += u64::from(kind == Kind::Protocol);
        }
        assert!(schema > 10 && protocol > 10);
    }
}
