//! Every colour on the ground that it stands on, by WCAG 2.2's contrast ratios (success criteria 1.4.3 and 1.4.11).

use std::collections::{BTreeMap, BTreeSet};

use crate::page::style::CSS;

/// Texts, which need 4.5 to 1.
const TEXTS: [(&str, &str); 11] = [
    ("text", "bg"),
    ("muted", "bg"),
    ("link", "bg"),
    ("bad", "bg"),
    ("good", "bg"),
    ("warn", "warn-bg"),
    ("bad", "bad-bg"),
    ("good", "good-bg"),
    ("wait", "wait-bg"),
    ("link", "bad-bg"),
    ("button", "button-bg"),
];

/// Borders and lines that one must see to know what is there, which need 3 to 1.
const SHAPES: [(&str, &str); 7] = [
    ("field", "bg"),
    ("button-bg", "bg"),
    ("warn-line", "warn-bg"),
    ("bad-line", "bg"),
    ("bad-line", "bad-bg"),
    ("good-line", "good-bg"),
    ("wait-line", "wait-bg"),
];

/// Tells nothing that the text does not: rules between rows.
const DECORATION: &str = "line";

type Palette = BTreeMap<&'static str, [f64; 3]>;

/// The palette of each `:root`, light and dark.
fn palettes() -> Vec<Palette> {
    CSS.split(":root {")
        .skip(1)
        .map(|rest| {
            let (block, _) = rest.split_once('}').unwrap();
            block
                .split(';')
                .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"))
                .map(|(name, hex)| (name, rgb(hex)))
                .collect()
        })
        .collect()
}

fn rgb(hex: &str) -> [f64; 3] {
    assert_eq!(hex.len(), 6, "{hex}");
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0)
}

/// Relative luminance, as WCAG defines it.
fn luminance(rgb: [f64; 3]) -> f64 {
    let [r, g, b] = rgb.map(|c| {
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn ratio(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (a, b) = (luminance(one), luminance(other));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_ratio_is_that_of_wcag() {
    assert!((ratio(rgb("000000"), rgb("ffffff")) - 21.0).abs() < 0.001);
    assert!((ratio(rgb("767676"), rgb("ffffff")) - 4.54).abs() < 0.01);
}

#[test]
fn every_colour_can_be_read_by_day_and_by_night() {
    let palettes = palettes();
    assert_eq!(palettes.len(), 2);
    let mut faint = Vec::new();
    for (palette, scheme) in palettes.iter().zip(["light", "dark"]) {
        for (pairs, least) in [(&TEXTS[..], 4.5), (&SHAPES[..], 3.0)] {
            for (colour, ground) in pairs {
                let ratio = ratio(palette[colour], palette[ground]);
                if ratio < least {
                    faint.push(format!("{scheme}: {colour} on {ground} has {ratio:.2}"));
                }
            }
        }
    }
    assert_eq!(faint, Vec::<String>::new());
}

#[test]
fn no_colour_is_left_out_and_none_stands_beside_the_palette() {
    let judged: BTreeSet<_> = TEXTS
        .iter()
        .chain(&SHAPES)
        .flat_map(|(colour, ground)| [*colour, *ground])
        .chain([DECORATION])
        .collect();
    for palette in palettes() {
        assert_eq!(palette.into_keys().collect::<BTreeSet<_>>(), judged);
    }
    let used: BTreeSet<_> = CSS
        .split("var(--")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    assert_eq!(used, judged);
    let (_, rules) = CSS.split_once("* {").unwrap();
    let literal = rules.split('#').skip(1).find(|rest| {
        let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
        word.is_some_and(|w| matches!(w.len(), 3 | 6) && w.bytes().all(|b| b.is_ascii_hexdigit()))
    });
    assert_eq!(literal, None, "a colour that no night changes");
}
