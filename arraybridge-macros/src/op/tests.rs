//! Ops and what they are parsed to.

use proptest::prelude::*;

use super::*;

const SCOPE: &[&str] = &["module", "data", "device"];

fn ok(text: &str) -> Checked {
    read(text, SCOPE).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn name(name: &'static str) -> Checked {
    Expr::Name(name)
}

fn attribute(object: Checked, name: &str) -> Checked {
    Expr::Attribute(Box::new(object), name.into())
}

#[test]
fn names_that_are_keywords_in_rust_are_names() {
    assert_eq!(ok("data.type"), attribute(name("data"), "type"));
    assert_eq!(ok("data.await"), attribute(name("data"), "await"));
    let Expr::Call { callee, keywords, .. } = ok("module.use(match = data)") else { panic!() };
    assert_eq!(*callee, attribute(name("module"), "use"));
    assert_eq!(keywords, [("match".to_owned(), name("data"))]);
}

#[test]
fn literals_are_those_of_python() {
    for (text, literal) in [
        (r#""a\"b""#, Expr::Str("a\"b".into())),
        ("7", Expr::Int(7)),
        ("0x10", Expr::Int(16)),
        ("2.5", Expr::Float(2.5)),
        ("True", Expr::Bool(true)),
        ("False", Expr::Bool(false)),
        ("None", Expr::None),
    ] {
        assert_eq!(ok(text), literal, "{text}");
    }
}

#[test]
fn a_comparison_takes_whole_operands() {
    let compared = Expr::Compare(
        Box::new(attribute(name("data"), "n")),
        Comparison::Ge,
        Box::new(Expr::Int(2)),
    );
    assert_eq!(ok("data.n >= 2"), compared);
}

#[test]
fn slashes_inside_strings_are_text() {
    assert_eq!(ok(r#""a//b/*c""#), Expr::Str("a//b/*c".into()));
}

#[test]
fn an_argument_may_be_a_comparison_rather_than_a_keyword() {
    let Expr::Call { positional, keywords, .. } = ok("module.f(data == device)") else { panic!() };
    assert!(matches!(positional[..], [Expr::Compare(..)]));
    assert!(keywords.is_empty());
}

#[test]
fn only_attributes_of_the_module_form_a_chain() {
    assert_eq!(ok("module.a.b").chain(), Some(vec!["a", "b"]));
    assert_eq!(ok("module.a().b").chain(), None);
    assert_eq!(ok("data.a").chain(), None);
    assert_eq!(ok("module.a.b(data)[0].c == 1").leading(), ["a", "b"]);
}

#[test]
fn what_python_or_rust_reads_differently_is_refused() {
    for text in [
        "-1",
        "not data",
        "data if data else data",
        "*data",
        "data ** 2",
        "!data",
        "&data",
        "data?",
        "f'{data}'",
        "b\"x\"",
        "r\"x\"",
        "c\"x\"",
        "(data)",
        "[data]",
        "{data}",
        "data, device",
        "lambda: data",
        "data[:]",
        "data[0, 1]",
        "data::x",
        "module.f(**data)",
        "module.f!(data)",
        "r#data",
        "'data'",
        "1_u8",
        "data.0",
        "data = 1",
        "data;",
        "_",
        "",
        "99999999999999999999",
        "1e999",
    ] {
        assert!(read(text, SCOPE).is_err(), "{text}");
    }
}

#[test]
fn an_op_that_would_overflow_the_stack_is_refused() {
    assert!(read(&"module(".repeat(100_000), SCOPE).is_err());
    assert!(read(&format!("data{}", ".a".repeat(100_000)), SCOPE).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
        let _ = read(&text, SCOPE);
    }

    #[test]
    fn every_fault_is_inside_the_text_or_at_its_end(
        text in r#"(module|data|x|é|\.|\(|\)|\[|\]|=|==|<|"|'|,| |1|2\.5|/|-|:){0,16}"#,
    ) {
        for fault in read(&text, SCOPE).err().unwrap_or_default() {
            prop_assert!(fault.at <= text.len() && text.is_char_boundary(fault.at), "{fault:?}");
            prop_assert!(fault.message.contains("; "), "{}", fault.message);
        }
    }
}
