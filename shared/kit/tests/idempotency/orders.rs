//! Every order in which something can happen, one after the other.

/// The choices of one play. They begin as those of the play before did, up to the last that had another option.
#[derive(Default)]
pub struct Choices {
    /// Which option was taken, of how many.
    taken: Vec<(usize, usize)>,
    made: usize,
}

impl Choices {
    /// Takes one of so many options.
    pub fn pick(&mut self, options: usize) -> usize {
        assert!(options > 0, "there is nothing to choose from");
        if self.made == self.taken.len() {
            self.taken.push((0, options));
        }
        let (option, of) = self.taken[self.made];
        assert_eq!(of, options, "the same choices lead to the same options");
        self.made += 1;
        option
    }

    /// Turns to the next play, if there is one.
    fn next(&mut self) -> bool {
        self.made = 0;
        while let Some((option, options)) = self.taken.pop() {
            if option + 1 < options {
                self.taken.push((option + 1, options));
                return true;
            }
        }
        false
    }
}

/// Plays every order, and tells how many there are.
pub async fn every_order(mut play: impl AsyncFnMut(&mut Choices, usize)) -> usize {
    let mut choices = Choices::default();
    let mut plays = 0;
    loop {
        play(&mut choices, plays).await;
        plays += 1;
        if !choices.next() {
            return plays;
        }
    }
}

#[tokio::test]
async fn each_order_comes_once() {
    let mut seen = std::collections::BTreeSet::new();
    let plays = every_order(async |choices, _| {
        let first = choices.pick(3);
        let second = if first == 1 { choices.pick(2) } else { 0 };
        assert!(seen.insert((first, second)));
    })
    .await;
    assert_eq!((plays, seen.len()), (4, 4));
}
