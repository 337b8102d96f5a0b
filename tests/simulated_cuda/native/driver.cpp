// The CUDA driver, as far as CuPy, XLA and arraybridge call it. It shares its state with the runtime.
#include "device.h"
#include "for_tests.h"
#include "machine.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

static CUresult result(int error) { return (CUresult)error; }

// A call of the driver: locked, counted, and refused before cuInit and after a sticky error.
#define CALL_WITHOUT_CONTEXT                                                                                           \
    Locked locked;                                                                                                     \
    count_call(__func__);                                                                                              \
    if (!machine().initialized) return result(NOT_INITIALIZED);                                                        \
    if (int error = usable()) return result(error);
#define CALL                                                                                                           \
    CALL_WITHOUT_CONTEXT                                                                                               \
    if (!current) return result(NO_CONTEXT);
#define NEED_DEVICE(device)                                                                                            \
    if ((device) < 0 || (device) >= DEVICES) return result(NO_DEVICE);
#define NEED_STREAM(handle)                                                                                            \
    CUstream_st *stream = stream_of(handle, current_device());                                                         \
    if (!stream) return result(BAD_HANDLE);

// ---- devices and contexts

EXPORTED CUresult cuInit(unsigned) { return result(first_call()); }
EXPORTED CUresult cuDriverGetVersion(int *version) { *version = CUDA_VERSION; return result(OK); }
EXPORTED CUresult cuDeviceGet(CUdevice *device, int index) { CALL_WITHOUT_CONTEXT NEED_DEVICE(index) *device = index; return result(OK); }
EXPORTED CUresult cuDeviceGetCount(int *count) { CALL_WITHOUT_CONTEXT *count = DEVICES; return result(OK); }
EXPORTED CUresult cuDeviceGetName(char *out, int size, CUdevice device) { NEED_DEVICE(device) name_of(out, size, device); return result(OK); }
EXPORTED CUresult cuDeviceGetUuid(CUuuid *out, CUdevice device) { NEED_DEVICE(device) uuid_of(out->bytes, device); return result(OK); }
EXPORTED CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) { NEED_DEVICE(device) *bytes = machine().memory; return result(OK); }
EXPORTED CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) { CALL_WITHOUT_CONTEXT NEED_DEVICE(device) *value = attribute_of(which, device); return result(OK); }
EXPORTED CUresult cuDeviceGetPCIBusId(char *out, int size, CUdevice device) { NEED_DEVICE(device) bus_of(out, size, device); return result(OK); }
EXPORTED CUresult cuDeviceCanAccessPeer(int *can, CUdevice from, CUdevice to) { NEED_DEVICE(from) NEED_DEVICE(to) *can = from != to; return result(OK); }
EXPORTED CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { NEED_DEVICE(device) *pool = (CUmemoryPool)&machine().pools[device]; return result(OK); }

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CALL_WITHOUT_CONTEXT
    NEED_DEVICE(device)
    machine().retained[device]++;
    machine().active[device] = true;
    *out = &machine().primary[device];
    return result(OK);
}

EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CALL_WITHOUT_CONTEXT
    NEED_DEVICE(device)
    if (--machine().retained[device] < 0)
        violation("the primary context of device %d is released more often than retained", device);
    return result(OK);
}

EXPORTED CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CALL_WITHOUT_CONTEXT
    NEED_DEVICE(device)
    if (flags) *flags = 0;
    *active = machine().active[device];
    return result(OK);
}

EXPORTED CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned) { NEED_DEVICE(device) return result(OK); }

// The contexts below the current one, for cuCtxPushCurrent.
static thread_local std::vector<CUcontext> below;

EXPORTED CUresult cuCtxGetCurrent(CUcontext *out) { CALL_WITHOUT_CONTEXT *out = current; return result(OK); }
EXPORTED CUresult cuCtxSetCurrent(CUcontext context) { CALL_WITHOUT_CONTEXT current = context; return result(OK); }

EXPORTED CUresult cuCtxPushCurrent(CUcontext context)
{
    CALL_WITHOUT_CONTEXT
    below.push_back(current);
    current = context;
    return result(OK);
}

EXPORTED CUresult cuCtxPopCurrent(CUcontext *out)
{
    CALL_WITHOUT_CONTEXT
    if (below.empty()) return result(NO_CONTEXT);
    if (out) *out = current;
    current = below.back();
    below.pop_back();
    return result(OK);
}

