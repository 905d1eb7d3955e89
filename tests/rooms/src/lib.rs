//! Reads the files of a crate and what each uses of the others: the paths of its `use` declarations, and those that its
//! code names with `crate::`, `super::`, `self::` or a module of its own. Code that only tests compile is left out.
//! A method is not seen, because its call names no module.

#![allow(clippy::unwrap_used, reason = "a tracked file can be read")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The code of a crate by module, such as `operate/doctor/rules`. Its root is `main` or `lib`.
pub type Modules = BTreeMap<String, String>;

/// The modules that each module uses.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

pub fn read(folder: &Path) -> Modules {
    let mut modules = Modules::new();
    collect(folder, "", &mut modules);
    without_tests(modules)
}

fn collect(folder: &Path, parent: &str, modules: &mut Modules) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let module = if parent.is_empty() { stem.to_owned() } else { format!("{parent}/{stem}") };
        if path.is_dir() {
            collect(&path, &module, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if stem == "mod" { parent.to_owned() } else { module };
            modules.insert(module, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The modules without comments and texts, and without what only tests compile.
pub fn without_tests(modules: Modules) -> Modules {
    const TEST: &str = "#[cfg(test)]";
    let mut tests = Vec::new();
    let mut all = Modules::new();
    for (module, source) in modules {
        let mut code = plain(&source);
        while let Some(at) = code.find(TEST) {
            let item = &code[at + TEST.len()..];
            let end = item.find([';', '{']).map_or(item.len(), |end| {
                if item[end..].starts_with(';') { end + 1 } else { end + block(&item[end..]) }
            });
            // A module in a file of its own, whose file is left out, too.
            let name = item[..end].strip_suffix(';').and_then(|it| it.split("mod ").nth(1));
            tests.extend(name.map(|name| child(&module, name.trim())));
            code.replace_range(at..at + TEST.len() + end, "");
        }
        all.insert(module, code);
    }
    all.retain(|module, _| !tests.iter().any(|test| is_in(module, test)));
    all
}

fn child(module: &str, name: &str) -> String {
    if is_root(module) { name.to_owned() } else { format!("{module}/{name}") }
}

pub fn is_root(module: &str) -> bool {
    ["main", "lib"].contains(&module)
}

/// Whether a module is this one, or one below it.
pub fn is_in(module: &str, above: &str) -> bool {
    module.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The length of a block in braces.
fn block(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The code without comments, and with empty texts.
fn plain(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_text(rest).filter(|_| !after_word) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if c == '"' {
            text(rest, '"')
        } else if rest.starts_with("'\\") {
            text(rest, '\'')
        } else if c == '\'' && rest.chars().nth(2) == Some('\'') {
            rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = &rest[skipped..];
    }
    code
}

/// The number of hashes if a raw text begins here.
fn raw_text(code: &str) -> Option<usize> {
    let hashes = code.strip_prefix('r')?.chars().take_while(|c| *c == '#').count();
    code[hashes + 1..].starts_with('"').then_some(hashes)
}

/// The length of a text or a character that ends with this sign.
fn text(code: &str, sign: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in code.char_indices().skip(1) {
        if c == sign && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    code.len()
}

/// What each module uses of the others.
pub fn arrows(modules: &Modules) -> Arrows {
    let of = |module: &String, code: &String| {
        let used = paths(module, code).into_iter().map(|path| resolve(modules, &path));
        used.filter(|used| used != module).collect()
    };
    modules.iter().map(|(module, code)| (module.clone(), of(module, code))).collect()
}

/// The paths from the root of the crate that a module names.
fn paths(module: &str, code: &str) -> Vec<String> {
    let above: Vec<_> = if is_root(module) { Vec::new() } else { module.split('/').collect() };
    let own = code.split("mod ").skip(1).filter_map(|rest| {
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        rest[name.len()..].starts_with(';').then_some(name)
    });
    let heads: Vec<_> = ["crate", "super", "self"].into_iter().chain(own).collect();
    let mut found = Vec::new();
    for head in heads {
        for path in beginning_with(head, code) {
            let mut from = if head == "crate" { Vec::new() } else { above.clone() };
            for part in path.split("::") {
                match part {
                    "crate" | "self" => {}
                    "super" => drop(from.pop()),
                    part => from.push(part),
                }
            }
            found.push(from.join("/"));
        }
    }
    found
}

/// The paths in code that begin with this name.
pub fn beginning_with(head: &str, code: &str) -> Vec<String> {
    let start = format!("{head}::");
    let is_start =
        |at: &usize| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
    let starts = code.match_indices(&start).map(|(at, _)| at).filter(is_start);
    starts.flat_map(|at| expanded(&code[at..])).collect()
}

/// The paths that a path with braces stands for.
fn expanded(code: &str) -> Vec<String> {
    let name = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(name);
    let Some(rest) = rest.strip_prefix("::") else { return vec![name.to_owned()] };
    let Some(braces) = rest.strip_prefix('{') else {
        return expanded(rest).into_iter().map(|path| format!("{name}::{path}")).collect();
    };
    let (mut depth, mut from, mut found) = (1, 0, Vec::new());
    for (at, c) in braces.char_indices() {
        depth = match c {
            '{' => depth + 1,
            '}' => depth - 1,
            _ => depth,
        };
        if depth == 0 || depth == 1 && c == ',' {
            found.extend(expanded(braces[from..at].trim()));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found.retain(|path| !path.is_empty());
    found.into_iter().map(|path| format!("{name}::{path}")).collect()
}

/// The module that has what a path names: the longest part of the path that is a module.
fn resolve(modules: &Modules, path: &str) -> String {
    let mut module = path;
    while !module.is_empty() {
        if modules.contains_key(module) {
            return module.to_owned();
        }
        module = module.rsplit_once('/').map_or("", |(above, _)| above);
    }
    let root = modules.keys().find(|module| is_root(module));
    root.cloned().unwrap_or_default()
}

/// The modules that are on a circle, or on a way from one circle to another.
pub fn circles(arrows: &Arrows) -> BTreeSet<String> {
    let mut left: BTreeSet<_> = arrows.keys().cloned().collect();
    loop {
        let uses = |module: &String| arrows[module].iter().any(|used| left.contains(used));
        let is_used = |module: &String| left.iter().any(|it| arrows[it].contains(module));
        let kept: BTreeSet<_> =
            left.iter().filter(|module| uses(module) && is_used(module)).cloned().collect();
        if kept == left {
            return left;
        }
        left = kept;
    }
}
