//! The text rule: how bytes of any origin become one readable line, and nothing is lost.
//!
//! [`classify`] decides once, at the door; the record keeps the bytes and the rule. [`decode`] gives
//! the characters (for JSON), [`write_line`] the one physical line (for text files).

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16LE};

/// How the bytes of a record's text are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRule {
    /// 1: by the encoding that the settings name for the endpoint.
    Declared(&'static Encoding),
    /// 2: by the byte order mark in front: UTF-8, UTF-16LE or UTF-16BE.
    Bom,
    /// 3: UTF-8 whose only controls are tab, CR, LF, ESC; NULs at the very end are dropped.
    Utf8,
    /// 4: UTF-16LE without a mark, as PowerShell's `Encoding.Unicode` gives.
    Utf16,
    /// 5: UTF-8 with other controls, which are escaped.
    Utf8Escaped,
    /// 6: anything else: what is not UTF-8 is shown as `\xNN`.
    Bytes,
}

impl TextRule {
    /// The number in records and counters, 1 to 6.
    pub const fn number(self) -> u8 {
        match self {
            TextRule::Declared(_) => 1,
            TextRule::Bom => 2,
            TextRule::Utf8 => 3,
            TextRule::Utf16 => 4,
            TextRule::Utf8Escaped => 5,
            TextRule::Bytes => 6,
        }
    }

    /// The rule with this number, 2 to 6; rule 1 needs an encoding.
    pub const fn from_number(number: u8) -> Option<TextRule> {
        match number {
            2 => Some(TextRule::Bom),
            3 => Some(TextRule::Utf8),
            4 => Some(TextRule::Utf16),
            5 => Some(TextRule::Utf8Escaped),
            6 => Some(TextRule::Bytes),
            _ => None,
        }
    }

    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        ["declared", "bom", "utf8", "utf16le", "utf8_escaped", "bytes"][self.number() as usize - 1]
    }
}

/// True for what may stand in text without making it binary: tab, LF, CR, ESC.
fn tolerated(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\x1b')
}

fn without_trailing_nuls(bytes: &[u8]) -> &[u8] {
    let kept = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..kept]
}

/// Nothing but printable ASCII; written so that it is compiled to vector instructions, for it runs
/// over every byte that comes in and every byte that goes out.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |odd, &byte| odd | u8::from(!(0x20..0x7f).contains(&byte))) == 0
}

/// Decides how `bytes` are read. `declared` is the endpoint's `encoding` setting; it is passed over
/// where the bytes are not valid in it.
///
/// ```
/// use hwgate::wire::text::{classify, TextRule};
/// assert_eq!(classify("Grüße".as_bytes(), None), TextRule::Utf8);
/// assert_eq!(classify(b"G\0r\0\xfc\0\xdf\0e\0", None), TextRule::Utf16);
/// assert_eq!(classify(b"Temp\xe4!", None), TextRule::Bytes);
/// ```
pub fn classify(bytes: &[u8], declared: Option<&'static Encoding>) -> TextRule {
    if let Some(encoding) = declared {
        if encoding.decode_without_bom_handling_and_without_replacement(bytes).is_some() {
            return TextRule::Declared(encoding);
        }
    } else if is_plain(bytes) {
        return TextRule::Utf8;
    }
    if let Some((encoding, bom)) = Encoding::for_bom(bytes)
        && encoding.decode_without_bom_handling_and_without_replacement(&bytes[bom..]).is_some()
    {
        return TextRule::Bom;
    }
    let utf8 = std::str::from_utf8(bytes);
    if utf8.is_ok_and(|text| text.trim_end_matches('\0').chars().all(|c| !c.is_control() || tolerated(c))) {
        return TextRule::Utf8;
    }
    if is_utf16(bytes) {
        return TextRule::Utf16;
    }
    if utf8.is_ok() { TextRule::Utf8Escaped } else { TextRule::Bytes }
}

