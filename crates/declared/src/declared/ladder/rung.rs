//! The rungs of the ladder, by the names that users write.

/// A way to retry a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// After the caches of every framework were cleared.
    Clear,
    /// After a short wait, and after the caches were cleared once more.
    ClearAgain,
    /// Part by part.
    Split,
    /// In host memory.
    Host,
}

impl Rung {
    /// The rungs that users write, in order.
    pub const ALL: [Rung; 3] = [Rung::Clear, Rung::Split, Rung::Host];

    /// The name that users write, and that records and notes show.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Clear => "clear",
            Rung::ClearAgain => "second clear",
            Rung::Split => "split",
            Rung::Host => "host",
        }
    }

    /// The rung that users write like this.
    pub fn named(name: &str) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| rung.name() == name)
    }
}
