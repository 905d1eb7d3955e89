//! The filter patterns of CloudWatch Logs: terms, and conditions on the members of JSON lines. Patterns of columns
//! (`[…]`) and regular expressions (`%…%`) are refused.

use std::iter::Peekable;

use comeback_core::pattern;
use serde_json::Value;

/// Deeper parentheses are refused.
const DEPTH_MAX: usize = 16;

/// Which lines somebody wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LogFilter {
    /// Lines with all of `all`, none of `none`, and one of `any` if there are some.
    Terms { all: Vec<String>, any: Vec<String>, none: Vec<String> },
    /// Lines that are JSON objects for which this is true.
    Members(Condition),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Exists(Vec<String>, bool),
    Is(Vec<String>, Comparison),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Comparison {
    Text { is: bool, pattern: String },
    Number { operator: String, number: f64 },
}

impl LogFilter {
    /// Reads a pattern. `None` if it is none, or one that this local cloud does not have.
    pub(crate) fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.trim();
        if let Some(inside) = pattern.strip_prefix('{') {
            let words = words(inside.strip_suffix('}')?)?;
            let mut words = words.into_iter().peekable();
            let condition = any(&mut words, 0)?;
            return words.next().is_none().then_some(Self::Members(condition));
        }
        if pattern.starts_with(['[', '%']) {
            return None;
        }
        let (mut all, mut any, mut none) = (Vec::new(), Vec::new(), Vec::new());
        for word in words(pattern)? {
            let Word { text, is_quoted } = word;
            match text.split_at_checked(1) {
                Some(("?", rest)) if !is_quoted => any.push(rest.to_owned()),
                Some(("-", rest)) if !is_quoted => none.push(rest.to_owned()),
                _ => all.push(text),
            }
        }
        Some(Self::Terms { all, any, none })
    }

    /// Whether this line is wanted.
    pub(crate) fn wants(&self, line: &str) -> bool {
        match self {
            Self::Terms { all, any, none } => {
                let has = |term: &String| line.contains(term.as_str());
                all.iter().all(has)
                    && !none.iter().any(has)
                    && (any.is_empty() || any.iter().any(has))
            }
            Self::Members(condition) => {
                serde_json::from_str::<Value>(line).is_ok_and(|line| condition.holds(&line))
            }
        }
    }
}

impl Condition {
    fn holds(&self, line: &Value) -> bool {
        let member = |path: &[String]| path.iter().try_fold(line, |value, name| value.get(name));
        match self {
            Self::All(conditions) => conditions.iter().all(|it| it.holds(line)),
            Self::Any(conditions) => conditions.iter().any(|it| it.holds(line)),
            Self::Exists(path, exists) => member(path).is_some() == *exists,
            Self::Is(path, comparison) => member(path).is_some_and(|value| comparison.holds(value)),
        }
    }
}

impl Comparison {
    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text { is, pattern }, Value::String(text)) => {
                pattern::matches(pattern, text) == *is
            }
            (Self::Text { is, pattern }, Value::Bool(value)) => {
                (pattern.parse() == Ok(*value)) == *is
            }
            (Self::Number { operator, number }, Value::Number(value)) => {
                let Some(value) = value.as_f64() else { return false };
                match operator.as_str() {
                    "=" => value == *number,
                    "!=" => value != *number,
                    "<" => value < *number,
                    ">" => value > *number,
                    "<=" => value <= *number,
                    _ => value >= *number,
                }
            }
            (Self::Number { operator, number }, Value::String(text)) => {
                (*text == number.to_string()) == (operator == "=")
            }
            _ => false,
        }
    }
}

struct Word {
    text: String,
    is_quoted: bool,
}

