//! The two endpoints of a conversion, which its errors name.

use crate::framework::spec::{Framework, Memory};
use crate::interpreter::error::{ConversionError, Error, Failure};

/// The source and the target of a conversion.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// The framework that the array comes from.
    pub source: &'static Framework,
    /// The framework that it goes to.
    pub target: &'static Framework,
}

impl Endpoints {
    /// Names both ends in an error that names one framework, since whoever raised it knows no other.
    #[cold]
    pub fn name_in(self, mut error: Error) -> Error {
        if let Error::Conversion(found) = &mut error
            && found.source == found.target
        {
            (found.source, found.target) = (self.source.name.into(), self.target.name);
        }
        error
    }

    /// Returns whether one of them may leave another device current, as
    /// [`Framework::changes_current`] says it.
    #[inline]
    pub fn change_current(self) -> bool {
        self.source.changes_current() || self.target.changes_current()
    }

    /// An error between these endpoints.
    #[cold]
    pub fn error(&self, failure: Failure, method: &'static str, reason: String) -> Error {
        self.name_in(self.target.error(failure, method, reason))
    }
}

impl Framework {
    /// Returns whether it may leave another device current for the rest of the thread. XLA does,
    /// when it starts its devices and after some transfers. Frameworks with streams have a current
    /// device of their own, and restore it.
    #[inline]
    pub fn changes_current(&self) -> bool {
        self.memory != Memory::Host && self.stream.is_none()
    }

    /// Returns whether both are the same framework.
    #[inline]
    pub fn is(&self, other: &Framework) -> bool {
        self.memory_type == other.memory_type
    }

    /// Returns whether a device may have to be made current for a call.
    #[inline]
    pub fn enters_devices(&self) -> bool {
        self.memory != Memory::Host && self.device.scope.is_some()
    }

    /// An error about an array of this framework. The door of a conversion adds the other end.
    #[cold]
    pub fn error(&self, failure: Failure, method: &'static str, reason: String) -> Error {
        let (source, target) = (self.name.into(), self.name);
        Error::Conversion(Box::new(ConversionError {
            failure,
            source,
            target,
            method,
            reason,
            place: None,
            cause: None,
        }))
    }
}
