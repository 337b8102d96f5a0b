//! The rules for what a declared function can be, and what it can take.

use arraybridge_table::{Place, is_keyword};
use syn::{Attribute, GenericParam, Ident, ItemFn, ReturnType, Type};

use super::elements::Elements;
use super::mistakes::Mistakes;
use super::options::{Detach, Named, Options};
use super::types::{
    DEVICE_VIEWS, HOST_VIEWS, element, generics, has_array, inner_of_option, is_array,
    is_container, is_written, kind, last, leaves, rank, unraw,
};
use super::{Argument, Binding, Default, Kind, Method};

/// Checks the function itself.
pub fn signature(function: &ItemFn, mistakes: &mut Mistakes) {
    let signature = &function.sig;
    attributes(&function.attrs, mistakes);
    if let ReturnType::Type(_, ty) = &signature.output {
        result(ty, mistakes);
    }
    if let Some(token) = &signature.asyncness {
        mistakes.add(token, "a declared function cannot be async; block on the work inside it");
    }
    if let syn::Safety::Unsafe(token) = &signature.safety {
        let message = "a declared function cannot be unsafe, since Python calls it; declare a safe \
                       function that calls this one";
        mistakes.add(token, message);
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.add(variadic, "a declared function has a fixed number of parameters");
    }
}

/// Checks that a method is declared as one, and is bound to something if it is not static.
pub fn binding(function: &ItemFn, method: Option<&Method>, mistakes: &mut Mistakes) {
    let receiver = function.sig.receiver();
    let Some(method) = method else {
        let is_bound = |attribute: &&Attribute| {
            ["staticmethod", "classmethod"].iter().any(|name| attribute.path().is_ident(name))
        };
        let message = "a method is declared where the class has its methods; write `#[memory_methods]` above \
                       the `#[pymethods]` of the `impl` block";
        if let Some(receiver) = receiver {
            mistakes.add(receiver, message);
        } else if let Some(attribute) = function.attrs.iter().find(is_bound) {
            mistakes.add(attribute, message);
        }
        return;
    };
    let (at, inputs) = (&function.sig.ident, &function.sig.inputs);
    match (method.binding, receiver) {
        (Binding::Instance, None) => {
            mistakes.add(
                at,
                "a method takes `&self` or `&mut self`; for another one, add `#[staticmethod]`",
            );
        }
        (Binding::Class | Binding::Static, Some(receiver)) => {
            mistakes
                .add(receiver, "a static method and a class method have no instance; remove it");
        }
        (Binding::Class, None) if inputs.is_empty() => {
            mistakes.add(at, "a class method takes its class; add `cls: &Bound<'_, PyType>`");
        }
        _ => {}
    }
}

/// Checks that the function has no type parameter but that of its element types.
pub fn generics_of(function: &ItemFn, elements: Option<&Elements>, mistakes: &mut Mistakes) {
    for parameter in &function.sig.generics.params {
        let is_allowed = match parameter {
            GenericParam::Lifetime(_) => true,
            GenericParam::Type(ty) => elements.is_some_and(|set| set.parameter == ty.ident),
            GenericParam::Const(_) => false,
        };
        if !is_allowed {
            let message = "a declared function cannot be generic, since Python calls one function; \
                           name the element types that it takes, as in `for T in (u8, f32)`, or take a \
                           `Tensor` and dispatch";
            mistakes.add(parameter, message);
        }
    }
}

/// Checks that PyO3 does not declare the function too.
fn attributes(attributes: &[Attribute], mistakes: &mut Mistakes) {
    for attribute in attributes {
        if attribute.path().segments.last().is_some_and(|name| name.ident == "pyfunction") {
            let message = "`#[memory_type(..)]` makes the Python function; remove `#[pyfunction]`, and \
                           call `arraybridge_runtime::python::export` in the module";
            mistakes.add(attribute, message);
        } else if attribute.path().is_ident("pyo3") {
            let message = "a declared function has no PyO3 options; use those of \
                           `#[memory_type(..)]`, such as `name = \"..\"` and `defaults(..)`";
            mistakes.add(attribute, message);
        }
    }
}

/// Checks that a result owns its memory.
fn result(ty: &Type, mistakes: &mut Mistakes) {
    if let Some(segment) = last(ty)
        && ["Result", "PyResult"].iter().any(|name| segment.ident == name)
    {
        return generics(segment).first().into_iter().for_each(|ty| result(ty, mistakes));
    }
    owned_result(ty, mistakes);
}

/// Checks that a value owns its memory.
pub fn owned_result(ty: &Type, mistakes: &mut Mistakes) {
    leaves(ty).into_iter().for_each(|leaf| owned(leaf, mistakes));
}

