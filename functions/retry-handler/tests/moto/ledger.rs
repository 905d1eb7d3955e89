//! Claims on failures.

use aws_sdk_dynamodb::Client;
use comeback_core::claim::{Claim, State, Token};
use comeback_flow::ports::{Ledger, NotReplaced};
use moto::create_table;
use retry_handler::DynamoLedger;

use super::config;

const KEY: &str = "failed-request";

async fn ledger(table: &str, key: &str) -> DynamoLedger {
    create_table(&Client::new(&config()), table, key).await;
    DynamoLedger::new(&config(), table.to_owned())
}

fn held(owner: &str, generation: u32) -> Claim {
    Claim {
        token: Token { generation, owner: owner.to_owned() },
        state: State::Held { until: "2026-02-01T12:00:40.568Z".parse().unwrap() },
        order: None,
        expires_at: "2026-02-15T12:00:00Z".parse().unwrap(),
    }
}

fn changed(claim: &Claim) -> Result<(), NotReplaced> {
    Err(NotReplaced::Changed(Some(claim.clone())))
}

#[tokio::test]
async fn of_two_first_claims_one_is_written_and_the_other_is_told_it() {
    let ledger = ledger("first-claims", "id").await;
    let (one, other) = (held("one", 1), held("other", 1));
    assert_eq!(ledger.replace(KEY, None, Some(&one)).await, Ok(()));
    assert_eq!(ledger.replace(KEY, None, Some(&other)).await, changed(&one));
    assert_eq!(ledger.replace("another-request", None, Some(&other)).await, Ok(()));
}

#[tokio::test]
async fn what_is_done_stays_done() {
    let ledger = ledger("done", "id").await;
    let claim = held("one", 1);
    ledger.replace(KEY, None, Some(&claim)).await.unwrap();
    assert_eq!(ledger.replace(KEY, Some(&claim), Some(&claim.done())).await, Ok(()));
    assert_eq!(ledger.replace(KEY, None, Some(&held("two", 1))).await, changed(&claim.done()));
    // A handler that saw the claim while it was held can neither take it over nor release it.
    for next in [Some(&held("two", 2)), None] {
        assert_eq!(ledger.replace(KEY, Some(&claim), next).await, changed(&claim.done()));
    }
}

#[tokio::test]
async fn a_late_holder_can_neither_mark_nor_release_what_was_taken_over() {
    let ledger = ledger("taken-over", "id").await;
    let (first, second) = (held("first", 1), held("second", 2));
    ledger.replace(KEY, None, Some(&first)).await.unwrap();
    assert_eq!(ledger.replace(KEY, Some(&first), Some(&second)).await, Ok(()));
    for next in [Some(&first.done()), None] {
        assert_eq!(ledger.replace(KEY, Some(&first), next).await, changed(&second));
    }
    assert_eq!(ledger.replace(KEY, Some(&second), Some(&second.done())).await, Ok(()));
}

#[tokio::test]
async fn what_is_released_can_be_claimed_again() {
    let ledger = ledger("released", "id").await;
    let claim = held("one", 1);
    ledger.replace(KEY, None, Some(&claim)).await.unwrap();
    assert_eq!(ledger.replace(KEY, Some(&claim), None).await, Ok(()));
    let gone = Err(NotReplaced::Changed(None));
    for next in [Some(&claim.done()), None] {
        assert_eq!(ledger.replace(KEY, Some(&claim), next).await, gone);
    }
    assert_eq!(ledger.replace(KEY, None, Some(&held("two", 1))).await, Ok(()));
}

#[tokio::test]
async fn of_many_that_claim_at_once_one_succeeds() {
    let ledger = ledger("at-once", "id").await;
    let claims: Vec<_> = (0..8).map(|number| held(&format!("owner/{number}"), 1)).collect();
    let written = futures_util::future::join_all(
        claims.iter().map(|claim| ledger.replace(KEY, None, Some(claim))),
    )
    .await;
    let winner = written.iter().position(Result::is_ok).unwrap();
    for (number, result) in written.into_iter().enumerate() {
        assert_eq!(result, if number == winner { Ok(()) } else { changed(&claims[winner]) });
    }
}

#[tokio::test]
async fn a_table_that_is_missing_or_has_another_key_is_for_a_person_to_mend() {
    let missing = DynamoLedger::new(&config(), "missing".to_owned());
    let other_key = ledger("other-key", "pk").await;
    let claim = held("one", 1);
    for (ledger, code) in
        [(missing, "ResourceNotFoundException"), (other_key, "ValidationException")]
    {
        for (seen, next) in [(None, Some(&claim)), (Some(&claim), None)] {
            let result = ledger.replace(KEY, seen, next).await;
            let Err(NotReplaced::Fault(fault)) = result else { unreachable!("{result:?}") };
            assert_eq!((fault.passes, fault.code.as_deref()), (false, Some(code)));
        }
    }
}
