//! What element type a declared function's result has.

use pyo3::prelude::*;

use crate::convert::{self, Request};
use crate::declared::names;
use crate::detect;
use crate::error::{Error, Result};
use crate::host::cast::Scaling;
use crate::spec::{DType, Kind};

/// The element type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// That of the lead.
    PreserveInput,
    /// That which the function gave it.
    NativeOutput,
    /// This one.
    Force(DType),
}

/// The element type of a result, and how floating point numbers become integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The element type.
    pub conversion: Conversion,
    /// How floating point numbers become integers.
    pub scaling: Scaling,
}

/// What is known of the first array argument.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// Its element type.
    pub dtype: Option<DType>,
    /// Its number of axes.
    pub ndim: usize,
    /// Whether its elements are complex.
    pub complex: bool,
}

impl Policy {
    /// Reads the two options; what is not given comes from `base`.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for an unknown name.
    pub fn from_py(
        dtype_conversion: Option<&Bound<'_, PyAny>>,
        scaling: Option<&Bound<'_, PyAny>>,
        base: Policy,
    ) -> Result<Policy> {
        let mut policy = base;
        if let Some(conversion) = dtype_conversion.filter(|c| !c.is_none()) {
            let value = conversion.getattr("value").unwrap_or_else(|_| conversion.clone());
            policy.conversion = match value.extract::<String>().unwrap_or_default().as_str() {
                "preserve" | "preserve_input" => Conversion::PreserveInput,
                "native" | "native_output" => Conversion::NativeOutput,
                _ => Conversion::Force(names::dtype(&value)?),
            };
        }
        if let Some(scaling) = scaling.filter(|s| !s.is_none()) {
            policy.scaling = match scaling.extract::<String>()?.as_str() {
                "clamp" => Scaling::Clamp,
                "unit" => Scaling::Unit,
                "stretch" => Scaling::Stretch,
                other => return Err(Error::Value(format!("unknown scaling {other:?}"))),
            };
        }
        Ok(policy)
    }

    /// The context's default.
    pub fn default_of_context(_: Python<'_>) -> Policy {
        Policy { conversion: Conversion::PreserveInput, scaling: Scaling::Clamp }
    }
}

/// Gives a result the element type that the policy asks for.
///
/// # Errors
///
/// When the cast is impossible.
pub fn finish<'py>(
    array: &Bound<'py, PyAny>,
    lead: &Lead,
    policy: Policy,
    _function: &str,
) -> Result<Bound<'py, PyAny>> {
    let wanted = match policy.conversion {
        Conversion::NativeOutput => None,
        Conversion::PreserveInput => lead.dtype,
        Conversion::Force(dtype) => Some(dtype),
    };
    let (Some(dtype), Some(class)) = (wanted, detect::class_of(array)) else {
        return Ok(array.clone());
    };
    let name = array.getattr("dtype")?;
    let native = names::dtype(&name).ok();
    let kept = native.is_none_or(|d| d.kind() == Kind::Bool || d.kind() == Kind::Complex);
    let scalar = array.getattr("shape")?.len()? == 0 && lead.ndim > 0;
    if policy.conversion == Conversion::PreserveInput && (kept || scalar) {
        return Ok(array.clone());
    }
    let request = Request { dtype: Some(dtype), ..Request::default() };
    convert::convert_to(array, class.framework, &request)
}
