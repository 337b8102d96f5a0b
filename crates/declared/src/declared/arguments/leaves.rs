//! The leaves of a container at any depth, in one order for all who look into it.

use pyo3::prelude::*;

use arraybridge_runtime::framework::detect;
use arraybridge_runtime::interpreter::containers::{Container, DEEPEST};
use arraybridge_runtime::interpreter::error::{Error, Result};

/// Calls `visit` with all that a container and the containers in it hold, and the index of each, but for lists and
/// tuples of numbers and text alone. A container that is in itself is not looked into a second time.
///
/// # Errors
///
/// Any error that `visit` returns, and [`Error::Type`] for containers that are nested too deep.
pub fn walk<'py>(
    container: &Container<'_, 'py>,
    visit: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<()>,
) -> Result<()> {
    let mut visit = |index, value: Bound<'py, PyAny>| {
        visit(index, value.clone())?;
        Ok(value)
    };
    LeafWalk::default().rebuilt(container, &mut visit).map(drop)
}

/// Replaces what a container holds at some indexes, which ascend. The containers of the caller are not changed.
///
/// # Errors
///
/// Any exception that a container raises when it is made anew; [`Error::Type`] for one that holds itself.
pub fn replaced<'py>(
    container: &Container<'_, 'py>,
    replacements: Vec<(usize, Bound<'py, PyAny>)>,
) -> Result<Bound<'py, PyAny>> {
    let mut replacements = replacements.into_iter().peekable();
    let mut replace = |index, value| match replacements.next_if(|(at, _)| *at == index) {
        Some((_, replacement)) => Ok(replacement),
        None => Ok(value),
    };
    let made = LeafWalk::default().rebuilt(container, &mut replace)?;
    Ok(made.unwrap_or_else(|| container.value().clone()))
}

/// The leaf of a container at an index.
pub fn leaf<'py>(container: &Container<'_, 'py>, wanted: usize) -> Option<Bound<'py, PyAny>> {
    let mut found = None;
    let _ = walk(container, &mut |index, value| {
        if index == wanted {
            found = Some(value);
        }
        Ok(())
    });
    found
}

#[derive(Default)]
struct LeafWalk {
    next: usize,
    /// The addresses of the containers that this one is in.
    above: Vec<usize>,
    /// The addresses of those that hold themselves.
    cyclic: Vec<usize>,
}

impl LeafWalk {
    /// The container with what `replace` returns for each item; `None` if that changes nothing.
    fn rebuilt<'py>(
        &mut self,
        container: &Container<'_, 'py>,
        replace: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        if self.above.len() == DEEPEST {
            let text = format!("containers are nested more than {DEEPEST} levels deep");
            return Err(Error::Type(text));
        }
        // Nothing is converted in a list of numbers, which may be long.
        if let Some(count) = container.plain_len() {
            self.next += count;
            return Ok(None);
        }
        self.above.push(container.value().as_ptr() as usize);
        let mut changed = false;
        // What cannot be read is passed on as it is.
        let mut items = container.items().unwrap_or_default();
        for item in &mut items {
            let inner = match detect::class_of(item) {
                Some(_) => None,
                None => Container::of(item),
            };
            let new = match inner {
                Some(_) if self.above.contains(&(item.as_ptr() as usize)) => {
                    self.cyclic.push(item.as_ptr() as usize);
                    None
                }
                Some(inner) => self.rebuilt(&inner, replace)?,
                None => {
                    let index = self.next;
                    self.next += 1;
                    Some(replace(index, item.clone())?)
                }
            };
            if let Some(new) = new.filter(|new| !new.is(&*item)) {
                *item = new;
                changed = true;
            }
        }
        let address = self.above.pop();
        // The new container would hold the old one.
        if changed && address.is_some_and(|address| self.cyclic.contains(&address)) {
            return Err(Error::Type(holds_itself(container.value())));
        }
        Ok(if changed { Some(container.with(items)?) } else { None })
    }
}

#[cold]
fn holds_itself(container: &Bound<'_, PyAny>) -> String {
    let class = container.get_type();
    let name = class.name().map_or_else(|_| "container".to_owned(), |name| name.to_string());
    format!(
        "a {name} holds itself, so the arrays in it cannot be converted; pass it without the cycle, or list the other \
         parameters in arrays= if the function takes it as it is"
    )
}
