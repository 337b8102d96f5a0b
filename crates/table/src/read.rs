//! From tables as they are written to checked values, by the list of keys.
//!
//! Every mistake is reported; reading does not stop at the first. It goes on without the value, and what lacks one
//! never gets past [`Problems::gate`](crate::problems::Problems::gate).

use crate::document::{NumberOrName, Section, Text};
use crate::names::{Names, camel, dotted, is_name, qualified};
use crate::problems::instead;
use crate::rules;
use crate::schema::{
    Absent, DEVICE_TYPE, DTYPE, FRAMEWORK, Key, STANDARD, Table, Type, Word, Words,
};
use crate::scope;
use crate::value::{Entries, Framework, Place, Value};

/// NumPy's own limit.
const MOST_AXES: i64 = 64;

/// Reads the table of one framework.
pub struct Reader<'a> {
    pub name: &'a str,
    /// The whole table.
    pub root: &'a Section<'a>,
    /// The place where arrays live, unless that is a mistake.
    pub place: Option<Place>,
    /// The dtypes of the framework, unless they are a mistake.
    dtypes: Option<Vec<&'static Word>>,
    names: &'a mut Names,
}

/// Reads every table, and checks that no two tables claim the same names.
pub fn frameworks(sections: Vec<(Text, Section<'_>)>) -> Vec<Framework> {
    let mut names = Names::default();
    let mut frameworks = Vec::new();
    for (name, root) in &sections {
        names.claim_table(name, root);
        let name = name.value.as_str();
        let mut reader = Reader { name, root, place: None, dtypes: None, names: &mut names };
        let entries = reader.table(root, &FRAMEWORK);
        frameworks.push(Framework { name: name.to_owned(), variant: camel(name), entries });
    }
    frameworks
}

impl Reader<'_> {
    /// The values of a table.
    fn table(&mut self, section: &Section<'_>, of: &'static Table) -> Entries {
        let mut entries = Entries { of, values: Vec::new() };
        for key in of.keys {
            if let Absent::Required(_) = key.absent {
                let example = key.example().replace("{name}", self.name);
                section.require(key.name, example.replace("{Name}", &camel(self.name)));
            }
            let value = self.value(section, key);
            self.needs(section, of, key, value.as_ref());
            let is_there = section.has(key.name);
            entries.values.push(value.or_else(|| default(key).filter(|_| !is_there)));
            if key.name == "memory" {
                if !is_there {
                    entries.set(key.name, rules::place(section));
                }
                self.place = entries.place();
            }
        }
        (of.rule)(self, section, &mut entries);
        section.finish(&of.written().map(|key| key.name).collect::<Vec<_>>());
        entries
    }

    /// Reports keys that another one needs and that are not there.
    fn needs(&self, section: &Section<'_>, of: &Table, key: &Key, value: Option<&Value>) {
        if !section.has(key.name) || matches!(value, Some(Value::Flag(false))) {
            return;
        }
        for needed in key.needs {
            match of.keys.iter().find(|known| known.name == *needed) {
                Some(known) => needs(section, key.name, section, known),
                None => needs(section, key.name, self.root, FRAMEWORK.key(needed)),
            }
        }
    }

    fn value(&mut self, section: &Section<'_>, key: &'static Key) -> Option<Value> {
        let name = key.name;
        if matches!(key.absent, Absent::Derived) {
            return None;
        }
        Some(match key.of {
            Type::Text => Value::Text(filled(section, name)?),
            Type::Name => Value::Text(dotted(section, section.text(name)?)),
            Type::Class => Value::Text(qualified(section, section.text(name)?)),
            Type::Classes => self.classes(section, name)?,
            Type::Libraries => {
                list(section.texts(name)?, |text| Some(Value::Text(library(section, text))))
            }
            Type::Flag => Value::Flag(section.flag(name)?),
            Type::Bytes => bytes(section, name)?,
            Type::Axes => axes(section, name)?,
            Type::Op(scope) => {
                let mut op = scope::read(section, &section.alternatives(name)?, scope)?;
                scope::decide(section, name, &mut op, scope);
                Value::Op(op)
            }
            Type::Calls(scope) => list(section.texts(name)?, |text| {
                scope::read(section, &[text], scope).map(Value::Op)
            }),
            Type::ClassOps(scope) => list(section.named_alternatives(name), |(class, texts)| {
                let op = scope::read(section, &texts, scope);
                let class = self.names.claim_class(class, section, self.name);
                Some(pair(Value::Text(class), Value::Op(op?)))
            }),
            Type::DTypeOps(scope) => list(section.named_alternatives(name), |(dtype, texts)| {
                let dtype = self.contained(section, &dtype);
                Some(pair(
                    Value::Word(&DTYPE, dtype?),
                    Value::Op(scope::read(section, &texts, scope)?),
                ))
            }),
            Type::Word(words) => Value::Word(words, word(section, &section.text(name)?, words)?),
            Type::SomeWords(words) => list(section.texts(name)?, |text| {
                word(section, &text, words).map(|word| Value::Word(words, word))
            }),
            Type::DTypes => self.all_dtypes(section, name)?,
            Type::SomeDTypes | Type::Without => self.some_dtypes(section, &section.texts(name)?),
            Type::Devices => devices(section, name)?,
            Type::DTypeNames => list(section.named_texts(name), |(dtype, theirs)| {
                let dtype = self.contained(section, &dtype)?;
                Some(pair(Value::Word(&DTYPE, dtype), Value::Text(theirs.value)))
            }),
            Type::Modules => list(section.named_texts(name), |(module, other)| {
                let names = [module, other].map(|name| Value::Text(dotted(section, name)));
                let [module, other] = names;
                Some(pair(module, other))
            }),
            Type::Tables(of) => {
                list(section.sections(name), |section| Some(Value::Table(self.table(&section, of))))
            }
            Type::Table(of) | Type::Unbuilt(of) => {
                Value::Table(self.table(&section.section(name)?, of))
            }
            Type::Variant | Type::Other => return None,
        })
    }

    fn classes(&mut self, section: &Section<'_>, key: &'static str) -> Option<Value> {
        let classes = section.texts(key)?;
        if classes.is_empty() {
            let message = format!("`{key}` is empty; list at least one class");
            section.problem(section.key_at(key), message);
        }
        Some(list(classes, |class| {
            Some(Value::Text(self.names.claim_class(class, section, self.name)))
        }))
    }

    fn all_dtypes(&mut self, section: &Section<'_>, key: &'static str) -> Option<Value> {
        let texts = section.texts(key)?;
        if texts.is_empty() {
            let message = format!("`{key}` is empty; list the dtypes");
            section.problem(section.key_at(key), message);
        }
        let mut dtypes = Vec::new();
        for text in &texts {
            let found: Vec<_> = if text.value == "standard" {
                DTYPE.all[..STANDARD].iter().collect()
            } else {
                word(section, text, &DTYPE).into_iter().collect()
            };
            if found.iter().any(|dtype| dtypes.contains(dtype)) {
                let message = format!("`{}` is already listed; list it once", text.value);
                section.problem(text.at, message);
            }
            dtypes.extend(found);
        }
        self.dtypes = (!dtypes.is_empty()).then(|| dtypes.clone());
        Some(Value::Set(dtypes))
    }

    fn some_dtypes(&self, section: &Section<'_>, texts: &[Text]) -> Value {
        match (texts, &self.dtypes) {
            ([only], Some(all)) if only.value == "all" => Value::Set(all.clone()),
            _ => {
                Value::Set(texts.iter().filter_map(|text| self.contained(section, text)).collect())
            }
        }
    }

    /// A dtype that the framework has.
    fn contained(&self, section: &Section<'_>, text: &Text) -> Option<&'static Word> {
        let dtype = word(section, text, &DTYPE)?;
        if self.dtypes.as_ref().is_some_and(|all| !all.contains(&dtype)) {
            let message = format!(
                "`{}` is not in the framework's `dtypes`; add it there or remove it here",
                text.value
            );
            section.problem(text.at, message);
        }
        Some(dtype)
    }
}

/// A table without any key.
pub fn empty(of: &'static Table) -> Entries {
    Entries { of, values: of.keys.iter().map(default).collect() }
}

/// The value of a key that is not there. What is required or computed comes from elsewhere.
fn default(key: &Key) -> Option<Value> {
    match (key.absent, key.of) {
        (Absent::Is(text), Type::Op(scope)) => Some(Value::Op(scope::default(text, scope))),
        (Absent::Is(text), Type::Word(words)) => {
            words.find(text).map(|word| Value::Word(words, word))
        }
        (Absent::Is(text), Type::Flag) => text.parse().ok().map(Value::Flag),
        (Absent::Is(text), Type::Bytes) => text.parse().ok().map(Value::Bytes),
        (Absent::Is(_), Type::Axes) => Some(Value::Axes(0, MOST_AXES as usize)),
        (_, Type::DTypes | Type::SomeDTypes | Type::Without) => Some(Value::Set(Vec::new())),
        _ => None,
    }
}

/// Reports that a key needs another one, unless that is there.
pub fn needs(section: &Section<'_>, key: &str, table: &Section<'_>, needed: &Key) {
    if !table.has(needed.name) {
        let (needed, example) = (needed.name, needed.example());
        let message = format!("`{key}` needs `{needed}`; add {needed} = {example}");
        section.problem(section.key_at(key), message);
    }
}

fn list<T>(found: Vec<T>, value: impl FnMut(T) -> Option<Value>) -> Value {
    Value::List(found.into_iter().filter_map(value).collect())
}

fn pair(first: Value, second: Value) -> Value {
    Value::Pair(Box::new((first, second)))
}

/// The word that a text is.
fn word(section: &Section<'_>, text: &Text, words: &Words) -> Option<&'static Word> {
    let found = words.find(&text.value);
    if found.is_none() {
        let (what, written) = (words.what.trim_end_matches('s'), &text.value);
        let instead = instead(written, words.what, &words.words());
        section.problem(text.at, format_args!("unknown {what} `{written}`; {instead}"));
    }
    found
}

/// Text that says something.
fn filled(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.text(key)?;
    if text.value.trim().is_empty() {
        section.problem(text.at, format_args!("`{key}` is empty; write a few words"));
    }
    Some(text.value)
}

/// The name of a library, or a path in a package.
fn library(section: &Section<'_>, library: Text) -> String {
    let Text { value, at, .. } = library;
    if let Some((package, file)) = value.split_once('/')
        && (!is_name(package) || file.split('/').any(|part| part.is_empty() || part == ".."))
    {
        let message = format!(
            "`{value}` is not a file in a package; write `package/folder/name.so`, or a name alone"
        );
        section.problem(at, message);
    }
    value
}

fn bytes(section: &Section<'_>, key: &'static str) -> Option<Value> {
    let (written, at) = section.integer(key)?;
    let bytes = usize::try_from(written).unwrap_or_default();
    if !bytes.is_power_of_two() {
        let message = format!("{key} = {written} is not a power of two; write one such as 64");
        section.problem(at, message);
    }
    Some(Value::Bytes(bytes))
}

fn axes(section: &Section<'_>, key: &'static str) -> Option<Value> {
    let (at, numbers) = (section.key_at(key), section.integers(key)?);
    let [(least, _), (most, _)] = numbers[..] else {
        section.problem(at, format_args!("`{key}` takes two numbers; write [least, most]"));
        return None;
    };
    if least > most {
        section.problem(at, format_args!("`{key}` is reversed; write [{most}, {least}]"));
    } else if least < 0 || most > MOST_AXES {
        let message = format!("`{key}` is out of range; write numbers from 0 to {MOST_AXES}");
        section.problem(at, message);
    }
    Some(Value::Axes(usize::try_from(least).ok()?, usize::try_from(most).ok()?))
}

fn devices(section: &Section<'_>, key: &'static str) -> Option<Value> {
    let devices = section.numbers_and_names(key)?;
    if devices.is_empty() {
        let message = format!("`{key}` is empty; write [\"cpu\"] for the host");
        section.problem(section.key_at(key), message);
    }
    Some(list(devices, |device| device_type(section, device)))
}

fn device_type(section: &Section<'_>, device: NumberOrName) -> Option<Value> {
    let found = match device {
        NumberOrName::Name(name) => word(section, &name, &DEVICE_TYPE)?,
        NumberOrName::Number(written, at) => {
            let number = written.to_string();
            let found = DEVICE_TYPE.all.iter().find(|word| word.variant == number);
            if found.is_none() {
                let names = DEVICE_TYPE.words().join(", ");
                let message =
                    format!("{written} is not a DLPack device type; write one of {names}");
                section.problem(at, message);
            }
            found?
        }
    };
    Some(Value::Word(&DEVICE_TYPE, found))
}
