// The CUDA runtime, as far as PyTorch, CuPy and XLA call it. What is missing here is refused by name: build.py writes a
// function for every other symbol of the real library.
#include "device.h"
#include "for_tests.h"
#include "machine.h"

#include <cstdlib>
#include <cstring>

// Each library that has the runtime linked into it has its own last error, told apart by the return address.
static std::vector<std::pair<Address, Address>> copies_of_the_runtime;
static constexpr size_t MOST_COPIES = 15;

EXPORTED void simulated_add_runtime(Address start, Address end)
{
    Locked locked;
    if (copies_of_the_runtime.size() == MOST_COPIES) abort();
    copies_of_the_runtime.push_back({start, end});
}

static int &last_error_of(void *caller)
{
    static thread_local int errors[MOST_COPIES + 1];
    for (size_t i = 0; i < copies_of_the_runtime.size(); i++)
        if ((Address)caller >= copies_of_the_runtime[i].first && (Address)caller < copies_of_the_runtime[i].second)
            return errors[i + 1];
    return errors[0];
}
#define LAST_ERROR last_error_of(__builtin_return_address(0))

static cudaError_t noted(int error, int &last)
{
    if (error) last = error;
    return (cudaError_t)error;
}
#define RESULT(error) noted(error, LAST_ERROR)

// A call of the runtime: locked, counted, refused after a sticky error, and on the thread's device, else device 0.
#define CALL                                                                                                           \
    Locked locked;                                                                                                     \
    count_call(__func__);                                                                                              \
    if (int error = first_call()) return RESULT(error);                                                                \
    if (!current) current = &machine().primary[0];                                                                     \
    machine().active[current->device] = true;
// A call that needs no context.
#define CALL_WITHOUT_DEVICE                                                                                            \
    Locked locked;                                                                                                     \
    count_call(__func__);                                                                                              \
    if (int error = first_call()) return RESULT(error);
#define NEED_DEVICE(device)                                                                                            \
    if ((device) < 0 || (device) >= DEVICES) return RESULT(NO_DEVICE);
#define NEED_STREAM(handle)                                                                                            \
    CUstream_st *stream = stream_of(handle, current_device());                                                         \
    if (!stream) return RESULT(BAD_HANDLE);


// Called by the functions that build.py writes. The driver's errors are not the runtime's.
EXPORTED int simulated_refused(const char *name, void *caller)
{
    return strncmp(name, "cuda", 4) ? refuse(name) : (int)noted(refuse(name), last_error_of(caller));
}

// ---- devices

EXPORTED cudaError_t cudaGetDeviceCount(int *count) { CALL_WITHOUT_DEVICE *count = DEVICES; return cudaSuccess; }
EXPORTED cudaError_t cudaGetDevice(int *device) { CALL_WITHOUT_DEVICE *device = current_device(); return cudaSuccess; }

EXPORTED cudaError_t cudaSetDevice(int device)
{
    CALL_WITHOUT_DEVICE
    NEED_DEVICE(device)
    current = &machine().primary[device];
    machine().active[device] = true;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
    CALL_WITHOUT_DEVICE
    NEED_DEVICE(device)
    machine().active[device] = true;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    CALL_WITHOUT_DEVICE
    NEED_DEVICE(device)
    properties_of(properties, device, machine().memory);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    CALL_WITHOUT_DEVICE
    NEED_DEVICE(device)
    *value = attribute_of((CUdevice_attribute)attribute, device);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    NEED_DEVICE(device)
    bus_of(out, size, device);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus)
{
    *device = atoi(bus + 5) - 1;
    NEED_DEVICE(*device)
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceCanAccessPeer(int *can, int from, int to)
{
    NEED_DEVICE(from)
    NEED_DEVICE(to)
    *can = from != to;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceSynchronize() { CALL wait_for_device(current_device()); return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) { NEED_DEVICE(device) return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceDisablePeerAccess(int device) { NEED_DEVICE(device) return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit) { *value = 1024; return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
EXPORTED cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
EXPORTED cudaError_t cudaGetDeviceFlags(unsigned *flags) { *flags = 0; return cudaSuccess; }
EXPORTED cudaError_t cudaDriverGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
EXPORTED cudaError_t cudaRuntimeGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
EXPORTED cudaError_t cudaProfilerStart() { return cudaSuccess; }
EXPORTED cudaError_t cudaProfilerStop() { return cudaSuccess; }

EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

// ---- errors

EXPORTED cudaError_t cudaGetLastError()
{
    int &last = LAST_ERROR, error = last;
    last = OK;
    return (cudaError_t)error;
}

EXPORTED cudaError_t cudaPeekAtLastError() { return (cudaError_t)LAST_ERROR; }
EXPORTED const char *cudaGetErrorName(cudaError_t error) { return simulated_error_name(error); }
EXPORTED const char *cudaGetErrorString(cudaError_t error) { return simulated_error_text(error); }

// ---- memory

EXPORTED cudaError_t cudaMalloc(void **out, size_t bytes)
{
    CALL
    return RESULT(allocate(current_device(), bytes, (Address *)out));
}

EXPORTED cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    CALL
    return RESULT(allocate_in_order(current_device(), bytes, stream, (Address *)out));
}

EXPORTED cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    CALL
    return RESULT(allocate_in_order(((CUmemPoolHandle_st *)pool)->device, bytes, stream, (Address *)out));
}

EXPORTED cudaError_t cudaFree(void *address) { CALL return RESULT(free_memory((Address)address)); }
EXPORTED cudaError_t cudaFreeAsync(void *address, cudaStream_t stream) { CALL return RESULT(free_in_order((Address)address, stream)); }
EXPORTED cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned) { CALL return RESULT(allocate_host(out, bytes, Kind::MANAGED)); }
EXPORTED cudaError_t cudaMallocHost(void **out, size_t bytes) { CALL return RESULT(allocate_host(out, bytes, Kind::PINNED)); }
EXPORTED cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) { CALL return RESULT(allocate_host(out, bytes, Kind::PINNED)); }
EXPORTED cudaError_t cudaFreeHost(void *address) { CALL return RESULT(free_host(address)); }
EXPORTED cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned) { CALL return RESULT(register_host(address, bytes)); }
EXPORTED cudaError_t cudaHostUnregister(void *address) { CALL return RESULT(unregister_host(address)); }
EXPORTED cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) { *device = host; return cudaSuccess; }
EXPORTED cudaError_t cudaHostGetFlags(unsigned *flags, void *) { *flags = 0; return cudaSuccess; }

