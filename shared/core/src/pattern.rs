//! Patterns in which `*` matches any run of characters, even an empty one.

/// Whether `name` matches `pattern`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let (Some(start), Some(end)) = (pieces.next(), pieces.next_back()) else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(start) else {
        return false;
    };
    // The leftmost match of each piece leaves the most text for those that follow.
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(end)
}

/// The entries of a list, trimmed, without the empty ones.
pub(crate) fn list<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let trimmed = entries.into_iter().map(str::trim);
    trimmed.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        let table = [
            ("orders", "orders", true),
            ("orders", "orders-eu", false),
            ("orders*", "orders", true),
            ("orders*", "orders-eu", true),
            ("*orders", "eu-orders", true),
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "anything", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "acd", false),
            ("aa*aa", "aaa", false),
            ("**a**", "bab", true),
            ("*é*", "café au lait", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} {name:?}");
        }
    }
}
