//! The expansion of the tables: the enum of the frameworks, a static for each, and a converter for
//! every ordered pair.

// The expansion must not depend on what is in scope.
#![no_implicit_prelude]
#![deny(warnings, missing_docs)]

::arraybridge_macros::frameworks!();
