//! Cycles of imports: files of which each needs the others.
//!
//! A file needs another where a path in its code (an import, a type, a call) ends at an item of the
//! other. Names are followed to where the item is: through `pub use`, which alone makes no need, as
//! it hands on a name; through private imports, which children see; through globs. A cycle is a
//! strongly connected component of more than one file. Inline modules belong to their file.
//!
//! What is not seen: methods and implementations of traits that are called without a path, and
//! items that macros make, for which the module counts where they are looked for.

use std::collections::BTreeSet;

use super::modules::{Name, Segments, Tree};

/// For each file the files that it needs.
pub fn needs(tree: &Tree) -> Vec<BTreeSet<usize>> {
    let mut needs = vec![BTreeSet::new(); tree.files.len()];
    for (index, module) in tree.modules.iter().enumerate() {
        let item = |path: &Segments, wanted| match resolve(tree, index, path, wanted, &mut vec![]) {
            Some(End::Item(file)) => Some(file),
            // A module is only named; what of it is used has a longer path.
            Some(End::Module(_)) | None => None,
        };
        let used = module.used.iter().filter_map(|path| match &path[..] {
            [name] if name.ends_with('!') => {
                let at = tree.macros.get(name.trim_end_matches('!'))?;
                Some(tree.modules[*at].file)
            }
            _ => item(path, Wanted::Item),
        });
        // An import of a module and a function in one is not a need of either: its uses are.
        let imported = module.imported.iter().filter_map(|path| item(path, Wanted::Module));
        let ends = used.chain(imported).filter(|end| *end != module.file);
        needs[module.file].extend(ends);
    }
    needs
}

/// The largest cycle, or nothing.
pub fn largest(needs: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut largest: Vec<usize> = Vec::new();
    for component in components(needs) {
        if component.len() > largest.len().max(1) {
            largest = component;
        }
    }
    largest
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// An item, in this file.
    Item(usize),
    Module(usize),
}

/// Which of the meanings of a name is looked for first.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Item,
    Module,
}

/// Names that are being looked up, which imports may lead round to.
type Seen = Vec<(usize, String, Wanted)>;

/// Where a path ends that stands in a module, or nothing if outside of the crate.
fn resolve(
    tree: &Tree,
    from: usize,
    path: &[String],
    wanted: Wanted,
    seen: &mut Seen,
) -> Option<End> {
    let (first, mut rest) = path.split_first()?;
    let wanted_of = |rest: &[String]| if rest.is_empty() { wanted } else { Wanted::Module };
    let mut end = match first.as_str() {
        "crate" => End::Module(0),
        "self" => End::Module(from),
        "super" => End::Module(tree.modules[from].parent?),
        name => lookup(tree, from, name, wanted_of(rest), seen)?,
    };
    while let (End::Module(module), Some((name, after))) = (end, rest.split_first()) {
        rest = after;
        end = if name == "super" {
            End::Module(tree.modules[module].parent?)
        } else {
            // Names from outside that a module hands on, and those that macros make, are its own.
            lookup(tree, module, name, wanted_of(rest), seen)
                .unwrap_or(End::Item(tree.modules[module].file))
        };
    }
    Some(end)
}

/// What a name stands for in a module.
fn lookup(tree: &Tree, module: usize, name: &str, wanted: Wanted, seen: &mut Seen) -> Option<End> {
    let here = &tree.modules[module];
    let key = (module, name.to_owned(), wanted);
    if seen.contains(&key) {
        return None;
    }
    seen.push(key);
    let end = match here.names.get(name) {
        Some(names) => {
            let ends: Vec<End> = names
                .iter()
                .filter_map(|name| match name {
                    Name::Item => Some(End::Item(here.file)),
                    Name::Module(child) => Some(End::Module(*child)),
                    Name::Import(path) => resolve(tree, module, path, wanted, seen),
                })
                .collect();
            let is_wanted =
                |end: &&End| matches!(end, End::Module(_)) == (wanted == Wanted::Module);
            ends.iter().find(is_wanted).or(ends.first()).copied()
        }
        None => here.globs.iter().find_map(|glob| in_glob(tree, module, glob, name, wanted, seen)),
    };
    seen.pop();
    end
}

fn in_glob(
    tree: &Tree,
    module: usize,
    glob: &[String],
    name: &str,
    wanted: Wanted,
    seen: &mut Seen,
) -> Option<End> {
    match resolve(tree, module, glob, Wanted::Module, seen)? {
        End::Module(named) => lookup(tree, named, name, wanted, seen),
        // The variants of an enum, which are not kept: their names are seldom another's.
        End::Item(_) => None,
    }
}

/// Strongly connected components, by Tarjan's algorithm.
fn components(needs: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        needs,
        order: vec![None; needs.len()],
        low: vec![0; needs.len()],
        stack: Vec::new(),
        count: 0,
        components: Vec::new(),
    };
    for file in 0..needs.len() {
        if search.order[file].is_none() {
            search.visit(file);
        }
    }
    search.components
}