EXPORTED cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    CALL
    *total = machine().memory;
    *available = machine().memory - machine().used[current_device()];
    return cudaSuccess;
}

EXPORTED cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind)
{
    CALL
    return RESULT(copy(to, from, bytes, nullptr, false));
}

EXPORTED cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    CALL
    return RESULT(copy(to, from, bytes, stream, true));
}

EXPORTED cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes)
{
    CALL
    return RESULT(copy(to, from, bytes, nullptr, false));
}

EXPORTED cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t stream)
{
    CALL
    return RESULT(copy(to, from, bytes, stream, true));
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     cudaStream_t stream, bool returns_early)
{
    for (size_t row = 0; row < height; row++) {
        auto target = (char *)to + row * to_pitch;
        auto source = (const char *)from + row * from_pitch;
        if (int error = copy(target, source, width, stream, returns_early)) return error;
    }
    return OK;
}

EXPORTED cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                       size_t height, cudaMemcpyKind, cudaStream_t stream)
{
    CALL
    return RESULT(copy_rows(to, to_pitch, from, from_pitch, width, height, stream, true));
}

EXPORTED cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                  size_t height, cudaMemcpyKind)
{
    CALL
    return RESULT(copy_rows(to, to_pitch, from, from_pitch, width, height, nullptr, false));
}

EXPORTED cudaError_t cudaMemset(void *to, int value, size_t count) { CALL return RESULT(fill(to, 1, value, count, nullptr)); }
EXPORTED cudaError_t cudaMemsetAsync(void *to, int value, size_t count, cudaStream_t stream) { CALL return RESULT(fill(to, 1, value, count, stream)); }

EXPORTED cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *address)
{
    CALL
    memset(out, 0, sizeof *out);
    Block *block = block_of((Address)address);
    if (!block) {
        out->type = cudaMemoryTypeUnregistered;
        out->device = -2;
        out->hostPointer = (void *)address;
        return RESULT(on_device((Address)address) ? BAD_VALUE : OK);
    }
    out->type = block->is_host()               ? cudaMemoryTypeHost
                : block->kind == Kind::MANAGED ? cudaMemoryTypeManaged
                                               : cudaMemoryTypeDevice;
    out->device = block->device;
    out->devicePointer = (void *)address;
    out->hostPointer = out->type == cudaMemoryTypeDevice ? nullptr : (void *)address;
    return cudaSuccess;
}

// A device has one pool, which keeps nothing.
EXPORTED cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    NEED_DEVICE(device)
    *pool = (cudaMemPool_t)&machine().pools[device];
    return cudaSuccess;
}

EXPORTED cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
EXPORTED cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t) { NEED_DEVICE(device) return cudaSuccess; }
EXPORTED cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
EXPORTED cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) { return cudaSuccess; }
EXPORTED cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) { return cudaSuccess; }

EXPORTED cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    Locked locked;
    switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
        *(int *)value = 1;
        return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
        *(uint64_t *)value = 0;
        return cudaSuccess;
    default:
        *(uint64_t *)value = machine().used[((CUmemPoolHandle_st *)pool)->device];
        return cudaSuccess;
    }
}

// ---- streams and events

EXPORTED cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    CALL
    *out = new_stream(current_device(), flags, priority);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
EXPORTED cudaError_t cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithPriority(out, 0, 0); }
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t handle) { CALL return RESULT(destroy_stream(handle)); }
EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t handle) { CALL NEED_STREAM(handle) wait_for(stream); return cudaSuccess; }
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t handle) { CALL return RESULT(query(stream_of(handle, current_device()))); }
EXPORTED cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) { CALL return RESULT(stream_waits(handle, event)); }
EXPORTED cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *out) { CALL NEED_STREAM(handle) *out = stream->priority; return cudaSuccess; }
EXPORTED cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *out) { CALL NEED_STREAM(handle) *out = stream->non_blocking; return cudaSuccess; }
EXPORTED cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *out) { CALL NEED_STREAM(handle) *out = stream->id; return cudaSuccess; }
EXPORTED cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *out) { CALL NEED_STREAM(handle) *out = stream->device; return cudaSuccess; }

