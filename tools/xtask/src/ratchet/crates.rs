//! Measures of all crates.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;

use super::comments::{self, Found};
use super::measure::{
    ASSERTIONS, CYCLE, FILE_LINES, FUNCTION_LINES, Measure, Measured, PRONOUNS, STRING_ERRORS,
    Values,
};
use super::modules::Tree;
use super::{cycles, tokens};
use crate::folders;

/// Crates whose invariants code has to check: on each of them rests what a ledger says.
fn is_core(crate_name: &str) -> bool {
    let core =
        ["cluster", "concurrency", "engine", "ledger", "order", "protocols", "replica", "storage"];
    core.contains(&crate_name) || crate_name.starts_with("order-")
}

/// Crates are read side by side, as an unoptimised parser takes its time.
pub fn measure(root: &Path) -> io::Result<Values> {
    let crates = folders::crates(root)?;
    let mut values = Values::new();
    std::thread::scope(|scope| {
        let of_crate = |name, path| move || measure_crate(root, name, path);
        let started: Vec<_> = crates
            .iter()
            .map(|(name, (_, path))| scope.spawn(of_crate(name.as_str(), path.as_path())))
            .collect();
        for of_crate in started {
            values.extend(of_crate.join().expect("a crate's measuring panicked")?);
        }
        io::Result::Ok(())
    })?;
    measure_pages(root, &mut values)?;
    Ok(values)
}

fn set(values: &mut Values, measure: &Measure, subject: &str, value: u64, places: Vec<String>) {
    // None at all needs no line, unless more of it is better.
    if measure.more_is_better || measure.worse(value, measure.aim) {
        let key = (measure.name, subject.to_owned());
        let measured = Measured { value, places };
        // Functions of one name, in implementations for one type: the longest.
        if values.get(&key).is_none_or(|before| before.value < value) {
            values.insert(key, measured);
        }
    }
}

fn count(of: &[String]) -> u64 {
    of.len() as u64
}

/// Code is what is below `lib.rs` and `main.rs`; of other files the comments are read.
fn measure_crate(root: &Path, crate_name: &str, path: &Path) -> io::Result<Values> {
    let mut values = Values::new();
    let source = root.join(path).join("src");
    let (mut code, mut assertions, mut string_errors) = (0, Vec::new(), Vec::new());
    let (mut cycle, mut pronouns) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for tree_root in ["lib.rs", "main.rs"].map(|name| source.join(name)) {
        if !tree_root.is_file() {
            continue;
        }
        let tree = Tree::read(&tree_root)?;
        let of_tree = largest_cycle(root, &tree);
        if of_tree.len() > cycle.len() {
            cycle = of_tree;
        }
        for file in tree.files.iter().filter(|file| seen.insert(file.path.clone())) {
            let name = shown(root, &file.path);
            let counts = &file.counts;
            code += counts.code;
            pronouns.extend(file.pronouns.iter().map(|found| place(root, &file.path, found)));
            assertions.extend(counts.assertions.iter().map(|line| format!("{name}:{line}")));
            string_errors.extend(counts.string_errors.iter().map(|line| format!("{name}:{line}")));
            set(&mut values, &FILE_LINES, &name, counts.lines as u64, Vec::new());
            for (function, lines) in &counts.functions {
                let subject = format!("{name}:{function}");
                set(&mut values, &FUNCTION_LINES, &subject, *lines as u64, Vec::new());
            }
        }
    }
    pronouns_elsewhere(root, path, &seen, &mut pronouns)?;
    pronouns.sort();
    set(&mut values, &PRONOUNS, crate_name, count(&pronouns), pronouns);
    set(&mut values, &CYCLE, crate_name, count(&cycle), cycle);
    set(&mut values, &STRING_ERRORS, crate_name, count(&string_errors), string_errors);
    if is_core(crate_name) && code > 0 {
        let tenths = count(&assertions) * 10_000 / code as u64;
        set(&mut values, &ASSERTIONS, crate_name, tenths, assertions);
    }
    Ok(values)
}

/// The files of the largest cycle, each with those of the cycle that it needs.
fn largest_cycle(root: &Path, tree: &Tree) -> Vec<String> {
    let needs = cycles::needs(tree);
    let cycle = cycles::largest(&needs);
    let name = |file: &usize| shown(root, &tree.files[*file].path);
    let line = |file: &usize| {
        let within: Vec<String> =
            needs[*file].iter().filter(|needed| cycle.contains(needed)).map(name).collect();
        format!("{} -> {}", name(file), within.join(" "))
    };
    cycle.iter().map(line).collect()
}

/// Pronouns in tests, examples and benchmarks.
fn pronouns_elsewhere(
    root: &Path,
    crate_path: &Path,
    read: &BTreeSet<PathBuf>,
    places: &mut Vec<String>,
) -> io::Result<()> {
    let mut files = Vec::new();
    files_in(&root.join(crate_path), "rs", &mut files)?;
    for file in files.iter().filter(|file| !read.contains(*file)) {
        let text = fs::read_to_string(file)?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        let found = comments::pronouns(&text, &tokens::code(&text, tokens));
        places.extend(found.iter().map(|found| place(root, file, found)));
    }
    Ok(())
}

fn measure_pages(root: &Path, values: &mut Values) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "md") {
            files.push(path);
        }
    }
    files.sort();
    files_in(&root.join("docs"), "md", &mut files)?;
    let mut places = Vec::new();
    for file in files {
        let found = comments::pronouns_of_page(&fs::read_to_string(&file)?);
        places.extend(found.iter().map(|found| place(root, &file, found)));
    }
    set(values, &PRONOUNS, "docs", count(&places), places);
    Ok(())
}

fn place(root: &Path, file: &Path, found: &Found) -> String {
    format!("{}:{}: {}", shown(root, file), found.line, found.word)
}

fn files_in(folder: &Path, kind: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                files_in(&path, kind, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == kind) {
            files.push(path);
        }
    }
    Ok(())
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
