//! The filter patterns of CloudWatch Logs: terms, and conditions on the members of JSON lines. Patterns of columns
//! (`[…]`) and regular expressions (`%…%`) are refused.

use std::iter::Peekable;

use comeback_core::pattern;
use serde_json::Value;

/// More deeply nested parentheses are refused.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub enum LogFilter {
    /// Matches lines that contain all terms of `all`, none of `none`, and one of `any` unless that is empty.
    Terms { all: Vec<String>, any: Vec<String>, none: Vec<String> },
    /// Matches lines that are JSON objects and meet this condition.
    Members(Condition),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Exists(Vec<String>, bool),
    Is(Vec<String>, Comparison),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    Text { is: bool, pattern: String },
    Number { operator: String, number: f64 },
}

impl LogFilter {
    /// Parses a pattern. `None` if it is invalid or not supported here.
    pub fn parse(pattern: &str) -> Option<Self> {
        let pattern = pattern.trim();
        if let Some(inside) = pattern.strip_prefix('{') {
            let tokens = tokens(inside.strip_suffix('}')?)?;
            let mut tokens = tokens.into_iter().peekable();
            let condition = any(&mut tokens, 0)?;
            return tokens.next().is_none().then_some(Self::Members(condition));
        }
        if pattern.starts_with(['[', '%']) {
            return None;
        }
        let (mut all, mut any, mut none) = (Vec::new(), Vec::new(), Vec::new());
        for token in tokens(pattern)? {
            let Token { text, is_quoted } = token;
            match text.split_at_checked(1) {
                Some(("?", rest)) if !is_quoted => any.push(rest.to_owned()),
                Some(("-", rest)) if !is_quoted => none.push(rest.to_owned()),
                _ => all.push(text),
            }
        }
        Some(Self::Terms { all, any, none })
    }

    pub fn matches(&self, line: &str) -> bool {
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

struct Token {
    text: String,
    is_quoted: bool,
}

/// Splits a pattern into tokens. Each operator, parenthesis and quoted text is one token.
fn tokens(pattern: &str) -> Option<Vec<Token>> {
    const OPERATORS: [&str; 10] = ["&&", "||", "!=", "<=", ">=", "=", "<", ">", "(", ")"];
    let mut tokens = Vec::new();
    let mut rest = pattern.trim_start();
    while !rest.is_empty() {
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
        let (token, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"')?;
            (Token { text: text.to_owned(), is_quoted: true }, after)
        } else if let Some(operator) = operator {
            (Token { text: operator.to_owned(), is_quoted: false }, &rest[operator.len()..])
        } else {
            let is_end = |c: char| c.is_whitespace() || "&|!=<>()\"".contains(c);
            let end = rest.find(is_end).filter(|end| *end > 0).unwrap_or(rest.len());
            (Token { text: rest[..end].to_owned(), is_quoted: false }, &rest[end..])
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Some(tokens)
}

type Tokens = Peekable<std::vec::IntoIter<Token>>;

fn take(tokens: &mut Tokens, wanted: &str) -> bool {
    tokens.next_if(|token| !token.is_quoted && token.text == wanted).is_some()
}

fn any(tokens: &mut Tokens, depth: usize) -> Option<Condition> {
    let mut conditions = vec![all(tokens, depth)?];
    while take(tokens, "||") {
        conditions.push(all(tokens, depth)?);
    }
    Some(Condition::Any(conditions))
}

fn all(tokens: &mut Tokens, depth: usize) -> Option<Condition> {
    let mut conditions = vec![one(tokens, depth)?];
    while take(tokens, "&&") {
        conditions.push(one(tokens, depth)?);
    }
    Some(Condition::All(conditions))
}

fn one(tokens: &mut Tokens, depth: usize) -> Option<Condition> {
    if take(tokens, "(") {
        let inside = (depth < DEPTH_MAX).then(|| any(tokens, depth + 1))??;
        return take(tokens, ")").then_some(inside);
    }
    let selector = tokens.next().filter(|token| !token.is_quoted)?;
    let path = selector.text.strip_prefix("$.")?;
    let path: Vec<_> = path.split('.').map(str::to_owned).collect();
    let operator = tokens.next().filter(|token| !token.is_quoted)?.text;
    match operator.as_str() {
        "EXISTS" => return Some(Condition::Exists(path, true)),
        "NOT" => return take(tokens, "EXISTS").then_some(Condition::Exists(path, false)),
        "=" | "!=" | "<" | ">" | "<=" | ">=" => {}
        _ => return None,
    }
    let Token { text, is_quoted } = tokens.next()?;
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
    fn lines_match_by_terms_and_by_conditions() {
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
            assert_eq!(filter.matches(line), wanted, "{pattern}");
        }
        let no_json = LogFilter::parse("{ $.a EXISTS }").unwrap();
        assert!(!no_json.matches("REPORT RequestId: 1") && !no_json.matches(""));
    }

    #[test]
    fn invalid_and_unsupported_patterns_are_refused() {
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
