// The simulated machine behind the simulated CUDA: devices whose memory is host memory, and streams whose work is
// done late. Nothing that runs on it is evidence about a device.
//
// Its rules:
//
// 1. Work that is put on a stream waits there. It is done when the host waits for it, and only as much of it as the
//    host waits for. Of the work that may be done next, the work that was called last comes first, so that what no
//    order forbids happens. Work that nobody waits for is done after a while, as a device would.
// 2. Order is kept in clocks: one number for each stream, how much of that stream's work comes before. A stream
//    waits for an event, the legacy stream waits for the blocking streams of its device and they for it, and the
//    host knows what it has waited for. Nothing else orders work.
// 3. Work says which bytes it reads and writes. Two pieces of work in no order, one of which writes what the other
//    touches, are a violation, and so is work on memory that is not allocated. Both pieces are named.
// 4. Pageable memory is read before an upload returns, and a download to it waits. Pinned memory is read and written
//    when the work is done.
// 5. Memory holds nonsense when it is allocated and after it is freed. The host cannot touch device memory, unless
//    SIMULATED_CUDA_OPEN is set.
// 6. `cudaFree` does the work on the memory that it frees, as real frameworks rely on, but orders nothing:
//    what is read without a wait after it is still a violation.
// 7. Memory of `cudaMallocAsync` begins and ends in the order of its streams.
// 8. Mapped memory (`cuMemMap`) is allocated where and while it is mapped. `cuMemUnmap` is like `cudaFree`.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

using Address = uintptr_t;
constexpr int DEVICES = 2;
constexpr size_t GRANULARITY = (size_t)2 << 20; // of memory that is mapped

// CUDA's error numbers, which the runtime and the driver share.
constexpr int OK = 0, BAD_VALUE = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, BAD_CONFIGURATION = 52, NO_DEVICE = 101,
              BAD_IMAGE = 200, NO_CONTEXT = 201, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
              IS_REGISTERED = 712, IS_NOT_REGISTERED = 713, NOT_SUPPORTED = 801;

// How much of each stream's work comes before.
using Clock = std::vector<uint32_t>;
void join(Clock &into, const Clock &other);
uint32_t at(const Clock &clock, size_t stream);

struct Range {
    Address start, end;
    bool writes;
};

// Who does a piece of work. The host and Python may wait for other threads, so they work without the machine's lock.
enum class By { DEVICE, HOST, PYTHON };

struct Operation {
    std::string name;
    int stream;
    uint32_t number; // in its stream
    uint64_t call;   // in the process
    Clock clock;     // what comes before, and itself
    std::vector<Range> ranges;
    std::function<void()> run;
    By by; // its run by the host tells the host that the work before it is done
    double since;
    bool running, done;
};

struct CUctx_st {
    int device;
};
struct CUstream_st {
    int id, device;
    bool non_blocking; // neither waits for the legacy stream nor makes it wait
    int priority;
    bool destroyed;
    Clock clock;
    std::deque<Operation *> waiting;
    bool is_legacy() const { return id < DEVICES; }
};
struct CUevent_st {
    int device;
    unsigned flags;
    bool recorded, captured;
    Clock clock;
    double when;
};
struct CUmemPoolHandle_st {
    int device;
};

enum class Kind { DEVICE, IN_STREAM_ORDER, MAPPED, MANAGED, PINNED, REGISTERED };
struct Block {
    Address start;
    size_t bytes, reserved;
    int device;
    Kind kind;
    bool is_host() const { return kind == Kind::PINNED || kind == Kind::REGISTERED; }
};

// Memory of cuMemCreate, which has no address of its own. It is freed when it is neither held nor mapped.
struct Physical {
    int device;
    size_t bytes;
    bool held;
    int mappings;
};

struct Machine {
    std::recursive_mutex lock;
    bool initialized = false, trace = false, open = false;
    bool lost = false; // in a process that was forked off
    bool late = true;
    double patience; // seconds until work is done that nobody waits for; 0: never
    int sticky = OK; // the error that every call returns from now on
    // memory
    size_t memory;
    Address base[DEVICES];
    size_t used[DEVICES] = {};
    std::map<Address, size_t> holes[DEVICES];
    std::map<Address, Block> blocks;
    std::map<Address, size_t> reserved;      // the ranges of cuMemAddressReserve
    std::map<Address, Physical *> mapped;    // by the start of their blocks
    std::vector<Physical *> physical;        // what is held or mapped
    std::vector<std::pair<Range, Clock>> freed; // in stream order, and not known to be done
    CUctx_st primary[DEVICES];
    int retained[DEVICES] = {};
    bool active[DEVICES] = {};
    CUmemPoolHandle_st pools[DEVICES];
    // work
    std::vector<CUstream_st *> streams; // the legacy streams first
    std::list<Operation> operations;
    uint64_t next_call = 0;
    Clock host;
    CUstream_st *capturing = nullptr;
    // what tests ask for
    std::string violations;
    std::map<std::string, int> refused;
    std::map<std::string, long> calls;
    std::thread::id asker; // the thread that asked for the calls last
    Machine();
};
Machine &machine();

// The machine's lock. A thread waits for it with Python's lock, as it waits in a CUDA driver: what calls Python is done
// without this one. XLA makes calls under locks of its own, which threads that have Python's lock wait for.
struct Locked {
    Locked();
    ~Locked();
};

// Gives the lock up for a while, however often this thread has it.
struct Unlocked {
    Unlocked();
    ~Unlocked();
    int times;
};

// Opens device memory to the process while the device works.
struct DeviceWorks {
    DeviceWorks();
    ~DeviceWorks();
};

extern thread_local CUcontext current;
// What a capture on another thread forbids to this one.
extern thread_local CUstreamCaptureMode capture_mode;
int current_device();
int first_call();   // what each call of the runtime does first; an error or OK
int usable();       // an error if the device is lost, or an earlier error is sticky
int refuse(const char *name);
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void count_call(const char *name);
double seconds();

// memory
bool on_device(Address address);
Block *block_of(Address address);
Address end_of(const Block &block); // and of what is mapped right after it
int allocate(int device, size_t bytes, Address *out);
int allocate_in_order(int device, size_t bytes, void *stream, Address *out);
int free_memory(Address address);
int free_in_order(Address address, void *stream);
int reserve(size_t bytes, size_t alignment, Address *out);
int free_reserved(Address start, size_t bytes);
int create(int device, size_t bytes, Physical **out);
int release(Physical *physical);
int map(Address start, size_t bytes, Physical *physical);
int unmap(Address start, size_t bytes);
int allocate_host(void **out, size_t bytes, Kind kind);
int free_host(void *address);
int register_host(void *address, size_t bytes);
int unregister_host(void *address);

// work
CUstream_st *stream_of(void *handle, int device); // null, with a violation, if there is none
CUstream_st *new_stream(int device, unsigned flags, int priority);
int destroy_stream(void *handle);
void put(const std::string &name, CUstream_st *stream, std::vector<Range> ranges, std::function<void()> run,
         By by = By::DEVICE);
int copy(void *to, const void *from, size_t bytes, void *stream, bool returns_early);
int fill(void *to, int width, uint32_t value, size_t count, void *stream);
void wait_for(CUstream_st *stream);
void wait_for_device(int device);
int stream_waits(void *stream, CUevent_st *event);
int query(CUstream_st *stream);
int record(CUevent_st *event, void *stream);
int query(CUevent_st *event);
int wait_for(CUevent_st *event);
bool is_done(const Clock &clock);
void finish();