struct Search<'a> {
    needs: &'a [BTreeSet<usize>],
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    count: usize,
    components: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) {
        self.order[file] = Some(self.count);
        self.low[file] = self.count;
        self.count += 1;
        self.stack.push(file);
        for &needed in &self.needs[file] {
            match self.order[needed] {
                None => {
                    self.visit(needed);
                    self.low[file] = self.low[file].min(self.low[needed]);
                }
                Some(order) if self.stack.contains(&needed) => {
                    self.low[file] = self.low[file].min(order);
                }
                Some(_) => {}
            }
        }
        if self.order[file] == Some(self.low[file]) {
            let start = self.stack.iter().position(|at| *at == file).expect("it is on the stack");
            let mut component = self.stack.split_off(start);
            component.sort_unstable();
            self.components.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `from -> to` for each need of a crate with these files.
    fn needs_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::read(&folder.path().join("lib.rs")).unwrap();
        let name = |file: usize| {
            tree.files[file].path.strip_prefix(folder.path()).unwrap().display().to_string()
        };
        let mut found = Vec::new();
        for (from, needs) in needs(&tree).iter().enumerate() {
            found.extend(needs.iter().map(|to| format!("{} -> {}", name(from), name(*to))));
        }
        found.sort();
        found
    }

    #[test]
    fn imports_calls_and_types_are_needs() {
        let found = needs_of(&[
            ("lib.rs", "mod a; mod b; mod c; pub fn f() { a::g(); }"),
            ("a.rs", "use crate::b::{self, T}; pub fn g() { b::h::<T>(crate::c::U::new()) }"),
            ("b.rs", "pub struct T; pub fn h<X>(_: impl Sized) {} fn i(_: super::c::U) {}"),
            ("c.rs", "pub struct U; impl U { pub fn new() -> Self { crate::f(); U } }"),
        ]);
        let expected =
            ["a.rs -> b.rs", "a.rs -> c.rs", "b.rs -> c.rs", "c.rs -> lib.rs", "lib.rs -> a.rs"];
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_followed_to_the_item() {
        let found = needs_of(&[
            ("lib.rs", "mod a; mod b; pub use a::Deep; pub use b::*;"),
            ("a/mod.rs", "mod deep; pub use deep::Deep; use std::fmt; mod sibling;"),
            ("a/deep.rs", "pub struct Deep;"),
            ("a/sibling.rs", "use super::Deep; use super::super::B; fn f(_: super::fmt::Error) {}"),
            ("b.rs", "use crate::Deep; pub struct B(Deep);"),
        ]);
        let expected = [
            "a/sibling.rs -> a/deep.rs",
            "a/sibling.rs -> a/mod.rs",
            "a/sibling.rs -> b.rs",
            "b.rs -> a/deep.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn inline_modules_belong_to_their_file_and_have_their_own_folder() {
        let found = needs_of(&[
            ("lib.rs", "mod a { mod b; pub fn f() { super::g(); b::h(); } } fn g() {} mod c;"),
            ("a/b.rs", "pub fn h() { super::f(); self::i::j() } mod i { pub fn j() {} }"),
            ("c.rs", "#[path = \"other.rs\"] mod d; fn f() { d::k() }"),
            ("other.rs", "pub fn k() { super::super::a::f() }"),
        ]);
        let expected =
            ["a/b.rs -> lib.rs", "c.rs -> other.rs", "lib.rs -> a/b.rs", "other.rs -> lib.rs"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_module_and_a_function_may_have_one_name() {
        let found = needs_of(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::a;"),
            ("a.rs", "mod deep; pub use deep::a; pub struct A; pub fn other() {}"),
            ("a/deep.rs", "pub fn a() {}"),
            ("b.rs", "use crate::a::A; fn f() { crate::a() }"),
            ("c.rs", "use crate::a; fn f() { a::other() }"),
            ("d.rs", "use crate::a; fn f() { a() }"),
        ]);
        let expected = ["b.rs -> a.rs", "b.rs -> a/deep.rs", "c.rs -> a.rs", "d.rs -> a/deep.rs"];
        assert_eq!(found, expected);
    }

    #[test]
    fn tests_are_passed_over() {
        let found = needs_of(&[
            ("lib.rs", "mod a; #[cfg(test)] mod gone; #[cfg(all(test, unix))] use a::X;"),
            (
                "a.rs",
                "pub struct X; impl X { #[cfg(test)] fn f() { crate::gone::g() } }\n\
                #[cfg(any(test, unix))] fn g() -> super::Y {}\n\
                #[test] fn h() { super::z() } fn i() { #[cfg(not(test))] super::z() }",
            ),
        ]);
        assert_eq!(found, ["a.rs -> lib.rs"]);
    }

    #[test]
    fn macros_are_looked_into_and_needed() {
        let found = needs_of(&[
            ("lib.rs", "#[macro_use] mod a; mod b; mod c;"),
            ("a.rs", "macro_rules! m { () => { $crate::c::f() } }"),
            ("b.rs", "use crate::c::*; fn f() { m!(); let c = 1; println!(\"{}\", [c, T]); }"),
            ("c.rs", "pub const T: u8 = 1; pub fn f() {} mod lib {}"),
        ]);
        assert_eq!(found, ["a.rs -> c.rs", "b.rs -> a.rs", "b.rs -> c.rs"]);
    }

    #[test]
    fn imports_that_go_round_end() {
        let found = needs_of(&[
            ("lib.rs", "mod a; mod b; use a::*;"),
            ("a.rs", "pub use crate::b::*; pub use crate::b::Lost; fn f() { Other::g() }"),
            ("b.rs", "pub use crate::a::*; pub use crate::a::Lost; fn f(_: Lost) {}"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_largest_cycle_is_found() {
        let graph = |edges: &[(usize, usize)]| {
            let mut needs = vec![BTreeSet::new(); 8];
            for (from, to) in edges {
                needs[*from].insert(*to);
            }
            largest(&needs)
        };
        assert!(graph(&[(0, 1), (1, 2), (0, 2), (3, 2)]).is_empty());
        assert_eq!(graph(&[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (1, 2)]), [2, 3, 4]);
        // Two cycles that share a file are one.
        assert_eq!(graph(&[(0, 1), (1, 0), (1, 5), (5, 6), (6, 1), (6, 7)]), [0, 1, 5, 6]);
    }
}
