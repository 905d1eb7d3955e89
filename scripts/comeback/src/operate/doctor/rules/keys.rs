//! Examines the keys of queues.

use crate::{
    account::{names::role_name, setup::ACTIONS_ON_KEY},
    operate::doctor::rules::{facts::Facts, finding::Examined, kinds},
};

/// Examines the keys of queues. IAM's simulation doesn't know the policies of the keys, which may allow what it denies.
pub fn examine_keys(facts: &Facts) -> Vec<Examined> {
    let examined = facts.keys.chunk_by(|(one, ..), (other, ..)| one == other).map(|uses| {
        let key = uses[0].0.as_str();
        let id = key.rsplit('/').next().unwrap_or(key);
        let mut it = Examined::new(format!("key {id}"));
        for (_, role, denied) in uses {
            let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) else {
                continue;
            };
            let role = role_name(role);
            it.found(
                kinds::ROLE_LACKS_KEY,
                format!("IAM doesn't allow {role} {}", denied.join(", ")),
            )
            .allow(role, &format!("key-{id}"), &ACTIONS_ON_KEY, &[key]);
        }
        "the roles that use it may do so".clone_into(&mut it.good);
        it
    });
    examined.collect()
}
