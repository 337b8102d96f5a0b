//! Operations of loaded tables: what the macro compiles, carried out as it was parsed.

use arraybridge_table::Op as Parsed;
use arraybridge_table::op::{Arguments, Code, Comparison, Expr, Fault, MODULE, NUMPY, read};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PyList, PyTuple};
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
    names: Option<(usize, Keywords)>,
}

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
            let names = (!texts.is_empty()).then(|| (texts.len(), Keywords::new(texts.leak())));
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

    fn value<'py>(&self, module: &Bound<'py, PyAny>, scope: &[&Bound<'py, PyAny>]) -> Outcome<'py> {
        let py = module.py();
        let value = |node: &Node| node.value(module, scope);
        let all =
            |nodes: &[Node]| -> PyResult<SmallVec<[_; 4]>> { nodes.iter().map(value).collect() };
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
            Node::Attribute(object, name) => op::attribute(&value(object)?, name.get(py)),
            Node::Item(object, key) => op::item(&value(object)?, &value(key)?),
            Node::Compare(left, comparison, right) => {
                op::compare(&value(left)?, &value(right)?, *comparison)
            }
            Node::Call(callee, given) => call(&value(callee)?, &all(&given.values)?, given),
            Node::Method(receiver, name, given) => {
                let (receiver, values) = (value(receiver)?, all(&given.values)?);
                let (name, names) = (name.get(py), given.names(py)?);
                match &values[..] {
                    [] => op::call_method(&receiver, name, [], names),
                    [a] => op::call_method(&receiver, name, [a], names),
                    [a, b] => op::call_method(&receiver, name, [a, b], names),
                    _ => call(&receiver.getattr(name)?, &values, given),
                }
            }
        }
    }
}

impl Given {
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, PyTuple>>> {
        self.names.as_ref().map(|(_, names)| names.get(py)).transpose()
    }
}

fn call<'py>(
    callee: &Bound<'py, PyAny>,
    values: &[Bound<'py, PyAny>],
    given: &Given,
) -> Outcome<'py> {
    let py = callee.py();
    let names = given.names(py)?;
    match values {
        [] => op::call(callee, [], names),
        [a] => op::call(callee, [a], names),
        [a, b] => op::call(callee, [a, b], names),
        [a, b, c] => op::call(callee, [a, b, c], names),
        _ => {
            let named = given.names.as_ref().map_or(0, |(count, _)| *count);
            let (positional, last) = values.split_at(values.len() - named);
            let keywords = PyDict::new(py);
            for (name, value) in names.into_iter().flatten().zip(last) {
                keywords.set_item(name, value)?;
            }
            callee.call(PyTuple::new(py, positional)?, Some(&keywords))
        }
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