/// UTF-16LE without a mark: even, valid, no control but the tolerated ones (NULs at the very end are
/// dropped, as in UTF-8), and at least half of the units in one block below U+2000.
fn is_utf16(bytes: &[u8]) -> bool {
    if bytes.is_empty() || !bytes.len().is_multiple_of(2) {
        return false;
    }
    let bytes = without_trailing_nul_units(bytes);
    let mut blocks = [0usize; 0x20];
    for unit in bytes.chunks_exact(2) {
        if let Some(count) = blocks.get_mut(unit[1] as usize) {
            *count += 1;
        }
    }
    let most = blocks.into_iter().max().unwrap_or(0);
    if most * 2 < bytes.len() / 2 || bytes.is_empty() {
        return false;
    }
    UTF_16LE
        .decode_without_bom_handling_and_without_replacement(bytes)
        .is_some_and(|text| text.chars().all(|c| !c.is_control() || tolerated(c)))
}

fn without_trailing_nul_units(bytes: &[u8]) -> &[u8] {
    let units = bytes.chunks_exact(2).rposition(|unit| unit != [0, 0]).map_or(0, |last| last + 1);
    &bytes[..units * 2]
}

/// The characters of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The characters, controls included, without one trailing line end.
    pub text: Cow<'a, str>,
    /// Whether the characters, written as UTF-8, are the bytes again (but for that line end).
    pub exact: bool,
}

/// Reads `bytes` by `rule`. Never fails: bytes that contradict the rule are shown as `\xNN`.
///
/// ```
/// use hwgate::wire::text::{decode, TextRule};
/// let decoded = decode(TextRule::Bytes, b"Temp\xe4!\r\n");
/// assert_eq!(decoded.text, r"Temp\xe4!");
/// assert!(!decoded.exact);
/// ```
pub fn decode(rule: TextRule, bytes: &[u8]) -> Decoded<'_> {
    let by = |encoding: &'static Encoding, bytes| {
        encoding.decode_without_bom_handling_and_without_replacement(bytes)
    };
    let (text, exact) = match rule {
        TextRule::Declared(encoding) => (by(encoding, bytes), encoding == UTF_8),
        TextRule::Bom => match Encoding::for_bom(bytes) {
            Some((encoding, bom)) => (by(encoding, &bytes[bom..]), false),
            None => (None, false),
        },
        TextRule::Utf16 => (by(UTF_16LE, without_trailing_nul_units(bytes)), false),
        TextRule::Utf8 => {
            let text = without_trailing_nuls(bytes);
            (by(UTF_8, text), text.len() == bytes.len())
        }
        TextRule::Utf8Escaped => (by(UTF_8, bytes), true),
        TextRule::Bytes => (None, false),
    };
    let exact = exact && text.is_some();
    let text = match text.unwrap_or_else(|| escape_invalid(bytes).into()) {
        Cow::Borrowed(text) => Cow::Borrowed(without_line_end(text)),
        Cow::Owned(mut text) => {
            text.truncate(without_line_end(&text).len());
            Cow::Owned(text)
        }
    };
    Decoded { text, exact }
}

fn without_line_end(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(text) => text.strip_suffix('\r').unwrap_or(text),
        None => text.strip_suffix('\r').unwrap_or(text),
    }
}

/// Valid UTF-8 as it is, every other byte as `\xNN`.
fn escape_invalid(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Appends the text as one physical line without its end: CR, LF, tab and other controls, U+0085,
/// U+2028 and U+2029 are escaped. A backslash stays as it is.
pub fn write_line(rule: TextRule, bytes: &[u8], out: &mut Vec<u8>) {
    if rule == TextRule::Utf8 && is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        escape_controls(&decode(rule, bytes).text, out);
    }
}

