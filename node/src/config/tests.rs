use super::*;
use std::collections::BTreeSet;

fn resolve_with(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Inputs {
    let folder = tempfile::tempdir().unwrap().keep();
    let path = folder.join(FILE_NAME);
    std::fs::write(&path, file).unwrap();
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    };
    Inputs {
        file: Some(path),
        flags: pairs(flags),
        environment: pairs(environment).into_iter().collect(),
    }
}

fn faults(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    match resolve(&resolve_with(file, environment, flags)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = "workers = 1\nblock_wait_us_max = 1\nmax_connections = 4";
    let environment = [("TALLY_WORKERS", "2"), ("TALLY_BLOCK_WAIT_US_MAX", "2")];
    let resolved = resolve(&resolve_with(file, &environment, &[("workers", "3")])).unwrap();
    assert_eq!(resolved.settings.workers, 3);
    assert_eq!(resolved.settings.block_wait_us_max, 2);
    assert_eq!(resolved.settings.max_connections, 4);
    assert_eq!(resolved.settings.block_transactions_max, 10_000);
    assert_eq!(resolved.sources["workers"], Source::Flag);
    assert_eq!(
        resolved.sources["block_wait_us_max"],
        Source::Environment("TALLY_BLOCK_WAIT_US_MAX".into())
    );
    assert!(matches!(resolved.sources["max_connections"], Source::File(_)));
    assert_eq!(resolved.sources["block_transactions_max"], Source::Default);
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest() {
    for (file, environment, flags) in [
        ("block_byte_max = 1", vec![], vec![]),
        ("", vec![("TALLY_BLOCK_BYTE_MAX", "1")], vec![]),
        ("", vec![], vec![("block_byte_max", "1")]),
        ("[block_byte_max]\na = 1", vec![], vec![]),
    ] {
        let text = faults(file, &environment, &flags);
        assert!(text.contains("`block_byte_max`; did you mean `block_bytes_max`?"), "{text}");
    }
    assert!(faults("zebra = 1", &[], &[]).contains("`zebra`; `tally config show`"));
}

#[test]
fn every_fault_is_reported_at_once_with_its_place() {
    let text = faults(
        "workers = \"many\"\nlisten = true\ntls_key = [1]",
        &[("TALLY_DURABILITY", "maybe")],
        &[("segment_bytes_max", "-1")],
    );
    for part in [
        "`workers`: `many` is not a whole number",
        "`listen`: `true` is not an address",
        "`tls_key`: a single value",
        "TALLY_DURABILITY: `durability`: `maybe` is not one of on off",
        "flag: `segment_bytes_max`: `-1` is negative",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (flags, part) in [
        (("listen", "0.0.0.0:5460"), "set `password_file`"),
        (("tls_key", "/dev/null"), "set together"),
        (("tls", "require"), "`tls = require` needs"),
        (("tls_client_ca", "/dev/null"), "`tls_client_ca` needs `tls_certificate`"),
        (("tls_client_certificate", "required"), "needs `tls_client_ca`"),
        (("tls_version_min", "1.1"), "`1.1` is not one of 1.2 1.3"),
        (("reserved_connections", "500"), "less than `max_connections`"),
        (("owner", ""), "`owner` is a user's name"),
        (("block_bytes_max", "1"), "at least 65536"),
        (("segment_bytes_max", "65536"), "a block lies in one"),
        (("protocol", "none"), "unknown protocol \"none\""),
        (("max_connections", "0"), "at least 1"),
        (("http_listen", "127.0.0.1:5460"), "the same address"),
        (("password_file", "/no/such/file"), "does not exist"),
        (("kafka_brokers", "a:9092, b:9092"), "`kafka_topic` are set together"),
        (("kafka_tls_key", "/no/such/file"), "`kafka_tls_key` are set together"),
        (("kafka_sasl", "scram-sha-256"), "needs `kafka_user`"),
        (("kafka_sasl", "plain"), "over TLS"),
        (("kafka_sasl", "oauth"), "is not one of none plain scram-sha-256"),
    ] {
        let text = faults("", &[], &[flags]);
        assert!(text.contains(part), "{flags:?}: {text}");
    }
}

#[test]
fn the_commented_file_is_valid_as_it_is_and_uncommented() {
    let file = page::commented_file();
    assert_eq!(faults(&file, &[], &[]), "");
    let uncommented: String = file
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let resolved = resolve(&resolve_with(&uncommented, &[], &[])).unwrap();
    let from_file =
        resolved.sources.values().filter(|source| matches!(source, Source::File(_))).count();
    assert_eq!(from_file, SETTINGS.len());
}

/// `BLESS=1 cargo test -p node` rewrites the page.
#[test]
fn the_reference_page_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let page = page::reference();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page);
}

#[test]
fn the_table_is_small_and_says_what_it_must() {
    assert!(SETTINGS.len() < 70);
    let keys: BTreeSet<_> = SETTINGS.iter().map(|s| s.key).collect();
    assert_eq!(keys.len(), SETTINGS.len());
    for setting in SETTINGS {
        assert!(setting.documentation.trim().ends_with('.'), "{setting:?}");
        assert_eq!(edit_distance(setting.key, setting.key), 0);
    }
    assert_eq!(edit_distance("kitten", "sitting"), 3);
}
