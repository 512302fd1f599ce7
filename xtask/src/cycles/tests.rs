//! Small crates with known cycles.

use super::read::read;
use super::{cycles, report};
use gateway::target;
use std::fs;
use std::path::PathBuf;

/// Writes a crate of these files and returns the report of its cycles.
fn report_of(name: &str, files: &[(&str, &str)]) -> String {
    let folder: PathBuf = target().join("tmp/cycles").join(name);
    let _ = fs::remove_dir_all(&folder);
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = read(&folder.join("lib.rs")).unwrap();
    report(&cycles(&tree)).replace(&format!("target/tmp/cycles/{name}/"), "")
}

const NONE: &str = "cycles between files: 0, with 0 files";

#[test]
fn a_child_that_uses_its_parent_is_half_a_cycle() {
    let child = ("a/b.rs", "use super::A; pub fn b(_: A) {}");
    let declares = [("lib.rs", "mod a;"), ("a.rs", "mod b; pub struct A;"), child];
    assert_eq!(report_of("half", &declares), NONE);
    let uses = [("lib.rs", "mod a;"), ("a.rs", "mod b;\npub struct A;\npub use b::b;"), child];
    assert_eq!(
        report_of("whole", &uses),
        "cycles between files: 1, with 2 files\n\n1. 2 files, 2 uses\n   \
         a.rs:3 uses a/b.rs (`b::b`)\n   a/b.rs:1 uses a.rs (`super::A`)"
    );
}

#[test]
fn a_reexport_stands_for_the_file_that_defines_the_item() {
    let files = [
        ("lib.rs", "pub mod a;"),
        ("a.rs", "mod b; mod c; pub use self::{b::B as Bee, c::C}; pub use c::*;"),
        // By the parent, but not of the parent.
        ("a/b.rs", "use super::C; pub struct B(C); fn f() -> crate::a::D { super::D::new() }"),
        ("a/c.rs", "pub struct C; pub struct D; impl D { pub fn new() -> D { D } }"),
    ];
    assert_eq!(report_of("reexport", &files), NONE);
    let mut circle = files;
    circle[3].1 = "pub struct C; pub struct D;\nimpl D { fn f(_: &super::Bee) {} }";
    let report = report_of("circle", &circle);
    assert!(report.contains("1. 2 files, 2 uses\n"), "{report}");
    assert!(report.contains("a/c.rs:2 uses a/b.rs (`super::Bee`)"), "{report}");
}

#[test]
fn paths_in_macros_and_functions_count_and_tests_do_not() {
    let lib = ("lib.rs", "mod a; mod b;");
    let b = ("b.rs", "pub fn b() { assert!(crate::a::A > 0); }");
    let in_tests = "pub const A: u8 = 1; #[cfg(test)] mod tests { fn t() { crate::b::b() } }
                    #[cfg(all(test, unix))] fn u() { crate::b::b() }";
    assert_eq!(report_of("tests", &[lib, b, ("a.rs", in_tests)]), NONE);
    for (name, used) in [
        ("function", "pub const A: u8 = 1; fn f() { use crate::b; b::b() }"),
        ("macro", "pub const A: u8 = 1; macro_rules! m { () => { $crate::b::b() } }"),
        ("not-test", "pub const A: u8 = 1; #[cfg(not(test))] fn f() { crate::b::b() }"),
        ("inline", "pub const A: u8 = 1; mod c { use super::super::b::b; }"),
        ("glob", "pub const A: u8 = 1; use crate::b::*; fn f() { b() }"),
    ] {
        let report = report_of(name, &[lib, b, ("a.rs", used)]);
        assert!(report.contains("a.rs:1 uses b.rs"), "{name}: {report}");
        assert!(report.contains("b.rs:1 uses a.rs (`crate::a::A`)"), "{name}: {report}");
    }
    // A module that is imported but not used is no item of a file.
    let only = "pub const A: u8 = 1; use crate::b;";
    assert_eq!(report_of("only", &[lib, b, ("a.rs", only)]), NONE);
}

#[test]
fn a_module_and_a_function_may_share_a_name() {
    let files = [
        ("lib.rs", "mod a; mod c;"),
        ("a/mod.rs", "mod check; pub use check::check;"),
        ("a/check.rs", "pub fn check() { crate::c::c() }"),
        ("c.rs", "pub fn c() {} fn d() { crate::a::check() }"),
    ];
    let report = report_of("homonym", &files);
    assert!(report.contains("1. 2 files, 2 uses\n"), "{report}");
    assert!(report.contains("c.rs:1 uses a/check.rs (`crate::a::check`)"), "{report}");
}
