//! The beginning and the end of troubles.

use std::rc::Rc;

use comeback_local_model::{lambda::mapping::MappingSettings, sqs::IN_FLIGHT_MAX};

use super::World;
use crate::{faults::Trouble, judge::named, seen::Seen};

/// How many messages of a crowded queue may be in flight.
const CROWDED: usize = 3;

/// A flapping target works and fails in turn, for this many minutes each.
const FLAP_MINUTES: i64 = 7;

impl World {
    pub fn trouble(&mut self, trouble: Trouble, number: usize, begins: bool) {
        self.judge.known.story.tell(self.now, None, || {
            format!("{trouble:?} {number} {}", if begins { "begins" } else { "ends" })
        });
        if begins {
            self.troubles.push((trouble, number));
        } else {
            self.troubles.retain(|other| *other != (trouble, number));
        }
        let plan = Rc::clone(&self.plan);
        let lambda = &mut self.cloud.lambda;
        // The function may have been deleted meanwhile, so these calls may fail.
        match trouble {
            Trouble::TargetPaused | Trouble::HandlerThrottled => {
                let is_target = trouble == Trouble::TargetPaused;
                let target = || &plan.targets[number].name;
                let function = if is_target { target() } else { &plan.handlers[number].name };
                let _ = lambda.set_reserved_concurrency(function, begins.then_some(0));
            }
            Trouble::RetriesPaused => {
                let named = named(&plan.targets[number]);
                match begins {
                    true => self.judge.known.paused.insert(named),
                    false => self.judge.known.paused.remove(&named),
                };
            }
            Trouble::TargetDeleted if begins => {
                let _ = lambda.delete_function(&plan.targets[number].name);
            }
            Trouble::TargetDeleted => {
                let is_gone = lambda.configuration(&plan.targets[number].name).is_err();
                if is_gone && !self.is(Trouble::TargetRenamed, number) {
                    self.create_target(number);
                }
            }
            Trouble::TargetRenamed => {
                let _ = lambda.delete_function(&plan.targets[number].name);
                let successor =
                    plan.targets.iter().position(|next| next.successor_of == Some(number));
                successor.into_iter().for_each(|next| self.create_target(next));
            }
            Trouble::MappingOff => {
                let queue = &plan.queues[number].name;
                let of_queue = lambda.mappings.values().find(|mapping| *mapping.queue == **queue);
                let Some(uuid) = of_queue.map(|mapping| mapping.uuid.clone()) else { return };
                let enabled = Some(!begins);
                let settings = MappingSettings { enabled, ..MappingSettings::default() };
                let _ = lambda.update_mapping(self.now, &uuid, None, &settings);
            }
            Trouble::QueueCrowded => {
                let most = if begins { CROWDED } else { IN_FLIGHT_MAX };
                let _ = self.cloud.sqs.limit_in_flight(&plan.queues[number].name, most);
            }
            Trouble::TargetDown | Trouble::TargetFlaps => {}
            // These troubles are counted when they take effect.
            Trouble::AccessDenied
            | Trouble::BadDeploy
            | Trouble::BucketDenied
            | Trouble::CallsThrottled
            | Trouble::SendDenied => return,
        }
        if begins {
            self.judge.known.tally.count(Seen::Trouble(trouble));
        }
    }

    /// Whether a source queue is gone, to handlers and producers. Its consumer goes on with what is there.
    pub fn is_gone(&self, target: usize) -> bool {
        self.is(Trouble::TargetDeleted, target) || self.is(Trouble::TargetRenamed, target)
    }

    /// Whether a trouble makes a target fail now. None if it has no trouble.
    pub fn is_down(&self, target: usize) -> Option<bool> {
        let is_paused =
            self.plan.targets[target].is_queue() && self.is(Trouble::TargetPaused, target);
        if is_paused || self.is(Trouble::TargetDown, target) {
            return Some(true);
        }
        let turn = self.now.timestamp() / 60 / FLAP_MINUTES;
        self.is(Trouble::TargetFlaps, target).then_some(turn % 2 == 0)
    }

    /// Faults stop: every trouble that lasts ends now.
    pub fn calm_down(&mut self) {
        for (trouble, number) in self.troubles.clone() {
            if trouble != Trouble::TargetRenamed {
                self.trouble(trouble, number, false);
            }
        }
        self.table.clean();
        self.judge.known.story.tell(self.now, None, || "from now on all goes well".to_owned());
        self.is_calm = true;
    }
}
