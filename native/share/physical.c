/* Hooks of physical memory by handles (cuMemCreate): it is free again when no reference to its handle and no mapping of it is left.
   A handle from another process is counted by the one that made it. */
#include "share.h"

static bool is_device(const Location *location, Device *device) {
    *device = location->kind == ON_DEVICE_DOMAIN ? location->id & 0xff : location->id;
    return location->kind == ON_DEVICE || location->kind == ON_DEVICE_DOMAIN;
}

/* Handle -> number -> memory: the driver may use a handle's number again while the old memory is still mapped. */
static void note_physical(const struct wanted *wanted, Handle handle) {
    struct process *process = wanted->process;
    lock(&process->lock);
    uint64_t id = ++process->next_id;
    struct live *memory = live_add(&process->lives, LIVE_PHYSICAL, id, wanted->bytes, 0);
    if (memory != NULL) {
        memory->gpu = (int16_t)wanted->gpu;
        memory->refs = 1;
        (void)live_add(&process->lives, LIVE_HANDLE, handle, 0, id);
    }
    unlock(&process->lock);
}

/* It names its device itself and needs no current context. */
EXPORT Result cuMemCreate(Handle *handle, size_t bytes, const AllocationProperties *how, unsigned long long flags) {
    typedef Result (*Driver)(Handle *, size_t, const AllocationProperties *, unsigned long long);
    Driver driver = REAL(Driver, cuMemCreate);
    struct wanted wanted;
    Device device;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (how == NULL || !is_device(&how->location, &device))
        return driver(handle, bytes, how, flags);
    Result result = ask_on(&wanted, device, bytes);
    if (result != 0)
        return result;
    result = driver(handle, bytes, how, flags);
    if (result != 0)
        give_back(wanted.process, wanted.gpu, wanted.bytes);
    else
        note_physical(&wanted, *handle);
    return result;
}

static struct live *memory_of(struct process *process, Handle handle) {
    struct live *known = live_find(&process->lives, LIVE_HANDLE, handle);
    return known == NULL ? NULL : live_find(&process->lives, LIVE_PHYSICAL, known->owner);
}

static void end_if_unused(struct process *process, uint64_t id) {
    struct live *memory = live_find(&process->lives, LIVE_PHYSICAL, id);
    if (memory == NULL || memory->refs > 0 || memory->maps > 0)
        return;
    give_back(process, memory->gpu, memory->bytes);
    live_drop(&process->lives, memory);
}

/* The table is locked over the driver's call: as soon as a handle is released another thread may be given its number. */
EXPORT Result cuMemRelease(Handle handle) {
    typedef Result (*Driver)(Handle);
    Driver driver = REAL(Driver, cuMemRelease);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(handle);
    struct live *memory = result == 0 ? memory_of(process, handle) : NULL;
    if (memory != NULL && --memory->refs <= 0) {
        uint64_t id = memory->key;
        live_drop(&process->lives, live_find(&process->lives, LIVE_HANDLE, handle));
        end_if_unused(process, id);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuMemRetainAllocationHandle(Handle *handle, void *address) {
    typedef Result (*Driver)(Handle *, void *);
    Driver driver = REAL(Driver, cuMemRetainAllocationHandle);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(handle, address);
    struct live *mapping = result == 0 ? live_find(&process->lives, LIVE_MAPPING, (uint64_t)address) : NULL;
    struct live *memory = mapping != NULL ? live_find(&process->lives, LIVE_PHYSICAL, mapping->owner) : result == 0 ? memory_of(process, *handle) : NULL;
    if (memory != NULL) {
        uint64_t id = memory->key;
        memory->refs++;
        if (live_find(&process->lives, LIVE_HANDLE, *handle) == NULL) /* it was released before, and is back */
            (void)live_add(&process->lives, LIVE_HANDLE, *handle, 0, id);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuMemMap(Pointer pointer, size_t bytes, size_t offset, Handle handle, unsigned long long flags) {
    typedef Result (*Driver)(Pointer, size_t, size_t, Handle, unsigned long long);
    Driver driver = REAL(Driver, cuMemMap);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(pointer, bytes, offset, handle, flags);
    struct live *memory = result == 0 ? memory_of(process, handle) : NULL;
    if (memory != NULL) {
        memory->maps++;
        (void)live_add(&process->lives, LIVE_MAPPING, pointer, bytes, memory->key);
    }
    unlock(&process->lock);
    return result;
}

static void unmapped(struct process *process, struct live *mapping) {
    uint64_t id = mapping->owner;
    live_drop(&process->lives, mapping);
    struct live *memory = live_find(&process->lives, LIVE_PHYSICAL, id);
    if (memory != NULL)
        memory->maps--;
    end_if_unused(process, id);
}

/* One call may end many mappings. */
static void unmapped_all(struct process *process, Pointer pointer, size_t bytes) {
    struct live *whole = live_find(&process->lives, LIVE_MAPPING, pointer);
    if (whole != NULL && whole->bytes == bytes) {
        unmapped(process, whole);
        return;
    }
    for (size_t i = 0; i < process->lives.room; i++) {
        struct live *live = &process->lives.all[i];
        if (live->kind == LIVE_MAPPING && live->key >= pointer && live->key - pointer < bytes) {
            unmapped(process, live);
            i = (size_t)-1; /* the table has moved: from the beginning */
        }
    }
}

EXPORT Result cuMemUnmap(Pointer pointer, size_t bytes) {
    typedef Result (*Driver)(Pointer, size_t);
    Driver driver = REAL(Driver, cuMemUnmap);
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(pointer, bytes);
    if (result == 0)
        unmapped_all(process, pointer, bytes);
    unlock(&process->lock);
    return result;
}

/* Memory mapped into a sparse array stays charged for good: which tile of which array still holds it is not kept here. */
static Result map_array(Result (*driver)(ArrayMapping *, unsigned, Stream), ArrayMapping *list, unsigned count, Stream stream) {
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock);
    Result result = driver(list, count, stream);
    for (unsigned i = 0; result == 0 && i < count; i++) {
        struct live *memory = list[i].operation == ARRAY_MAP ? memory_of(process, list[i].handle) : NULL;
        if (memory != NULL)
            memory->maps++;
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuMemMapArrayAsync(ArrayMapping *list, unsigned count, Stream stream) {
    return map_array(REAL(Result(*)(ArrayMapping *, unsigned, Stream), cuMemMapArrayAsync), list, count, stream);
}

EXPORT Result cuMemMapArrayAsync_ptsz(ArrayMapping *list, unsigned count, Stream stream) {
    return map_array(REAL(Result(*)(ArrayMapping *, unsigned, Stream), cuMemMapArrayAsync_ptsz), list, count, stream);
}