/// The words of a pattern; operators and parentheses are words, and so is a quoted text.
fn words(pattern: &str) -> Option<Vec<Word>> {
    const OPERATORS: [&str; 10] = ["&&", "||", "!=", "<=", ">=", "=", "<", ">", "(", ")"];
    let mut words = Vec::new();
    let mut rest = pattern.trim_start();
    while !rest.is_empty() {
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
        let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"')?;
            (Word { text: text.to_owned(), is_quoted: true }, after)
        } else if let Some(operator) = operator {
            (Word { text: operator.to_owned(), is_quoted: false }, &rest[operator.len()..])
        } else {
            let is_end = |c: char| c.is_whitespace() || "&|!=<>()\"".contains(c);
            let end = rest.find(is_end).filter(|end| *end > 0).unwrap_or(rest.len());
            (Word { text: rest[..end].to_owned(), is_quoted: false }, &rest[end..])
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

type Words = Peekable<std::vec::IntoIter<Word>>;

fn take(words: &mut Words, wanted: &str) -> bool {
    words.next_if(|word| !word.is_quoted && word.text == wanted).is_some()
}

fn any(words: &mut Words, depth: usize) -> Option<Condition> {
    let mut conditions = vec![all(words, depth)?];
    while take(words, "||") {
        conditions.push(all(words, depth)?);
    }
    Some(Condition::Any(conditions))
}

fn all(words: &mut Words, depth: usize) -> Option<Condition> {
    let mut conditions = vec![one(words, depth)?];
    while take(words, "&&") {
        conditions.push(one(words, depth)?);
    }
    Some(Condition::All(conditions))
}

fn one(words: &mut Words, depth: usize) -> Option<Condition> {
    if take(words, "(") {
        let inside = (depth < DEPTH_MAX).then(|| any(words, depth + 1))??;
        return take(words, ")").then_some(inside);
    }
    let selector = words.next().filter(|word| !word.is_quoted)?;
    let path = selector.text.strip_prefix("$.")?;
    let path: Vec<_> = path.split('.').map(str::to_owned).collect();
    let operator = words.next().filter(|word| !word.is_quoted)?.text;
    match operator.as_str() {
        "EXISTS" => return Some(Condition::Exists(path, true)),
        "NOT" => return take(words, "EXISTS").then_some(Condition::Exists(path, false)),
        "=" | "!=" | "<" | ">" | "<=" | ">=" => {}
        _ => return None,
    }
    let Word { text, is_quoted } = words.next()?;
    let comparison = match text.parse() {
        Ok(number) if !is_quoted => Comparison::Number { operator, number },
        _ if operator == "=" || operator == "!=" => {
            Comparison::Text { is: operator == "=", pattern: text }
        }
        _ => return None,
    };
    Some(Condition::Is(path, comparison))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_wanted_or_not() {
        let line = r#"{"level":"INFO","event_id":"e-1","attempt":3,"nested":{"ok":true},"n":null}"#;
        for (pattern, wanted) in [
            ("", true),
            ("INFO", true),
            ("info", false),
            ("INFO e-1", true),
            ("INFO e-2", false),
            ("\"event_id\"", true),
            ("?e-2 ?e-1", true),
            ("?e-2 ?e-3", false),
            ("INFO -e-1", false),
            (r#"{ $.event_id = "e-1" }"#, true),
            (r#"{ $.event_id = "e-2" }"#, false),
            (r#"{$.event_id="e-2"||$.level=INFO}"#, true),
            (r#"{ ($.event_id = "e-2") || ($.request_id = "e-1") }"#, false),
            (r#"{ $.event_id = "e-*" && $.attempt = 3 }"#, true),
            ("{ $.attempt > 3 }", false),
            ("{ $.attempt >= 3 && $.attempt <= 3 && $.attempt < 4 && $.attempt != 4 }", true),
            ("{ $.nested.ok = true }", true),
            ("{ $.nested.ok != true }", false),
            ("{ $.nested EXISTS }", true),
            ("{ $.missing EXISTS }", false),
            ("{ $.missing NOT EXISTS }", true),
            (r#"{ $.missing != "x" }"#, false),
        ] {
            let filter =
                LogFilter::parse(pattern).unwrap_or_else(|| panic!("{pattern} is refused"));
            assert_eq!(filter.wants(line), wanted, "{pattern}");
        }
        let no_json = LogFilter::parse("{ $.a EXISTS }").unwrap();
        assert!(!no_json.wants("REPORT RequestId: 1") && !no_json.wants(""));
    }

    #[test]
    fn what_this_local_cloud_does_not_have_is_refused() {
        let deep = format!("{{ {}$.a = 1{} }}", "(".repeat(20), ")".repeat(20));
        for pattern in [
            "[a, b]",
            "%x%",
            "{ $.a = 1",
            "{ a = 1 }",
            "{ $.a }",
            "{ $.a ~ 1 }",
            "{ }",
            "{ $.a = }",
            "{ ($.a = 1 }",
            "{ $.a = 1 ) }",
            "{ $.a < x }",
            "\"open",
            &deep,
        ] {
            assert_eq!(LogFilter::parse(pattern), None, "{pattern}");
        }
    }
}
