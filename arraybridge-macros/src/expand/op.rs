//! An op as a function of the framework's module and of the other names in scope.

use arraybridge_table::Op;
use arraybridge_table::op::{Arguments, Code, Comparison, MODULE, NUMPY, Step};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// `Op { source, uses, call }`.
pub fn expand(op: &Op) -> TokenStream {
    let source = &op.source;
    let uses = values(op).map(|name| uses(op, name));
    let function = function(op);
    quote! {
        ::arraybridge_runtime::__private::Op {
            source: #source,
            uses: [#(#uses),*],
            call: {
                #function
                &op
            },
        }
    }
}

/// The names in scope besides the modules.
fn values(op: &Op) -> impl Iterator<Item = &'static str> {
    op.scope.iter().copied().filter(|name| ![MODULE, NUMPY].contains(name))
}

fn uses(op: &Op, name: &str) -> bool {
    op.alternatives().any(|expr| expr.uses(name)) || (name == MODULE && !op.preferred.is_empty())
}

fn function(op: &Op) -> TokenStream {
    let numpy = uses(op, NUMPY).then(|| {
        let numpy = ident(NUMPY);
        quote!(let #numpy = ::arraybridge_runtime::__private::op::numpy(py)?;)
    });
    let mut body = Body { py: numpy.is_some() };
    let result = body.alternatives(op);
    let names = values(op).map(|name| if uses(op, name) { ident(name) } else { quote!(_) });
    let count = Literal::usize_unsuffixed(values(op).count());
    let module = if uses(op, MODULE) || body.py { ident(MODULE) } else { quote!(_) };
    let py = body.py.then(|| quote!(let py = module.py();));
    quote! {
        fn op<'py>(
            #module: &::arraybridge_runtime::__private::pyo3::Bound<
                'py,
                ::arraybridge_runtime::__private::pyo3::PyAny,
            >,
            [#(#names),*]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, #count>,
        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
            #py
            #numpy
            #result
        }
    }
}

fn ident(name: &str) -> TokenStream {
    let ident = format_ident!("{name}");
    quote!(#ident)
}

fn steps(chain: &[Step<'_>]) -> TokenStream {
    let steps = chain.iter().map(|step| match step {
        Step::Attribute(name) => quote!(Attribute(#name)),
        Step::Item(key) => quote!(Item(#key)),
    });
    quote!(#(::arraybridge_runtime::__private::op::Step::#steps),*)
}

fn compare_op(comparison: Comparison) -> TokenStream {
    let variant = match comparison {
        Comparison::Eq => quote!(Eq),
        Comparison::Ne => quote!(Ne),
        Comparison::Lt => quote!(Lt),
        Comparison::Le => quote!(Le),
        Comparison::Gt => quote!(Gt),
        Comparison::Ge => quote!(Ge),
    };
    quote!(::arraybridge_runtime::__private::pyo3::pyclass::CompareOp::#variant)
}

/// A function's body, and whether it needs `py`.
struct Body {
    py: bool,
}

impl Body {
    fn alternatives(&mut self, op: &Op) -> TokenStream {
        let last = self.result(&Code::from(&op.last));
        if op.preferred.is_empty() {
            return last;
        }
        let paths = op.preferred.iter().map(|expr| {
            let path = steps(&expr.leading());
            quote!(&[#path])
        });
        let count = op.preferred.len();
        let indices = 0..count;
        let results: Vec<_> =
            op.preferred.iter().map(|expr| self.result(&Code::from(expr))).collect();
        quote! {
            static CHOICE: ::arraybridge_runtime::__private::op::Choice =
                ::arraybridge_runtime::__private::op::Choice::new(&[#(#paths),*]);
            match CHOICE.get(module) {
                #(#indices => #results,)*
                _ => #last,
            }
        }
    }

    /// An expression of type `PyResult<Bound<PyAny>>`.
    fn result(&mut self, code: &Code<'_>) -> TokenStream {
        match code {
            Code::Attribute(object, name) => {
                let object = self.reference(object);
                let name = self.interned(name);
                quote!(::arraybridge_runtime::__private::op::attribute(#object, #name))
            }
            Code::Call(callee, arguments) => {
                let callee = self.reference(callee);
                self.call(&quote!(call), &callee, arguments)
            }
            Code::Method(receiver, name, arguments) => {
                let (receiver, name) = (self.reference(receiver), self.interned(name));
                self.call(&quote!(call_method), &quote!(#receiver, #name), arguments)
            }
            Code::Item(object, key) => {
                let (object, key) = (self.reference(object), self.reference(key));
                quote!(::arraybridge_runtime::__private::op::item(#object, #key))
            }
            Code::Compare(left, comparison, right) => {
                let (left, right) = (self.reference(left), self.reference(right));
                let comparison = compare_op(*comparison);
                quote!(::arraybridge_runtime::__private::op::compare(#left, #right, #comparison))
            }
            Code::List(values) => self.sequence(&quote!(list), values),
            Code::Tuple(values) => self.sequence(&quote!(tuple), values),
            _ => {
                let value = self.reference(code);
                quote!(::core::result::Result::Ok(::core::clone::Clone::clone(#value)))
            }
        }
    }

    /// An expression of type `&Bound<PyAny>`.
    fn reference(&mut self, code: &Code<'_>) -> TokenStream {
        match code {
            Code::Name(name) => ident(name),
            Code::Str(text) => {
                let text = self.interned(text);
                quote!(#text.as_any())
            }
            Code::Int(value) => self.literal(&quote!(Int), &quote!(#value)),
            Code::Float(value) => self.literal(&quote!(Float), &quote!(#value)),
            Code::Bool(value) => self.literal(&quote!(Bool), &quote!(#value)),
            Code::None => {
                self.py = true;
                quote!(&::arraybridge_runtime::__private::op::none(py))
            }
            Code::Path(chain) => {
                let steps = steps(chain);
                quote! {
                    &{
                        static PATH: ::arraybridge_runtime::__private::op::Path =
                            ::arraybridge_runtime::__private::op::Path::new(&[#steps]);
                        PATH.get(module)?
                    }
                }
            }
            _ => {
                let result = self.result(code);
                quote!(&#result?)
            }
        }
    }

    fn call(
        &mut self,
        function: &TokenStream,
        callee: &TokenStream,
        Arguments { values, names }: &Arguments<'_>,
    ) -> TokenStream {
        let values: Vec<_> = values.iter().map(|value| self.reference(value)).collect();
        let names = self.keywords(names);
        quote! {
            ::arraybridge_runtime::__private::op::#function(#callee, [#(#values),*], #names)
        }
    }

    fn sequence(&mut self, kind: &TokenStream, values: &[Code<'_>]) -> TokenStream {
        self.py = true;
        let values: Vec<_> = values.iter().map(|value| self.reference(value)).collect();
        quote!(::arraybridge_runtime::__private::op::#kind(py, [#(#values),*]))
    }

    fn keywords(&mut self, names: &[&str]) -> TokenStream {
        if names.is_empty() {
            return quote!(::core::option::Option::None);
        }
        self.py = true;
        quote!(::core::option::Option::Some({
            static NAMES: ::arraybridge_runtime::__private::op::Keywords =
                ::arraybridge_runtime::__private::op::Keywords::new(&[#(#names),*]);
            NAMES.get(py)?
        }))
    }

    fn literal(&mut self, kind: &TokenStream, value: &TokenStream) -> TokenStream {
        self.py = true;
        quote!({
            static LITERAL: ::arraybridge_runtime::__private::op::Literal =
                ::arraybridge_runtime::__private::op::Literal::new(
                    ::arraybridge_runtime::__private::op::Value::#kind(#value),
                );
            LITERAL.get(py)
        })
    }

    fn interned(&mut self, text: &str) -> TokenStream {
        self.py = true;
        quote!(::arraybridge_runtime::__private::intern!(py, #text))
    }
}
