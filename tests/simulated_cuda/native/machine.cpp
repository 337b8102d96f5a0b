#include "machine.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

namespace {

constexpr unsigned char NONSENSE = 0xdb;
// Between blocks there is a gap, so that work past the end of one is work on memory that is not allocated.
constexpr size_t UNIT = 512;
// More nonsense than this would take long, and use the memory of the host.
constexpr size_t MOST_NONSENSE = (size_t)64 << 20;
// Far from other mappings, so that an address says where it is: the devices, and then what is reserved.
constexpr Address FIRST_DEVICE = 0x600000000000, DEVICE_APART = 0x010000000000;

bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && *value != '0';
}

} // namespace

// A range of addresses for device memory, or zero. The pages take memory when they are first written to.
static Address addresses(Address wanted, size_t bytes, bool open)
{
    void *got = mmap((void *)wanted, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return 0;
    // Each piece of work opens and closes all of it, which is quick where pages are huge.
    madvise(got, bytes, MADV_HUGEPAGE);
    return (Address)got;
}

void join(Clock &into, const Clock &other)
{
    if (into.size() < other.size()) into.resize(other.size());
    for (size_t i = 0; i < other.size(); i++) into[i] = std::max(into[i], other[i]);
}

uint32_t at(const Clock &clock, size_t stream)
{
    return stream < clock.size() ? clock[stream] : 0;
}

double seconds()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

Machine::Machine()
{
    trace = is_set("SIMULATED_CUDA_TRACE");
    open = is_set("SIMULATED_CUDA_OPEN");
    late = !is_set("SIMULATED_CUDA_AT_ONCE");
    const char *given = getenv("SIMULATED_CUDA_PATIENCE_MS");
    patience = (given ? atof(given) : 30) / 1e3;
    given = getenv("SIMULATED_CUDA_MEMORY");
    memory = given ? strtoull(given, nullptr, 0) : (size_t)1 << 30;
    memory = (memory + 4095) & ~(size_t)4095;
    for (int device = 0; device < DEVICES; device++) {
        base[device] = addresses(FIRST_DEVICE + device * DEVICE_APART, memory, open);
        if (!base[device]) {
            fprintf(stderr, "simulated CUDA: no room for %zu bytes of device memory\n", memory);
            abort();
        }
        holes[device][base[device]] = memory;
        primary[device] = {device};
        pools[device] = {device};
        streams.push_back(new CUstream_st{device, device, false, 0, false, {}, {}});
    }
}

Machine &machine()
{
    static Machine *one = new Machine; // never destroyed: frameworks call in while the process ends
    return *one;
}

// Waits a moment, without Python's lock, which the work of another thread may need.
static void pause_for(int microseconds)
{
    static auto has_thread = (void *(*)())dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    static auto holds = (int (*)())dlsym(RTLD_DEFAULT, "PyGILState_Check");
    static auto save = (void *(*)())dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
    static auto restore = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
    void *state = has_thread && has_thread() && holds() ? save() : nullptr;
    usleep(microseconds);
    if (state) restore(state);
}

static thread_local int locks = 0; // how often this thread has the lock

static void lock()
{
    machine().lock.lock();
    locks++;
}

static void unlock()
{
    locks--;
    machine().lock.unlock();
}

Locked::Locked() { lock(); }
Locked::~Locked() { unlock(); }

Unlocked::Unlocked() : times(locks)
{
    while (locks) unlock();
}

Unlocked::~Unlocked()
{
    while (locks < times) lock();
}

// Counted under the machine's lock.
static int working = 0;

static void protect(int protection)
{
    for (int device = 0; device < DEVICES; device++)
        mprotect((void *)machine().base[device], machine().memory, protection);
    for (auto [start, bytes] : machine().reserved) mprotect((void *)start, bytes, protection);
}

DeviceWorks::DeviceWorks()
{
    if (!machine().open && !working++) protect(PROT_READ | PROT_WRITE);
}

DeviceWorks::~DeviceWorks()
{
    if (!machine().open && !--working) protect(PROT_NONE);
}

// ---- calls

thread_local CUcontext current = nullptr;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

int current_device()
{
    return current ? current->device : 0;
}

int usable()
{
    return machine().lost ? NOT_INITIALIZED : machine().sticky;
}

static void initialize()
{
    Locked locked;
    if (machine().initialized) return;
    machine().initialized = true;
    // A forked process has no device, as with the real driver.
    pthread_atfork([] { machine().lock.lock(); }, [] { machine().lock.unlock(); },
                   [] {
                       machine().lost = true;
                       new (&machine().lock) std::recursive_mutex;
                   });
}

int first_call()
{
    initialize();
    return usable();
}

int refuse(const char *name)
{
    Locked locked;
    machine().refused[name]++;
    trace("%s is refused", name);
    return NOT_SUPPORTED;
}

static std::string formatted(const char *format, va_list arguments)
{
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    return line;
}

void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::string line = formatted(format, arguments);
    va_end(arguments);
    machine().violations += line + '\n';
    trace("VIOLATION: %s", line.c_str());
}

