//! Who may depend on whom.
//!
//! Crates lie in folders ([`folders`]), and six rules say which folders know nothing of which.
//! Walls are what holds within a folder, or more closely. Both are about what a crate reaches, by
//! itself or by what it depends on. That there are no cycles is cargo's to check; dependencies of
//! tests are free: they ship nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::folders;

/// `folder: the folders that it knows nothing of`. Of the two lowest, each needs some of the other;
/// `tools` drives everything.
const RULES: &[(&str, &[&str])] = &[
    ("core", &["sql", "network", "studies", "node", "tools"]),
    ("trust", &["sql", "network", "studies", "node", "tools"]),
    ("sql", &["network", "studies", "node", "tools"]),
    ("network", &["sql", "studies", "node", "tools"]),
    ("studies", &["sql", "network", "node", "tools"]),
    ("node", &["tools"]),
];

/// What executes a block, and what a block is in bytes, know nothing of each other. They meet in
/// `recovery`, `replica` and `engine`.
const EXECUTION: &[&str] =
    &["procedure", "storage", "concurrency", "protocols", "pipeline", "snapshot"];
const BYTES: &[&str] = &["ledger", "order"];
const MEETING: &[&str] = &["recovery", "replica", "engine"];

/// `crates: what they know nothing of`.
const WALLS: &[(&[&str], &[&str])] = &[
    (EXECUTION, BYTES),
    (EXECUTION, MEETING),
    (BYTES, EXECUTION),
    (BYTES, MEETING),
    // What a program is, and where rows are. A protocol sees both.
    (&["procedure"], &["storage"]),
    (&["storage"], &["procedure"]),
    (&["snapshot"], &["procedure", "concurrency", "pipeline"]),
    // No particular protocol, and no schedule of blocks by the protocols.
    (&["concurrency", "pipeline", "recovery"], &["protocols"]),
    (&["concurrency", "protocols"], &["pipeline"]),
    (&["recovery"], &["order", "pipeline", "state_tree"]),
    // A value below the threads and disks around it.
    (&["replica"], &["recovery", "engine", "snapshot"]),
    // Bytes and hashes, whatever tree they are of.
    (BYTES, &["state_tree"]),
    // Orderers and members of a cluster move bytes, whatever these do.
    (&["order-raft", "order-kafka", "order-comet", "cluster", "chainify"], EXECUTION),
    (&["order-raft", "order-kafka", "order-comet", "cluster", "chainify"], MEETING),
    // A session is answered from images by an analytical engine that it does not know.
    (&["sql", "pgcatalog"], &["analytics", "snapshot"]),
    // Judges and worlds from a seed, without what they judge for.
    (&["oracle"], &["ledger", "order", "engine", "sql"]),
    (&["sim"], &["sql", "cluster", "node"]),
    (&["bench"], &["cluster", "node"]),
    (&["multiversion"], &["ledger", "order", "protocols"]),
];

/// `crate: all that it reaches`, of leaves that would be good for something else alone.
const LEAVES: &[(&str, &[&str])] = &[
    ("kit", &[]),
    ("proofs", &[]),
    ("xtask", &[]),
    ("types", &["kit"]),
    ("state_tree", &["kit", "proofs"]),
    ("pgfront", &["kit", "types"]),
    ("anker", &["kit", "types"]),
    ("workloads", &["kit", "procedure", "types"]),
];

/// Crates from outside whose use is itself a boundary: sockets, clocks, parsers, wire formats.
const CONFINED: &[(&str, &[&str])] = &[
    ("axum", &["web-console", "node"]),
    ("clap", &["node", "tools"]),
    ("ed25519-zebra", &["ledger"]),
    ("mysql_async", &["chainify"]),
    ("openraft", &["order-raft"]),
    ("prost", &["order-comet"]),
    ("tendermint-proto", &["order-comet"]),
    ("pgwire", &["pgfront"]),
    ("prometheus-client", &["node"]),
    ("rskafka", &["order-kafka"]),
    ("sqlparser", &["chainify", "pgcatalog", "sql"]),
    ("datafusion", &["analytics"]),
    (
        "tokio",
        &[
            "analytics",
            "bench",
            "chainify",
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
    ("tokio-postgres", &["chainify", "web-console", "tools"]),
    ("toml", &["cluster", "node"]),
];

/// A crate: its folder, and what its manifest names.
struct Crate {
    folder: &'static str,
    uses: BTreeSet<String>,
}

/// Every departure from the rules.
pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let mut crates = BTreeMap::new();
    for (name, (folder, path)) in folders::crates(root)? {
        let manifest = fs::read_to_string(root.join(path).join("Cargo.toml"))?;
        crates.insert(name, Crate { folder, uses: dependencies(&manifest) });
    }
    let mut faults = faults_of(&crates);
    for name in named().filter(|name| !crates.contains_key(*name)) {
        faults.push(format!("{name} is in the lists of deps.rs and does not exist"));
    }
    Ok(faults)
}

fn faults_of(crates: &BTreeMap<String, Crate>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, of) in crates {
        for reached in reached(crates, name) {
            let (other, shown) = (reached.name, reached.shown(name));
            let above = crates[other].folder;
            if rows(RULES, |folder| *folder == of.folder).any(|none_of| none_of.contains(&above)) {
                faults.push(format!("{} knows nothing of {above}, and {shown}", of.folder));
            }
            let mut walls = rows(WALLS, |from| from.contains(&name.as_str()));
            if walls.any(|none_of| none_of.contains(&other)) {
                faults.push(format!("{name} knows nothing of {other}, and {shown}"));
            }
            if let Some(all) = rows(LEAVES, |leaf| leaf == name).next()
                && !all.contains(&other)
            {
                faults.push(format!("{name} knows of {all:?} alone, and {shown}"));
            }
        }
        for (outside, users) in CONFINED {
            if of.uses.contains(*outside) && !users.contains(&name.as_str()) {
                faults.push(format!("{name} uses {outside}, which belongs to {users:?}"));
            }
        }
    }
    faults
}

