//! Builds two books with mdBook: one for those who use Comeback, of the pages that `docs/SUMMARY.md` lists, and one for
//! those who build it, of `docs/design/SUMMARY.md`. So a search in the first finds no design.
//!
//! Pages link to each other as files of the repository, so the links work when people read them there. mdBook expects
//! all pages of a book in one folder. So each page gets the path that it has in the repository, below the folder of its
//! book, and the same links work there. Links to pages of the other book lead into its folder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use mdbook_driver::{MDBook, config::Config};
use pulldown_cmark::{Event, Parser, Tag};

/// The root of the project.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The book for those who build Comeback, and its folder in the first book's.
const BUILDERS: (&str, &str) = ("Building Comeback", "building");

/// A book, and the pages in it.
struct Book {
    book: MDBook,
    /// Its folder below the one of all books.
    place: &'static str,
    /// The pages, as paths from the root of the project.
    pages: BTreeSet<PathBuf>,
}

/// Writes the books into a folder, and first deletes what the folder contains. Returns the first page of each.
///
/// # Errors
///
/// If a page can't be read, is in both books, or links to a page that is in neither.
pub fn build(folder: &Path) -> Result<[PathBuf; 2]> {
    let folder = std::path::absolute(folder)?;
    let config = Config::from_disk(Path::new(ROOT).join("docs/book.toml"))?;
    let mut of_builders = config.clone();
    of_builders.book.title = Some(BUILDERS.0.to_owned());
    of_builders.book.src = "design".into();
    let mut users = Book::load(config, "docs", "", &folder)?;
    let mut builders = Book::load(of_builders, "docs/design", BUILDERS.1, &folder)?;
    if let Some(page) = users.pages.intersection(&builders.pages).next() {
        bail!("{} is in both books", page.display());
    }
    // The second one is in the folder of the first, which begins empty.
    users.build(&builders, &folder)?;
    builders.build(&users, &folder)?;
    Ok([users, builders].map(|book| folder.join(book.place).join("index.html")))
}

impl Book {
    /// Reads a book whose `SUMMARY.md` is in the folder `source` of the project.
    fn load(config: Config, source: &str, place: &'static str, folder: &Path) -> Result<Self> {
        let mut book = MDBook::load_with_config(Path::new(ROOT).join("docs"), config)?;
        book.config.build.build_dir = folder.join(place);
        let mut pages = BTreeSet::new();
        book.book.for_each_chapter_mut(|page| {
            let path = page.path.as_ref().map(|path| normalized(&Path::new(source).join(path)));
            page.path.clone_from(&path);
            pages.extend(path);
        });
        Ok(Self { book, place, pages })
    }

    /// Writes the pages, and the files that they link to.
    fn build(&mut self, other: &Self, folder: &Path) -> Result<()> {
        let mut linked = BTreeSet::new();
        let place = self.place;
        self.book.book.for_each_chapter_mut(|page| {
            let path = page.path.clone().unwrap_or_default();
            let (content, links) = relinked(&page.content, &path, place, other);
            page.content = content;
            linked.extend(links.into_iter().map(|link| (path.clone(), link)));
        });
        self.book.build()?;
        // Some pages embed pictures by HTML, one for light and one for dark mode, so links don't show them.
        for picture in fs::read_dir(Path::new(ROOT).join("docs/pictures"))? {
            linked.insert(("docs".into(), Path::new("docs/pictures").join(picture?.file_name())));
        }
        for (page, link) in linked {
            if link.extension().is_some_and(|extension| extension == "md") {
                if !self.pages.contains(&link) && !other.pages.contains(&link) {
                    let (link, page) = (link.display(), page.display());
                    bail!("no SUMMARY.md has {link}, to which {page} links");
                }
            } else {
                let to = folder.join(place).join(&link);
                to.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::copy(Path::new(ROOT).join(&link), to)
                    .with_context(|| format!("{} links to {}", page.display(), link.display()))?;
            }
        }
        Ok(())
    }
}

/// A page whose links to pages of the other book lead there, and all files that it links to.
fn relinked(content: &str, page: &Path, place: &str, other: &Book) -> (String, Vec<PathBuf>) {
    let here = page.parent().unwrap_or(page);
    let up = "../".repeat(Path::new(place).join(here).components().count());
    let (mut written, mut copied) = (String::new(), 0);
    let mut files = Vec::new();
    for (event, range) in Parser::new(content).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url: link, .. }) = event else { continue };
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        if file.is_empty() || file.contains(':') {
            continue;
        }
        let file = normalized(&here.join(file));
        let begin = content[range.clone()].rfind(&*link).map(|at| range.start + at);
        if let Some(begin) = begin.filter(|_| other.pages.contains(&file)) {
            let there = Path::new(other.place).join(&file);
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            written += &content[copied..begin];
            written += &format!("{up}{}{anchor}", there.display());
            copied = begin + link.len();
        }
        files.push(file);
    }
    (written + &content[copied..], files)
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
