//! The answers to what `arraybridge.trees` asks about the nodes and the leaves of a tree.

use std::collections::HashMap;

use arraybridge_declared::declared::watch_dynamo;
use arraybridge_runtime::convert::record::{Record, within};
use arraybridge_runtime::convert::trace::{gathered, push_made};
use arraybridge_runtime::convert::{forget_classes, is_buffer, is_like_array};
use arraybridge_runtime::framework::detect::class_of as known_class;
use arraybridge_runtime::interpreter::classes::is_builtin;
use arraybridge_runtime::interpreter::containers::{Container, DEEPEST};
use arraybridge_runtime::interpreter::panic::memory_errors;
use arraybridge_runtime::interpreter::park::rather_than_end;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Return the items of a container and whether it is an object with fields; None for
/// another object.
#[pyfunction]
#[memory_errors]
fn _opened<'py>(node: &Bound<'py, PyAny>) -> PyResult<Option<(Vec<Bound<'py, PyAny>>, bool)>> {
    let Some(container) = Container::of(node) else { return Ok(None) };
    Ok(Some((container.items()?, container.is_instance())))
}

/// Return where the items of a container are, as Python writes it.
#[pyfunction]
#[memory_errors]
fn _places(node: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Container::of(node).map_or_else(|| Ok(Vec::new()), |container| container.names())
}

/// Return a container like `node` with other items.
#[pyfunction]
#[memory_errors]
fn _rebuilt<'py>(
    node: &Bound<'py, PyAny>,
    items: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match Container::of(node) {
        Some(container) => container.with(items),
        None => Ok(node.clone()),
    }
}

/// Return "array" for the array of a framework, "like" for what is like one, "buffer" for what is only a buffer and need
/// not hold numbers, and None for another object.
#[pyfunction]
fn _likeness(data: &Bound<'_, PyAny>) -> Option<&'static str> {
    if known_class(data).is_some() {
        Some("array")
    } else if !is_like_array(data) {
        None
    } else if is_buffer(data) {
        Some("buffer")
    } else {
        Some("like")
    }
}

/// Return a tree with what `made` returns for each of its arrays and `target`, and the number of arrays; None for a tree
/// with other containers than Python's own lists, tuples and dicts. An exception is passed through `at_leaf`, with the
/// place of the array.
#[pyfunction]
#[memory_errors]
fn _mapped<'py>(
    tree: &Bound<'py, PyAny>,
    made: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    at_leaf: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
    rather_than_end(tree.py());
    let mut plain = PlainTree::default();
    let Some(Item::Branch(_)) = plain.add(tree, (0, 0), &mut Vec::new())? else { return Ok(None) };
    let PlainTree { branches, leaves, .. } = &plain;
    let make = |(leaf, place): &(Bound<'py, PyAny>, _)| {
        made.call1((leaf, target)).or_else(|error| {
            let place = plain.place(*place)?;
            Err(PyErr::from_value(at_leaf.call1((error.into_value(tree.py()), place))?))
        })
    };
    let made = leaves.iter().map(make).collect::<PyResult<Vec<_>>>()?;
    // The containers in another one come after it.
    let mut results: Vec<Option<Bound<'py, PyAny>>> = vec![None; branches.len()];
    for (index, Branch { node, items, .. }) in branches.iter().enumerate().rev() {
        let changed = |item: &Item<'py>| match item {
            Item::Kept(_) => None,
            Item::Leaf(leaf) => Some(&made[*leaf]).filter(|made| !made.is(&leaves[*leaf].0)),
            Item::Branch(branch) => results[*branch].as_ref(),
        };
        if items.iter().any(|item| changed(item).is_some()) {
            let new = items.iter().map(|item| changed(item).unwrap_or(plain.object(item)).clone());
            let new = new.collect();
            results[index] = Container::of(node).map(|like| like.with(new)).transpose()?;
        }
    }
    let result = results.swap_remove(0).unwrap_or_else(|| tree.clone());
    Ok(Some((result, leaves.len())))
}

/// A tree of lists, tuples and dicts.
#[derive(Default)]
struct PlainTree<'py> {
    branches: Vec<Branch<'py>>,
    /// Each array, with the container and the index where it is first.
    leaves: Vec<(Bound<'py, PyAny>, (usize, usize))>,
    /// The arrays by their addresses.
    known: HashMap<usize, usize>,
}