EXPORTED CUresult cuCtxGetDevice(CUdevice *device) { CALL *device = current->device; return result(OK); }
EXPORTED CUresult cuCtxSynchronize() { CALL wait_for_device(current->device); return result(OK); }
EXPORTED CUresult cuCtxGetFlags(unsigned *flags) { *flags = 0; return result(OK); }
EXPORTED CUresult cuCtxGetApiVersion(CUcontext, unsigned *version) { *version = 3020; return result(OK); }
EXPORTED CUresult cuCtxGetLimit(size_t *value, CUlimit) { *value = 1024; return result(OK); }
EXPORTED CUresult cuCtxSetLimit(CUlimit, size_t) { return result(OK); }
EXPORTED CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return result(OK); }
EXPORTED CUresult cuGetErrorName(CUresult error, const char **out) { *out = simulated_error_name(error); return result(OK); }
EXPORTED CUresult cuGetErrorString(CUresult error, const char **out) { *out = simulated_error_text(error); return result(OK); }

EXPORTED CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return result(OK);
}

// ---- streams and events

EXPORTED CUresult cuStreamCreate(CUstream *out, unsigned flags) { CALL *out = new_stream(current->device, flags, 0); return result(OK); }
EXPORTED CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) { CALL *out = new_stream(current->device, flags, priority); return result(OK); }
EXPORTED CUresult cuStreamDestroy(CUstream handle) { CALL_WITHOUT_CONTEXT return result(destroy_stream(handle)); }
EXPORTED CUresult cuStreamSynchronize(CUstream handle) { CALL NEED_STREAM(handle) wait_for(stream); return result(OK); }
EXPORTED CUresult cuStreamQuery(CUstream handle) { CALL return result(query(stream_of(handle, current_device()))); }
EXPORTED CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) { CALL return result(stream_waits(handle, event)); }
EXPORTED CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) { CALL NEED_STREAM(handle) *out = &machine().primary[stream->device]; return result(OK); }
EXPORTED CUresult cuStreamGetPriority(CUstream handle, int *out) { CALL NEED_STREAM(handle) *out = stream->priority; return result(OK); }
EXPORTED CUresult cuStreamGetFlags(CUstream handle, unsigned *out) { CALL NEED_STREAM(handle) *out = stream->non_blocking; return result(OK); }
EXPORTED CUresult cuStreamGetId(CUstream handle, unsigned long long *out) { CALL NEED_STREAM(handle) *out = stream->id; return result(OK); }

EXPORTED CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CALL
    bool is = machine().capturing && (CUstream_st *)handle == machine().capturing;
    *status = is ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return result(OK);
}

EXPORTED CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    std::swap(*mode, capture_mode);
    return result(OK);
}

EXPORTED CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *data, unsigned)
{
    CALL
    NEED_STREAM(handle)
    put("a callback", stream, {}, [=] { function(handle, CUDA_SUCCESS, data); }, By::HOST);
    return result(OK);
}

EXPORTED CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
    CALL
    NEED_STREAM(handle)
    put("a host function", stream, {}, [=] { function(data); }, By::HOST);
    return result(OK);
}

EXPORTED CUresult cuEventCreate(CUevent *out, unsigned flags) { CALL *out = new CUevent_st{current_device(), flags, false, false, {}, 0}; return result(OK); }
EXPORTED CUresult cuEventDestroy(CUevent event) { CALL_WITHOUT_CONTEXT delete event; return result(OK); }
EXPORTED CUresult cuEventRecord(CUevent event, CUstream stream) { CALL return result(record(event, stream)); }
EXPORTED CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) { CALL return result(record(event, stream)); }
EXPORTED CUresult cuEventQuery(CUevent event) { CALL_WITHOUT_CONTEXT return result(query(event)); }
EXPORTED CUresult cuEventSynchronize(CUevent event) { CALL_WITHOUT_CONTEXT return result(wait_for(event)); }
EXPORTED CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) { return result(cudaEventElapsedTime(milliseconds, start, end)); }

// ---- memory

EXPORTED CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    CALL
    if (!bytes) return result(BAD_VALUE);
    return result(allocate(current_device(), bytes, (Address *)out));
}

EXPORTED CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CALL
    if (!bytes) return result(BAD_VALUE);
    return result(allocate_in_order(current_device(), bytes, stream, (Address *)out));
}

