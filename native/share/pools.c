/* Hooks of memory pools. What counts is what a pool has reserved: memory freed into it is still this process's until the pool lets go of it.
   An allocation is charged by the most that the pool may grow for it, then the charge is set to what the pools really hold.
   What a synchronisation lets go of is seen there; a process that never synchronises stays charged. */
#include "share.h"

enum { GROWTH = 32 << 20 }; /* bytes: pools grow by whole blocks of this size */
typedef Result (*AllocAsync)(Pointer *, size_t, Stream);
typedef Result (*AllocFromPool)(Pointer *, size_t, Pool, Stream);
typedef Result (*GetAttribute)(Pool, int, void *);

struct request {
    Pointer *pointer;
    size_t bytes;
    Pool pool; /* NULL: the current one of the stream's device */
    Stream stream;
    void *driver;
    Result (*is_capturing)(Stream, int *);
    bool is_new; /* we have not met this pool before */
};

static struct pool *pool_find(struct process *process, Pool pool) {
    for (int i = 0; i < process->pool_count; i++)
        if (process->pools[i].pool == pool)
            return &process->pools[i];
    return NULL;
}

static bool pool_note(struct process *process, Pool pool, int gpu) {
    struct pool *known = pool_find(process, pool);
    if (known == NULL && process->pool_count == MOST_POOLS)
        return false;
    if (known == NULL)
        known = &process->pools[process->pool_count++];
    *known = (struct pool){.pool = pool, .gpu = gpu, .reserved = known->pool == pool ? known->reserved : 0};
    return true;
}

static uint64_t attribute(Pool pool, int which, uint64_t otherwise) {
    GetAttribute get = REAL(GetAttribute, cuMemPoolGetAttribute);
    uint64_t value = 0;
    return get != NULL && get(pool, which, &value) == 0 ? value : otherwise;
}

/* Sets the charge to what is held now, and takes what was charged in advance into account. False: it grew more than may be. */
static bool settle(struct process *process, int gpu, uint64_t advance) {
    uint64_t held = 0, had = added(process->pool_bytes[gpu], advance);
    for (int i = 0; i < process->pool_count; i++)
        if (process->pools[i].gpu == gpu) {
            process->pools[i].reserved = attribute(process->pools[i].pool, POOL_RESERVED_NOW, process->pools[i].reserved);
            held = added(held, process->pools[i].reserved);
        }
    process->pool_bytes[gpu] = held;
    if (held <= had) {
        give_back(process, gpu, had - held);
        return true;
    }
    if (charge(process, gpu, held - had))
        return true;
    book_force(&process->book, gpu, held - had);
    return false;
}

void pools_settle(struct process *process) {
    for (int gpu = 0; gpu < process->limits.count; gpu++)
        if (process->pool_bytes[gpu] > 0)
            (void)settle(process, gpu, 0);
}

void pools_trim(struct process *process, int gpu) {
    Result (*trim)(Pool, size_t) = REAL(Result(*)(Pool, size_t), cuMemPoolTrimTo);
    for (int i = 0; trim != NULL && i < process->pool_count; i++)
        if (process->pools[i].gpu == gpu)
            (void)trim(process->pools[i].pool, 0);
    (void)settle(process, gpu, 0);
}

/* The stream may belong to another device than the current one. */
static Device device_of(struct process *process, Stream stream, const struct wanted *current) {
    Result (*get_context)(Stream, Context *) = REAL(Result(*)(Stream, Context *), cuStreamGetCtx);
    Context context = NULL;
    if ((uintptr_t)stream <= PER_THREAD_STREAM || get_context == NULL || get_context(stream, &context) != 0 || context == current->context)
        return current->device;
    for (Device device = 0; device < MOST_DEVICES; device++)
        if (process->primaries[device] == context)
            return device;
    struct live *live = live_find(&process->lives, LIVE_CONTEXT, (uint64_t)context);
    return live != NULL ? live->device : current->device;
}

static void pool_forget(struct process *process, Pool pool) {
    struct pool *known = pool_find(process, pool);
    if (known != NULL)
        *known = process->pools[--process->pool_count];
}

/* Which pool it is, and on which GPU. A pool that nobody told us of is taken for the current device's. */
static int find_pool(struct process *process, struct request *request, const struct wanted *current) {
    Result (*get_pool)(Pool *, Device) = REAL(Result(*)(Pool *, Device), cuDeviceGetMemPool);
    Device device = device_of(process, request->stream, current);
    Pool pool = request->pool;
    if (pool == NULL && (get_pool == NULL || get_pool(&pool, device) != 0))
        return NOT_OURS;
    struct pool *known = pool_find(process, pool);
    if (known == NULL && !pool_note(process, pool, request->pool == NULL ? gpu_of(process, device) : current->gpu))
        return NOT_OURS;
    request->pool = pool;
    request->is_new = known == NULL;
    return known != NULL ? known->gpu : pool_find(process, pool)->gpu;
}