void trace(const char *format, ...)
{
    if (!machine().trace) return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "simulated CUDA: %s\n", formatted(format, arguments).c_str());
    va_end(arguments);
}

void count_call(const char *name)
{
    const char *where = std::this_thread::get_id() == machine().asker ? "" : " elsewhere";
    machine().calls[std::string(name) + where]++;
    if (!machine().capturing || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    // What a capture in CUDA's mode "global" forbids to every thread that does not ask to be left alone.
    static const char *forbidden[] = {
        "cudaMalloc", "cudaFree", "cudaEventQuery", "cuEventQuery", "cudaEventSynchronize", "cuEventSynchronize",
        "cudaDeviceSynchronize", "cuCtxSynchronize", "cudaMemcpy", "cuMemcpy", "cuMemAlloc_v2", "cuMemFree_v2",
        "cudaMallocHost", "cudaHostAlloc", "cudaFreeHost"};
    for (auto other : forbidden)
        if (!strcmp(other, name)) violation("%s is called while a stream is captured", name);
}

// ---- memory

bool on_device(Address address)
{
    for (Address base : machine().base)
        if (address >= base && address < base + machine().memory) return true;
    auto next = machine().reserved.upper_bound(address);
    return next != machine().reserved.begin() && address < std::prev(next)->first + std::prev(next)->second;
}

Block *block_of(Address address)
{
    auto next = machine().blocks.upper_bound(address);
    if (next == machine().blocks.begin()) return nullptr;
    Block &block = std::prev(next)->second;
    return address < block.start + std::max<size_t>(block.bytes, 1) ? &block : nullptr;
}

Address end_of(const Block &block)
{
    Address end = block.start + block.bytes;
    if (block.kind != Kind::MAPPED) return end;
    for (auto next = machine().mapped.find(end); next != machine().mapped.end(); next = machine().mapped.find(end))
        end += next->second->bytes;
    return end;
}

static void perform_until(const Clock &wanted);

static void spoil(Address start, size_t bytes)
{
    DeviceWorks works;
    memset((void *)start, NONSENSE, std::min(bytes, MOST_NONSENSE));
}

// Finds room, at the lowest address: memory is used again as soon as possible.
static int take(int device, size_t bytes, Kind kind, Block *out)
{
    size_t need = (bytes + UNIT - 1) / UNIT * UNIT + UNIT;
    if (need > machine().memory - machine().used[device]) return NO_MEMORY;
    auto &holes = machine().holes[device];
    auto hole = std::find_if(holes.begin(), holes.end(), [=](auto &hole) { return hole.second >= need; });
    if (hole == holes.end()) return NO_MEMORY;
    auto [start, size] = *hole;
    holes.erase(hole);
    if (size > need) holes[start + need] = size - need;
    *out = machine().blocks[start] = {start, bytes, need, device, kind};
    machine().used[device] += need;
    return OK;
}

static void give_back(const Block &block)
{
    machine().blocks.erase(block.start);
    machine().used[block.device] -= block.reserved;
    auto &holes = machine().holes[block.device];
    auto hole = holes.emplace(block.start, block.reserved).first;
    auto next = std::next(hole);
    if (next != holes.end() && hole->first + hole->second == next->first) {
        hole->second += next->second;
        holes.erase(next);
    }
    if (hole == holes.begin()) return;
    auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
        before->second += hole->second;
        holes.erase(hole);
    }
}