EXPORTED cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status)
{
    CALL
    bool is = machine().capturing && (CUstream_st *)handle == machine().capturing;
    *status = is ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

// A capture here is only a time in which more is forbidden: there is no graph.
EXPORTED cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *status, unsigned long long *id,
                                              cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                              const cudaGraphEdgeData **edges, size_t *count)
{
    *status = cudaStreamCaptureStatusNone;
    if (id) *id = 0;
    if (graph) *graph = nullptr;
    if (nodes) *nodes = nullptr;
    if (edges) *edges = nullptr;
    if (count) *count = 0;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    std::swap(*(CUstreamCaptureMode *)mode, capture_mode);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void *data, unsigned)
{
    CALL
    NEED_STREAM(handle)
    put("a callback", stream, {}, [=] { function(handle, cudaSuccess, data); }, By::HOST);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data)
{
    CALL
    NEED_STREAM(handle)
    put("a host function", stream, {}, [=] { function(data); }, By::HOST);
    return cudaSuccess;
}

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    CALL
    *out = new CUevent_st{current_device(), flags, false, false, {}, 0};
    return cudaSuccess;
}

EXPORTED cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t event) { CALL delete event; return cudaSuccess; }
EXPORTED cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { CALL return RESULT(record(event, stream)); }
EXPORTED cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { CALL return RESULT(record(event, stream)); }
EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event) { CALL return RESULT(query(event)); }
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t event) { CALL return RESULT(wait_for(event)); }

EXPORTED cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    CALL
    if (!start || !end || !start->recorded || !end->recorded) return RESULT(BAD_HANDLE);
    if (!is_done(start->clock) || !is_done(end->clock)) return RESULT(NOT_READY);
    *milliseconds = (float)((end->when - start->when) * 1e3);
    return cudaSuccess;
}

// ---- kernels. Those that are compiled into a library are machine code, and are refused by name.

static std::unordered_map<const void *, const char *> &kernels()
{
    static std::unordered_map<const void *, const char *> all; // filled while libraries are loaded
    return all;
}

EXPORTED void **__cudaRegisterFatBinary(void *) { static void *handle; return &handle; }
EXPORTED void __cudaRegisterFatBinaryEnd(void **) {}
EXPORTED void __cudaUnregisterFatBinary(void **) {}
EXPORTED void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *, void *, void *, void *, int *) { kernels()[host] = name; }
EXPORTED void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
EXPORTED void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int) {}
EXPORTED char __cudaInitModule(void **) { return 1; }

struct Configuration {
    dim3 grid, block;
    size_t shared;
    void *stream;
};
static thread_local std::vector<Configuration> configurations;

EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    configurations.push_back({grid, block, shared, stream});
    return 0;
}

EXPORTED cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (configurations.empty()) return RESULT(BAD_CONFIGURATION);
    Configuration last = configurations.back();
    configurations.pop_back();
    *grid = last.grid, *block = last.block, *shared = last.shared, *(void **)stream = last.stream;
    return cudaSuccess;
}

static int launch(const void *function, void *handle)
{
    auto found = kernels().find(function);
    std::string name = found == kernels().end() ? "a kernel without a name" : found->second;
    CUstream_st *stream = stream_of(handle, current_device());
    if (!stream) return BAD_HANDLE;
    if (name.find("spin_kernel") == std::string::npos) return refuse(("kernel " + name).c_str());
    put("a sleep", stream, {}, nullptr); // torch.cuda._sleep: work that nobody sees
    return OK;
}

EXPORTED cudaError_t cudaLaunchKernel(const void *f, dim3, dim3, void **, size_t, cudaStream_t stream) { CALL return RESULT(launch(f, stream)); }
EXPORTED cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3, dim3, void **, size_t, cudaStream_t stream) { CALL return RESULT(launch(f, stream)); }
EXPORTED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **) { CALL return RESULT(launch(f, c->stream)); }
EXPORTED cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *f) { *kernel = (cudaKernel_t)f; return cudaSuccess; }
EXPORTED cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3, dim3, void **, size_t, cudaStream_t stream) { CALL return RESULT(launch((const void *)f, stream)); }
EXPORTED cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
EXPORTED cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int, size_t) { *n = 2; return cudaSuccess; }
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *, int, size_t, unsigned) { *n = 2; return cudaSuccess; }

EXPORTED cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *)
{
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->binaryVersion = out->ptxVersion = 90;
    return cudaSuccess;
}

// ---- the way to the driver

void *driver_function(const char *name, unsigned version);

EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                      unsigned long long, cudaDriverEntryPointQueryResult *result)
{
    *out = driver_function(name, version);
    if (result) *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **out, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPointByVersion(name, out, CUDA_VERSION, flags, result);
}
