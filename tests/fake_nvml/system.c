/* The library, the machine, and how a device is found and named. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct { char bus_id_legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { char bus_id[16]; unsigned domain, bus, device, device_id, subsystem_id, reserved[4]; } PciInfoV2;
typedef struct { unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class; char bus_id[32]; } PciInfoExt;

static const char *const ERRORS[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized", "Not Found",
    "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
    "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires restart",
    "The operating system has blocked the request.", "RM has detected an NVML/RM version mismatch.", "In use by another client",
    "Insufficient Memory", "No data", "The requested vgpu operation is not available on target device, becasue ECC is enabled",
    "Insufficient Resources", "Requested frequency is not supported", "The provided version is invalid/unsupported",
    "The requested functionality has been deprecated", "The system is not ready for the request", "No GPUs were found", "Invalid state",
};

EXPORT const char *nvmlErrorString(int code)
{
    return code >= 0 && (size_t)code < sizeof ERRORS / sizeof *ERRORS ? ERRORS[code] : "Unknown Error";
}

EXPORT int nvmlInit(void) { return start("nvmlInit"); }
EXPORT int nvmlInit_v2(void) { return start("nvmlInit_v2"); }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return start("nvmlInitWithFlags"); }
EXPORT int nvmlShutdown(void) { return stop(); }

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned length) { CALL(); return give_text(call.machine->driver, text, length); }

EXPORT int nvmlSystemGetNVMLVersion(char *text, unsigned length)
{
    CALL();
    char version[WORD_BYTES + 16];
    snprintf(version, sizeof version, "%d.%s", (int)call.machine->cuda / 1000, call.machine->driver);
    return give_text(version, text, length);
}

#define CUDA_VERSION(function) EXPORT int function(int *found) { CALL(); NEED(found); *found = (int)call.machine->cuda; return SUCCESS; }
CUDA_VERSION(nvmlSystemGetCudaDriverVersion)
CUDA_VERSION(nvmlSystemGetCudaDriverVersion_v2)

EXPORT int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    CALL();
    char path[WORD_BYTES], command[1024] = "";
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NOT_FOUND;
    if (fread(command, 1, sizeof command - 1, file) == 0)
        command[0] = '\0';
    fclose(file);
    return give_text(command, name, length);
}

#define COUNT(function) \
    EXPORT int function(unsigned *found) { CALL(); NEED(found); *found = (unsigned)call.machine->gpu_count; return SUCCESS; }
COUNT(nvmlDeviceGetCount)
COUNT(nvmlDeviceGetCount_v2)

static int give_gpu(const char *function, const Gpu *gpu, Handle **found)
{
    int code = gpu_refusal(function, gpu);
    if (code == SUCCESS)
        *found = handle_of(GPU_DEVICE, gpu->uuid, NO_INSTANCE, NO_INSTANCE);
    return code;
}

#define BY_INDEX(function) \
    EXPORT int function(unsigned index, Handle **found) \
    { \
        CALL(); \
        NEED(found); \
        return index < call.machine->gpu_count ? give_gpu(__func__, &call.machine->gpus[index], found) : INVALID_ARGUMENT; \
    }
BY_INDEX(nvmlDeviceGetHandleByIndex)
BY_INDEX(nvmlDeviceGetHandleByIndex_v2)

static int find_by_uuid(const char *function, const Machine *machine, const char *uuid, Handle **found)
{
    for (Gpu *gpu = machine->gpus; gpu < machine->gpus + machine->gpu_count; gpu++) {
        if (!strcmp(gpu->uuid, uuid))
            return give_gpu(function, gpu, found);
        for (size_t i = 0; gpu->mig && i < gpu->instance_count; i++)
            if (gpu->instances[i].ci >= 0 && !strcmp(gpu->instances[i].uuid, uuid)) {
                int code = gpu_refusal(function, gpu);
                if (code == SUCCESS)
                    *found = handle_of(MIG_DEVICE, uuid, NO_INSTANCE, NO_INSTANCE);
                return code;
            }
    }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Handle **found)
{
    CALL();
    NEED(uuid);
    NEED(found);
    return find_by_uuid(__func__, call.machine, uuid, found);
}

static unsigned bus_of(const Gpu *gpu) { return gpu->index + 1; }

#define BY_BUS(function) \
    EXPORT int function(const char *bus_id, Handle **found) \
    { \
        CALL(); \
        NEED(bus_id); \
        NEED(found); \
        unsigned domain, bus, device; \
        if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) \
            return INVALID_ARGUMENT; \
        for (Gpu *gpu = call.machine->gpus; gpu < call.machine->gpus + call.machine->gpu_count; gpu++) \
            if (domain == 0 && device == 0 && bus == bus_of(gpu)) \
                return give_gpu(__func__, gpu, found); \
        return NOT_FOUND; \
    }
BY_BUS(nvmlDeviceGetHandleByPciBusId)
BY_BUS(nvmlDeviceGetHandleByPciBusId_v2)

EXPORT int nvmlDeviceGetPciInfo_v3(Handle *handle, PciInfo *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    *found = (PciInfo){ .bus = bus_of(gpu), .device_id = 0x20B010DE, .subsystem_id = 0x144E10DE };
    snprintf(found->bus_id_legacy, sizeof found->bus_id_legacy, "0000:%02X:00.0", bus_of(gpu));
    snprintf(found->bus_id, sizeof found->bus_id, "00000000:%02X:00.0", bus_of(gpu));
    return SUCCESS;
}

#define OLD_PCI_INFO(function) \
    EXPORT int function(Handle *handle, PciInfoV2 *found) \
    { \
        CALL_ON(handle, WHOLE); \
        NEED(found); \
        *found = (PciInfoV2){ .bus = bus_of(gpu), .device_id = 0x20B010DE, .subsystem_id = 0x144E10DE }; \
        snprintf(found->bus_id, sizeof found->bus_id, "0000:%02X:00.0", bus_of(gpu)); \
        return SUCCESS; \
    }
OLD_PCI_INFO(nvmlDeviceGetPciInfo)
OLD_PCI_INFO(nvmlDeviceGetPciInfo_v2)

EXPORT int nvmlDeviceGetPciInfoExt(Handle *handle, PciInfoExt *found)
{
    CALL_ON(handle, WHOLE);
    NEED(found);
    NEED_VERSION(found->version, PciInfoExt, 1);
    *found = (PciInfoExt){ .version = found->version, .bus = bus_of(gpu), .device_id = 0x20B010DE, .subsystem_id = 0x144E10DE, .base_class = 3, .sub_class = 2 };
    snprintf(found->bus_id, sizeof found->bus_id, "00000000:%02X:00.0", bus_of(gpu));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(Handle *handle, char *text, unsigned length)
{
    CALL_ON(handle, ANY);
    return give_text(call.instance ? call.instance->uuid : gpu->uuid, text, length);
}

EXPORT int nvmlDeviceGetName(Handle *handle, char *text, unsigned length)
{
    CALL_ON(handle, ANY);
    char name[NAME_BYTES + WORD_BYTES + 8];
    snprintf(name, sizeof name, "%s%s%s", gpu->name, call.instance ? " MIG " : "", call.instance ? call.instance->profile : "");
    return give_text(name, text, length);
}

EXPORT int nvmlDeviceGetIndex(Handle *handle, unsigned *found)
{
    CALL_ON(handle, ANY);
    NEED(found);
    *found = call.instance ? (unsigned)call.instance->slot : gpu->index;
    return SUCCESS;
}

#define TEXT(function, text) EXPORT int function(Handle *handle, char *into, unsigned length) { CALL_ON(handle, WHOLE); return give_text(text, into, length); }
TEXT(nvmlDeviceGetVbiosVersion, "92.00.45.00.03")
TEXT(nvmlDeviceGetBoardPartNumber, "692-2G506-0200-000")
TEXT(nvmlDeviceGetInforomImageVersion, "G506.0200.00.04")

EXPORT int nvmlDeviceGetSerial(Handle *handle, char *text, unsigned length)
{
    CALL_ON(handle, WHOLE);
    if (brand(gpu) != BRAND_NVIDIA)
        return NOT_SUPPORTED;
    char serial[WORD_BYTES];
    snprintf(serial, sizeof serial, "13205210%05u", gpu->index);
    return give_text(serial, text, length);
}

int brand(const Gpu *gpu)
{
    if (strcasestr(gpu->name, "GeForce"))
        return BRAND_GEFORCE;
    return strcasestr(gpu->name, "RTX") ? BRAND_NVIDIA_RTX : BRAND_NVIDIA;
}

int can_be_cut(const Gpu *gpu) { return gpu->architecture >= AMPERE && gpu->architecture != ADA && brand(gpu) == BRAND_NVIDIA; }
