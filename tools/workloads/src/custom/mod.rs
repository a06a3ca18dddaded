//! The custom workload of Fabric++ (Sharma et al., SIGMOD 2019): accounts that are read and
//! written, some of them hot.
//!
//! The paper's RW can be read as reads and writes together or as so many of each. Here a
//! transaction has RW reads *and* RW writes, drawn independently, so that an account may be among
//! both, as the paper's "potentially non-overlapping" suggests; among the reads, and among the
//! writes, none comes twice. A write is a new random balance, whatever the old one was.

mod programs;

use kit::random::Random;
use procedure::Procedure;
use procedure::build::Tables;
use types::{Result, Value};

use crate::settings::{Reader, Setting, setting};
use crate::skew::Skew;
use crate::workload::{Call, Entry, Fill, Workload};

pub const ENTRY: Entry = Entry {
    name: "custom",
    about: "Fabric++'s custom workload: reads and writes of accounts, some of them hot",
    settings: SETTINGS,
    read: |reader| Ok(Box::new(Custom::read(reader)?)),
};

const SETTINGS: &[Setting] = &[
    setting("rows", "10000", "N: accounts"),
    setting("rw", "8", "RW: reads of a transaction, and as many writes; 0 is a blank one"),
    setting("hr", "40", "HR: percent of the reads that go to hot accounts"),
    setting("hw", "10", "HW: percent of the writes that go to hot accounts"),
    setting("hss", "1", "HSS: percent of the accounts that are hot"),
];

const SCHEMA: &str = include_str!("../../sql/custom/schema.sql");
const PROCEDURES: &str = include_str!("../../sql/custom/procedures.sql");
const BALANCE_MAX: u64 = 1_000_000;

struct Custom {
    rw: usize,
    reads: Skew,
    writes: Skew,
}

impl Custom {
    fn read(reader: &Reader<'_>) -> Result<Custom> {
        let accounts: u64 = reader.number("rows", 1..=1_000_000_000)?;
        let hot_accounts = accounts * u64::from(reader.percent("hss")?) / 100;
        Ok(Custom {
            rw: reader.number("rw", 0..=10_000)?,
            reads: Skew::hotspot(accounts, hot_accounts, reader.percent("hr")?),
            writes: Skew::hotspot(accounts, hot_accounts, reader.percent("hw")?),
        })
    }
}

fn balance(random: &mut Random) -> Value {
    Value::Int(random.below(BALANCE_MAX) as i64)
}

impl Workload for Custom {
    fn schema(&self) -> String {
        [SCHEMA, PROCEDURES].concat()
    }

    fn procedures(&self) -> Vec<&'static str> {
        vec!["read_write"]
    }

    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>> {
        programs::all(tables)
    }

    fn fills(&self) -> Vec<Fill> {
        vec![Fill::rows("account", self.reads.keys(), |id| {
            [Value::Int(id as i64), balance(&mut Random::new(id))].into()
        })]
    }

    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send> {
        let (rw, skews) = (self.rw, [self.reads.clone(), self.writes.clone()]);
        let mut random = Random::new(seed);
        Box::new(std::iter::repeat_with(move || {
            let [reads, writes] = skews.each_ref().map(|skew| {
                let keys = skew.distinct_keys(rw, &mut random).into_iter();
                Value::array(keys.map(|key| Value::Int(key as i64)).collect::<Vec<_>>())
            });
            let amounts: Vec<Value> = (0..rw).map(|_| balance(&mut random)).collect();
            let arguments = [reads, writes, Value::array(amounts)].into();
            Call { procedure: 0, arguments }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn reads_and_writes_hit_the_hot_accounts_as_often_as_asked() {
        let settings = Settings::default().with("hss", 10).with("hr", 40).with("hw", 10);
        let custom = Custom::read(&Reader::new(SETTINGS, &settings).unwrap()).unwrap();
        let mut random = Random::new(1);
        for (skew, percent) in [(&custom.reads, 40.0), (&custom.writes, 10.0)] {
            let hot = (0..20_000).filter(|_| skew.rank(&mut random) < 1_000).count();
            assert!((hot as f64 / 200.0 - percent).abs() < 1.5, "{hot} {percent}");
        }
        for call in ENTRY.make(&settings).unwrap().calls(1).take(10) {
            assert!(call.arguments.iter().all(|array| array.as_array().unwrap().len() == 8));
        }
    }
}
