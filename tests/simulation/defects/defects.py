"""The defects: a name, the file, the text that is replaced, and what replaces it."""

BATCH = "shared/flow/src/batch.rs"
CLAIMS = "shared/flow/src/claims.rs"
REPORT = "shared/flow/src/report.rs"
BUDGET = "shared/flow/src/budget.rs"
CHUNKS = "shared/flow/src/chunks.rs"
MESSAGE = "shared/flow/src/message.rs"
BACKOFF = "shared/core/src/backoff.rs"
SCHEDULE = "shared/core/src/schedule.rs"
DECISION = "shared/core/src/decision.rs"
FAULT = "shared/core/src/fault.rs"
RECORD = "shared/core/src/record.rs"
ENVELOPE = "shared/core/src/envelope.rs"
LETTER = "shared/core/src/dead_letter.rs"
CLAIM = "shared/core/src/claim.rs"

# Texts that several defects replace.
STAYS = "let stays = |entry: &&Entry| match entry.outcome {"
INVOKE = "Decision::Invoke => self.invoke(item).await,"
PLANNED = "let schedule = planned.ok();"
LATER = "let planned = planned.map(|it| Schedule { due: crate::time::later(it.due, %s), ..it });\n    let schedule = planned.ok();"

DEFECTS = [
    # flow
    ("waits are not reported as failed", REPORT, STAYS, STAYS + "Outcome::Waits { .. } => false,"),
    ("what was not reached is reported as done", REPORT, STAYS, STAYS + "Outcome::NotReached => false,"),
    ("what was invoked is reported as failed", REPORT, STAYS, STAYS + "Outcome::Invoked { .. } => true,"),
    ("a dead letter that was refused counts as sent", BATCH,
     "end(item, Outcome::DeadLetterNotSent { reason, queue_url, fault });",
     "let _ = (queue_url, fault);\n                    end(item, Outcome::DeadLettered(reason));"),
    ("the answers of a call are read in reverse", BATCH,
     "let answers = self.queues.send_dead_letters(&contents).await;",
     "let mut answers = self.queues.send_dead_letters(&contents).await;\n        answers.reverse();"),
    ("the handler works until its deadline", BUDGET,
     "let all = rest - ANSWER.min(rest / 4);", "let all = rest;"),
    ("calls are not ended when the time is up", BATCH,
     "within(&self.clock, budget.all, self.carry_out(&items, &claims, budget)).await;",
     "self.carry_out(&items, &claims, budget).await;"),
    ("a call takes eleven entries", "shared/flow/src/ports.rs",
     "pub const ENTRIES_MAX: usize = 10;", "pub const ENTRIES_MAX: usize = 11;"),
    ("the size of dead letters in one call is not bounded", CHUNKS,
     " || total + size > SIZE_MAX", ""),
    ("every message has the first one's trace", BATCH,
     "trace_header: item.trace_header(),", "trace_header: item.trace_header().map(|_| \"Root=1\"),"),
    ("the receive count of the message is not read", MESSAGE,
     'number("ApproximateReceiveCount")', 'number("ReceiveCount")'),
    ("an age that ends while a failure is claimed is not seen", BATCH, "if now > schedule.expiry {", "if false {"),
    # core
    ("the draw forgets the request id: it is seeded with the attempt alone", BACKOFF,
     "fnv1a(request_id.bytes().chain(attempt.to_be_bytes()))",
     "fnv1a(request_id.bytes().take(0).chain(attempt.to_be_bytes()))"),
    ("the draw depends on the time of the receive", DECISION, PLANNED,
     LATER % "Duration::from_millis(now.timestamp_millis() as u64 % 7_000)"),
    ("a second receive computes a later due time", DECISION, PLANNED,
     LATER % "Duration::from_secs(if message.receive_count > 1 { 3 } else { 0 })"),
    ("the ceiling is a doubling ahead", BACKOFF, "attempt.get() - 1)", "attempt.get())"),
    ("the maximum is applied to the ceiling only by half", BACKOFF,
     "doubled.min(self.max)", "doubled.min(self.max + self.max / 2)"),
    ("full jitter begins at nothing", BACKOFF,
     "draw.between(least.min(ceiling), ceiling)", "draw.between(Duration::ZERO, ceiling)"),
    ("an attempt is made half a second before it is due", DECISION,
     "if now < schedule.due =>", "if now + Duration::from_millis(500) < schedule.due =>"),
    ("events are dead-lettered a minute before their age is over", DECISION,
     "if now > schedule.expiry =>", "if now + Duration::from_mins(1) > schedule.expiry =>"),
    ("an event past its age is still invoked", DECISION,
     "if now > schedule.expiry =>", "if now > schedule.expiry && false =>"),
    ("the due time is not brought forward to the last chance", SCHEDULE,
     "delay(failure, attempt, policy)).min(last_chance);", "delay(failure, attempt, policy));"),
    ("a pause counts as an attempt", SCHEDULE,
     "(Some(retried), Condition::Paused) => retried.attempt,",
     "(Some(retried), Condition::Paused) => retried.attempt.next(),"),
    ("the attempt is not counted up", SCHEDULE,
     "(Some(retried), Condition::Failed | Condition::RecursionStopped) => retried.attempt.next(),",
     "(Some(retried), Condition::Failed | Condition::RecursionStopped) => retried.attempt,"),
    ("one attempt too many is allowed", SCHEDULE, "attempt > max)", "attempt > max.next())"),
    ("errors that never heal are retried", SCHEDULE,
     "if !is_redriven && policy.non_retryable", "if is_redriven && policy.non_retryable"),
    ("a target gets less time than its backoff where it asks for less", SCHEDULE,
     "policy.backoff.delay(attempt, draw).max(wish)",
     "if wish.is_zero() { policy.backoff.delay(attempt, draw) } else { wish }"),
    ("the first failure is forgotten: each failure begins the age anew", RECORD,
     ".map_or(self.failed_at, |first| first.min(self.failed_at))", ".map_or(self.failed_at, |_| self.failed_at)"),
    ("a time in the future is believed", RECORD,
     "(Some(recorded), Some(sent)) => Ok(recorded.min(sent)),", "(Some(recorded), Some(_)) => Ok(recorded),"),
    ("envelopes nest", RECORD,
     "Envelope::read(payload.get()).map_or(Self::Fresh(Cow::Borrowed(payload)), Self::Retried)",
     "Self::Fresh(Cow::Borrowed(payload))"),
    ("a visibility timeout is rounded down", DECISION,
     "let rounded_up = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);", "let rounded_up = rest.as_secs();"),
    ("a wait may take twelve hours whole", DECISION,
     "VISIBILITY_MAX - VISIBILITY_SLACK", "VISIBILITY_MAX + VISIBILITY_SLACK - VISIBILITY_SLACK"),
    ("unknown members of an envelope are dropped", ENVELOPE, "for (name, value) in &self.others {", "for (name, value) in self.others.iter().take(0) {"),
    ("a dead letter is re-encoded", LETTER,
     "    if body.chars().all(accepted) {",
     "    if let Ok(value) = serde_json::from_str::<serde_json::Value>(body) {\n        return Cow::Owned(value.to_string());\n    }\n    if body.chars().all(accepted) {"),
    ("a dead letter names the last request, not the first", LETTER,
     "failure.first_request_id().unwrap_or(&failure.request_id)", "failure.first_request_id().map_or(failure.request_id.as_str(), |_| &failure.request_id)"),
    ("control characters are left in attributes", LETTER,
     "if accepted(c) { c } else { char::REPLACEMENT_CHARACTER }", "c"),
    ("a fault that a person has to fix counts as transient", FAULT,
     "Self::Configuration => drawn(CONFIGURATION_WAIT,", "Self::Configuration => drawn(TRANSIENT_WAIT,"),
    ("what asks for time gets no more than a second", FAULT,
     "asked.max(TRANSIENT_WAIT.base)", "asked.min(TRANSIENT_WAIT.base)"),
    ("a fault near the end gives up at once", DECISION,
     "until.min(schedule.last_chance)", "until.max(schedule.last_chance)"),
    ("a message's receives are not spared", FAULT, "if receive_count < RECEIVES_SPARED_FROM {", "if receive_count < u32::MAX {"),
    # the ledger
    ("marked before invoked", BATCH, INVOKE,
     "Decision::Invoke => {\n                    claims.mark(item).await;\n                    self.invoke(item).await\n                }"),
    ("not marked at all", BATCH, "let marks = done.into_iter()", "let marks = done.into_iter().take(0)"),
    ("invoked without a claim", BATCH,
     "match claims.claim(item).await {", "match claims.claim(item).await.or(Ok::<(), Barred>(())) {"),
    ("taken over while the lease holds", CLAIM,
     "State::Held { until } if now < until && between(now, until) <= LEASE_MAX => {",
     "State::Held { until } if now < until && self.owner.is_empty() => {"),
    ("the lease ends before its holder does", CLAIM,
     "State::Held { until: later(dead_by, CLOCK_SKEW_MAX) }", "State::Held { until: later(now, CLOCK_SKEW_MAX / 10) }"),
    ("invoked twice under one claim", BATCH,
     "let fault = match self.functions.invoke(invocation).await {",
     "let _ = self.functions.invoke(invocation.clone()).await;\n        let fault = match self.functions.invoke(invocation).await {"),
    ("what another handler holds comes back at once", BATCH,
     "Some(Settlement::Wait { until })", "Some(Settlement::Wait { until: self.clock.now() })"),
    ("dropped although another handler only holds the claim", BATCH,
     "Some(Settlement::Wait { until })", "end(item, Outcome::Duplicate);\n                None"),
    ("released after it was accepted", BATCH, INVOKE,
     "Decision::Invoke => {\n                    let settlement = self.invoke(item).await;\n                    if settlement.is_none() {\n                        claims.release(item).await;\n                    }\n                    settlement\n                }"),
    ("a mark is not fenced: it replaces whatever is there", CLAIMS,
     "ledger.replace(failure.claim_key(), Some(&held), next.as_ref()).await",
     "ledger.replace(failure.claim_key(), None, next.as_ref()).await"),
    ("a duplicate of what is done is acted on again", CLAIM, "State::Done => Verdict::Done,", "State::Done => Verdict::Take(self.claim_after(found, now)),"),
    ("given up although the ledger can't be asked", BATCH,
     "Some(item.judgement.after_unclaimed(fault.passes, self.clock.now()))",
     "Some(Settlement::DeadLetter(Reason::MaxAgeExceeded))"),
    ("an event without a next attempt is given up although its failure can't be claimed", DECISION,
     ".filter(|it| now <= stay_end(it))", ".filter(|it| self.schedule.is_some() && now <= stay_end(it))"),
    ("a wait keeps its claim", BATCH,
     "join(put_back, join_all(waits.iter().map(|wait| claims.release(wait.item)))).await;",
     "put_back.await;"),
]
