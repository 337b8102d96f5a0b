use super::*;
use crate::framework::generated::MemoryType;

/// The text of a table, under another name and with other classes.
fn renamed(text: &str, name: &str) -> String {
    text.replace("[numpy", &format!("[{name}")).replace("numpy.ndarray", &format!("{name}.Array"))
}

const TABLE: &str = "
[numpy]
title = \"Fake\"
module = \"fractions\"
classes = [\"numpy.ndarray\"]
memory = \"host\"
dtypes = [\"uint8\"]
from_numpy = \"module.Fraction(data)\"
to_numpy = \"data.a\"
";

#[test]
fn a_loaded_table_is_known_everywhere_and_a_name_is_taken_once() {
    {
        let text = renamed(TABLE, "loaded_first");
        let [framework] = load("first.toml", &text).unwrap()[..] else { panic!() };
        assert!(!framework.memory_type.is_compiled());
        assert_eq!(MemoryType::from_name("loaded_first"), Some(framework.memory_type));
        assert!(std::ptr::eq(framework.memory_type.framework(), framework));
        assert_eq!(format!("{:?}", framework.memory_type), "loaded_first");
        assert!(registry::all().any(|known| std::ptr::eq(known, framework)));
        // The same text is the same table.
        assert!(load("again.toml", &text).unwrap().is_empty());

        let count = registry::loaded().count();
        let other = renamed(TABLE, "loaded_first").replace("Fake", "Other");
        let messages = load("second.toml", &other).unwrap_err().join("\n");
        for part in ["second.toml:2:2", "loaded_first", "first.toml"] {
            assert!(messages.contains(part), "{messages}");
        }
        let wrong = renamed(TABLE, "wrong").replace("module.Fraction", "modul.Fraction");
        let messages = load("wrong.toml", &wrong).unwrap_err().join("\n");
        assert!(
            messages.contains("wrong.toml:8:15") && messages.contains("write `module`"),
            "{messages}"
        );
        assert_eq!(registry::loaded().count(), count);
        // A file may be called as that of the build is.
        let [called_so] = load("frameworks.toml", &renamed(TABLE, "called_so")).unwrap()[..] else {
            panic!()
        };
        assert!(!called_so.is_tested);
        // A mistake leaves nothing behind.
        assert_eq!(load("right.toml", &renamed(TABLE, "wrong")).unwrap().len(), 1);
    }
}
