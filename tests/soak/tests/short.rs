//! A soak that is short enough for every test run.

use soak::run::soak;

const EVENTS: usize = 300;
const SEED: u64 = 7;

#[tokio::test]
async fn nothing_is_lost_while_handlers_are_killed_at_random() {
    let soaked = soak(EVENTS, SEED).await;
    // It is too short to tell whether memory is flat.
    assert!(soaked.nothing_is_lost(), "{soaked}");
    assert!(soaked.killed > 0, "{soaked}");
}
