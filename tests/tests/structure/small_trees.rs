//! That circles are found, and nothing else is taken for one: on small crates in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::imports::{Modules, Needs};
use super::knots::knots;

fn needs(files: &[(&str, &str)]) -> Needs {
    let files: BTreeMap<PathBuf, &str> = files
        .iter()
        .map(|(name, text)| (PathBuf::from(name), *text))
        .collect();
    let read = |file: &Path| files.get(file).map(|text| (*text).to_owned());
    Modules::read(Path::new("lib.rs"), &read).needs()
}

/// The files that need each other, as `a.rs b.rs`.
fn knotted(files: &[(&str, &str)]) -> Vec<String> {
    let knots = knots(&needs(files));
    let names = |knot: std::collections::BTreeSet<PathBuf>| {
        let names: Vec<_> = knot.iter().map(|file| file.display().to_string()).collect();
        names.join(" ")
    };
    knots.into_iter().map(names).collect()
}

const TWO: &str = "mod a; mod b;";

#[test]
fn every_way_to_name_an_item_closes_a_circle() {
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    for (how, b) in [
        ("a use", "use crate::a::A; pub struct B;"),
        (
            "a use with braces",
            "use crate::{a::{A}, c::C}; pub struct B;",
        ),
        (
            "a use through super",
            "use super::a::{self, A}; pub struct B;",
        ),
        (
            "a use under another name",
            "use crate::a::A as First; pub struct B;",
        ),
        (
            "a use within a function",
            "pub struct B; fn f() { use crate::a::A; }",
        ),
        (
            "a path in code",
            "pub struct B; fn f() { crate::a::A::new(); }",
        ),
        (
            "a path from an imported module",
            "use super::a; pub struct B(Option<a::A>);",
        ),
        (
            "a path through a renamed module",
            "use super::a as first; pub struct B(first::A);",
        ),
        ("a star", "use crate::a::*; pub struct B(A);"),
        (
            "a path given to a macro",
            "pub struct B; fn f() { assert!(x == [crate::a::A::new()]); }",
        ),
        (
            "a path in an attribute",
            "#[derive(crate::a::A)] pub struct B;",
        ),
        (
            "a path in a text of serde",
            "pub struct B { #[serde(default = \"crate::a::A\")] x: u8 }",
        ),
        (
            "a pattern",
            "pub struct B; fn f(x: u8) { if let crate::a::A(_) = x {} }",
        ),
        (
            "a module in the file",
            "pub struct B; mod inner { use super::super::a::A; }",
        ),
        ("a re-export", "use crate::c::A; pub struct B;"),
        (
            "a re-export of everything",
            "use crate::d::A; pub struct B;",
        ),
        (
            "an item of another name for a module",
            "use crate::c::first::A; pub struct B;",
        ),
    ] {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            a,
            ("b.rs", b),
            (
                "c.rs",
                "pub struct C; pub use crate::a::A; pub use crate::a as first;",
            ),
            ("d.rs", "pub use crate::a::*;"),
        ];
        assert_eq!(knotted(&files), ["a.rs b.rs"], "{how}");
    }
}

#[test]
fn what_needs_no_item_of_the_other_file_closes_none() {
    let a = ("a.rs", "use crate::b::B; pub struct A(B); pub fn text() {}");
    for (how, b) in [
        ("nothing", "pub struct B;"),
        (
            "a use in a test module",
            "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        ),
        (
            "a function for tests",
            "pub struct B; #[cfg(test)] fn f() { crate::a::A::new(); }",
        ),
        (
            "a method for tests",
            "pub struct B; impl B { #[cfg(any(test, feature = \"testing\"))] fn f() -> crate::a::A {} }",
        ),
        ("a re-export", "pub struct B; pub use crate::a::A;"),
        (
            "a module that nothing is taken from",
            "use crate::a; pub struct B;",
        ),
        (
            "another crate's item of that name",
            "use a_crate::a::A; pub struct B(A, ::a::A);",
        ),
        (
            "a field of that name in a macro",
            "use crate::a; pub struct B; fn f(b: B) { json!({ \"a\": b.a }); }",
        ),
        (
            "a comment",
            "/// See [`crate::a::A`]. crate::a::A::new()\npub struct B; // crate::a::A",
        ),
    ] {
        let files = [("lib.rs", TWO), a, ("b.rs", b)];
        assert_eq!(knotted(&files), Vec::<String>::new(), "{how}");
        assert!(needs(&files).contains_key(Path::new("a.rs")), "{how}");
    }
}

#[test]
fn a_parent_that_only_declares_and_re_exports_is_in_no_circle() {
    let child = ("a/one.rs", "use super::Two; pub struct One(Two);");
    let other = ("a/two.rs", "pub struct Two;");
    let re_exports = (
        "a/mod.rs",
        "mod one; mod two; pub use one::One; pub use two::Two;",
    );
    assert_eq!(
        knotted(&[("lib.rs", "mod a;"), re_exports, child, other]),
        Vec::<String>::new()
    );
    let defines = (
        "a/mod.rs",
        "mod one; pub struct Two; pub fn f() -> one::One {}",
    );
    assert_eq!(
        knotted(&[("lib.rs", "mod a;"), defines, child]),
        ["a/mod.rs a/one.rs"]
    );
    let by_re_export = (
        "a/mod.rs",
        "mod one; pub struct Two; pub use one::One; fn f() -> One {}",
    );
    assert_eq!(
        knotted(&[("lib.rs", "mod a;"), by_re_export, child]),
        ["a/mod.rs a/one.rs"]
    );
    let in_a_file = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod one; pub struct Two; use one::One;"),
        child,
    ];
    assert_eq!(knotted(&in_a_file), ["a/one.rs a.rs"]);
}

#[test]
fn a_circle_of_three_is_one_knot_and_two_pairs_are_two() {
    let three = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C; use crate::d::D;"),
        ("d.rs", "pub struct D;"),
    ];
    assert_eq!(knotted(&three), ["a.rs b.rs c.rs"]);
    let pairs = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B; use crate::c::C;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ];
    assert_eq!(knotted(&pairs), ["a.rs b.rs", "c.rs d.rs"]);
}

#[test]
fn a_macro_defines_the_names_that_it_is_given() {
    let files = [
        ("lib.rs", TWO),
        (
            "a.rs",
            "macro_rules! id { ($name:ident) => { pub struct $name; } } id! { Id } use crate::b::B;",
        ),
        ("b.rs", "use crate::a::Id; pub struct B;"),
    ];
    assert_eq!(knotted(&files), ["a.rs b.rs"]);
}

#[test]
#[should_panic(expected = "b.rs: crate::a::Missing leads nowhere")]
fn what_is_not_understood_is_not_passed_over() {
    needs(&[
        ("lib.rs", TWO),
        ("a.rs", ""),
        ("b.rs", "use crate::a::Missing;"),
    ]);
}
