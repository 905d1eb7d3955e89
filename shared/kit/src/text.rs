//! Removes secrets from texts that end up in logs and dead letters.

/// Removes the query, fragment, user and password from every URL in a text, because they may be secret.
///
/// HTTP clients quote the whole URL in their errors, including `?api_key=…`.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://").map(|at| at + "://".len()) {
        let (before, after) = rest.split_at(start);
        let end = after.find(ends_url).unwrap_or(after.len());
        // Quotes and brackets may be part of a query. At the end of a URL, they count as text after it.
        let url = after[..end].trim_end_matches(closes);
        let (place, _) = url.split_once(['?', '#']).unwrap_or((url, ""));
        let authority = &place[..place.find(['/', '\\']).unwrap_or(place.len())];
        let user = authority.rfind('@').map_or(0, |at| at + 1);
        clean.push_str(before);
        clean.push_str(&place[user..]);
        rest = &after[url.len()..];
    }
    clean + rest
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || ['"', '<', '>'].contains(&c)
}

fn closes(c: char) -> bool {
    [')', ']', '}', '\'', '`', '\\', '.', ',', ':', ';', '!'].contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_lose_their_query_user_and_password_and_nothing_else_is_changed() {
        for (text, clean) in [
            ("no URL at all? user@example.com :// a?b", "no URL at all? user@example.com :// a?b"),
            (
                "error sending request for url (https://api.example.com/v1?api_key=k&b=a)b)",
                "error sending request for url (https://api.example.com/v1)",
            ),
            ("https://u:p@h:8443/a/b?q#f: timed out", "https://h:8443/a/b: timed out"),
            ("postgres://app:p@ss@db/shop failed", "postgres://db/shop failed"),
            ("https://h?k=1", "https://h"),
            ("https://h/#access_token=1.", "https://h/."),
            ("https://h/@scope/pkg, https://h/b@c?d", "https://h/@scope/pkg, https://h/b@c"),
            (
                r#"{"doc":"https://h/p?k=1","n":"http://h?k"}"#,
                r#"{"doc":"https://h/p","n":"http://h"}"#,
            ),
            (
                r#""{\"doc\":\"https://h/p?k=1\",\"n\":1}""#,
                r#""{\"doc\":\"https://h/p\",\"n\":1}""#,
            ),
            ("<https://h/p?k=1> 'https://u@h/'", "<https://h/p> 'https://h/'"),
            ("via https://a/?u=https://u:p@b/?k=1\nx?y=z", "via https://a/\nx?y=z"),
            ("jdbc:mysql://u:p@db:3306/x?password=p", "jdbc:mysql://db:3306/x"),
            ("http://", "http://"),
        ] {
            assert_eq!(without_secrets(text), clean);
        }
    }

    proptest! {
        #[test]
        fn no_secret_of_a_url_is_left_wherever_it_stands(
            before in "[a-z (\"]{0,9}", path in "(/[a-z@.:]{0,5}){0,3}", around in "[)\\]'\", ]{0,3}",
            secret in "SECRET[A-Z0-9%&=)'/?:@-]{0,9}",
        ) {
            let secret = secret.trim_end_matches(closes);
            for url in [
                format!("https://host{path}?key={secret}"),
                format!("https://host{path}#key={secret}"),
                format!("https://user:{}@host{path}", secret.replace(['/', '?'], "")),
            ] {
                let clean = without_secrets(&format!("{before}{url}{around}after"));
                prop_assert!(!clean.contains("SECRET"), "{}", clean);
                prop_assert!(clean.contains("host"), "{}", clean);
            }
        }
    }
}
