//! Prints the contract as JSON, for `infra/contract/generate.py`.

use comeback_core::contract::SETTINGS;

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::json!({ "settings": SETTINGS }));
    Ok(())
}
