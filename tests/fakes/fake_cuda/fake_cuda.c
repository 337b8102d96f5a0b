/* A fake of CUDA's driver that is as late and as strict as the rules allow.

   "Device memory" is the host's. Work waits in the queue of its stream until the host synchronises with it.
   Each piece of work knows the bytes that it reads and writes, and which work comes before it: by its
   stream, by events, by what the host has waited for, and by the rules of the legacy default stream.
   Two accesses to the same bytes, one of them a write, that are in no order are a violation, which
   names both. So is the use of memory that is not allocated, and of a handle that does not exist.

   Order is kept as vector clocks: a clock has, for each stream, the number of its operations that come
   before. The host has one clock for all its threads.

   It proves the order of calls by CUDA's rules as they are written down here. Nothing that it does is
   evidence that anything works on a device. The functions have the names of the library that it stands
   for; those that begin with fake_ are for the tests. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600,
};
enum { DEVICES = 2, STREAMS = 256, EVENTS = 4096, OPERATIONS = 65536, BLOCKS = 16384, RANGES = 3 };
enum { CONTEXT = 0xc0, POISON = 0xdb };

typedef struct { uint32_t of[STREAMS]; } clock_of;
typedef struct { uintptr_t start, end; int writes; } range;

typedef struct {
    uintptr_t handle;
    int device, non_blocking, destroyed;
    clock_of clock;
} stream;

typedef struct {
    uintptr_t handle;
    int device, recorded, destroyed;
    clock_of clock;
} event;

typedef struct {
    char name[48];
    int stream, done;
    uint32_t number;
    clock_of *clock;
    range ranges[RANGES];
    int count;
    enum { NOTHING, FILL, COPY, UPLOAD } effect;
    uintptr_t to, from;
    size_t bytes;
    unsigned char value;
} operation;

typedef struct { uintptr_t start; size_t bytes; int stream, device, live; } block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stream streams[STREAMS];
static int stream_count;
static event events[EVENTS];
static int event_count;
static operation operations[OPERATIONS];
static int operation_count;
static block blocks[BLOCKS];
static int block_count;
static clock_of host;

static char calls[1 << 16], violations[1 << 16];
static size_t calls_length, violations_length;
static __thread int bound;
static int initialized;

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (calls_length < sizeof calls)
        calls_length += vsnprintf(calls + calls_length, sizeof calls - calls_length, format, arguments);
    va_end(arguments);
}

static void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (violations_length < sizeof violations)
        violations_length += vsnprintf(violations + violations_length,
                                       sizeof violations - violations_length, format, arguments);
    va_end(arguments);
}

static const char *taken(char *text, size_t size, size_t *length)
{
    static char answer[1 << 16];
    memcpy(answer, text, size);
    *length = 0;
    text[0] = 0;
    return answer;
}

/* What was called since the last time, a line each. */
const char *fake_calls(void) { return taken(calls, sizeof calls, &calls_length); }

/* Which rules were broken since the last time, a line each. */
const char *fake_violations(void)
{
    return taken(violations, sizeof violations, &violations_length);
}

static int enter(void)
{
    pthread_mutex_lock(&lock);
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

static int leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        int failed = enter();                                                                      \
        if (failed)                                                                                \
            return leave(failed);                                                                  \
    } while (0)

#define CHECK(condition, code)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return leave(code);                                                                    \
    } while (0)

/* Clocks. */

static void join(clock_of *into, const clock_of *other)
{
    for (int i = 0; i < STREAMS; i++)
        if (other->of[i] > into->of[i])
            into->of[i] = other->of[i];
}

static int add_stream(uintptr_t handle, int device, int non_blocking)
{
    int index = stream_count++;
    if (index >= STREAMS)
        abort();
    streams[index] = (stream){.handle = handle, .device = device, .non_blocking = non_blocking};
    return index;
}

