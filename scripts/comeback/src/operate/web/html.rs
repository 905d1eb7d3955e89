//! The HTML that all pages share, and the parameters in their links and forms.

use std::fmt::{self, Display, Formatter};

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use comeback_core::{Timestamp, time::rfc3339};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use crate::{
    operate::{
        order::{Effect, Noun},
        orders::kinds,
        web::rules::State,
    },
    paint::is_hidden,
    text::due,
};

pub use crate::{operate::order::ID_MAX, paint::visible_json};

/// How many characters of an error message a row shows.
pub const MESSAGE_MAX: usize = 80;

pub fn document(title: &str, body: &Markup) -> Response {
    page(title, &html! { main #main { h1 { (title) } (body) } })
}

/// A page with this body.
pub fn page(title: &str, body: &Markup) -> Response {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Comeback" }
                link rel="icon" href="/icon.svg";
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body { (body) }
        }
    };
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text.into_string()).into_response()
}

/// A time relative to now. The page's script keeps it current.
pub fn until(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        time datetime=(rfc3339(at)) data-until=(at.timestamp_millis()) title=(rfc3339(at)) {
            (due(at, now))
        }
    }
}

/// The time of an attempt, relative to now: `in 5 s`, or `due now`.
pub fn attempt_at(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        time datetime=(rfc3339(at)) data-until=(at.timestamp_millis()) data-past="due now" title=(rfc3339(at)) {
            @if at > now { (due(at, now)) } @else { "due now" }
        }
    }
}

pub fn state(state: State) -> Markup {
    let class = match state {
        State::AtLambda | State::Running | State::Retried => "busy",
        State::Waiting | State::Queued => "waits",
        State::Succeeded | State::Delivered => "good",
        State::GivenUp => "bad",
        State::Unknown => "faint",
    };
    html! { span class=(format!("state {class}")) { (state.name()) } }
}

/// The links to the orders for a noun, with these parameters. Each leads to the page that asks for confirmation.
pub fn order_links(noun: Noun, params: &Params) -> Markup {
    html! {
        @for kind in kinds(noun) {
            " " a.button data-ask href=(format!("/confirm?{}", params.with("do", kind.name))) { (kind.button) "…" }
        }
    }
}

/// The form of the checkboxes of a list, with a button for each order for what is selected.
pub fn order_form(noun: Noun, rest: &Markup) -> Markup {
    html! {
        form #chosen.actions method="get" action="/confirm" data-ask {
            input type="hidden" name="chosen" value="id";
            span.chosen {
                "Selected:"
                @for kind in kinds(noun) {
                    " " button name="do" value=(kind.name) class=[(kind.effect == Effect::GivesUp).then_some("danger")] {
                        (kind.button) "…"
                    }
                }
            }
            (rest)
        }
    }
}

pub fn term(word: &str, meaning: &str) -> Markup {
    html! { abbr title=(meaning) tabindex="0" { (word) } }
}

/// A field for JSON, with what is wrong with it beside it.
pub fn json_field(label: &str, rows: u32, value: &str, error: Option<&str>) -> Markup {
    html! {
        label for="payload" { (label) }
        @if let Some(error) = error { p #payload-error.notice.bad role="alert" { (error) } }
        textarea #payload name="payload" rows=(rows) spellcheck="false" aria-invalid=[error.map(|_| "true")]
            aria-describedby=[error.map(|_| "payload-error")] autofocus[error.is_some()] { "\n" (value) }
    }
}

pub fn csrf(token: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(token); }
}

/// Text from an untrusted source. It is escaped, and hidden characters are replaced.
pub struct Untrusted<'a>(pub &'a str);

impl Render for Untrusted<'_> {
    fn render(&self) -> Markup {
        let is_hidden = |c: char| is_hidden(c) && c != '\n' && c != '\t';
        let text = self.0.replace(is_hidden, "\u{fffd}");
        PreEscaped(text.render().into_string())
    }
}

/// The parameters of a query or a form.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value of this name, or None if it is missing or empty.
    pub fn get(&self, wanted: &str) -> Option<&str> {
        let value = self.0.iter().find(|(name, _)| name == wanted);
        value.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn text(&self, wanted: &str) -> Option<String> {
        self.get(wanted).map(str::to_owned)
    }

    pub fn list(&self, wanted: &str) -> Vec<String> {
        let of_name = self.pairs().filter(|(name, value)| *name == wanted && !value.is_empty());
        of_name.map(|(_, value)| value.to_owned()).collect()
    }

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
