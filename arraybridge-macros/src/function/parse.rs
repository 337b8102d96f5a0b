//! The attribute and the function, read and checked; all mistakes are reported at once.

use proc_macro2::TokenStream;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Lifetime, Meta,
    Pat, PathArguments, PathSegment, Result, Type, parse_quote,
};

use super::mistakes::Mistakes;
use super::options::Options;
use super::settings::settings;
use super::{Argument, Declared, Default, Kind};
use crate::problems::instead;
use crate::table::spec::Place;

/// Frameworks and where their arrays live.
type Known = [(String, Place)];

/// Reads a declaration.
pub fn read(attribute: TokenStream, item: TokenStream, known: &Known) -> Result<Declared> {
    let function: ItemFn = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), "#[memory_type(..)] declares a function"))?;
    let mut mistakes = Mistakes::default();
    let options = mistakes.take(syn::parse2::<Options>(attribute)).unwrap_or_default();
    let framework = options.framework.as_ref().and_then(|name| find(name, known, &mut mistakes));
    let returns = match &options.returns {
        None => framework.map(|(name, _)| name.clone()),
        Some(input) if input == "input" => None,
        Some(name) => find(name, known, &mut mistakes).map(|(name, _)| name.clone()),
    };
    let input = options.input.as_ref().and_then(|name| find(name, known, &mut mistakes));
    shape(&function, &mut mistakes);
    let mut arguments = Vec::new();
    for input in &function.sig.inputs {
        arguments.extend(argument(input, &mut mistakes));
    }
    match framework {
        Some((name, Place::Accelerator)) => no_host_views(name, &arguments, &mut mistakes),
        Some((name, Place::Host)) => no_devices(name, &arguments, &mut mistakes),
        _ => {}
    }
    no_owned_streams(&arguments, &mut mistakes);
    defaults(&mut arguments, &options, &mut mistakes);
    if options.detach {
        for argument in &arguments {
            if matches!(argument.kind, Kind::Python | Kind::Object(_)) {
                let message = "a function that runs detached takes no Python objects; remove \
                               `detach`, or take arrays and plain values";
                mistakes.add(&argument.ty, message);
            }
        }
    }
    let settings = settings(&options, input.map(|(name, _)| &**name), &arguments, &mut mistakes);
    let name = python_name(&function, &options, &mut mistakes);
    let mut result = function.sig.output.clone();
    Anonymous.visit_return_type_mut(&mut result);
    let declared = Declared {
        name,
        docs: docs(&function.attrs),
        framework: framework.map(|(name, _)| name.clone()).unwrap_or_default(),
        returns,
        cast: options.cast,
        detach: options.detach,
        settings,
        host: options.host,
        runtime: options.runtime.unwrap_or_else(|| parse_quote!(::arraybridge_runtime)),
        arguments,
        result,
        ident: function.sig.ident,
    };
    mistakes.gate(declared)
}

pub fn unraw(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

fn find<'a>(
    name: &Ident,
    known: &'a Known,
    mistakes: &mut Mistakes,
) -> Option<&'a (String, Place)> {
    let found = known.iter().find(|(known, _)| name == known);
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        let list = names.join(", ");
        let mut message = format!("unknown framework `{name}`; known frameworks: {list}");
        let near = instead(&name.to_string(), "frameworks", &names);
        if near.starts_with("write") {
            message = format!("unknown framework `{name}`; {near}; known frameworks: {list}");
        }
        mistakes.add(name, message);
    }
    found
}

/// What a declared function cannot be.
fn shape(function: &ItemFn, mistakes: &mut Mistakes) {
    let signature = &function.sig;
    if let Some(token) = &signature.asyncness {
        mistakes.add(token, "a declared function is not async; block on the work inside it");
    }
    if let syn::Safety::Unsafe(token) = &signature.safety {
        mistakes
            .add(token, "a declared function is safe to call; declare a safe one that calls it");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.add(variadic, "a declared function has a fixed number of parameters");
    }
    for parameter in &signature.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            let message = "a declared function has no generic parameters, since Python calls one \
                           function; declare one for each type, or take a `Tensor` and dispatch";
            mistakes.add(parameter, message);
        }
    }
}

fn argument(input: &FnArg, mistakes: &mut Mistakes) -> Option<Argument> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => {
            mistakes
                .add(receiver, "a declared function is no method; take the value as an argument");
            return None;
        }
    };
    if let Some(attribute) = typed.attrs.iter().find(|attribute| is_condition(attribute)) {
        let message = "Python sees the same parameters in every build; put the condition on two \
                       functions";
        mistakes.add(attribute, message);
    }
    let Pat::Ident(name) = &*typed.pat else {
        mistakes.add(&typed.pat, "a parameter of a declared function needs a name: Python sees it");
        return None;
    };
    if let Type::ImplTrait(ty) = &*typed.ty {
        mistakes.add(ty, "a declared function has no generic parameters; write a type");
        return None;
    }
    let mut ty = (*typed.ty).clone();
    Anonymous.visit_type_mut(&mut ty);
    let default = inner_of_option(&ty).map(|_| Default::None);
    let argument = Argument { ident: name.ident.clone(), kind: kind(&ty), ty, default };
    if argument.kind == Kind::Object(true) && argument.default.is_some() {
        mistakes.add(&argument.ty, "an object in an `Option` is taken by value; remove the `&`");
    }
    if !argument.kind.is_injected() && is_keyword(&unraw(&argument.ident)) {
        let message = format!(
            "`{0}` is a keyword of Python, which cannot name an argument so; write `{0}_`",
            unraw(&argument.ident)
        );
        mistakes.add(&argument.ident, message);
    }
    Some(argument)
}

