//! Plays every possible order of events, one after the other.

/// The choices of one play. They repeat those of the previous play up to the last one with another option.
#[derive(Default)]
pub struct Choices {
    /// The options that were taken, and how many there were.
    taken: Vec<(usize, usize)>,
    made: usize,
}

impl Choices {
    /// Picks one of this many options.
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

    /// Goes to the next play, if there is one.
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

/// Plays every order, and returns how many there are.
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
