//! Mistakes, collected so that one build reports all of them.

use syn::spanned::Spanned;
use syn::{Error, Result};

/// The mistakes of a declaration; the only way to a result is [`Mistakes::gate`].
#[derive(Default)]
pub struct Mistakes(Option<Error>);

impl Mistakes {
    /// Adds one at a token.
    pub fn add(&mut self, at: &impl Spanned, message: impl std::fmt::Display) {
        self.also(Error::new(at.span(), message));
    }

    /// Adds the mistakes of an error.
    pub fn also(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value of a result; its error is one more mistake.
    pub fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.also(error)).ok()
    }

    /// The value, if there was no mistake.
    pub fn gate<T>(self, value: T) -> Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}
