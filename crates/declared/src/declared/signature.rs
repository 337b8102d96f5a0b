//! The ways in which a function may be called, and the keywords that a declaration adds.

use arraybridge_runtime::intern;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::names::flag;
use super::options::Options;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::interrupt::is_interrupt;

// The keywords that a declaration adds.
const DTYPE_CONVERSION: &str = "dtype_conversion";
const SLICE_BY_SLICE: &str = "slice_by_slice";
/// For calls that are made part by part.
const OUT: &str = "out";
/// The original package's form of `dtype_conversion`: an object with `default_dtype_conversion`.
const DTYPE_CONFIG: &str = "dtype_config";

// The values of `inspect.Parameter.kind`.
const POSITIONAL_ONLY: u8 = 0;
const POSITIONAL_OR_KEYWORD: u8 = 1;
const VAR_POSITIONAL: u8 = 2;
const KEYWORD_ONLY: u8 = 3;

/// A function's parameters, as far as a call needs them.
#[derive(Debug, Default)]
pub struct Parameters {
    /// The parameters that have a name of their own, in order.
    named: Vec<NamedParameter>,
    /// The number of them that can be passed by position.
    positional: usize,
    /// The use of arrays in `*args`.
    var_positional: ArrayUsage,
    /// The use of arrays in `**kwargs`.
    var_keyword: ArrayUsage,
    /// True if the first parameter is `self` or `cls`.
    is_method: bool,
    /// The added keywords that are for the function itself.
    own: OwnKeywords,
    /// True if the function passes `dtype_conversion` on to a declared function. The dtype that a
    /// call asks for is then that of both results.
    forwards_dtype: bool,
}

#[derive(Debug)]
struct NamedParameter {
    name: String,
    usage: ArrayUsage,
}

/// The use that a declaration makes of the arrays that are passed for a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrayUsage {
    /// Nothing.
    #[default]
    Ignored,
    /// It converts them.
    Converted,
    /// It leaves them to the function, which opens them itself.
    Opened,
    /// It leaves them to the function, which opens them itself and writes to them.
    Written,
}

impl ArrayUsage {
    /// Returns whether the function opens the arrays itself.
    pub fn is_opened(self) -> bool {
        matches!(self, ArrayUsage::Opened | ArrayUsage::Written)
    }

    /// The use that a declaration makes of the arrays of a parameter.
    fn of(name: &str, options: &Options) -> ArrayUsage {
        let is_among = |names: &[String]| names.iter().any(|n| n == name);
        match &options.arrays {
            _ if is_among(&options.written) => ArrayUsage::Written,
            _ if is_among(&options.opened) => ArrayUsage::Opened,
            Some(names) if !is_among(names) => ArrayUsage::Ignored,
            _ => ArrayUsage::Converted,
        }
    }
}

/// The added keywords that are for the function itself: its parameters, or those of a declared function inside.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnKeywords {
    dtype_conversion: bool,
    dtype_config: bool,
    slice_by_slice: bool,
    out: bool,
}

/// The added keywords of one call.
pub struct AddedKeywords<'py> {
    /// `dtype_conversion`, or that of `dtype_config`.
    pub dtype_conversion: Option<Bound<'py, PyAny>>,
    /// `slice_by_slice`, by default that of the declaration.
    pub slice_by_slice: bool,
    /// The destination of the results.
    pub out: Option<Bound<'py, PyAny>>,
}

