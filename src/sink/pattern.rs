//! The small patterns of the settings: `{name}` in paths and templates, `*` in sources.

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text that stands for itself.
    Literal(String),
    /// What is between `{` and `}`.
    Name(String),
}

/// Splits a pattern; `{{` and `}}` are braces. The error says what is wrong.
pub(super) fn pieces(pattern: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.next_if_eq(&c).is_some() => literal.push(c),
            '{' => {
                let mut name = String::new();
                loop {
                    match rest.next() {
                        Some('}') => break,
                        Some(c) => name.push(c),
                        None => return Err(format!("`{{{name}` is not closed; write {{{{ for a brace")),
                    }
                }
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Name(name));
            }
            '}' => return Err("a single `}` has no `{`; write }} for a brace".into()),
            c => literal.push(c),
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// Whether `text` is what `pattern` says, where `*` stands for any text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place where a part fits leaves the most for the others.
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text) in [
            ("app", "app"),
            ("*", ""),
            ("app/*", "app/x/y"),
            ("*er", "updater"),
            ("a*b*c", "a--b--c"),
            ("a**c", "abc"),
            ("*pd*te*", "updater"),
            ("a*a", "aa"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("app", "apps"), ("a*a", "a"), ("app/*", "apps"), ("a*b*c", "acb"), ("", "x")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn braces_are_doubled() {
        let literal = |text: &str| Piece::Literal(text.into());
        assert_eq!(pieces("{{a}}{b}c"), Ok(vec![literal("{a}"), Piece::Name("b".into()), literal("c")]));
        assert!(pieces("{a").unwrap_err().contains("not closed"));
        assert!(pieces("a}").unwrap_err().contains("single"));
    }
}
