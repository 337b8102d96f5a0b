//! A stack that is filled while its slices come.

use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::check::Along;
use super::join::{Joiner, ToJoin, common_dtype, join, stack_alike};
use super::whole::Whole;
use super::{Merge, as_arrays};
use crate::policy::StackPolicy;
use arraybridge_host::cast::CastReport;
use arraybridge_host::vectors;
use arraybridge_runtime::convert::{self, Opened, Request};
use arraybridge_runtime::framework::detect::{self, Class, Role};
use arraybridge_runtime::framework::device::Placement;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_tensor::memory::view::Dims;

/// The arrays that are stacked.
pub(super) enum Images {
    /// All arrays. Their shapes have to be equal.
    All,
    /// The arrays of this shape, if all items have it.
    Shape(Dims<usize>),
    /// None: the items become a list.
    None,
}

impl Images {
    /// Returns whether an item is stacked, as far as it alone can tell.
    fn hold(&self, item: &Bound<'_, PyAny>) -> bool {
        match self {
            Images::All => true,
            Images::Shape(shape) => {
                detect::class_of(item).is_some() && shape::of(item).as_ref() == Some(shape)
            }
            Images::None => false,
        }
    }
}

/// The results of a function for all slices, or an element of each of them.
pub(super) struct Column<'a, 'py> {
    py: Python<'py>,
    count: usize,
    images: Images,
    target: Option<(&'static Framework, Placement)>,
    policy: Option<StackPolicy<'a, 'py>>,
    /// The stack, as long as every item could be copied to it.
    stack: Option<FilledStack<'a, 'py>>,
    /// All items otherwise.
    items: Vec<Bound<'py, PyAny>>,
    /// True if items were copied to a stack that was given up. The next ones are copied too: the
    /// function may write its next result over one.
    copies: bool,
    /// The last items, while they may still be computed.
    pending: VecDeque<Bound<'py, PyAny>>,
}

/// The part of all slices, one in so many, that may still be computed while the function is called
/// for the next ones. To read each result at once would make the processor wait for every slice.
const PENDING_PART: usize = 8;

/// A stack in host memory, and what is known about its slices.
struct FilledStack<'a, 'py> {
    /// Its dtype of the results is the one to which NumPy promotes those of the slices.
    whole: Whole<'a, 'py>,
    /// The number of slices that are there.
    filled: usize,
}

impl<'a, 'py> Column<'a, 'py> {
    pub fn new(
        py: Python<'py>,
        count: usize,
        images: Images,
        merge: &Merge<'a, 'py>,
    ) -> Column<'a, 'py> {
        Column {
            py,
            count,
            // It is for the first stack alone.
            policy: merge.policy.filter(|_| matches!(images, Images::All)),
            images,
            target: merge.target,
            stack: None,
            items: Vec::new(),
            copies: false,
            pending: VecDeque::new(),
        }
    }

    /// Adds the next item.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when an item does not fit the items before; as [`convert::open_host`].
    pub fn add(&mut self, item: Bound<'py, PyAny>) -> Result<()> {
        // The function may write the next result over one that can change.
        let computes_later = detect::class_of(&item)
            .is_some_and(|class| class.framework.ready.is_some() && class.framework.immutable);
        self.pending.push_back(item);
        let most = if computes_later { self.count / PENDING_PART } else { 0 };
        match self.pending.len() > most {
            // The oldest ones are there by now.
            true => self.take_in(most / 2),
            false => Ok(()),
        }
    }

    /// Takes items in until only so many are pending.
    fn take_in(&mut self, pending: usize) -> Result<()> {
        while self.pending.len() > pending
            && let Some(item) = self.pending.pop_front()
        {
            self.take(item)?;
        }
        Ok(())
    }

    fn take(&mut self, item: Bound<'py, PyAny>) -> Result<()> {
        if self.items.is_empty() {
            if self.copy(&item)? {
                return Ok(());
            }
            self.items = self.unstacked()?;
            self.copies = !self.items.is_empty();
        }
        let item = if self.copies { kept(item)? } else { item };
        Ok(vectors::push(&mut self.items, item)?)
    }

    /// The stack, or the list of the items.
    pub fn merge(mut self) -> Result<Bound<'py, PyAny>> {
        self.take_in(0)?;
        if let Some(stack) = self.stack.take() {
            return stack.whole.finish();
        }
        let is_stacked = self.items.iter().all(|item| self.images.hold(item));
        match self.items.iter().find_map(detect::class_of).filter(|_| is_stacked) {
            Some(class) => {
                let (target, placement) = self.target.unwrap_or((class.framework, Placement::Auto));
                if let Some(stack) = stack_alike(&self.items, target, placement)? {
                    return Ok(stack);
                }
                let items = &*as_arrays(&self.items, target)?;
                join(ToJoin::new(items, target)?, target, placement, Along::NewAxis)
            }
            None => Ok(PyList::new(self.py, &self.items)?.into_any()),
        }
    }

