//! Arrays that are written to, on any device. Whatever writes to an array of the caller's does so here: `out=`, and
//! copies that a function has written to instead of the caller's arrays.

use pyo3::prelude::*;

use super::available::dtypes;
use super::doors::convert_to;
use super::foreign;
use super::likeness::{self, Likeness};
use super::places::Places;
use super::request::Request;
use super::source::{Guarded, Reader, unwrap_value};
use crate::cuda::streams::{self, Loan};
use crate::dlpack::capsule;
use crate::framework::cleanup;
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::spec::{DType, Framework};
use crate::framework::warnings;
use crate::interpreter::error::{Error, Failure, Result};
use crate::memory::numpy_array;

impl Places {
    /// The places of the elements of an array, or of the one inside an object; `None` if nobody tells them.
    ///
    /// # Errors
    ///
    /// Interrupts, and memory that runs out.
    pub fn of(data: &Bound<'_, PyAny>) -> Result<Option<Places>> {
        match Places::find(data) {
            Err(Error::Python(error)) if oom::passes_through(data.py(), &error) => {
                Err(Error::Python(error))
            }
            found => Ok(found.unwrap_or_default()),
        }
    }

    fn find(data: &Bound<'_, PyAny>) -> Result<Option<Places>> {
        if let Some(array) = numpy_array::array(data) {
            return Ok(Some(numpy_array::elements(array).into()));
        }
        let Some(class) = detect::class_of(data) else { return Places::find_inside(data) };
        match class.role {
            Role::Refused(_) => return Ok(None),
            Role::Value(op) => return Places::find(&unwrap_value(data, op)?),
            Role::Array => {}
        }
        let reader = Reader::of(data, &class)?;
        let Guarded { data, dtype, made, .. } = reader.guarded(data)?;
        if made {
            return Ok(None);
        }
        if let Some(op) = &class.framework.places {
            let capsule = op.call(reader.loaded, [&data])?;
            return Ok(Some(capsule::take(&capsule)?.view().into()));
        }
        let opened = match reader.located(&data)? {
            Device::Host => reader.open(&data, &class, dtype)?.0,
            device => return reader.described(&data, &class, (device, dtype)).map(Some),
        };
        Ok((!opened.private).then(|| opened.source.view().into()))
    }

    /// Those of an object of no framework.
    fn find_inside(data: &Bound<'_, PyAny>) -> Result<Option<Places>> {
        if let Some(array) = likeness::inside(data)? {
            return Places::find(&array);
        }
        if !matches!(likeness::likeness(data), Likeness::Exporter { .. }) {
            return Ok(None);
        }
        let opened = match foreign::place_and_memory(data)? {
            (_, Some(opened)) => opened,
            (place, None) => foreign::described_in_place(data, place)?,
        };
        Ok((!opened.private).then(|| opened.source.view().into()))
    }
}

/// Returns whether two arrays of a framework are in memory of one owner, for arrays whose places nobody tells, such as the
/// conjugate of another one.
pub fn have_one_owner(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> Result<bool> {
    let (Some(class), Some(theirs)) = (detect::class_of(one), detect::class_of(other)) else {
        return Ok(false);
    };
    if !class.framework.is(theirs.framework) || !class.is_array() || !theirs.is_array() {
        return Ok(false);
    }
    let reader = Reader::of(one, &class)?;
    let owners = reader.owner(one).zip(reader.owner(other));
    Ok(owners.is_some_and(|(one, other)| one.get(reader.py()).is(&*other.get(reader.py()))))
}

/// Does what [`convert_to`] does, for an array that is read at once and that nobody writes to: nobody is warned of memory
/// that is shared.
pub fn convert_to_read<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let is_fixed = detect::class_of(data).is_some_and(|class| class.framework.immutable);
    if !is_fixed || target.immutable || request.copy.is_some() {
        return convert_to(data, target, request);
    }
    match convert_to(data, target, &Request { copy: Some(false), ..*request }) {
        Err(Error::Conversion(why)) if why.failure == Failure::Copy => {
            convert_to(data, target, &Request { copy: Some(true), ..*request })
        }
        converted => converted,
    }
}

