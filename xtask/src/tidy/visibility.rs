//! Checks that the rooms of the worker keep their fields to themselves: a room is a folder of `crates/worker/src`.
//!
//! Always true: a struct that its methods change shows no field outside of its room, since nothing could keep a promise about
//! it there; a value without such methods, such as a letter, may show its fields. Structs that still show some are listed with
//! their number, which may only become lower. Tests do not count.
//! Not here: what a method lets others do.

use std::collections::BTreeSet;

use syn::{FnArg, ImplItem, Item, ItemStruct, ReceiverKind, Type, Visibility};

use super::source::Source;
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    check_listed(tree, LISTED, findings);
}

fn check_listed(tree: &Tree, listed: &[(&str, usize)], findings: &mut Vec<Finding>) {
    let mut changed = BTreeSet::new();
    let mut shown = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with(FOLDER)) {
        if Source::read(path, text).is_test(1) {
            continue;
        }
        let file = match syn::parse_file(text) {
            Ok(file) => file,
            Err(error) => {
                findings.push(Finding::new(path, 1, format!("cannot be read as Rust: {error}")));
                continue;
            }
        };
        for item in &file.items {
            match item {
                Item::Struct(item) => {
                    let fields = fields_shown(item, path);
                    if fields > 0 {
                        let name = item.ident.to_string();
                        shown.push((path, line_of(text, &name), name, fields));
                    }
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let changes = item.items.iter().any(|item| matches!(item, ImplItem::Fn(method) if changes(method)));
                    changed.extend(name_of(&item.self_ty).filter(|_| changes));
                }
                _ => {}
            }
        }
    }
    shown.retain(|(_, _, name, _)| changed.contains(name));
    for (path, line, name, fields) in &shown {
        let allowed = listed.iter().find(|(listed, _)| listed == name).map_or(0, |(_, fields)| *fields);
        if *fields > allowed {
            let what = format!(
                "`{name}` is changed by its methods and shows {fields} fields outside of its room, above {allowed}: give \
                 those who need one a method that says for what"
            );
            findings.push(Finding::new(path, *line, what));
        }
    }
    for (name, allowed) in listed {
        let fields = shown.iter().filter(|(_, _, shown, _)| shown == name).map(|(_, _, _, fields)| *fields).max();
        let fields = fields.unwrap_or(0);
        if fields < *allowed {
            findings.push(Finding::new(LIST, 1, format!("`{name}` shows {fields} fields: lower its entry to that")));
        }
    }
}

/// How many fields of a struct can be named outside of its room.
fn fields_shown(item: &ItemStruct, path: &str) -> usize {
    let inside = path.trim_start_matches(FOLDER);
    let is_room = !inside.contains('/') || inside.ends_with("/mod.rs");
    let is_shown = |visibility: &Visibility| match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(to) => to.path.is_ident("crate") || to.path.is_ident("super") && is_room,
        Visibility::Inherited => false,
    };
    item.fields.iter().filter(|field| is_shown(&field.vis)).count()
}

fn changes(method: &syn::ImplItemFn) -> bool {
    let Some(FnArg::Receiver(receiver)) = method.sig.inputs.first() else { return false };
    matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)))
}

/// The line of a struct, counted from 1.
fn line_of(text: &str, name: &str) -> usize {
    let begin = format!("struct {name}");
    text.lines().position(|line| line.contains(&begin)).map_or(1, |at| at + 1)
}

fn name_of(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

const FOLDER: &str = "crates/worker/src/";
const LIST: &str = "xtask/src/tidy/visibility.rs";
/// Structs that still show fields, and how many; the numbers may only decrease. The worker is the one object that knows all rooms, and
/// its hands are what all rooms work with.
const LISTED: &[(&str, usize)] = &[("Hands", 9), ("Worker", 32)];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        found_in(&[(path, text)], &[])
    }

    fn found_in(files: &[(&str, &str)], listed: &[(&str, usize)]) -> Vec<String> {
        let mut findings = Vec::new();
        check_listed(&Tree::of(files), listed, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn what_methods_change_shows_no_field_outside_of_its_room() {
        let methods = "impl A { fn change(&mut self) {} }";
        for (path, fields, is_found) in [
            ("crates/worker/src/room/a.rs", "pub(crate) a: u8", true),
            ("crates/worker/src/room/a.rs", "pub a: u8", true),
            ("crates/worker/src/room/a.rs", "pub(super) a: u8", false),
            ("crates/worker/src/room/mod.rs", "pub(super) a: u8", true),
            ("crates/worker/src/a.rs", "pub(super) a: u8", true),
            ("crates/worker/src/a.rs", "a: u8", false),
            ("crates/other/src/a.rs", "pub a: u8", false),
        ] {
            let found = found(path, &format!("struct A {{ {fields} }} {methods}"));
            assert_eq!(!found.is_empty(), is_found, "{path}: {fields}: {found:?}");
        }
        let value = "struct A { pub(crate) a: u8 } impl A { fn read(&self) {} fn into(self) {} }";
        assert!(found("crates/worker/src/room/a.rs", value).is_empty());
        let told = found("crates/worker/src/room/a.rs", &format!("struct A {{ pub(crate) a: u8 }} {methods}"));
        assert!(told[0].starts_with("`A` is changed by its methods and shows 1 fields"), "{told:?}");
    }

    #[test]
    fn of_two_structs_of_one_name_each_is_looked_at() {
        let shows = "struct A { pub(crate) a: u8 } impl A { fn change(&mut self) {} }";
        let hides = "struct A { a: u8 } impl A { fn change(&mut self) {} }";
        for files in [[("a", shows), ("b", hides)], [("a", hides), ("b", shows)]] {
            let files = files.map(|(name, text)| (format!("crates/worker/src/room/{name}.rs"), text));
            let files: Vec<_> = files.iter().map(|(path, text)| (&**path, *text)).collect();
            assert_eq!(found_in(&files, &[]).len(), 1);
        }
    }

    #[test]
    fn a_number_on_the_list_only_decreases() {
        let two = "struct A { pub(crate) a: u8, pub(crate) b: u8 } impl A { fn change(&mut self) {} }";
        let files = [("crates/worker/src/room/a.rs", two)];
        for (listed, is_found) in [(1, true), (2, false), (3, true)] {
            let found = found_in(&files, &[("A", listed)]);
            assert_eq!(!found.is_empty(), is_found, "{listed}: {found:?}");
        }
        assert_eq!(found_in(&[], &[("A", 1)]), ["`A` shows 0 fields: lower its entry to that"]);
    }
}
