//! Every strategy ends in the state that serial replay ends in.

use std::sync::Arc;

use concurrency::Crew;
use concurrency::schedule::Preference;
use recovery::analysis::{Model, Options};
use recovery::replay::{self, Task};

mod bed;

use bed::Bed;

fn every_strategy(name: &str, settings: &[(&str, u64)]) {
    let bed = Bed::new(name, settings);
    let protocol = protocols::by_name("serial").unwrap();
    let log: Arc<[_]> = bed.run(&*protocol, &Crew::new(1), 12, 100).into();
    for strategy in replay::ALL {
        for (workers, preference) in
            [(1, Preference::Earliest), (2, Preference::Earliest), (8, Preference::Latest)]
        {
            for model in [Model::Thesis, Model::Refined] {
                let crew = Crew::new(workers);
                let again = Bed::new(name, settings);
                let options = Options { model, flaw: None };
                let log = Arc::clone(&log);
                let task = Task { log, batch_blocks: 3, options, preference };
                let done = (strategy.replay)(&task, again.store(), &crew);
                let about = format!("{name}, {}, {workers} workers, {model:?}", strategy.name);
                let done = done.unwrap_or_else(|why| panic!("{about}: {why}"));
                assert!(done.transactions > 0);
                if let Err(what) = bed::same_rows(again.store(), bed.store()) {
                    panic!("{about}: {what}");
                }
            }
        }
    }
}

#[test]
fn smallbank() {
    every_strategy("smallbank", &[("rows", 50)]);
}

#[test]
fn tpcc() {
    every_strategy("tpcc", &[("customers", 30), ("items", 100)]);
}