// What was freed in stream order where a block is now.
static Clock freed_at(const Block &block)
{
    Clock clock;
    for (auto &[range, freed] : machine().freed)
        if (range.start < block.start + block.reserved && block.start < range.end) join(clock, freed);
    return clock;
}

// Does the work on a range, and forgets that it was there: other memory begins at these addresses.
static void settle(Address start, Address end)
{
    auto touches = [=](const Range &range) { return range.start < end && start < range.end; };
    Clock wanted;
    for (auto &operation : machine().operations)
        if (!operation.done && std::any_of(operation.ranges.begin(), operation.ranges.end(), touches))
            join(wanted, operation.clock);
    perform_until(wanted);
    for (auto &operation : machine().operations) {
        auto &ranges = operation.ranges;
        ranges.erase(std::remove_if(ranges.begin(), ranges.end(), touches), ranges.end());
    }
}

int allocate(int device, size_t bytes, Address *out)
{
    *out = 0;
    if (!bytes) return OK;
    Block block;
    if (int error = take(device, bytes, Kind::DEVICE, &block)) return error;
    settle(block.start, block.start + block.reserved);
    spoil(block.start, bytes);
    *out = block.start;
    return OK;
}

int allocate_in_order(int device, size_t bytes, void *handle, Address *out)
{
    *out = 0;
    CUstream_st *stream = stream_of(handle, device);
    if (!stream) return BAD_HANDLE;
    if (!bytes) return OK;
    Block block;
    if (int error = take(device, bytes, Kind::IN_STREAM_ORDER, &block)) return error;
    // The pool makes the stream wait for what used these addresses.
    join(stream->clock, freed_at(block));
    put("an allocation", stream, {{block.start, block.start + bytes, true}}, [=] { spoil(block.start, bytes); });
    *out = block.start;
    return OK;
}

int free_memory(Address address)
{
    if (!address) return OK;
    auto found = machine().blocks.find(address);
    if (found == machine().blocks.end()) {
        violation("memory at %#lx is freed, but not allocated", (long)address);
        return BAD_VALUE;
    }
    Block block = found->second;
    if (block.kind == Kind::PINNED || block.kind == Kind::MANAGED) return free_host((void *)address);
    settle(block.start, block.start + block.reserved);
    spoil(block.start, block.bytes);
    give_back(block);
    return OK;
}

int free_in_order(Address address, void *handle)
{
    auto found = machine().blocks.find(address);
    if (found == machine().blocks.end()) {
        violation("memory at %#lx is freed, but not allocated", (long)address);
        return BAD_VALUE;
    }
    CUstream_st *stream = stream_of(handle, current_device());
    if (!stream) return BAD_HANDLE;
    Block block = found->second;
    put("a free", stream, {{block.start, block.start + block.bytes, true}},
        [=] { spoil(block.start, block.bytes); });
    auto &freed = machine().freed;
    freed.erase(std::remove_if(freed.begin(), freed.end(), [](auto &one) { return is_done(one.second); }),
                freed.end());
    freed.push_back({{block.start, block.start + block.reserved, true}, stream->clock});
    give_back(block);
    return OK;
}

int reserve(size_t bytes, size_t alignment, Address *out)
{
    static Address next = FIRST_DEVICE + DEVICES * DEVICE_APART;
    if (!bytes || bytes % GRANULARITY || alignment > GRANULARITY) return BAD_VALUE;
    *out = addresses(next, bytes, machine().open || working);
    if (!*out) return NO_MEMORY;
    next = *out + bytes;
    machine().reserved[*out] = bytes;
    return OK;
}

