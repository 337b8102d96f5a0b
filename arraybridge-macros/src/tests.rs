use super::*;

/// Without these, each use of them would be an error beside those of the tables.
#[test]
fn the_stand_in_defines_what_the_runtime_uses() {
    let tokens = stand_in().to_string();
    let names = known().unwrap().into_iter().map(|(name, _)| name.to_uppercase());
    let statics = names.map(|name| format!("pub static {name}"));
    let others = ["pub struct MemoryType", "MemoryType :: Numpy", "TABLES"];
    for item in statics.chain(others.map(str::to_owned)) {
        assert!(tokens.contains(&item), "{item}");
    }
}

#[test]
fn known_frameworks_come_with_their_memory() {
    let known = known().unwrap();
    let place = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, place)| *place);
    assert_eq!(place("numpy"), Some(Place::Host));
    assert_eq!(place("cupy"), Some(Place::Accelerator));
    assert_eq!(place("torch"), Some(Place::Either));
    assert_eq!(place("cupi"), None);
}
