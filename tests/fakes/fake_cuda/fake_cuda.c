/* A fake of CUDA's driver and compiler. "Device memory" is host memory, calls are executed immediately,
   and kernels are compiled for the host.

   It checks control flow: which calls are made, with which arguments, on which stream, in which order,
   and what happens when one fails. It does not show that anything works on a device. The functions have
   the names of the real libraries. Those whose names begin with fake_ are for the tests. */
#include "cuda_on_host.h"
#include SOBEL

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

static char calls[1 << 16];
static size_t length;
static __thread int bound;
static uintptr_t next_stream = 0x5000, next_event = 0xe000;
static long allocated;
static char failing[64];
static int failure, failures;

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (length < sizeof calls)
        length += vsnprintf(calls + length, sizeof calls - length, format, arguments);
    va_end(arguments);
}

/* Makes the next calls of a driver function fail. */
void fake_fail(const char *name, int code, int times)
{
    snprintf(failing, sizeof failing, "%s", name);
    failure = code;
    failures = times;
}

/* The calls since the last time, one per line. */
const char *fake_calls(void)
{
    static char answer[sizeof calls];
    memcpy(answer, calls, sizeof calls);
    length = 0;
    calls[0] = 0;
    return answer;
}

/* The number of blocks that are allocated and not freed. */
long fake_allocated(void)
{
    return allocated;
}

/* The device whose context is current on this thread, or -1. */
int fake_current(void)
{
    return bound ? bound - 0xc0 : -1;
}

/* Makes a device's context current, as a framework does. */
void fake_make_current(int device)
{
    bound = 0xc0 + device;
}

static int fails(const char *name)
{
    if (failures > 0 && !strcmp(name, failing)) {
        failures--;
        return failure;
    }
    return SUCCESS;
}

#define DONE(name)                                                                                 \
    do {                                                                                           \
        int failed = fails(name);                                                                  \
        if (failed)                                                                                \
            return failed;                                                                         \
    } while (0)

int cuInit(unsigned flags) { return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < 2 ? SUCCESS : 101; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 1; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(uintptr_t)(0xc0 + device);
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuCtxGetCurrent(void **context)
{
    *context = bound ? (void *)(uintptr_t)bound : NULL;
    return SUCCESS;
}
int cuCtxSetCurrent(void *context) { bound = (int)(uintptr_t)context; return SUCCESS; }
int cuCtxSynchronize(void) { say("synchronize device %d\n", bound - 0xc0); return SUCCESS; }
int cuGetErrorString(int error, const char **text) { *text = "a fake error"; return SUCCESS; }

int cuStreamCreate(void **stream, unsigned flags)
{
    *stream = (void *)(next_stream += 0x10);
    return SUCCESS;
}
int cuStreamSynchronize(void *stream) { say("synchronize %p\n", stream); return SUCCESS; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    DONE("cuStreamWaitEvent");
    say("%p waits for %p\n", stream, event);
    return SUCCESS;
}
int cuEventCreate(void **event, unsigned flags)
{
    *event = (void *)(next_event += 0x10);
    return SUCCESS;
}
int cuEventRecord(void *event, void *stream)
{
    DONE("cuEventRecord");
    say("record %p on %p\n", event, stream);
    return SUCCESS;
}
int cuEventDestroy_v2(void *event) { return SUCCESS; }

int cuMemAllocAsync(uint64_t *memory, size_t bytes, void *stream)
{
    DONE("cuMemAllocAsync");
    if (bytes == 0)
        return INVALID_VALUE;
    void *block = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!block)
        return OUT_OF_MEMORY;
    memset(block, 0xff, bytes);
    allocated++;
    *memory = (uint64_t)(uintptr_t)block;
    say("allocate %zu on %p\n", bytes, stream);
    return SUCCESS;
}
int cuMemFreeAsync(uint64_t memory, void *stream)
{
    free((void *)(uintptr_t)memory);
    allocated--;
    say("free on %p\n", stream);
    return SUCCESS;
}
int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void *stream)
{
    memset((void *)(uintptr_t)memory, value, bytes);
    say("memset %zu on %p\n", bytes, stream);
    return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    say("upload %zu on %p\n", bytes, stream);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    say("copy %zu on %p\n", bytes, stream);
    return SUCCESS;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return SUCCESS;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t memory) { return INVALID_VALUE; }

int cuModuleLoadData(void **module, const void *image) { *module = (void *)0x100; return SUCCESS; }
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = (void *)0x200;
    return strcmp(name, "sobel") ? NOT_FOUND : SUCCESS;
}
int cuModuleUnload(void *module) { return SUCCESS; }
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **arguments, void **extra)
{
    DONE("cuLaunchKernel");
    if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || block_x * block_y * block_z > 1024)
        return INVALID_VALUE;
    struct dim3 grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    LAUNCH(grid, block,
           sobel(*(float **)arguments[0], *(float **)arguments[1], *(long long *)arguments[2],
                 *(long long *)arguments[3], *(long long *)arguments[4],
                 *(long long *)arguments[5]));
    say("launch on %p\n", stream);
    return SUCCESS;
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers,
                       const char **texts, const char **names)
{
    *program = (void *)0x300;
    return strstr(source, "void sobel(") ? SUCCESS : INVALID_VALUE;
}
int nvrtcCompileProgram(void *program, int count, const char **options) { return SUCCESS; }
int nvrtcDestroyProgram(void **program) { return SUCCESS; }
int nvrtcGetPTXSize(void *program, size_t *size) { *size = 1; return SUCCESS; }
int nvrtcGetPTX(void *program, char *ptx) { *ptx = 0; return SUCCESS; }
