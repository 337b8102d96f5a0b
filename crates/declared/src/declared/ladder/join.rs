//! The joining of the results of a split call's parts into the result of the whole.
//!
//! The parts of a lead differ in length, so that an array as long as each part follows the lead: a
//! reduction, a histogram or a count would have the same length for every part. Only such arrays are
//! concatenated on their own. Everything else is joined as the declaration says.

use arraybridge_runtime::intern;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::slices;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::tuples::{plain_tuple, rebuilt};

/// The way in which the results of the parts are joined, as the option `join` says it.
#[derive(Debug)]
pub enum Join {
    /// Arrays are concatenated along the axis of the split.
    Concatenate,
    /// Arrays or numbers are added.
    Sum,
    /// The largest of each element, or of the numbers.
    Max,
    /// The smallest of each element, or of the numbers.
    Min,
    /// A function makes the result of the list of parts.
    Call(Py<PyAny>),
    /// The elements of a tuple or a list are joined one by one.
    Each(Vec<Join>),
}

impl Join {
    /// Reads the option: a name, a function, or a tuple of both.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for an unknown name, [`Error::Type`] for anything else.
    pub fn read(value: &Bound<'_, PyAny>) -> Result<Join> {
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return tuple
                .iter()
                .map(|value| Join::read(&value))
                .collect::<Result<_>>()
                .map(Join::Each);
        }
        if value.is_callable() {
            return Ok(Join::Call(value.clone().unbind()));
        }
        let Ok(name) = value.cast::<PyString>() else {
            let class = value.get_type().name()?;
            let text = format!("join must be a name, a function or a tuple of them, not {class}");
            return Err(Error::Type(text));
        };
        match name.to_string_lossy().as_ref() {
            "concatenate" => Ok(Join::Concatenate),
            "sum" => Ok(Join::Sum),
            "max" => Ok(Join::Max),
            "min" => Ok(Join::Min),
            name => Err(Error::Value(format!(
                "unknown join {name:?}; known are concatenate, sum, max, min"
            ))),
        }
    }

    /// Visits the functions, for the garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Join::Call(function) => visit.call(function),
            Join::Each(joins) => joins.iter().try_for_each(|join| join.visit(visit)),
            _ => Ok(()),
        }
    }

    /// Joins the results of the parts along an axis. The elements of tuples have joins of their own.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for results that cannot be joined like this; what a function raises.
    pub(in crate::declared) fn apply<'py>(
        &self,
        parts: &[Bound<'py, PyAny>],
        axis: usize,
    ) -> Result<Bound<'py, PyAny>> {
        let first = &parts[0];
        match self {
            Join::Concatenate if detect::class_of(first).is_some() => {
                slices::concatenate(parts, axis)
            }
            Join::Concatenate => {
                let class = first.get_type().name()?;
                Err(Error::Value(format!("join=\"concatenate\" needs arrays, not {class}")))
            }
            Join::Sum => fold(parts, |one, other| Ok(one.add(other)?)),
            Join::Max => fold(parts, |one, other| extreme(one, other, CompareOp::Gt)),
            Join::Min => fold(parts, |one, other| extreme(one, other, CompareOp::Lt)),
            Join::Call(function) => {
                let py = first.py();
                Ok(function.bind(py).call1((PyList::new(py, parts)?,))?)
            }
            Join::Each(_) => unreachable!("the elements of tuples are gathered one by one"),
        }
    }
}

/// An error that says how to declare the join of parts.
#[cold]
pub(in crate::declared) fn undeclared(why: &str) -> Error {
    undeclared_but(why, "\"concatenate\", \"sum\", \"max\", \"min\"")
}

/// An error that says how to declare the join of tiles, which have no axis to be concatenated along.
#[cold]
pub(in crate::declared) fn undeclared_tiles(why: &str) -> Error {
    undeclared_but(why, "\"sum\", \"max\", \"min\"")
}

fn undeclared_but(why: &str, names: &str) -> Error {
    Error::Value(format!(
        "{why}; declare how the results are joined with join={names} or a function of the list of results, or \
         with a tuple of these for a tuple"
    ))
}

