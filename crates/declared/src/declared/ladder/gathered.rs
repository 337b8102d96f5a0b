//! The results of the parts of a split call, taken in as they come.

use pyo3::prelude::*;

use super::join::{self, Join};
use crate::policy::StackPolicy;
use crate::slices::{self, Mosaic, Span};
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::tuples::rebuilt;

/// The results of the parts, or one element of each.
///
/// Arrays that are as long as their parts are copied to the array of the whole at once. They are not
/// kept: memory is short, and a function may write its next result over the last one.
pub(super) struct Gathered<'a, 'py> {
    how: Option<&'a Join>,
    axis: usize,
    /// The length of the whole along the axis.
    extent: usize,
    /// The policy of the first array.
    policy: Option<StackPolicy<'a, 'py>>,
    state: Gathering<'a, 'py>,
}

enum Gathering<'a, 'py> {
    Empty,
    /// The array of the whole, and how much of it along the axis is there.
    Growing(Box<Mosaic<'a, 'py>>, usize),
    /// The results, or several in one, with the length of their parts.
    Kept(Vec<(Bound<'py, PyAny>, usize)>),
    /// The elements of tuples or lists like this one, which has none of the results.
    Elements(Bound<'py, PyAny>, Vec<Gathered<'a, 'py>>),
}

impl<'a, 'py> Gathered<'a, 'py> {
    pub fn new(
        how: Option<&'a Join>,
        axis: usize,
        extent: usize,
        policy: Option<StackPolicy<'a, 'py>>,
    ) -> Gathered<'a, 'py> {
        Gathered { how, axis, extent, policy, state: Gathering::Empty }
    }

    /// Takes in the result of the next part.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the structure differs from that of the results before, or from `join`; when
    /// a result is unlike those before, which were cast.
    pub fn add(&mut self, result: Bound<'py, PyAny>, length: usize) -> Result<()> {
        if let Gathering::Empty = self.state {
            self.state = self.start(&result)?;
        }
        if let Gathering::Growing(whole, filled) = &mut self.state {
            let span = Span::plain(self.axis, *filled..*filled + length);
            let follows = shape::length_along(&result, self.axis) == Some(length);
            if follows && whole.place(&result, &[span], true)? {
                *filled += length;
                return Ok(());
            }
            if whole.is_cast() {
                // The policy must not be applied twice.
                let text = "the results of the parts differ in framework, dtype or shape";
                return Err(Error::Value(text.to_owned()));
            }
            self.keep()?;
        }
        match &mut self.state {
            Gathering::Elements(like, columns) => {
                let elements = join::elements(&result, like)?;
                columns.iter_mut().zip(elements).try_for_each(|(column, x)| column.add(x, length))
            }
            Gathering::Kept(results) => {
                results.push((result, length));
                Ok(())
            }
            Gathering::Empty | Gathering::Growing(..) => unreachable!("it is neither by now"),
        }
    }

    /// Chooses what becomes of results like the first one.
    fn start(&mut self, first: &Bound<'py, PyAny>) -> Result<Gathering<'a, 'py>> {
        if let Some((like, joins)) = join::parts(first, self.how)? {
            // The policy is for the first array, which is sought only in the first place.
            let mut policy = self.policy.take();
            let column = |how| Gathered::new(how, self.axis, self.extent, policy.take());
            return Ok(Gathering::Elements(like, joins.into_iter().map(column).collect()));
        }
        Ok(match self.how {
            None | Some(Join::Concatenate) => {
                // A declared concatenation may be of results of any length. One that does not follow its part
                // cannot join those that were cast, so the policy waits for the whole.
                let policy = self.policy.take().filter(|_| self.how.is_none());
                Mosaic::new(first, &[(self.axis, self.extent)], policy)?
                    .map_or(Gathering::Kept(Vec::new()), |whole| {
                        Gathering::Growing(Box::new(whole), 0)
                    })
            }
            _ => Gathering::Kept(Vec::new()),
        })
    }

    /// Keeps the results to come. What was copied so far is one of them.
    #[cold]
    fn keep(&mut self) -> Result<()> {
        let mut results = Vec::new();
        if let Gathering::Growing(whole, filled) =
            std::mem::replace(&mut self.state, Gathering::Empty)
            && filled > 0
        {
            results.push((whole.finish(Some((self.axis, filled)))?, filled));
        }
        self.state = Gathering::Kept(results);
        Ok(())
    }

    /// The result of the whole.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the declaration does not say how and a result is not an array that follows its
    /// part; what a join raises.
    pub fn joined(self) -> Result<Bound<'py, PyAny>> {
        let axis = self.axis;
        match self.state {
            Gathering::Empty => Err(Error::Value("there are no parts".to_owned())),
            Gathering::Growing(whole, _) => whole.finish(None),
            Gathering::Elements(like, columns) => {
                let joined = columns.into_iter().map(Gathered::joined);
                Ok(rebuilt(&like, joined.collect::<Result<_>>()?)?)
            }
            Gathering::Kept(results) => {
                if self.how.is_none() {
                    check_followers(&results, axis)?;
                }
                let results: Vec<_> = results.into_iter().map(|(result, _)| result).collect();
                match self.how {
                    Some(how) => how.apply(&results, axis),
                    None => slices::concatenate(&results, axis),
                }
            }
        }
    }
}

/// Checks that the results are arrays as long as their parts.
fn check_followers(results: &[(Bound<'_, PyAny>, usize)], axis: usize) -> Result<()> {
    let (first, _) = &results[0];
    if detect::class_of(first).is_none() {
        let class = first.get_type().name()?;
        return Err(join::undeclared(&format!("the parts returned values of type {class}")));
    }
    for (result, wanted) in results {
        let length = shape::length_along(result, axis);
        if length != Some(*wanted) {
            let length = length.map_or("unknown".to_owned(), |length| length.to_string());
            return Err(join::undeclared(&format!(
                "along axis {axis}, the length of a part is {wanted} and that of its result is {length}"
            )));
        }
    }
    Ok(())
}
