//! A step as a person reads it.

use crate::world::{FUNCTION, QUEUE, State, Step, World};

impl World {
    pub fn tell(&self, state: &State, step: &Step) -> String {
        let what = match step {
            Step::Call { handler, nth, way, fails } => {
                let run = state.handlers[*handler].as_ref();
                let node = run.map(|run| self.machine.node(run.node));
                let call = node
                    .and_then(|node| Some(node.calls.iter().find(|it| it.0 == *nth)?.2.clone()));
                let (name, call) = (
                    run.map_or(0, |run| run.name),
                    call.map(|it| format!("{it:?}")).unwrap_or_default(),
                );
                format!(
                    "run-{name} {way:?}{}: {call}",
                    if *fails > 0 { ", and the target fails" } else { "" }
                )
            }
            Step::Order(key, order) => {
                format!("the operator orders {order:?} for {}", self.run_of(*key))
            }
            Step::Deliver(_) => format!("run-{} {step:?}", state.begun),
            Step::Copy(_)
            | Step::Report(_)
            | Step::Crash(_)
            | Step::Pause(_)
            | Step::End(..)
            | Step::Redrive(_)
            | Step::Time
            | Step::Late => format!("{step:?}"),
        };
        let what = what.replace(FUNCTION, "orders").replace(QUEUE, "imports");
        format!("{:>9} s  {what}", state.now as f64 / 1000.0)
    }
}
