//! One static per table.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

use super::{constant, op};
use crate::table::spec::*;

/// `pub static NAME: Framework = ..;`
pub fn expand(framework: &Framework) -> TokenStream {
    let Identity { name, title, .. } = &framework.identity;
    let doc = format!(" The table `{name}`: {title}.");
    let constant = constant(framework);
    let fields = [
        identity(framework),
        memory(framework),
        dtypes(&framework.dtypes),
        shapes(framework),
        objects(&framework.objects),
        conversions(framework),
        devices(&framework.memory),
        array(framework),
        recovery(framework),
    ];
    quote! {
        #[doc = #doc]
        pub static #constant: ::arraybridge_runtime::__private::Framework =
            ::arraybridge_runtime::__private::Framework { #(#fields)* };
    }
}

fn identity(framework: &Framework) -> TokenStream {
    let Identity { name, title, module, install, .. } = &framework.identity;
    let variant = super::variant(framework);
    let (is_tested, classes) = (framework.is_tested, &framework.objects.classes);
    quote! {
        memory_type: super::MemoryType::#variant,
        name: #name,
        title: #title,
        module: #module,
        install: #install,
        is_tested: #is_tested,
        classes: &[#(#classes),*],
    }
}

fn memory(framework: &Framework) -> TokenStream {
    let Framework { immutable, align, cached_scalars, .. } = framework;
    let memory = word("Memory", framework.memory.place());
    let isolate = option(framework.isolate.as_ref().map(|Isolate { libraries, from }| {
        quote! {
            ::arraybridge_runtime::__private::Isolate { libraries: &[#(#libraries),*], from: #from }
        }
    }));
    let init = optional_op(&framework.init);
    quote! {
        memory: #memory,
        immutable: #immutable,
        align: #align,
        cached_scalars: #cached_scalars,
        isolate: #isolate,
        init: #init,
    }
}

fn dtypes(dtypes: &DTypes) -> TokenStream {
    let DTypes { all, op, names, missing, not_exported, not_imported, not_sliced } = dtypes;
    let [all, not_exported, not_imported, not_sliced] =
        [all, not_exported, not_imported, not_sliced].map(|set| dtype_set(set));
    let op = op.as_ref().map_or_else(attribute_of_name, op::expand);
    let names = names.iter().map(|(ours, theirs)| {
        let ours = word("DType", *ours);
        quote!((#ours, #theirs))
    });
    let missing = missing.iter().map(self::missing);
    quote! {
        dtypes: #all,
        dtype: #op,
        dtype_names: &[#(#names),*],
        missing: &[#(#missing),*],
        not_exported: #not_exported,
        not_imported: #not_imported,
        not_sliced: #not_sliced,
    }
}

fn missing(Missing { when, dtypes, hint }: &Missing) -> TokenStream {
    let (when, dtypes) = (op::expand(when), dtype_set(dtypes));
    quote! {
        ::arraybridge_runtime::__private::Missing { when: #when, dtypes: #dtypes, hint: #hint }
    }
}

fn shapes(Framework { ndim: (least, most), empty, .. }: &Framework) -> TokenStream {
    let [least, most] = [least, most].map(|ndim| Literal::usize_unsuffixed(*ndim));
    quote! {
        ndim: (#least, #most),
        empty: #empty,
    }
}

fn objects(Objects { values, refuse, guards, reasons, .. }: &Objects) -> TokenStream {
    let values = values.iter().map(|(class, value)| {
        let value = op::expand(value);
        quote!((#class, #value))
    });
    let refuse = refuse.iter().map(refusal);
    let [guards, reasons] = [guards, reasons].map(|guards| guards.iter().map(guard));
    quote! {
        values: &[#(#values),*],
        refuse: &[#(#refuse),*],
        guards: &[#(#guards),*],
        reasons: &[#(#reasons),*],
    }
}

fn refusal(RefusedClasses { why, role, classes }: &RefusedClasses) -> TokenStream {
    let role = optional_role(*role);
    quote! {
        ::arraybridge_runtime::__private::RefusedClasses {
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

fn conversions(framework: &Framework) -> TokenStream {
    let export = option(framework.export.as_ref().map(export));
    let import = option(framework.import.as_ref().map(import));
    let Framework {
        to_numpy,
        from_numpy,
        copy,
        recording,
        copy_recorded,
        transforming,
        tracing,
        translate,
        ready,
        lazy,
        version,
        ..
    } = framework;
    let [to_numpy, from_numpy, copy, ready, version] =
        [to_numpy, from_numpy, copy, ready, version].map(optional_op);
    let [recording, copy_recorded, transforming, tracing, translate] =
        [recording, copy_recorded, transforming, tracing, translate].map(optional_op);
    let fast_to_numpy = framework.fast_to_numpy.iter().map(|(dtype, op)| {
        let (dtype, op) = (word("DType", *dtype), op::expand(op));
        quote!((#dtype, #op))
    });
    let fast_from_numpy = option(framework.fast_from_numpy.as_ref().map(fast_from_numpy));
    quote! {
        export: #export,
        import: #import,
        to_numpy: #to_numpy,
        from_numpy: #from_numpy,
        fast_to_numpy: &[#(#fast_to_numpy),*],
        fast_from_numpy: #fast_from_numpy,
        copy: #copy,
        recording: #recording,
        copy_recorded: #copy_recorded,
        transforming: #transforming,
        tracing: #tracing,
        translate: #translate,
        ready: #ready,
        lazy: #lazy,
        version: #version,
    }
}

fn fast_from_numpy(FastFromNumpy { create, write }: &FastFromNumpy) -> TokenStream {
    let [create, write] = [create, write].map(op::expand);
    quote! {
        ::arraybridge_runtime::__private::FastFromNumpy { create: #create, write: #write }
    }
}

fn export(export: &Export) -> TokenStream {
    let Export { op, unversioned, ordered_by, buffer, owner, pin } = export;
    let op = op::expand(op);
    let [unversioned, owner] = [unversioned, owner].map(optional_op);
    let ordered_by = word("OrderedBy", *ordered_by);
    let pin = option(pin.as_ref().map(|Pin { when, op }| {
        let (when, op) = (op::expand(when), op::expand(op));
        quote!(::arraybridge_runtime::__private::Pin { when: #when, op: #op })
    }));
    quote! {
        ::arraybridge_runtime::__private::Export {
            op: #op,
            unversioned: #unversioned,
            ordered_by: #ordered_by,
            buffer: #buffer,
            owner: #owner,
            pin: #pin,
        }
    }
}

fn import(import: &Import) -> TokenStream {
    let Import { capsule, devices, align, device_align, read_only, shares, .. } = import;
    let uses_dtype = import.op.any_uses("dtype");
    let op = op::expand(&import.op);
    let fast = import.fast.iter().map(op::expand);
    let handover = if *capsule { quote!(Capsule) } else { quote!(Object) };
    let strides = word("Strides", import.strides);
    quote! {
        ::arraybridge_runtime::__private::Import {
            op: #op,
            uses_dtype: #uses_dtype,
            fast: &[#(#fast),*],
            handover: ::arraybridge_runtime::__private::Handover::#handover,
            devices: &[#(#devices),*],
            strides: #strides,
            align: #align,
            device_align: #device_align,
            read_only: #read_only,
            shares: #shares,
        }
    }
}

/// A host framework has no device ops and no streams.
fn devices(memory: &Memory) -> TokenStream {
    let (devices, streams) = match memory {
        Memory::Host => (None, None),
        Memory::Accelerated { devices, streams, .. } => (Some(devices), streams.as_deref()),
    };
    let count = option(devices.map(|devices| op::expand(&devices.count)));
    let at = option(devices.map(|devices| op::expand(&devices.at)));
    let optional = devices.map_or(&[][..], |devices| &devices.optional);
    let fields = DEVICE_OPS.iter().map(|(name, _)| field(name));
    let ops = DEVICE_OPS.iter().map(|(name, _)| {
        let found = optional.iter().find(|(key, _)| key == name);
        option(found.and_then(|(_, op)| op.as_ref()).map(op::expand))
    });
    let streams = option(streams.map(self::streams));
    quote! {
        device: ::arraybridge_runtime::__private::Devices {
            count: #count,
            at: #at,
            #(#fields: #ops,)*
        },
        stream: #streams,
    }
}

fn streams(Streams { current, handle, wrap, scope }: &Streams) -> TokenStream {
    let [current, handle, wrap, scope] = [current, handle, wrap, scope].map(op::expand);
    quote! {
        ::arraybridge_runtime::__private::Streams {
            current: #current,
            handle: #handle,
            wrap: #wrap,
            scope: #scope,
        }
    }
}

fn array(framework: &Framework) -> TokenStream {
    let array =
        option(framework.array.as_ref().map(|ArrayOps { namespace, unstack, write, ops }| {
            let namespace = op::expand(namespace);
            let [unstack, write] = [unstack, write].map(optional_op);
            let fields = ops.iter().map(|(name, _)| field(name));
            let ops = ops.iter().map(|(_, op)| op::expand(op));
            quote! {
                ::arraybridge_runtime::__private::ArrayOps {
                    namespace: #namespace,
                    unstack: #unstack,
                    write: #write,
                    #(#fields: #ops,)*
                }
            }
        }));
    quote!(array: #array,)
}

fn recovery(framework: &Framework) -> TokenStream {
    let oom = framework.oom.iter().map(oom_rule);
    let clear = framework.clear.iter().map(op::expand);
    let host_modules = framework.host_modules.iter().map(|(from, to)| quote!((#from, #to)));
    quote! {
        oom: &[#(#oom),*],
        clear: &[#(#clear),*],
        host_modules: &[#(#host_modules),*],
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

fn optional_op(op: &Option<Op>) -> TokenStream {
    option(op.as_ref().map(op::expand))
}

fn optional_role(role: Option<ReasonRole>) -> TokenStream {
    option(role.map(|role| word("ReasonRole", role)))
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

/// A variant of an enum of the runtime.
fn word(of: &str, word: impl Word) -> TokenStream {
    let (of, variant) = (format_ident!("{of}"), format_ident!("{}", word.variant()));
    quote!(::arraybridge_runtime::__private::#of::#variant)
}

/// A field of a struct of the runtime. Its name may be a keyword.
fn field(name: &str) -> Ident {
    syn::parse_str(name).unwrap_or_else(|_| Ident::new_raw(name, Span::call_site()))
}
