//! The book can be built: all of its pages are there, and each page that another one links to is in it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

#[test]
fn the_book_has_every_page_that_is_linked() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    book::build(&folder).unwrap();
    for page in ["index.html", "docs/settings.html", "infra/cdk/README.html"] {
        let html = fs::read_to_string(folder.join(page)).unwrap();
        assert!(html.contains("<title>"), "{page}");
    }
}
