/* Hooks of plain device memory: linear, pitched, managed. Host memory is not the GPU's, and memory of another process is counted there. */
#include "share.h"

enum { PITCH = 512 };

EXPORT Result cuMemAlloc_v2(Pointer *pointer, size_t bytes) {
    typedef Result (*Driver)(Pointer *, size_t);
    Driver driver = REAL(Driver, cuMemAlloc_v2);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask(&wanted, bytes);
    return result != 0 ? result : (result = driver(pointer, bytes), took(&wanted, result, LIVE_MEMORY, result == 0 ? *pointer : 0));
}

EXPORT Result cuMemAlloc(Pointer32 *pointer, unsigned bytes) {
    typedef Result (*Driver)(Pointer32 *, unsigned);
    Driver driver = REAL(Driver, cuMemAlloc);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask(&wanted, bytes);
    return result != 0 ? result : (result = driver(pointer, bytes), took(&wanted, result, LIVE_MEMORY, result == 0 ? *pointer : 0));
}

EXPORT Result cuMemAllocManaged(Pointer *pointer, size_t bytes, unsigned flags) {
    typedef Result (*Driver)(Pointer *, size_t, unsigned);
    Driver driver = REAL(Driver, cuMemAllocManaged);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask(&wanted, bytes);
    return result != 0 ? result : (result = driver(pointer, bytes, flags), took(&wanted, result, LIVE_MEMORY, result == 0 ? *pointer : 0));
}

/* The driver chooses the pitch: what it takes beyond our guess is charged when it is known. */
static void charge_pitch(struct wanted *wanted, uint64_t pitch, uint64_t height) {
    uint64_t bytes = times(pitch, height);
    if (bytes <= wanted->bytes)
        return;
    book_force(&wanted->process->book, wanted->gpu, bytes - wanted->bytes);
    wanted->bytes = bytes;
}

EXPORT Result cuMemAllocPitch_v2(Pointer *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    typedef Result (*Driver)(Pointer *, size_t *, size_t, size_t, unsigned);
    Driver driver = REAL(Driver, cuMemAllocPitch_v2);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask(&wanted, times(rounded_up(width, PITCH), height));
    if (result != 0)
        return result;
    result = driver(pointer, pitch, width, height, element);
    if (result == 0)
        charge_pitch(&wanted, *pitch, height);
    return took(&wanted, result, LIVE_MEMORY, result == 0 ? *pointer : 0);
}

EXPORT Result cuMemAllocPitch(Pointer32 *pointer, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
    typedef Result (*Driver)(Pointer32 *, unsigned *, unsigned, unsigned, unsigned);
    Driver driver = REAL(Driver, cuMemAllocPitch);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    Result result = ask(&wanted, times(rounded_up(width, PITCH), height));
    if (result != 0)
        return result;
    result = driver(pointer, pitch, width, height, element);
    if (result == 0)
        charge_pitch(&wanted, *pitch, height);
    return took(&wanted, result, LIVE_MEMORY, result == 0 ? *pointer : 0);
}

/* Taken out of the table before the driver is asked: once it is free, another thread may get the same address at any moment. */
static bool take_out(struct process *process, Pointer pointer, struct live *into) {
    lock(&process->lock);
    struct live *live = live_find(&process->lives, LIVE_MEMORY, pointer);
    if (live == NULL)
        live = live_find(&process->lives, LIVE_ASYNC, pointer);
    bool is_known = live != NULL;
    if (is_known) {
        *into = *live;
        live_drop(&process->lives, live);
    }
    unlock(&process->lock);
    return is_known;
}

/* Of what we do not know nothing was charged: it is the driver's alone. */
static Result freed(struct process *process, const struct live *live, bool is_known, Result result) {
    if (!is_known)
        return result;
    if (result == 0 && live->kind == LIVE_MEMORY)
        give_back(process, live->gpu, live->bytes);
    lock(&process->lock);
    if (result != 0) {
        struct live *again = live_add(&process->lives, live->kind, live->key, live->bytes, live->owner);
        if (again != NULL)
            *again = *live;
    } else if (live->kind == LIVE_ASYNC)
        pools_settle(process);
    unlock(&process->lock);
    return result;
}

EXPORT Result cuMemFree_v2(Pointer pointer) {
    typedef Result (*Driver)(Pointer);
    Driver driver = REAL(Driver, cuMemFree_v2);
    struct process *process = here();
    struct live live;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    bool is_known = take_out(process, pointer, &live);
    return freed(process, &live, is_known, driver(pointer));
}

EXPORT Result cuMemFree(Pointer32 pointer) {
    typedef Result (*Driver)(Pointer32);
    Driver driver = REAL(Driver, cuMemFree);
    struct process *process = here();
    struct live live;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    bool is_known = take_out(process, pointer, &live);
    return freed(process, &live, is_known, driver(pointer));
}

static Result free_async(Result (*driver)(Pointer, Stream), Pointer pointer, Stream stream) {
    struct process *process = here();
    struct live live;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    bool is_known = take_out(process, pointer, &live);
    return freed(process, &live, is_known, driver(pointer, stream));
}

EXPORT Result cuMemFreeAsync(Pointer pointer, Stream stream) {
    return free_async(REAL(Result(*)(Pointer, Stream), cuMemFreeAsync), pointer, stream);
}

EXPORT Result cuMemFreeAsync_ptsz(Pointer pointer, Stream stream) {
    return free_async(REAL(Result(*)(Pointer, Stream), cuMemFreeAsync_ptsz), pointer, stream);
}
