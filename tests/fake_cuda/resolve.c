/* cuGetProcAddress, old and new: by name, version and kind of default stream. Some names have an ABI from the future, to be met by mistake. */
#include "fake_cuda.h"

#include <stdlib.h>
#include <string.h>

typedef struct { const char *name; int since, is_per_thread; void *function; const char *symbol; } Variant;
enum { FUTURE = 99000, SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1, VERSION_NOT_SUFFICIENT = 2, FLAG_PER_THREAD = 2 };
#define ELSEWHERE \
    V(cuDeviceGetUuid, 9020, 0, cuDeviceGetUuid) V(cuDeviceTotalMem, 2000, 0, cuDeviceTotalMem) V(cuDeviceTotalMem, 3020, 0, cuDeviceTotalMem_v2) \
    V(cuMemGetInfo, 2000, 0, cuMemGetInfo) V(cuMemGetInfo, 3020, 0, cuMemGetInfo_v2) V(cuMemAlloc, 2000, 0, cuMemAlloc) \
    V(cuMemAlloc, 3020, 0, cuMemAlloc_v2) V(cuMemAllocPitch, 2000, 0, cuMemAllocPitch) V(cuMemAllocPitch, 3020, 0, cuMemAllocPitch_v2) \
    V(cuMemFree, 2000, 0, cuMemFree) V(cuMemFree, 3020, 0, cuMemFree_v2) V(cuMemAllocAsync, 11020, 0, cuMemAllocAsync) \
    V(cuMemAllocAsync, 11020, 1, cuMemAllocAsync_ptsz) V(cuMemAllocFromPoolAsync, 11020, 0, cuMemAllocFromPoolAsync) \
    V(cuMemAllocFromPoolAsync, 11020, 1, cuMemAllocFromPoolAsync_ptsz) V(cuMemFreeAsync, 11020, 0, cuMemFreeAsync) \
    V(cuMemFreeAsync, 11020, 1, cuMemFreeAsync_ptsz) V(cuArrayCreate, 2000, 0, cuArrayCreate) V(cuArrayCreate, 3020, 0, cuArrayCreate_v2) \
    V(cuArray3DCreate, 2000, 0, cuArray3DCreate) V(cuArray3DCreate, 3020, 0, cuArray3DCreate_v2) V(cuCtxCreate, 2000, 0, cuCtxCreate) \
    V(cuCtxCreate, 3020, 0, cuCtxCreate_v2) V(cuCtxCreate, 11040, 0, cuCtxCreate_v3) V(cuCtxCreate, 12050, 0, cuCtxCreate_v4) \
    V(cuCtxDestroy, 2000, 0, cuCtxDestroy) V(cuCtxDestroy, 4000, 0, cuCtxDestroy_v2) V(cuCtxPushCurrent, 4000, 0, cuCtxPushCurrent_v2) \
    V(cuCtxPopCurrent, 4000, 0, cuCtxPopCurrent_v2) V(cuDevicePrimaryCtxRelease, 7000, 0, cuDevicePrimaryCtxRelease) \
    V(cuDevicePrimaryCtxRelease, 11000, 0, cuDevicePrimaryCtxRelease_v2) V(cuDevicePrimaryCtxReset, 7000, 0, cuDevicePrimaryCtxReset) \
    V(cuDevicePrimaryCtxReset, 11000, 0, cuDevicePrimaryCtxReset_v2) V(cuGraphInstantiate, 10000, 0, cuGraphInstantiate) \
    V(cuGraphInstantiate, 11000, 0, cuGraphInstantiate_v2) V(cuGraphInstantiate, 12000, 0, cuGraphInstantiateWithFlags) \
    V(cuMemMapArrayAsync, 11010, 0, cuMemMapArrayAsync) V(cuMemMapArrayAsync, 11010, 1, cuMemMapArrayAsync_ptsz) \
    V(cuGraphInstantiateWithFlags, 11040, 0, cuGraphInstantiateWithFlags) V(cuGraphAddMemFreeNode, 11040, 0, cuGraphAddMemFreeNode) \
    V(cuGraphInstantiateWithParams, 12000, 0, cuGraphInstantiateWithParams) \
    V(cuGraphInstantiateWithParams, 12000, 1, cuGraphInstantiateWithParams_ptsz) V(cuGraphAddNode, 12020, 0, cuGraphAddNode) \
    V(cuGraphLaunch, 10000, 0, cuGraphLaunch) V(cuGraphLaunch, 10000, 1, cuGraphLaunch_ptsz) V(cuGraphUpload, 11010, 0, cuGraphUpload) \
    V(cuGraphUpload, 11010, 1, cuGraphUpload_ptsz) V(cuStreamSynchronize, 2000, 0, cuStreamSynchronize) \
    V(cuStreamSynchronize, 7000, 1, cuStreamSynchronize_ptsz) V(cuStreamIsCapturing, 10000, 0, cuStreamIsCapturing) \
    V(cuStreamIsCapturing, 10000, 1, cuStreamIsCapturing_ptsz) V(cuStreamBeginCapture, 10010, 0, cuStreamBeginCapture_v2) \
    V(cuStreamDestroy, 4000, 0, cuStreamDestroy_v2) V(cuIpcOpenMemHandle, 11000, 0, cuIpcOpenMemHandle_v2) \
    V(cuLaunchKernel, 4000, 0, cuLaunchKernel) V(cuLaunchKernel, 7000, 1, cuLaunchKernel_ptsz) V(cuArrayDestroy, 2000, 0, cuArrayDestroy) \
    V(cuCtxGetCurrent, 2000, 0, cuCtxGetCurrent) V(cuCtxGetDevice, 2000, 0, cuCtxGetDevice) V(cuCtxSetCurrent, 2000, 0, cuCtxSetCurrent) \
    V(cuCtxSetFlags, 2000, 0, cuCtxSetFlags) V(cuCtxSetLimit, 2000, 0, cuCtxSetLimit) V(cuCtxSynchronize, 2000, 0, cuCtxSynchronize) \
    V(cuDeviceGet, 2000, 0, cuDeviceGet) V(cuDeviceGetCount, 2000, 0, cuDeviceGetCount) \
    V(cuDeviceGetDefaultMemPool, 2000, 0, cuDeviceGetDefaultMemPool) V(cuDeviceGetGraphMemAttribute, 2000, 0, cuDeviceGetGraphMemAttribute) \
    V(cuDeviceGetMemPool, 2000, 0, cuDeviceGetMemPool) V(cuDeviceGetName, 2000, 0, cuDeviceGetName) \
    V(cuDeviceGraphMemTrim, 2000, 0, cuDeviceGraphMemTrim) V(cuDevicePrimaryCtxGetState, 2000, 0, cuDevicePrimaryCtxGetState) \
    V(cuDevicePrimaryCtxRetain, 2000, 0, cuDevicePrimaryCtxRetain) V(cuDeviceSetMemPool, 2000, 0, cuDeviceSetMemPool) \
    V(cuDriverGetVersion, 2000, 0, cuDriverGetVersion) V(cuEventSynchronize, 2000, 0, cuEventSynchronize) \
    V(cuGraphAddChildGraphNode, 2000, 0, cuGraphAddChildGraphNode) V(cuGraphAddMemAllocNode, 11040, 0, cuGraphAddMemAllocNode) \
    V(cuGraphChildGraphNodeGetGraph, 2000, 0, cuGraphChildGraphNodeGetGraph) V(cuGraphCreate, 2000, 0, cuGraphCreate) \
    V(cuGraphDestroy, 2000, 0, cuGraphDestroy) V(cuGraphExecDestroy, 2000, 0, cuGraphExecDestroy) V(cuGraphGetNodes, 2000, 0, cuGraphGetNodes) \
    V(cuGraphMemAllocNodeGetParams, 2000, 0, cuGraphMemAllocNodeGetParams) V(cuGraphNodeGetType, 2000, 0, cuGraphNodeGetType) \
    V(cuInit, 2000, 0, cuInit) V(cuIpcCloseMemHandle, 2000, 0, cuIpcCloseMemHandle) V(cuIpcGetMemHandle, 2000, 0, cuIpcGetMemHandle) \
    V(cuMemAddressFree, 2000, 0, cuMemAddressFree) V(cuMemAddressReserve, 2000, 0, cuMemAddressReserve) \
    V(cuMemAllocManaged, 6000, 0, cuMemAllocManaged) V(cuMemCreate, 10020, 0, cuMemCreate) \
    V(cuMemExportToShareableHandle, 2000, 0, cuMemExportToShareableHandle) V(cuMemFreeHost, 2000, 0, cuMemFreeHost) \
    V(cuMemGetAllocationGranularity, 2000, 0, cuMemGetAllocationGranularity) V(cuMemHostAlloc, 2000, 0, cuMemHostAlloc) \
    V(cuMemImportFromShareableHandle, 2000, 0, cuMemImportFromShareableHandle) V(cuMemMap, 2000, 0, cuMemMap) \
    V(cuMemPoolCreate, 11020, 0, cuMemPoolCreate) V(cuMemPoolDestroy, 2000, 0, cuMemPoolDestroy) \
    V(cuMemPoolGetAttribute, 2000, 0, cuMemPoolGetAttribute) V(cuMemPoolSetAttribute, 2000, 0, cuMemPoolSetAttribute) \
    V(cuMemPoolTrimTo, 2000, 0, cuMemPoolTrimTo) V(cuMemRelease, 2000, 0, cuMemRelease) \
    V(cuMemRetainAllocationHandle, 2000, 0, cuMemRetainAllocationHandle) V(cuMemSetAccess, 2000, 0, cuMemSetAccess) \
    V(cuMemUnmap, 2000, 0, cuMemUnmap) V(cuMipmappedArrayCreate, 2000, 0, cuMipmappedArrayCreate) \
    V(cuMipmappedArrayDestroy, 2000, 0, cuMipmappedArrayDestroy) V(cuStreamCreate, 2000, 0, cuStreamCreate) \
    V(cuStreamEndCapture, 2000, 0, cuStreamEndCapture) V(cuStreamGetCtx, 2000, 0, cuStreamGetCtx)
