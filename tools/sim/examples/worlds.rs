//! Runs worlds: `worlds FIRST COUNT [PROTOCOL] [MUTANT]`, and prints the first failure, made
//! smaller.

use sim::{Options, Stats, run, shrink};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default| {
        arguments.get(place).and_then(|text| text.parse::<u64>().ok()).unwrap_or(default)
    };
    let protocol = arguments.get(2).map(String::as_str).filter(|text| *text != "-");
    let mutant = arguments.get(3).map(|mutant| &*mutant.clone().leak());
    let mut total = Stats::default();
    for seed in number(0, 0)..number(0, 0) + number(1, 100) {
        let options = Options { mutant, ..Options::of_seed(seed, protocol) };
        match run(seed, &options) {
            Ok(stats) => total += stats,
            Err(failure) => {
                println!("{failure}\n\nsmaller:\n{}", shrink(failure.clone(), 300));
                std::process::exit(1);
            }
        }
    }
    println!("{total:?}");
}
