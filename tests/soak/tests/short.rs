//! A soak that is short enough for every day.

use soak::report::Report;
use soak::run::soak;

const EVENTS: usize = 300;
const SEED: u64 = 7;

#[tokio::test]
async fn nothing_is_lost_while_handlers_are_killed_at_random() {
    let soaked = soak(EVENTS, SEED).await;
    let report = Report::of(EVENTS, &soaked);
    // Whether memory is flat is for a longer one to say.
    assert!(report.nothing_is_lost(), "{report}");
    assert!(soaked.killed > 0, "{report}");
}
