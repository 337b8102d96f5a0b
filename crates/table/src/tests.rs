//! Tables and the mistakes that are found in them.

use std::path::Path;
use std::{env, fs};

use proptest::prelude::*;

use super::*;

/// Without a mistake, on the host.
const HOST: &str = r#"[x]
title = "X"
classes = ["x.A"]
memory = "host"
dtypes = ["standard"]
import = { op = "module.from_dlpack(data)" }
guards = [{ why = "lazy", when = "data.lazy" }]
"#;

/// Without a mistake, with an accelerator.
const GPU: &str = r#"[g]
title = "G"
classes = ["g.A"]
dtypes = ["standard"]
import = { op = "module.from_dlpack(data)" }
[g.device]
count = "module.count()"
at = "module.at(index)"
scope = "device"
"#;

fn source(label: &str, text: &str) -> Source {
    Source { label: label.into(), text: text.into() }
}

/// The messages for the mistakes in some files. Each names a place and says what to write instead.
fn mistakes(sources: &[Source]) -> Vec<String> {
    let messages = read(sources).map_or_else(Problems::messages, |_| Vec::new());
    for message in &messages {
        let text = message.splitn(4, ':').nth(3).unwrap_or_else(|| panic!("no place: {message}"));
        assert!(text.contains("; "), "nothing to write instead: {message}");
        assert!(!text.ends_with('.'), "a full stop: {message}");
        assert!(!text.trim_start().starts_with(char::is_uppercase), "upper case: {message}");
    }
    messages
}

/// One mistake each: a table without one, in which a text is replaced, and what is reported.
macro_rules! mistakes {
    ($($name:ident: $base:ident, $from:literal => $to:literal, [$($message:expr),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            assert!($base.contains($from));
            let text = $base.replacen($from, $to, 1);
            assert_eq!(mistakes(&[source("t.toml", &text)]), [$($message),*]);
        }
    )*};
}