/* The legacy default streams of the devices are the first ones. */
static int stream_of(const void *pointer)
{
    uintptr_t handle = (uintptr_t)pointer;
    if (handle <= 1)
        return bound ? bound - CONTEXT : -1;
    for (int i = DEVICES; i < stream_count; i++)
        if (streams[i].handle == handle) {
            if (streams[i].destroyed) {
                violation("stream %#lx is used after it was destroyed\n", (long)handle);
                return -1;
            }
            return i;
        }
    violation("stream %#lx does not exist\n", (long)handle);
    return -1;
}

static int event_of(const void *pointer)
{
    for (int i = 0; i < event_count; i++)
        if (events[i].handle == (uintptr_t)pointer && !events[i].destroyed)
            return i;
    violation("event %p does not exist\n", pointer);
    return -1;
}

/* Work on a legacy default stream comes after what the blocking streams of its device have, and before
   what they get later. */
static void bring_up_to_date(int index)
{
    stream *this = &streams[index];
    join(&this->clock, &host);
    if (index >= DEVICES) {
        if (!this->non_blocking)
            join(&this->clock, &streams[this->device].clock);
        return;
    }
    for (int i = DEVICES; i < stream_count; i++)
        if (streams[i].device == index && !streams[i].non_blocking && !streams[i].destroyed)
            join(&this->clock, &streams[i].clock);
}

static void perform(operation *this)
{
    this->done = 1;
    switch (this->effect) {
    case NOTHING: break;
    case FILL: memset((void *)this->to, this->value, this->bytes); break;
    case COPY: memmove((void *)this->to, (void *)this->from, this->bytes); break;
    case UPLOAD:
        memcpy((void *)this->to, (void *)this->from, this->bytes);
        free((void *)this->from);
        break;
    }
}

/* Work is only ever ordered after earlier work, so the order of the calls is an order that fits. */
static void perform_until(const clock_of *clock)
{
    for (int i = 0; i < operation_count; i++)
        if (!operations[i].done && operations[i].number <= clock->of[operations[i].stream])
            perform(&operations[i]);
}

static int is_done(const clock_of *clock)
{
    for (int i = 0; i < operation_count; i++)
        if (!operations[i].done && operations[i].number <= clock->of[operations[i].stream])
            return 0;
    return 1;
}

/* Operations. */

static const char *verb(const range *this) { return this->writes ? "writes" : "reads"; }

static void check_order(const operation *this)
{
    for (int i = 0; i < operation_count; i++) {
        const operation *other = &operations[i];
        if (other == this || other->number <= this->clock->of[other->stream])
            continue;
        for (int a = 0; a < this->count; a++)
            for (int b = 0; b < other->count; b++) {
                const range *mine = &this->ranges[a], *theirs = &other->ranges[b];
                if (mine->start < theirs->end && theirs->start < mine->end
                    && (mine->writes || theirs->writes))
                    violation("%s on %#lx %s what %s on %#lx %s, in no order\n", this->name,
                              (long)streams[this->stream].handle, verb(mine), other->name,
                              (long)streams[other->stream].handle, verb(theirs));
            }
    }
}

static void check_memory(const operation *this)
{
    for (int a = 0; a < this->count; a++) {
        const range *mine = &this->ranges[a];
        int found = mine->start == mine->end;
        for (int i = block_count - 1; i >= 0 && !found; i--) {
            const block *b = &blocks[i];
            if (b->live && mine->start >= b->start && mine->end <= b->start + b->bytes) {
                found = 1;
                /* A copy may read the memory of another device, as cudaMemcpyPeerAsync does. */
                int is_peer_read = this->effect == COPY && !mine->writes;
                if (b->device != streams[this->stream].device && !is_peer_read)
                    violation("%s on %#lx %s memory of device %d\n", this->name,
                              (long)streams[this->stream].handle, verb(mine), b->device);
            }
        }
        if (!found)
            violation("%s on %#lx %s memory that is not allocated\n", this->name,
                      (long)streams[this->stream].handle, verb(mine));
    }
}

static void add_range(operation *this, uint64_t start, size_t bytes, int writes)
{
    this->ranges[this->count++] = (range){start, start + bytes, writes};
}

