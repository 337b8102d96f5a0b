//! The information in the type of a parameter or of a result.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{GenericArgument, Ident, PathArguments, PathSegment, Type, TypeGroup, TypeParen};

use super::elements::Elements;
use super::{Argument, Kind};

/// Views of the caller's memory, with or without a rank, as ndarray names them.
pub const HOST_VIEWS: [&str; 2] = ["ArrayView", "ArrayViewMut"];
/// The same in device memory.
pub const DEVICE_VIEWS: [&str; 2] = ["DeviceView", "DeviceViewMut"];

/// The endings that the name of an array type can have.
const RANKS: [&str; 9] = ["", "0", "1", "2", "3", "4", "5", "6", "D"];

/// Takes types out of parentheses, and out of the invisible ones around what a `macro_rules!` macro was given.
/// Parentheses around bounds stay: `&(dyn A + B)` needs them.
pub struct Ungrouped;

impl VisitMut for Ungrouped {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        while let Type::Group(TypeGroup { elem, .. }) | Type::Paren(TypeParen { elem, .. }) = ty
            && !matches!(**elem, Type::TraitObject(_) | Type::ImplTrait(_))
        {
            *ty = (**elem).clone();
        }
        visit_type_mut(self, ty);
    }
}

/// The types in an `Option`, a container or a tuple, whatever is around them; the type itself if it is
/// neither. The keys of maps do not count.
pub fn leaves(ty: &Type) -> Vec<&Type> {
    contents(ty).map_or_else(|| vec![ty], |inner| inner.into_iter().flat_map(leaves).collect())
}

/// The types that a type contains, if it is an `Option`, a container or a tuple.
fn contents(ty: &Type) -> Option<Vec<&Type>> {
    match ty {
        Type::Tuple(tuple) => return Some(tuple.elems.iter().collect()),
        Type::Array(array) => return Some(vec![&array.elem]),
        Type::Slice(slice) => return Some(vec![&slice.elem]),
        _ => {}
    }
    let segment = last(ty)?;
    let inner = generics(segment);
    match (segment.ident.to_string().as_str(), &inner[..]) {
        ("Option" | "Vec", [first, ..]) => Some(vec![first]),
        ("HashMap" | "BTreeMap", [_, value, ..]) => Some(vec![value]),
        _ => None,
    }
}

/// Returns whether a type is a container of arrays: one that is not an `Option` of a single one.
pub fn is_container(ty: &Type) -> bool {
    let inner = inner_of_option(ty).unwrap_or(ty);
    contents(inner).is_some_and(|inner| inner.into_iter().any(holds_arrays))
}

/// Returns whether a type is an array that Rust reads, or contains one.
fn holds_arrays(ty: &Type) -> bool {
    leaves(ty).into_iter().any(|leaf| leaf_kind(leaf) == Kind::Array)
}

/// Returns whether a type is one of these arrays, or contains one.
pub fn has_array(ty: &Type, names: &[&str]) -> bool {
    leaves(ty).into_iter().any(|leaf| is_array(leaf, names))
}

/// The way in which an argument of a type is made.
pub fn kind(ty: &Type) -> Kind {
    match is_container(ty) {
        true => Kind::Array,
        false => leaf_kind(ty),
    }
}

fn leaf_kind(ty: &Type) -> Kind {
    if let Type::Reference(reference) = ty {
        return match leaf_kind(&reference.elem) {
            Kind::Object(_) => Kind::Object(true),
            Kind::Array => Kind::Array,
            kind @ (Kind::Stream | Kind::Interrupt) => kind,
            _ => Kind::Value,
        };
    }
    if let Some(inner) = inner_of_option(ty) {
        return match leaf_kind(inner) {
            Kind::Python | Kind::Device => Kind::Value,
            kind => kind,
        };
    }
    let Some(segment) = last(ty) else { return Kind::Value };
    match segment.ident.to_string().as_str() {
        "Python" => Kind::Python,
        "Stream" => Kind::Stream,
        "Device" => Kind::Device,
        "Interrupt" => Kind::Interrupt,
        "Bound" | "Py" => Kind::Object(false),
        "Tensor" => Kind::Array,
        _ if is_array(ty, &HOST_VIEWS) || is_array(ty, &DEVICE_VIEWS) => Kind::Array,
        _ => Kind::Value,
    }
}

/// Returns whether a type, or the one in an `Option`, has one of these names, with or without a
/// rank.
pub fn is_array(ty: &Type, names: &[&str]) -> bool {
    rank(ty, names).is_some()
}