/// Returns the keywords that a function hands on to a declared function that adds them: it is that function, or wraps
/// it.
pub type HandsOn = fn(&Bound<'_, PyAny>) -> PyResult<OwnKeywords>;

/// A function's signature, and the keywords that its declaration adds, with their defaults.
pub type Signature<'py> = (Bound<'py, PyAny>, Vec<(&'static str, Option<bool>)>);

impl Parameters {
    /// Reads a function's signature. The second value is that signature, if the function has one.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when an option names a parameter that the function does not have; what
    /// `inspect` raises when an option names a parameter and the function has no signature.
    pub fn read<'py>(
        function: &Bound<'py, PyAny>,
        options: &Options,
        hands_on: HandsOn,
    ) -> Result<(Parameters, Option<Signature<'py>>)> {
        let py = function.py();
        let inspect = py.import(intern!(py, "inspect"))?;
        let signature = match inspect.call_method1(intern!(py, "signature"), (function,)) {
            Ok(signature) => signature,
            Err(error) if is_interrupt(py, &error) || error.is_instance_of::<PyMemoryError>(py) => {
                return Err(error.into());
            }
            // Built-in functions may have no signature, so that no parameter can be named.
            Err(_) if !options.names_parameters() => {
                let parameters = Parameters {
                    var_positional: ArrayUsage::Converted,
                    var_keyword: ArrayUsage::Converted,
                    ..Parameters::default()
                };
                return Ok((parameters, None));
            }
            Err(error) => return Err(error.into()),
        };
        let mut parameters = Parameters::default();
        let mut names = Vec::new();
        for parameter in signature.getattr("parameters")?.call_method0("values")?.try_iter()? {
            let parameter = parameter?;
            let name: String = parameter.getattr("name")?.extract()?;
            parameters.add(&name, parameter.getattr("kind")?.extract()?, options);
            names.push(name);
        }
        let has = |name: &str| names.iter().any(|n| n == name);
        let handed_on = hands_on(function)?;
        parameters.forwards_dtype = handed_on.dtype_conversion;
        parameters.own = OwnKeywords {
            dtype_conversion: has(DTYPE_CONVERSION) || handed_on.dtype_conversion,
            // A wrapped declared function gets it as `dtype_conversion`.
            dtype_config: has(DTYPE_CONFIG) && !handed_on.dtype_conversion,
            slice_by_slice: has(SLICE_BY_SLICE) || handed_on.slice_by_slice,
            out: has(OUT) || handed_on.out,
        };
        check_names(options, names.iter().map(String::as_str))?;
        let added = added_keywords(has, options);
        Ok((parameters, Some((signature, added))))
    }

    fn add(&mut self, name: &str, kind: u8, options: &Options) {
        let usage = ArrayUsage::of(name, options);
        match kind {
            POSITIONAL_ONLY | POSITIONAL_OR_KEYWORD | KEYWORD_ONLY => {
                if kind != KEYWORD_ONLY {
                    self.is_method |= self.named.is_empty() && matches!(name, "self" | "cls");
                    self.positional += 1;
                }
                self.named.push(NamedParameter { name: name.to_owned(), usage });
            }
            VAR_POSITIONAL => self.var_positional = usage,
            _ => self.var_keyword = usage,
        }
    }

    /// Returns whether arrays that are passed for some parameter are converted.
    pub fn converts(&self) -> bool {
        let variable = [self.var_positional, self.var_keyword];
        let mut all = self.named.iter().map(|parameter| parameter.usage).chain(variable);
        all.any(|usage| usage == ArrayUsage::Converted)
    }

    /// The use of the arrays of a positional argument, and its index in the signature.
    #[inline]
    pub fn positional(&self, index: usize) -> (ArrayUsage, usize) {
        match self.named.get(index).filter(|_| index < self.positional) {
            Some(_) if self.is_method && index == 0 => (ArrayUsage::Ignored, index),
            Some(parameter) => (parameter.usage, index),
            // `*args` come after the positional parameters and before the keyword-only ones.
            None => (self.var_positional, self.positional),
        }
    }

    /// The same for a keyword argument.
    pub fn keyword(&self, name: &str) -> (ArrayUsage, usize) {
        match self.named.iter().position(|parameter| parameter.name == name) {
            Some(index) => (self.named[index].usage, index),
            None => (self.var_keyword, usize::MAX),
        }
    }

    /// The name of the parameter that a positional argument is passed for.
    pub fn name_of(&self, index: usize) -> Option<&str> {
        let parameter = self.named.get(index).filter(|_| index < self.positional);
        parameter.map(|parameter| parameter.name.as_str())
    }

    /// The keywords that the declaration adds, or that the function hands on to one that adds them.
    pub fn handed_on(&self, options: &Options) -> OwnKeywords {
        OwnKeywords {
            dtype_conversion: !self.own.dtype_conversion || self.forwards_dtype,
            dtype_config: false,
            slice_by_slice: true,
            out: self.own.out || options.is_cut(),
        }
    }

    /// Returns whether a keyword is one that the declaration adds.
    pub fn is_added(&self, name: &Bound<'_, PyString>) -> bool {
        match name.to_str() {
            Ok(DTYPE_CONVERSION) => !self.own.dtype_conversion || self.forwards_dtype,
            Ok(DTYPE_CONFIG) => !self.own.dtype_config,
            Ok(SLICE_BY_SLICE) => !self.own.slice_by_slice,
            Ok(OUT) => !self.own.out,
            Ok(_) => false,
            Err(_) => true,
        }
    }

    /// Removes the added keywords from the keyword arguments of a call.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for a `slice_by_slice` that is not a bool, and a `dtype_config` without
    /// `default_dtype_conversion`.
    pub fn take_added<'py>(
        &self,
        kwargs: &Bound<'py, PyDict>,
        options: &Options,
    ) -> Result<AddedKeywords<'py>> {
        let take = |name: &str, is_own: bool| -> Result<Option<Bound<'py, PyAny>>> {
            if is_own {
                return Ok(None);
            }
            let value = kwargs.get_item(name)?;
            if value.is_some() {
                kwargs.del_item(name)?;
            }
            Ok(value.filter(|value| !value.is_none()))
        };
        let config = take(DTYPE_CONFIG, self.own.dtype_config)?;
        if let Some(config) = &config {
            expect_config(config)?;
        }
        let is_own = self.own.dtype_conversion && !self.forwards_dtype;
        let dtype_conversion = take(DTYPE_CONVERSION, is_own)?.or(config);
        if let Some(conversion) = dtype_conversion.as_ref().filter(|_| self.forwards_dtype) {
            kwargs.set_item(DTYPE_CONVERSION, conversion)?;
        }
        let slice_by_slice = match take(SLICE_BY_SLICE, self.own.slice_by_slice)? {
            Some(value) => flag(SLICE_BY_SLICE, &value)?,
            None => options.slice_by_slice,
        };
        // The function itself may take any keyword.
        let is_cut = slice_by_slice || options.tiles.is_some();
        let out = take(OUT, self.own.out || !is_cut)?;
        if out.is_some() && dtype_conversion.is_some() {
            let text = "give only one of out, whose dtype the results get, and dtype_conversion";
            return Err(Error::Type(text.to_owned()));
        }
        Ok(AddedKeywords { dtype_conversion, slice_by_slice, out })
    }
}

