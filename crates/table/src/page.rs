//! The page of all keys, `docs/table-keys.md`.

use crate::schema::*;

pub const START: &str = "<!-- keys: written by the tests of arraybridge-table -->\n";
pub const END: &str = "<!-- /keys -->";

/// Every table of keys, and every list of words.
pub fn render() -> String {
    let mut page = String::new();
    for Table { title, doc, keys, .. } in
        TABLES.into_iter().chain([&METADATA, &CHECK, &EXAMPLE, &LIMIT])
    {
        page += &format!("\n## {title}\n\n{}\n\n", text(doc));
        page += "| key | value | default | meaning |\n|---|---|---|---|\n";
        page.extend(keys.iter().filter_map(row));
    }
    page += "\n## Words\n";
    for words in [&MEMORY, &ORDERED_BY, &ROLE, &STRIDES, &KIND, &DEVICE_TYPE, &DTYPE] {
        page += &format!("\n{}\n\n", text(words.doc));
        let (plain, explained): (Vec<_>, Vec<_>) =
            words.all.iter().partition(|word| word.doc.is_empty());
        page.extend(explained.iter().map(|w| format!("- `\"{}\"`: {}\n", w.word, text(w.doc))));
        let plain: Vec<_> = plain.iter().map(|word| format!("`\"{}\"`", word.word)).collect();
        if !plain.is_empty() {
            page += &format!("{}.\n", plain.join(", "));
        }
    }
    page + "\n"
}

fn row(key: &Key) -> Option<String> {
    let (kind, none) = match key.of {
        Type::Text => ("string".to_owned(), ""),
        Type::Name => ("module".to_owned(), ""),
        Type::Class => ("class".to_owned(), ""),
        Type::Classes => ("[class]".to_owned(), "none"),
        Type::Libraries => ("[library]".to_owned(), "none"),
        Type::Flag => ("true or false".to_owned(), ""),
        Type::Bytes => ("bytes".to_owned(), ""),
        Type::Axes => ("[least, most]".to_owned(), ""),
        Type::Op(scope) => (op(scope), ""),
        Type::Calls(scope) => (format!("[{}]", op(scope)), "none"),
        Type::ClassOps(scope) => (format!("{{ class = {} }}", op(scope)), "none"),
        Type::DTypeOps(scope) => (format!("{{ dtype = {} }}", op(scope)), "none"),
        Type::Word(_) => ("word".to_owned(), ""),
        Type::SomeWords(_) => ("[word]".to_owned(), "none"),
        Type::DTypes | Type::SomeDTypes | Type::Without => ("[dtype]".to_owned(), "none"),
        Type::Devices => ("[device]".to_owned(), ""),
        Type::DTypeNames => ("{ dtype = string }".to_owned(), "none"),
        Type::Modules => ("{ module = module }".to_owned(), "none"),
        Type::Table(_) | Type::Unbuilt(_) | Type::Other => ("table".to_owned(), ""),
        Type::Tables(_) => ("[table]".to_owned(), "none"),
        Type::Variant => return None,
    };
    let default = match key.absent {
        Absent::Nothing => none.to_owned(),
        Absent::Is(value) => format!("`{value}`"),
        Absent::Computed(words) => words.to_owned(),
        Absent::Required(_) => "required".to_owned(),
        Absent::Derived => return None,
    };
    Some(format!("| `{}` | {kind} | {default} | {} |\n", key.name, text(key.doc)))
}

fn op(scope: &str) -> String {
    format!("op({})", scope.replace('|', " or "))
}

fn text(lines: &[&str]) -> String {
    lines.concat().trim().to_owned()
}