int free_reserved(Address start, size_t bytes)
{
    auto found = machine().reserved.find(start);
    if (found == machine().reserved.end() || found->second != bytes) return BAD_VALUE;
    auto inside = machine().mapped.lower_bound(start);
    if (inside != machine().mapped.end() && inside->first < start + bytes) {
        violation("addresses at %#lx are freed while memory is mapped there", (long)start);
        return BAD_VALUE;
    }
    machine().reserved.erase(found);
    munmap((void *)start, bytes);
    return OK;
}

int create(int device, size_t bytes, Physical **out)
{
    if (!bytes || bytes % GRANULARITY) return BAD_VALUE;
    if (bytes > machine().memory - machine().used[device]) return NO_MEMORY;
    machine().used[device] += bytes;
    machine().physical.push_back(*out = new Physical{device, bytes, true, 0});
    return OK;
}

static void free_if_unused(Physical *physical)
{
    if (physical->held || physical->mappings) return;
    machine().used[physical->device] -= physical->bytes;
    auto &all = machine().physical;
    all.erase(std::find(all.begin(), all.end(), physical));
    delete physical;
}

static bool is_held(Physical *physical)
{
    auto &all = machine().physical;
    return std::find(all.begin(), all.end(), physical) != all.end() && physical->held;
}

int release(Physical *physical)
{
    if (!is_held(physical)) {
        violation("memory of cuMemCreate is released that nobody holds");
        return BAD_VALUE;
    }
    physical->held = false;
    free_if_unused(physical);
    return OK;
}

int map(Address start, size_t bytes, Physical *physical)
{
    if (!is_held(physical) || bytes != physical->bytes || start % GRANULARITY) return BAD_VALUE;
    if (physical->mappings) return NOT_SUPPORTED; // the same memory at two addresses
    if (!on_device(start) || !on_device(start + bytes - 1) || block_of(start)) return BAD_VALUE;
    physical->mappings++;
    machine().mapped[start] = physical;
    machine().blocks[start] = {start, bytes, bytes, physical->device, Kind::MAPPED};
    spoil(start, bytes);
    return OK;
}

int unmap(Address start, size_t bytes)
{
    auto &mapped = machine().mapped;
    auto first = mapped.find(start), end = mapped.lower_bound(start + bytes);
    if (first == mapped.end() || end_of(machine().blocks[start]) < start + bytes) {
        violation("memory at %#lx is unmapped, but not mapped", (long)start);
        return BAD_VALUE;
    }
    settle(start, start + bytes);
    for (auto each = first; each != end; each = mapped.erase(each)) {
        machine().blocks.erase(each->first);
        each->second->mappings--;
        free_if_unused(each->second);
    }
    madvise((void *)start, bytes, MADV_DONTNEED); // so it takes no memory of the host
    return OK;
}

int allocate_host(void **out, size_t bytes, Kind kind)
{
    *out = nullptr;
    if (!bytes) return OK;
    size_t reserved = (bytes + 4095) & ~(size_t)4095;
    if (posix_memalign(out, 4096, reserved)) return NO_MEMORY;
    memset(*out, NONSENSE, std::min(bytes, MOST_NONSENSE));
    machine().blocks[(Address)*out] = {(Address)*out, bytes, reserved, current_device(), kind};
    return OK;
}

int free_host(void *address)
{
    if (!address) return OK;
    auto found = machine().blocks.find((Address)address);
    if (found == machine().blocks.end()) return BAD_VALUE;
    Block block = found->second;
    if (block.kind != Kind::PINNED && block.kind != Kind::MANAGED) return BAD_VALUE;
    settle(block.start, block.start + block.reserved);
    machine().blocks.erase(found);
    free(address);
    return OK;
}

int register_host(void *address, size_t bytes)
{
    if (block_of((Address)address)) return IS_REGISTERED;
    machine().blocks[(Address)address] = {(Address)address, bytes, bytes, current_device(), Kind::REGISTERED};
    return OK;
}

int unregister_host(void *address)
{
    auto found = machine().blocks.find((Address)address);
    if (found == machine().blocks.end() || found->second.kind != Kind::REGISTERED) return IS_NOT_REGISTERED;
    machine().blocks.erase(found);
    return OK;
}

