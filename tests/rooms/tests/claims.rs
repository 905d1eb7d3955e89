//! Each promise of the README and of SECURITY.md has a row in `docs/design/claims.md`, and each row has evidence that
//! exists.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tracked files can be read")]

use std::{fs, path::Path, sync::LazyLock};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

static CLAIMS: LazyLock<String> = LazyLock::new(|| read("docs/design/claims.md"));

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// The part of a document from the heading `from` to the heading `until`.
fn part(file: &str, from: &str, until: &str) -> String {
    let text = read(file);
    let rest = text.split_once(from).unwrap_or_else(|| panic!("{file} has no {from:?}")).1;
    let end = rest.find(until).unwrap_or_else(|| panic!("{file} has no {until:?} after {from:?}"));
    rest[..end].to_owned()
}

/// Where promises are made.
fn promising() -> [(&'static str, String); 4] {
    let security = read("SECURITY.md");
    let security = security.split_once("## What needs protection").unwrap().1;
    [
        ("README.md", part("README.md", "# Comeback\n", "## See it work")),
        ("README.md", part("README.md", "## What else it does\n", "## Deploy it")),
        ("README.md", part("README.md", "## What your function receives\n", "## Operate it")),
        ("SECURITY.md", security.to_owned()),
    ]
}

/// Text as a reader sees it: without pictures, emphasis, code marks, links in brackets and the addresses of others.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((shown, after)) = link.split_once("](") else { break };
        let Some((_, after)) = after.split_once(')') else { break };
        // A link in brackets, such as "([how](…))", and a picture are no part of the sentence.
        if let (Some(before), Some(after)) = (before.strip_suffix(" ("), after.strip_prefix(')')) {
            plain += before;
            rest = after;
            continue;
        }
        match before.strip_suffix('!') {
            Some(before) => plain += before,
            None => plain.extend([before, shown]),
        }
        rest = after;
    }
    plain += rest;
    plain.replace(['*', '`'], "")
}

/// The paragraphs and the points of lists, outside of tables and blocks.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut in_block = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        let is_text = !in_block && !is_fence && !line.starts_with(['#', '|', '<']);
        let point = line.strip_prefix("- ");
        if !is_text || line.is_empty() || point.is_some() {
            paragraphs.push(String::new());
        }
        if is_text && let Some(last) = paragraphs.last_mut() {
            *last += point.unwrap_or(line).trim();
            last.push(' ');
        }
    }
    paragraphs
}

fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    for paragraph in paragraphs(text) {
        let paragraph = plain(&paragraph);
        let mut rest = paragraph.trim();
        while let Some(end) = rest.find(". ").map(|at| at + 1) {
            sentences.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
        }
        sentences.push(rest.to_owned());
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The cells of the rows of tables, without their headings.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let is_row = |line: &str| line.starts_with('|') && !line.starts_with("|---");
    let is_heading = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let rows = lines.iter().enumerate().filter(|(at, line)| is_row(line) && !is_heading(*at));
    rows.map(|(_, line)| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn each_promise_has_a_row_and_each_row_a_promise() {
    let claims = &*CLAIMS;
    let promised: Vec<_> = rows(claims).iter().map(|row| plain(row[0])).collect();
    let none = claims.split_once("## Sentences that promise nothing").unwrap().1;
    let none = &none[none.find("\n- ").unwrap()..];
    let none: Vec<_> = paragraphs(none).iter().map(|it| plain(it.trim())).collect();
    let mut made = Vec::new();
    for (file, text) in promising() {
        made.extend(sentences(&text).into_iter().map(|sentence| (file, sentence)));
        // Of a table, each row is a promise, which begins with its first cell.
        made.extend(rows(&text).iter().map(|row| (file, plain(row[0]) + ":")));
    }
    let has = |known: &[String], made: &str| {
        known.iter().any(|it| it == made || (made.ends_with(':') && it.starts_with(made)))
    };
    let lack: Vec<_> =
        made.iter().filter(|(_, it)| !has(&promised, it) && !has(&none, it)).collect();
    assert!(lack.is_empty(), "docs/design/claims.md has no row for {lack:#?}");
    let is_made = |known: &&String| {
        let same =
            |made: &String| *made == **known || (made.ends_with(':') && known.starts_with(made));
        made.iter().any(|(_, made)| same(made))
    };
    let listed = promised.iter().chain(none.iter().filter(|it| !it.is_empty()));
    let gone: Vec<_> = listed.filter(|known| !is_made(known)).collect();
    assert!(gone.is_empty(), "docs/design/claims.md quotes what nobody says: {gone:#?}");
}

#[test]
fn each_row_names_a_way_to_know_and_evidence_that_exists() {
    // Each way is explained at the top of the page.
    let ways = CLAIMS.split("\n## ").next().unwrap().split("\n- *").skip(1);
    let ways: Vec<_> = ways.map(|point| point.split_once('*').unwrap().0).collect();
    for row in rows(&CLAIMS) {
        let [promise, known, shown] = row[..] else { panic!("a row has three cells: {row:?}") };
        let is_known = ways.iter().any(|way| known.starts_with(way));
        assert!(is_known, "{promise} is known by none of {ways:?}, but {known}");
        let codes: Vec<_> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!codes.is_empty(), "{promise} is shown by nothing: {shown}");
        let mut text = String::new();
        for code in codes {
            match code.split(' ').find(|word| word.contains(['/', '.'])) {
                Some(path) => {
                    let path = Path::new(ROOT).join(path);
                    assert!(path.exists(), "{promise} is shown by {code}, which does not exist");
                    text = fs::read_to_string(path).unwrap_or_default();
                }
                None if code.starts_with("cargo ") => {
                    let package = code.split("-p ").nth(1).unwrap().split(' ').next().unwrap();
                    let path = Path::new(ROOT).join("tests").join(package);
                    assert!(path.exists(), "{promise} is shown by {code}, which does not exist");
                }
                None => {
                    let names = format!(" {code}(");
                    let is_there = text.contains(&names) || text.contains(&format!(" {code},"));
                    assert!(is_there, "{promise} is shown by {code}, which is not in its file");
                }
            }
        }
    }
}