/// Refuses a `dtype_config` that is none.
fn expect_config(config: &Bound<'_, PyAny>) -> Result<()> {
    if config.hasattr("default_dtype_conversion")? {
        return Ok(());
    }
    Err(Error::Type(format!(
        "{DTYPE_CONFIG} must be an object with the attribute default_dtype_conversion, not {}; a dtype or a policy is \
         passed as {DTYPE_CONVERSION}",
        config.get_type().name()?
    )))
}

/// Checks that the function has the parameters that the options name.
fn check_names<'a>(options: &Options, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    let arrays = options.arrays.iter().flatten().map(|name| ("arrays", name));
    let lead = options.lead.iter().map(|name| ("lead", name));
    let writes = options.writes_to().iter().map(|name| ("writes", name));
    for (option, name) in
        arrays.chain(lead).chain(writes).chain(options.sliced.iter().map(|name| ("sliced", name)))
    {
        if !names.clone().any(|n| n == name) {
            let known: Vec<_> = names.collect();
            return Err(Error::Value(format!(
                "{option} names {name:?}, which is not a parameter of the function; it has {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// The keywords that a declaration adds to those that its function has, with their defaults.
fn added_keywords(
    has: impl Fn(&str) -> bool,
    options: &Options,
) -> Vec<(&'static str, Option<bool>)> {
    let is_shown = |name: &str| match &options.shown {
        _ if name == OUT && !options.is_cut() => false,
        Some(shown) => shown.iter().any(|shown| shown == name),
        None => true,
    };
    let all = [
        (DTYPE_CONVERSION, None),
        (SLICE_BY_SLICE, Some(options.slice_by_slice)),
        (OUT, None),
        // Callers that fill in keywords by the signature would put a config of their own here.
        (DTYPE_CONFIG, None),
    ];
    all.into_iter().filter(|(name, _)| !has(name) && is_shown(name)).collect()
}
