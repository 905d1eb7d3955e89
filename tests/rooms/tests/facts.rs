//! Each fact once: counts the files in which people state a fact of the contract. Tests, what programs print in
//! documents, and what `infra/contract/generate.py` writes don't count.
#![allow(clippy::unwrap_used, reason = "tracked files can be read")]

use std::{fs, process::Command, sync::LazyLock};

use serde_json::{Map, Value};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What people have written, by file, without indentation.
static WRITTEN: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let listed = Command::new("git").arg("ls-files").current_dir(ROOT).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let kinds = ["rs", "py", "ts", "mjs", "tf", "yaml", "md"];
    let is_test = |file: &str| file.split(['/', '_', '.']).any(|part| part.starts_with("test"));
    let is_read = |file: &&str| {
        let is_history = ["CHANGELOG.md", "UPGRADE.md"].contains(file);
        kinds.contains(&file.rsplit('.').next().unwrap()) && !is_test(file) && !is_history
    };
    let written = |file: &str| {
        let text = fs::read_to_string(format!("{ROOT}/{file}")).unwrap_or_default();
        let (mut in_block, mut is_generated) = (false, false);
        let is_written = |line: &&str| {
            in_block ^= file.ends_with(".md") && line.trim_start().starts_with("```");
            is_generated |= line.contains("generated: ") && line.contains(", by infra/contract");
            is_generated &= !line.contains(" end: ");
            !in_block && !is_generated
        };
        let lines = text.split("#[cfg(test)]").next().unwrap().lines().filter(is_written);
        lines.map(|line| line.trim().to_owned() + "\n").collect()
    };
    listed.lines().filter(is_read).map(|file| (file.to_owned(), written(file))).collect()
});

fn files(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    WRITTEN.iter().filter(|(_, text)| has(text)).map(|(file, _)| &**file).collect()
}

fn contract(part: &str) -> Map<String, Value> {
    let text = fs::read_to_string(format!("{ROOT}/infra/cdk/contract/{part}.json"));
    serde_json::from_str(&text.unwrap()).unwrap()
}

#[test]
fn a_setting_has_its_default_and_bounds_in_the_contract_and_at_most_one_other_place() {
    let plain = |text: &str| text.to_lowercase().replace(['_', '"'], "");
    let files: Vec<_> = WRITTEN.iter().map(|(file, text)| (file, plain(text))).collect();
    for (name, setting) in contract("settings") {
        let bounds = ["default", "min", "max"].map(|bound| plain(&setting[bound].to_string()));
        let bounds = bounds.into_iter().flat_map(|it| [it.replace("1d", "24h"), it]);
        // A word like `full` can't be told from prose.
        let bounds: Vec<_> = bounds.filter(|it| it.starts_with(char::is_numeric)).collect();
        let name = plain(&name);
        let states = |line: &str| {
            let words: Vec<_> = line.split(|c: char| !c.is_alphanumeric()).collect();
            words.contains(&&*name) && bounds.iter().any(|bound| words.contains(&&**bound))
        };
        let is_place = |text: &str| text.contains(&name) && text.lines().any(states);
        let places = files.iter().filter(|(_, text)| is_place(text)).map(|(file, _)| file);
        let places: Vec<_> = places.collect();
        assert!(places.len() < 2, "{name} is stated in {places:?}");
    }
}

#[test]
fn an_alarm_has_its_condition_in_the_contract_and_one_section_of_the_runbook() {
    for (name, alarm) in contract("alarms") {
        assert_eq!(files(|text| text.contains(&format!("### {name}\n"))), ["docs/runbook.md"]);
        let parts = ["goes_off_when", "description", "expression"].map(|part| &alarm[part]);
        for part in parts.into_iter().filter_map(Value::as_str).filter(|part| part.len() > 40) {
            let places = files(|text| text.replace('\n', " ").contains(part));
            assert_eq!(places, [""; 0], "{name}: {part}");
        }
    }
}

#[test]
fn the_fields_of_the_log_and_the_keys_of_the_table_are_stated_in_core_alone() {
    let fields = ["event_id", "due_time", "held_until", "queue_url", "message_id", "down_since"];
    let places = files(|text| {
        let text = text.replace(['`', '"', '\n'], "|");
        let forms = |field: &str| {
            [format!("|{field}|"), format!("|{field}: T,"), format!("{field}: Option<")]
        };
        fields.iter().filter(|field| forms(field).iter().any(|it| text.contains(it))).count() > 3
    });
    assert_eq!(places, ["shared/core/src/log_line.rs"]);
    for key in ["expiry", "index_sort_key"].map(|key| contract("table")[key].to_string()) {
        let places = files(|text| text.contains(&key) || text.contains(&key.replace('"', "'")));
        assert_eq!(places, ["shared/core/src/settings/contract.rs"], "{key}");
    }
}