/// A tuple or a list without its elements, and how each of them is joined.
pub(in crate::declared) type ElementJoins<'a, 'py> = (Bound<'py, PyAny>, Vec<Option<&'a Join>>);

/// The parts of a tuple or a list whose elements are joined one by one; `None` for what is joined as a whole.
///
/// # Errors
///
/// [`Error::Value`] when `join` has another number of elements.
pub(in crate::declared) fn parts<'a, 'py>(
    first: &Bound<'py, PyAny>,
    how: Option<&'a Join>,
) -> Result<Option<ElementJoins<'a, 'py>>> {
    let joins = match how {
        Some(Join::Each(joins)) => Some(joins),
        Some(_) => return Ok(None),
        None if !is_sequence(first) => return Ok(None),
        None => None,
    };
    if !is_sequence(first) {
        let class = first.get_type().name()?;
        let text = format!(
            "join is a tuple, and the function returned {class} instead of a tuple or a list; \
             use one way of joining"
        );
        return Err(Error::Value(text));
    }
    let count = first.len()?;
    if let Some(joins) = joins.filter(|joins| joins.len() != count) {
        let wanted = joins.len();
        let text = format!("join is for {wanted} results, and the function returned {count}");
        return Err(Error::Value(text));
    }
    let nothing = vec![first.py().None().into_bound(first.py()); count];
    let each = (0..count).map(|index| joins.map(|joins| &joins[index])).collect();
    Ok(Some((rebuilt(first, nothing)?, each)))
}

fn is_sequence(result: &Bound<'_, PyAny>) -> bool {
    result.is_exact_instance_of::<PyList>() || plain_tuple(result).is_some()
}

/// The elements of a tuple or a list of the type and the length of another one.
///
/// # Errors
///
/// [`Error::Value`] when it is none, or has another type or length.
pub(in crate::declared) fn elements<'py>(
    result: &Bound<'py, PyAny>,
    like: &Bound<'py, PyAny>,
) -> Result<Vec<Bound<'py, PyAny>>> {
    if !is_sequence(result)
        || !result.get_type().is(like.get_type())
        || result.len()? != like.len()?
    {
        return Err(Error::Value("the parts returned different structures".to_owned()));
    }
    Ok((0..like.len()?).map(|index| result.get_item(index)).collect::<PyResult<_>>()?)
}

/// Joins the arrays or numbers two by two.
fn fold<'py>(
    parts: &[Bound<'py, PyAny>],
    two: impl Fn(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let py = parts[0].py();
    let number = py.import(intern!(py, "numbers"))?.getattr(intern!(py, "Number"))?;
    for part in parts {
        if detect::class_of(part).is_none() && !part.is_instance(&number)? {
            let class = part.get_type().name()?;
            let text = format!("join needs arrays or numbers here, not {class}; use a function");
            return Err(Error::Value(text));
        }
    }
    // Arrays of different shapes would be broadcast.
    slices::check_same_shapes(parts)?;
    parts[1..].iter().try_fold(parts[0].clone(), |joined, part| two(&joined, part))
}

/// The larger or the smaller of two numbers, or of the elements of two arrays; NaN if one is NaN.
fn extreme<'py>(
    one: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
    wanted: CompareOp,
) -> Result<Bound<'py, PyAny>> {
    let py = one.py();
    let Some(class) = detect::class_of(one) else {
        let takes_first =
            one.ne(one)? || (other.eq(other)? && one.rich_compare(other, wanted)?.is_truthy()?);
        return Ok(if takes_first { one } else { other }.clone());
    };
    let name = if matches!(wanted, CompareOp::Gt) { "maximum" } else { "minimum" };
    let loaded = loaded::load(py, class.framework)?;
    let missing = || {
        let title = class.framework.title;
        Error::Value(format!("{title} has no {name}; use a function as join"))
    };
    let ops = loaded.framework.array.as_ref().ok_or_else(missing)?;
    let namespace = ops.namespace.call(loaded, [])?;
    Ok(namespace.getattr(name).map_err(|_| missing())?.call1((one, other))?)
}
