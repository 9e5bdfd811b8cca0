//! Circles of files in a crate that need each other: no circle has more than six files.
//!
//! Always true: a file needs another if it names something of it by a path (`crate::..`, `super::..`, a module below
//! it), or if it calls `self.method(..)` on a type whose method is defined there. A name that a module only re-exports
//! leads to the file that defines it. Neither `mod` nor a re-export of `lib.rs` or `mod.rs` needs anything; tests do
//! not count.
//! Not here: what a value's methods need (a call on anything but `self` is not followed), and circles of crates, which
//! Cargo refuses.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, Expr, ImplItem, Item, Type, UseTree, Visibility};

use super::source::{Source, Token};
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut roots: Vec<&str> = tree.ending("Cargo.toml").map(|(path, _)| path.trim_end_matches("Cargo.toml")).collect();
    roots.retain(|root| !root.is_empty() && *root != "tests/");
    for root in roots {
        let name = root.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let allowed = LARGER.iter().find(|(listed, _)| *listed == name).map_or(FILES_MAX, |(_, files)| *files);
        check_crate(tree, root, name, allowed, findings);
    }
}

fn check_crate(tree: &Tree, root: &str, name: &str, allowed: usize, findings: &mut Vec<Finding>) {
    let folder = format!("{root}src/");
    let files = files(tree, &folder, findings);
    if files.is_empty() {
        return;
    }
    let circles = circles(&needs(&files));
    for circle in circles.iter().filter(|circle| circle.len() > allowed) {
        let names: Vec<&str> = circle.iter().map(|at| short(files[*at].path, &folder)).collect();
        let what = format!(
            "{} files need each other in a circle, above {allowed}: {}; move the type that they share below them, or \
             hand what one wants of another up to their caller as a value",
            names.len(),
            names.join(" ")
        );
        findings.push(Finding::new(files[circle[0]].path, 1, what));
    }
    let largest = circles.iter().map(Vec::len).max().unwrap_or_default();
    if largest < allowed && allowed > FILES_MAX {
        let what = if largest > FILES_MAX {
            format!("the largest circle of `{name}` has {largest} files: lower its entry from {allowed} to {largest}")
        } else {
            format!("no circle of `{name}` is above {FILES_MAX} files any more: take its entry off the list")
        };
        findings.push(Finding::new(LIST, 1, what));
    }
}

fn short<'a>(path: &'a str, folder: &str) -> &'a str {
    path.trim_start_matches(folder).trim_end_matches(".rs")
}

/// A source of a crate, without its tests.
struct File<'a> {
    path: &'a str,
    /// The path of its module; empty for the crate's root.
    module: Vec<String>,
    items: Vec<Item>,
}

impl File<'_> {
    /// Returns whether the file does not need what it re-exports.
    fn passes_on(&self) -> bool {
        ["/lib.rs", "/main.rs", "/mod.rs"].iter().any(|ending| self.path.ends_with(ending))
    }
}

fn files<'a>(tree: &'a Tree, folder: &str, findings: &mut Vec<Finding>) -> Vec<File<'a>> {
    let has_library = tree.text(&format!("{folder}lib.rs")).is_some();
    let mut files = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(folder)) {
        if Source::read(path, text).is_test(1) {
            continue;
        }
        let mut module: Vec<String> = short(path, folder).split('/').map(str::to_owned).collect();
        let is_root = module == ["lib"] || module == ["main"] && !has_library;
        if is_root || module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        match syn::parse_file(text) {
            Ok(file) => files.push(File { path, module, items: without_tests(file.items) }),
            Err(error) => findings.push(Finding::new(path, 1, format!("cannot be read as Rust: {error}"))),
        }
    }
    files
}

fn without_tests(items: Vec<Item>) -> Vec<Item> {
    items.into_iter().filter(|item| !attributes(item).iter().any(is_for_tests)).collect()
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns for each file the files that it needs.
fn needs(files: &[File<'_>]) -> Vec<BTreeSet<usize>> {
    let mut modules = Modules::default();
    for (at, file) in files.iter().enumerate() {
        modules.add(at, &file.module, &file.items);
    }
    modules.take_imports(files);
    let readers: Vec<Reader<'_>> = files.iter().map(|file| Reader::read(&modules, file)).collect();
    let mut homes = BTreeMap::new();
    for (at, reader) in readers.iter().enumerate() {
        homes.extend(reader.methods.iter().map(|method| (method.clone(), at)));
    }
    let others = |(at, reader): (usize, &Reader<'_>)| {
        let named = reader.named.iter().copied();
        let called = reader.calls.iter().filter_map(|call| homes.get(call).copied());
        named.chain(called).filter(|other| *other != at).collect()
    };
    readers.iter().enumerate().map(others).collect()
}

/// The files that lead to each other, each circle once, without single files.
fn circles(needs: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..needs.len()).map(|from| reached(needs, from)).collect();
    let circle = |from: usize| -> Vec<usize> {
        reached[from].iter().copied().filter(|other| reached[*other].contains(&from)).collect()
    };
    (0..needs.len())
        .map(|from| (from, circle(from)))
        .filter(|(from, all)| all.first() == Some(from))
        .map(|(_, all)| all)
        .collect()
}

/// All files that `from` needs, directly or not; `from` itself only if a file that it needs also needs it.
fn reached(needs: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(needs[at].iter().copied().filter(|next| reached.insert(*next)));
    }
    reached
}

