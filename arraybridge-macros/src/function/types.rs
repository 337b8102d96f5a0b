//! What the type of a parameter or of a result says.

use syn::{GenericArgument, Ident, PathArguments, PathSegment, Type};

use super::{Argument, Kind};

/// Views of the caller's memory, with or without a rank, as ndarray names them.
pub const HOST_VIEWS: [&str; 2] = ["ArrayView", "ArrayViewMut"];
/// The same in device memory.
pub const DEVICE_VIEWS: [&str; 2] = ["DeviceView", "DeviceViewMut"];

/// How an argument of a type is made.
pub fn kind(ty: &Type) -> Kind {
    if let Type::Reference(reference) = ty {
        return match kind(&reference.elem) {
            Kind::Object(_) => Kind::Object(true),
            Kind::Array => Kind::Array,
            Kind::Stream => Kind::Stream,
            Kind::Python | Kind::Device | Kind::Value => Kind::Value,
        };
    }
    if let Some(inner) = inner_of_option(ty) {
        return match kind(inner) {
            Kind::Python | Kind::Device => Kind::Value,
            kind => kind,
        };
    }
    let Some(segment) = last(ty) else { return Kind::Value };
    match segment.ident.to_string().as_str() {
        "Python" => Kind::Python,
        "Stream" => Kind::Stream,
        "Device" => Kind::Device,
        "Bound" | "Py" => Kind::Object(false),
        "Tensor" => Kind::Array,
        _ if is_array(ty, &HOST_VIEWS) || is_array(ty, &DEVICE_VIEWS) => Kind::Array,
        _ => Kind::Value,
    }
}

/// Whether a type, or the one in an `Option`, has one of these names, with or without a rank.
pub fn is_array(ty: &Type, names: &[&str]) -> bool {
    let ranks = ["", "0", "1", "2", "3", "4", "5", "6", "D"];
    let Some(segment) = last(inner_of_option(ty).unwrap_or(ty)) else { return false };
    let found = segment.ident.to_string();
    names.iter().any(|name| found.strip_prefix(name).is_some_and(|rank| ranks.contains(&rank)))
}

/// Whether a type is a view that is written through.
pub fn is_written(ty: &Type) -> bool {
    is_array(ty, &["ArrayViewMut", "DeviceViewMut"])
}

/// Whether a function with this argument has to be called on a CUDA device.
pub fn works_in_cuda(argument: &Argument) -> bool {
    argument.kind == Kind::Stream || is_array(&argument.ty, &DEVICE_VIEWS)
}

/// The last segment of a type's path.
pub fn last(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Paren(inner) => last(&inner.elem),
        Type::Group(inner) => last(&inner.elem),
        _ => None,
    }
}

/// The types in a segment's angle brackets.
pub fn generics(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

/// The type in an `Option`.
pub fn inner_of_option(ty: &Type) -> Option<&Type> {
    let segment = last(ty).filter(|segment| segment.ident == "Option")?;
    generics(segment).first().copied()
}

/// An identifier without `r#`.
pub fn unraw(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}