#define LATE \
    V(cuDeviceGetUuid, 11040, 0, cuDeviceGetUuid_v2) V(cuGraphAddNode, 12030, 0, cuGraphAddNode_v2) \
    V(cuGraphAddNode, 13040, 0, cuGraphAddNode_v3) V(cuMemGetDefaultMemPool, 13000, 0, cuMemGetDefaultMemPool) \
    V(cuMemGetMemPool, 13000, 0, cuMemGetMemPool)
#define HERE \
    V(cuMemGetInfo, FUTURE, 0, fake_future_info) V(cuMemAlloc, FUTURE, 0, fake_future_alloc) V(cuGetProcAddress, 11030, 0, cuGetProcAddress) \
    V(cuGetProcAddress, 12000, 0, cuGetProcAddress_v2)
#ifdef FAKE_CUDA_OLD
#undef LATE
#define LATE
#endif

API int fake_future_alloc(Pointer *pointer, size_t bytes, unsigned long long how) { (void)pointer, (void)bytes, (void)how; return NOT_SUPPORTED; }
API int fake_future_info(size_t *left, size_t *total, size_t *more) { (void)left, (void)total, (void)more; return NOT_SUPPORTED; }
API int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags);
API int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status);

/* By address, not by dlsym: a driver knows its own functions, whatever a program has put before them. */
#define V(name, since, is_per_thread, symbol) extern int symbol();
ELSEWHERE LATE
#undef V
static int inner_alloc(Pointer *pointer, size_t bytes) { return cuMemAlloc_v2(pointer, bytes); }
#define V(name, since, is_per_thread, symbol) { #name, since, is_per_thread, (void *)symbol, #symbol },
static const Variant VARIANTS[] = { ELSEWHERE LATE HERE };

