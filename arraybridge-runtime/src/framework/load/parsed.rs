//! Operations of loaded tables: what the macro compiles, carried out as it was parsed.

use arraybridge_table::Op as Parsed;
use arraybridge_table::op::{Arguments, Code, Comparison, Expr, Fault, MODULE, NUMPY, read};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use super::leaked;
use crate::framework::op::{self, Choice, Keywords, Literal, Outcome, Path, Scope, Step, Value};
use crate::framework::spec::{Call, Op};
use crate::interpreter::once::Interned;

/// An operation of a table.
pub fn op<const N: usize>(op: &Parsed) -> Op<N> {
    let is_value = |name: &&str| ![MODULE, NUMPY].contains(name);
    let names: Vec<_> = op.scope.iter().copied().filter(is_value).collect();
    let alternatives: Vec<_> = op.alternatives().map(|expr| Node::new(expr, &names)).collect();
    let paths: Vec<_> = op.preferred.iter().map(|expr| steps(&expr.leading())).collect();
    let choice = (!paths.is_empty()).then(|| Choice::new(paths.leak()));
    Op {
        source: leaked(&op.source),
        uses: std::array::from_fn(|index| op.any_uses(names[index])),
        call: callable(move |module, scope| {
            let index = choice.as_ref().map_or(0, |choice| choice.get(module));
            alternatives[index].value(module, &scope)
        }),
    }
}

/// The value of an operation, of a module and of the values of some names.
///
/// # Errors
///
/// The mistakes in the operation; or, in the value, any exception that it raises.
pub fn evaluate<'py>(
    text: &str,
    module: &Bound<'py, PyAny>,
    names: &[&str],
    values: &[&Bound<'py, PyAny>],
) -> Result<Outcome<'py>, Vec<Fault>> {
    let scope: Vec<_> = [MODULE, NUMPY].into_iter().chain(names.iter().copied()).collect();
    Ok(Node::new(&read(text, &scope)?, names).value(module, values))
}

fn callable<const N: usize>(
    call: impl for<'py> Fn(&Bound<'py, PyAny>, Scope<'_, 'py, N>) -> Outcome<'py> + Sync + 'static,
) -> &'static Call<N> {
    Box::leak(Box::new(call))
}