/// What stands beside the keys of a list that are asked for.
fn rows<'a, Key, Value>(
    list: &'a [(Key, Value)],
    is_asked: impl Fn(&Key) -> bool + 'a,
) -> impl Iterator<Item = &'a Value> {
    list.iter().filter(move |(key, _)| is_asked(key)).map(|(_, value)| value)
}

/// Crates that the lists name.
fn named() -> impl Iterator<Item = &'static str> {
    let walls = WALLS.iter().flat_map(|(from, to)| from.iter().chain(*to));
    let leaves = LEAVES.iter().flat_map(|(leaf, all)| std::iter::once(leaf).chain(*all));
    let confined = CONFINED.iter().flat_map(|(_, users)| *users);
    let names: BTreeSet<&str> = walls.chain(leaves).chain(confined).copied().collect();
    names.into_iter()
}

/// A crate that another depends on, and by which of its own dependencies it does.
struct Reached<'a> {
    name: &'a str,
    by: &'a str,
}

impl Reached<'_> {
    fn shown(&self, from: &str) -> String {
        if self.by == self.name {
            format!("{from} uses {}", self.name)
        } else {
            format!("{from} reaches {} by {}", self.name, self.by)
        }
    }
}

/// All that a crate depends on, nearest first.
fn reached<'a>(crates: &'a BTreeMap<String, Crate>, from: &str) -> Vec<Reached<'a>> {
    let ours = |name: &str| crates.get_key_value(name).map(|(name, _)| name.as_str());
    let mut reached: Vec<Reached<'a>> = crates[from]
        .uses
        .iter()
        .filter_map(|name| ours(name))
        .map(|name| Reached { name, by: name })
        .collect();
    let mut next = 0;
    while next < reached.len() {
        let Reached { name, by } = reached[next];
        for further in crates[name].uses.iter().filter_map(|name| ours(name)) {
            if !reached.iter().any(|reached| reached.name == further) {
                reached.push(Reached { name: further, by });
            }
        }
        next += 1;
    }
    reached
}

/// The names in `[dependencies]`, in any of the ways that a manifest can give them.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = section == "dependencies]";
            if let Some(name) = section.strip_prefix("dependencies.") {
                used.insert(name.trim_end_matches(']').to_owned());
            }
        } else if inside
            && let Some((name, _)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let name = name.trim();
            used.insert(name.split('.').next().unwrap_or(name).to_owned());
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_hold() {
        let faults = faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    fn faults_in(crates: &[(&str, &'static str, &[&str])]) -> Vec<String> {
        let of = |(name, folder, uses): &(&str, &'static str, &[&str])| {
            let uses = uses.iter().map(|name| (*name).to_owned()).collect();
            ((*name).to_owned(), Crate { folder, uses })
        };
        faults_of(&crates.iter().map(of).collect())
    }

    #[test]
    fn a_folder_that_names_one_above_is_a_fault() {
        let crates: &[(&str, &'static str, &[&str])] = &[
            ("engine", "core", &["a"]),
            ("a", "core", &["sql"]),
            ("sql", "sql", &[]),
            ("tools", "tools", &["node"]),
            ("node", "node", &["sql", "engine"]),
        ];
        assert_eq!(
            faults_in(crates),
            [
                "core knows nothing of sql, and a uses sql",
                "core knows nothing of sql, and engine reaches sql by a",
            ]
        );
    }

    #[test]
    fn a_wall_holds_whatever_lies_between() {
        let crates: &[(&str, &'static str, &[&str])] = &[
            ("protocols", "core", &["between"]),
            ("between", "core", &["ledger"]),
            ("ledger", "core", &[]),
            ("xtask", "tools", &["between"]),
            ("other", "core", &["pgwire"]),
        ];
        assert_eq!(
            faults_in(crates),
            [
                "other uses pgwire, which belongs to [\"pgfront\"]",
                "protocols knows nothing of ledger, and protocols reaches ledger by between",
                "xtask knows of [] alone, and xtask uses between",
                "xtask knows of [] alone, and xtask reaches ledger by between",
            ]
        );
    }

    #[test]
    fn every_folder_is_in_the_rules() {
        for (folder, none_of) in RULES {
            let known = |name: &&str| folders::FOLDERS.contains(name);
            assert!(known(folder) && none_of.iter().all(|name| known(name)), "{folder}");
        }
        let ruled = |folder: &&str| RULES.iter().any(|(from, _)| from == folder);
        let free: Vec<_> = folders::FOLDERS.iter().filter(|folder| !ruled(folder)).collect();
        assert_eq!(free, [&"tools"]);
    }

    #[test]
    fn manifests_are_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
            b = { path = \"../b\" }\n# c = 1\n[dev-dependencies]\nd = \"1\"\n[dependencies.e]\n";
        assert_eq!(dependencies(manifest).into_iter().collect::<Vec<_>>(), ["a", "b", "e"]);
    }
}
