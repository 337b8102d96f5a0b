//! Declared functions: a decorator says which framework a function works on. Conversions, dtypes,
//! devices and retries when memory runs out follow from that.
//!
//! A call is `finish( recover( scopes( fit -> function ) ) )`: [`arguments`] finds the arrays and
//! converts them to the declared framework, [`scope`] makes its device current, [`ladder`] retries, and [`result`] gives the result its dtype and its framework. Where every argument fits
//! already, [`passthrough`] only looks at the class of each.

mod arguments;
mod call;
mod decorator;
mod definition;
mod function;
mod general;
mod gradients;
pub mod ladder;
pub mod names;
mod object;
mod options;
mod passthrough;
mod python_function;
mod ready;
mod result;
mod scope;
mod signature;
mod slicing;
mod steps;
mod tiles;
mod wrapped;

pub use decorator::{Decorator, declare, memory_types};
pub use object::Declared;
