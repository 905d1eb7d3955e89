//! A call that was surely refused leaves nothing open.

use rustc_hash::FxHashSet;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

/// The calls without an envelope that Lambda has refused.
#[derive(Default)]
pub struct LeavesNothing(FxHashSet<usize>);

impl Promise for LeavesNothing {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::ToldOfCall(call, true) => drop(self.0.insert(call)),
            Happens::ToldOfCall(call, false) | Happens::Claims(call) => drop(self.0.remove(&call)),
            Happens::Leaves(call, left) => {
                let name = &known.calls.sent(call).name;
                let stays = self.0.contains(&call) && left.iter().any(|it| it.name == *name);
                return ensure(!stays, Check::RefusedLeavesNothing, || {
                    format!("it was refused, and stays: {left:?}")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