fn owned(ty: &Type, mistakes: &mut Mistakes) {
    let borrowed = match ty {
        Type::Reference(reference) => is_array(&reference.elem, &OWNED),
        ty => [&HOST_VIEWS[..], &DEVICE_VIEWS, &["TensorView"]]
            .iter()
            .any(|views| is_array(ty, views)),
    };
    if borrowed {
        let message = "a result cannot borrow memory, since Python may use it for longer; return an owned \
                       array, such as that of `to_owned()`";
        mistakes.add(ty, message);
    }
}

/// Arrays of ndarray that are not views.
const OWNED: [&str; 4] = ["Array", "ArcArray", "CowArray", "ArrayRef"];

/// The rank and the element type of an array that owns its memory, or of a slice.
fn owned_array(ty: &Type) -> Option<(&'static str, String)> {
    if let Type::Slice(slice) = ty {
        return Some(("1", last(&slice.elem)?.ident.to_string()));
    }
    let rank = rank(ty, &OWNED)?;
    let rank = if rank.is_empty() { "D" } else { rank };
    Some((rank, element(ty).unwrap_or_else(|| "_".to_owned())))
}

/// Checks that an array is taken as a view.
fn view(ty: &Type, mistakes: &mut Mistakes) {
    let array = inner_of_option(ty).unwrap_or(ty);
    let (array, mutable) = match array {
        Type::Reference(reference) => (&*reference.elem, reference.mutability.is_some()),
        array => (array, false),
    };
    let Some((rank, element)) = owned_array(array) else { return };
    // PyO3 borrows the bytes of `bytes`.
    if matches!(array, Type::Slice(_)) && element == "u8" && !mutable {
        return;
    }
    let view = if mutable { "ArrayViewMut" } else { "ArrayView" };
    let message = format!(
        "an array argument is a view of the caller's memory; take `{view}{rank}<'_, {element}>`"
    );
    mistakes.add(ty, message);
}

/// Checks that a container of arrays holds nothing else.
fn container(ty: &Type, mistakes: &mut Mistakes) {
    for leaf in leaves(ty) {
        if owned_array(leaf).is_some() {
            view(leaf, mistakes);
        } else if kind(leaf) != Kind::Array {
            let message = "a container with arrays holds only arrays; take other values as arguments of their own";
            mistakes.add(leaf, message);
        }
    }
}

/// Checks a parameter's name and type.
pub fn argument(argument: &Argument, mistakes: &mut Mistakes) {
    let Argument { ident, ty, kind, default, .. } = argument;
    if *kind == Kind::Object(true) && default.is_some() {
        mistakes.add(ty, "an object in an `Option` is taken by value; remove the `&`");
    }
    if let Type::Reference(reference) = inner_of_option(ty).unwrap_or(ty)
        && is_container(&reference.elem)
    {
        let message =
            "a container of arrays is made for the call; take it by value, a slice as a `Vec`";
        mistakes.add(ty, message);
    } else if is_container(ty) {
        container(ty, mistakes);
    } else {
        view(ty, mistakes);
    }
    let name = unraw(ident);
    if !kind.is_injected() && is_keyword(&name) {
        let message = format!(
            "`{name}` is a keyword in Python and cannot name an argument there; write `{name}_`"
        );
        mistakes.add(ident, message);
    }
}

/// Checks that views are of memory that the framework's arrays can be in.
pub fn memory(framework: &str, place: &Place, arguments: &[Argument], mistakes: &mut Mistakes) {
    match place {
        Place::Accelerator => no_host_views(framework, arguments, mistakes),
        Place::Host => no_devices(framework, arguments, mistakes),
        Place::Either => {}
    }
}

fn no_host_views(framework: &str, arguments: &[Argument], mistakes: &mut Mistakes) {
    for argument in arguments.iter().filter(|argument| has_array(&argument.ty, &HOST_VIEWS)) {
        let message = format!(
            "arrays of `{framework}` are never in host memory, and this is a view of host memory; \
             take a `Tensor`, or declare the function for `numpy`"
        );
        mistakes.add(&argument.ty, message);
    }
}

fn no_devices(framework: &str, arguments: &[Argument], mistakes: &mut Mistakes) {
    for argument in arguments {
        let (what, instead) = match argument.kind {
            _ if has_array(&argument.ty, &DEVICE_VIEWS) => {
                ("this is a view of device memory", "take an `ArrayView`")
            }
            Kind::Stream => ("the host has no streams", "remove the parameter"),
            Kind::Device => ("there is no device to choose", "remove the parameter"),
            _ => continue,
        };
        let message = format!(
            "arrays of `{framework}` are always in host memory, and {what}; {instead}, or declare \
             the function for a framework with CUDA memory, such as `cupy`"
        );
        mistakes.add(&argument.ty, message);
    }
}