    /// Copies an item to the stack; false if it has to be kept as it is.
    fn copy(&mut self, item: &Bound<'py, PyAny>) -> Result<bool> {
        let Some(class) = detect::class_of(item) else { return Ok(false) };
        if !self.images.hold(item) {
            return Ok(false);
        }
        let join = match &self.stack {
            Some(stack) => stack.whole.join,
            None => {
                let (target, placement) = self.target.unwrap_or((class.framework, Placement::Auto));
                let join = Joiner::new(item, target, placement, Along::NewAxis)?;
                if join.keeps(item, self.count) {
                    return Ok(false);
                }
                join
            }
        };
        let Some(opened) = join.open(item)? else { return Ok(false) };
        if self.stack.is_none() {
            self.stack = Some(self.start(join, item, &opened)?);
        }
        let Some(stack) = &mut self.stack else { return Ok(false) };
        stack.check_shape(item, &opened)?;
        if !stack.admits(self.py, &opened)? {
            return Ok(false);
        }
        stack.push(item, &opened)?;
        Ok(true)
    }

    /// A stack for slices that are like the first one.
    fn start(
        &self,
        join: Joiner<'py>,
        item: &Bound<'py, PyAny>,
        first: &Opened,
    ) -> Result<FilledStack<'a, 'py>> {
        let view = first.source.view();
        let mut shape = Dims::from_slice(view.shape());
        shape.insert(0, self.count);
        // SAFETY: the slices are written before the stack is finished, or what is not there is cleared.
        let whole = unsafe { Whole::new(join, item, view.dtype(), shape, self.policy)? };
        Ok(FilledStack { whole, filled: 0 })
    }

    /// The items of the stack, which is given up.
    fn unstacked(&mut self) -> Result<Vec<Bound<'py, PyAny>>> {
        let Some(mut stack) = self.stack.take() else { return Ok(Vec::new()) };
        let filled = stack.filled;
        stack.whole.clear_rows(filled);
        let array = stack.whole.make()?;
        (0..filled).map(|index| Ok(array.get_item(index)?)).collect()
    }
}

/// An item that nobody writes to: a copy, if it is an array that can be written to.
fn kept(item: Bound<'_, PyAny>) -> Result<Bound<'_, PyAny>> {
    let class = detect::class_of(&item);
    let is_array = |class: &Class| matches!(class.role, Role::Array) && !class.framework.immutable;
    match class.filter(is_array) {
        Some(class) => {
            let request = Request { copy: Some(true), ..Request::default() };
            convert::convert_to(&item, class.framework, &request)
        }
        None => Ok(item),
    }
}

impl<'py> FilledStack<'_, 'py> {
    fn check_shape(&self, item: &Bound<'py, PyAny>, opened: &Opened) -> Result<()> {
        let shape = &self.whole.opened.source.view().shape()[1..];
        if shape == opened.source.view().shape() {
            return Ok(());
        }
        Err(Error::Value(format!(
            "the array at index {} has the shape {}, which does not fit the shape of the first one, {}",
            self.filled,
            shape::text(item),
            PyTuple::new(item.py(), shape)?
        )))
    }

    /// Returns whether an array of another dtype than the slices before can be copied to the stack.
    fn admits(&mut self, py: Python<'py>, opened: &Opened) -> Result<bool> {
        let (dtype, before) = (opened.source.view().dtype(), self.whole.from);
        if dtype == before {
            return Ok(true);
        }
        let (from, now) = (common_dtype(py, vec![before, dtype])?, self.whole.dtype());
        if self.whole.is_made_of(from)? {
            self.whole.from = from;
            return Ok(true);
        }
        if before == now {
            return Ok(false);
        }
        Err(Error::Value(format!(
            "the function returned {dtype} for slice {}, and {before} for the slices before, which are {now} now",
            self.filled
        )))
    }

    fn push(&mut self, item: &Bound<'py, PyAny>, opened: &Opened) -> Result<()> {
        self.whole.meet(item)?;
        let (row, source) = (self.filled, &opened.source);
        let lost = match self.whole.write_by_framework(row, item, opened) {
            true => CastReport::default(),
            false => self.whole.fill_row(row, source, self.whole.scaling())?,
        };
        self.whole.count(source, |whole| whole.slice(row), lost)?;
        self.filled += 1;
        Ok(())
    }
}
