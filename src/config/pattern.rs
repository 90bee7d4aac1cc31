//! Text with `{names}` in it: the paths of log files and the lines of a template. What is allowed is decided here
//! alone, for `hwgate check` and for those who write the files.

use crate::wire::nearest;

/// What a path may hold.
pub const PATH_NAMES: &[&str] = &["source", "host", "level", "date"];
/// What a template may hold.
pub const TEMPLATE_NAMES: &[&str] = &[
    "time", "received", "level", "LEVEL", "source", "host", "pid", "text", "fields", "client", "producer",
    "seq",
];

/// What all but the values of one name of a path may take, in bytes; the rest is left for values, time stamp and
/// `.gz.tmp`.
const LITERAL_BYTES: usize = 60;

/// How many placeholders one name of a path may have, so that each value keeps some length.
const PLACEHOLDERS: usize = 4;

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself.
    Literal(String),
    /// What is between `{` and `}`.
    Name(String),
}

/// Splits a pattern into its pieces; `{{` and `}}` stand for braces. The error says what is wrong.
pub fn pieces(pattern: &str, names: &[&str]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push_str(&rest[..1]);
            rest = &rest[2..];
            continue;
        }
        let Some(inner) = rest.strip_prefix('{') else {
            return Err("a single } has no {; write }} for a brace".to_owned());
        };
        let Some((name, after)) = inner.split_once('}') else {
            return Err(format!("{rest:?} is not closed; write {{{{ for a brace"));
        };
        if !names.contains(&name) {
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean {{{near}}}?"),
                None => format!("there are {{{}}}", names.join("} {")),
            };
            return Err(format!("{{{name}}} is not known; {hint}"));
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Name(name.to_owned()));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// Checks a template: known names, and one line.
pub fn check_template(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains(['\n', '\r', '\0']) {
        return Err("a template is one line of text".to_owned());
    }
    pieces(text, TEMPLATE_NAMES).map(|_| ())
}

/// Splits the path of a log file into the pieces of its names. It must stay below `log_dir` and name a plain file on
/// every platform; the error says why it does not.
///
/// What replaces a `{name}` later is made safe there; this is about the text around it.
pub fn path(text: &str) -> Result<Vec<Vec<Piece>>, String> {
    // Windows has two separators; elsewhere a backslash would make a file that Windows cannot name.
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    if text.starts_with('/') {
        return Err(format!("{text:?} leaves log_dir; it must be relative"));
    }
    let name = |name: &str| {
        let pieces = pieces(name, PATH_NAMES)?;
        check_name(&pieces).map(|()| pieces)
    };
    text.split('/').map(name).collect()
}

/// Whether this may be one name of a path.
fn check_name(pieces: &[Piece]) -> Result<(), String> {
    let literals = pieces.iter().filter_map(|piece| match piece {
        Piece::Literal(text) => Some(&text[..]),
        Piece::Name(_) => None,
    });
    let text: String = literals.collect();
    let placeholders = pieces.iter().filter(|piece| matches!(piece, Piece::Name(_))).count();
    if placeholders > PLACEHOLDERS {
        return Err(format!("a name between two / may have {PLACEHOLDERS} placeholders, not {placeholders}"));
    }
    if text.len() > LITERAL_BYTES {
        let length = text.len();
        return Err(format!(
            "a name between two / may have {LITERAL_BYTES} bytes beside its placeholders, not {length}"
        ));
    }
    if let Some(odd) = text.chars().find(|&c| c.is_control() || r#"<>:"|?*\"#.contains(c)) {
        return Err(format!(
            "{odd:?} cannot be in a file name on every system; folders are separated with /"
        ));
    }
    if placeholders == 0 && matches!(&text[..], "" | "." | "..") {
        return Err("each name needs text of its own, not '', '.' or '..'".to_owned());
    }
    if placeholders == 0 && is_device(&text) {
        return Err(format!("{text:?} is a device on Windows"));
    }
    match pieces.last() {
        Some(Piece::Literal(last)) if last.ends_with([' ', '.']) => {
            Err(format!("{last:?} ends with a dot or space, which Windows drops"))
        }
        _ => Ok(()),
    }
}

/// Whether Windows takes the name for a device: the part before the first dot or colon counts.
pub fn is_device(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ').to_ascii_uppercase();
    if matches!(&stem[..], "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") {
        return true;
    }
    let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    number.is_some_and(|number| {
        let mut chars = number.chars();
        let digit = chars.next().is_some_and(|c| c.is_ascii_digit() || "¹²³".contains(c));
        digit && chars.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_braces() {
        let literal = |text: &str| Piece::Literal(text.to_owned());
        let name = |text: &str| Piece::Name(text.to_owned());
        assert_eq!(
            pieces("a {time}{{x}} {level}{LEVEL}", TEMPLATE_NAMES).unwrap(),
            [literal("a "), name("time"), literal("{x} "), name("level"), name("LEVEL")]
        );
        for (wrong, part) in [
            ("{", "\"{\" is not closed"),
            ("a}", "a single }"),
            ("a{time", "\"{time\" is not closed"),
            ("{tim}", "did you mean {time}?"),
            ("{}", "there are {time} {received}"),
            ("{time{level}}", "is not known"),
        ] {
            let message = pieces(wrong, TEMPLATE_NAMES).unwrap_err();
            assert!(message.contains(part), "{wrong}: {message}");
        }
    }

    #[test]
    fn c35_no_path_leaves_the_folder_or_names_a_device() {
        let longest = format!("{{source}}{}/{{date}}", "x".repeat(60));
        for good in [
            "gateway.log",
            "a/b/{source}-{date}.log",
            "{level}.log",
            "com10.log",
            "console.log",
            "ö.log",
            "..x",
            "x..y",
            "{{x}}.log",
            "{source}{host}{level}{date}",
            &longest,
        ] {
            path(good).unwrap();
        }
        let long = "x".repeat(61);
        for wrong in [
            "",
            ".",
            "..",
            "../../x",
            "a/../x",
            "/etc/x",
            "C:\\x",
            "C:x",
            "\\\\host\\s\\a.wav",
            "file://x",
            "NUL",
            "COM3.log",
            "a/COM3.log",
            "a.log:b",
            "a\0.log",
            "con ",
            "CON .txt",
            "a//b",
            "a/./b",
            "x/",
            "aux.txt",
            "a/lpt1",
            "LPT¹",
            "x.",
            "x ",
            "{source}.",
            "{sauce}.log",
            "{source",
            "a*b",
            "a\nb",
            "{source}{host}{level}{date}{source}",
            &long,
        ] {
            assert!(path(wrong).is_err(), "{wrong:?}");
        }
    }
}