/// The rank in the name of a type, or of the one in an `Option`, that has one of these names.
pub fn rank(ty: &Type, names: &[&str]) -> Option<&'static str> {
    let found = last(inner_of_option(ty).unwrap_or(ty))?.ident.to_string();
    names.iter().find_map(|name| {
        let rank = found.strip_prefix(name)?;
        RANKS.into_iter().find(|known| *known == rank)
    })
}

/// Returns whether an array of this type can be a slice with so many axes.
pub fn takes_slices(ty: &Type, axes: usize) -> bool {
    let rank = rank(ty, &HOST_VIEWS);
    rank.is_none_or(|rank| rank.parse().map_or(true, |rank: usize| rank == axes))
}

/// Returns whether a type is a view that is written through, or contains one.
pub fn is_written(ty: &Type) -> bool {
    has_array(ty, &["ArrayViewMut", "DeviceViewMut"])
}

/// An array's element type.
pub fn element_type(ty: &Type) -> Option<&Type> {
    let segment = last(inner_of_option(ty).unwrap_or(ty))?;
    generics(segment).first().copied()
}

/// The name of an array's element type.
pub fn element(ty: &Type) -> Option<String> {
    Some(element_type(ty).and_then(last)?.ident.to_string())
}

/// Returns whether Python code may run while a function has this argument: it is the interpreter, a
/// Python object, a value of a type that may hold one, or the token that lets handlers of signals run.
pub fn takes_python(argument: &Argument, elements: Option<&Elements>) -> bool {
    match argument.kind {
        Kind::Python | Kind::Object(_) | Kind::Receiver(_) | Kind::Class(_) => true,
        Kind::Interrupt => true,
        Kind::Value => !is_plain(&argument.ty, elements),
        Kind::Stream | Kind::Device | Kind::Array => false,
    }
}

/// Returns whether a type is one of the author's, such as a struct.
pub fn is_opaque(ty: &Type) -> bool {
    const OTHERS: [&str; 4] = ["Bound", "Borrowed", "Py", "Python"];
    let segment = last(ty).filter(|segment| generics(segment).is_empty());
    segment.is_some_and(|segment| {
        !is_plain(ty, None) && !OTHERS.iter().any(|other| segment.ident == other)
    })
}

/// Returns whether a type is known not to hold Python objects.
fn is_plain(ty: &Type, elements: Option<&Elements>) -> bool {
    const PLAIN: [&str; 24] = [
        "bool", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
        "isize", "f16", "bf16", "f32", "f64", "char", "str", "String", "Path", "PathBuf",
        "Duration", "Device",
    ];
    const CONTAINERS: [&str; 9] =
        ["Option", "Vec", "Box", "Cow", "HashMap", "BTreeMap", "HashSet", "BTreeSet", "Complex"];
    let is_plain = |ty: &Type| is_plain(ty, elements);
    match ty {
        ty if elements.is_some_and(|elements| elements.is(ty)) => true,
        Type::Reference(reference) => is_plain(&reference.elem),
        Type::Tuple(tuple) => tuple.elems.iter().all(is_plain),
        Type::Array(array) => is_plain(&array.elem),
        Type::Slice(slice) => is_plain(&slice.elem),
        _ => last(ty).is_some_and(|segment| {
            let name = segment.ident.to_string();
            let inner = generics(segment);
            PLAIN.contains(&name.as_str())
                || (CONTAINERS.contains(&name.as_str()) && inner.into_iter().all(is_plain))
        }),
    }
}

/// Returns whether a function with this argument has to be called on a CUDA device.
pub fn works_in_cuda(argument: &Argument) -> bool {
    argument.kind == Kind::Stream || has_array(&argument.ty, &DEVICE_VIEWS)
}

/// Returns whether a result is an array in CUDA memory, or has one in it.
pub fn has_device_array(ty: &Type) -> bool {
    leaves(ty).into_iter().filter_map(last).any(|segment| {
        segment.ident == "DeviceArray" || generics(segment).into_iter().any(has_device_array)
    })
}

/// The last segment of a type's path.
pub fn last(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
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

/// The place where errors of generated tokens are shown. Their names are still those of the
/// expansion: what stands there may come from a `macro_rules!` macro, which sees other names.
pub fn place(at: &impl Spanned) -> Span {
    Span::call_site().located_at(at.span())
}

/// Tokens that are shown at another place in errors.
pub fn located(tokens: &impl ToTokens, place: Span) -> TokenStream {
    let moved = tokens.to_token_stream().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    moved.collect()
}

/// An identifier without `r#`.
pub fn unraw(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}
