//! The errors of an operator.

use std::ffi::c_int;
use std::fmt;

/// An error that a compiler reports with its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of error it is.
    pub code: Code,
    /// The text.
    pub text: String,
}

/// The kinds of errors, with the numbers of `absl::StatusCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// What the function was given is wrong, or it failed.
    Invalid = 3,
    /// The operator itself is wrong.
    Internal = 13,
}

impl Error {
    /// What the function was given is wrong, or it failed.
    pub fn invalid(text: impl fmt::Display) -> Error {
        Error { code: Code::Invalid, text: text.to_string() }
    }

    /// The operator itself is wrong.
    pub fn internal(text: impl fmt::Display) -> Error {
        Error { code: Code::Internal, text: text.to_string() }
    }

    /// The error of an array with another shape than its pattern.
    #[cold]
    pub fn another_shape(name: &str, shape: &[usize], wanted: &str) -> Error {
        let text = format_args!("expected the shape {wanted}, not {shape:?}");
        Error::invalid(text).at(format_args!("argument '{name}'"))
    }

    /// Names the place of an error.
    pub fn at(self, place: impl fmt::Display) -> Error {
        Error { text: format!("{place}: {}", self.text), ..self }
    }
}

impl Code {
    /// The number.
    pub fn number(self) -> c_int {
        self as c_int
    }
}
