//! Examines the ledger, and the register in it.

use comeback_core::settings::{Settings, contract::TABLE};
use serde_json::json;

use crate::{
    account::{
        function::Function,
        setup::{ACTIONS_ON_CLAIMS, ACTIONS_ON_NOTES},
    },
    operate::doctor::rules::{
        facts::{Facts, Ledger},
        finding::Examined,
        fix::{Fix, quoted, word},
        kinds,
    },
};

/// The actions on the ledger that a handler needs.
pub fn actions_on_ledger(handler: &Function) -> Vec<&'static str> {
    let Ok(Settings { register, probe, rules, .. }) = handler.settings() else {
        return ACTIONS_ON_CLAIMS.into();
    };
    // No target has an empty name, so this is the general policy.
    let general = rules.policies.of("").transparent;
    if probe || general || rules.policies.own().any(|(_, own)| own.transparent) {
        return ACTIONS_ON_NOTES.into();
    }
    ACTIONS_ON_CLAIMS.into_iter().chain(register.then_some("dynamodb:BatchGetItem")).collect()
}

pub fn examine_ledger(facts: &Facts, ledger: &Ledger) -> Examined {
    let Ledger { name, table, expiry, denied } = ledger;
    let mut it = Examined::new(format!("ledger {name}"));
    let Some(table) = it.known(table) else { return it };
    let Some(table) = table else {
        it.found(kinds::LEDGER_MISSING, "there is no such table");
        return it;
    };
    if !matches!(table.status.as_str(), "ACTIVE" | "UPDATING") {
        it.found(kinds::LEDGER_INACTIVE, format!("its status is {}", table.status));
    }
    if table.key != [TABLE.key, TABLE.sort_key].map(|name| format!("{name} S")) {
        let (has, expected) = (table.key.join(", "), [TABLE.key, TABLE.sort_key].join(" and "));
        let says = format!("its keys are {has}, and not {expected}, both strings");
        it.found(kinds::LEDGER_KEY, says);
    }
    if facts.handler.settings().is_ok_and(|settings| settings.register) {
        register(&mut it, name, table.waiting.as_ref());
    }
    if let Some(expiry) = it.known(expiry).filter(|it| it.as_deref() != Some(TABLE.expiry)) {
        let says = match expiry {
            Some(attribute) => {
                format!("its items expire by {attribute}, and not by {}", TABLE.expiry)
            }
            None => "its items don't expire".to_owned(),
        };
        let finding = it.found(kinds::LEDGER_NEVER_EXPIRES, says);
        // DynamoDB can't switch to another attribute in one step.
        if expiry.is_none() {
            finding.fix(Fix::Expiry { table: name.clone() });
        }
    }
    if let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) {
        let says =
            format!("the handler's role {} lacks {}", facts.handler.role_name(), denied.join(", "));
        let (role, actions) = (facts.handler.role_name(), actions_on_ledger(&facts.handler));
        let table = facts.handler.ledger_arn().unwrap_or_default();
        it.found(kinds::HANDLER_LACKS_LEDGER, says).allow(role, "ledger", &actions, &[&table]);
    }
    it.good = format!("active, items expire by {}", TABLE.expiry);
    it
}

fn register(it: &mut Examined, table: &str, waiting: Option<&(String, Vec<String>)>) {
    match waiting {
        None => {
            let says = format!("REGISTER is true, and there is no index {}", TABLE.index);
            it.found(kinds::REGISTER_INDEX_MISSING, says).by_hand(create_index(table));
        }
        Some((_, key)) if *key != index_key() => {
            let says = format!(
                "the key of its index {} is {}, and not {}",
                TABLE.index,
                key.join(", "),
                index_key().join(", ")
            );
            it.found(kinds::REGISTER_INDEX_KEY, says);
        }
        Some((status, _)) if status != "ACTIVE" => {
            it.found(kinds::REGISTER_INDEX_BUILDING, format!("its index waiting is {status}"));
        }
        Some(_) => {}
    }
}

/// The key of the register's index: names and types.
fn index_key() -> [String; 2] {
    [format!("{} S", TABLE.index_key), format!("{} N", TABLE.index_sort_key)]
}

fn create_index(table: &str) -> String {
    let key = |name, kind| json!({ "AttributeName": name, "KeyType": kind });
    let index = json!([{ "Create": {
        "IndexName": TABLE.index,
        "KeySchema": [key(TABLE.index_key, "HASH"), key(TABLE.index_sort_key, "RANGE")],
        "Projection": { "ProjectionType": "ALL" },
    } }]);
    format!(
        "aws dynamodb update-table --table-name {} --attribute-definitions \
         AttributeName={},AttributeType=S AttributeName={},AttributeType=N \
         --global-secondary-index-updates {}",
        word(table),
        TABLE.index_key,
        TABLE.index_sort_key,
        quoted(&index.to_string())
    )
}
