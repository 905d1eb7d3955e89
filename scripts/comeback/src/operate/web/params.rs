//! The parameters of a request, from its query or a form.

use std::fmt::{self, Display, Formatter};

/// Names and values, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Reads a query or the body of a form.
    pub fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value of this name, or None if it is missing or empty.
    pub fn get(&self, wanted: &str) -> Option<&str> {
        let value = self.0.iter().find(|(name, _)| name == wanted);
        value.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The same, owned.
    pub fn text(&self, wanted: &str) -> Option<String> {
        self.get(wanted).map(str::to_owned)
    }

    /// All values of this name that are not empty.
    pub fn list(&self, wanted: &str) -> Vec<String> {
        let of_name = self.pairs().filter(|(name, value)| *name == wanted && !value.is_empty());
        of_name.map(|(_, value)| value.to_owned()).collect()
    }

    /// The same, as a number.
    pub fn number<T: std::str::FromStr>(&self, wanted: &str) -> Option<T> {
        self.get(wanted)?.parse().ok()
    }

    /// Returns the parameters with this value replaced, or removed if `value` is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs: Vec<_> = self.0.iter().filter(|(it, _)| it != name).cloned().collect();
        if !value.is_empty() {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Self(pairs)
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Display for Params {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut query = form_urlencoded::Serializer::new(String::new());
        f.write_str(&query.extend_pairs(self.pairs()).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_replaced_or_left_out() {
        let params = Params::parse(b"state=waiting&text=a%26b+c&empty=");
        assert_eq!(params.get("text"), Some("a&b c"));
        assert_eq!(Params::parse(b"id=1&id=&id=2").list("id"), ["1", "2"]);
        assert_eq!((params.get("empty"), params.get("other")), (None, None));
        assert_eq!(params.with("state", "").with("empty", "").to_string(), "text=a%26b+c");
        assert_eq!(params.with("text", "x").get("text"), Some("x"));
        assert_eq!(Params::parse(b"skip=7&to=x").number::<usize>("skip"), Some(7));
    }
}
