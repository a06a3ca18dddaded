//! Pages that stay true: each claim of what works names a test that exists, links lead somewhere,
//! and the index has every page.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::folders;

/// What works, claim by claim.
const CLAIMS: &str = "docs/state.md";
const INDEX: &str = "docs/README.md";

/// Fewer rows mean that the table was not found.
const CLAIMS_LEAST: usize = 20;

pub fn faults(root: &Path) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    let page = fs::read_to_string(root.join(CLAIMS))?;
    let rows = claims(&page);
    if rows.len() < CLAIMS_LEAST {
        faults.push(format!("{CLAIMS}: {} claims, at least {CLAIMS_LEAST}", rows.len()));
    }
    for (claim, names) in rows {
        if names.is_empty() {
            faults.push(format!("{CLAIMS}: \"{claim}\" names no test"));
        }
        for name in names {
            if !exists(root, &name)? {
                faults.push(format!("{CLAIMS}: \"{claim}\": there is no test {name}"));
            }
        }
    }
    for page in pages(root)? {
        check_links(root, &page, &mut faults)?;
    }
    Ok(faults)
}

/// The rows of the table of what works, each with the names in its last column.
fn claims(page: &str) -> Vec<(String, Vec<String>)> {
    let works = page.split("\n## ").find(|part| part.starts_with("Works\n")).unwrap_or_default();
    let rows = works.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.filter_map(|row| row.rsplit_once(" | ")).skip(1);
    rows.map(|(claim, shown_by)| {
        let names = shown_by.split('`').skip(1).step_by(2).map(str::to_owned);
        (claim.to_owned(), names.collect())
    })
    .collect()
}

/// `crate::module::function`, or the path of a script that runs on a node.
fn exists(root: &Path, name: &str) -> io::Result<bool> {
    if name.contains('/') {
        return is_run_script(root, name);
    }
    let parts: Vec<&str> = name.split("::").filter(|part| *part != "tests").collect();
    let [package, ref modules @ .., function] = parts[..] else { return Ok(false) };
    let crates = folders::crates(root)?;
    let Some((_, path)) = crates.get(package) else { return Ok(false) };
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        rust_files(&root.join(path).join(folder), &mut files)?;
    }
    for file in files.iter().filter(|file| is_in(file, modules)) {
        if has_test(&fs::read_to_string(file)?, function) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// There, and named where scripts are run.
fn is_run_script(root: &Path, name: &str) -> io::Result<bool> {
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let run = fs::read_to_string(root.join("tests/clients/run.sh"))?;
    let make = fs::read_to_string(root.join("Makefile"))?;
    let is_run = run.lines().any(|line| line.contains(&file)) || make.contains(name);
    Ok(is_run && root.join(name).is_file())
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Its folders and its own name have all of these.
fn is_in(file: &Path, modules: &[&str]) -> bool {
    let file = file.with_extension("");
    modules.iter().all(|module| file.components().any(|part| part.as_os_str() == *module))
}

/// A function of this name under an attribute that makes it a test.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let named = [format!("fn {function}("), format!("async fn {function}(")];
    let mut places =
        (0..lines.len()).filter(|at| named.iter().any(|it| lines[*at].starts_with(it)));
    places.any(|at| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
        above.clone().any(|line| line.starts_with("#[") && line.contains("test"))
            && !above.clone().any(|line| line.starts_with("#[ignore"))
    })
}

/// Pages for people: paths below the root.
fn pages(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    for folder in ["", "docs"] {
        for entry in fs::read_dir(root.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                pages.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
            }
        }
    }
    pages.sort();
    Ok(pages)
}

fn check_links(root: &Path, page: &str, faults: &mut Vec<String>) -> io::Result<()> {
    let text = fs::read_to_string(root.join(page))?;
    let here = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut leads_to = BTreeSet::new();
    for link in links(&text) {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { root.join(page) } else { root.join(here).join(file) };
        leads_to.insert(file.to_owned());
        if !target.exists() {
            faults.push(format!("{page}: a link to {link}, which is not there"));
        } else if !anchor.is_empty() && !anchors(&fs::read_to_string(&target)?).contains(anchor) {
            faults.push(format!("{page}: a link to {link}, which has no such heading"));
        }
    }
    if page == INDEX {
        let missing = pages(root)?.into_iter().filter(|page| page != INDEX);
        for missing in missing.filter_map(|page| Some(page.strip_prefix("docs/")?.to_owned())) {
            if !leads_to.contains(&missing) {
                faults.push(format!("{INDEX} does not name {missing}"));
            }
        }
    }
    Ok(())
}

/// Where links of the form `[text](path)` lead, but for other sites.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// What headings are called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
        kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
    };
    headings.map(slug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn one() {\n}\n\n/// Words.\n#[tokio::test(flavor = \"x\")]\n\
        async fn two() {\n}\nfn three() {}\n#[test]\n#[ignore = \"slow\"]\nfn four() {}\n";

    #[test]
    fn a_test_is_a_function_under_its_attribute_that_is_not_ignored() {
        assert!(has_test(TESTS, "one") && has_test(TESTS, "two"));
        assert!(!has_test(TESTS, "three") && !has_test(TESTS, "four") && !has_test(TESTS, "on"));
    }

    #[test]
    fn a_claim_without_a_test_and_a_test_that_does_not_exist_are_found() {
        let page = "# State\n\n## Works\n\n| Claim | Shown by |\n|---|---|\n| This | `a::b::c`, \
            `d/e.sh` |\n| That | words |\n\n## Not\n\n| Else | no |\n";
        let found = claims(page);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].1, ["a::b::c", "d/e.sh"]);
        assert!(found[1].1.is_empty());
        let root = crate::root();
        let own = "xtask::pages::tests::pages_are_true";
        assert!(exists(&root, own).unwrap());
        assert!(!exists(&root, "xtask::pages::no_such_test").unwrap());
        assert!(!exists(&root, "xtask::tidy::no_such_test").unwrap());
        assert!(!exists(&root, "tests/clients/none.sh").unwrap());
        assert!(exists(&root, "tests/clients/verifiers").unwrap());
    }

    #[test]
    fn links_and_headings_are_found_as_readers_follow_them() {
        let text = "# A `b_c`, d\n[x](y.md#z) [u](https://w) f](no w)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), ["y.md#z"]);
        assert!(anchors(text).contains("a-b_c-d"));
    }

    #[test]
    fn pages_are_true() {
        let faults = faults(&crate::root()).unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