static const Variant *best(const char *name, int version, bool is_per_thread)
{
    const Variant *found = NULL;
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        const Variant *variant = &VARIANTS[i];
        bool fits = strcmp(variant->name, name) == 0 && variant->since <= version && (!variant->is_per_thread || is_per_thread);
        if (fits && (found == NULL || variant->since > found->since || (variant->since == found->since && variant->is_per_thread)))
            found = variant;
    }
    return found;
}

static bool is_known(const char *name)
{
    return best(name, FUTURE, true) != NULL;
}

static int resolve(const char *name, void **function, int version, unsigned long long flags, int *status)
{
    int driver = (int)setting("FAKE_CUDA_VERSION", 13040);
    if (name == NULL || function == NULL || flags > 3)
        return INVALID_VALUE;
    const Variant *variant = best(name, version < driver ? version : driver, (flags & FLAG_PER_THREAD) != 0);
    *function = variant == NULL ? NULL : variant->function;
    if (*function == (void *)cuMemAlloc_v2 && getenv("FAKE_CUDA_INNER") != NULL)
        *function = (void *)inner_alloc; /* a driver may well hand out another address than its symbol has */
    if (status != NULL)
        *status = variant != NULL ? SYMBOL_FOUND : is_known(name) ? VERSION_NOT_SUFFICIENT : SYMBOL_NOT_FOUND;
    note("resolve %s %d %llu -> %s", name, version, flags, variant == NULL ? "nothing" : variant->symbol);
    return variant != NULL || status != NULL ? OK : NOT_FOUND;
}

API int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) { return resolve(name, function, version, flags, NULL); }
API int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status)
{
    return resolve(name, function, version, flags, status);
}
API int cuGetExportTable(const void **table, const void *id) { (void)id; *table = NULL; return NOT_FOUND; }
API int cuGetErrorName(int code, const char **name) { *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == OK ? "CUDA_SUCCESS" : "CUDA_ERROR"; return OK; }
API int cuGetErrorString(int code, const char **words) { *words = code == OUT_OF_MEMORY ? "out of memory" : "told by the fake"; return OK; }
