//! Who may depend on whom.
//!
//! Arrows point down only. A new edge is a line here, so it is seen in review; an edge without a
//! use is a fault too, so the list says what is and not what was. Dependencies of tests are free:
//! they ship nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// `crate: the crates of this workspace that it uses`.
const EDGES: &[(&str, &[&str])] = &[
    ("kit", &[]),
    ("types", &["kit"]),
    ("procedure", &["kit", "types"]),
    ("proofs", &[]),
    ("state_tree", &["kit", "proofs"]),
    ("identity", &["types"]),
    ("storage", &["kit", "types"]),
    ("concurrency", &["kit", "procedure", "storage", "types"]),
    ("multiversion", &["concurrency", "kit", "procedure", "storage", "types"]),
    ("protocols", &["concurrency", "kit", "procedure", "storage", "types"]),
    ("ledger", &["kit", "proofs", "types"]),
    ("order", &["kit", "ledger", "types"]),
    ("order-kafka", &["ledger", "order", "types"]),
    ("order-raft", &["ledger", "order", "types"]),
    ("order-comet", &["kit", "ledger", "order", "types"]),
    ("cluster", &["kit", "ledger", "order", "order-raft", "types"]),
    ("pipeline", &["concurrency", "kit", "procedure", "storage", "types"]),
    ("oracle", &["concurrency", "kit", "pipeline", "procedure", "protocols", "storage", "types"]),
    ("recovery", &["concurrency", "ledger", "procedure", "storage", "types"]),
    (
        "replica",
        &[
            "concurrency",
            "kit",
            "ledger",
            "order",
            "pipeline",
            "procedure",
            "proofs",
            "protocols",
            "state_tree",
            "storage",
            "types",
        ],
    ),
    (
        "engine",
        &[
            "concurrency",
            "kit",
            "ledger",
            "order",
            "pipeline",
            "procedure",
            "proofs",
            "recovery",
            "replica",
            "storage",
            "types",
        ],
    ),
    (
        "sim",
        &[
            "concurrency",
            "engine",
            "kit",
            "ledger",
            "multiversion",
            "order",
            "pipeline",
            "procedure",
            "protocols",
            "storage",
            "types",
        ],
    ),
    ("snapshot", &["storage", "types"]),
    ("anker", &["kit", "types"]),
    (
        "sql",
        &["concurrency", "engine", "identity", "kit", "ledger", "procedure", "storage", "types"],
    ),
    ("analytics", &["kit", "procedure", "snapshot", "sql", "storage", "types"]),
    ("pgcatalog", &["identity", "kit", "procedure", "sql", "storage", "types"]),
    ("pgfront", &["kit", "types"]),
    ("web-console", &[]),
    ("workloads", &["kit", "procedure", "types"]),
    (
        "bench",
        &[
            "analytics",
            "anker",
            "concurrency",
            "engine",
            "kit",
            "ledger",
            "multiversion",
            "order",
            "pipeline",
            "procedure",
            "protocols",
            "recovery",
            "snapshot",
            "sql",
            "storage",
            "types",
            "workloads",
        ],
    ),
    (
        "node",
        &[
            "analytics",
            "cluster",
            "concurrency",
            "web-console",
            "engine",
            "kit",
            "ledger",
            "multiversion",
            "order",
            "order-comet",
            "order-kafka",
            "order-raft",
            "pgcatalog",
            "pgfront",
            "procedure",
            "protocols",
            "recovery",
            "snapshot",
            "sql",
            "storage",
            "types",
        ],
    ),
    (
        "tools",
        &[
            "bench",
            "cluster",
            "engine",
            "kit",
            "ledger",
            "multiversion",
            "node",
            "order",
            "protocols",
            "sim",
            "sql",
            "storage",
            "types",
            "workloads",
        ],
    ),
    ("xtask", &[]),
];

/// Crates from outside whose use is itself a boundary: sockets, clocks, parsers, wire formats.
const CONFINED: &[(&str, &[&str])] = &[
    ("axum", &["web-console", "node"]),
    ("clap", &["node", "tools"]),
    ("ed25519-zebra", &["ledger"]),
    ("openraft", &["order-raft"]),
    ("prost", &["order-comet"]),
    ("tendermint-proto", &["order-comet"]),
    ("pgwire", &["pgfront"]),
    ("prometheus-client", &["node"]),
    ("rskafka", &["order-kafka"]),
    ("sqlparser", &["pgcatalog", "sql"]),
    ("datafusion", &["analytics"]),
    (
        "tokio",
        &[
            "analytics",
            "bench",
            "cluster",
            "web-console",
            "engine",
            "node",
            "order-kafka",
            "order-raft",
            "pgfront",
            "sql",
            "tools",
        ],
    ),
    ("proc-macro2", &["xtask"]),
    ("syn", &["xtask"]),
    ("tokio-postgres", &["web-console", "tools"]),
    ("toml", &["cluster", "node"]),
];

/// Every departure from the lists.
pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    let crates = crate_names(root)?;
    for name in &crates {
        let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml"))?;
        let used = dependencies(&manifest);
        let ours: BTreeSet<&str> = used.iter().copied().filter(|u| crates.contains(*u)).collect();
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| from == name) else {
            faults.push(format!("{name} is not in the list of crates; say what it may use"));
            continue;
        };
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        for edge in ours.difference(&allowed) {
            faults.push(format!("{name} uses {edge}, which its layer does not allow"));
        }
        for edge in allowed.difference(&ours) {
            faults.push(format!("{name} is allowed {edge} and does not use it"));
        }
        for (outside, users) in CONFINED {
            if used.contains(outside) && !users.contains(&name.as_str()) {
                faults.push(format!("{name} uses {outside}, which belongs to {users:?}"));
            }
        }
    }
    for (name, _) in EDGES.iter().filter(|(name, _)| !crates.contains(*name)) {
        faults.push(format!("{name} is in the list of crates and does not exist"));
    }
    Ok(faults)
}

/// The folders under `crates`.
pub fn crate_names(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// The names in `[dependencies]`, in any of the ways that a manifest can give them.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section == "dependencies]";
            if let Some(name) = section.strip_prefix("dependencies.") {
                used.insert(name.trim_end_matches(']'));
            }
        } else if inside
            && let Some((name, _)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let name = name.trim();
            used.insert(name.split('.').next().unwrap_or(name));
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_hold() {
        let faults = faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// The list itself has no cycle: a crate comes after everything that it uses.
    #[test]
    fn arrows_point_down() {
        let mut above = BTreeSet::new();
        for (name, uses) in EDGES {
            for used in *uses {
                assert!(above.contains(used), "{name} stands before {used}");
            }
            above.insert(*name);
        }
    }

    #[test]
    fn manifests_are_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
            b = { path = \"../b\" }\n# c = 1\n[dev-dependencies]\nd = \"1\"\n[dependencies.e]\n";
        let used: Vec<&str> = dependencies(manifest).into_iter().collect();
        assert_eq!(used, ["a", "b", "e"]);
    }
}
