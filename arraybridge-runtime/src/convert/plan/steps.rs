//! A plan: the route that the caller learns of, and the steps that carry it out.

use crate::framework::device::Device;
use crate::framework::spec::{DType, Framework, Handover, Import, Op};

use super::facts::Access;
use super::why::Why;

/// The route of the elements to the target, as the caller learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The same object.
    Keep,
    /// The target wraps the source's memory.
    Share,
    /// The same framework, another device.
    Move,
    /// Other memory.
    Copy(Why),
}

impl Route {
    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Route::Keep => "keep",
            Route::Share => "share",
            Route::Move => "move",
            Route::Copy(_) => "copy",
        }
    }

    /// The reason of a copy.
    pub const fn why(self) -> Option<Why> {
        match self {
            Route::Copy(why) => Some(why),
            _ => None,
        }
    }
}

named! {
    /// One step of a conversion. It works on what the step before left: an array, or host memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Step {
        /// The object itself is the result.
        Keep "keep",
        /// The array's own framework copies it.
        Copy "copy",
        /// The same, to make it contiguous; a copy that keeps other strides is a failure.
        CopyContiguous "contiguous copy",
        /// The array's own framework casts it, where it is.
        Cast "cast",
        /// The array's own framework moves it to the result's device.
        Move "move",
        /// The object's host memory is opened where it is.
        Open "open",
        /// A copy of the object's memory is made on the host.
        Download "download",
        /// Host memory is copied into a contiguous, aligned buffer, and cast on the way if that is asked.
        Gather "gather",
        /// The target wraps host memory.
        Import "import",
        /// The target copies host memory to the result's device.
        FromNumpy "from_numpy",
        /// The memory that arrived on the host is handed over by the steps that `landing` gives for
        /// it.
        Land "hand over",
        /// The target wraps the memory of an array on an accelerator.
        Adopt "import on the device",
    }
}

/// The steps of a conversion.
pub type Steps = &'static [Step];

/// The alternative if the steps of a plan fail.
#[derive(Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The reason for it.
    pub why: Why,
    /// Its steps.
    pub steps: Steps,
}

/// The way in which a framework takes host memory.
#[derive(Clone, Copy, Debug)]
pub enum Importer {
    /// An array struct of NumPy's is filled in.
    NumpyArray,
    /// Its class has DLPack's C exchange table.
    ExchangeTable,
    /// A private entry point, which was found to behave as the public one.
    Private(&'static Op<2>),
    /// Its import is handed a legacy capsule.
    Capsule,
    /// Its import is handed an object with the DLPack methods.
    Object,
    /// Its import is handed a NumPy array.
    Array,
    /// It takes none.
    Missing,
}

impl Importer {
    /// The one that follows from the table alone.
    pub fn of(framework: &Framework) -> Importer {
        match &framework.import {
            _ if framework.module == "numpy" => Importer::NumpyArray,
            None => Importer::Missing,
            Some(Import { handover: Handover::Capsule, .. }) => Importer::Capsule,
            Some(Import { handover: Handover::Object, .. }) => Importer::Object,
            Some(Import { handover: Handover::Array, .. }) => Importer::Array,
        }
    }

    /// The name that records show.
    pub const fn name(self) -> &'static str {
        match self {
            Importer::NumpyArray | Importer::Array => "NumPy array",
            Importer::ExchangeTable => "exchange table",
            Importer::Private(_) => "private import",
            Importer::Capsule => "capsule",
            Importer::Object => "__dlpack__",
            Importer::Missing => "no import",
        }
    }

    /// Returns whether it may refuse memory that fits the table. NumPy and the exchange table do
    /// not.
    pub(super) const fn may_refuse(self) -> bool {
        !matches!(self, Importer::NumpyArray | Importer::ExchangeTable | Importer::Missing)
    }
}

/// The steps of a conversion, and the alternatives if they fail.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The route that the caller learns of.
    pub route: Route,
    /// The steps.
    pub steps: Steps,
    /// The alternatives if they fail, in the order in which they are tried.
    pub fallbacks: &'static [Fallback],
    /// The way in which the target takes host memory.
    pub importer: Importer,
    /// The element type to cast to on the way.
    pub cast: Option<DType>,
    /// The device that the array is on.
    pub from: Device,
    /// The device that the result goes to.
    pub device: Device,
    /// True if the result must be memory of its own that may be written to.
    pub fresh: bool,
    /// True if the result can be written to and shares memory that its source takes for constant.
    pub aliases_immutable: bool,
    /// True if the source is an object of no framework.
    pub is_foreign: bool,
}

impl Plan {
    /// The object itself is the result.
    pub const fn keep(device: Device) -> Plan {
        Plan {
            route: Route::Keep,
            steps: &[Step::Keep],
            fallbacks: &[],
            importer: Importer::Missing,
            cast: None,
            from: device,
            device,
            fresh: false,
            aliases_immutable: false,
            is_foreign: false,
        }
    }

    /// The steps and the route of the plan itself (0) or of one of its fallbacks.
    pub fn attempt(&self, attempt: usize) -> (Steps, Route) {
        match attempt.checked_sub(1).map(|index| &self.fallbacks[index]) {
            None => (self.steps, self.route),
            Some(fallback) => {
                let route = match self.route {
                    Route::Share => Route::Copy(fallback.why),
                    route => route,
                };
                (fallback.steps, route)
            }
        }
    }

    /// The way in which an attempt is made, in a word or two.
    pub fn how(&self, attempt: usize) -> &'static str {
        let (steps, route) = self.attempt(attempt);
        let downloads = steps.contains(&Step::Download);
        match (route, self.from, self.device) {
            (Route::Keep, ..) => "same object",
            (Route::Move, ..) if !downloads => "move",
            (_, Device::Host, Device::Accelerator(_)) => "upload",
            (_, Device::Accelerator(_), Device::Host) => "download",
            _ if downloads => "through the host",
            (_, Device::Accelerator(from), Device::Accelerator(to)) if from != to => {
                "device to device"
            }
            (Route::Share, ..)
                if matches!(self.importer, Importer::NumpyArray | Importer::Array) =>
            {
                "view"
            }
            (Route::Share, ..) => "DLPack",
            _ => "copy",
        }
    }
}

impl Plan {
    /// The steps of an attempt in words, with the names of the doors on both sides.
    pub fn via(&self, access: Access, attempt: usize) -> String {
        let (steps, _) = self.attempt(attempt);
        let access = match steps {
            [Step::Keep] | [Step::Open, ..] => "",
            _ => access.name(),
        };
        let mut via = String::with_capacity(64);
        via.push_str(access);
        for step in steps {
            if !via.is_empty() {
                via.push_str(", ");
            }
            via.push_str(match step {
                Step::Import => self.importer.name(),
                step => step.name(),
            });
        }
        via
    }
}