mistakes! {
    a_misspelt_key: HOST, "title =" => "titel =", [
        "t.toml:2:1: unknown key `titel` in [x]; write `title`",
    ];
    a_key_unlike_any_known_one: HOST, "title = \"X\"\n" => "title = \"X\"\nwavelength = 3\n", [
        "t.toml:3:1: unknown key `wavelength` in [x]; known keys: title, classes, dtypes, module, install, memory, immutable, align, cached_scalars, isolate, init, initialized, dtype, dtype_names, dtype_of, shape_of, missing, no_dlpack, no_slices, slices, ndim, empty, shapes, values, refuse, guards, reasons, export, import, to_numpy, from_numpy, fill, fast_to_numpy, fast_from_numpy, copy, recording, watched, copy_recorded, transforming, tracing, translate, ready, lazy, version, count_write, offset, uncounted, counting, places, device, stream, array, oom, gaps, clear, host_modules, metadata, check",
    ];
    a_dtype_by_another_name: HOST, "\"standard\"" => "\"float\", \"double\"", [
        "t.toml:5:11: unknown dtype `float`; write `float32` or `float64`",
        "t.toml:5:20: unknown dtype `double`; write `float64`",
    ];
    a_file_without_a_header: HOST, "[x]\n" => "", [
        "t.toml:1:1: `title` is in no table; write the name of its framework above it, such as [my_framework]",
    ];
    a_value_of_the_wrong_type: HOST, r#""X""# => "3", [
        "t.toml:2:9: `title` is of type integer; write a string",
    ];
    a_pin_without_an_owner: HOST, "guards =" => "export = { pin = { when = \"owner.a\", op = \"owner.b()\" } }\nguards =", [
        r#"t.toml:7:12: `pin` needs `owner`; add owner = "op(data)""#,
    ];
    a_pin_without_its_op: HOST, "guards =" => "export = { owner = \"data.o\", pin = { when = \"owner.a\" } }\nguards =", [
        "t.toml:7:30: [x.export.pin] has no `op`; add op = \"op(owner)\"",
    ];
    a_list_in_place_of_a_string: HOST, r#""lazy""# => r#"["lazy"]"#, [
        "t.toml:7:19: `why` is of type array; write a string",
    ];
    an_element_of_the_wrong_type: HOST, r#"["x.A"]"# => r#"["x.A", 7]"#, [
        "t.toml:3:19: `classes` is of type integer; write a string",
    ];
    a_missing_key: HOST, "classes = [\"x.A\"]\n" => "", [
        r#"t.toml:1:2: [x] has no `classes`; add classes = ["x.SomeArray"]"#,
    ];
    an_empty_title: HOST, r#""X""# => r#"" ""#, [
        "t.toml:2:9: `title` is empty; write a few words",
    ];
    no_classes: HOST, r#"["x.A"]"# => "[]", [
        "t.toml:3:1: `classes` is empty; list at least one class",
    ];
    a_class_without_a_module: HOST, r#""x.A""# => r#""A""#, [
        "t.toml:3:12: class `A` has no module; write `module.A`",
    ];
    a_class_that_is_not_a_name: HOST, r#""x.A""# => r#""x.A[int]""#, [
        "t.toml:3:12: `x.A[int]` is not a Python name; write names and dots",
    ];
    a_class_twice: HOST, r#"["x.A"]"# => r#"["x.A", "x.A"]"#, [
        "t.toml:3:19: `x.A` is already listed in [x]; list it once",
    ];
    an_unknown_dtype: HOST, r#"["standard"]"# => r#"["standard", "float23"]"#, [
        "t.toml:5:23: unknown dtype `float23`; write `float16`",
    ];
    a_dtype_unlike_any_known_one: HOST, r#"["standard"]"# => r#"["decimal"]"#, [
        "t.toml:5:11: unknown dtype `decimal`; known dtypes: bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, float32, float64, complex64, complex128, bfloat16, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu",
    ];
    a_dtype_twice: HOST, r#"["standard"]"# => r#"["standard", "bool"]"#, [
        "t.toml:5:23: `bool` is already listed; list it once",
    ];
    no_dtypes: HOST, r#"["standard"]"# => "[]", [
        "t.toml:5:1: `dtypes` is empty; list the dtypes",
    ];
    an_unknown_memory: HOST, r#""host""# => r#""gpu""#, [
        "t.toml:4:10: unknown value `gpu`; write `accelerator`",
    ];
    an_unknown_kind: HOST, r#"when = "data.lazy""# => r#"when = "data.lazy", kinds = ["floats"]"#, [
        "t.toml:7:56: unknown kind `floats`; write `float`",
    ];
    a_guard_without_why: HOST, r#"why = "lazy", "# => "", [
        r#"t.toml:7:11: `guards` of [x] has no `why`; add why = "a few words""#,
    ];
    a_guard_without_when: HOST, r#", when = "data.lazy""# => "", [
        r#"t.toml:7:11: `guards` of [x] has no `when`; add when = "op(data)""#,
    ];
    a_guard_that_is_no_table_beside_one_with_a_mistake: HOST, "guards = [" => "guards = [3, { why = \"eager\" }, ", [
        "t.toml:7:11: `guards` of [x] is of type integer; write a table",
        r#"t.toml:7:14: `guards` of [x] has no `when`; add when = "op(data)""#,
    ];
    two_numbers_of_the_wrong_type: HOST, "guards" => "ndim = [\"a\", 1.5]\nguards", [
        "t.toml:7:9: `ndim` is of type string; write a whole number",
        "t.toml:7:14: `ndim` is of type float; write a whole number",
    ];
    a_misspelt_role: HOST, r#"why = "lazy""# => r#"why = "lazy", role = "gradeint""#, [
        "t.toml:7:34: unknown role `gradeint`; write `gradient`",
    ];
    a_role_unlike_any_known_one: HOST, r#"why = "lazy""# => r#"why = "lazy", role = "autograd""#, [
        "t.toml:7:34: unknown role `autograd`; known roles: gradient, traced, differentiated, lifted, released",
    ];
    a_role_of_another_list: HOST, r#"why = "lazy""# => r#"why = "lazy", role = "lifted""#, [
        "t.toml:7:34: role `lifted` belongs to `reasons`; remove it from `guards`",
    ];
    a_refusal_without_why: HOST, "guards" => "refuse = [{ classes = [\"x.B\"] }]\nguards", [
        r#"t.toml:7:11: `refuse` of [x] has no `why`; add why = "a few words""#,
    ];
    a_refusal_without_classes: HOST, "guards" => "refuse = [{ why = \"sparse\" }]\nguards", [
        r#"t.toml:7:11: `refuse` of [x] has no `classes`; add classes = ["x.SomeClass"]"#,
    ];
    a_refusal_of_no_classes: HOST, "guards" => "refuse = [{ why = \"sparse\", classes = [] }]\nguards", [
        "t.toml:7:29: `classes` is empty; list at least one class",
    ];
    a_class_that_is_an_array_and_refused: HOST, "guards" => "refuse = [{ why = \"sparse\", classes = [\"x.A\"] }]\nguards", [
        "t.toml:7:40: `x.A` is already listed in [x]; list it once",
    ];
    a_host_with_a_device: HOST, "guards" => "device = { count = \"1\", at = \"index\" }\nguards", [
        r#"t.toml:7:1: [x] has host memory and cannot have `device`; remove it or write memory = "either""#,
    ];
    a_host_with_a_stream: HOST, "guards" => "stream = { current = \"1\", handle = \"1\", wrap = \"1\", scope = \"stream\" }\nguards", [
        r#"t.toml:7:1: [x] has host memory and cannot have `stream`; remove it or write memory = "either""#,
    ];
    no_way_in: HOST, r#"import = { op = "module.from_dlpack(data)" }"# => "export = {}", [
        "t.toml:1:2: nothing can be converted to [x]; add `import` or `from_numpy`",
    ];
    no_way_out: HOST, r#"import = { op = "module.from_dlpack(data)" }"# => r#"from_numpy = "data""#, [
        "t.toml:1:2: nothing can be converted from [x]; add `export` or `to_numpy`",
    ];
    a_lazy_framework_without_ready: HOST, "guards" => "lazy = true\nguards", [
        r#"t.toml:7:1: `lazy` needs `ready`; add ready = "op(data)""#,
    ];
    a_recorded_copy_in_place_of_nothing: HOST, "guards" => "copy_recorded = \"data\"\nguards", [
        r#"t.toml:7:1: `copy_recorded` needs `copy`; add copy = "op(data)""#,
        r#"t.toml:7:1: `copy_recorded` needs `recording`; add recording = "op()""#,
    ];
    fast_functions_in_place_of_nothing: HOST, "guards" => "fast_to_numpy = { float32 = \"data\" }\nfast_from_numpy = { create = \"data\", write = \"array\" }\nguards", [
        r#"t.toml:7:1: `fast_to_numpy` needs `to_numpy`; add to_numpy = "op(data)""#,
        r#"t.toml:7:1: `fast_to_numpy` needs `from_numpy`; add from_numpy = "op(data, dtype, device)""#,
        r#"t.toml:8:1: `fast_from_numpy` needs `to_numpy`; add to_numpy = "op(data)""#,
        r#"t.toml:8:1: `fast_from_numpy` needs `from_numpy`; add from_numpy = "op(data, dtype, device)""#,
    ];
    fast_functions_with_mistakes: HOST, "guards" => "to_numpy = \"data\"\nfrom_numpy = \"data\"\nfast_to_numpy = { bfloat16 = \"data\", float32 = \"device\", int7 = \"data\" }\nfast_from_numpy = { create = \"array\", wirte = \"array\" }\nguards", [
        "t.toml:9:19: `bfloat16` is not in the framework's `dtypes`; add it there or remove it here",
        "t.toml:9:49: unknown name `device`; known names: module, numpy, data",
        "t.toml:9:58: unknown dtype `int7`; write `int8`",
        "t.toml:10:31: unknown name `array`; known names: module, numpy, data, device",
        "t.toml:10:39: unknown key `wirte` in [x.fast_from_numpy]; write `write`",
    ];
    a_dtype_without_dlpack_and_without_to_numpy: HOST, "guards" => "no_dlpack = [\"float64\"]\nfrom_numpy = \"data\"\nguards", [
        r#"t.toml:7:1: `no_dlpack` needs `to_numpy`; add to_numpy = "op(data)""#,
    ];
    a_dtype_that_is_not_exported_and_has_no_to_numpy: HOST, "guards" => "export = { no_dlpack = [\"float64\"] }\nguards", [
        r#"t.toml:7:12: `no_dlpack` needs `to_numpy`; add to_numpy = "op(data)""#,
    ];
    a_dtype_that_is_not_imported_and_has_no_from_numpy: HOST, r#"(data)" }"# => r#"(data)", no_dlpack = ["float64"] }"#, [
        r#"t.toml:6:45: `no_dlpack` needs `from_numpy`; add from_numpy = "op(data, dtype, device)""#,
    ];
    a_dtype_that_is_not_imported_and_not_listed: HOST, r#"(data)" }"# => "(data)\", no_dlpack = [\"bfloat16\"] }\nfrom_numpy = \"data\"", [
        "t.toml:6:58: `bfloat16` is not in the framework's `dtypes`; add it there or remove it here",
    ];
    an_unknown_key_beside_an_op_with_a_mistake: HOST, r#"(data)" }"# => r#"(dat)", aline = 64 }"#, [
        "t.toml:6:37: unknown name `dat`; write `data`",
        "t.toml:6:44: unknown key `aline` in [x.import]; write `align`",
    ];
    an_isolated_library_with_a_path_of_the_system: HOST, "guards" => "isolate = { libraries = [\"/usr/lib/x.so\"], from = \"y\" }\nguards", [
        "t.toml:7:26: `/usr/lib/x.so` is not a file in a package; write `package/folder/name.so`, or a name alone",
    ];
    an_isolated_library_outside_its_package: HOST, "guards" => "isolate = { libraries = [\"libx.so\", \"x/../y.so\"], from = \"y\" }\nguards", [
        "t.toml:7:37: `x/../y.so` is not a file in a package; write `package/folder/name.so`, or a name alone",
    ];
    an_init_with_data: HOST, "guards" => "init = \"module.init(data)\"\nguards", [
        "t.toml:7:21: unknown name `data`; known names: module, numpy",
    ];
    a_dtype_without_dlpack_that_is_not_listed: HOST, "guards" => "no_dlpack = [\"bfloat16\"]\nfrom_numpy = \"data\"\nto_numpy = \"data\"\nguards", [
        "t.toml:7:14: `bfloat16` is not in the framework's `dtypes`; add it there or remove it here",
    ];
    an_alignment_that_is_not_a_power_of_two: HOST, r#"(data)" }"# => r#"(data)", align = 48 }"#, [
        "t.toml:6:53: align = 48 is not a power of two; write one such as 64",
    ];
    reversed_axes: HOST, "guards" => "ndim = [3, 1]\nguards", [
        "t.toml:7:1: `ndim` is reversed; write [1, 3]",
    ];
    too_many_axes: HOST, "guards" => "ndim = [0, 65]\nguards", [
        "t.toml:7:1: `ndim` is out of range; write numbers from 0 to 64",
    ];
    one_number_of_axes: HOST, "guards" => "ndim = [3]\nguards", [
        "t.toml:7:1: `ndim` takes two numbers; write [least, most]",
    ];
    an_import_of_both: HOST, r#"(data)""# => r#"(data, capsule)""#, [
        "t.toml:6:12: the op uses both `data` and `capsule`; use one of them",
    ];
    an_import_of_neither: HOST, r#"(data)""# => r#"()""#, [
        "t.toml:6:12: the op uses neither `data` nor `capsule` nor `array`; use one of them",
    ];
    an_import_of_numpy_arrays_on_a_device: GPU, "(data)" => "(array)", [
        "t.toml:5:12: the op takes a NumPy array, which is in host memory; write memory = \"host\", or take `data` or `capsule`",
    ];
    a_read_only_import_that_refuses_it: HOST, r#"(data)" }"# => r#"(data)", read_only = true, writable_only = true }"#, [
        "t.toml:6:63: `writable_only` says that read-only memory is refused, and `read_only` that it is taken; remove one of them",
    ];
    a_condition_of_an_init_that_is_not_there: HOST, "guards" => "initialized = \"module.ready\"\nguards", [
        "t.toml:7:1: `initialized` needs `init`; add init = \"op()\"",
    ];
    a_fill_of_nothing: HOST, "guards" => "fill = \"array.set(data)\"\nguards", [
        "t.toml:7:1: `fill` needs `from_numpy`; add from_numpy = \"op(data, dtype, device)\"",
    ];
    an_unknown_way_to_slices: HOST, "guards" => "slices = \"iteration\"\nguards", [
        "t.toml:7:10: unknown value `iteration`; known values: iterate, index, none",
    ];
    unknown_strides: HOST, r#"(data)" }"# => r#"(data)", strides = "sparse" }"#, [
        "t.toml:6:55: unknown value `sparse`; known values: any, positive, permuted, contiguous",
    ];
    an_unknown_device_type: HOST, r#"(data)" }"# => r#"(data)", devices = [1, 99, 5] }"#, [
        "t.toml:6:59: 99 is not a DLPack device type; write one of cpu, cuda, cuda_host, opencl, vulkan, metal, vpi, rocm, rocm_host, ext_dev, cuda_managed, oneapi, webgpu, hexagon, maia, trn",
        "t.toml:6:63: 5 is not a DLPack device type; write one of cpu, cuda, cuda_host, opencl, vulkan, metal, vpi, rocm, rocm_host, ext_dev, cuda_managed, oneapi, webgpu, hexagon, maia, trn",
    ];
    a_misspelt_device: HOST, r#"(data)" }"# => r#"(data)", devices = ["cpu", "cuda_mangd"] }"#, [
        "t.toml:6:63: unknown device `cuda_mangd`; write `cuda_managed`",
    ];
    a_device_of_the_wrong_type: HOST, r#"(data)" }"# => r#"(data)", devices = "cpu" }"#, [
        "t.toml:6:55: `devices` is of type string; write a list of names or numbers",
    ];
    a_misspelt_way_in: HOST, "import =" => "imports =", [
        "t.toml:6:1: unknown key `imports` in [x]; write `import`",
    ];
    a_misspelt_way_out: HOST, r#"import = { op = "module.from_dlpack(data)" }"# => "from_numpy = \"data\"\nto_nunpy = \"data\"", [
        "t.toml:7:1: unknown key `to_nunpy` in [x]; write `to_numpy`",
    ];
    a_misspelt_device_table: GPU, "[g.device]" => "[g.devise]", [
        "t.toml:6:4: unknown key `devise` in [g]; write `device`",
    ];
    a_misspelt_at: GPU, "at =" => "att =", [
        "t.toml:8:1: unknown key `att` in [g.device]; write `at`",
    ];
    a_name_of_the_package: HOST, "[x]" => "[convert]", [
        "t.toml:1:2: `convert` is a name of the package and cannot name a table; use another name",
    ];
    a_dtype_op_that_ignores_the_name: HOST, "guards" => "dtype = \"module.float32\"\nguards", [
        "t.toml:7:1: the op does not use `name`, so every dtype would be the same; write op(name)",
    ];
    an_array_table_without_namespace: HOST, "guards" => "array = { min = \"xp.amin(data)\" }\nguards", [
        r#"t.toml:7:1: [x.array] has no `namespace`; add namespace = "module""#,
    ];
    an_unknown_array_op: HOST, "guards" => "array = { namespace = \"module\", maxx = \"xp.amax(data)\" }\nguards", [
        "t.toml:7:33: unknown key `maxx` in [x.array]; write `max`",
    ];
    an_out_of_memory_rule_without_class: HOST, "guards" => "oom = [{ text = \"out of memory\" }]\nguards", [
        r#"t.toml:7:8: `oom` of [x] has no `class`; add class = "builtins.MemoryError""#,
    ];
    an_error_test_with_another_name: HOST, "guards" => "oom = [{ class = \"x.E\", when = \"err.code == 2\" }]\nguards", [
        "t.toml:7:33: unknown name `err`; write `error`",
    ];
    an_upper_case_table: HOST, "[x]" => "[X]", [
        "t.toml:1:2: `X` cannot name a table; use lower-case letters, digits and underscores",
    ];
    a_keyword_table: HOST, "[x]" => "[class]", [
        "t.toml:1:2: `class` is a keyword and cannot name a table; use another name",
    ];
    a_value_at_the_top: HOST, "[x]" => "y = 1\n[x]", [
        "t.toml:1:1: `y` is in no table; write the name of its framework above it, such as [my_framework]",
    ];
    invalid_toml: HOST, r#"title = "X""# => r#"title = "X"#, [
        r#"t.toml:2:11: invalid basic string, expected `"`; write valid TOML"#,
    ];
    an_array_that_does_not_end: HOST, r#"["standard"]"# => r#"["standard""#, [
        "t.toml:6:1: missing comma between array elements, expected `,`; write valid TOML",
    ];
    a_line_without_a_value: HOST, r#"title = "X""# => "title", [
        "t.toml:2:6: key with no value, expected `=`; write valid TOML",
    ];
    a_table_that_is_written_twice: HOST, "[x]" => "[x]\n[x]", [
        "t.toml:2:2: `x` is there twice; write it once",
    ];
    an_unknown_name: HOST, r#""data.lazy""# => r#""array.lazy""#, [
        "t.toml:7:35: unknown name `array`; known names: module, numpy, data",
    ];
    a_name_like_one_in_scope: HOST, r#""data.lazy""# => r#""dat.lazy""#, [
        "t.toml:7:35: unknown name `dat`; write `data`",
    ];
    two_unknown_names: HOST, r#""data.lazy""# => r#""f(a, b)""#, [
        "t.toml:7:35: unknown name `f`; known names: module, numpy, data",
        "t.toml:7:37: unknown name `a`; known names: module, numpy, data",
        "t.toml:7:40: unknown name `b`; known names: module, numpy, data",
    ];
    a_lower_case_truth: HOST, r#""data.lazy""# => r#""data.lazy == true""#, [
        "t.toml:7:48: unknown name `true`; write `True`",
    ];
    arithmetic: HOST, r#""data.lazy""# => r#""data.n + 1""#, [
        "t.toml:7:42: unexpected `+`; write attributes, calls, indexing, literals and at most one comparison",
    ];
    a_chained_comparison: HOST, r#""data.lazy""# => r#""0 < data.n < 3""#, [
        "t.toml:7:46: comparisons cannot be chained; write one comparison",
    ];
    a_comment: HOST, r#""data.lazy""# => r#""data.n // 2""#, [
        "t.toml:7:42: unexpected `//`; write attributes, calls, indexing, literals and at most one comparison",
    ];
    single_quotes: HOST, r#""data.lazy""# => r#""data.type == 'meta'""#, [
        "t.toml:7:48: unexpected `'`; write strings in double quotes",
    ];
    an_op_that_ends_early: HOST, r#""data.lazy""# => r#""data.""#, [
        "t.toml:7:40: the op ends too early; write attributes, calls, indexing, literals and at most one comparison",
    ];
    an_open_bracket: HOST, r#""data.lazy""# => r#""data.f(""#, [
        "t.toml:7:42: the op ends too early; write attributes, calls, indexing, literals and at most one comparison",
    ];
    an_empty_op: HOST, r#""data.lazy""# => r#""""#, [
        "t.toml:7:34: the op is empty; write a Python expression",
    ];
    no_alternatives: HOST, r#""data.lazy""# => "[]", [
        "t.toml:7:34: `when` is empty; write an op",
    ];
    a_bad_alternative: HOST, r#""data.lazy""# => r#"["data.a", "data.b..c"]"#, [
        "t.toml:7:53: unexpected `.`; write attributes, calls, indexing, literals and at most one comparison",
    ];
    a_positional_after_a_keyword: HOST, r#""data.lazy""# => r#""module.f(a = 1, data)""#, [
        "t.toml:7:51: a positional argument follows a keyword; put it before the keywords",
    ];
    a_keyword_twice: HOST, r#""data.lazy""# => r#""module.f(a = 1, a = 2)""#, [
        "t.toml:7:51: the keyword `a` is given twice; give it once",
    ];
    a_slice: HOST, r#""data.lazy""# => r#""data[0:1]""#, [
        "t.toml:7:41: an op has no slices; call a function or a method that takes the part",
    ];
    a_rust_suffix: HOST, r#""data.lazy""# => r#""data.n == 1u8""#, [
        "t.toml:7:45: the literal has a prefix or suffix; write a plain Python string or number",
    ];
    a_place_in_a_literal_string: HOST, r#""data.lazy""# => r#"'data.kind("é") == kind'"#, [
        "t.toml:7:53: unknown name `kind`; known names: module, numpy, data",
    ];
    a_place_in_an_escaped_string: HOST, r#""data.lazy""# => r#""data.kind(\"meta\") == kind""#, [
        "t.toml:7:34: unknown name `kind`; known names: module, numpy, data",
    ];
    an_accelerator_without_devices: GPU, "import = { op = \"module.from_dlpack(data)\" }\n[g.device]\ncount = \"module.count()\"\nat = \"module.at(index)\"\nscope = \"device\"\n" => "memory = \"either\"\nfrom_numpy = \"module.f(data)\"\nto_numpy = \"module.g(data)\"\n", [
        r#"t.toml:1:2: [g] has accelerator memory but no `device`; add one with `count` and `at`, or write memory = "host""#,
    ];
    a_scope_without_at: GPU, "at = \"module.at(index)\"\n" => "", [
        r#"t.toml:6:4: [g.device] has no `at`, which `scope` needs; add at = "op(index)""#,
    ];
    devices_without_count: GPU, "count = \"module.count()\"\n" => "", [
        r#"t.toml:6:4: [g.device] has no `count`; add count = "op()", a number or a sequence"#,
    ];
    a_host_scope_without_host: GPU, r#"scope = "device""# => r#"host_scope = "device""#, [
        r#"t.toml:9:1: `host_scope` needs `host`; add host = "op(index)""#,
    ];
    a_stream_without_its_ops: GPU, "[g.device]" => "[g.stream]\nscope = \"stream\"\n[g.device]", [
        r#"t.toml:6:4: [g.stream] has no `current`; add current = "op(device, index)""#,
        r#"t.toml:6:4: [g.stream] has no `handle`; add handle = "op(stream)", the raw handle"#,
        r#"t.toml:6:4: [g.stream] has no `wrap`; add wrap = "op(handle, device, index, stream)""#,
    ];
    an_export_that_nothing_orders: GPU, "[g.device]" => "[g.export]\nop = \"data.__dlpack__()\"\n[g.device]", [
        r#"t.toml:7:1: the op does not use `stream`, so nothing orders it; use it or write ordered_by = "host" or "device""#,
    ];
    an_export_that_says_that_nothing_orders_it: GPU, "[g.device]" => "[g.export]\nordered_by = \"nothing\"\n[g.device]", [
        "t.toml:7:14: unknown value `nothing`; known values: stream, host, device",
    ];
    an_import_that_says_what_orders_it: GPU, "(data)\" }" => "(data)\", ordered_by = \"host\" }", [
        "t.toml:5:45: unknown key `ordered_by` in [g.import]; known keys: op, fast, devices, strides, forgets_strides, align, device_align, read_only, writable_only, shares, no_dlpack",
    ];
    a_move_without_data: GPU, r#"scope = "device""# => r#"scope = "module.device(dev)""#, [
        "t.toml:9:24: unknown name `dev`; known names: module, numpy, device",
    ];
}

