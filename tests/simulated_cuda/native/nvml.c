/* A stand-in for NVIDIA's management library: what PyTorch and XLA ask of it about the two simulated devices. */
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DEVICES = 2 };

struct device { unsigned index; };
static struct device devices[DEVICES] = {{0}, {1}};

EXPORTED int nvmlInit_v2(void) { return SUCCESS; }
EXPORTED int nvmlInit(void) { return SUCCESS; }
EXPORTED int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
EXPORTED int nvmlShutdown(void) { return SUCCESS; }
EXPORTED int nvmlDeviceGetCount_v2(unsigned *count) { *count = DEVICES; return SUCCESS; }

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out)
{
    if (index >= DEVICES) return INVALID_ARGUMENT;
    *out = &devices[index];
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetHandleByIndex(unsigned index, struct device **out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct device **out)
{
    *out = &devices[strstr(bus, ":02:") != NULL];
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetHandleByPciBusId(const char *bus, struct device **out)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus, out);
}

EXPORTED int nvmlDeviceGetName(struct device *device, char *out, unsigned size)
{
    snprintf(out, size, "Simulated GPU (host memory)");
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetUUID(struct device *device, char *out, unsigned size)
{
    snprintf(out, size, "GPU-00000000-0000-0000-0000-00000000000%u", device->index);
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out)
{
    *out = &devices[uuid[strlen(uuid) - 1] == '1'];
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetIndex(struct device *device, unsigned *out) { *out = device->index; return SUCCESS; }
EXPORTED int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "580.00"); return SUCCESS; }
EXPORTED int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13020; return SUCCESS; }
EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13020; return SUCCESS; }

struct memory { unsigned long long total, free, used; };

EXPORTED int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *out)
{
    (void)device;
    out->total = out->free = 1ull << 30;
    out->used = 0;
    return SUCCESS;
}

EXPORTED int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

EXPORTED const char *nvmlErrorString(int error)
{
    return error == SUCCESS ? "success" : "not supported by the simulated CUDA";
}

/* XLA does without these. */
#define REFUSED(name) EXPORTED int name(void) { return NOT_SUPPORTED; }
REFUSED(nvmlDeviceGetClockInfo)
REFUSED(nvmlDeviceGetComputeRunningProcesses)
REFUSED(nvmlDeviceGetComputeRunningProcesses_v2)
REFUSED(nvmlDeviceGetComputeRunningProcesses_v3)
REFUSED(nvmlDeviceGetFieldValues)
REFUSED(nvmlDeviceGetGpuFabricInfo)
REFUSED(nvmlDeviceGetGpuFabricInfoV)
REFUSED(nvmlDeviceGetMaxClockInfo)
REFUSED(nvmlDeviceGetMemoryBusWidth)
REFUSED(nvmlDeviceGetMigMode)
REFUSED(nvmlDeviceGetNvLinkCapability)
REFUSED(nvmlDeviceGetNvLinkRemoteDeviceType)
REFUSED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
REFUSED(nvmlDeviceGetNvLinkState)
REFUSED(nvmlDeviceGetNvLinkVersion)
REFUSED(nvmlDeviceGetP2PStatus)
REFUSED(nvmlDeviceGetPciInfo_v3)
REFUSED(nvmlDeviceGetPlatformInfo)
REFUSED(nvmlDeviceGetPowerUsage)
REFUSED(nvmlDeviceGetTemperature)
REFUSED(nvmlDeviceGetUtilizationRates)