/* In advance: the whole growth, if it fits, if need be after the pools gave back what they do not use; nothing, if the pool has room already. */
static bool charge_growth(struct process *process, const struct request *request, int gpu, uint64_t *advance) {
    *advance = rounded_up(request->bytes, GROWTH);
    if (charge(process, gpu, *advance))
        return true;
    pools_trim(process, gpu);
    if (charge(process, gpu, *advance))
        return true;
    *advance = 0;
    uint64_t reserved = attribute(request->pool, POOL_RESERVED_NOW, 0), used = attribute(request->pool, POOL_USED_NOW, UINT64_MAX);
    return reserved > used && reserved - used >= request->bytes;
}

/* The pool was more in pieces than it seemed and grew beyond the share: undone. */
static Result undo(struct process *process, const struct request *request, int gpu) {
    Result (*give)(Pointer, Stream) = REAL(Result(*)(Pointer, Stream), cuMemFreeAsync);
    Result (*wait)(Stream) = REAL(Result(*)(Stream), cuStreamSynchronize);
    if (give != NULL)
        (void)give(*request->pointer, request->stream);
    if (wait != NULL)
        (void)wait(request->stream);
    pools_trim(process, gpu);
    return CUDA_OUT_OF_MEMORY;
}

static Result call(const struct request *request, bool is_from_pool) {
    return is_from_pool ? ((AllocFromPool)request->driver)(request->pointer, request->bytes, request->pool, request->stream)
                        : ((AllocAsync)request->driver)(request->pointer, request->bytes, request->stream);
}

static Result alloc_from(struct process *process, struct request *request, const struct wanted *current, bool is_from_pool) {
    uint64_t advance = 0;
    lock(&process->lock);
    int gpu = find_pool(process, request, current);
    bool fits = gpu == ON_HOST || (gpu != NOT_OURS && charge_growth(process, request, gpu, &advance));
    unlock(&process->lock);
    if (!fits)
        return CUDA_OUT_OF_MEMORY;
    Result result = call(request, is_from_pool);
    if (gpu == ON_HOST)
        return result;
    lock(&process->lock);
    if (result != 0 && request->is_new && is_from_pool)
        pool_forget(process, request->pool); /* another process's, it may be: nothing can be had from it */
    bool is_within = settle(process, gpu, advance);
    if (result == 0 && !is_within)
        result = undo(process, request, gpu);
    else if (result == 0) {
        struct live *live = live_add(&process->lives, LIVE_ASYNC, *request->pointer, request->bytes, (uint64_t)request->pool);
        if (live != NULL)
            live->gpu = (int16_t)gpu;
    }
    unlock(&process->lock);
    return result;
}