#[test]
fn tables_without_a_mistake_have_none() {
    assert_eq!(mistakes(&[source("host.toml", HOST), source("gpu.toml", GPU)]), [""; 0]);
}

#[test]
fn a_file_without_tables_is_a_mistake() {
    let found = mistakes(&[source("t.toml", "# Nothing yet.\n")]);
    assert_eq!(found, ["t.toml:1:1: the file has no tables; add one for each framework"]);
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once_in_their_order() {
    let host = HOST.replace("title", "titel").replace("data.lazy", "data.lazy + 1");
    let gpu = GPU.replace("module.at(index)", "module.at(idx)");
    let found = mistakes(&[source("a.toml", &host), source("b.toml", &gpu)]);
    assert_eq!(
        found,
        [
            "a.toml:2:1: unknown key `titel` in [x]; write `title`",
            "a.toml:7:45: unexpected `+`; write attributes, calls, indexing, literals and at most \
             one comparison",
            "b.toml:8:17: unknown name `idx`; write `index`",
        ]
    );
}

#[test]
fn a_name_that_two_files_use_is_reported_in_the_second() {
    let again = HOST.replace("x.A", "x.B");
    let found = mistakes(&[source("a.toml", HOST), source("b.toml", &again)]);
    assert_eq!(found, ["b.toml:1:2: there is already a table [x] of a.toml; use another name"]);
}

#[test]
fn a_class_that_two_tables_list_is_reported_in_the_second() {
    let other = HOST.replace("[x]", "[y]");
    let found = mistakes(&[source("a.toml", HOST), source("b.toml", &other)]);
    assert_eq!(found, ["b.toml:3:12: `x.A` is already listed in [x] of a.toml; list it once"]);
}

#[test]
fn names_that_differ_by_underscores_only_are_reported() {
    let other = HOST.replace("[x]", "[x_]").replace("x.A", "x.B");
    let found = mistakes(&[source("a.toml", HOST), source("b.toml", &other)]);
    assert_eq!(found, ["b.toml:1:2: [x_] and [x] both generate the name `X`; rename one of them"]);
}

fn is_tested(framework: &Framework) -> bool {
    matches!(framework.entries.get("is_tested"), Some(Value::Flag(true)))
}

#[test]
fn only_the_tables_of_this_crate_are_tested() {
    let own = read(&[embedded()]).unwrap_or_else(|_| panic!("a mistake"));
    let other = read(&[source("t.toml", HOST)]).unwrap_or_else(|_| panic!("a mistake"));
    assert!(own.iter().all(is_tested));
    assert!(!is_tested(&other[0]));
}

#[test]
fn the_tables_of_this_crate_have_no_mistake() {
    assert_eq!(mistakes(&[embedded()]), [""; 0]);
}

/// The frameworks of a text without a mistake.
fn frameworks(text: &str) -> Vec<Framework> {
    let frameworks = read(&[source("t.toml", text)]);
    frameworks.unwrap_or_else(|found| panic!("{}", found.messages().join("\n")))
}

/// The dtypes of a key.
fn dtypes(table: &Entries, key: &str) -> Vec<&'static str> {
    table.set_of(key).iter().map(|dtype| dtype.word).collect()
}

