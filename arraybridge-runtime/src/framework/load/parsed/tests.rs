use proptest::prelude::*;
use pyo3::types::PyModule;

use super::*;

/// Objects that note what is done with them.
const NOTING: &std::ffi::CStr = c"
class Noting:
    def __init__(self, text):
        self.__dict__['text'] = text
    def __getattr__(self, name):
        return Noting(f'{self}.{name}')
    def __getitem__(self, key):
        return Noting(f'{self}[{key!r}]')
    def __call__(self, *args, **kwargs):
        return Noting(f'{self}({args!r}, {kwargs!r})')
    def __repr__(self):
        return self.text
    def compared(sign):
        return lambda self, other: Noting(f'({self} {sign} {other!r})')
    __eq__, __ne__ = compared('=='), compared('!=')
    __lt__, __le__, __gt__, __ge__ = map(compared, ('<', '<=', '>', '>='))
";

const NAMES: [&str; 2] = ["data", "device"];

fn postfix() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        prop::sample::select(vec![
            "module", "data", "device", "True", "False", "None", "1.5", "-2"
        ])
        .prop_map(str::to_owned),
        Just("\"text\"".to_owned()),
    ];
    atom.prop_recursive(4, 32, 5, |inner| {
        let named = prop::sample::select(vec!["a", "b", "dtype"]);
        let arguments = prop::collection::vec(inner.clone(), 0..6);
        let keywords = prop::sample::subsequence(vec!["x", "y", "z"], 0..3);
        prop_oneof![
            3 => ("module|data|device", named).prop_map(|(object, name)| format!("{object}.{name}")),
            3 => (inner.clone(), prop::sample::select(vec!["a", "b"])).prop_filter_map(
                "an attribute of an object",
                |(object, name)| object.starts_with(['m', 'd']).then(|| format!("{object}.{name}")),
            ),
            2 => (inner.clone(), inner.clone()).prop_filter_map("an item of an object", |(object, key)| {
                object.starts_with(['m', 'd']).then(|| format!("{object}[{key}]"))
            }),
            3 => (inner.clone(), arguments.clone(), keywords, inner.clone()).prop_filter_map(
                "a call of an object",
                |(object, mut arguments, keywords, value)| {
                    let keywords = keywords.into_iter().map(|name| format!("{name} = {value}"));
                    arguments.extend(keywords);
                    let is_object = object.starts_with(['m', 'd']);
                    is_object.then(|| format!("{object}({})", arguments.join(", ")))
                },
            ),
            1 => arguments.clone().prop_map(|values| format!("[{}]", values.join(", "))),
            1 => inner.prop_map(|value| format!("({value},)")),
        ]
    })
}

fn expression() -> impl Strategy<Value = String> {
    let sign = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    (postfix(), prop::option::of((sign, postfix()))).prop_map(|(left, right)| match right {
        // Text and numbers have no order.
        Some((sign, right)) if left.starts_with(['m', 'd']) => format!("{left} {sign} {right}"),
        _ => left,
    })
}

proptest! {
    #[test]
    fn a_parsed_operation_does_what_python_does(text in expression()) {
        let scope = [MODULE, NUMPY, NAMES[0], NAMES[1]];
        let last = read(&text, &scope).map_err(|faults| TestCaseError::fail(format!("{text}: {faults:?}")))?;
        let parsed = Parsed { source: text.clone(), scope: scope.to_vec(), preferred: Vec::new(), last };
        let op = op::<2>(&parsed);
        prop_assert_eq!(op.uses, NAMES.map(|name| text.contains(name)));
        Python::attach(|py| {
            let globals = PyModule::new(py, "noting").unwrap().dict();
            py.run(NOTING, Some(&globals), None).unwrap();
            let noting = globals.get_item("Noting").unwrap().unwrap();
            // The second time, what is looked up once is known. Another module has objects of its own.
            for module in ["module", "module", "other"] {
                let [module, data, device] = [module, NAMES[0], NAMES[1]].map(|name| noting.call1((name,)).unwrap());
                for (name, value) in [(MODULE, &module), (NAMES[0], &data), (NAMES[1], &device)] {
                    globals.set_item(name, value).unwrap();
                }
                let text = std::ffi::CString::new(text.as_str()).unwrap();
                let expected = py.eval(&text, Some(&globals), None).unwrap().repr().unwrap();
                let found = (op.call)(&module, [&data, &device]).unwrap().repr().unwrap();
                assert_eq!(found.to_string(), expected.to_string());
            }
        });
    }
}
