//! The books can be built: all of their pages are there, each page that another one links to is in one of them, and a
//! search finds first what somebody in need of help looks for.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// The folder of the books.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    book::build(&folder).unwrap();
    folder
});

fn page(path: &str) -> String {
    fs::read_to_string(BUILT.join(path)).unwrap()
}

#[test]
fn the_books_have_every_page_that_is_linked() {
    for path in ["index.html", "docs/settings.html", "infra/cdk/README.html", "building/index.html"]
    {
        assert!(page(path).contains("<title>"), "{path}");
    }
    assert!(!BUILT.join("docs/design/ledger.html").exists());
}

#[test]
fn a_link_to_a_page_of_the_other_book_leads_into_its_folder() {
    let there = "../building/docs/design/ledger.html";
    assert!(page("docs/ledger.html").contains(&format!("href=\"{there}\"")));
    let back = "../../../docs/operate/waiting.html#the-register";
    assert!(page("building/docs/design/register.html").contains(&format!("href=\"{back}\"")));
}

/// What people type, and the page that helps them.
const SEARCHED: [(&str, &str); 6] = [
    ("DynamoDB is down", "docs/runbook.html"),
    ("IAM policy for on-call", "docs/operate/permissions.html"),
    ("stop after 3 days", "docs/guides/policy.html"),
    ("remove everything", "docs/guides/remove.html"),
    ("ledger", "docs/ledger.html"),
    ("redrive dead letters", "docs/operate/dead-letters.html"),
];

#[test]
fn what_people_search_for_finds_its_page_first() {
    let found = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/search.js"))
        .arg(&*BUILT)
        .args(SEARCHED.map(|(query, _)| query))
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let found = String::from_utf8(found.stdout).unwrap();
    let pages = found.lines().map(|address| address.split('#').next().unwrap());
    let found = SEARCHED.map(|(query, _)| query).into_iter().zip(pages);
    assert_eq!(found.collect::<Vec<_>>(), SEARCHED);
}
