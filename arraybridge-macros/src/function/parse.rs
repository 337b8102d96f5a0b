//! The attribute and the function, read and checked; all mistakes are reported at once.

use arraybridge_table::{Place, instead, is_keyword};
use proc_macro2::TokenStream;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lifetime, Lit, Meta, MetaNameValue, Pat,
    Receiver, ReceiverKind, Result, ReturnType, Type, parse_quote,
};

use super::attributes::Inherited;
use super::mistakes::Mistakes;
use super::options::Options;
use super::settings::settings;
use super::types::{Ungrouped, inner_of_option, kind, unraw};
use super::{Argument, Binding, Constraints, Declared, Default, Kind, Method, check, constraints};

/// Frameworks and where their arrays live.
type Known = [(String, Place)];

/// Reads a declaration.
pub fn read(attribute: TokenStream, item: TokenStream, known: &Known) -> Result<Declared> {
    let function: ItemFn = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), "#[memory_type(..)] declares a function"))?;
    read_function(attribute, function, None, known)
}

/// Reads the declaration of a function or of a method.
pub fn read_function(
    attribute: TokenStream,
    mut function: ItemFn,
    method: Option<Method>,
    known: &Known,
) -> Result<Declared> {
    Ungrouped.visit_signature_mut(&mut function.sig);
    let mut mistakes = Mistakes::default();
    let options = mistakes.take(syn::parse2::<Options>(attribute));
    if let Some(options) = &options {
        check::generics_of(&function, options.elements.as_ref(), &mut mistakes);
    }
    let options = options.unwrap_or_default();
    let framework = options.framework.as_ref().and_then(|name| find(name, known, &mut mistakes));
    let input = options.input.as_ref().and_then(|name| find(name, known, &mut mistakes));
    check::signature(&function, &mut mistakes);
    check::binding(&function, method.as_ref(), &mut mistakes);
    let arguments = arguments(&function, method.as_ref(), framework, &options, &mut mistakes);
    if let Some(elements) = &options.elements {
        elements.check(&function.sig, &arguments, &mut mistakes);
    }
    if let Some(rule) = &options.result {
        let signature = (&arguments[..], &function.sig.output);
        rule.check(&options, signature, method.is_some(), &mut mistakes);
    }
    let declared = Declared {
        name: python_name(&function, &options, &mut mistakes),
        docs: docs(&function.attrs),
        inherited: Inherited::of(&function.attrs),
        framework: framework.map(|(name, _)| name.clone()).unwrap_or_default(),
        returns: returns(framework, &options, known, &mut mistakes),
        cast: options.cast,
        stop_gradient: options.stop_gradient,
        detach: options.detach,
        settings: settings(&options, input.map(|(name, _)| &**name), &arguments, &mut mistakes),
        host: options.host,
        rule: options.result,
        elements: options.elements,
        runtime: options.runtime.unwrap_or_else(|| parse_quote!(::arraybridge_runtime)),
        arguments,
        result: result(function.sig.output),
        ident: function.sig.ident,
        method,
    };
    mistakes.gate(declared)
}

/// The parameters, checked against the framework and the options.
fn arguments(
    function: &ItemFn,
    method: Option<&Method>,
    framework: Option<&(String, Place)>,
    options: &Options,
    mistakes: &mut Mistakes,
) -> Vec<Argument> {
    let inputs = function.sig.inputs.iter();
    let mut arguments: Vec<_> = inputs.filter_map(|input| argument(input, mistakes)).collect();
    if let (Some(method), Some(first)) = (method, arguments.first_mut()) {
        match (method.binding, &first.ty) {
            (Binding::Instance, _) if matches!(first.kind, Kind::Receiver(_)) => {
                first.ty = method.class.clone();
            }
            (Binding::Class, ty) => {
                first.kind = Kind::Class(matches!(ty, Type::Reference(_)));
            }
            _ => {}
        }
    }
    if let Some((name, place)) = framework {
        check::memory(name, place, &arguments, mistakes);
    }
    check::borrowed(&arguments, mistakes);
    check::detached(options, &arguments, mistakes);
    check::written_bools(&arguments, options.elements.as_ref(), mistakes);
    check::defaults(&mut arguments, options, mistakes);
    constraints::apply(&mut arguments, options, mistakes);
    arguments
}

