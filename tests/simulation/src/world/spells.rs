//! Troubles that begin and end.

use std::rc::Rc;

use comeback_local::model::{lambda::mapping::MappingSettings, sqs::IN_FLIGHT_MAX};

use super::World;
use crate::{spell::Trouble, tally::Fault};

/// How many messages a crowded queue lets be in flight.
const CROWDED: usize = 3;

impl World {
    pub(super) fn trouble(&mut self, trouble: Trouble, begins: bool) {
        self.judge.story.tell(self.now, None, || {
            format!("{trouble:?} {}", if begins { "begins" } else { "ends" })
        });
        if begins {
            self.troubles.push(trouble);
        } else {
            self.troubles.retain(|other| *other != trouble);
        }
        match trouble {
            Trouble::TargetPaused { target } => {
                let name = self.plan.targets[target].name.clone();
                self.reserve(&name, begins, Fault::TargetPaused);
            }
            Trouble::HandlerThrottled { handler } => {
                let name = self.plan.handlers[handler].name.clone();
                self.reserve(&name, begins, Fault::HandlerThrottled);
            }
            Trouble::TargetDeleted { target } => self.delete(target, begins),
            Trouble::TargetRenamed { target } => self.rename(target),
            Trouble::MappingOff { queue } => self.switch(queue, !begins),
            Trouble::QueueCrowded { queue } => self.crowd(queue, begins),
            Trouble::TargetDown { .. } => self.had(Fault::TargetDown, begins),
            Trouble::TargetFlaps { .. } => self.had(Fault::TargetFlapped, begins),
            // Seen where it is met.
            Trouble::AccessDenied { .. } | Trouble::BadDeploy { .. } | Trouble::CallsThrottled => {}
        }
    }

    fn had(&mut self, fault: Fault, begins: bool) {
        if begins {
            self.judge.tally.fault(fault);
        }
    }

    fn reserve(&mut self, function: &str, nothing: bool, fault: Fault) {
        self.had(fault, nothing);
        // It may be deleted at this time.
        let _ = self.cloud.lambda.set_reserved_concurrency(function, nothing.then_some(0));
    }

    fn delete(&mut self, target: usize, begins: bool) {
        let name = self.plan.targets[target].name.clone();
        self.had(Fault::TargetDeleted, begins);
        if begins {
            self.remove(&name);
        } else if !self.is(Trouble::TargetRenamed { target })
            && self.cloud.lambda.configuration(&name).is_err()
        {
            self.create_target(target);
        }
    }

    fn rename(&mut self, target: usize) {
        let plan = Rc::clone(&self.plan);
        self.had(Fault::TargetRenamed, true);
        self.remove(&plan.targets[target].name);
        let successor = plan.targets.iter().position(|next| next.successor_of == Some(target));
        successor.into_iter().for_each(|next| self.create_target(next));
    }

    fn remove(&mut self, function: &str) {
        // It may be gone already, by its other trouble.
        let _ = self.cloud.lambda.delete_function(function);
    }

    fn switch(&mut self, queue: usize, enabled: bool) {
        self.had(Fault::MappingOff, !enabled);
        let plan = Rc::clone(&self.plan);
        let name = &plan.queues[queue].name;
        let of_queue = self.cloud.lambda.mappings().find(|mapping| *mapping.queue == **name);
        let Some(uuid) = of_queue.map(|mapping| mapping.uuid.clone()) else { return };
        let settings = MappingSettings { enabled: Some(enabled), ..MappingSettings::default() };
        // The mapping was just found.
        let _ = self.cloud.lambda.update_mapping(self.now, &uuid, None, &settings);
    }

    fn crowd(&mut self, queue: usize, begins: bool) {
        self.had(Fault::QueueCrowded, begins);
        let plan = Rc::clone(&self.plan);
        let most = if begins { CROWDED } else { IN_FLIGHT_MAX };
        // The queue is there from the beginning to the end.
        let _ = self.cloud.sqs.limit_in_flight(&plan.queues[queue].name, most);
    }

    /// Faults stop: whatever still lasts ends now.
    pub(super) fn calm_down(&mut self) {
        for trouble in self.troubles.clone() {
            if !matches!(trouble, Trouble::TargetRenamed { .. }) {
                self.trouble(trouble, false);
            }
        }
        self.judge.story.tell(self.now, None, || "from now on all goes well".to_owned());
        self.calm = true;
    }
}
