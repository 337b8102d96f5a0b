//! Rows of a stack that the framework of the results writes itself.
//!
//! PyTorch computes an image in several threads, after which its parts are in the caches of several cores. A single
//! thread copies it from there at half the speed of PyTorch's own threads, each of which copies what it has computed.

use pyo3::prelude::*;

use super::whole::Whole;
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::{self, Commitment, Opened};
use arraybridge_runtime::framework::detect::{self, Role};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::spec::{ArrayOps, Op};
use arraybridge_runtime::framework::tried::Way;
use arraybridge_runtime::interpreter::error::{Result, attempt};
use arraybridge_runtime::interpreter::fork;
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::Source;

/// To make an array of a row that has fewer bytes takes longer than to copy them. PyTorch copies so many 4-byte
/// elements (`at::internal::GRAIN_SIZE`) in one thread.
const WORTH: usize = 128 << 10;

impl<'py> Whole<'_, 'py> {
    /// Lets the framework write an array to a row, which has its shape. If this is false, the row has still to be
    /// written.
    pub(super) fn write_by_framework(
        &mut self,
        row: usize,
        array: &Bound<'py, PyAny>,
        opened: &Opened,
    ) -> bool {
        let Some((table, op)) = self.write_op(array, opened) else { return false };
        let (py, loaded, dtype) = (self.join.loaded.py(), self.join.loaded, self.dtype());
        let mut write = |whole: &mut Self| {
            let written = whole.write_row(table, op, row, array);
            attempt(py, written).is_some()
        };
        let is_right = || {
            let found = self.is_written_right(row, opened, &mut write);
            attempt(py, found).unwrap_or(false)
        };
        loaded.tried.is_alike(Way::Write, dtype, is_right) && write(self)
    }

    /// The operation, if it is worth it, and only copies. What was copied to be read is in our cache.
    fn write_op(
        &self,
        array: &Bound<'py, PyAny>,
        opened: &Opened,
    ) -> Option<(&'static ArrayOps, &'static Op<3>)> {
        let framework = self.join.loaded.framework;
        let table = framework.array.as_ref()?;
        let op = table.write.as_ref()?;
        let (class, view) = (detect::class_of(array)?, opened.source.view());
        let is_plain = class.own
            && matches!(class.role, Role::Array)
            && class.framework.is(framework)
            && !opened.private;
        let is_like = self.device == Device::Host && view.dtype() == self.dtype();
        let is_fast = view.nbytes() >= WORTH && !fork::is_child();
        (is_plain && is_like && is_fast).then_some((table, op))
    }

    fn write_row(
        &mut self,
        table: &ArrayOps,
        op: &Op<3>,
        row: usize,
        array: &Bound<'py, PyAny>,
    ) -> Result<()> {
        let loaded = self.join.loaded;
        let part = Opened { source: self.opened.source.slice(row), private: true };
        let part = convert::make_array(loaded, part, Device::Host, &Commitment::Placed)?;
        let xp = table.namespace.call(loaded, [])?;
        op.call(loaded, [&xp, &part, array])?;
        Ok(())
    }

    /// Returns whether the row has the bytes of an array after it was written. Whatever is not
    /// written differs.
    #[cold]
    fn is_written_right(
        &mut self,
        row: usize,
        opened: &Opened,
        write: &mut impl FnMut(&mut Self) -> bool,
    ) -> Result<bool> {
        let (py, view) = (self.join.loaded.py(), opened.source.view());
        let bytes = cast::bytes_of(py, &opened.source)?;
        let others: Vec<_> = bytes.iter().map(|byte| !byte).collect();
        let others = Source::from_bytes(&others, view.dtype(), view.shape())?;
        self.fill_row(row, &others, Scaling::Clamp)?;
        Ok(write(self) && cast::bytes_of(py, &self.opened.source.slice(row))? == bytes)
    }
}
