//! Lists of files.

use std::env::{self, temp_dir};
use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, process};

use super::*;
use crate::read;

const TABLE: &str = r#"[NAME]
title = "T"
classes = ["NAME.A"]
memory = "host"
dtypes = ["standard"]
import = { op = "module.from_dlpack(data)" }
"#;

/// A file that lives until the test ends.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = temp_dir().join(format!("arraybridge-{}-{name}.toml", process::id()));
        fs::write(&path, text).unwrap();
        File(path)
    }

    fn shown(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn list<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> OsString {
    env::join_paths(paths).unwrap()
}

fn messages(files: &OsString) -> Vec<String> {
    listed(files).err().map(Problems::messages).unwrap_or_default()
}

#[test]
fn the_variable_lists_files() {
    let [a, b] = ["first", "second"].map(|name| File::new(name, &TABLE.replace("NAME", name)));
    let sources = listed(&list([&a.0, &b.0])).ok().unwrap();
    let frameworks = read(&sources).ok().unwrap();
    let names: Vec<_> = frameworks.iter().map(|framework| &framework.name).collect();
    assert_eq!(names[names.len() - 2..], ["first", "second"]);
    let labels: Vec<_> = sources.iter().map(|source| source.label.as_str()).collect();
    assert_eq!(labels, ["frameworks.toml", &a.shown(), &b.shown()]);
}

#[test]
fn empty_entries_of_the_list_are_left_out() {
    let file = File::new("alone", &TABLE.replace("NAME", "alone"));
    let sources = listed(&list([&PathBuf::new(), &file.0, &PathBuf::new()])).ok().unwrap();
    assert_eq!(sources.len(), 2);
    assert_eq!(listed(&OsString::new()).ok().unwrap().len(), 1);
}

#[test]
fn a_mistake_is_in_the_file_as_it_was_given() {
    let file = File::new("wrong", &TABLE.replace("NAME", "wrong").replace("title", "titel"));
    let sources = listed(&list([&file.0])).ok().unwrap();
    let found = read(&sources).err().map(Problems::messages).unwrap_or_default();
    let shown = file.shown();
    assert_eq!(found, [format!("{shown}:2:1: unknown key `titel` in [wrong]; write `title`")]);
}

#[test]
fn every_file_that_cannot_be_used_is_reported() {
    let file = File::new("twice", &TABLE.replace("NAME", "twice"));
    let gone = temp_dir().join("arraybridge-gone.toml");
    let found = messages(&list([&"near.toml".into(), &file.0, &gone, &file.0]));
    let [relative, missing, twice] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        relative,
        "ARRAYBRIDGE_FRAMEWORKS: near.toml is a relative path; write an absolute one"
    );
    let gone = gone.display();
    assert!(missing.starts_with(&format!("ARRAYBRIDGE_FRAMEWORKS: {gone} cannot be read: ")));
    let shown = file.shown();
    assert_eq!(*twice, format!("ARRAYBRIDGE_FRAMEWORKS: {shown} is listed twice; list it once"));
}
