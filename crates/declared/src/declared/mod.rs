//! Declared functions: a decorator says which framework a function works on. Conversions, dtypes,
//! devices and retries when memory runs out follow from that.
//!
//! A call is `finish( recover( scopes( fit -> function ) ) )`: [`arguments`] finds the arrays and
//! converts them to the declared framework, [`scope`] makes its device current, [`ladder`] retries, and
//! [`result`] gives the result its dtype and its framework. Where every argument fits already, [`passthrough`] only
//! looks at the class of each; all other calls begin in [`general`].
//!
//! The files in the order in which each uses only those above it. Options and definitions use the plain data of two
//! folders that come later: [`tiles`] and [`ladder`].

pub mod names;

mod options;

mod signature;

mod definition;

mod object;

mod arguments;

mod ready;
mod scope;

mod call;

mod result;

pub mod ladder;

mod tiles;

mod slicing;
mod steps;
mod wrapped;

mod gradients;

mod general;

mod passthrough;

mod python_function;

mod function;

mod decorator;

pub use decorator::{check_options, declare};
pub use object::Declared;
pub use python_function::watch_dynamo;
