//! The Python module of arraybridge.