// ---- streams and order

CUstream_st *new_stream(int device, unsigned flags, int priority)
{
    int id = (int)machine().streams.size();
    auto stream = new CUstream_st{id, device, (flags & 1) != 0, priority, false, {}, {}};
    machine().streams.push_back(stream);
    trace("stream %d = %p on device %d, flags %u", id, (void *)stream, device, flags);
    return stream;
}

CUstream_st *stream_of(void *handle, int device)
{
    if (handle == nullptr || handle == (void *)CU_STREAM_LEGACY) return machine().streams[device];
    if (handle == (void *)CU_STREAM_PER_THREAD) {
        static thread_local CUstream_st *own[DEVICES];
        if (!own[device]) own[device] = new_stream(device, 0, 0);
        return own[device];
    }
    for (auto stream : machine().streams)
        if (stream == handle) {
            if (!stream->destroyed) return stream;
            violation("stream %d is used after it was destroyed", stream->id);
            return nullptr;
        }
    violation("stream %p does not exist", handle);
    return nullptr;
}

int destroy_stream(void *handle)
{
    CUstream_st *stream = stream_of(handle, current_device());
    if (!stream || stream->is_legacy()) return BAD_HANDLE;
    stream->destroyed = true; // its work is done all the same
    return OK;
}

// Joins what a stream waits for without being told.
static void up_to_date(CUstream_st *stream)
{
    join(stream->clock, machine().host);
    if (!stream->is_legacy()) {
        if (!stream->non_blocking) join(stream->clock, machine().streams[stream->device]->clock);
        return;
    }
    for (auto other : machine().streams)
        if (!other->is_legacy() && other->device == stream->device && !other->non_blocking)
            join(stream->clock, other->clock);
}

static int unlocked_work = 0; // that runs now
static thread_local int own_unlocked_work = 0;

static void run_unlocked(Operation &operation, const std::function<void()> &run)
{
    std::optional<DeviceWorks> works;
    if (operation.by == By::HOST) {
        Clock before = operation.clock;
        before[operation.stream]--;
        join(machine().host, before);
    } else {
        works.emplace();
    }
    operation.running = true; // holds up the work after it alone
    unlocked_work++, own_unlocked_work++;
    {
        Unlocked unlocked;
        run();
    }
    unlocked_work--, own_unlocked_work--;
    operation.running = false;
}

static void perform(Operation &operation)
{
    auto run = std::move(operation.run);
    operation.run = nullptr;
    if (operation.by != By::DEVICE) run_unlocked(operation, run);
    auto &waiting = machine().streams[operation.stream]->waiting;
    waiting.erase(std::find(waiting.begin(), waiting.end(), &operation));
    operation.done = true;
    if (!run || operation.by != By::DEVICE) return;
    DeviceWorks works;
    run();
}

static bool may_be_done(const Operation &operation)
{
    for (auto stream : machine().streams)
        if (stream->id != operation.stream && !stream->waiting.empty() &&
            stream->waiting.front()->number <= at(operation.clock, stream->id))
            return false;
    return true;
}

// The work among `wanted` that is done next: of what may be done, what was called last.
static Operation *next_of(const Clock &wanted)
{
    Operation *next = nullptr;
    for (auto stream : machine().streams) {
        if (stream->waiting.empty()) continue;
        Operation *first = stream->waiting.front();
        if (first->running || first->number > at(wanted, stream->id) || (next && next->call > first->call)) continue;
        if (may_be_done(*first)) next = first;
    }
    return next;
}

// Waits a moment for work that another thread does without the lock; false if there is none.
static bool wait_for_unlocked_work()
{
    if (unlocked_work == own_unlocked_work) return false;
    Unlocked unlocked;
    pause_for(100);
    return true;
}

static void perform_until(const Clock &wanted)
{
    Clock fixed = wanted; // other threads may put more work on streams meanwhile
    for (;;) {
        if (Operation *next = next_of(fixed)) perform(*next);
        else if (is_done(fixed)) return;
        else if (!wait_for_unlocked_work()) return;
    }
}