/// The modules of a crate by path, including those inside files.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

struct Module {
    file: usize,
    items: BTreeSet<String>,
    /// The paths that `use` imports, by the name in this module.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths of `use ..::*`.
    globs: Vec<Vec<String>>,
}

/// Where a path leads: a file, and an item of it.
type Home = (usize, Option<String>);

impl Modules {
    fn add(&mut self, file: usize, path: &[String], items: &[Item]) {
        let names = items.iter().filter_map(name_of).collect();
        let module = Module { file, items: names, imports: BTreeMap::new(), globs: Vec::new() };
        self.0.insert(path.to_vec(), module);
        for item in items {
            if let Item::Mod(item) = item
                && let Some((_, items)) = &item.content
            {
                self.add(file, &below(path, &item.ident.to_string()), items);
            }
        }
    }

    /// Records the imports of all modules; called when all modules are known.
    fn take_imports(&mut self, files: &[File<'_>]) {
        for file in files {
            for item in &file.items {
                let Item::Use(item) = item else { continue };
                for import in imports(&item.tree) {
                    let Some(path) = self.absolute(&file.module, &import.path) else { continue };
                    let Some(module) = self.0.get_mut(&file.module) else { continue };
                    match import.name {
                        Some(name) => drop(module.imports.insert(name, path)),
                        None => module.globs.push(path),
                    }
                }
            }
        }
    }

    /// Resolves a path written in the module `here` from the root of the crate; `None` if it leads out of the crate, or
    /// is only a name of this module.
    fn absolute(&self, here: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let (mut base, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" | "super" => (here.to_vec(), if first == "self" { rest } else { path }),
            _ if rest.is_empty() => return None,
            _ if self.0.contains_key(&below(here, first)) => (here.to_vec(), path),
            _ => return None,
        };
        while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
            base.pop();
            rest = after;
        }
        (!rest.is_empty()).then(|| base.iter().chain(rest).cloned().collect())
    }

    /// Follows an absolute path through re-exports to the file that defines the item.
    fn home(&self, path: &[String], steps: usize) -> Option<Home> {
        let at = (0..=path.len()).rev().find(|at| self.0.contains_key(&path[..*at]))?;
        let module = &self.0[&path[..at]];
        let Some((name, rest)) = path[at..].split_first() else { return Some((module.file, None)) };
        let here = Some((module.file, Some(name.clone())));
        if module.items.contains(name) || steps == 0 {
            return here;
        }
        if let Some(import) = module.imports.get(name) {
            return self.home(&import.iter().chain(rest).cloned().collect::<Vec<_>>(), steps - 1);
        }
        let globs = module.globs.iter().filter_map(|glob| self.home(&below(glob, name), steps - 1));
        globs.filter(|(file, _)| *file != module.file).find(|(file, name)| self.defines(*file, name)).or(here)
    }

    fn defines(&self, file: usize, name: &Option<String>) -> bool {
        name.as_ref().is_none_or(|name| self.0.values().any(|other| other.file == file && other.items.contains(name)))
    }
}

fn below(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// One path of a `use`, its braces expanded; the name is missing for `*`.
struct Import {
    path: Vec<String>,
    name: Option<String>,
}

fn imports(tree: &UseTree) -> Vec<Import> {
    fn read(tree: &UseTree, before: &[String], imports: &mut Vec<Import>) {
        let (path, name) = match tree {
            UseTree::Path(part) => return read(&part.tree, &below(before, &part.ident.to_string()), imports),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| read(tree, before, imports)),
            UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last().cloned()),
            UseTree::Name(name) => (below(before, &name.ident.to_string()), Some(name.ident.to_string())),
            UseTree::Rename(name) => (below(before, &name.ident.to_string()), Some(name.rename.to_string())),
            _ => (before.to_vec(), None),
        };
        imports.push(Import { path, name });
    }
    let mut all = Vec::new();
    read(tree, &[], &mut all);
    all
}

/// A method and its type: the type's home, or the place of the `impl` if the type is not of this crate.
type Method = (Home, String);

