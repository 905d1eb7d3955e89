//! The HTML that all pages share.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use comeback_core::{Timestamp, time::rfc3339};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::{Part, act, guard::Params, live::Live, play};
use crate::{
    operate::{text::due, web::rules::State},
    paint::is_hidden,
};

const PAGES: [(&str, &str); 4] =
    [("/", "Overview"), ("/events", "Events"), ("/dead", "Dead letters"), ("/policy", "Policy")];
const PLAY: (&str, &str) = ("/play", "Play");

/// How many characters of an error message and of an id a row shows.
pub const MESSAGE_MAX: usize = 80;
pub const ID_MAX: usize = 8;

pub fn document(title: &str, body: &Markup) -> Response {
    page(title, &html! { main #main { h1 { (title) } (body) } })
}

/// The parts that every page has: outages that are played, the lesson, the operator's jobs, and errors of polls.
pub fn common(live: &Live, now: Timestamp) -> Vec<Part> {
    let seen = live.seen();
    vec![
        ("outages", play::outages(live, now)),
        ("lesson", play::lesson(&seen)),
        ("did", act::jobs(live, now)),
        (
            "faults",
            html! { @for fault in seen.faults.values() { p.notice.bad role="alert" { (Untrusted(fault)) } } },
        ),
    ]
}

/// A page with the navigation. `heading` is its title, which may be updated.
pub fn frame(live: &Live, path: &str, title: &str, heading: &Markup, body: &Markup) -> Response {
    let pages = PAGES.into_iter().chain(live.is_local().then_some(PLAY));
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        header {
            a.brand href="/" { img src="/icon.svg" alt="" width="24" height="24"; " Comeback" }
            nav aria-label="Pages" {
                @for (to, name) in pages {
                    @let is_here = path == to || (to != "/" && path.starts_with(to));
                    a href=(to) aria-current=[is_here.then_some("page")] { (name) }
                }
            }
            p.place { (live.region.as_deref().unwrap_or("the local cloud")) }
        }
        p #connection role="status" hidden {}
        main #main data-live {
            @for (id, part) in common(live, (live.now)()) { section id=(id) { (part) } }
            h1 #title { (heading) }
            (body)
        }
    };
    page(title, &body)
}

fn page(title: &str, body: &Markup) -> Response {
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
        State::Running | State::Retried => "busy",
        State::Waiting | State::Queued => "waits",
        State::Succeeded => "good",
        State::GivenUp => "bad",
        State::Unknown => "faint",
    };
    html! { span class=(format!("state {class}")) { (state.name()) } }
}

/// The button for a command. It leads to the page that asks for confirmation.
pub fn order(text: &str, params: &Params) -> Markup {
    html! { a.button data-ask href=(format!("/confirm?{params}")) { (text) } }
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

pub fn csrf(live: &Live) -> Markup {
    html! { input type="hidden" name="csrf" value=(live.csrf); }
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

/// JSON whose hidden characters are escaped, so that they can't reorder it on the screen. They can only be in strings,
/// so its value stays the same.
pub fn visible_json(json: &str) -> String {
    let mut text = String::new();
    for c in json.chars() {
        if is_hidden(c) && !c.is_ascii_whitespace() {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_the_screen_has_no_hidden_characters_but_the_same_value() {
        let json = "{\"id\":\t\"a\u{202e}b\u{e0001}\"}\n";
        let text = visible_json(json);
        assert_eq!(text, "{\"id\":\t\"a\\u202eb\\udb40\\udc01\"}\n");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&text), value(json));
    }
}
