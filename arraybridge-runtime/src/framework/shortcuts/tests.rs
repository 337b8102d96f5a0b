use super::*;

const EACH: [ShortCut; 4] =
    [ShortCut::Exchange, ShortCut::Buffer, ShortCut::Import, ShortCut::Transfer];

fn on(value: &str) -> [bool; 4] {
    let set = ShortCuts::parse(value).unwrap();
    EACH.map(|cut| set.has(cut))
}

#[test]
fn all_are_on_unless_the_variable_says_otherwise() {
    for value in ["", "1", " 1 "] {
        assert_eq!(on(value), [true; 4], "{value:?}");
    }
}

#[test]
fn zero_switches_all_off_and_unknown_names_are_refused() {
    assert_eq!((on("0"), on(" 0")), ([false; 4], [false; 4]));
    for value in ["none", "off", ",", "2", "buffer,typo"] {
        assert_eq!(ShortCuts::parse(value), None, "{value:?}");
    }
}

#[test]
fn a_list_leaves_on_only_what_it_names() {
    assert_eq!(on("exchange"), [true, false, false, false]);
    assert_eq!(on(" import , exchange"), [true, false, true, false]);
    assert_eq!(on("transfer"), [false, false, false, true]);
    assert_eq!(on("exchange,buffer,import,transfer"), [true; 4]);
}
