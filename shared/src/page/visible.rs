//! Text of strangers, shown so that a person sees what is there.
//!
//! Names of groups and topics, reasons and requesters come from outside. Escaped alone they could still hide: a
//! right-to-left override turns a name around, a zero-width space makes two names look alike, and of two blanks a browser
//! draws one.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};

/// The escaper of every template (`askama.toml`): HTML's five characters, and whatever cannot be seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Escape;

impl Escaper for Escape {
    fn write_escaped_str<W: Write>(&self, mut dest: W, string: &str) -> fmt::Result {
        let mut rest = string;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| hidden(*c)) {
            let (before, after) = rest.split_at(at);
            Html.write_escaped_str(&mut dest, before)?;
            mark(&mut dest, c)?;
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        Html.write_escaped_str(dest, rest)
    }
}

/// `text` as the page shows it, before HTML's own escaping.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            // Writing to a String cannot fail.
            let _ = mark(&mut shown, c);
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A name as the page shows it: its blanks can be counted.
///
/// A blank that is easily overlooked, at either end or beside another one, stands as `␣`. The page's style keeps the others.
#[must_use]
pub(super) fn visible_name(name: &str) -> String {
    let blank = |c: Option<char>| c == Some(' ');
    let mut before = None;
    let mut shown = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied();
        let alone = before.is_some() && after.is_some() && !blank(before) && !blank(after);
        shown.push(if c == ' ' && !alone { BLANK } else { c });
        before = Some(c);
    }
    visible(&shown)
}

/// Stands for a blank that is easily overlooked.
const BLANK: char = '␣';

fn mark(mut dest: impl Write, c: char) -> fmt::Result {
    write!(dest, "⟨U+{:04X}⟩", u32::from(c))
}

/// Whether a character has no shape of its own, changes the order of others, or passes for a plain space.
///
/// Unicode's categories Cc, Cf, Zl and Zp, the blanks of Zs other than U+0020, and the fillers and variation selectors
/// that are drawn as nothing.
fn hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{0600}'..='\u{0605}' | '\u{061C}' | '\u{06DD}' | '\u{070F}'
            | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        Escape.write_escaped_str(&mut out, text).unwrap();
        out
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            escaped(r#"<script>alert(1)</script>&"'"#),
            "&#60;script&#62;alert(1)&#60;/script&#62;&#38;&#34;&#39;"
        );
    }

    #[test]
    fn what_hides_or_reorders_is_shown() {
        assert_eq!(escaped("pay\u{202E}daol"), "pay⟨U+202E⟩daol");
        assert_eq!(
            escaped("a\u{200B}<\u{0}\n"),
            "a⟨U+200B⟩&#60;⟨U+0000⟩⟨U+000A⟩"
        );
        assert_eq!(escaped("\u{E0041}é 漢 ✓"), "⟨U+E0041⟩é 漢 ✓");
    }

    #[test]
    fn blanks_that_are_overlooked_are_marked_and_all_others_stand_as_they_are() {
        for (name, shown) in [
            ("a b", "a b"),
            ("a  b", "a␣␣b"),
            (" lead", "␣lead"),
            ("trail ", "trail␣"),
            ("a   b c", "a␣␣␣b c"),
            (" ", "␣"),
            ("", ""),
            ("pay\u{202E} x", "pay⟨U+202E⟩ x"),
        ] {
            assert_eq!(visible_name(name), shown);
        }
    }

    #[test]
    fn both_ways_show_the_same() {
        for text in [
            "",
            "plain name",
            "\u{FEFF}x",
            "x\u{A0}",
            "\u{2067}\u{2069}",
            "ünï",
        ] {
            assert_eq!(escaped(text), visible(text));
        }
    }
}