/// Collects what one file names and calls.
struct Reader<'a> {
    modules: &'a Modules,
    passes_on: bool,
    here: Vec<String>,
    /// The type whose `impl` is being read.
    of: Option<Home>,
    named: BTreeSet<usize>,
    methods: BTreeSet<Method>,
    calls: BTreeSet<Method>,
}

impl<'a> Reader<'a> {
    fn read(modules: &'a Modules, file: &File<'_>) -> Self {
        let mut reader = Self {
            modules,
            passes_on: file.passes_on(),
            here: file.module.clone(),
            of: None,
            named: BTreeSet::new(),
            methods: BTreeSet::new(),
            calls: BTreeSet::new(),
        };
        file.items.iter().for_each(|item| reader.visit_item(item));
        reader
    }

    fn name(&mut self, path: &[String]) {
        let path = self.modules.absolute(&self.here, path);
        self.named.extend(path.and_then(|path| self.modules.home(&path, STEPS_MAX)).map(|(file, _)| file));
    }

    fn call(&mut self, method: String) {
        self.calls.extend(self.of.clone().map(|of| (of, method)));
    }

    /// Returns the home of a type that is named in an `impl`.
    fn home_of(&self, of: &Type) -> Option<Home> {
        let Type::Path(of) = of else { return None };
        let path: Vec<String> = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let path = self.modules.absolute(&self.here, &path).unwrap_or_else(|| [self.here.clone(), path].concat());
        self.modules.home(&path, STEPS_MAX)
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if let Some((_, items)) = &item.content {
            self.here.push(item.ident.to_string());
            items.iter().for_each(|item| self.visit_item(item));
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_passed_on = self.passes_on && !matches!(item.vis, Visibility::Inherited);
        if !is_passed_on {
            imports(&item.tree).iter().for_each(|import| self.name(&import.path));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = self.of.take();
        self.of = self.home_of(&item.self_ty);
        for part in &item.items {
            if let (ImplItem::Fn(method), Some(of)) = (part, &self.of) {
                self.methods.insert((of.clone(), method.sig.ident.to_string()));
            }
        }
        syn::visit::visit_item_impl(self, item);
        self.of = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if matches!(&*call.receiver, Expr::Path(receiver) if receiver.path.is_ident("self")) {
            self.call(call.method.to_string());
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.name(&words);
        syn::visit::visit_path(self, path);
    }

    /// The arguments of a macro have no grammar of their own, so paths and calls are searched in their tokens.
    fn visit_macro(&mut self, used: &'ast syn::Macro) {
        let source = Source::read("", &used.tokens.to_string());
        for path in source.paths() {
            self.name(&path.words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        }
        let tokens: Vec<Token<'_>> = source.tokens().into_iter().map(|(_, token)| token).collect();
        for window in tokens.windows(4) {
            if let [Token::Word("self"), Token::Sign(b'.'), Token::Word(method), Token::Sign(b'(')] = window {
                self.call((*method).to_owned());
            }
        }
    }

    /// `pub(super)` needs nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// How many files of a circle a reader can keep in mind.
const FILES_MAX: usize = 6;
/// Crates with larger circles, and how large those may be. The numbers may only decrease.
const LARGER: [(&str, usize); 0] = [];
const LIST: &str = "xtask/src/tidy/circles.rs";
/// How many re-exports of a name are followed.
const STEPS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the circles of a crate, its files named by their modules.
    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = sources.iter().map(|(name, _)| format!("crates/a/src/{name}.rs")).collect();
        let texts: Vec<(&str, &str)> = paths.iter().zip(sources).map(|(path, (_, text))| (&**path, *text)).collect();
        let (tree, folder) = (Tree::of(&texts), "crates/a/src/");
        let files = files(&tree, folder, &mut Vec::new());
        let names =
            |circle: Vec<usize>| circle.iter().map(|at| short(files[*at].path, folder)).collect::<Vec<_>>().join(" ");
        circles(&needs(&files)).into_iter().map(names).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn files_that_name_each_other_are_a_circle_and_one_way_is_none() {
        let b = ("b", "pub struct B;");
        assert_eq!(found(&[("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), b]), NONE);
        for a in ["use crate::b::B; pub fn f() {}", "use super::b::{B}; pub fn f() {}", "pub fn f() { super::b::g(); }"]
        {
            let both = [("lib", "mod a; mod b;"), ("a", a), ("b", "use crate::a;")];
            assert_eq!(found(&both), ["a b"], "{a}");
        }
    }

    #[test]
    fn a_circle_goes_over_any_number_of_files() {
        let files = [("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "use crate::a;"), ("d", "use crate::a;")];
        assert_eq!(found(&files), ["a b c"]);
    }

    #[test]
    fn a_name_that_is_passed_on_leads_to_where_it_is_defined() {
        let lib = ("lib", "mod x; pub use x::{One, two::*};");
        let (one, two) = (("x/one", "pub struct One;"), ("x/two", "use crate::One; pub struct Two;"));
        let circle = ("x/one", "use crate::Two; pub struct One;");
        let x = ("x/mod", "mod one; pub mod two; pub(crate) use one::One;");
        assert_eq!(found(&[lib, x, one, two]), NONE);
        assert_eq!(found(&[lib, x, circle, two]), ["x/one x/two"]);
        let below = ("a", "use crate::Lib; pub struct A;");
        assert_eq!(found(&[("lib", "mod a; pub use a::A; pub struct Lib;"), below]), NONE);
        assert_eq!(found(&[("lib", "mod a; use a::A; pub struct Lib;"), below]), ["a lib"]);
    }

    #[test]
    fn a_module_that_calls_what_is_below_it_needs_that() {
        let child = ("x/one", "use super::X; pub fn f() {}");
        assert_eq!(found(&[("x/mod", "mod one; pub struct X;"), child]), NONE);
        assert_eq!(found(&[("x/mod", "mod one; pub struct X; fn g() { one::f() }"), child]), ["x/mod x/one"]);
        assert_eq!(found(&[("x/mod", "mod one; use one::f; pub struct X;"), child]), ["x/mod x/one"]);
    }

    #[test]
    fn a_call_on_self_leads_to_the_impl_that_has_the_method() {
        let high = ("high", "use crate::low::T; impl T { fn b(&self) {} }");
        for call in ["self.b()", "log!(\"{}\", self.b())", "[1].iter().map(|_| self.b())"] {
            let low = format!("pub struct T; impl T {{ fn a(&self) {{ {call}; }} }}");
            assert_eq!(found(&[("low", &low), high]), ["high low"], "{call}");
        }
        let low = ("low", "pub struct T; impl T { fn a(&self) { self.b() } }");
        let other = ("high", "use crate::low::T; struct U; impl U { fn b(&self) {} }");
        assert_eq!(found(&[low, other]), NONE, "a method of another type");
        let same_name = ("high", "use crate::low; struct T; impl T { fn b(&self) {} }");
        assert_eq!(found(&[low, same_name]), NONE, "another type of the same name");
    }

    #[test]
    fn paths_in_macros_count_and_those_in_tests_comments_and_visibilities_do_not() {
        let b = ("b", "use crate::a;");
        assert_eq!(found(&[("a", "fn f() { log!(\"{}\", crate::b::g()) }"), b]), ["a b"]);
        for a in [
            "//! A.\n#[cfg(test)] mod tests { use crate::b; }",
            "//! A.\n#[cfg(test)] use crate::b;",
            "//! A.\n#[cfg(test)] fn f() { crate::b::g() }",
            "// crate::b::g\npub(crate) fn f() { print(\"crate::b\") }",
        ] {
            assert_eq!(found(&[("a", a), b]), NONE, "{a}");
        }
        assert_eq!(found(&[("a_tests", "use crate::b;"), ("b", "use crate::a_tests;")]), NONE);
    }

    /// Returns the findings for a ring of so many files in a crate that may have circles of this size.
    fn ring(files: usize, allowed: usize) -> Vec<String> {
        let path = |at: usize| format!("crates/a/src/m{}.rs", at % files);
        let texts: Vec<String> = (0..files).map(|at| format!("use crate::m{};", (at + 1) % files)).collect();
        let paths: Vec<String> = (0..files).map(path).collect();
        let tree: Vec<(&str, &str)> = paths.iter().zip(&texts).map(|(path, text)| (&**path, &**text)).collect();
        let mut findings = Vec::new();
        check_crate(&Tree::of(&tree), "crates/a/", "a", allowed, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn six_files_may_need_each_other_and_seven_may_not() {
        assert_eq!(ring(6, 6), NONE);
        let findings = ring(7, 6);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("7 files") && findings[0].contains("m0 m1 m2 m3 m4 m5 m6;"), "{findings:?}");
    }

    #[test]
    fn a_crate_that_got_better_than_its_entry_has_it_lowered() {
        assert_eq!(ring(9, 9), NONE);
        assert!(ring(8, 9)[0].contains("lower its entry from 9 to 8"));
        assert!(ring(6, 9)[0].contains("take its entry off"));
    }

    #[test]
    fn a_source_that_cannot_be_read_is_found() {
        let mut findings = Vec::new();
        check_crate(&Tree::of(&[("crates/a/src/lib.rs", "fn (")]), "crates/a/", "a", 6, &mut findings);
        assert!(findings[0].what.contains("cannot be read"));
    }
}
