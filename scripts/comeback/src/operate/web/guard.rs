//! The guard decides which requests are accepted, and reads their parameters.
//!
//! Only this machine can reach the listener, but that includes every web page in its browser. The `Host` of a request
//! must be a loopback name, which prevents DNS rebinding. The page of an account also needs the token that the command
//! prints. The first URL has the token. After that, a cookie has it, which browsers don't send with requests from other
//! sites. A form must come from the page itself: it needs the page's own `Origin`, and a CSRF token.
//!
//! Cookies know no ports: a browser sends those of a host to every server on it. So the page of an account is below a
//! path that nobody can guess, which is the path of its cookie. Inside, all links and redirects are written from `/`;
//! they get that path on the way out.

use axum::{
    body::Body,
    extract::{FromRequest, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};

use super::{
    files::FILES,
    html::{Params, document},
    live::{Live, Shared},
};

/// The largest form. A payload of a megabyte fits, even if every byte is percent-encoded.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The cookie with the token.
const COOKIE: &str = "comeback_web";

/// Forbids resources of other sites, inline scripts, and frames on other sites.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub async fn enter(State(live): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&live, &request) {
        Some(response) => response,
        None => rooted(&live.root, next.run(request).await).await,
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers would send forms with `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn refusal(live: &Shared, request: &Request) -> Option<Response> {
    let headers = request.headers();
    if !comeback_local::is_to_loopback(headers) {
        let text = "This page answers only to loopback names, such as 127.0.0.1.";
        return Some(refused(html! { p { (text) } }));
    }
    // The page that asks for the token is styled, too.
    let path = request.uri().path();
    let is_file = FILES.iter().any(|(file, ..)| *file == path);
    if let Some(token) = live.token.as_ref().filter(|_| !is_file) {
        if !path.starts_with(&live.root) {
            return Some(no_token());
        }
        let given = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
        if given.get("token") == Some(token) {
            return Some(signed_in(live, request.uri(), &given, token));
        }
        if cookie(headers) != Some(token) {
            return Some(no_token());
        }
    }
    if *request.method() != Method::GET && !is_of_the_page(headers) {
        return Some(refused(html! { p { "Forms are accepted only from this page itself." } }));
    }
    None
}

fn no_token() -> Response {
    refused(html! {
        p { "This page needs the token that " code { "comeback web" } " prints." }
        p { "Open the whole URL that the command printed. It ends with " code { "?token=…" } "." }
    })
}

/// Puts the root of the pages before the links and the redirect of a response, which are written from `/`.
async fn rooted(root: &str, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let to = text(header::LOCATION).filter(|to| !to.starts_with(root));
    let to = to.and_then(|to| HeaderValue::from_str(&from_root(root, to)).ok());
    let is_html = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    if let Some(to) = to {
        parts.headers.insert(header::LOCATION, to);
    }
    if root == "/" || !is_html {
        return Response::from_parts(parts, body);
    }
    // It has the length of the page without the root.
    parts.headers.remove(header::CONTENT_LENGTH);
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(html) => {
            let html = links_from_root(root, &String::from_utf8_lossy(&html));
            Response::from_parts(parts, html.into())
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn from_root(root: &str, path: &str) -> String {
    format!("{root}{}", path.trim_start_matches('/'))
}

/// HTML whose links have the root before their paths. Only a tag has a quotation mark: in text it is `&quot;`.
pub fn links_from_root(root: &str, html: &str) -> String {
    let links = ["href", "src", "action"].into_iter();
    links.fold(html.to_owned(), |html, name| {
        html.replace(&format!(r#" {name}="/"#), &format!(r#" {name}="{root}"#))
    })
}

/// Sets the cookie, and redirects to the same address without the token.
fn signed_in(live: &Live, uri: &Uri, given: &Params, token: &str) -> Response {
    let rest = given.with("token", "").to_string();
    let to = if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{rest}", uri.path()) };
    let root = &live.root;
    let cookie = format!("{COOKIE}={token}; Path={root}; HttpOnly; SameSite=Strict");
    let mut response = Redirect::to(&to).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Whether a request comes from the page itself. Browsers set `Origin`, and scripts can't change it.
fn is_of_the_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
    origin.is_some() && origin == text(header::HOST)
}

fn refused(why: Markup) -> Response {
    (StatusCode::FORBIDDEN, document("Refused", &why)).into_response()
}

pub struct Form(pub Params);

impl FromRequest<Shared> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, live: &Shared) -> Result<Self, Response> {
        let body: Body = request.into_body();
        let bytes = axum::body::to_bytes(body, FORM_BYTES_MAX).await;
        let bytes = bytes.map_err(|_| {
            let text = format!("expected a form of at most {FORM_BYTES_MAX} bytes, got more");
            (StatusCode::PAYLOAD_TOO_LARGE, document("Refused", &html! { p { (text) } }))
                .into_response()
        })?;
        let params = Params::parse(&bytes);
        if params.get("csrf") != Some(&live.csrf) {
            let why = "The form is from before this program was started. Go back and load the page again.";
            return Err(refused(html! { p { (why) } }));
        }
        Ok(Self(params.with("csrf", "")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_a_form_of_the_page_itself_may_act() {
        let host = (header::HOST, "127.0.0.1:4780");
        for (origin, expected) in [
            (Some("http://127.0.0.1:4780"), true),
            (Some("http://127.0.0.1:4781"), false),
            (Some("https://127.0.0.1:4780"), false),
            (Some("http://evil.example"), false),
            (Some("null"), false),
            (None, false),
        ] {
            let origin = origin.map(|origin| (header::ORIGIN, origin));
            let pairs: Vec<_> = [host.clone()].into_iter().chain(origin).collect();
            assert_eq!(is_of_the_page(&headers(&pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn links_get_the_root_and_texts_do_not() {
        let text = r#"<a href="/x">"#;
        let page = html! {
            a href="/events?a=/b" title=(text) { (text) } img src="/i" alt=""; form action="/do" {}
            a href="?run=1" {}
        };
        let expected = page.0.replace("/events", "/s/events").replace("/i", "/s/i");
        assert_eq!(links_from_root("/s/", &page.0), expected.replace("/do", "/s/do"));
        assert_eq!(links_from_root("/", &page.0), page.0);
        assert_eq!(from_root("/s/", "/"), "/s/");
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        for (cookies, expected) in [
            ("comeback_web=abc", Some("abc")),
            ("a=b; comeback_web=abc", Some("abc")),
            ("comeback_webx=abc", None),
            ("xcomeback_web=abc", None),
            ("", None),
        ] {
            assert_eq!(cookie(&headers(&[(header::COOKIE, cookies)])), expected, "{cookies}");
        }
    }
}
