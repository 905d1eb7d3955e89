//! Rules of style that no formatter checks.
#![allow(clippy::unwrap_used, reason = "a tracked file can be read")]

use std::{fs, path::Path, process::Command};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The same width that the formatters of Python and TypeScript enforce.
const WIDTH_MAX: usize = 120;

fn tracked(pattern: &str) -> Vec<String> {
    let listed =
        Command::new("git").args(["ls-files", pattern]).current_dir(ROOT).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The text of a comment that could be wrapped. Rows of tables, addresses, and hidden lines of examples can't.
fn wrappable_comment(line: &str) -> Option<&str> {
    let said = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
    let unbroken = said.starts_with('|') || said.starts_with("# ") || said.contains("://");
    (!unbroken).then_some(said)
}

#[test]
fn no_comment_is_wider_than_120_columns() {
    let files = tracked("*.rs");
    assert!(!files.is_empty());
    let mut wide = Vec::new();
    for file in files {
        // git still lists a file that was removed and not yet committed.
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&file)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            let width = line.chars().count();
            if wrappable_comment(line).is_some() && width > WIDTH_MAX {
                wide.push(format!("{file}:{number}: {width}"));
            }
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Newcomers copy these, so every line must be needed.
#[test]
fn the_smallest_function_has_at_most_12_lines_and_a_charge_less_than_80() {
    let example = |name: &str| format!("{ROOT}/shared/kit/examples/{name}.rs");
    let smallest = fs::read_to_string(example("smallest")).unwrap();
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    assert!(smallest.lines().filter(is_code).count() <= 12);
    assert!(fs::read_to_string(example("charge_card")).unwrap().lines().count() < 80);
}

#[test]
fn paths_that_the_guides_name_exist() {
    let guides = [tracked(":(glob)*.md"), tracked("docs/*.md"), tracked(".github/*.md")].concat();
    let files = tracked("*");
    for guide in guides {
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&guide)) else { continue };
        // Every second part is between backticks.
        let codes: Vec<_> = text.split('`').skip(1).step_by(2).collect();
        let sources = codes.iter().filter(|code| code.ends_with(".rs") || code.ends_with(".py"));
        for source in sources.filter(|code| !code.contains([' ', '*'])) {
            let end = format!("/{source}");
            let is_there = files.iter().any(|file| file == source || file.ends_with(&end));
            assert!(is_there, "{guide} names {source}, which does not exist");
        }
        for path in codes.into_iter().filter(|code| is_path(code)) {
            let file = path.split_once(':').map_or(path, |(file, _)| file);
            assert!(
                Path::new(ROOT).join(file).exists(),
                "{guide} names {path}, which does not exist"
            );
        }
    }
}

#[test]
fn the_map_of_rooms_names_every_folder_and_script() {
    let map = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let map = map.split("## Rooms").nth(1).unwrap().split("```").nth(1).unwrap();
    let words: Vec<_> = map.split([' ', ',', ';', '\n', '(', ')']).collect();
    for path in tracked("*") {
        let mut parts = path.split('/');
        let (room, name) = (parts.next().unwrap(), parts.next());
        let is_room = map.lines().any(|line| line.starts_with(&format!("{room}/")));
        let Some(name) = name.filter(|name| is_room && !name.contains('.')) else {
            continue;
        };
        assert!(words.contains(&name), "the map of rooms in ARCHITECTURE.md lacks {room}/{name}");
    }
}

/// A path of this repository begins with one of its folders.
fn is_path(code: &str) -> bool {
    let folders = [".github/", "functions/", "infra/", "scripts/", "shared/", "tests/"];
    !code.contains([' ', '*']) && folders.iter().any(|folder| code.starts_with(folder))
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut broken = Vec::new();
    for document in tracked("*.md") {
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&document)) else { continue };
        let text = outside_of_blocks(&text);
        // The target of a link is between `](` and `)`.
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.contains(':') && !link.contains(' ')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&document).parent().unwrap();
            let target = if path.is_empty() { document.clone().into() } else { folder.join(path) };
            let target = Path::new(ROOT).join(target);
            let leads = match fs::read_to_string(&target) {
                Ok(text) => anchor.is_empty() || anchors(&text).any(|known| known == anchor),
                Err(_) => target.is_dir() && anchor.is_empty(),
            };
            if !leads {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// People don't read a longer page to its end.
const WORDS_MAX: usize = 1_500;

#[test]
fn no_page_is_longer_than_a_person_reads() {
    let mut long = Vec::new();
    for page in tracked("*.md") {
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&page)) else { continue };
        let text = outside_of_blocks(&text);
        // Tables are for looking things up.
        let prose = text.lines().filter(|line| !line.starts_with('|'));
        let words: usize = prose.map(|line| line.split_whitespace().count()).sum();
        // The changelog grows with each version, and nobody reads all of it.
        if words > WORDS_MAX && page != "CHANGELOG.md" {
            long.push(format!("{page}: {words}"));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// The lines of a document outside of code blocks.
fn outside_of_blocks(text: &str) -> String {
    let mut inside = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let text = outside_of_blocks(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    });
    anchors.collect::<Vec<_>>().into_iter()
}