/// A key is of the whole table, of its exports or of its imports.
#[test]
fn dtypes_lack_dlpack_in_both_directions_or_in_one() {
    let (text, import) = (HOST, r#"(data)" }"#);
    let text = text.replace(import, r#"(data)", no_dlpack = ["float32"] }"#);
    let text = format!(
        "{text}no_dlpack = [\"float16\"]\nto_numpy = \"data\"\nfrom_numpy = \"data\"\n\
         export = {{ no_dlpack = [\"float64\"] }}\n"
    );
    let table = &frameworks(&text)[0].entries;
    assert_eq!(dtypes(table, "not_exported"), ["float16", "float64"]);
    assert_eq!(dtypes(table, "not_imported"), ["float16", "float32"]);
}

#[test]
fn dtypes_without_slices_are_listed() {
    let text = format!("{HOST}no_slices = [\"float16\"]\n");
    assert_eq!(dtypes(&frameworks(&text)[0].entries, "no_slices"), ["float16"]);
    let table = &frameworks(&format!("{HOST}no_slices = [\"all\"]\n"))[0].entries;
    assert_eq!(dtypes(table, "no_slices"), dtypes(table, "dtypes"));
}

#[test]
fn a_device_is_a_name_or_a_number_of_dlpack() {
    let text = HOST.replace(r#"(data)" }"#, r#"(data)", devices = ["cpu", 3, "rocm_host", 13] }"#);
    let frameworks = frameworks(&text);
    let Some(Value::List(devices)) = frameworks[0].entries.table("import").unwrap().get("devices")
    else {
        panic!("no devices")
    };
    let number = |device: &Value| match device {
        Value::Word(_, word) => word.variant,
        _ => panic!("no device"),
    };
    assert_eq!(devices.iter().map(number).collect::<Vec<_>>(), ["1", "3", "11", "13"]);
}

/// The roles of every reason of the first table, list by list.
fn roles(text: &str) -> [Vec<Option<&'static str>>; 3] {
    let frameworks = frameworks(text);
    let role = |reason: &Value| match reason {
        Value::Table(reason) => reason.word("role"),
        _ => panic!("no reason"),
    };
    ["refuse", "guards", "reasons"].map(|list| match frameworks[0].entries.get(list) {
        Some(Value::List(reasons)) => reasons.iter().map(role).collect(),
        _ => panic!("no list"),
    })
}

#[test]
fn a_reason_has_its_role_whatever_its_wording() {
    let table = HOST.replace(
        r#"guards = [{ why = "lazy", when = "data.lazy" }]"#,
        r#"
refuse = [{ why = "W", role = "traced", classes = ["x.T"] }, { why = "V", classes = ["x.S"] }]
guards = [{ why = "W", role = "gradient", when = "data.g" }, { why = "V", when = "data.v" }]
reasons = [{ why = "W", role = "lifted", when = "data.l" }, { why = "V", when = "data.v" }]
"#,
    );
    let expected = ["traced", "gradient", "lifted"].map(|role| vec![Some(role), None]);
    // Neither what the tables of this crate say, nor a role's own name, means anything in `why`.
    for (w, v) in [("requires_grad", "anything"), ("recorded", "requires_grad"), ("x", "traced")] {
        assert_eq!(
            roles(&table.replace("\"W\"", &format!("{w:?}")).replace("\"V\"", &format!("{v:?}"))),
            expected
        );
    }
}

#[test]
fn the_page_of_keys_is_the_list_of_keys() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/table-keys.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(page::START).expect("the page has a generated part");
    let (_, after) = rest.split_once(page::END).expect("the generated part ends");
    let written = [before, page::START, &page::render(), page::END, after].concat();
    if env::var_os("ARRAYBRIDGE_BLESS").is_some() {
        return fs::write(&page, &written).unwrap();
    }
    assert!(text == written, "ARRAYBRIDGE_BLESS=1 writes docs/table-keys.md anew");
}

/// A line of [`HOST`] without its key, and the lines around it.
fn without(key: &str) -> String {
    let lines = HOST.lines().filter(|line| !line.starts_with(key));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A value of any type, of the words that tables are made of.
fn value() -> impl Strategy<Value = String> {
    let word =
        "data|module|x\\.A|op|why|classes|host|float32|capsule|-?[0-9]{1,20}|[ -~&&[^\\\\\"]]{0,8}";
    let key = "op|why|when|then|role|classes|dtypes|devices|align|count|at|namespace|pin|owner|[a-z]{1,4}";
    let leaf = prop_oneof![
        word.prop_map(|text| format!("{text:?}")),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        Just("1.5".to_owned()),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let table = prop::collection::btree_map(key, inner, 0..4);
        let entries = table.prop_map(|table| {
            let entries = table.into_iter().map(|(key, value)| format!("{key} = {value}"));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        });
        prop_oneof![list.prop_map(|list| format!("[{}]", list.join(", "))), entries]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_the_table_reader_panic(text in "\\PC{0,80}") {
        let _ = mistakes(&[source("t.toml", &text)]);
    }

    #[test]
    fn no_value_makes_the_validation_panic(
        key in "title|classes|memory|dtypes|dtype|dtype_names|missing|no_dlpack|no_slices|export|import|\
                device|stream|array|guards|refuse|reasons|ndim|values|oom|align|isolate",
        value in value(),
    ) {
        let text = format!("{}{key} = {value}\n", without(&key));
        let found = mistakes(&[source("t.toml", &text)]);
        prop_assert!(!found.iter().any(|message| message.contains("valid TOML")), "{found:?}");
    }

    #[test]
    fn every_mistake_has_a_place_and_says_what_to_write(
        from in 0..HOST.len(),
        length in 0..8usize,
        text in "\\PC{0,4}",
    ) {
        let mut table = HOST.to_owned();
        table.replace_range(from..(from + length).min(HOST.len()), &text);
        let _ = mistakes(&[source("t.toml", &table)]);
    }
}
