//! The lead of a call: the array that gives the result its dtype, and that is split, sliced and tiled.

use super::{ArgumentSlot, ArgumentSlots};
use crate::declared::definition::Definition;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::error::attempt;

/// The index of the lead: the array of `lead=`, or the first that can be an image. An array that is an argument
/// itself comes before those in containers, which are mostly parameters.
pub fn index(slots: &ArgumentSlots<'_>, definition: &Definition) -> Option<usize> {
    if let Some(name) = &definition.options.lead {
        let order = definition.parameters.keyword(name).1;
        if let Some(index) = slots.iter().position(|slot| slot.order == order) {
            return Some(index);
        }
    }
    let first = |is_wanted: &dyn Fn(&ArgumentSlot<'_>) -> bool| {
        slots.iter().position(|slot| is_wanted(slot) && can_be_image(slot))
    };
    first(&|slot| slot.element.is_none()).or_else(|| first(&|_| true))
}

/// Returns whether an array can be an image, and is not text, dates, records, objects or the key of
/// a random generator.
fn can_be_image(slot: &ArgumentSlot<'_>) -> bool {
    let (py, framework) = (slot.value.py(), slot.class.framework);
    let Some(loaded) = attempt(py, loaded::load(py, framework)) else { return true };
    match loaded.dtype(&slot.value) {
        None => false,
        // A key of JAX is two numbers.
        Some(DType::Uint32) if framework.memory_type == MemoryType::Jax => {
            shape::of(&slot.value).is_none_or(|shape| shape.as_slice() != [2])
        }
        Some(_) => true,
    }
}

/// The choice of the lead in words, where there was one between different frameworks or dtypes.
pub fn choice(slots: &ArgumentSlots<'_>, definition: &Definition) -> Option<String> {
    let (lead, others) = slots.split_first()?;
    let dtype = |slot: &ArgumentSlot<'_>| {
        let py = slot.value.py();
        attempt(py, loaded::load(py, slot.class.framework))?.dtype(&slot.value)
    };
    let kind = |slot: &ArgumentSlot<'_>| (slot.class.framework.memory_type, dtype(slot));
    let other = others.iter().find(|other| can_be_image(other) && kind(other) != kind(lead))?;
    let text = |slot: &ArgumentSlot<'_>| {
        let name = super::names::of_parameter(definition, &slot.key);
        let dtype = dtype(slot).map_or("unknown", DType::name);
        format!("{name} ({} {dtype})", slot.class.framework.name)
    };
    Some(format!("the lead is {}, not {}", text(lead), text(other)))
}