EXPORTED CUresult cuMemFree(CUdeviceptr address) { CALL return result(free_memory(address)); }
EXPORTED CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) { CALL return result(free_in_order(address, stream)); }
EXPORTED CUresult cuMemAllocHost(void **out, size_t bytes) { CALL return result(allocate_host(out, bytes, Kind::PINNED)); }
EXPORTED CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned) { CALL return result(allocate_host(out, bytes, Kind::PINNED)); }
EXPORTED CUresult cuMemFreeHost(void *address) { CALL return result(free_host(address)); }
EXPORTED CUresult cuMemHostRegister(void *address, size_t bytes, unsigned) { CALL return result(register_host(address, bytes)); }
EXPORTED CUresult cuMemHostUnregister(void *address) { CALL return result(unregister_host(address)); }
EXPORTED CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *host, unsigned) { *out = (CUdeviceptr)host; return result(OK); }

EXPORTED CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    CALL
    *total = machine().memory;
    *available = machine().memory - machine().used[current_device()];
    return result(OK);
}

EXPORTED CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { CALL return result(copy((void *)to, (void *)from, bytes, nullptr, false)); }
EXPORTED CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { CALL return result(copy((void *)to, (void *)from, bytes, stream, true)); }
EXPORTED CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) { CALL return result(copy((void *)to, from, bytes, nullptr, false)); }
EXPORTED CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) { CALL return result(copy(to, (void *)from, bytes, nullptr, false)); }
EXPORTED CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { CALL return result(copy((void *)to, (void *)from, bytes, nullptr, false)); }
EXPORTED CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) { CALL return result(copy((void *)to, from, bytes, stream, true)); }
EXPORTED CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) { CALL return result(copy(to, (void *)from, bytes, stream, true)); }
EXPORTED CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) { CALL return result(copy((void *)to, (void *)from, bytes, stream, true)); }
EXPORTED CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) { CALL return result(copy((void *)to, (void *)from, bytes, nullptr, false)); }
EXPORTED CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) { CALL return result(copy((void *)to, (void *)from, bytes, stream, true)); }
EXPORTED CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { CALL return result(fill((void *)to, 1, value, count, nullptr)); }
EXPORTED CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) { CALL return result(fill((void *)to, 4, value, count, nullptr)); }
EXPORTED CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) { CALL return result(fill((void *)to, 1, value, count, stream)); }
EXPORTED CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) { CALL return result(fill((void *)to, 2, value, count, stream)); }
EXPORTED CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) { CALL return result(fill((void *)to, 4, value, count, stream)); }

// Memory that is mapped to reserved addresses, as PyTorch's expandable segments do. Every device may use it.
EXPORTED CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) { *out = GRANULARITY; return result(OK); }
EXPORTED CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long) { CALL_WITHOUT_CONTEXT return result(reserve(bytes, alignment, (Address *)out)); }
EXPORTED CUresult cuMemAddressFree(CUdeviceptr start, size_t bytes) { CALL_WITHOUT_CONTEXT return result(free_reserved(start, bytes)); }

EXPORTED CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *of, unsigned long long)
{
    CALL_WITHOUT_CONTEXT
    if (of->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return result(refuse("memory of cuMemCreate on the host"));
    NEED_DEVICE(of->location.id)
    return result(create(of->location.id, bytes, (Physical **)out));
}

EXPORTED CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { CALL_WITHOUT_CONTEXT return result(release((Physical *)handle)); }

EXPORTED CUresult cuMemMap(CUdeviceptr start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long)
{
    CALL_WITHOUT_CONTEXT
    return result(offset ? refuse("a part of the memory of cuMemCreate") : map(start, bytes, (Physical *)handle));
}

EXPORTED CUresult cuMemUnmap(CUdeviceptr start, size_t bytes) { CALL_WITHOUT_CONTEXT return result(unmap(start, bytes)); }
EXPORTED CUresult cuMemSetAccess(CUdeviceptr start, size_t, const CUmemAccessDesc *, size_t) { CALL_WITHOUT_CONTEXT return result(block_of(start) ? OK : BAD_VALUE); }

EXPORTED CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    CALL
    Block *block = block_of(address);
    if (!block) return result(NOT_FOUND);
    if (start) *start = block->start;
    if (bytes) *bytes = block->bytes;
    return result(OK);
}

EXPORTED CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
    CALL_WITHOUT_CONTEXT
    Block *block = block_of(address);
    if (!block) return result(BAD_VALUE);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = &machine().primary[block->device];
        return result(OK);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = block->is_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = address;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!block->is_host()) return result(BAD_VALUE);
        *(CUdeviceptr *)out = address;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = block->start;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)out = block->kind == Kind::MANAGED;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = block->device;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = block->bytes;
        return result(OK);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)out = 1;
        return result(OK);
    default:
        return result(BAD_VALUE);
    }
}

