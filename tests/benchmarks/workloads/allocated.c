/* Preloaded, this counts the bytes that malloc and its relatives have given out, and their peak.
 *
 * Resident memory also has what the allocator keeps for later, which differs from run to run. */

#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long live, peak;

void allocated_begin(void) { atomic_store(&peak, atomic_load(&live)); }
long allocated_now(void) { return atomic_load(&live); }
long allocated_peak(void) { return atomic_load(&peak); }

static void *add(void *block) {
    if (block) {
        long size = malloc_usable_size(block), now = atomic_fetch_add(&live, size) + size;
        long most = atomic_load(&peak);
        while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
        }
    }
    return block;
}

static void subtract(void *block) {
    if (block) atomic_fetch_sub(&live, malloc_usable_size(block));
}

void *malloc(size_t size) { return add(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return add(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return add(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    void *made = memalign(alignment, size);
    if (!made) return 12; /* ENOMEM */
    *block = made;
    return 0;
}

void *realloc(void *block, size_t size) {
    long before = block ? malloc_usable_size(block) : 0;
    void *made = __libc_realloc(block, size);
    if (made || !size) {
        atomic_fetch_sub(&live, before);
        add(made);
    }
    return made;
}

void free(void *block) {
    subtract(block);
    __libc_free(block);
}