static Result alloc_async(struct request request, bool is_from_pool) {
    struct wanted current;
    int is_capturing = 0;
    if (request.driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask_here(&current);
    if (result != 0)
        return result;
    if (request.is_capturing != NULL && request.is_capturing(request.stream, &is_capturing) == 0 && is_capturing != 0)
        return graph_alloc_captured(&current, request.bytes) ? call(&request, is_from_pool) : CUDA_OUT_OF_MEMORY;
    return alloc_from(current.process, &request, &current, is_from_pool);
}

#define IS_CAPTURING(suffix) REAL(Result(*)(Stream, int *), cuStreamIsCapturing##suffix)

EXPORT Result cuMemAllocAsync(Pointer *pointer, size_t bytes, Stream stream) {
    return alloc_async((struct request){pointer, bytes, NULL, stream, real(N_cuMemAllocAsync), IS_CAPTURING(), false}, false);
}

EXPORT Result cuMemAllocAsync_ptsz(Pointer *pointer, size_t bytes, Stream stream) {
    return alloc_async((struct request){pointer, bytes, NULL, stream, real(N_cuMemAllocAsync_ptsz), IS_CAPTURING(_ptsz), false}, false);
}

EXPORT Result cuMemAllocFromPoolAsync(Pointer *pointer, size_t bytes, Pool pool, Stream stream) {
    return alloc_async((struct request){pointer, bytes, pool, stream, real(N_cuMemAllocFromPoolAsync), IS_CAPTURING(), false}, true);
}

EXPORT Result cuMemAllocFromPoolAsync_ptsz(Pointer *pointer, size_t bytes, Pool pool, Stream stream) {
    return alloc_async((struct request){pointer, bytes, pool, stream, real(N_cuMemAllocFromPoolAsync_ptsz), IS_CAPTURING(_ptsz), false}, true);
}

/* Where a pool's memory will be: a device's, or managed memory, which is counted on the current device; else the host's. */
static int gpu_at(struct process *process, const Location *location, int type) {
    struct wanted current;
    if (location->kind == ON_DEVICE)
        return gpu_of(process, location->id);
    if (location->kind == ON_DEVICE_DOMAIN)
        return gpu_of(process, location->id & 0xff);
    if (type != TYPE_MANAGED)
        return ON_HOST;
    return current_device(&current) == 0 ? current.gpu : NOT_OURS;
}

static Result noted(Result result, Pool *pool, const Location *location, int type) {
    struct process *process = here();
    if (result != 0)
        return result;
    int gpu = gpu_at(process, location, type);
    lock(&process->lock);
    bool is_noted = pool_note(process, *pool, gpu);
    unlock(&process->lock);
    return is_noted ? 0 : CUDA_OUT_OF_MEMORY;
}

EXPORT Result cuMemPoolCreate(Pool *pool, const PoolProperties *wanted) {
    typedef Result (*Driver)(Pool *, const PoolProperties *);
    Driver driver = REAL(Driver, cuMemPoolCreate);
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = driver(pool, wanted);
    if (result == 0 && (result = noted(result, pool, &wanted->location, wanted->type)) != 0)
        (void)REAL(Result(*)(Pool), cuMemPoolDestroy)(*pool); /* more pools than we keep */
    return result;
}

EXPORT Result cuMemGetDefaultMemPool(Pool *pool, Location *location, int type) {
    typedef Result (*Driver)(Pool *, Location *, int);
    Driver driver = REAL(Driver, cuMemGetDefaultMemPool);
    return driver == NULL ? CUDA_NOT_INITIALIZED : noted(driver(pool, location, type), pool, location, type);
}

EXPORT Result cuMemGetMemPool(Pool *pool, Location *location, int type) {
    typedef Result (*Driver)(Pool *, Location *, int);
    Driver driver = REAL(Driver, cuMemGetMemPool);
    return driver == NULL ? CUDA_NOT_INITIALIZED : noted(driver(pool, location, type), pool, location, type);
}

/* What was taken from it and not freed lives on without the pool: from now on each piece is charged by itself. */
static void orphan(struct process *process, Pool pool) {
    struct pool *known = pool_find(process, pool);
    if (known == NULL)
        return;
    int gpu = known->gpu;
    pool_forget(process, pool);
    for (size_t i = 0; gpu >= 0 && i < process->lives.room; i++) {
        struct live live = process->lives.all[i];
        if (live.kind != LIVE_ASYNC || live.owner != (uint64_t)pool)
            continue;
        book_force(&process->book, gpu, live.bytes);
        live_drop(&process->lives, &process->lives.all[i]);
        struct live *again = live_add(&process->lives, LIVE_MEMORY, live.key, live.bytes, 0);
        if (again != NULL)
            again->gpu = (int16_t)gpu;
        i = (size_t)-1; /* the table has moved: from the beginning */
    }
    if (gpu >= 0)
        (void)settle(process, gpu, 0);
}

EXPORT Result cuMemPoolDestroy(Pool pool) {
    typedef Result (*Driver)(Pool);
    Driver driver = REAL(Driver, cuMemPoolDestroy);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock); /* over the call: afterwards another thread may get the same pool anew */
    Result result = driver(pool);
    if (result == 0)
        orphan(process, pool);
    unlock(&process->lock);
    return result;
}

static Result settled(Result result) {
    struct process *process = here();
    bool has_pools = false;
    for (int gpu = 0; gpu < process->limits.count; gpu++)
        has_pools = has_pools || process->pool_bytes[gpu] > 0;
    if (!has_pools)
        return result;
    lock(&process->lock);
    pools_settle(process);
    unlock(&process->lock);
    return result;
}

EXPORT Result cuMemPoolTrimTo(Pool pool, size_t keep) {
    typedef Result (*Driver)(Pool, size_t);
    Driver driver = REAL(Driver, cuMemPoolTrimTo);
    return driver == NULL ? CUDA_NOT_INITIALIZED : settled(driver(pool, keep));
}

EXPORT Result cuCtxSynchronize(void) {
    typedef Result (*Driver)(void);
    Driver driver = REAL(Driver, cuCtxSynchronize);
    return driver == NULL ? CUDA_NOT_INITIALIZED : settled(driver());
}

EXPORT Result cuStreamSynchronize(Stream stream) {
    typedef Result (*Driver)(Stream);
    Driver driver = REAL(Driver, cuStreamSynchronize);
    return driver == NULL ? CUDA_NOT_INITIALIZED : settled(driver(stream));
}

EXPORT Result cuStreamSynchronize_ptsz(Stream stream) {
    typedef Result (*Driver)(Stream);
    Driver driver = REAL(Driver, cuStreamSynchronize_ptsz);
    return driver == NULL ? CUDA_NOT_INITIALIZED : settled(driver(stream));
}

EXPORT Result cuEventSynchronize(void *event) {
    typedef Result (*Driver)(void *);
    Driver driver = REAL(Driver, cuEventSynchronize);
    return driver == NULL ? CUDA_NOT_INITIALIZED : settled(driver(event));
}
