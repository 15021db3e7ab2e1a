/* Memory pools and streams: a pool keeps what was freed until it is trimmed, or until a synchronisation passes its threshold. */
#include "fake_cuda.h"

#include <string.h>

enum { MOST_POOLS = 64, MOST_STREAMS = 64, MOST_TAKEN = 4096, THRESHOLD = 4, RESERVED = 5, USED = 7, ON_DEVICE = 1 };
typedef struct Pool { int alive, is_orphan; Device device; uint64_t reserved, used, threshold; } Pool; /* an orphan lives while something of it does */
typedef struct { Pointer key; uint64_t bytes; Pool *pool; } Taken;
typedef struct Stream { int alive; Context *context; void *graph; } Stream;
static Pool pools[MOST_POOLS], *defaults[MOST_CARDS], *currents[MOST_CARDS];
static Taken taken[MOST_TAKEN];
static Stream streams[MOST_STREAMS];

static uint64_t step(void) { return setting("FAKE_CUDA_POOL_STEP", 32 << 20); }

static Pool *new_pool(Device device)
{
    for (Pool *pool = pools; pool < pools + MOST_POOLS; pool++)
        if (!pool->alive && !pool->is_orphan) {
            *pool = (Pool){ .alive = 1, .device = device };
            return pool;
        }
    return NULL;
}

static Pool *default_of(Pool **list, Device device)
{
    int card = card_of(device);
    if (card >= 0 && list[card] == NULL)
        list[card] = new_pool(device);
    return card < 0 ? NULL : list[card];
}

static void shrink(Pool *pool, uint64_t keep)
{
    uint64_t least = (pool->used + step() - 1) / step() * step(), wanted = keep > least ? keep : least;
    if (pool->reserved > wanted) {
        truth_give(card_of(pool->device), pool->reserved - wanted);
        pool->reserved = wanted;
    }
    if (pool->is_orphan && pool->used == 0)
        pool->is_orphan = 0;
}

void pools_settle(Device device)
{
    for (Pool *pool = pools; pool < pools + MOST_POOLS; pool++)
        if ((pool->alive || pool->is_orphan) && (device < 0 || pool->device == device))
            shrink(pool, pool->alive ? pool->threshold : 0);
}

static int from_pool(Pool *pool, uint64_t bytes, Pointer *key)
{
    uint64_t missing = pool->used + bytes > pool->reserved ? pool->used + bytes - pool->reserved : 0;
    uint64_t grown = (missing + step() - 1) / step() * step();
    Taken *at = taken;
    while (at < taken + MOST_TAKEN && at->pool != NULL)
        at++;
    if (at == taken + MOST_TAKEN || !truth_take(card_of(pool->device), grown, card_bytes(card_of(pool->device))))
        return OUT_OF_MEMORY;
    pool->reserved += grown;
    pool->used += bytes;
    *key = fresh_key(bytes);
    *at = (Taken){ *key, bytes, pool };
    return OK;
}

bool pool_free(Pointer pointer)
{
    for (Taken *at = taken; at < taken + MOST_TAKEN; at++)
        if (at->pool != NULL && at->key == pointer) {
            at->pool->used -= at->bytes;
            if (at->pool->is_orphan)
                shrink(at->pool, 0);
            at->pool = NULL;
            return true;
        }
    return false;
}

static int alloc_async(const char *function, Pointer *pointer, size_t bytes, Pool *pool, Stream *stream)
{
    Device device;
    int code = current_device(&device);
    note("%s %llu", function, (unsigned long long)bytes);
    if (code != OK || pointer == NULL || bytes == 0)
        return code != OK ? code : INVALID_VALUE;
    pthread_mutex_lock(&door);
    if (stream > (Stream *)PER_THREAD)
        device = stream->context->device;
    if (pool == NULL)
        pool = currents[card_of(device)] ? currents[card_of(device)] : default_of(defaults, device);
    code = graph_capture(stream, bytes, pointer);
    if (code < 0)
        code = pool == NULL ? OUT_OF_MEMORY : from_pool(pool, bytes, pointer);
    pthread_mutex_unlock(&door);
    return code;
}

static int free_async(Pointer pointer)
{
    pthread_mutex_lock(&door);
    bool known = pool_free(pointer) || graph_free(pointer);
    pthread_mutex_unlock(&door);
    return known ? OK : INVALID_VALUE;
}