/// Checks that the function borrows what belongs to the call.
pub fn borrowed(arguments: &[Argument], mistakes: &mut Mistakes) {
    for Argument { kind, ty, .. } in arguments {
        let message = match kind {
            Kind::Stream => "the call only borrows its stream; take `&Stream`",
            Kind::Interrupt => "the token belongs to the call; take `&Interrupt`",
            _ => continue,
        };
        if !matches!(ty, Type::Reference(_)) {
            mistakes.add(ty, message);
        }
    }
}

/// Checks that a detached function takes nothing that needs the interpreter, and that the option has an
/// effect.
pub fn detached(options: &Options, arguments: &[Argument], mistakes: &mut Mistakes) {
    let Some(detach) = options.detach else { return };
    if matches!(detach, Detach::Copy) {
        for name in &options.no_copy {
            let message = format!(
                "`detach = copy` copies `{name}`, and `no_copy` refuses a copy; remove one of the two"
            );
            mistakes.add(name, message);
        }
    }
    for Argument { kind, ty, ident, .. } in arguments {
        if matches!(kind, Kind::Receiver(_) | Kind::Class(_)) {
            let message = "a method with an instance or a class is not detached; remove `detach`";
            mistakes.add(ident, message);
        } else if kind.needs_interpreter() {
            let message = "a detached function cannot take Python objects; remove `detach`, or take \
                           arrays and plain values";
            mistakes.add(ty, message);
        } else if matches!(detach, Detach::IfPrivate) && has_array(ty, &["ArrayViewMut"]) {
            let message = "`detach` has no effect, since others can write to the caller's own memory; \
                           write `unsafe(detach)` if they never do while the function runs, or remove \
                           it";
            mistakes.add(ty, message);
        } else if matches!(detach, Detach::Copy) && has_array(ty, &["ArrayViewMut"]) {
            let message = "`detach = copy` cannot copy what the function writes to, since others could \
                           write to the original meanwhile, and one of both writes would be lost; return \
                           an array, or write `unsafe(detach)` if nobody else uses it while the function \
                           runs";
            mistakes.add(ty, message);
        }
    }
}

/// Checks that bools are not written to while Python code runs, which could write other bytes there.
pub fn written_bools(arguments: &[Argument], elements: Option<&Elements>, mistakes: &mut Mistakes) {
    let runs_python = |kind: Kind| kind.needs_interpreter() || kind == Kind::Interrupt;
    if !arguments.iter().any(|argument| runs_python(argument.kind)) {
        return;
    }
    for argument in arguments.iter().filter(|argument| is_written(&argument.ty)) {
        let ty = &argument.ty;
        let may_be = elements
            .is_some_and(|elements| elements.is_element_of(argument) && elements.has("bool"));
        let is_bool = |leaf| is_written(leaf) && element(leaf).is_some_and(|name| name == "bool");
        if may_be || leaves(ty).into_iter().any(is_bool) {
            let message = "a function that takes Python objects or an `Interrupt` cannot write to bools in \
                           place: Python code may write bytes that are neither 0 nor 1; return a new array";
            mistakes.add(ty, message);
        }
    }
}

/// Gives the parameters their defaults, and checks that those with one come last.
pub fn defaults(arguments: &mut [Argument], options: &Options, mistakes: &mut Mistakes) {
    for Named(name, value) in &options.defaults {
        match arguments.iter_mut().find(|argument| argument.ident == *name) {
            None => mistakes.add(name, format!("there is no parameter `{name}`")),
            Some(Argument { default: Some(Default::Given(_)), .. }) => {
                mistakes.add(name, format!("`{name}` already has a default; write it once"));
            }
            Some(argument) if argument.kind != Kind::Value => {
                mistakes.add(name, "only plain values have defaults; make an array an `Option`");
            }
            Some(argument) => argument.default = Some(Default::Given(Box::new(value.clone()))),
        }
    }
    let mut optional: Option<&Ident> = None;
    for argument in arguments.iter().filter(|argument| !argument.kind.is_injected()) {
        match (&argument.default, optional) {
            (Some(_), _) => optional = Some(&argument.ident),
            (None, Some(before)) => {
                let ident = &argument.ident;
                let message = format!(
                    "`{ident}` has no default but follows `{before}`, which has one; give it one \
                     too, or put it first"
                );
                mistakes.add(ident, message);
            }
            (None, None) => {}
        }
    }
}
