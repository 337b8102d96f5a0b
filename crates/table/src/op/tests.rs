//! Ops and what they are parsed to.

use proptest::prelude::*;

use super::*;

const SCOPE: &[&str] = &["module", "data", "device"];

fn ok(text: &str) -> Expr {
    read(text, SCOPE).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn name(name: &str) -> Expr {
    Expr::Name(Name { text: name.into(), at: 0 })
}

fn attribute(object: Expr, name: &str) -> Expr {
    Expr::Attribute(Box::new(object), name.into())
}

#[test]
fn names_that_are_keywords_in_rust_are_names() {
    assert_eq!(ok("data.type"), attribute(name("data"), "type"));
    assert_eq!(ok("data.match"), attribute(name("data"), "match"));
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
        ("-1", Expr::Int(-1)),
        ("-9223372036854775808", Expr::Int(i64::MIN)),
        ("-2.5", Expr::Float(-2.5)),
        ("[]", Expr::List(vec![])),
        ("[1]", Expr::List(vec![Expr::Int(1)])),
        ("[1, 2,]", Expr::List(vec![Expr::Int(1), Expr::Int(2)])),
        ("()", Expr::Tuple(vec![])),
        ("(1,)", Expr::Tuple(vec![Expr::Int(1)])),
        ("(1, -2)", Expr::Tuple(vec![Expr::Int(1), Expr::Int(-2)])),
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
fn only_attributes_and_named_items_of_the_module_form_a_chain() {
    let (a, b) = (Step::Attribute("a"), Step::Attribute("b"));
    assert_eq!(ok("module.a.b").chain(), Some(vec![a, b]));
    assert_eq!(ok(r#"module.a["b"].a"#).chain(), Some(vec![a, Step::Item("b"), a]));
    for text in ["module.a().b", "data.a", r#"data["a"]"#, "module.a[0]", "module.a[data]"] {
        assert_eq!(ok(text).chain(), None, "{text}");
    }
    assert_eq!(ok("module.a.b(data)[0].c == 1").leading(), [a, b]);
    assert_eq!(ok(r#"module.a["b"](data).c"#).leading(), [a, Step::Item("b")]);
}

#[test]
fn what_python_or_rust_reads_differently_is_refused() {
    for text in [
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
        "-data",
        "--1",
        "- \"x\"",
        "-9223372036854775809",
        "[1 2]",
        "(,)",
        "{data}",
        "data, device",
        "lambda: data",
        "data[:]",
        "data[]",
        "data[0 1]",
        "data or device",
        "data is None",
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
fn several_keys_are_a_tuple() {
    let index = |text| match ok(text) {
        Expr::Index(_, key) => *key,
        other => panic!("{other:?}"),
    };
    let pair = || vec![Expr::Int(0), Expr::Int(-1)];
    assert_eq!(index("data[0, -1]"), Expr::Tuple(pair()));
    assert_eq!(index("data[0,]"), Expr::Tuple(vec![Expr::Int(0)]));
    assert_eq!(index("data[[0, -1]]"), Expr::List(pair()));
}

#[test]
fn a_name_in_a_list_or_a_tuple_is_used_and_checked() {
    assert!(ok("module.f([data], 1)").uses("data") && ok("module.f((1, data))").uses("data"));
    let faults = read("[one, (two, 3)]", SCOPE).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.at).collect::<Vec<_>>(), [1, 7]);
}

#[test]
fn what_python_has_and_an_op_has_not_is_named() {
    for (text, at, message) in [
        (
            "data.a or data.b",
            7,
            "an op has no `or`; write an entry for each condition, or call a function that tests both",
        ),
        ("data.a and data.b", 7, "an op has no `and`; call a function that tests both conditions"),
        ("not data.a", 0, "an op has no `not`; write `== False`"),
        ("data.a is None", 7, "an op has no `is`; write `==`"),
        ("data in device", 5, "an op has no `in`; call `__contains__`"),
        ("data[1:2]", 6, "an op has no slices; call a function or a method that takes the part"),
        ("data[:]", 5, "an op has no slices; call a function or a method that takes the part"),
        (
            "module.f(1:2)",
            10,
            "an op has no slices; call a function or a method that takes the part",
        ),
        ("(data)", 0, "parentheses around one value; remove them, or write `(x,)` for a tuple"),
    ] {
        let fault = Fault { at, message: message.into() };
        assert_eq!(read(text, SCOPE), Err(vec![fault]), "{text}");
    }
}

#[test]
fn a_keyword_of_python_names_no_attribute_and_no_argument() {
    for (text, at, keyword) in [
        ("data.class", 5, "class"),
        ("data.await", 5, "await"),
        ("module.a.None(data)", 9, "None"),
        ("module.f(lambda_ = data, from = data)", 25, "from"),
        ("module.f(True = data)", 9, "True"),
    ] {
        let message = format!(
            "`{keyword}` is a keyword in Python and names no attribute or argument; write another \
             name, such as `{keyword}_`"
        );
        assert_eq!(read(text, SCOPE), Err(vec![Fault { at, message }]), "{text}");
    }
}

#[test]
fn an_op_that_would_overflow_the_stack_is_refused() {
    assert!(read(&"module(".repeat(100_000), SCOPE).is_err());
    assert!(read(&format!("data{}", ".a".repeat(100_000)), SCOPE).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

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