/// Appends `text` with everything escaped that could end a line or steer a terminal.
///
/// ```
/// let mut line = Vec::new();
/// hwgate::wire::text::escape_controls("a\r\nb\u{2028}\x1b[2K", &mut line);
/// assert_eq!(line, br"a\r\nb\u2028\x1b[2K");
/// ```
pub fn escape_controls(text: &str, out: &mut Vec<u8>) {
    use std::io::Write;
    let mut clean = 0;
    for (at, c) in text.char_indices() {
        if !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}') {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[clean..at]);
        clean = at + c.len_utf8();
        // Writing into memory cannot fail.
        let _ = match c {
            '\t' => out.write_all(b"\\t"),
            '\n' => out.write_all(b"\\n"),
            '\r' => out.write_all(b"\\r"),
            c if c.is_ascii() => write!(out, "\\x{:02x}", c as u32),
            c => write!(out, "\\u{:04x}", c as u32),
        };
    }
    out.extend_from_slice(&text.as_bytes()[clean..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_line(classify(bytes, None), bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn c08_utf16_with_and_without_mark_and_utf8_are_readable() {
        let text = "Grüße 😀";
        let bytes = utf16(text);
        assert_eq!(classify(&bytes, None), TextRule::Utf16);
        assert_eq!(line(&bytes), text);
        let marked = [&[0xff, 0xfe][..], &bytes].concat();
        assert_eq!(classify(&marked, None), TextRule::Bom);
        assert_eq!(line(&marked), text);
        assert_eq!(line(text.as_bytes()), text);
        assert_eq!(line(&[&bytes[..], &[0, 0]].concat()), text, "a wide string with its terminator");
        assert_eq!(line(&[&bytes[..], &utf16("\r\n")].concat()), text);
    }

    #[test]
    fn c09_latin1_is_kept_and_marked() {
        assert_eq!(line(b"Temp\xe4!"), r"Temp\xe4!");
    }

    #[test]
    fn c10_an_embedded_nul_is_shown() {
        assert_eq!(line(b"err \x00xc0000005 end"), r"err \x00xc0000005 end");
        assert_eq!(line(b"ends with nul\0\0"), "ends with nul");
    }

    #[test]
    fn c11_a_message_is_one_line_whatever_it_holds() {
        assert_eq!(
            line(b"user said: hi\r\n2020-01-01T00:00:00Z CRIT security admin login ok"),
            r"user said: hi\r\n2020-01-01T00:00:00Z CRIT security admin login ok"
        );
        assert_eq!(line("a\u{85}b".as_bytes()), r"a\u0085b");
        assert_eq!(line("a\u{2028}b".as_bytes()), r"a\u2028b");
        assert_eq!(line(b"a\x1b[2Kb"), r"a\x1b[2Kb");
        assert_eq!(line(b"tab\there"), r"tab\there");
        assert_eq!(line(br"C:\new\table"), r"C:\new\table");
    }

    #[test]
    fn a_declared_encoding_comes_first_and_only_where_it_fits() {
        let latin = Encoding::for_label(b"windows-1252").unwrap();
        assert_eq!(classify(b"Temp\xe4!", Some(latin)), TextRule::Declared(latin));
        assert_eq!(decode(TextRule::Declared(latin), b"Temp\xe4!").text, "Tempä!");
        let chinese = utf16("日志写入");
        assert_eq!(classify(&chinese, Some(UTF_16LE)), TextRule::Declared(UTF_16LE));
        assert_ne!(classify(&chinese, None), TextRule::Utf16, "CJK without a mark needs `encoding`");
        assert_eq!(classify(b"odd", Some(UTF_16LE)), TextRule::Utf8);
    }

    #[test]
    fn json_knows_when_the_characters_are_not_the_bytes() {
        assert!(decode(TextRule::Utf8, b"plain\n").exact);
        assert!(decode(TextRule::Utf8Escaped, b"nul \0 inside").exact);
        assert!(!decode(TextRule::Utf8, b"nul\0").exact);
        assert!(!decode(TextRule::Utf16, &utf16("x")).exact);
        assert!(!decode(TextRule::Bytes, b"\xff").exact);
    }

    proptest! {
        #[test]
        fn any_bytes_become_one_line_and_utf8_stays(bytes: Vec<u8>) {
            let shown = line(&bytes);
            let steers = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
            prop_assert!(!shown.chars().any(steers));
            let decoded = decode(classify(&bytes, None), &bytes);
            if decoded.exact {
                prop_assert!(bytes.starts_with(decoded.text.as_bytes()));
                prop_assert!(bytes.len() - decoded.text.len() <= 2);
            }
        }

        #[test]
        fn printable_text_is_unchanged(text in "[ -~äöüß€日😀]*") {
            prop_assert_eq!(line(text.as_bytes()), text);
        }
    }
}