// An attribute that an address does not have is zero.
EXPORTED CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr address)
{
    // The sizes of the attributes, by their numbers.
    static const size_t sizes[] = {0, 8, 4, 8, 8, 16, 4, 8, 4, 4, 4, 8, 8, 4, 4, 4, 4, 8, 8, 8, 4};
    for (unsigned i = 0; i < count; i++) {
        bool known = cuPointerGetAttribute(out[i], attributes[i], address) == CUDA_SUCCESS;
        if (!known && (size_t)attributes[i] < sizeof sizes / sizeof *sizes) memset(out[i], 0, sizes[attributes[i]]);
    }
    return result(OK);
}

// ---- modules and kernels. The images are shared objects that the stand-in for NVRTC has made: a prefix and a path.

static const char PREFIX[] = "simulated:";
static constexpr size_t MOST_ARGUMENTS = 256;
using See = void (*)(void *, const void *, size_t, int);

struct Kernel {
    std::string name;
    void (*run)(void **arguments, const unsigned *grid, const unsigned *block);
    // Copies the arguments, and names the memory that they point to. The caller frees the result.
    char *(*keep)(void **arguments, void **kept, See see, void *data);
};

EXPORTED CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CALL
    if (memcmp(image, PREFIX, sizeof PREFIX - 1)) return result(refuse("a module of machine code"));
    void *library = dlopen((const char *)image + sizeof PREFIX - 1, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "simulated CUDA: %s\n", dlerror());
        return result(BAD_IMAGE);
    }
    *module = (CUmodule)library;
    return result(OK);
}

EXPORTED CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **) { return cuModuleLoadData(module, image); }
EXPORTED CUresult cuModuleUnload(CUmodule) { return result(OK); } // a pending launch may still need it

EXPORTED CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    CALL
    void *run = dlsym(module, (std::string("simulated_run_") + name).c_str());
    void *keep = dlsym(module, (std::string("simulated_keep_") + name).c_str());
    if (!run || !keep) return result(NOT_FOUND);
    *out = (CUfunction) new Kernel{name, (decltype(Kernel::run))run, (decltype(Kernel::keep))keep};
    return result(OK);
}

EXPORTED CUresult cuModuleGetGlobal(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
    CALL
    void *found = dlsym(module, name);
    if (!found) return result(NOT_FOUND);
    if (out) *out = (CUdeviceptr)found;
    if (bytes) *bytes = 0;
    return result(OK);
}

EXPORTED CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return result(OK);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        return result(OK);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = 90;
        return result(OK);
    default:
        *value = 0;
        return result(OK);
    }
}

EXPORTED CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return result(OK); }
EXPORTED CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return result(OK); }
EXPORTED CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int, size_t) { *n = 2; return result(OK); }

EXPORTED CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction, CUoccupancyB2DSize, size_t, int)
{
    *grid = 132;
    *block = 256;
    return result(OK);
}

EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned, CUstream handle, void **arguments, void **)
{
    CALL
    NEED_STREAM(handle)
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return result(BAD_VALUE);
    struct Launch {
        unsigned grid[3], block[3];
        void *arguments[MOST_ARGUMENTS];
        char *memory = nullptr;
        ~Launch() { free(memory); }
    };
    auto kernel = (Kernel *)function;
    auto launch = std::make_shared<Launch>();
    launch->grid[0] = gx, launch->grid[1] = gy, launch->grid[2] = gz;
    launch->block[0] = bx, launch->block[1] = by, launch->block[2] = bz;
    std::vector<Range> ranges;
    See see = [](void *data, const void *start, size_t bytes, int writes) {
        if (on_device((Address)start))
            ((std::vector<Range> *)data)->push_back({(Address)start, (Address)start + bytes, writes != 0});
    };
    launch->memory = kernel->keep(arguments, launch->arguments, see, &ranges);
    put(kernel->name, stream, ranges, [=] { kernel->run(launch->arguments, launch->grid, launch->block); });
    return result(OK);
}

// ---- the way to the functions

void *driver_function(const char *name, unsigned version)
{
    static void *self = [] {
        Dl_info info;
        dladdr((void *)&driver_function, &info);
        return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    for (const char *suffix : {"_v4", "_v3", "_v2", ""}) {
        // Before CUDA 13, the newest versions were not what a name without one meant.
        if (version < 13000 && (!strcmp(suffix, "_v4") || !strcmp(suffix, "_v3"))) continue;
        if (void *found = dlsym(self, (std::string(name) + suffix).c_str())) return found;
    }
    return nullptr;
}

EXPORTED CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t,
                                   CUdriverProcAddressQueryResult *status)
{
    *out = driver_function(name, version);
    if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return result(*out ? OK : NOT_FOUND);
}