/// The framework of the results; `None` for the one of the first array argument.
fn returns(
    framework: Option<&(String, Place)>,
    options: &Options,
    known: &Known,
    mistakes: &mut Mistakes,
) -> Option<String> {
    let found = match &options.returns {
        None => framework,
        Some(name) if name == "input" => None,
        Some(name) => find(name, known, mistakes),
    };
    found.map(|(name, _)| name.clone())
}

fn result(mut result: ReturnType) -> ReturnType {
    Anonymous.visit_return_type_mut(&mut result);
    result
}

fn find<'a>(
    name: &Ident,
    known: &'a Known,
    mistakes: &mut Mistakes,
) -> Option<&'a (String, Place)> {
    let found = known.iter().find(|(known, _)| name == known);
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        let near = instead(&name.to_string(), "frameworks", &names);
        let near = if near.starts_with("write") { format!("{near}; ") } else { String::new() };
        let list = names.join(", ");
        mistakes.add(name, format!("unknown framework `{name}`; {near}known frameworks: {list}"));
    }
    found
}

fn argument(input: &FnArg, mistakes: &mut Mistakes) -> Option<Argument> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => return instance(receiver, mistakes),
    };
    if let Some(attribute) = typed.attrs.iter().find(|attribute| is_condition(attribute)) {
        let message = "Python sees the same parameters in every build; declare two functions, each \
                       with a condition";
        mistakes.add(attribute, message);
    }
    let Pat::Ident(name) = &*typed.pat else {
        mistakes.add(&typed.pat, "Python passes a parameter by its name; write a name");
        return None;
    };
    if let Type::ImplTrait(ty) = &*typed.ty {
        mistakes.add(ty, "a parameter cannot be `impl Trait`; write a type, or list element types with `for T in (u8, f32)`");
        return None;
    }
    let mut ty = (*typed.ty).clone();
    Anonymous.visit_type_mut(&mut ty);
    let default = inner_of_option(&ty).map(|_| Default::None);
    let constraints = Constraints::default();
    let argument =
        Argument { ident: name.ident.clone(), kind: kind(&ty), ty, default, constraints };
    check::argument(&argument, mistakes);
    Some(argument)
}

/// The instance that a method is called on.
fn instance(receiver: &Receiver, mistakes: &mut Mistakes) -> Option<Argument> {
    let ReceiverKind::Reference(_, _, mutability) = &receiver.kind else {
        mistakes.add(receiver, "a declared method takes `&self` or `&mut self`");
        return None;
    };
    Some(Argument {
        ident: Ident::new("self", receiver.self_token.span),
        kind: Kind::Receiver(mutability.is_some()),
        ty: parse_quote!(Self),
        default: None,
        constraints: Constraints::default(),
    })
}

/// Returns whether an attribute removes its item from some builds.
fn is_condition(attribute: &Attribute) -> bool {
    ["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name))
}

/// The function's name in Python.
fn python_name(function: &ItemFn, options: &Options, mistakes: &mut Mistakes) -> String {
    let Some(name) = &options.name else {
        let name = unraw(&function.sig.ident);
        if is_keyword(&name) {
            let message = format!(
                "`{name}` is a keyword in Python and cannot name a function there; add \
                 `name = \"{name}_\"`"
            );
            mistakes.add(&function.sig.ident, message);
        }
        return name;
    };
    let text = name.value();
    if syn::parse_str::<Ident>(&format!("r#{text}")).is_err() || is_keyword(&text) {
        mistakes.add(name, "a function in Python cannot have this name; write an identifier");
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

/// The expression in the invisible parentheses around what a `macro_rules!` macro was given.
fn ungrouped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        expr => expr,
    }
}

/// The text of the documentation comments, without the space that follows `///`.
pub fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(MetaNameValue { path, value, .. }) = &attribute.meta else {
            return None;
        };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = ungrouped(value) else { return None };
        let text = path.is_ident("doc").then(|| text.value())?;
        Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
    });
    lines.collect::<Vec<_>>().join("\n")
}
