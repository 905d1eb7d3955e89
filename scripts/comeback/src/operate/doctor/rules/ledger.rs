//! Examines the ledger, and the register in it.

use comeback_core::{contract::TABLE, settings::Settings};
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
        it.bad("ledger_missing", "there is no such table")
            .why("The handler acts on nothing, so no event comes back.");
        return it;
    };
    if !matches!(table.status.as_str(), "ACTIVE" | "UPDATING") {
        it.bad("ledger_inactive", format!("its status is {}", table.status))
            .why("The handler acts on nothing until the table is active.");
    }
    if table.key != [TABLE.key, TABLE.sort_key].map(|name| format!("{name} S")) {
        let (has, expected) = (table.key.join(", "), [TABLE.key, TABLE.sort_key].join(" and "));
        let says = format!("its keys are {has}, and not {expected}, both strings");
        it.bad("ledger_key", says).why(
            "The handler can't claim failures, so no event comes back. A table can't get other keys: create a new \
             one, and set LEDGER_TABLE to its name.",
        );
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
        let finding =
            it.warn("ledger_never_expires", says).why("The table grows with each failure.");
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
        it.bad("handler_lacks_ledger", says)
            .why("The handler can't claim failures, or note what it sends, so events don't come back.")
            .allow(role, "ledger", &actions, &[&table]);
    }
    it.good = format!("active, items expire by {}", TABLE.expiry);
    it
}

fn register(it: &mut Examined, table: &str, waiting: Option<&(String, Vec<String>)>) {
    match waiting {
        None => {
            let says = format!("REGISTER is true, and there is no index {}", TABLE.index);
            it.bad("register_index_missing", says)
                .why("Nobody can list what waits, and no event is brought forward.")
                .by_hand(create_index(table));
        }
        Some((_, key)) if *key != index_key() => {
            let says = format!(
                "the key of its index {} is {}, and not {}",
                TABLE.index,
                key.join(", "),
                index_key().join(", ")
            );
            it.bad("register_index_key", says).why("Nobody can list what waits.");
        }
        Some((status, _)) if status != "ACTIVE" => {
            it.warn("register_index_building", format!("its index waiting is {status}"))
                .why("What waits can be listed when the index is active.");
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
