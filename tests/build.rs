//! Lists the tests of `real`: each function there that is `pub(crate)` and takes the house.
//!
//! Always true: a test below a line `// Alone.` runs while no other test does, and a test below `// Only when named.` does so
//! too, and only when it is selected. A test that is declared in another form is not found, and the compiler reports it as
//! unused.
//! Not here: how the tests are run (`runner`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=real");
    let mut files = vec![PathBuf::from("real")];
    let (mut list, mut at) = (String::from("vec![\n"), 0);
    while at < files.len() {
        let path = files[at].clone();
        at += 1;
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder that can be read");
            let mut inside: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
            inside.sort();
            files.extend(inside);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            add(&mut list, &path);
        }
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where")).join("real.rs");
    fs::write(out, list).expect("a place to write to");
}

/// Adds the tests of a file.
fn add(list: &mut String, path: &Path) {
    let inner = path.with_extension("");
    let names: Vec<_> = inner.iter().skip(1).filter_map(|name| name.to_str()).filter(|name| *name != "mod").collect();
    let module = names.join("::");
    let text = fs::read_to_string(path).expect("a file that can be read");
    let mut alone = "No";
    for line in text.lines() {
        match line {
            "// Alone." => alone = "Yes",
            "// Only when named." => alone = "OnlyWhenNamed",
            _ => {
                if let Some(name) = test(line) {
                    let entry = format!("(\"{module}::{name}\", Alone::{alone}, {module}::{name} as fn(&House)),");
                    writeln!(list, "{entry}").expect("memory");
                    alone = "No";
                }
            }
        }
    }
}

/// The name of the test that is declared in a line.
fn test(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("pub(crate) fn ")?.split_once('(')?;
    let takes = ["house: &House) {", "_house: &House) {", "_: &House) {"];
    takes.contains(&rest).then_some(name)
}
