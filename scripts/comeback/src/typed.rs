//! What a person types: durations, a filter that selects everything because a variable of a script is not set, and a
//! misspelt name.

use std::time::Duration;

use comeback_core::arn::QUEUE_PREFIX;

/// Parses a value that must not be empty. An empty filter would match everything.
pub fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("expected a value, got none: is a variable not set?");
    }
    Ok(text.to_owned())
}

/// Parses an option.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let read = comeback_core::duration::parse(text);
    read.ok_or("expected a duration such as 90s, 15m, 24h or 7d")
}

/// The name that somebody probably meant, if one is like the word. A queue is also found without its prefix.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.strip_prefix(QUEUE_PREFIX).unwrap_or(name).to_lowercase();
    let word = plain(&word.replace('*', ""));
    let distance = |name: &'a str| (strsim::osa_distance(&word, &plain(name)), name);
    let (edits, name) = names.into_iter().map(distance).min()?;
    (edits * 2 <= word.len().max(name.len())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_refused() {
        assert_eq!(not_empty("a"), Ok("a".to_owned()));
        assert_eq!(not_empty(" "), Ok(" ".to_owned()));
        assert!(not_empty("").is_err());
    }

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        let names = ["billing", "orders", "orders-eu", "sqs:mails"];
        for (word, expected) in [
            ("ordrs", Some("orders")),
            ("Orders", Some("orders")),
            ("ord*", Some("orders")),
            ("mails", Some("sqs:mails")),
            ("sqs:mals", Some("sqs:mails")),
            ("sqs:orders", Some("orders")),
            ("payments", None),
            ("*", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("orders", []), None);
    }
}