API int cuMemAllocAsync(Pointer *pointer, size_t bytes, Stream *stream) { CALL(); DONE(alloc_async(__func__, pointer, bytes, NULL, stream)); }
API int cuMemAllocAsync_ptsz(Pointer *pointer, size_t bytes, Stream *stream) { CALL(); DONE(alloc_async(__func__, pointer, bytes, NULL, stream)); }
API int cuMemAllocFromPoolAsync(Pointer *pointer, size_t bytes, Pool *pool, Stream *stream) { CALL(); DONE(alloc_async(__func__, pointer, bytes, pool, stream)); }
API int cuMemAllocFromPoolAsync_ptsz(Pointer *pointer, size_t bytes, Pool *pool, Stream *stream) { CALL(); DONE(alloc_async(__func__, pointer, bytes, pool, stream)); }
API int cuMemFreeAsync(Pointer pointer, Stream *stream) { CALL(); (void)stream; DONE(free_async(pointer)); }
API int cuMemFreeAsync_ptsz(Pointer pointer, Stream *stream) { CALL(); (void)stream; DONE(free_async(pointer)); }

API int cuDeviceGetDefaultMemPool(Pool **pool, Device device) { CALL(); *pool = default_of(defaults, device); return *pool ? OK : INVALID_DEVICE; }
API int cuDeviceGetMemPool(Pool **pool, Device device)
{
    CALL();
    if (card_of(device) < 0)
        return INVALID_DEVICE;
    *pool = currents[card_of(device)] ? currents[card_of(device)] : default_of(defaults, device);
    return OK;
}
API int cuDeviceSetMemPool(Device device, Pool *pool) { CALL(); if (card_of(device) < 0) return INVALID_DEVICE; currents[card_of(device)] = pool; return OK; }

#ifndef FAKE_CUDA_OLD
static Pool *managed[MOST_CARDS];
API int cuMemGetDefaultMemPool(Pool **pool, const Location *where, int type)
{
    CALL();
    *pool = where->type == ON_DEVICE ? default_of(type == 2 ? managed : defaults, where->id) : NULL;
    return *pool ? OK : INVALID_VALUE;
}
API int cuMemGetMemPool(Pool **pool, const Location *where, int type) { return cuMemGetDefaultMemPool(pool, where, type); }
#endif

API int cuMemPoolCreate(Pool **pool, const PoolProperties *how)
{
    CALL();
    if (pool == NULL || how == NULL || (how->location.type == ON_DEVICE && card_of(how->location.id) < 0))
        DONE(INVALID_VALUE);
    pthread_mutex_lock(&door);
    *pool = how->location.type == ON_DEVICE ? new_pool(how->location.id) : NULL;
    pthread_mutex_unlock(&door);
    DONE(*pool ? OK : NOT_SUPPORTED);
}

API int cuMemPoolDestroy(Pool *pool)
{
    CALL();
    pthread_mutex_lock(&door);
    pool->alive = 0;
    pool->is_orphan = pool->used > 0;
    shrink(pool, 0);
    pthread_mutex_unlock(&door);
    DONE(OK);
}

API int cuMemPoolTrimTo(Pool *pool, size_t keep)
{
    CALL();
    pthread_mutex_lock(&door);
    shrink(pool, keep);
    pthread_mutex_unlock(&door);
    DONE(OK);
}

API int cuMemPoolSetAttribute(Pool *pool, int attribute, void *value)
{
    CALL();
    if (attribute == THRESHOLD)
        memcpy(&pool->threshold, value, sizeof pool->threshold);
    DONE(OK);
}
API int cuMemPoolGetAttribute(Pool *pool, int attribute, void *value)
{
    CALL();
    uint64_t seen = attribute == RESERVED ? pool->reserved : attribute == USED ? pool->used : attribute == THRESHOLD ? pool->threshold : 0;
    memcpy(value, &seen, sizeof seen);
    return OK;
}

static int synchronize(void)
{
    pthread_mutex_lock(&door);
    pools_settle(-1);
    pthread_mutex_unlock(&door);
    return OK;
}
API int cuCtxSynchronize(void) { CALL(); DONE(synchronize()); }
API int cuStreamSynchronize(Stream *stream) { CALL(); (void)stream; DONE(synchronize()); }
API int cuStreamSynchronize_ptsz(Stream *stream) { CALL(); (void)stream; DONE(synchronize()); }
API int cuEventSynchronize(void *event) { CALL(); (void)event; DONE(synchronize()); }

API int cuStreamCreate(Stream **stream, unsigned flags)
{
    CALL();
    (void)flags;
    for (Stream *at = streams; at < streams + MOST_STREAMS; at++)
        if (!at->alive) {
            *at = (Stream){ .alive = 1, .context = current_context() };
            *stream = at;
            return current_context() ? OK : INVALID_CONTEXT;
        }
    return OUT_OF_MEMORY;
}
API int cuStreamDestroy_v2(Stream *stream) { CALL(); stream->alive = 0; return OK; }
API int cuStreamGetCtx(Stream *stream, Context **context) { CALL(); *context = stream > (Stream *)PER_THREAD ? stream->context : current_context(); return OK; }
API int cuStreamGetCtx_ptsz(Stream *stream, Context **context) { return cuStreamGetCtx(stream, context); }
