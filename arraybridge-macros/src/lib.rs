//! Proc macros of arraybridge.