bool is_done(const Clock &clock)
{
    for (auto stream : machine().streams)
        if (!stream->waiting.empty() && stream->waiting.front()->number <= at(clock, stream->id)) return false;
    return true;
}

static void host_learns(const Clock &clock)
{
    Machine &m = machine();
    join(m.host, clock);
    m.operations.remove_if([&](auto &o) { return o.done && o.number <= at(m.host, o.stream); });
}

void wait_for(CUstream_st *stream)
{
    if (machine().capturing == stream) violation("the host waits for stream %d, which is captured", stream->id);
    trace("the host waits for stream %d", stream->id);
    up_to_date(stream);
    Clock wanted = stream->clock;
    perform_until(wanted);
    host_learns(wanted);
}

static void wait_for_all(std::function<bool(CUstream_st *)> of_interest)
{
    Clock wanted;
    for (auto stream : machine().streams) {
        if (!of_interest(stream)) continue;
        if (machine().capturing == stream) violation("the host waits for stream %d, which is captured", stream->id);
        up_to_date(stream);
        join(wanted, stream->clock);
    }
    perform_until(wanted);
    host_learns(wanted);
}

void wait_for_device(int device)
{
    wait_for_all([=](CUstream_st *stream) { return stream->device == device; });
}

void finish()
{
    wait_for_all([](CUstream_st *) { return true; });
}

// Reports what an operation does that nothing orders or allows.
static void examine(const Operation &operation)
{
    auto does = [](const Range &range) { return range.writes ? "writes" : "reads"; };
    for (auto &range : operation.ranges) {
        if (range.start == range.end || !on_device(range.start)) continue;
        Block *block = block_of(range.start);
        if (!block || range.end > end_of(*block))
            violation("%s on stream %d %s %lu bytes at %#lx, which are not allocated", operation.name.c_str(),
                      operation.stream, does(range), (long)(range.end - range.start), (long)range.start);
    }
    for (auto &other : machine().operations) {
        if (&other == &operation || other.number <= at(operation.clock, other.stream)) continue;
        for (auto &mine : operation.ranges)
            for (auto &theirs : other.ranges)
                if (mine.start < theirs.end && theirs.start < mine.end && (mine.writes || theirs.writes))
                    violation("%s on stream %d %s what %s on stream %d %s, in no order (at %#lx)",
                              operation.name.c_str(), operation.stream, does(mine), other.name.c_str(),
                              other.stream, does(theirs), (long)std::max(mine.start, theirs.start));
    }
}

// Does the work that nobody waits for. XLA waits in callbacks, so a device that never worked by itself would hang it.
static void start_impatience()
{
    static pid_t started = 0;
    if (!machine().patience || started == getpid()) return;
    started = getpid();
    std::thread([] {
        for (;;) {
            usleep(1000);
            Locked locked;
            double now = seconds();
            Clock due;
            for (auto &operation : machine().operations)
                if (!operation.done && now - operation.since > machine().patience) join(due, operation.clock);
            perform_until(due);
        }
    }).detach();
}

void put(const std::string &name, CUstream_st *stream, std::vector<Range> ranges, std::function<void()> run, By by)
{
    Machine &m = machine();
    up_to_date(stream);
    if (stream->clock.size() <= (size_t)stream->id) stream->clock.resize(stream->id + 1);
    uint32_t number = ++stream->clock[stream->id];
    m.operations.push_back({name, stream->id, number, m.next_call++, stream->clock, std::move(ranges), std::move(run),
                            by, seconds(), false, false});
    Operation &operation = m.operations.back();
    stream->waiting.push_back(&operation);
    trace("%s is put on stream %d", name.c_str(), stream->id);
    examine(operation);
    if (m.late) return start_impatience();
    Clock wanted = operation.clock;
    perform_until(wanted);
}