static operation *begin(const char *name, int index)
{
    if (operation_count == OPERATIONS)
        abort();
    operation *this = &operations[operation_count++];
    memset(this, 0, sizeof *this);
    snprintf(this->name, sizeof this->name, "%s", name);
    bring_up_to_date(index);
    this->stream = index;
    this->number = ++streams[index].clock.of[index];
    this->clock = malloc(sizeof *this->clock);
    *this->clock = streams[index].clock;
    return this;
}

static void put(operation *this)
{
    check_memory(this);
    check_order(this);
}

static void fill(const char *name, int index, uint64_t to, unsigned char value, size_t bytes)
{
    operation *this = begin(name, index);
    add_range(this, to, bytes, 1);
    this->effect = FILL, this->to = to, this->value = value, this->bytes = bytes;
    put(this);
}

static void wait_for(int index)
{
    clock_of clock = streams[index].clock;
    perform_until(&clock);
    join(&host, &clock);
}

/* Memory. The pool gives a block that is free to the next request of the same stream and size, at once:
   the new owner's work comes after that of the former one only if it was put on that stream. */

static block *allocate(int index, size_t bytes)
{
    bytes = (bytes + 255) / 256 * 256;
    for (int i = block_count - 1; i >= 0; i--) {
        block *b = &blocks[i];
        if (!b->live && b->stream == index && b->bytes == bytes) {
            b->live = 1;
            return b;
        }
    }
    void *memory = bytes > (size_t)1 << 40 ? NULL : aligned_alloc(256, bytes);
    if (!memory || block_count == BLOCKS)
        return NULL;
    block *b = &blocks[block_count++];
    *b = (block){(uintptr_t)memory, bytes, index, streams[index].device, 1};
    memset(memory, POISON, bytes);
    return b;
}

static block *block_at(uint64_t start)
{
    for (int i = 0; i < block_count; i++)
        if (blocks[i].start == start && blocks[i].live)
            return &blocks[i];
    violation("memory at %#lx is freed, but not allocated\n", (long)start);
    return NULL;
}

/* The driver. */

int cuInit(unsigned flags)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < DEVICES && !initialized; i++)
        add_stream(1, i, 0);
    initialized = 1;
    return leave(SUCCESS);
}
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal < DEVICES ? SUCCESS : INVALID_DEVICE;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 1; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(uintptr_t)(CONTEXT + device);
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuCtxGetCurrent(void **context)
{
    if (!initialized)
        return NOT_INITIALIZED;
    *context = bound ? (void *)(uintptr_t)bound : NULL;
    return SUCCESS;
}
int cuCtxSetCurrent(void *context)
{
    bound = (int)(uintptr_t)context;
    return SUCCESS;
}
int cuCtxSynchronize(void)
{
    ENTER();
    CHECK(bound, INVALID_CONTEXT);
    say("synchronize device %d\n", bound - CONTEXT);
    for (int i = 0; i < stream_count; i++)
        if (streams[i].device == bound - CONTEXT)
            wait_for(i);
    return leave(SUCCESS);
}
int cuGetErrorString(int error, const char **text) { *text = "a fake error"; return SUCCESS; }

