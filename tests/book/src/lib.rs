//! Builds the book with mdBook: the pages that `docs/SUMMARY.md` lists.
//!
//! Pages link to each other as files of the repository, so the links work when people read them there. mdBook expects
//! all pages in one folder. So each page gets the path that it has in the repository, and the same links work in the
//! book.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use mdbook_driver::MDBook;
use pulldown_cmark::{Event, Parser, Tag};

/// The root of the project.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Writes the book into a folder, and first deletes what the folder contains.
///
/// # Errors
///
/// If a page can't be read, or links to a page that is not in the book.
pub fn build(folder: &Path) -> Result<()> {
    let root = Path::new(ROOT);
    let mut book = MDBook::load(root.join("docs"))?;
    book.config.build.build_dir = std::path::absolute(folder)?;
    let mut pages = BTreeSet::new();
    let mut linked = BTreeSet::new();
    book.book.for_each_chapter_mut(|page| {
        let path = page.path.as_ref().map(|path| normalized(&Path::new("docs").join(path)));
        let path = path.unwrap_or_default();
        linked.extend(links(&path, &page.content).map(|link| (path.clone(), link)));
        page.path = Some(path.clone());
        pages.insert(path);
    });
    book.build()?;
    // Some pages embed pictures by HTML, one for light and one for dark mode, so links don't show them.
    for picture in fs::read_dir(root.join("docs/pictures"))? {
        linked.insert(("docs".into(), Path::new("docs/pictures").join(picture?.file_name())));
    }
    for (page, link) in linked {
        if link.extension().is_some_and(|extension| extension == "md") {
            if !pages.contains(&link) {
                bail!(
                    "docs/SUMMARY.md lacks {}, to which {} links",
                    link.display(),
                    page.display()
                );
            }
        } else {
            let to = folder.join(&link);
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::copy(root.join(&link), to)
                .with_context(|| format!("{} links to {}", page.display(), link.display()))?;
        }
    }
    Ok(())
}

/// The files that a page links to, as paths from the root of the project.
fn links(page: &Path, content: &str) -> impl Iterator<Item = PathBuf> {
    let folder = page.parent().unwrap_or(page).to_owned();
    Parser::new(content).filter_map(move |event| {
        let Event::Start(Tag::Link { dest_url: link, .. }) = event else { return None };
        let file = link.split('#').next().filter(|file| !file.is_empty() && !file.contains(':'))?;
        Some(normalized(&folder.join(file)))
    })
}

/// Removes `.` and `..` from a path.
fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, component| {
        if component == Component::ParentDir {
            normal.pop();
        } else if component != Component::CurDir {
            normal.push(component);
        }
        normal
    })
}