int copy(void *to, const void *from, size_t bytes, void *handle, bool returns_early)
{
    if (!bytes) return OK;
    CUstream_st *stream = stream_of(handle, current_device());
    if (!stream) return BAD_HANDLE;
    for (const void *address : {(const void *)to, from})
        if (on_device((Address)address) && !block_of((Address)address)) {
            violation("a copy has an address that is not allocated (%p)", address);
            return BAD_VALUE;
        }
    bool to_device = on_device((Address)to), from_device = on_device((Address)from);
    bool from_pinned = !from_device && block_of((Address)from), to_pinned = !to_device && block_of((Address)to);
    const char *name = to_device && from_device ? "a copy"
                       : to_device              ? "an upload"
                       : from_device            ? "a download"
                                                : "a copy on the host";
    Address target = (Address)to, source = (Address)from;
    if (from_device || from_pinned || !returns_early)
        put(name, stream, {{target, target + bytes, true}, {source, source + bytes, false}},
            [=] { memmove(to, from, bytes); });
    else {
        auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
        put(name, stream, {{target, target + bytes, true}}, [=] { memcpy(to, staged->data(), bytes); });
    }
    bool waits = (!returns_early && !(to_device && from_device)) || (!to_device && !to_pinned);
    if (waits) {
        machine().calls[std::string("the host waits in ") + name]++;
        wait_for(stream);
    }
    return OK;
}

int fill(void *to, int width, uint32_t value, size_t count, void *handle)
{
    CUstream_st *stream = stream_of(handle, current_device());
    if (!stream) return BAD_HANDLE;
    if (!count) return OK;
    Address start = (Address)to;
    if (on_device(start) && !block_of(start)) return BAD_VALUE;
    put("a memset", stream, {{start, start + count * width, true}}, [=] {
        if (width == 1) memset(to, (int)value, count);
        else if (width == 2) std::fill_n((uint16_t *)to, count, (uint16_t)value);
        else std::fill_n((uint32_t *)to, count, value);
    });
    return OK;
}

int stream_waits(void *handle, CUevent_st *event)
{
    CUstream_st *stream = stream_of(handle, current_device()), *capturing = machine().capturing;
    if (!stream || !event) return BAD_HANDLE;
    if (capturing && event->captured && stream->is_legacy()) violation("the legacy stream waits for a captured event");
    if (capturing == stream && event->recorded && !event->captured)
        violation("a captured stream waits for an event from outside the capture");
    up_to_date(stream);
    if (event->recorded) join(stream->clock, event->clock);
    trace("stream %d waits for event %p", stream->id, (void *)event);
    return OK;
}

int record(CUevent_st *event, void *handle)
{
    CUstream_st *stream = stream_of(handle, current_device()), *capturing = machine().capturing;
    if (!stream || !event) return BAD_HANDLE;
    if (stream->device != event->device) {
        violation("an event of device %d is recorded on stream %d of device %d", event->device, stream->id,
                  stream->device);
        return BAD_HANDLE;
    }
    if (capturing && capturing != stream) violation("an event is recorded on stream %d, outside the capture", stream->id);
    up_to_date(stream);
    event->captured = capturing == stream;
    event->recorded = true;
    event->clock = stream->clock;
    event->when = seconds();
    trace("event %p is recorded on stream %d", (void *)event, stream->id);
    return OK;
}

// A query that finds work undone lets one piece of it be done, so that polling ends. It would wait for a host function,
// which the device calls by itself.
static int query(const Clock &wanted)
{
    Clock fixed = wanted;
    if (is_done(fixed)) {
        host_learns(fixed);
        return OK;
    }
    Operation *next = next_of(fixed);
    if (next && !(next->by == By::HOST && machine().patience)) perform(*next);
    return NOT_READY;
}

int query(CUstream_st *stream)
{
    if (!stream) return BAD_HANDLE;
    up_to_date(stream);
    return query(stream->clock);
}

int query(CUevent_st *event)
{
    if (!event) return BAD_HANDLE;
    return event->recorded ? query(event->clock) : OK;
}

int wait_for(CUevent_st *event)
{
    if (!event) return BAD_HANDLE;
    Clock wanted = event->clock;
    perform_until(wanted);
    host_learns(wanted);
    return OK;
}
