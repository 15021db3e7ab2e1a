/* Hooks of arrays. The driver tells nobody what an array costs, so it is reckoned from its shape, rounded up; levels of a mipmap add a third. */
#include "share.h"

enum { ROW = 128, ROWS = 8, BLOCK = 64 << 10, UNKNOWN_BYTES = 16 };

/* Bytes of one channel. Block-compressed and planar formats take at most what is said here for a whole element. */
static uint64_t channel_bytes(int format) {
    if (format == 0x01 || format == 0x08)
        return 1;
    if (format == 0x02 || format == 0x09 || format == 0x10)
        return 2;
    if (format == 0x03 || format == 0x0a || format == 0x20)
        return 4;
    return UNKNOWN_BYTES;
}

static uint64_t array_bytes(const Array3dShape *shape) {
    uint64_t element = channel_bytes(shape->format);
    if (element != UNKNOWN_BYTES)
        element = times(element, shape->channels);
    if ((shape->flags & (ARRAY_SPARSE | ARRAY_DEFERRED)) != 0)
        return 0;
    uint64_t row = rounded_up(times(shape->width, element), ROW);
    uint64_t rows = shape->height > 1 ? rounded_up(shape->height, ROWS) : 1;
    return rounded_up(times(times(row, rows), shape->depth > 1 ? shape->depth : 1), BLOCK);
}

EXPORT Result cuArrayCreate_v2(Array *array, const ArrayShape *shape) {
    typedef Result (*Driver)(Array *, const ArrayShape *);
    Driver driver = REAL(Driver, cuArrayCreate_v2);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (shape == NULL)
        return driver(array, shape);
    Result result = ask(&wanted, array_bytes(&(Array3dShape){shape->width, shape->height, 0, shape->format, shape->channels, 0}));
    return result != 0 ? result : (result = driver(array, shape), took(&wanted, result, LIVE_ARRAY, result == 0 ? (uint64_t)*array : 0));
}

EXPORT Result cuArrayCreate(Array *array, const ArrayShape32 *shape) {
    typedef Result (*Driver)(Array *, const ArrayShape32 *);
    Driver driver = REAL(Driver, cuArrayCreate);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (shape == NULL)
        return driver(array, shape);
    Result result = ask(&wanted, array_bytes(&(Array3dShape){shape->width, shape->height, 0, shape->format, shape->channels, 0}));
    return result != 0 ? result : (result = driver(array, shape), took(&wanted, result, LIVE_ARRAY, result == 0 ? (uint64_t)*array : 0));
}

EXPORT Result cuArray3DCreate_v2(Array *array, const Array3dShape *shape) {
    typedef Result (*Driver)(Array *, const Array3dShape *);
    Driver driver = REAL(Driver, cuArray3DCreate_v2);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (shape == NULL)
        return driver(array, shape);
    Result result = ask(&wanted, array_bytes(shape));
    return result != 0 ? result : (result = driver(array, shape), took(&wanted, result, LIVE_ARRAY, result == 0 ? (uint64_t)*array : 0));
}

EXPORT Result cuArray3DCreate(Array *array, const Array3dShape32 *shape) {
    typedef Result (*Driver)(Array *, const Array3dShape32 *);
    Driver driver = REAL(Driver, cuArray3DCreate);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (shape == NULL)
        return driver(array, shape);
    Array3dShape wide = {shape->width, shape->height, shape->depth, shape->format, shape->channels, shape->flags};
    Result result = ask(&wanted, array_bytes(&wide));
    return result != 0 ? result : (result = driver(array, shape), took(&wanted, result, LIVE_ARRAY, result == 0 ? (uint64_t)*array : 0));
}

EXPORT Result cuMipmappedArrayCreate(Array *array, const Array3dShape *shape, unsigned levels) {
    typedef Result (*Driver)(Array *, const Array3dShape *, unsigned);
    Driver driver = REAL(Driver, cuMipmappedArrayCreate);
    struct wanted wanted;
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    if (shape == NULL)
        return driver(array, shape, levels);
    uint64_t first = array_bytes(shape);
    Result result = ask(&wanted, levels > 1 ? added(first, first / 3 + (first > 0 ? BLOCK : 0)) : first);
    return result != 0 ? result : (result = driver(array, shape, levels), took(&wanted, result, LIVE_ARRAY, result == 0 ? (uint64_t)*array : 0));
}

static Result destroy(Result (*driver)(Array), Array array) {
    struct process *process = here();
    if (driver == NULL)
        return CUDA_NOT_INITIALIZED;
    lock(&process->lock); /* over the call: afterwards another thread may get the same name for a new one */
    Result result = driver(array);
    struct live *live = result == 0 ? live_find(&process->lives, LIVE_ARRAY, (uint64_t)array) : NULL;
    if (live != NULL) {
        give_back(process, live->gpu, live->bytes);
        live_drop(&process->lives, live);
    }
    unlock(&process->lock);
    return result;
}

EXPORT Result cuArrayDestroy(Array array) {
    return destroy(REAL(Result(*)(Array), cuArrayDestroy), array);
}

EXPORT Result cuMipmappedArrayDestroy(Array array) {
    return destroy(REAL(Result(*)(Array), cuMipmappedArrayDestroy), array);
}
