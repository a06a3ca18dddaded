//! What keeps the sources readable: short files, short lines, a map that is true.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::folders::{FOLDERS, crates};

const FILE_LINES_MAX: usize = 800;
const LINE_COLUMNS_MAX: usize = 100;

/// Files that are longer, with the reason. The list may only shrink.
const LONG_FILES: &[&str] = &[];

pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut files = Vec::new();
    for folder in FOLDERS.iter().chain(&["tests", "scripts"]) {
        collect(&root.join(folder), &mut files)?;
    }
    for file in &files {
        check_file(root, file, &mut faults)?;
    }
    check_map(root, &mut faults)?;
    check_examples_in_docs(root, &files, &mut faults)?;
    Ok(faults)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["target", "node_modules", "dist"].contains(&&*name) {
                collect(&path, files)?;
            }
        } else if ["rs", "sql", "sh", "py", "java", "js"]
            .iter()
            .any(|kind| name.ends_with(&format!(".{kind}")))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Lines that quote are let be: a message in one piece can be searched for, and tests quote
/// statements and answers as they are.
fn check_file(root: &Path, file: &Path, faults: &mut Vec<String>) -> io::Result<()> {
    let text = fs::read_to_string(file)?;
    let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let lines = text.lines().count();
    let excused = LONG_FILES.contains(&name.as_str());
    if lines > FILE_LINES_MAX && !excused {
        faults.push(format!("{name}: {lines} lines, at most {FILE_LINES_MAX}"));
    }
    if lines <= FILE_LINES_MAX && excused {
        faults.push(format!("{name}: no longer too long; take it off the list"));
    }
    if file.components().any(|part| part.as_os_str() == "tests") {
        return Ok(());
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        let place = format!("{name}:{}", index + 1);
        if columns > LINE_COLUMNS_MAX && !line.contains('"') {
            faults.push(format!("{place}: {columns} columns, at most {LINE_COLUMNS_MAX}"));
        }
        if line.ends_with([' ', '\t']) {
            faults.push(format!("{place}: white space at the end"));
        }
    }
    Ok(())
}

/// ARCHITECTURE.md has a row for each crate under its folder's heading, and none for a crate that
/// does not exist.
fn check_map(root: &Path, faults: &mut Vec<String>) -> io::Result<()> {
    let map = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let crates = crates(root)?;
    let quoted = |line: &'_ str| Some(line.split_once('`')?.0.to_owned());
    let (mut folder, mut mapped) = (None, BTreeMap::new());
    for line in map.lines() {
        if let Some(title) = line.strip_prefix('#') {
            folder = title.trim_start_matches('#').strip_prefix(" `").and_then(quoted);
        } else if let Some(name) = line.strip_prefix("| `").and_then(quoted) {
            mapped.insert(name, folder.clone().unwrap_or_default());
        }
    }
    for (name, (folder, _)) in &crates {
        match mapped.get(name) {
            None => faults.push(format!("ARCHITECTURE.md has no row for `{name}`")),
            Some(heading) if heading != folder => faults.push(format!(
                "ARCHITECTURE.md has `{name}` under `{heading}`, and it is in `{folder}`"
            )),
            Some(_) => {}
        }
    }
    for name in mapped.keys().filter(|name| !crates.contains_key(*name)) {
        faults.push(format!("ARCHITECTURE.md has a row for `{name}`, which does not exist"));
    }
    Ok(())
}

/// `make test` runs the examples in docs of the crates that it names, since to look for them in
/// every crate takes longer than to run them: it names those that have some.
fn check_examples_in_docs(
    root: &Path,
    files: &[PathBuf],
    faults: &mut Vec<String>,
) -> io::Result<()> {
    let makefile = fs::read_to_string(root.join("Makefile"))?;
    let crates = crates(root)?;
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let is_of = |path: &PathBuf| Path::new(&name).starts_with(path.join("src"));
        let Some((crate_name, _)) = crates.iter().find(|(_, (_, path))| is_of(path)) else {
            continue;
        };
        let run = format!("cargo test --doc --package {crate_name}\n");
        if has_example(&fs::read_to_string(file)?) && !makefile.contains(&run) {
            faults.push(format!("{name}: an example that `make test` does not run: add `{run}`"));
        }
    }
    Ok(())
}

/// Whether a doc comment has a block of code that names no language, which is then a test.
fn has_example(text: &str) -> bool {
    let docs = text
        .lines()
        .map(str::trim_start)
        .filter_map(|line| line.strip_prefix("//! ```").or_else(|| line.strip_prefix("/// ```")));
    docs.step_by(2).any(str::is_empty)
}

#[cfg(test)]
mod tests {
    #[test]
    fn examples_are_blocks_without_a_language() {
        assert!(super::has_example("/// ```\n/// f();\n/// ```\n"));
        assert!(super::has_example("//! ```text\n//! ```\n    /// ```\n    /// ```\n"));
        assert!(!super::has_example("/// ```text\n/// a\n/// ```\n//! ```sql\n//! ```\n"));
    }

    #[test]
    fn the_sources_are_tidy() {
        let faults = super::faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
