//! One static for a table.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

use super::{constant, op, variant};
use crate::table::spec::*;

/// `pub static NAME: Framework = ..;`
pub fn expand(framework: &Framework) -> TokenStream {
    let Framework {
        name,
        title,
        module,
        install,
        classes,
        immutable,
        align,
        cached_scalars,
        empty,
        oom,
        clear,
        ..
    } = framework;
    let doc = format!(" The table `{name}`: {title}.");
    let (constant, variant) = (constant(framework), variant(framework));
    let (memory, device, stream) = memory(&framework.memory);
    let isolate = option(framework.isolate.as_ref().map(|Isolate { libraries, from }| {
        quote! {
            ::arraybridge_runtime::__private::Isolate { libraries: &[#(#libraries),*], from: #from }
        }
    }));
    let dtypes = dtype_set(&framework.dtypes);
    let no_dlpack = dtype_set(&framework.no_dlpack);
    let dtype = framework.dtype.as_ref().map_or_else(attribute_of_name, op::expand);
    let dtype_names = framework.dtype_names.iter().map(|(ours, theirs)| {
        let ours = word("DType", *ours);
        quote!((#ours, #theirs))
    });
    let missing = framework.missing.iter().map(missing);
    let least = Literal::usize_unsuffixed(framework.ndim.0);
    let most = Literal::usize_unsuffixed(framework.ndim.1);
    let values = framework.values.iter().map(|(class, value)| {
        let value = op::expand(value);
        quote!((#class, #value))
    });
    let refuse = framework.refuse.iter().map(refusal);
    let guards = framework.guards.iter().map(guard);
    let reasons = framework.reasons.iter().map(guard);
    let export = option(framework.export.as_ref().map(export));
    let import = option(framework.import.as_ref().map(import));
    let to_numpy = optional_op(&framework.to_numpy);
    let from_numpy = optional_op(&framework.from_numpy);
    let copy = optional_op(&framework.copy);
    let ready = optional_op(&framework.ready);
    let version = optional_op(&framework.version);
    let array = option(framework.array.as_ref().map(array));
    let oom = oom.iter().map(oom_rule);
    let clear = clear.iter().map(op::expand);
    let host_modules = framework.host_modules.iter().map(|(from, to)| quote!((#from, #to)));
    quote! {
        #[doc = #doc]
        pub static #constant: ::arraybridge_runtime::__private::Framework =
            ::arraybridge_runtime::__private::Framework {
                memory_type: super::MemoryType::#variant,
                name: #name,
                title: #title,
                module: #module,
                install: #install,
                classes: &[#(#classes),*],
                memory: #memory,
                immutable: #immutable,
                align: #align,
                cached_scalars: #cached_scalars,
                isolate: #isolate,
                dtypes: #dtypes,
                dtype: #dtype,
                dtype_names: &[#(#dtype_names),*],
                missing: &[#(#missing),*],
                no_dlpack: #no_dlpack,
                ndim: (#least, #most),
                empty: #empty,
                values: &[#(#values),*],
                refuse: &[#(#refuse),*],
                guards: &[#(#guards),*],
                reasons: &[#(#reasons),*],
                export: #export,
                import: #import,
                to_numpy: #to_numpy,
                from_numpy: #from_numpy,
                copy: #copy,
                ready: #ready,
                version: #version,
                device: #device,
                stream: #stream,
                array: #array,
                oom: &[#(#oom),*],
                clear: &[#(#clear),*],
                host_modules: &[#(#host_modules),*],
            };
    }
}

/// The fields `memory`, `device` and `stream`.
fn memory(memory: &Memory) -> (TokenStream, TokenStream, TokenStream) {
    let (devices, streams) = match memory {
        Memory::Host => (None, None),
        Memory::Accelerated { devices, streams, .. } => {
            (Some(devices.as_ref()), streams.as_deref())
        }
    };
    let (count, at, optional) = match devices {
        Some(Devices { count, at, optional }) => (Some(count), Some(at), optional.as_slice()),
        None => (None, None, &[][..]),
    };
    let (count, at) = (option(count.map(op::expand)), option(at.map(op::expand)));
    let fields = DEVICE_OPS.iter().map(|(name, _)| field(name));
    let ops = DEVICE_OPS.iter().map(|(name, _)| {
        let found = optional.iter().find(|(key, _)| key == name);
        option(found.and_then(|(_, op)| op.as_ref()).map(op::expand))
    });
    let devices = quote! {
        ::arraybridge_runtime::__private::Devices {
            count: #count,
            at: #at,
            #(#fields: #ops,)*
        }
    };
    let streams = streams.map(|Streams { current, wrap, scope }| {
        let (current, wrap, scope) = (op::expand(current), op::expand(wrap), op::expand(scope));
        quote! {
            ::arraybridge_runtime::__private::Streams {
                current: #current,
                wrap: #wrap,
                scope: #scope,
            }
        }
    });
    (word("Memory", memory.place()), devices, option(streams))
}

fn array(ArrayOps { namespace, ops }: &ArrayOps) -> TokenStream {
    let namespace = op::expand(namespace);
    let fields = ops.iter().map(|(name, _)| field(name));
    let ops = ops.iter().map(|(_, op)| op::expand(op));
    quote! {
        ::arraybridge_runtime::__private::ArrayOps {
            namespace: #namespace,
            #(#fields: #ops,)*
        }
    }
}

fn missing(Missing { when, dtypes, hint }: &Missing) -> TokenStream {
    let (when, dtypes) = (op::expand(when), dtype_set(dtypes));
    quote! {
        ::arraybridge_runtime::__private::Missing { when: #when, dtypes: #dtypes, hint: #hint }
    }
}

fn refusal(Refusal { why, role, classes }: &Refusal) -> TokenStream {
    let role = optional_role(*role);
    quote! {
        ::arraybridge_runtime::__private::Refusal {
            why: #why,
            role: #role,
            classes: &[#(#classes),*],
        }
    }
}

fn guard(Guard { why, role, when, then, kinds }: &Guard) -> TokenStream {
    let role = optional_role(*role);
    let (when, then) = (op::expand(when), optional_op(then));
    let kinds = kinds.iter().map(|kind| word("Kind", *kind));
    quote! {
        ::arraybridge_runtime::__private::Guard {
            why: #why,
            role: #role,
            when: #when,
            then: #then,
            kinds: &[#(#kinds),*],
        }
    }
}

fn export(Export { op, ordered_by, buffer, owner, pin }: &Export) -> TokenStream {
    let (op, owner) = (op::expand(op), optional_op(owner));
    let ordered_by = word("OrderedBy", *ordered_by);
    let pin = option(pin.as_ref().map(|Pin { when, op }| {
        let (when, op) = (op::expand(when), op::expand(op));
        quote!(::arraybridge_runtime::__private::Pin { when: #when, op: #op })
    }));
    quote! {
        ::arraybridge_runtime::__private::Export {
            op: #op,
            ordered_by: #ordered_by,
            buffer: #buffer,
            owner: #owner,
            pin: #pin,
        }
    }
}

fn import(import: &Import) -> TokenStream {
    let Import { capsule, devices, align, read_only, shares, .. } = import;
    let op = op::expand(&import.op);
    let fast = import.fast.iter().map(op::expand);
    let handover = if *capsule { quote!(Capsule) } else { quote!(Object) };
    let strides = word("Strides", import.strides);
    let ordered_by = word("OrderedBy", import.ordered_by);
    quote! {
        ::arraybridge_runtime::__private::Import {
            op: #op,
            fast: &[#(#fast),*],
            handover: ::arraybridge_runtime::__private::Handover::#handover,
            devices: &[#(#devices),*],
            strides: #strides,
            align: #align,
            read_only: #read_only,
            shares: #shares,
            ordered_by: #ordered_by,
        }
    }
}

fn oom_rule(OomRule { class, when, text }: &OomRule) -> TokenStream {
    let (when, text) = (optional_op(when), option(text.as_ref().map(|text| quote!(#text))));
    quote! {
        ::arraybridge_runtime::__private::OomRule { class: #class, when: #when, text: #text }
    }
}

fn attribute_of_name() -> TokenStream {
    quote! {
        ::arraybridge_runtime::__private::Op {
            source: "getattr(module, name)",
            call: ::arraybridge_runtime::__private::op::attribute_of_name,
        }
    }
}

fn optional_role(role: Option<ReasonRole>) -> TokenStream {
    option(role.map(|role| word("ReasonRole", role)))
}

fn optional_op(op: &Option<Op>) -> TokenStream {
    option(op.as_ref().map(op::expand))
}

fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn dtype_set(dtypes: &[DType]) -> TokenStream {
    let dtypes = dtypes.iter().map(|dtype| word("DType", *dtype));
    quote!(::arraybridge_runtime::__private::DTypeSet::of(&[#(#dtypes),*]))
}

/// A variant of one of the runtime's enums.
fn word(of: &str, word: impl Word) -> TokenStream {
    let (of, variant) = (format_ident!("{of}"), format_ident!("{}", word.variant()));
    quote!(::arraybridge_runtime::__private::#of::#variant)
}

/// A field of one of the runtime's structs, whose name may be a keyword.
fn field(name: &str) -> Ident {
    syn::parse_str(name).unwrap_or_else(|_| Ident::new_raw(name, Span::call_site()))
}