int cuStreamCreate(void **pointer, unsigned flags)
{
    static uintptr_t next = 0x5000;
    ENTER();
    CHECK(bound, INVALID_CONTEXT);
    add_stream(next += 0x10, bound - CONTEXT, flags & 1);
    *pointer = (void *)next;
    return leave(SUCCESS);
}
int cuStreamDestroy_v2(void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= DEVICES, INVALID_HANDLE);
    streams[index].destroyed = 1;
    return leave(SUCCESS);
}
int cuStreamSynchronize(void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    say("synchronize %p\n", pointer);
    wait_for(index);
    return leave(SUCCESS);
}
int cuStreamWaitEvent(void *pointer, void *awaited, unsigned flags)
{
    ENTER();
    int index = stream_of(pointer), number = event_of(awaited);
    CHECK(index >= 0 && number >= 0, INVALID_HANDLE);
    say("%p waits for %p\n", pointer, awaited);
    bring_up_to_date(index);
    if (events[number].recorded)
        join(&streams[index].clock, &events[number].clock);
    return leave(SUCCESS);
}
int cuEventCreate(void **pointer, unsigned flags)
{
    static uintptr_t next = 0xe000;
    ENTER();
    CHECK(bound, INVALID_CONTEXT);
    if (event_count == EVENTS)
        abort();
    events[event_count++] = (event){.handle = next += 0x10, .device = bound - CONTEXT};
    *pointer = (void *)next;
    return leave(SUCCESS);
}
int cuEventRecord(void *pointer, void *where)
{
    ENTER();
    int number = event_of(pointer), index = stream_of(where);
    CHECK(index >= 0 && number >= 0, INVALID_HANDLE);
    CHECK(streams[index].device == events[number].device, INVALID_HANDLE);
    say("record %p on %p\n", pointer, where);
    bring_up_to_date(index);
    events[number].recorded = 1;
    events[number].clock = streams[index].clock;
    return leave(SUCCESS);
}
// Nothing is captured here.
int cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER();
    static __thread int now;
    int before = now;
    now = *mode, *mode = before;
    return leave(SUCCESS);
}
int cuEventQuery(void *pointer)
{
    ENTER();
    int number = event_of(pointer);
    CHECK(number >= 0, INVALID_HANDLE);
    CHECK(!events[number].recorded || is_done(&events[number].clock), NOT_READY);
    join(&host, &events[number].clock);
    return leave(SUCCESS);
}
int cuEventSynchronize(void *pointer)
{
    ENTER();
    int number = event_of(pointer);
    CHECK(number >= 0, INVALID_HANDLE);
    say("synchronize event %p\n", pointer);
    perform_until(&events[number].clock);
    join(&host, &events[number].clock);
    return leave(SUCCESS);
}
int cuEventDestroy_v2(void *pointer)
{
    pthread_mutex_lock(&lock);
    int number = event_of(pointer);
    CHECK(number >= 0, INVALID_HANDLE);
    events[number].destroyed = 1;
    return leave(SUCCESS);
}

int cuMemAllocAsync(uint64_t *memory, size_t bytes, void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    CHECK(bytes, INVALID_VALUE);
    block *b = allocate(index, bytes);
    CHECK(b, OUT_OF_MEMORY);
    fill("an allocation", index, b->start, POISON, b->bytes);
    *memory = b->start;
    say("allocate %zu on %p\n", bytes, pointer);
    return leave(SUCCESS);
}
int cuMemFreeAsync(uint64_t memory, void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    block *b = block_at(memory);
    CHECK(b, INVALID_VALUE);
    fill("a free", index, memory, POISON, b->bytes);
    b->live = 0;
    b->stream = index;
    say("free on %p\n", pointer);
    return leave(SUCCESS);
}
int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    fill("a memset", index, memory, value, bytes);
    say("memset %zu on %p\n", bytes, pointer);
    return leave(SUCCESS);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    operation *this = begin("an upload", index);
    add_range(this, to, bytes, 1);
    /* Pageable memory has been read when the call returns. */
    this->effect = UPLOAD, this->to = to, this->bytes = bytes;
    this->from = (uintptr_t)memcpy(malloc(bytes + 1), from, bytes);
    put(this);
    say("upload %zu on %p\n", bytes, pointer);
    return leave(SUCCESS);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *pointer)
{
    ENTER();
    int index = stream_of(pointer);
    CHECK(index >= 0, INVALID_HANDLE);
    operation *this = begin("a copy", index);
    add_range(this, to, bytes, 1);
    add_range(this, from, bytes, 0);
    this->effect = COPY, this->to = to, this->from = from, this->bytes = bytes;
    put(this);
    say("copy %zu on %p\n", bytes, pointer);
    return leave(SUCCESS);
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    ENTER();
    int index = stream_of(NULL);
    CHECK(index >= 0, INVALID_CONTEXT);
    operation *this = begin("a download", index);
    add_range(this, from, bytes, 0);
    put(this);
    wait_for(index);
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return leave(SUCCESS);
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t memory) { return INVALID_VALUE; }