/// An array of the caller's that is written to.
#[derive(Clone)]
pub struct Destination<'py> {
    array: Bound<'py, PyAny>,
    loaded: Loaded<'py>,
    device: Device,
    placement: Placement,
}

impl<'py> Destination<'py> {
    /// `None` for an object of no framework.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises if the array has no device.
    pub fn of(array: &Bound<'py, PyAny>) -> Result<Option<Destination<'py>>> {
        let class = detect::class_of(array).filter(Class::is_array);
        class.map(|class| Destination::new(array, class.framework)).transpose()
    }

    /// An array of a framework.
    ///
    /// # Errors
    ///
    /// As [`Destination::of`].
    pub fn new(
        array: &Bound<'py, PyAny>,
        framework: &'static Framework,
    ) -> Result<Destination<'py>> {
        let loaded = loaded::load(array.py(), framework)?;
        let (device, placement) = (loaded.device_of(array)?, loaded.placement_of(array)?);
        Ok(Destination { array: array.clone(), loaded, device, placement })
    }

    /// The framework of the array.
    pub fn framework(&self) -> &'static Framework {
        self.loaded.framework
    }

    /// The element type of the array, if it is one of ours.
    pub fn dtype(&self) -> Option<DType> {
        self.loaded.dtype(&self.array)
    }

    /// Returns whether an array, cast to the dtype of this one by its own framework, can get here without the host.
    pub fn is_reached_from(&self, values: &Bound<'py, PyAny>) -> Result<bool> {
        let Some(class) = detect::class_of(values).filter(Class::is_array) else {
            return Ok(false);
        };
        let is_exchanged = || class.framework.export.is_some() && self.framework().import.is_some();
        if self.device == Device::Host || !(class.framework.is(self.framework()) || is_exchanged())
        {
            return Ok(false);
        }
        let source = loaded::load(values.py(), class.framework)?;
        if source.device_of(values)? == Device::Host {
            return Ok(false);
        }
        let Some(to) = self.dtype() else { return Ok(false) };
        Ok(source.dtype(values) == Some(to) || dtypes(source, to)?.contains(to))
    }

    /// Writes values to a part of the array, on the stream that is current on its device. The values are cast to the
    /// dtype of the array if `cast` says so. What they are made of may be written to and freed afterwards, in the order
    /// of its own framework.
    ///
    /// # Errors
    ///
    /// As [`convert_to`]; what the assignment raises.
    pub fn write(
        &self,
        index: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        request: &Request,
    ) -> Result<()> {
        let request = Request { placement: self.placement, ..*request };
        let own = convert_to_read(&self.plain(values)?, self.framework(), &request)?;
        let assign = || self.loaded.on(self.device, || self.array.set_item(index, &own));
        let done = cleanup::with_room(values.py(), self.device, assign);
        self.give_back(values)?;
        Ok(done?)
    }

    /// Values of the same framework without what is recorded of them: the array would become a part of their graph.
    fn plain(&self, values: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let framework = self.framework();
        let is_guarded = |class: &Class| {
            class.is_array() && class.framework.is(framework) && !framework.guards.is_empty()
        };
        let Some(class) = detect::class_of(values).filter(is_guarded) else {
            return Ok(values.clone());
        };
        let Guarded { data, detached, .. } = Reader::of(values, &class)?.guarded(values)?;
        if detached {
            let ends = Endpoints { source: framework, target: framework };
            warnings::gradient_detached(values.py(), ends)?;
        }
        Ok(data)
    }

    /// Gives the memory of the values back, which the stream of the array may still read.
    fn give_back(&self, values: &Bound<'py, PyAny>) -> Result<()> {
        let Device::Accelerator(index) = self.device else { return Ok(()) };
        let Some(class) = detect::class_of(values) else { return Ok(()) };
        if class.framework.is(self.framework()) {
            return Ok(());
        }
        let lender = loaded::load(values.py(), class.framework)?;
        // Other devices and the host have got theirs back from the conversion.
        if lender.device_of(values)? == self.device {
            let loan = Loan { lender: class.framework, owner: values.clone() };
            streams::give_back(self.loaded, index, [loan]);
        }
        Ok(())
    }
}
