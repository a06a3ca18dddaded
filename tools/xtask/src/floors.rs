//! Floors within a crate: its folders in an order, where a file needs only its own floor's and
//! those of floors below.
//!
//! A floor is a folder of `src`, or a file that lies beside the folders. What "needs" means is said
//! by [`cycles`]: tests are passed over, and so is what is only handed on.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::folders;
use crate::ratchet::cycles;
use crate::ratchet::modules::Tree;

/// `crate: its floors`, the lowest first. `lib` stands above all and is not listed.
const FLOORS: &[(&str, &[&str])] = &[(
    "sql",
    &[
        "copy", "syntax", "settings", "schema", "plan", "bind", "plpgsql", "compile", "ddl",
        "session",
    ],
)];

/// Every need that points up, and every floor that is not in the list or not there.
pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    let crates = folders::crates(root)?;
    for (name, floors) in FLOORS {
        match crates.get(*name) {
            Some((_, path)) => faults.extend(faults_of(&root.join(path).join("src"), floors)?),
            None => faults.push(format!("{name} has floors and does not exist")),
        }
    }
    Ok(faults)
}

fn faults_of(source: &Path, floors: &[&str]) -> io::Result<Vec<String>> {
    let tree = Tree::read(&source.join("lib.rs"))?;
    let paths: Vec<&Path> = tree
        .files
        .iter()
        .map(|file| file.path.strip_prefix(source).unwrap_or(&file.path))
        .collect();
    let names: Vec<String> = paths.iter().map(|path| floor_of(path)).collect();
    let mut faults = Vec::new();
    let there: BTreeSet<&str> =
        names.iter().map(String::as_str).filter(|name| *name != "lib").collect();
    let source = source.display();
    for name in &there {
        if !floors.contains(name) {
            faults.push(format!("{source}: {name} is on no floor; say which in floors.rs"));
        }
    }
    for name in floors.iter().filter(|name| !there.contains(**name)) {
        faults.push(format!("{source}: the floor {name} does not exist"));
    }
    let height = |file: usize| floors.iter().position(|floor| *floor == names[file]);
    for (from, needs) in cycles::needs(&tree).iter().enumerate() {
        // The crate's root is needed by none below it, and needs what it likes.
        for &to in needs.iter().filter(|to| names[from] != "lib" && names[from] != names[**to]) {
            if height(to).is_none_or(|to| height(from).is_some_and(|from| from < to)) {
                let (from_path, to_path) = (paths[from].display(), paths[to].display());
                faults.push(format!(
                    "{source}/{from_path} needs {to_path}, and {} stands below {}",
                    names[from], names[to]
                ));
            }
        }
    }
    Ok(faults)
}

/// The first folder, or the file's name.
fn floor_of(path: &Path) -> String {
    let first = path.components().next().map(|part| part.as_os_str().to_string_lossy());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_floors_hold() {
        let faults = faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    fn faults_in(files: &[(&str, &str)], floors: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let start = folder.path().display().to_string();
        let faults = faults_of(folder.path(), floors).unwrap();
        faults.iter().map(|fault| fault.replace(&start, "src")).collect()
    }

    const FILES: &[(&str, &str)] = &[
        ("lib.rs", "mod low; mod high; mod top; pub use low::A; pub fn root() { top::f() }"),
        ("low/mod.rs", "pub mod a; pub use a::A;"),
        ("low/a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::high::B; }"),
        ("high.rs", "use crate::low::A; pub struct B(A);"),
        ("top.rs", "use crate::{A, high::B}; pub fn f() {} fn g(_: A, _: B) {}"),
    ];

    #[test]
    fn needs_that_point_down_are_no_fault() {
        assert!(faults_in(FILES, &["low", "high", "top"]).is_empty());
    }

    #[test]
    fn a_need_that_points_up_is_a_fault() {
        assert_eq!(
            faults_in(FILES, &["high", "low", "top"]),
            ["src/high.rs needs low/a.rs, and high stands below low"]
        );
        let with_root = [FILES, &[("high.rs", "pub struct B; fn h() { crate::root() }")]].concat();
        assert_eq!(
            faults_in(&with_root, &["low", "high", "top"]),
            ["src/high.rs needs lib.rs, and high stands below lib"]
        );
    }

    #[test]
    fn the_list_is_what_there_is() {
        assert_eq!(
            faults_in(FILES, &["low", "middle", "high"]),
            [
                "src: top is on no floor; say which in floors.rs",
                "src: the floor middle does not exist"
            ]
        );
    }
}