/// Whether an attribute lets what it stands on be there in some builds only.
fn is_condition(attribute: &Attribute) -> bool {
    ["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name))
}

/// The words that are no names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// The name that Python calls the function by.
fn python_name(function: &ItemFn, options: &Options, mistakes: &mut Mistakes) -> String {
    let Some(name) = &options.name else {
        let name = unraw(&function.sig.ident);
        if is_keyword(&name) {
            let message = format!(
                "`{name}` is a keyword of Python, which cannot call a function so; give it another \
                 name there with `name = \"{name}_\"`"
            );
            mistakes.add(&function.sig.ident, message);
        }
        return name;
    };
    let text = name.value();
    if syn::parse_str::<Ident>(&format!("r#{text}")).is_err() || is_keyword(&text) {
        mistakes.add(name, "no function of Python can be called that; write a name");
    }
    text
}

/// Lifetimes are the trampoline's own: they are inferred.
struct Anonymous;

impl VisitMut for Anonymous {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident != "static" {
            lifetime.ident = Ident::new("_", lifetime.ident.span());
        }
    }
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

fn kind(ty: &Type) -> Kind {
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

const HOST_VIEWS: [&str; 2] = ["ArrayView", "ArrayViewMut"];
const DEVICE_VIEWS: [&str; 2] = ["DeviceView", "DeviceViewMut"];

/// Whether a type, or that in an `Option`, has one of these names, or one of them and a rank as
/// ndarray's types have it.
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

/// Whether an argument makes it necessary that the function is called on a CUDA device.
pub fn works_in_cuda(argument: &Argument) -> bool {
    argument.kind == Kind::Stream || is_array(&argument.ty, &DEVICE_VIEWS)
}

fn no_host_views(framework: &str, arguments: &[Argument], mistakes: &mut Mistakes) {
    for argument in arguments.iter().filter(|argument| is_array(&argument.ty, &HOST_VIEWS)) {
        let message = format!(
            "`{framework}` keeps arrays on accelerators only, and this is a view of host memory; take \
             a `Tensor`, or declare the function for `numpy`"
        );
        mistakes.add(&argument.ty, message);
    }
}

fn no_devices(framework: &str, arguments: &[Argument], mistakes: &mut Mistakes) {
    for argument in arguments {
        let (what, instead) = match argument.kind {
            _ if is_array(&argument.ty, &DEVICE_VIEWS) => {
                ("this is a view of device memory", "take an `ArrayView`")
            }
            Kind::Stream => ("streams are those of devices", "remove it"),
            Kind::Device => ("its functions have no choice of a device", "remove it"),
            _ => continue,
        };
        let message = format!(
            "`{framework}` keeps arrays in host memory only, and {what}; {instead}, or declare the \
             function for a framework with CUDA memory, such as `cupy`"
        );
        mistakes.add(&argument.ty, message);
    }
}

fn no_owned_streams(arguments: &[Argument], mistakes: &mut Mistakes) {
    for argument in arguments.iter().filter(|argument| argument.kind == Kind::Stream) {
        if !matches!(argument.ty, Type::Reference(_)) {
            mistakes.add(&argument.ty, "the stream is lent for the call; take `&Stream`");
        }
    }
}

fn defaults(arguments: &mut [Argument], options: &Options, mistakes: &mut Mistakes) {
    for (name, value) in &options.defaults {
        match arguments.iter_mut().find(|argument| argument.ident == *name) {
            None => mistakes.add(name, format!("there is no parameter `{name}`")),
            Some(Argument { default: Some(Default::Given(_)), .. }) => {
                mistakes.add(name, format!("`{name}` has a default already; write it once"));
            }
            Some(argument) if argument.kind != Kind::Value => {
                mistakes.add(name, "only plain values have defaults; make an array an `Option`");
            }
            Some(argument) => argument.default = Some(Default::Given(Box::new(value.clone()))),
        }
    }
    let mut seen: Option<&Ident> = None;
    for argument in arguments.iter().filter(|argument| !argument.kind.is_injected()) {
        match (&argument.default, seen) {
            (Some(_), _) => seen = Some(&argument.ident),
            (None, Some(before)) => {
                let ident = &argument.ident;
                let message = format!(
                    "`{ident}` has no default and follows `{before}`, which has one; give it one too, \
                     or put it first"
                );
                mistakes.add(ident, message);
            }
            (None, None) => {}
        }
    }
}

fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(text) => {
                    let text = text.value();
                    Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}
