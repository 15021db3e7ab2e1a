/* Every function of the driver and of NVML that we know, once.
   HOOK(symbol, base, since, kind): we stand before it. `base` and `since` are how cuGetProcAddress finds it: the name without suffix and the
   version (11020 is CUDA 11.2) whose ABI it is. Kind TAKES may hand out memory: an ABI of it that we do not know is refused.
   USED(symbol): we only call it. The two lists of NVML are alike. */
#define CUDA_HOOKS(HOOK) \
    HOOK(cuInit, cuInit, 2000, PLAIN_CALL) \
    HOOK(cuGetProcAddress, cuGetProcAddress, 11030, TAKES) \
    HOOK(cuGetProcAddress_v2, cuGetProcAddress, 12000, TAKES) \
    HOOK(cuMemAlloc, cuMemAlloc, 2000, TAKES) \
    HOOK(cuMemAlloc_v2, cuMemAlloc, 3020, TAKES) \
    HOOK(cuMemAllocPitch, cuMemAllocPitch, 2000, TAKES) \
    HOOK(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, TAKES) \
    HOOK(cuMemAllocManaged, cuMemAllocManaged, 6000, TAKES) \
    HOOK(cuMemFree, cuMemFree, 2000, PLAIN_CALL) \
    HOOK(cuMemFree_v2, cuMemFree, 3020, PLAIN_CALL) \
    HOOK(cuMemAllocAsync, cuMemAllocAsync, 11020, TAKES) \
    HOOK(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, TAKES | PER_THREAD) \
    HOOK(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, TAKES) \
    HOOK(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, TAKES | PER_THREAD) \
    HOOK(cuMemFreeAsync, cuMemFreeAsync, 11020, PLAIN_CALL) \
    HOOK(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, PER_THREAD) \
    HOOK(cuMemPoolCreate, cuMemPoolCreate, 11020, TAKES) \
    HOOK(cuMemPoolDestroy, cuMemPoolDestroy, 11020, PLAIN_CALL) \
    HOOK(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, PLAIN_CALL) \
    HOOK(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, TAKES) \
    HOOK(cuMemGetMemPool, cuMemGetMemPool, 13000, TAKES) \
    HOOK(cuCtxSynchronize, cuCtxSynchronize, 2000, PLAIN_CALL) \
    HOOK(cuStreamSynchronize, cuStreamSynchronize, 2000, PLAIN_CALL) \
    HOOK(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, PER_THREAD) \
    HOOK(cuEventSynchronize, cuEventSynchronize, 2000, PLAIN_CALL) \
    HOOK(cuMemCreate, cuMemCreate, 10020, TAKES) \
    HOOK(cuMemRelease, cuMemRelease, 10020, PLAIN_CALL) \
    HOOK(cuMemMap, cuMemMap, 10020, PLAIN_CALL) \
    HOOK(cuMemUnmap, cuMemUnmap, 10020, PLAIN_CALL) \
    HOOK(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, PLAIN_CALL) \
    HOOK(cuMemMapArrayAsync, cuMemMapArrayAsync, 11010, PLAIN_CALL) \
    HOOK(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, 11010, PER_THREAD) \
    HOOK(cuArrayCreate, cuArrayCreate, 2000, TAKES) \
    HOOK(cuArrayCreate_v2, cuArrayCreate, 3020, TAKES) \
    HOOK(cuArray3DCreate, cuArray3DCreate, 2000, TAKES) \
    HOOK(cuArray3DCreate_v2, cuArray3DCreate, 3020, TAKES) \
    HOOK(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, TAKES) \
    HOOK(cuArrayDestroy, cuArrayDestroy, 2000, PLAIN_CALL) \
    HOOK(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, PLAIN_CALL) \
    HOOK(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, TAKES) \
    HOOK(cuGraphAddNode, cuGraphAddNode, 12020, TAKES) \
    HOOK(cuGraphAddNode_v2, cuGraphAddNode, 12030, TAKES) \
    HOOK(cuGraphAddNode_v3, cuGraphAddNode, 13040, TAKES) \
    HOOK(cuGraphInstantiate, cuGraphInstantiate, 10000, TAKES) \
    HOOK(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, TAKES) \
    HOOK(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, TAKES) \
    HOOK(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, TAKES) \
    HOOK(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, 12000, TAKES | PER_THREAD) \
    HOOK(cuGraphLaunch, cuGraphLaunch, 10000, TAKES) \
    HOOK(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, TAKES | PER_THREAD) \
    HOOK(cuGraphUpload, cuGraphUpload, 11010, TAKES) \
    HOOK(cuGraphUpload_ptsz, cuGraphUpload, 11010, TAKES | PER_THREAD) \
    HOOK(cuGraphExecDestroy, cuGraphExecDestroy, 10000, PLAIN_CALL) \
    HOOK(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, PLAIN_CALL) \
    HOOK(cuCtxCreate, cuCtxCreate, 2000, TAKES) \
    HOOK(cuCtxCreate_v2, cuCtxCreate, 3020, TAKES) \
    HOOK(cuCtxCreate_v3, cuCtxCreate, 11040, TAKES) \
    HOOK(cuCtxCreate_v4, cuCtxCreate, 12050, TAKES) \
    HOOK(cuCtxDestroy, cuCtxDestroy, 2000, PLAIN_CALL) \
    HOOK(cuCtxDestroy_v2, cuCtxDestroy, 4000, PLAIN_CALL) \
    HOOK(cuCtxSetLimit, cuCtxSetLimit, 3010, TAKES) \
    HOOK(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, TAKES) \
    HOOK(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, PLAIN_CALL) \
    HOOK(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, PLAIN_CALL) \
    HOOK(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, PLAIN_CALL) \
    HOOK(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, PLAIN_CALL) \
    HOOK(cuMemGetInfo, cuMemGetInfo, 2000, PLAIN_CALL) \
    HOOK(cuMemGetInfo_v2, cuMemGetInfo, 3020, PLAIN_CALL) \
    HOOK(cuDeviceTotalMem, cuDeviceTotalMem, 2000, PLAIN_CALL) \
    HOOK(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, PLAIN_CALL)

#define CUDA_USED(USED) \
    USED(cuCtxGetDevice) USED(cuCtxGetCurrent) USED(cuDeviceGetCount) USED(cuDeviceGetUuid) USED(cuDeviceGetUuid_v2) \
    USED(cuDevicePrimaryCtxGetState) USED(cuDeviceGetMemPool) USED(cuDeviceGetDefaultMemPool) USED(cuMemPoolGetAttribute) \
    USED(cuStreamGetCtx) USED(cuStreamIsCapturing) USED(cuStreamIsCapturing_ptsz) USED(cuDeviceGetGraphMemAttribute) \
    USED(cuGraphGetNodes) USED(cuGraphNodeGetType) USED(cuGraphMemAllocNodeGetParams) USED(cuGraphChildGraphNodeGetGraph)

#define NVML_HOOKS(HOOK) \
    HOOK(nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo, 0, PLAIN_CALL) \
    HOOK(nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo_v2, 0, PLAIN_CALL)

#define NVML_USED(USED) USED(nvmlDeviceGetUUID)
