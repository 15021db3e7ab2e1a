/* Hooks of contexts. The first one of a process on a GPU takes memory that no allocating call shows: it is charged what the limits file says,
   until the last one is gone. With a context goes all that was allocated in it. And its heap for kernels that allocate is memory too. */
#include "share.h"

enum { FREE_HEAP = 8 << 20 }; /* bytes: what every context has anyway, within what it is charged */

static bool open_context(struct process *process, int gpu) {
    if (gpu == NOT_OURS)
        return false;
    lock(&process->lock);
    bool fits = process->contexts[gpu] > 0 || charge(process, gpu, process->limits.gpus[gpu].context_bytes);
    process->contexts[gpu] += fits;
    unlock(&process->lock);
    return fits;
}

/* With the process locked, as all that follow. */
static void close_context(struct process *process, int gpu) {
    if (process->contexts[gpu] > 0 && --process->contexts[gpu] == 0)
        give_back(process, gpu, process->limits.gpus[gpu].context_bytes);
}

static void forget_all_in(struct process *process, Context context) {
    for (size_t i = 0; i < process->lives.room; i++) {
        struct live live = process->lives.all[i];
        bool is_in_it = live.owner == (uint64_t)context && (live.kind == LIVE_MEMORY || live.kind == LIVE_ARRAY || live.kind == LIVE_HEAP);
        if (!is_in_it)
            continue;
        give_back(process, live.gpu, live.bytes);
        live_drop(&process->lives, &process->lives.all[i]);
        i--; /* another may have moved here; one that came round the end is met on the caller's second round */
    }
}

static void forget_context(struct process *process, Context context, int gpu, Device device) {
    forget_all_in(process, context);
    forget_all_in(process, context);
    pools_settle(process);
    graphs_settle(process, device);
    close_context(process, gpu);
}

static Result created(struct process *process, int gpu, Device device, Context *context, Result result) {
    lock(&process->lock);
    if (result != 0)
        close_context(process, gpu);
    else {
        struct live *live = live_add(&process->lives, LIVE_CONTEXT, (uint64_t)*context, 0, 0);
        if (live != NULL) {
            live->gpu = (int16_t)gpu;
            live->device = (int16_t)device;
        }
    }
    unlock(&process->lock);
    return result;
}

/* The same but for what stands between the context and the device. */
#define CREATE(symbol, types, values) \
    typedef Result(*Driver) types; \
    Driver driver = REAL(Driver, symbol); \
    struct process *process = here(); \
    if (driver == NULL) \
        return CUDA_NOT_INITIALIZED; \
    int gpu = gpu_of(process, device); \
    if (!open_context(process, gpu)) \
        return refusal_of(device); \
    return created(process, gpu, device, context, driver values)

EXPORT Result cuCtxCreate(Context *context, unsigned flags, Device device) {
    CREATE(cuCtxCreate, (Context *, unsigned, Device), (context, flags, device));
}

EXPORT Result cuCtxCreate_v2(Context *context, unsigned flags, Device device) {
    CREATE(cuCtxCreate_v2, (Context *, unsigned, Device), (context, flags, device));
}

EXPORT Result cuCtxCreate_v3(Context *context, void *affinity, int count, unsigned flags, Device device) {
    CREATE(cuCtxCreate_v3, (Context *, void *, int, unsigned, Device), (context, affinity, count, flags, device));
}

EXPORT Result cuCtxCreate_v4(Context *context, void *how, unsigned flags, Device device) {
    CREATE(cuCtxCreate_v4, (Context *, void *, unsigned, Device), (context, how, flags, device));
}

