//! `tally bench` from outside.

use serde_json::Value;

use super::{path, run};

/// Tests are built without optimisation, so this also sees the refusal.
#[test]
fn the_bench_measures_and_refuses_to_mislead() {
    let small = [
        "--output",
        "json",
        "bench",
        "smallbank",
        "--rows=50",
        "--transactions=60",
        "--block-transactions=20",
        "--repetitions=2",
        "--theta=0.9",
        "--protocol=serial,harmony",
        "--sealing=on,off",
    ];
    if cfg!(debug_assertions) {
        let refused = run(&small);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--release"));
    }
    let output = run(&[&small[..], &["--smoke"]].concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures.len(), 4);
    assert!(figures.iter().all(|f| f["digest"].as_str().unwrap().len() == 64));
}

#[test]
fn the_bench_draws_its_page_and_hints_at_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = run(&[
        "bench",
        "ycsb:rows=50:operations=2",
        "--protocol=serial,harmony",
        "--transactions=40",
        "--block-transactions=10,20",
        "--repetitions=1",
        "--theta=0,0.9",
        "--allocations",
        "--smoke",
        "--html",
        path(&page),
    ]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    assert!(table.contains("allocs") && table.contains("harmony"), "{table}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("</svg>") && page.contains("processor"));

    for (wrong, hint) in [
        (["bench", "--smoke", "--protocol=nonesuch"], "serial"),
        (["bench", "--smoke", "nonesuch"], "ycsb"),
        (["bench", "figure", "nonesuch"], "tally bench figure"),
    ] {
        let refused = run(&wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(text.contains("nonesuch") && text.contains(hint), "{text}");
    }
}

#[test]
fn the_bench_knows_figures_and_two_canonical_numbers() {
    let list = String::from_utf8(run(&["bench", "figure"]).stdout).unwrap();
    assert!(list.lines().any(|line| line.starts_with("harmony-hits-ycsb ")));
    let shown = run(&["bench", "figure", "harmony-hits-ycsb", "--smoke"]);
    assert!(shown.status.success());
    assert!(String::from_utf8(shown.stdout).unwrap().contains("the paper says"));

    let output = run(&["--output", "json", "bench", "canonical", "--smoke"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(numbers.len(), 2);
    for number in numbers {
        assert!(number["measurement"]["committed_per_cpu_second"].as_f64().unwrap() > 0.0);
        assert!(number["meaning"].as_str().is_some_and(|meaning| !meaning.is_empty()));
    }
}

/// Each figure over nodes starts them, and all that was due has an end.
#[test]
fn figures_over_nodes_count_all_that_was_due() {
    let names = ["fabric-totals", "fabric-blocks", "fabric-channels", "fabric-clients"];
    for name in names.into_iter().chain(["fabric-halves-nodes", "fabric-latency"]) {
        let shown = run(&["--output=json", "bench", "figure", name, "--smoke"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        let errors = String::from_utf8(shown.stderr).unwrap();
        assert!(shown.status.success(), "{name}: {text}\n{errors}");
        let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        let rates = lines.iter().filter_map(|line| line["table"]["rows"].as_array()).next_back();
        let rates = rates.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(rates.len() >= 2, "{name}: {text}");
        for row in rates {
            let number = |cell: &Value| cell.as_str().unwrap().replace(',', "").parse::<u64>();
            let counts = row.as_array().unwrap()[2..].iter().map(|cell| number(cell).unwrap());
            let (counts, place) = (counts.collect::<Vec<u64>>(), row[0].as_str().unwrap());
            // Of a second: those of each client of each ledger.
            let due = match (name, place.parse::<u64>()) {
                ("fabric-channels", Ok(ledgers)) => 20 * 2 * ledgers,
                ("fabric-clients", Ok(clients)) => 20 * clients,
                _ => 20 * 4,
            };
            assert_eq!(counts.iter().sum::<u64>(), due, "{name}: {row}");
            assert!(counts[0] > 0, "{name}: {row}");
        }
        let refused = lines.iter().filter_map(|line| line["not_measured"].as_str());
        assert!(refused.clone().all(|why| !why.contains("failed")), "{name}: {text}");
    }
}

/// Two ledgers of two nodes each, and transactions that come too fast for one hot account.
#[test]
fn the_network_is_measured_by_what_becomes_of_transactions() {
    let output = run(&[
        "--output=json",
        "bench",
        "network",
        "custom:rows=40:rw=2:hr=60:hw=60:hss=5",
        "--smoke",
        "--ledgers=2",
        "--clients=6",
        "--rate=40",
        "--seconds=2",
        "--warm-up=0.5",
        "--protocol=fabric,fabric_pp",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}\n{errors}");
    let measured: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(measured.len(), 2, "{text}");
    for (of, protocol) in measured.iter().zip(["fabric", "fabric_pp"]) {
        assert_eq!(of["protocol"], protocol);
        assert_eq!(of["due"], 2 * 2 * 40, "all that were due have an end: {of}");
        let count = |end: &str| of["ends"][end]["count"].as_u64().unwrap();
        assert!(count("valid") > 0, "{of}");
        assert_eq!(count("failed") + count("not_endorsed"), 0, "{of}");
        let latency = of["ends"]["valid"]["latency_us_p50"].as_u64().unwrap();
        assert!(latency > 0, "{of}");
    }
    // What is simulated is never aborted early, nor in ordering, under the vanilla one. Another
    // node may have met newer rows.
    assert_eq!(measured[0]["ends"]["aborted_in_ordering"]["count"], 0);
}
