//! The modules of a crate as the compiler finds them without tests: from a root file by `mod`, with
//! the names that each declares or imports and the paths that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::comments::{self, Found};
use super::conditions::{is_test, item_attributes, member_attributes};
use super::counts::Counts;
use super::tokens;

/// A path's segments.
pub type Segments = Vec<String>;

/// What a name of a module stands for.
#[derive(Debug)]
pub enum Name {
    /// An item of this module.
    Item,
    Module(usize),
    /// `use`, of this path.
    Import(Segments),
}

/// A module, inline or a file.
#[derive(Debug)]
pub struct Module {
    /// Index in [`Tree::files`].
    pub file: usize,
    pub parent: Option<usize>,
    /// Several for a name that is one of modules or types and one of values.
    pub names: BTreeMap<String, Vec<Name>>,
    /// What `use path::*` names.
    pub globs: Vec<Segments>,
    /// Paths in its code.
    pub used: BTreeSet<Segments>,
    /// Paths of `use`, without those that `pub use` only hands on.
    pub imported: BTreeSet<Segments>,
}

impl Module {
    fn name(&mut self, name: String, means: Name) {
        self.names.entry(name).or_default().push(means);
    }
}

/// A file of source, and what was counted in it.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    pub counts: Counts,
    pub pronouns: Vec<Found>,
}

/// The modules below one root file (`lib.rs`, `main.rs`). The first is the root.
#[derive(Debug, Default)]
pub struct Tree {
    pub modules: Vec<Module>,
    pub files: Vec<File>,
    /// `macro_rules!`, by name: the module that has it.
    pub macros: BTreeMap<String, usize>,
}

impl Tree {
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let folder = root.parent().expect("a file is in a folder");
        tree.add_file(root, folder, None)?;
        Ok(tree)
    }

    /// Adds the module of a file whose children are files in `folder`.
    fn add_file(&mut self, path: &Path, folder: &Path, parent: Option<usize>) -> io::Result<usize> {
        let text = fs::read_to_string(path)?;
        let wrong = |error| io::Error::other(format!("{}: {error}", path.display()));
        let tokens: TokenStream = text.parse().map_err(|error| wrong(syn::Error::from(error)))?;
        let code = tokens::code(&text, tokens.clone());
        let parsed: syn::File = syn::parse2(tokens).map_err(wrong)?;
        let file = self.files.len();
        self.files.push(File {
            path: path.to_owned(),
            counts: Counts::of(&text, &parsed, &code),
            pronouns: comments::pronouns(&text, &code),
        });
        self.add_module(file, &parsed.items, folder, parent)
    }

    fn add_module(
        &mut self,
        file: usize,
        items: &[syn::Item],
        folder: &Path,
        parent: Option<usize>,
    ) -> io::Result<usize> {
        let module = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            used: BTreeSet::new(),
            imported: BTreeSet::new(),
        });
        for item in items.iter().filter(|item| !is_test(item_attributes(item))) {
            if let syn::Item::Mod(inner) = item {
                let child = self.add_child(file, inner, folder, module)?;
                self.modules[module].name(inner.ident.to_string(), Name::Module(child));
                continue;
            }
            self.declare(module, item);
            let mut uses = Uses::default();
            uses.visit_item(item);
            self.modules[module].used.extend(uses.paths);
            self.modules[module].imported.extend(uses.imported);
        }
        Ok(module)
    }

    fn add_child(
        &mut self,
        file: usize,
        inner: &syn::ItemMod,
        folder: &Path,
        parent: usize,
    ) -> io::Result<usize> {
        let name = inner.ident.to_string();
        let below = folder.join(&name);
        if let Some((_, items)) = &inner.content {
            return self.add_module(file, items, &below, Some(parent));
        }
        if let Some(path) = path_attribute(&inner.attrs) {
            let from = self.files[file].path.parent().expect("a file is in a folder").join(path);
            let folder = from.parent().expect("a file is in a folder").to_owned();
            return self.add_file(&from, &folder, Some(parent));
        }
        let flat = folder.join(format!("{name}.rs"));
        let path = if flat.is_file() { flat } else { below.join("mod.rs") };
        self.add_file(&path, &below, Some(parent))
    }

    /// The names that an item gives its module.
    fn declare(&mut self, module: usize, item: &syn::Item) {
        use syn::Item;
        if let Item::Use(item) = item {
            return self.import(module, item);
        }
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => {
                    self.macros.insert(name.to_string(), module);
                    return;
                }
                None => return,
            },
            _ => return,
        };
        self.modules[module].name(name.to_string(), Name::Item);
    }

    fn import(&mut self, module: usize, item: &syn::ItemUse) {
        let mut imports = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut imports);
        let handed_on = !matches!(item.vis, syn::Visibility::Inherited);
        let module = &mut self.modules[module];
        for (path, name) in imports {
            match name {
                None => module.globs.push(path),
                Some(name) => {
                    if !handed_on {
                        module.imported.insert(path.clone());
                    }
                    module.name(name, Name::Import(path));
                }
            }
        }
    }
}

/// The paths of a tree of `use`, each with the name that it gives, or none for a glob.
fn flatten(
    tree: &syn::UseTree,
    above: &mut Segments,
    imports: &mut Vec<(Segments, Option<String>)>,
) {
    match tree {
        syn::UseTree::Path(path) => {
            above.push(path.ident.to_string());
            flatten(&path.tree, above, imports);
            above.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            imports.push((above.clone(), above.last().cloned()));
        }
        syn::UseTree::Name(name) => {
            let name = name.ident.to_string();
            imports.push(([above.as_slice(), &[name.clone()]].concat(), Some(name)));
        }
        syn::UseTree::Rename(rename) => {
            let mut path = above.clone();
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            // `as _` gives no name; a name that no path can have does as well.
            imports.push((path, Some(rename.rename.to_string())));
        }
        syn::UseTree::Glob(_) => imports.push((above.clone(), None)),
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, above, imports));
        }
    }
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
            return None;
        };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// Collects the paths of code.
#[derive(Default)]
struct Uses {
    paths: BTreeSet<Segments>,
    imported: BTreeSet<Segments>,
}

impl Uses {
    fn add(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.insert(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
    }

    /// Paths in what a macro is given: those of two segments and more, and single ones that look
    /// like types. A single small letter's word is mostly a variable.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    colons = 0;
                    self.add_tokens(group.stream());
                }
                _ => {
                    self.end(&mut path);
                    colons = 0;
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Segments) {
        let path = std::mem::take(path);
        let type_like = |name: &String| name.starts_with(char::is_uppercase);
        if path.len() > 1 || path.first().is_some_and(type_like) {
            self.paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_impl_item(&mut self, member: &'ast syn::ImplItem) {
        if !is_test(member_attributes(member)) {
            visit::visit_impl_item(self, member);
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // The `!` keeps a macro's name apart from items of the same name.
        if let Some(last) = call.path.segments.last() {
            self.paths.insert(vec![format!("{}!", last.ident)]);
        }
        self.add_tokens(call.tokens.clone());
    }

    /// An import in a function; the module's own are read with its names.
    fn visit_block(&mut self, block: &'ast syn::Block) {
        for statement in &block.stmts {
            if let syn::Stmt::Item(syn::Item::Use(item)) = statement {
                let mut imports = Vec::new();
                flatten(&item.tree, &mut Vec::new(), &mut imports);
                self.imported.extend(imports.into_iter().map(|(path, _)| path));
            }
        }
        visit::visit_block(self, block);
    }
}
