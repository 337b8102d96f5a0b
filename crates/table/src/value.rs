//! The values of keys, once they are read and checked.

use crate::op::Expr;
use crate::schema::{Table, Word, Words};

/// The value of a key.
pub enum Value {
    /// Text, or the name of something.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A number of bytes.
    Bytes(usize),
    /// The least and the greatest number of axes.
    Axes(usize, usize),
    /// An op.
    Op(Op),
    /// A variant of the enum of some words.
    Word(&'static Words, &'static Word),
    /// Dtypes.
    Set(Vec<&'static Word>),
    /// Several values.
    List(Vec<Value>),
    /// A name, and what belongs to it.
    Pair(Box<(Value, Value)>),
    /// A table.
    Table(Entries),
    /// The variant of the framework in the enum of all frameworks.
    Variant(String),
}

/// An op: one or more alternatives, of which the first that exists is used.
pub struct Op {
    /// The text of the table, for messages.
    pub source: String,
    /// The names that it is called with, in order; the first is the module.
    pub scope: Vec<&'static str>,
    /// The alternatives but the last.
    pub preferred: Vec<Expr>,
    /// The last alternative.
    pub last: Expr,
}

/// The values of a table, in the order of its keys.
pub struct Entries {
    /// The table that they are the values of.
    pub of: &'static Table,
    /// The values of its keys; `None` where a key has none.
    pub values: Vec<Option<Value>>,
}

/// One framework.
pub struct Framework {
    /// The name of its table.
    pub name: String,
    /// Its variant in the enum of all frameworks: `Torch`.
    pub variant: String,
    /// The values of its table.
    pub entries: Entries,
}

/// The place where a framework's arrays live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory only.
    Host,
    /// In the memory of accelerators only.
    Accelerator,
    /// In both.
    Either,
}

impl Op {
    /// Every alternative.
    pub fn alternatives(&self) -> impl Iterator<Item = &Expr> {
        self.preferred.iter().chain([&self.last])
    }

    /// True if every alternative uses a name.
    pub fn all_use(&self, name: &str) -> bool {
        self.alternatives().all(|op| op.uses(name))
    }

    /// True if an alternative uses a name.
    pub fn any_uses(&self, name: &str) -> bool {
        self.alternatives().any(|op| op.uses(name))
    }
}

impl Entries {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values[self.of.place(key)].as_ref()
    }

    /// Gives a key its value.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.values[self.of.place(key)] = Some(value);
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The op of a key.
    pub fn op(&self, key: &str) -> Option<&Op> {
        match self.get(key)? {
            Value::Op(op) => Some(op),
            _ => None,
        }
    }

    /// The word of a key, as it is written.
    pub fn word(&self, key: &str) -> Option<&'static str> {
        match self.get(key)? {
            Value::Word(_, word) => Some(word.word),
            _ => None,
        }
    }

    /// Returns whether a key is true.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Value::Flag(true)))
    }

    /// The dtypes of a key.
    pub fn set_of(&self, key: &str) -> &[&'static Word] {
        match self.get(key) {
            Some(Value::Set(dtypes)) => dtypes,
            _ => &[],
        }
    }

    /// The table of a key.
    pub fn table(&self, key: &str) -> Option<&Entries> {
        match self.get(key)? {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The place where the arrays of a framework live.
    pub fn place(&self) -> Option<Place> {
        Some(match self.word("memory")? {
            "host" => Place::Host,
            "accelerator" => Place::Accelerator,
            _ => Place::Either,
        })
    }
}
