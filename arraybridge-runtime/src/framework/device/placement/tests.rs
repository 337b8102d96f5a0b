use super::*;

const ACCELERATOR: Device = Device::Accelerator(1);

fn is(device: Device) -> DeviceChoice {
    DeviceChoice::Is(device)
}

#[test]
fn an_array_stays_on_the_kind_of_device_where_it_is() {
    let auto = |memory, source, count| choose(memory, source, Placement::Auto, || count);
    assert_eq!(auto(Memory::Either, Device::Host, 2), DeviceChoice::Default);
    assert_eq!(auto(Memory::Either, ACCELERATOR, 2), is(ACCELERATOR));
    assert_eq!(auto(Memory::Accelerator, ACCELERATOR, 2), is(ACCELERATOR));
    assert_eq!(auto(Memory::Host, ACCELERATOR, 0), is(Device::Host));
}

#[test]
fn an_array_goes_to_the_current_device_where_its_own_does_not_exist() {
    let auto = |memory, source, count| choose(memory, source, Placement::Auto, || count);
    assert_eq!(auto(Memory::Either, ACCELERATOR, 1), DeviceChoice::Current);
    assert_eq!(auto(Memory::Accelerator, ACCELERATOR, 1), DeviceChoice::Current);
    assert_eq!(auto(Memory::Accelerator, Device::Host, 1), DeviceChoice::Current);
    assert_eq!(auto(Memory::Either, ACCELERATOR, 0), is(Device::Host));
    // Without any accelerator, the framework is not asked for its current one.
    assert_eq!(auto(Memory::Accelerator, Device::Host, 0), is(Device::Accelerator(0)));
}

#[test]
fn a_device_is_demanded_and_a_gpu_id_preferred() {
    let demanded = Placement::On(ACCELERATOR);
    assert_eq!(choose(Memory::Host, Device::Host, demanded, || 0), is(ACCELERATOR));
    let preferred = Placement::Gpu(1);
    assert_eq!(choose(Memory::Host, Device::Host, preferred, || 0), is(Device::Host));
    assert_eq!(choose(Memory::Either, Device::Host, preferred, || 0), is(Device::Host));
    assert_eq!(choose(Memory::Either, Device::Host, preferred, || 1), is(ACCELERATOR));
    assert_eq!(choose(Memory::Accelerator, Device::Host, preferred, || 0), is(ACCELERATOR));
}

#[test]
fn an_accelerator_without_an_index_is_the_current_one() {
    let current = |memory, count| choose(memory, ACCELERATOR, Placement::OnCurrent, || count);
    assert_eq!(current(Memory::Either, 2), DeviceChoice::Current);
    assert_eq!(current(Memory::Accelerator, 1), DeviceChoice::Current);
    // Where there is none, that is what the error says.
    assert_eq!(current(Memory::Either, 0), is(Device::Accelerator(0)));
    assert_eq!(current(Memory::Host, 0), is(Device::Accelerator(0)));
}

#[test]
fn accelerators_are_not_counted_for_host_arrays() {
    let count = || panic!("counted");
    assert_eq!(choose(Memory::Either, Device::Host, Placement::Auto, count), DeviceChoice::Default);
    assert_eq!(absent(Memory::Either, Device::Host, count), None);
}

#[test]
fn a_device_that_is_absent_is_answered_with_those_that_are_there() {
    let text = |memory, device, count| absent(memory, device, || count).unwrap();
    assert_eq!(
        text(Memory::Either, Device::Accelerator(7), 2),
        "has no accelerator 7; available: host, accelerator:0, accelerator:1"
    );
    assert_eq!(
        text(Memory::Accelerator, Device::Host, 1),
        "has no host arrays; available: accelerator:0"
    );
    assert_eq!(text(Memory::Host, ACCELERATOR, 0), "has no accelerator 1; available: host");
    assert_eq!(
        text(Memory::Accelerator, Device::Accelerator(0), 0),
        "finds no accelerator on this machine, and has no host arrays; convert to another \
         framework"
    );
    assert_eq!(absent(Memory::Either, ACCELERATOR, || 2), None);
}

#[test]
fn devices_have_names() {
    let device = Device::from_name;
    assert_eq!(device("cpu"), Some(Device::Host));
    assert_eq!(device("cpu:1"), Some(Device::Host));
    assert_eq!(device("cuda"), Some(Device::Accelerator(0)));
    assert_eq!(device(&ACCELERATOR.to_string()), Some(ACCELERATOR));
    assert_eq!(device(&Device::Host.to_string()), Some(Device::Host));
    assert_eq!(device("host:1"), Some(Device::Host));
    for name in ["", "cpu:x", "cuda:", "cuda:-1", "cuda:x", "tpu:0"] {
        assert_eq!(device(name), None, "{name:?}");
    }
}
