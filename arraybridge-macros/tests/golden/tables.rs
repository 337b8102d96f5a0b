/// A framework whose arrays can be converted.
#[derive(
    ::core::clone::Clone,
    ::core::marker::Copy,
    ::core::fmt::Debug,
    ::core::cmp::PartialEq,
    ::core::cmp::Eq,
    ::core::cmp::PartialOrd,
    ::core::cmp::Ord,
    ::core::hash::Hash,
)]
#[repr(u8)]
pub enum MemoryType {
    /// Host.
    Host,
    /// Chip.
    Chip,
}
impl MemoryType {
    /// The number of frameworks.
    pub const COUNT: usize = 2;
    /// Every framework, in the order of the tables.
    pub const ALL: [MemoryType; MemoryType::COUNT] = [
        MemoryType::Host,
        MemoryType::Chip,
    ];
    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            MemoryType::Host => "host",
            MemoryType::Chip => "chip",
        }
    }
    /// The framework of a name.
    pub fn from_name(name: &str) -> ::core::option::Option<MemoryType> {
        match name {
            "host" => ::core::option::Option::Some(MemoryType::Host),
            "chip" => ::core::option::Option::Some(MemoryType::Chip),
            _ => ::core::option::Option::None,
        }
    }
    /// The framework's table.
    pub fn framework(self) -> &'static ::arraybridge_runtime::__private::Framework {
        match self {
            MemoryType::Host => &statics::HOST,
            MemoryType::Chip => &statics::CHIP,
        }
    }
}
/// One static per table.
pub mod statics {
    /// The table `host`: Host.
    pub static HOST: ::arraybridge_runtime::__private::Framework = ::arraybridge_runtime::__private::Framework {
        memory_type: super::MemoryType::Host,
        name: "host",
        is_tested: false,
        title: "Host",
        classes: &["host.Array"],
        dtypes: ::arraybridge_runtime::__private::DTypeSet::of(
            &[
                ::arraybridge_runtime::__private::DType::Float32,
                ::arraybridge_runtime::__private::DType::Uint8,
            ],
        ),
        module: "host",
        install: "host",
        memory: ::arraybridge_runtime::__private::Memory::Host,
        immutable: false,
        align: 64usize,
        cached_scalars: false,
        isolate: ::core::option::Option::None,
        init: ::core::option::Option::None,
        initialized: ::core::option::Option::None,
        dtype: ::arraybridge_runtime::__private::op::ATTRIBUTE_OF_NAME,
        dtype_names: &[],
        dtype_of: ::core::option::Option::None,
        shape_of: ::core::option::Option::None,
        missing: &[],
        not_exported: ::arraybridge_runtime::__private::DTypeSet::of(&[]),
        not_imported: ::arraybridge_runtime::__private::DTypeSet::of(
            &[::arraybridge_runtime::__private::DType::Uint8],
        ),
        no_slices: ::arraybridge_runtime::__private::DTypeSet::of(&[]),
        slices: ::core::option::Option::None,
        ndim: (0, 64),
        empty: true,
        values: &[],
        refuse: &[],
        guards: &[],
        reasons: &[],
        export: ::core::option::Option::Some(::arraybridge_runtime::__private::Export {
            op: ::arraybridge_runtime::__private::Op {
                source: "data.__dlpack__(stream = stream, max_version = version)",
                uses: [true, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        stream,
                        version,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            data,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "__dlpack__"
                            ),
                            [stream, version],
                            ::core::option::Option::Some({
                                static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                    &["stream", "max_version"],
                                );
                                NAMES.get(py)?
                            }),
                        )
                    }
                    op
                },
            },
            unversioned: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "data.__dlpack__(stream = stream)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        stream,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            data,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "__dlpack__"
                            ),
                            [stream],
                            ::core::option::Option::Some({
                                static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                    &["stream"],
                                );
                                NAMES.get(py)?
                            }),
                        )
                    }
                    op
                },
            }),
            ordered_by: ::arraybridge_runtime::__private::OrderedBy::Stream,
            buffer: false,
            owner: ::core::option::Option::None,
            pin: ::core::option::Option::None,
        }),
        import: ::core::option::Option::Some(::arraybridge_runtime::__private::Import {
            op: ::arraybridge_runtime::__private::Op {
                source: "module.from_dlpack(data, dtype)",
                uses: [true, false, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        _,
                        dtype,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "from_dlpack",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [data, dtype],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            uses_dtype: true,
            handover: ::arraybridge_runtime::__private::Handover::Object,
            fast: &[],
            devices: &[1],
            strides: ::arraybridge_runtime::__private::Strides::Any,
            align: 1usize,
            device_align: 1usize,
            read_only: true,
            writable_only: false,
            shares: true,
        }),
        to_numpy: ::core::option::Option::None,
        from_numpy: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
            source: "numpy.ascontiguousarray(data)",
            uses: [true, false, false],
            call: {
                fn op<'py>(
                    module: &::arraybridge_runtime::__private::pyo3::Bound<
                        'py,
                        ::arraybridge_runtime::__private::pyo3::PyAny,
                    >,
                    [data,
                    _,
                    _,
                    ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                    let py = module.py();
                    let numpy = ::arraybridge_runtime::__private::op::numpy(py)?;
                    ::arraybridge_runtime::__private::op::call_method(
                        numpy,
                        ::arraybridge_runtime::__private::pyo3::intern!(
                            py, "ascontiguousarray"
                        ),
                        [data],
                        ::core::option::Option::None,
                    )
                }
                op
            },
        }),
        fill: ::core::option::Option::None,
        fast_to_numpy: &[],
        fast_from_numpy: ::core::option::Option::None,
        copy: ::core::option::Option::None,
        recording: ::core::option::Option::None,
        watched: ::core::option::Option::None,
        copy_recorded: ::core::option::Option::None,
        transforming: ::core::option::Option::None,
        tracing: ::core::option::Option::None,
        translate: ::core::option::Option::None,
        ready: ::core::option::Option::None,
        lazy: false,
        version: ::core::option::Option::None,
        count_write: ::core::option::Option::None,
        device: ::arraybridge_runtime::__private::Devices {
            count: ::core::option::Option::None,
            at: ::core::option::Option::None,
            current: ::core::option::Option::None,
            default: ::core::option::Option::None,
            of: ::core::option::Option::None,
            scope: ::core::option::Option::None,
            host_scope: ::core::option::Option::None,
            host: ::core::option::Option::None,
            hosts: ::core::option::Option::None,
            host_of: ::core::option::Option::None,
            r#move: ::core::option::Option::None,
            uncommitted: ::core::option::Option::None,
            beside: ::core::option::Option::None,
        },
        stream: ::core::option::Option::None,
        array: ::core::option::Option::None,
        oom: &[],
        clear: &[],
        host_modules: &[],
    };
    /// The table `chip`: Chip.
    pub static CHIP: ::arraybridge_runtime::__private::Framework = ::arraybridge_runtime::__private::Framework {
        memory_type: super::MemoryType::Chip,
        name: "chip",
        is_tested: false,
        title: "Chip",
        classes: &["chip.array.Array"],
        dtypes: ::arraybridge_runtime::__private::DTypeSet::of(
            &[::arraybridge_runtime::__private::DType::Float32],
        ),
        module: "chip.array",
        install: "chip.array",
        memory: ::arraybridge_runtime::__private::Memory::Either,
        immutable: true,
        align: 64usize,
        cached_scalars: false,
        isolate: ::core::option::Option::None,
        init: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
            source: "module.start()",
            uses: [],
            call: {
                fn op<'py>(
                    module: &::arraybridge_runtime::__private::pyo3::Bound<
                        'py,
                        ::arraybridge_runtime::__private::pyo3::PyAny,
                    >,
                    []: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 0>,
                ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                    ::arraybridge_runtime::__private::op::call(
                        &{
                            static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                &[
                                    ::arraybridge_runtime::__private::op::Step::Attribute(
                                        "start",
                                    ),
                                ],
                            );
                            PATH.get(module)?
                        },
                        [],
                        ::core::option::Option::None,
                    )
                }
                op
            },
        }),
        initialized: ::core::option::Option::None,
        dtype: ::arraybridge_runtime::__private::Op {
            source: "module.dtype(name)",
            uses: [true],
            call: {
                fn op<'py>(
                    module: &::arraybridge_runtime::__private::pyo3::Bound<
                        'py,
                        ::arraybridge_runtime::__private::pyo3::PyAny,
                    >,
                    [name,
                    ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                    ::arraybridge_runtime::__private::op::call(
                        &{
                            static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                &[
                                    ::arraybridge_runtime::__private::op::Step::Attribute(
                                        "dtype",
                                    ),
                                ],
                            );
                            PATH.get(module)?
                        },
                        [name],
                        ::core::option::Option::None,
                    )
                }
                op
            },
        },
        dtype_names: &[(::arraybridge_runtime::__private::DType::Float32, "single")],
        dtype_of: ::core::option::Option::None,
        shape_of: ::core::option::Option::None,
        missing: &[
            ::arraybridge_runtime::__private::Missing {
                when: ::arraybridge_runtime::__private::Op {
                    source: "module.config.wide == False",
                    uses: [],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            []: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 0>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::compare(
                                &::arraybridge_runtime::__private::op::attribute(
                                    &{
                                        static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                            &[
                                                ::arraybridge_runtime::__private::op::Step::Attribute(
                                                    "config",
                                                ),
                                            ],
                                        );
                                        PATH.get(module)?
                                    },
                                    ::arraybridge_runtime::__private::pyo3::intern!(py, "wide"),
                                )?,
                                {
                                    static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                        ::arraybridge_runtime::__private::op::Value::Bool(false),
                                    );
                                    LITERAL.get(py)
                                },
                                ::arraybridge_runtime::__private::pyo3::pyclass::CompareOp::Eq,
                            )
                        }
                        op
                    },
                },
                dtypes: ::arraybridge_runtime::__private::DTypeSet::of(
                    &[::arraybridge_runtime::__private::DType::Float32],
                ),
                hint: "widen",
            },
        ],
        not_exported: ::arraybridge_runtime::__private::DTypeSet::of(
            &[::arraybridge_runtime::__private::DType::Float32],
        ),
        not_imported: ::arraybridge_runtime::__private::DTypeSet::of(
            &[::arraybridge_runtime::__private::DType::Float32],
        ),
        no_slices: ::arraybridge_runtime::__private::DTypeSet::of(&[]),
        slices: ::core::option::Option::None,
        ndim: (1, 3),
        empty: true,
        values: &[
            (
                "chip.array.Variable",
                ::arraybridge_runtime::__private::Op {
                    source: "data.value",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [data,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::attribute(
                                data,
                                ::arraybridge_runtime::__private::pyo3::intern!(py, "value"),
                            )
                        }
                        op
                    },
                },
            ),
        ],
        refuse: &[
            ::arraybridge_runtime::__private::RefusedClasses {
                why: "sparse",
                role: ::core::option::Option::None,
                classes: &["chip.array.Sparse"],
            },
            ::arraybridge_runtime::__private::RefusedClasses {
                why: "traced",
                role: ::core::option::Option::Some(
                    ::arraybridge_runtime::__private::ReasonRole::Traced,
                ),
                classes: &["chip.array.Tracer"],
            },
        ],
        guards: &[
            ::arraybridge_runtime::__private::Guard {
                why: "lazy",
                role: ::core::option::Option::Some(
                    ::arraybridge_runtime::__private::ReasonRole::Gradient,
                ),
                when: ::arraybridge_runtime::__private::Op {
                    source: "data.lazy",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [data,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::attribute(
                                data,
                                ::arraybridge_runtime::__private::pyo3::intern!(py, "lazy"),
                            )
                        }
                        op
                    },
                },
                then: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                    source: "data.run()",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [data,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::call_method(
                                data,
                                ::arraybridge_runtime::__private::pyo3::intern!(py, "run"),
                                [],
                                ::core::option::Option::None,
                            )
                        }
                        op
                    },
                }),
                kinds: &[::arraybridge_runtime::__private::Kind::Float],
            },
        ],
        reasons: &[
            ::arraybridge_runtime::__private::Guard {
                why: "split",
                role: ::core::option::Option::Some(
                    ::arraybridge_runtime::__private::ReasonRole::Lifted,
                ),
                when: ::arraybridge_runtime::__private::Op {
                    source: "data.parts > 1",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [data,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::compare(
                                &::arraybridge_runtime::__private::op::attribute(
                                    data,
                                    ::arraybridge_runtime::__private::pyo3::intern!(py, "parts"),
                                )?,
                                {
                                    static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                        ::arraybridge_runtime::__private::op::Value::Int(1i64),
                                    );
                                    LITERAL.get(py)
                                },
                                ::arraybridge_runtime::__private::pyo3::pyclass::CompareOp::Gt,
                            )
                        }
                        op
                    },
                },
                then: ::core::option::Option::None,
                kinds: &[],
            },
        ],
        export: ::core::option::Option::Some(::arraybridge_runtime::__private::Export {
            op: ::arraybridge_runtime::__private::Op {
                source: "data.__dlpack__(stream = stream, max_version = version)",
                uses: [true, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        stream,
                        version,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            data,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "__dlpack__"
                            ),
                            [stream, version],
                            ::core::option::Option::Some({
                                static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                    &["stream", "max_version"],
                                );
                                NAMES.get(py)?
                            }),
                        )
                    }
                    op
                },
            },
            unversioned: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "data.__dlpack__(stream = stream)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        stream,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            data,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "__dlpack__"
                            ),
                            [stream],
                            ::core::option::Option::Some({
                                static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                    &["stream"],
                                );
                                NAMES.get(py)?
                            }),
                        )
                    }
                    op
                },
            }),
            ordered_by: ::arraybridge_runtime::__private::OrderedBy::Stream,
            buffer: false,
            owner: ::core::option::Option::None,
            pin: ::core::option::Option::None,
        }),
        import: ::core::option::Option::Some(::arraybridge_runtime::__private::Import {
            op: ::arraybridge_runtime::__private::Op {
                source: "module.from_capsule(capsule, [-1, (device, 2.5)])",
                uses: [true, true, false],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [capsule,
                        device,
                        _,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "from_capsule",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [
                                capsule,
                                &::arraybridge_runtime::__private::op::list(
                                    py,
                                    [
                                        {
                                            static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                                ::arraybridge_runtime::__private::op::Value::Int(-1i64),
                                            );
                                            LITERAL.get(py)
                                        },
                                        &::arraybridge_runtime::__private::op::tuple(
                                            py,
                                            [
                                                device,
                                                {
                                                    static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                                        ::arraybridge_runtime::__private::op::Value::Float(2.5f64),
                                                    );
                                                    LITERAL.get(py)
                                                },
                                            ],
                                        )?,
                                    ],
                                )?,
                            ],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            uses_dtype: false,
            handover: ::arraybridge_runtime::__private::Handover::Capsule,
            fast: &[
                ::arraybridge_runtime::__private::Op {
                    source: "module.load.__globals__[\"lib\"].load(capsule, module.load.__globals__[\"context\"].current.handle)",
                    uses: [true, false],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [capsule,
                            _,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::call(
                                &{
                                    static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                        &[
                                            ::arraybridge_runtime::__private::op::Step::Attribute(
                                                "load",
                                            ),
                                            ::arraybridge_runtime::__private::op::Step::Attribute(
                                                "__globals__",
                                            ),
                                            ::arraybridge_runtime::__private::op::Step::Item("lib"),
                                            ::arraybridge_runtime::__private::op::Step::Attribute(
                                                "load",
                                            ),
                                        ],
                                    );
                                    PATH.get(module)?
                                },
                                [
                                    capsule,
                                    &::arraybridge_runtime::__private::op::attribute(
                                        &::arraybridge_runtime::__private::op::attribute(
                                            &{
                                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                                    &[
                                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                                            "load",
                                                        ),
                                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                                            "__globals__",
                                                        ),
                                                        ::arraybridge_runtime::__private::op::Step::Item("context"),
                                                    ],
                                                );
                                                PATH.get(module)?
                                            },
                                            ::arraybridge_runtime::__private::pyo3::intern!(
                                                py, "current"
                                            ),
                                        )?,
                                        ::arraybridge_runtime::__private::pyo3::intern!(
                                            py, "handle"
                                        ),
                                    )?,
                                ],
                                ::core::option::Option::None,
                            )
                        }
                        op
                    },
                },
            ],
            devices: &[1, 2],
            strides: ::arraybridge_runtime::__private::Strides::Contiguous,
            align: 64usize,
            device_align: 1usize,
            read_only: false,
            writable_only: false,
            shares: false,
        }),
        to_numpy: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
            source: "data.get(None, 0.5, order = True)",
            uses: [true],
            call: {
                fn op<'py>(
                    module: &::arraybridge_runtime::__private::pyo3::Bound<
                        'py,
                        ::arraybridge_runtime::__private::pyo3::PyAny,
                    >,
                    [data,
                    ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                    let py = module.py();
                    ::arraybridge_runtime::__private::op::call_method(
                        data,
                        ::arraybridge_runtime::__private::pyo3::intern!(py, "get"),
                        [
                            &::arraybridge_runtime::__private::op::none(py),
                            {
                                static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                    ::arraybridge_runtime::__private::op::Value::Float(0.5f64),
                                );
                                LITERAL.get(py)
                            },
                            {
                                static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                    ::arraybridge_runtime::__private::op::Value::Bool(true),
                                );
                                LITERAL.get(py)
                            },
                        ],
                        ::core::option::Option::Some({
                            static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                &["order"],
                            );
                            NAMES.get(py)?
                        }),
                    )
                }
                op
            },
        }),
        from_numpy: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
            source: "module.put(data, device = device)",
            uses: [true, false, true],
            call: {
                fn op<'py>(
                    module: &::arraybridge_runtime::__private::pyo3::Bound<
                        'py,
                        ::arraybridge_runtime::__private::pyo3::PyAny,
                    >,
                    [data,
                    _,
                    device,
                    ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                    let py = module.py();
                    ::arraybridge_runtime::__private::op::call(
                        &{
                            static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                &[
                                    ::arraybridge_runtime::__private::op::Step::Attribute("put"),
                                ],
                            );
                            PATH.get(module)?
                        },
                        [data, device],
                        ::core::option::Option::Some({
                            static NAMES: ::arraybridge_runtime::__private::op::Keywords = ::arraybridge_runtime::__private::op::Keywords::new(
                                &["device"],
                            );
                            NAMES.get(py)?
                        }),
                    )
                }
                op
            },
        }),
        fill: ::core::option::Option::None,
        fast_to_numpy: &[
            (
                ::arraybridge_runtime::__private::DType::Float32,
                ::arraybridge_runtime::__private::Op {
                    source: "data.read()",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [data,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::call_method(
                                data,
                                ::arraybridge_runtime::__private::pyo3::intern!(py, "read"),
                                [],
                                ::core::option::Option::None,
                            )
                        }
                        op
                    },
                },
            ),
        ],
        fast_from_numpy: ::core::option::Option::Some(::arraybridge_runtime::__private::FastFromNumpy {
            create: ::arraybridge_runtime::__private::Op {
                source: "module.empty(data.shape, device)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        device,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "empty",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [
                                &::arraybridge_runtime::__private::op::attribute(
                                    data,
                                    ::arraybridge_runtime::__private::pyo3::intern!(py, "shape"),
                                )?,
                                device,
                            ],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            write: ::arraybridge_runtime::__private::Op {
                source: "array.write(data)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [array,
                        data,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            array,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "write"),
                            [data],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
        }),
        copy: ::core::option::Option::None,
        recording: ::core::option::Option::None,
        watched: ::core::option::Option::None,
        copy_recorded: ::core::option::Option::None,
        transforming: ::core::option::Option::None,
        tracing: ::core::option::Option::None,
        translate: ::core::option::Option::None,
        ready: ::core::option::Option::None,
        lazy: false,
        version: ::core::option::Option::None,
        count_write: ::core::option::Option::None,
        device: ::arraybridge_runtime::__private::Devices {
            count: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "module.runtime.count()",
                uses: [],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        []: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 0>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "runtime",
                                        ),
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "count",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            }),
            at: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "module.runtime.devices[index] | module.find(\"chip:{}\".format(index))",
                uses: [true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [index,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        static CHOICE: ::arraybridge_runtime::__private::op::Choice = ::arraybridge_runtime::__private::op::Choice::new(
                            &[
                                &[
                                    ::arraybridge_runtime::__private::op::Step::Attribute(
                                        "runtime",
                                    ),
                                    ::arraybridge_runtime::__private::op::Step::Attribute(
                                        "devices",
                                    ),
                                ],
                            ],
                        );
                        match CHOICE.get(module) {
                            0usize => {
                                ::arraybridge_runtime::__private::op::item(
                                    &{
                                        static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                            &[
                                                ::arraybridge_runtime::__private::op::Step::Attribute(
                                                    "runtime",
                                                ),
                                                ::arraybridge_runtime::__private::op::Step::Attribute(
                                                    "devices",
                                                ),
                                            ],
                                        );
                                        PATH.get(module)?
                                    },
                                    index,
                                )
                            }
                            _ => {
                                ::arraybridge_runtime::__private::op::call(
                                    &{
                                        static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                            &[
                                                ::arraybridge_runtime::__private::op::Step::Attribute(
                                                    "find",
                                                ),
                                            ],
                                        );
                                        PATH.get(module)?
                                    },
                                    [
                                        &::arraybridge_runtime::__private::op::call_method(
                                            ::arraybridge_runtime::__private::pyo3::intern!(
                                                py, "chip:{}"
                                            )
                                                .as_any(),
                                            ::arraybridge_runtime::__private::pyo3::intern!(
                                                py, "format"
                                            ),
                                            [index],
                                            ::core::option::Option::None,
                                        )?,
                                    ],
                                    ::core::option::Option::None,
                                )
                            }
                        }
                    }
                    op
                },
            }),
            current: ::core::option::Option::None,
            default: ::core::option::Option::None,
            of: ::core::option::Option::None,
            scope: ::core::option::Option::None,
            host_scope: ::core::option::Option::None,
            host: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "module.cpu",
                uses: [false],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [_,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::attribute(
                            module,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "cpu"),
                        )
                    }
                    op
                },
            }),
            hosts: ::core::option::Option::None,
            host_of: ::core::option::Option::None,
            r#move: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                source: "data",
                uses: [true, false],
                call: {
                    fn op<'py>(
                        _: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [data,
                        _,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::core::result::Result::Ok(::core::clone::Clone::clone(data))
                    }
                    op
                },
            }),
            uncommitted: ::core::option::Option::None,
            beside: ::core::option::Option::None,
        },
        stream: ::core::option::Option::Some(::arraybridge_runtime::__private::Streams {
            current: ::arraybridge_runtime::__private::Op {
                source: "module.stream(index)",
                uses: [false, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [_,
                        index,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "stream",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [index],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            handle: ::arraybridge_runtime::__private::Op {
                source: "stream.handle",
                uses: [true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [stream,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::attribute(
                            stream,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "handle"),
                        )
                    }
                    op
                },
            },
            wrap: ::arraybridge_runtime::__private::Op {
                source: "module.Stream(handle, device)",
                uses: [true, true, false, false],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [handle,
                        device,
                        _,
                        _,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 4>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::arraybridge_runtime::__private::op::call(
                            &{
                                static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                    &[
                                        ::arraybridge_runtime::__private::op::Step::Attribute(
                                            "Stream",
                                        ),
                                    ],
                                );
                                PATH.get(module)?
                            },
                            [handle, device],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            scope: ::arraybridge_runtime::__private::Op {
                source: "stream",
                uses: [true],
                call: {
                    fn op<'py>(
                        _: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [stream,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        ::core::result::Result::Ok(::core::clone::Clone::clone(stream))
                    }
                    op
                },
            },
        }),
        array: ::core::option::Option::Some(::arraybridge_runtime::__private::ArrayOps {
            namespace: ::arraybridge_runtime::__private::Op {
                source: "module.ops",
                uses: [],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        []: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 0>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::attribute(
                            module,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "ops"),
                        )
                    }
                    op
                },
            },
            min: ::arraybridge_runtime::__private::Op {
                source: "xp.amin(data)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        data,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "amin"),
                            [data],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            max: ::arraybridge_runtime::__private::Op {
                source: "xp.max(data)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        data,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "max"),
                            [data],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            round: ::arraybridge_runtime::__private::Op {
                source: "xp.round(data)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        data,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "round"),
                            [data],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            clip: ::arraybridge_runtime::__private::Op {
                source: "xp.clip(data, low, high)",
                uses: [true, true, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        data,
                        low,
                        high,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 4>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "clip"),
                            [data, low, high],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            astype: ::arraybridge_runtime::__private::Op {
                source: "data.astype(dtype)",
                uses: [false, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [_,
                        data,
                        dtype,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            data,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "astype"
                            ),
                            [dtype],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            r#where: ::arraybridge_runtime::__private::Op {
                source: "xp.where(mask, data, other)",
                uses: [true, true, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        mask,
                        data,
                        other,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 4>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "where"),
                            [mask, data, other],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            stack: ::arraybridge_runtime::__private::Op {
                source: "xp.stack(arrays)",
                uses: [true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        arrays,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 2>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "stack"),
                            [arrays],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            concatenate: ::arraybridge_runtime::__private::Op {
                source: "xp.concatenate(arrays, axis)",
                uses: [true, true, true],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        [xp,
                        arrays,
                        axis,
                        ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 3>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            xp,
                            ::arraybridge_runtime::__private::pyo3::intern!(
                                py, "concatenate"
                            ),
                            [arrays, axis],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
            unstack: ::core::option::Option::None,
            write: ::core::option::Option::None,
        }),
        oom: &[
            ::arraybridge_runtime::__private::OomRule {
                class: "chip.array.Full",
                when: ::core::option::Option::Some(::arraybridge_runtime::__private::Op {
                    source: "error.code == 2",
                    uses: [true],
                    call: {
                        fn op<'py>(
                            module: &::arraybridge_runtime::__private::pyo3::Bound<
                                'py,
                                ::arraybridge_runtime::__private::pyo3::PyAny,
                            >,
                            [error,
                            ]: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 1>,
                        ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                            let py = module.py();
                            ::arraybridge_runtime::__private::op::compare(
                                &::arraybridge_runtime::__private::op::attribute(
                                    error,
                                    ::arraybridge_runtime::__private::pyo3::intern!(py, "code"),
                                )?,
                                {
                                    static LITERAL: ::arraybridge_runtime::__private::op::Literal = ::arraybridge_runtime::__private::op::Literal::new(
                                        ::arraybridge_runtime::__private::op::Value::Int(2i64),
                                    );
                                    LITERAL.get(py)
                                },
                                ::arraybridge_runtime::__private::pyo3::pyclass::CompareOp::Eq,
                            )
                        }
                        op
                    },
                }),
                text: ::core::option::Option::Some("full"),
            },
        ],
        clear: &[
            ::arraybridge_runtime::__private::Op {
                source: "module.pool().free()",
                uses: [],
                call: {
                    fn op<'py>(
                        module: &::arraybridge_runtime::__private::pyo3::Bound<
                            'py,
                            ::arraybridge_runtime::__private::pyo3::PyAny,
                        >,
                        []: ::arraybridge_runtime::__private::op::Scope<'_, 'py, 0>,
                    ) -> ::arraybridge_runtime::__private::op::Outcome<'py> {
                        let py = module.py();
                        ::arraybridge_runtime::__private::op::call_method(
                            &::arraybridge_runtime::__private::op::call(
                                &{
                                    static PATH: ::arraybridge_runtime::__private::op::Path = ::arraybridge_runtime::__private::op::Path::new(
                                        &[
                                            ::arraybridge_runtime::__private::op::Step::Attribute(
                                                "pool",
                                            ),
                                        ],
                                    );
                                    PATH.get(module)?
                                },
                                [],
                                ::core::option::Option::None,
                            )?,
                            ::arraybridge_runtime::__private::pyo3::intern!(py, "free"),
                            [],
                            ::core::option::Option::None,
                        )
                    }
                    op
                },
            },
        ],
        host_modules: &[("chip.array", "numpy")],
    };
}
::arraybridge_runtime::__private::inventory::submit! {
    ::arraybridge_runtime::__private::Converter { source : & statics::HOST, target : &
    statics::HOST, }
}
::arraybridge_runtime::__private::inventory::submit! {
    ::arraybridge_runtime::__private::Converter { source : & statics::HOST, target : &
    statics::CHIP, }
}
::arraybridge_runtime::__private::inventory::submit! {
    ::arraybridge_runtime::__private::Converter { source : & statics::CHIP, target : &
    statics::HOST, }
}
::arraybridge_runtime::__private::inventory::submit! {
    ::arraybridge_runtime::__private::Converter { source : & statics::CHIP, target : &
    statics::CHIP, }
}
