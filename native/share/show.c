/* Hooks of what is shown, and of cuInit: a card is as large as the share, used by what the whole container holds. Nothing here can go below zero. */
#include "share.h"

enum { LONGEST_UUID = 96 };

struct shown {
    uint64_t total, used, free;
};

static struct shown shown(struct process *process, int gpu, uint64_t real_total, uint64_t real_free) {
    uint64_t limit = limit_of(process, gpu), used = 0;
    struct shown seen = {.total = limit < real_total ? limit : real_total};
    if (gpu == NOT_OURS)
        return seen;
    lock(&process->lock);
    pools_settle(process);
    unlock(&process->lock);
    if (!book_used(&process->book, gpu, &used))
        used = limit; /* without a ledger nothing will be granted */
    seen.used = used < seen.total ? used : seen.total;
    seen.free = seen.total - seen.used < real_free ? seen.total - seen.used : real_free;
    return seen;
}

EXPORT Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    typedef Result (*Driver)(size_t *, size_t *);
    Driver driver = REAL(Driver, cuMemGetInfo_v2);
    struct wanted current;
    Result result = driver == NULL ? CUDA_NOT_INITIALIZED : driver(free, total);
    if (result != 0 || free == NULL || total == NULL || (result = current_device(&current)) != 0)
        return result;
    struct shown seen = shown(current.process, current.gpu, *total, *free);
    *free = seen.free;
    *total = seen.total;
    return 0;
}

static unsigned narrow(uint64_t bytes) {
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

EXPORT Result cuMemGetInfo(unsigned *free, unsigned *total) {
    size_t wide_free, wide_total;
    Result result = real(N_cuMemGetInfo) == NULL ? CUDA_NOT_INITIALIZED : cuMemGetInfo_v2(&wide_free, &wide_total);
    if (result == 0) {
        *free = narrow(wide_free);
        *total = narrow(wide_total);
    }
    return result;
}

EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, Device device) {
    typedef Result (*Driver)(size_t *, Device);
    Driver driver = REAL(Driver, cuDeviceTotalMem_v2);
    struct process *process = here();
    Result result = driver == NULL ? CUDA_NOT_INITIALIZED : driver(bytes, device);
    if (result != 0)
        return result;
    uint64_t limit = limit_of(process, gpu_of(process, device));
    *bytes = limit < *bytes ? limit : *bytes;
    return 0;
}

EXPORT Result cuDeviceTotalMem(unsigned *bytes, Device device) {
    size_t wide;
    Result result = real(N_cuDeviceTotalMem) == NULL ? CUDA_NOT_INITIALIZED : cuDeviceTotalMem_v2(&wide, device);
    if (result == 0)
        *bytes = narrow(wide);
    return result;
}

/* False: not one of ours, and so shown as it is; unless nobody knows what is ours. */
static bool nvml_gpu(struct process *process, NvmlDevice device, int *gpu) {
    Result (*get_uuid)(NvmlDevice, char *, unsigned) = REAL(Result(*)(NvmlDevice, char *, unsigned), nvmlDeviceGetUUID);
    char word[LONGEST_UUID];
    uint8_t uuid[UUID_BYTES];
    *gpu = NOT_OURS;
    if (process->limits.state != LIMITS_GOOD)
        return true;
    if (get_uuid != NULL && get_uuid(device, word, sizeof word) == 0 && uuid_of(word, uuid))
        *gpu = gpu_with(process, uuid);
    return *gpu != NOT_OURS;
}

EXPORT Result nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory *memory) {
    typedef Result (*Driver)(NvmlDevice, NvmlMemory *);
    Driver driver = REAL(Driver, nvmlDeviceGetMemoryInfo);
    struct process *process = here();
    int gpu;
    Result result = driver == NULL ? NVML_UNINITIALIZED : driver(device, memory);
    if (result != 0 || !nvml_gpu(process, device, &gpu))
        return result;
    struct shown seen = shown(process, gpu, memory->total, memory->free);
    *memory = (NvmlMemory){.total = seen.total, .free = seen.free, .used = seen.used};
    return 0;
}

EXPORT Result nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemory2 *memory) {
    typedef Result (*Driver)(NvmlDevice, NvmlMemory2 *);
    Driver driver = REAL(Driver, nvmlDeviceGetMemoryInfo_v2);
    struct process *process = here();
    int gpu;
    Result result = driver == NULL ? NVML_UNINITIALIZED : driver(device, memory);
    if (result != 0 || !nvml_gpu(process, device, &gpu))
        return result;
    struct shown seen = shown(process, gpu, memory->total, memory->free);
    *memory = (NvmlMemory2){.version = memory->version, .total = seen.total, .reserved = 0, .free = seen.free, .used = seen.used};
    return 0;
}

EXPORT Result cuInit(unsigned flags) {
    typedef Result (*Driver)(unsigned);
    Driver driver = REAL(Driver, cuInit);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (!mps_prepare(process))
        return CUDA_MPS_CONNECTION_FAILED;
    Result result = driver(flags);
    if (result == 0 && !mps_names_all(process)) {
        process->is_closed = true;
        return CUDA_MPS_CONNECTION_FAILED;
    }
    return result;
}
