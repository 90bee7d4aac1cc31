//! Patterns of sources, with `*` for any text.

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
}