fn steps(chain: &[arraybridge_table::op::Step<'_>]) -> &'static [Step] {
    use arraybridge_table::op::Step as Written;
    let step = |step: &Written<'_>| match step {
        Written::Attribute(name) => Step::Attribute(leaked(name)),
        Written::Item(key) => Step::Item(leaked(key)),
    };
    chain.iter().map(step).collect::<Vec<_>>().leak()
}

/// [`Code`] with what it looks up once.
enum Node {
    Module,
    Numpy,
    /// The value of a name in scope, by its place.
    Name(usize),
    Str(Interned),
    Literal(Literal),
    None,
    List(Vec<Node>),
    Tuple(Vec<Node>),
    Path(Path),
    Attribute(Box<Node>, Interned),
    Item(Box<Node>, Box<Node>),
    Compare(Box<Node>, CompareOp, Box<Node>),
    Call(Box<Node>, Given),
    Method(Box<Node>, Interned, Given),
}

/// The arguments of a call, the last of which have names.
struct Given {
    values: Vec<Node>,
    names: Option<Keywords>,
}

/// The values of arguments: no call of a table has more than seven and a receiver.
type Values<'a, 'py> = SmallVec<[Lent<'a, 'py>; 8]>;

impl Node {
    fn new(expr: &Expr, names: &[&str]) -> Node {
        Node::of(&Code::from(expr), names)
    }

    fn of(code: &Code<'_>, names: &[&str]) -> Node {
        let of = |code: &Code<'_>| Node::of(code, names);
        let boxed = |code: &Code<'_>| Box::new(of(code));
        let all = |codes: &[Code<'_>]| codes.iter().map(of).collect();
        let given = |Arguments { values, names }: &Arguments<'_>| {
            let texts: Vec<_> = names.iter().map(|name| leaked(name)).collect();
            let names = (!texts.is_empty()).then(|| Keywords::new(texts.leak()));
            Given { values: all(values), names }
        };
        let interned = |text: &str| Interned::new(leaked(text));
        match code {
            Code::Name(name) if *name == MODULE => Node::Module,
            Code::Name(name) if *name == NUMPY => Node::Numpy,
            Code::Name(name) => {
                Node::Name(names.iter().position(|known| known == name).expect("it is in scope"))
            }
            Code::Str(text) => Node::Str(interned(text)),
            Code::Int(value) => Node::Literal(Literal::new(Value::Int(*value))),
            Code::Float(value) => Node::Literal(Literal::new(Value::Float(*value))),
            Code::Bool(value) => Node::Literal(Literal::new(Value::Bool(*value))),
            Code::None => Node::None,
            Code::List(values) => Node::List(all(values)),
            Code::Tuple(values) => Node::Tuple(all(values)),
            Code::Path(chain) => Node::Path(Path::new(steps(chain))),
            Code::Attribute(object, name) => Node::Attribute(boxed(object), interned(name)),
            Code::Item(object, key) => Node::Item(boxed(object), boxed(key)),
            Code::Compare(left, comparison, right) => {
                Node::Compare(boxed(left), compare_op(*comparison), boxed(right))
            }
            Code::Call(callee, arguments) => Node::Call(boxed(callee), given(arguments)),
            Code::Method(receiver, name, arguments) => {
                Node::Method(boxed(receiver), interned(name), given(arguments))
            }
        }
    }

    fn value<'a, 'py>(
        &'a self,
        module: &'a Bound<'py, PyAny>,
        scope: &[&'a Bound<'py, PyAny>],
    ) -> Outcome<'py> {
        let py = module.py();
        let value = |node: &'a Node| node.value(module, scope);
        let all = |nodes: &'a [Node]| nodes.iter().map(value).collect::<PyResult<Vec<_>>>();
        let lend = |node: &'a Node| node.lend(module, scope);
        match self {
            Node::Module => Ok(module.clone()),
            Node::Numpy => op::numpy(py).cloned(),
            Node::Name(place) => Ok(scope[*place].clone()),
            Node::Str(text) => Ok(text.get(py).clone().into_any()),
            Node::Literal(literal) => Ok(literal.get(py).clone()),
            Node::None => Ok(op::none(py)),
            Node::List(values) => Ok(PyList::new(py, all(values)?)?.into_any()),
            Node::Tuple(values) => Ok(PyTuple::new(py, all(values)?)?.into_any()),
            Node::Path(path) => path.get(module),
            Node::Attribute(object, name) => {
                let object = lend(object)?;
                op::attribute(&object, name.get(py))
            }
            Node::Item(object, key) => {
                let (object, key) = (lend(object)?, lend(key)?);
                op::item(&object, &key)
            }
            Node::Compare(left, comparison, right) => {
                let (left, right) = (lend(left)?, lend(right)?);
                op::compare(&left, &right, *comparison)
            }
            Node::Call(callee, given) => {
                let callee = lend(callee)?;
                let values = given.values.iter().map(lend).collect::<PyResult<Values<'_, '_>>>()?;
                op::call_all(&callee, &values, given.names(py)?)
            }
            Node::Method(receiver, name, given) if given.values.is_empty() => {
                let receiver = lend(receiver)?;
                op::call_method(&receiver, name.get(py), [], None)
            }
            Node::Method(receiver, name, given) => {
                let all = std::iter::once(&**receiver).chain(&given.values);
                let values = all.map(lend).collect::<PyResult<Values<'_, '_>>>()?;
                op::call_method_all(name.get(py), &values, given.names(py)?)
            }
        }
    }

    /// The value, which is not counted as another reference where something else holds it.
    #[inline]
    fn lend<'a, 'py>(
        &'a self,
        module: &'a Bound<'py, PyAny>,
        scope: &[&'a Bound<'py, PyAny>],
    ) -> PyResult<Lent<'a, 'py>> {
        let py = module.py();
        Ok(match self {
            Node::Module => Lent::Borrowed(module),
            Node::Name(place) => Lent::Borrowed(scope[*place]),
            Node::Literal(literal) => Lent::Borrowed(literal.get(py)),
            Node::Str(text) => Lent::Borrowed(text.get(py).as_any()),
            _ => Lent::Owned(self.value(module, scope)?),
        })
    }
}

/// A value that something else holds, or not.
enum Lent<'a, 'py> {
    Borrowed(&'a Bound<'py, PyAny>),
    Owned(Bound<'py, PyAny>),
}

impl<'py> std::ops::Deref for Lent<'_, 'py> {
    type Target = Bound<'py, PyAny>;

    #[inline]
    fn deref(&self) -> &Bound<'py, PyAny> {
        match self {
            Lent::Borrowed(value) => value,
            Lent::Owned(value) => value,
        }
    }
}

impl Given {
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, PyTuple>>> {
        self.names.as_ref().map(|names| names.get(py)).transpose()
    }
}

fn compare_op(comparison: Comparison) -> CompareOp {
    match comparison {
        Comparison::Eq => CompareOp::Eq,
        Comparison::Ne => CompareOp::Ne,
        Comparison::Lt => CompareOp::Lt,
        Comparison::Le => CompareOp::Le,
        Comparison::Gt => CompareOp::Gt,
        Comparison::Ge => CompareOp::Ge,
    }
}

#[cfg(test)]
mod tests;
