//! Vectors whose length a caller decides: memory that runs out is an error, where `Vec` would end the process.

use super::buffer::AllocError;

/// Appends an item.
///
/// # Errors
///
/// [`AllocError`] if the vector cannot grow.
#[inline]
pub fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), AllocError> {
    if items.len() == items.capacity() {
        reserve(items, 1)?;
    }
    items.push(item);
    Ok(())
}

/// An empty vector that has room for so many items.
///
/// # Errors
///
/// [`AllocError`] if there is no memory for them.
pub fn with_capacity<T>(count: usize) -> Result<Vec<T>, AllocError> {
    let mut items = Vec::new();
    reserve(&mut items, count)?;
    Ok(items)
}

/// Collects items, up to the first error.
///
/// # Errors
///
/// The first error of the iterator; [`AllocError`] if the vector cannot grow.
pub fn collect<T, E: From<AllocError>>(
    items: impl IntoIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, E> {
    let items = items.into_iter();
    let mut all = with_capacity(items.size_hint().0)?;
    for item in items {
        push(&mut all, item?)?;
    }
    Ok(all)
}

fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), AllocError> {
    let bytes = items.len().saturating_add(more).saturating_mul(size_of::<T>());
    items.try_reserve(more).map_err(|_| AllocError { bytes })
}

#[cfg(test)]
mod tests;