struct Branch<'py> {
    node: Bound<'py, PyAny>,
    items: Vec<Item<'py>>,
    /// The container that this one is in, and its index there.
    place: (usize, usize),
}

enum Item<'py> {
    Kept(Bound<'py, PyAny>),
    Leaf(usize),
    Branch(usize),
}

impl<'py> PlainTree<'py> {
    /// Adds a node that is at a place; `None` if it is a container of another kind, or one that holds itself. `above` are
    /// the addresses of the containers that it is in.
    fn add(
        &mut self,
        node: &Bound<'py, PyAny>,
        place: (usize, usize),
        above: &mut Vec<usize>,
    ) -> PyResult<Option<Item<'py>>> {
        let address = node.as_ptr() as usize;
        if known_class(node).is_some() {
            let next = self.leaves.len();
            let leaf = *self.known.entry(address).or_insert(next);
            if leaf == next {
                self.leaves.push((node.clone(), place));
            }
            return Ok(Some(Item::Leaf(leaf)));
        }
        let is_container = node.is_exact_instance_of::<PyList>()
            || node.is_exact_instance_of::<PyDict>()
            || node.is_exact_instance_of::<PyTuple>();
        let Some(container) = Container::of(node).filter(|_| is_container) else {
            return Ok(is_builtin(node).then(|| Item::Kept(node.clone())));
        };
        if above.len() == DEEPEST || above.contains(&address) {
            return Ok(None);
        }
        let branch = self.branches.len();
        self.branches.push(Branch { node: node.clone(), items: Vec::new(), place });
        above.push(address);
        let mut items = Vec::new();
        for (index, item) in container.items()?.iter().enumerate() {
            let Some(item) = self.add(item, (branch, index), above)? else { return Ok(None) };
            items.push(item);
        }
        above.pop();
        self.branches[branch].items = items;
        Ok(Some(Item::Branch(branch)))
    }

    fn object<'a>(&'a self, item: &'a Item<'py>) -> &'a Bound<'py, PyAny> {
        match item {
            Item::Kept(object) => object,
            Item::Leaf(leaf) => &self.leaves[*leaf].0,
            Item::Branch(branch) => &self.branches[*branch].node,
        }
    }

    /// A place as Python writes it.
    fn place(&self, (branch, index): (usize, usize)) -> PyResult<String> {
        let Branch { node, place, .. } = &self.branches[branch];
        let above = if branch == 0 { String::new() } else { self.place(*place)? };
        let names = Container::of(node).map(|container| container.names()).transpose()?;
        let name =
            names.and_then(|mut names| (index < names.len()).then(|| names.swap_remove(index)));
        Ok(above + &name.unwrap_or_default())
    }
}

/// Call a function and return its result, the records of its conversions, which no trace gets, and when it began.
///
/// Without a trace, there are no records, and the beginning is None.
#[pyfunction]
#[memory_errors]
fn _gathered<'py>(
    function: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Record>, Option<u64>)> {
    rather_than_end(function.py());
    gathered(|| function.call0())
}

/// Give a record that was made of others, or by an extension module, to the traces. With `start`, it ends now.
#[pyfunction]
#[pyo3(signature = (record, start, is_span=false))]
fn _push(record: &Bound<'_, Record>, start: Option<u64>, is_span: bool) {
    push_made(record.py(), record.get().clone(), start, is_span);
}

/// Call a function whose conversions are of the array in an object of a class, which their records name.
#[pyfunction]
#[memory_errors]
fn _within<'py>(class: String, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    rather_than_end(function.py());
    within(class, || function.call0())
}

/// Look at the classes of objects again, since one was registered.
#[pyfunction]
fn _forget_classes() {
    forget_classes();
}

/// Have calls that Dynamo leaves outside its graph hidden from it.
#[pyfunction]
fn _watch_dynamo() {
    watch_dynamo();
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_DEEPEST", DEEPEST)?;
    add_functions! { module;
        _mapped, _opened, _places, _rebuilt, _likeness, _within, _forget_classes, _watch_dynamo, _gathered,
        _push
    }
    Ok(())
}