static Result destroy(Result (*driver)(Context), Context context) {
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(context);
    struct live *live = result == 0 ? live_find(&process->lives, LIVE_CONTEXT, (uint64_t)context) : NULL;
    if (live != NULL) {
        int gpu = live->gpu;
        Device device = live->device;
        live_drop(&process->lives, live);
        forget_context(process, context, gpu, device);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuCtxDestroy(Context context) {
    return destroy(REAL(Result(*)(Context), cuCtxDestroy), context);
}

EXPORT Result cuCtxDestroy_v2(Context context) {
    return destroy(REAL(Result(*)(Context), cuCtxDestroy_v2), context);
}

EXPORT Result cuDevicePrimaryCtxRetain(Context *context, Device device) {
    typedef Result (*Driver)(Context *, Device);
    Driver driver = REAL(Driver, cuDevicePrimaryCtxRetain);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    int gpu = gpu_of(process, device);
    if (!open_context(process, gpu))
        return refusal_of(device);
    Result result = driver(context, device);
    lock(&process->lock);
    if (result != 0 || process->primaries[device] != NULL)
        close_context(process, gpu); /* none was made, or it is there already: it counts once */
    if (result == 0)
        process->primaries[device] = *context;
    unlock(&process->lock);
    return result;
}

/* Whether it is gone only the driver knows: it counts who retains it. */
static Result let_go(Result (*driver)(Device), Device device, bool is_reset) {
    Result (*get_state)(Device, unsigned *, int *) = REAL(Result(*)(Device, unsigned *, int *), cuDevicePrimaryCtxGetState);
    struct process *process = here();
    unsigned flags;
    int is_active = 1;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(device);
    bool is_ours = result == 0 && device >= 0 && device < MOST_DEVICES && process->primaries[device] != NULL;
    if (is_ours && !is_reset && get_state != NULL && get_state(device, &flags, &is_active) != 0)
        is_active = 1;
    if (is_ours && (is_reset || !is_active)) {
        Context context = process->primaries[device];
        process->primaries[device] = NULL;
        forget_context(process, context, gpu_of(process, device), device);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuDevicePrimaryCtxRelease(Device device) {
    return let_go(REAL(Result(*)(Device), cuDevicePrimaryCtxRelease), device, false);
}

EXPORT Result cuDevicePrimaryCtxRelease_v2(Device device) {
    return let_go(REAL(Result(*)(Device), cuDevicePrimaryCtxRelease_v2), device, false);
}

EXPORT Result cuDevicePrimaryCtxReset(Device device) {
    return let_go(REAL(Result(*)(Device), cuDevicePrimaryCtxReset), device, true);
}

EXPORT Result cuDevicePrimaryCtxReset_v2(Device device) {
    return let_go(REAL(Result(*)(Device), cuDevicePrimaryCtxReset_v2), device, true);
}

/* The heap's or printf's new size takes the place of the old one. */
static Result resize(Result (*driver)(int, size_t), int limit, size_t value) {
    struct wanted wanted;
    Result result = current_device(&wanted);
    if (result != 0)
        return result;
    struct process *process = wanted.process;
    uint64_t key = (uint64_t)wanted.context + (uint64_t)limit, bytes = value > FREE_HEAP ? value - FREE_HEAP : 0;
    lock(&process->lock);
    struct live *live = live_find(&process->lives, LIVE_HEAP, key);
    uint64_t had = live == NULL ? 0 : live->bytes;
    bool fits = bytes <= had || charge(process, wanted.gpu, bytes - had);
    result = fits ? driver(limit, value) : CUDA_OUT_OF_MEMORY;
    if (result == 0 && live == NULL && (live = live_add(&process->lives, LIVE_HEAP, key, 0, (uint64_t)wanted.context)) != NULL)
        live->gpu = (int16_t)wanted.gpu;
    if (result == 0 && live != NULL)
        live->bytes = bytes;
    if (result == 0 && bytes < had)
        give_back(process, wanted.gpu, had - bytes);
    else if (result != 0 && fits && bytes > had)
        give_back(process, wanted.gpu, bytes - had);
    unlock(&process->lock);
    return result;
}

EXPORT Result cuCtxSetLimit(int limit, size_t value) {
    typedef Result (*Driver)(int, size_t);
    Driver driver = REAL(Driver, cuCtxSetLimit);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    return limit == LIMIT_MALLOC_HEAP || limit == LIMIT_PRINTF_FIFO ? resize(driver, limit, value) : driver(limit, value);
}
