//! Text with `{names}` in it: the paths of log files and the lines of a template.

/// What a path may hold.
pub const PATH_NAMES: &[&str] = &["source", "host", "level", "date"];
/// What a template may hold.
pub const TEMPLATE_NAMES: &[&str] =
    &["time", "received", "level", "source", "host", "pid", "text", "fields", "client", "producer", "seq"];

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text as it is.
    Text(&'a str),
    /// The name between braces.
    Name(&'a str),
}

/// Splits a pattern into its pieces; `{{` and `}}` stand for braces. The error says what is wrong.
pub fn parse<'a>(mut text: &'a str, names: &[&str]) -> Result<Vec<Piece<'a>>, String> {
    let mut pieces = Vec::new();
    while let Some(at) = text.find(['{', '}']) {
        if at > 0 {
            pieces.push(Piece::Text(&text[..at]));
        }
        let rest = &text[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            pieces.push(Piece::Text(&rest[..1]));
            text = &rest[2..];
            continue;
        }
        let name = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((name, after)) = name else {
            return Err(format!("a brace without its partner in {text:?}"));
        };
        if !names.contains(&name) {
            let hint = crate::wire::nearest(name, names.iter().copied())
                .map_or(String::new(), |near| format!("; did you mean {{{near}}}?"));
            return Err(format!("{{{name}}} is not known{hint}"));
        }
        pieces.push(Piece::Name(name));
        text = after;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Checks a template: known names, and one line.
pub fn check_template(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains(['\n', '\r', '\0']) {
        return Err("a template is one line of text".to_owned());
    }
    parse(text, TEMPLATE_NAMES).map(|_| ())
}

/// Checks the path of a log file: it must stay below `log_dir` and name a plain file on every platform.
///
/// What replaces a `{name}` later is made safe there; this is about the text around it.
pub fn check_path(text: &str) -> Result<(), String> {
    parse(text, PATH_NAMES)?;
    if text.starts_with(['/', '\\']) || text.contains(':') {
        return Err(format!("{text:?} leaves log_dir or names a device"));
    }
    let odd = |c: char| c.is_control() || "\\<>\"|?*".contains(c);
    if let Some(c) = text.chars().find(|c| odd(*c)) {
        return Err(format!("{c:?} is not allowed; separate folders with /"));
    }
    text.split('/').try_for_each(check_component)
}

fn check_component(name: &str) -> Result<(), String> {
    if name.is_empty() || name == "." || name == ".." {
        return Err("each part needs a name of its own, not '', '.' or '..'".to_owned());
    }
    if name.len() > 200 {
        return Err("a part is longer than 200 bytes".to_owned());
    }
    if name.ends_with(['.', ' ']) {
        return Err(format!("{name:?} ends with a dot or space, which Windows drops"));
    }
    // Windows opens the device whatever the extension is, so such a name is refused everywhere.
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered = ["COM", "LPT"].iter().any(|device| {
        stem.strip_prefix(device).is_some_and(|rest| {
            let mut chars = rest.chars();
            matches!((chars.next(), chars.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
        })
    });
    if numbered || matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") {
        return Err(format!("{name:?} is a device on Windows"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_braces() {
        assert_eq!(
            parse("a {time}{{x}} {level}", TEMPLATE_NAMES).unwrap(),
            [
                Piece::Text("a "),
                Piece::Name("time"),
                Piece::Text("{"),
                Piece::Text("x"),
                Piece::Text("}"),
                Piece::Text(" "),
                Piece::Name("level"),
            ]
        );
        for wrong in ["{", "a}", "{time", "{tim}", "{}", "{time{level}}"] {
            assert!(parse(wrong, TEMPLATE_NAMES).is_err(), "{wrong}");
        }
        assert!(parse("{sourc}", PATH_NAMES).unwrap_err().contains("{source}"));
    }

    #[test]
    fn c35_no_path_leaves_the_folder_or_names_a_device() {
        for path in
            ["gateway.log", "a/b/{source}-{date}.log", "{level}.log", "com10.log", "ö.log", "..x", "x..y"]
        {
            check_path(path).unwrap();
        }
        let long = "x".repeat(300);
        for path in [
            "",
            "../../x",
            "/etc/x",
            "C:\\x",
            "C:x",
            "\\\\host\\s\\a.wav",
            "file://x",
            "NUL",
            "COM3.log",
            "a.log:b",
            "a\0.log",
            "con ",
            "a//b",
            "a/./b",
            "x/",
            "aux.txt",
            "a/lpt1",
            "x.",
            "a\nb",
            &long,
        ] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }
}
