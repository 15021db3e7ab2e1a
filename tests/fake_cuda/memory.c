/* Plain, pitched, managed and host memory, arrays, and physical handles that live while a handle or a mapping does. */
#include "fake_cuda.h"

#include <string.h>

enum { MOST_LIVE = 1 << 16, ROW = 512, ON_DEVICE = 1, GRANULARITY = PAGE, SPARSE_OR_DEFERRED = 0x40 | 0x80 };
typedef struct { size_t width, height; int format; unsigned channels; } Flat;
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } Solid;
static Live lives[MOST_LIVE];
static int top;      /* none is beyond it */
static int free_at;  /* none is free before it */
static Pointer next_key = 0x7f0000000000ull;

static uint64_t up(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

Pointer fresh_key(uint64_t bytes)
{
    return __atomic_fetch_add(&next_key, up(bytes + 1, PAGE), __ATOMIC_RELAXED);
}

Live *live_find(Kind kind, Pointer key)
{
    for (Live *live = lives; live < lives + top; live++)
        if (live->kind == kind && live->key == key)
            return live;
    return NULL;
}

Live *live_new(Kind kind, Pointer key, uint64_t bytes, Device device)
{
    int at = free_at;
    while (at < MOST_LIVE && lives[at].kind != NOTHING)
        at++;
    if (at == MOST_LIVE)
        return NULL;
    free_at = at + 1;
    top = at >= top ? at + 1 : top;
    lives[at] = (Live){ .kind = kind, .key = key, .bytes = bytes, .device = device, .context = current_context(), .refs = 1 };
    return &lives[at];
}

static void live_end(Live *live)
{
    live->kind = NOTHING;
    if (live - lives < free_at)
        free_at = (int)(live - lives);
}

void live_drop_context(Context *context)
{
    for (Live *live = lives; live < lives + top; live++)
        if ((live->kind == PLAIN || live->kind == ARRAY) && live->context == context) {
            truth_give(card_of(live->device), live->bytes);
            live_end(live);
        }
}

int take(Kind kind, uint64_t bytes, Device device, Pointer *key)
{
    int card = card_of(device);
    if (card < 0)
        return INVALID_DEVICE;
    if (!truth_take(card, bytes, card_bytes(card)))
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&door);
    *key = fresh_key(bytes);
    Live *live = live_new(kind, *key, bytes, device);
    pthread_mutex_unlock(&door);
    return live == NULL ? OUT_OF_MEMORY : OK;
}

static int take_here(const char *function, Kind kind, uint64_t bytes, Pointer *key)
{
    Device device;
    int code = current_device(&device);
    if (code == OK)
        code = key == NULL || bytes == 0 ? INVALID_VALUE : take(kind, bytes, device, key);
    note("%s %llu", function, (unsigned long long)bytes);
    return code;
}

API int cuMemAlloc_v2(Pointer *pointer, size_t bytes) { CALL(); DONE(take_here(__func__, PLAIN, bytes, pointer)); }
API int cuMemAllocManaged(Pointer *pointer, size_t bytes, unsigned flags)
{
    CALL();
    DONE(flags == 0 ? INVALID_VALUE : take_here(__func__, PLAIN, bytes, pointer));
}
API int cuMemAllocPitch_v2(Pointer *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    CALL();
    (void)element;
    *pitch = up(width, ROW);
    DONE(take_here(__func__, PLAIN, *pitch * height, pointer));
}
API int cuMemAlloc(unsigned *pointer, unsigned bytes)
{
    Pointer wide = 0;
    CALL();
    int code = take_here(__func__, PLAIN, bytes, &wide);
    *pointer = (unsigned)(wide >> 20); /* what an address of 32 bits can hold: unique, and found again below */
    Live *live = code == OK ? live_find(PLAIN, wide) : NULL;
    if (live != NULL)
        live->key = *pointer;
    DONE(code);
}
API int cuMemAllocPitch(unsigned *pointer, unsigned *pitch, unsigned width, unsigned height, unsigned element)
{
    (void)element;
    *pitch = (unsigned)up(width, ROW);
    return cuMemAlloc(pointer, *pitch * height);
}

static int give_back(Pointer pointer)
{
    pthread_mutex_lock(&door);
    Live *live = live_find(PLAIN, pointer);
    bool known = live != NULL;
    if (known) {
        truth_give(card_of(live->device), live->bytes);
        live_end(live);
    } else
        known = pool_free(pointer) || graph_free(pointer);
    pthread_mutex_unlock(&door);
    return known || pointer == 0 ? OK : INVALID_VALUE;
}

API int cuMemFree_v2(Pointer pointer) { CALL(); DONE(give_back(pointer)); }
API int cuMemFree(unsigned pointer) { CALL(); DONE(give_back(pointer)); }

API int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    CALL();
    (void)flags;
    *pointer = (void *)fresh_key(bytes);
    DONE(OK);
}
API int cuMemFreeHost(void *pointer) { CALL(); (void)pointer; DONE(OK); }
API int cuIpcGetMemHandle(unsigned char *handle, Pointer pointer) { CALL(); memset(handle, 0, 64); memcpy(handle, &pointer, 8); DONE(OK); }
API int cuIpcOpenMemHandle_v2(Pointer *pointer, __uint128_t a, __uint128_t b, __uint128_t c, __uint128_t d, unsigned flags)
{
    CALL();
    (void)a, (void)b, (void)c, (void)d, (void)flags;
    *pointer = fresh_key(PAGE);
    DONE(OK);
}
API int cuIpcCloseMemHandle(Pointer pointer) { CALL(); (void)pointer; DONE(OK); }

/* Physical memory: a handle has references, each mapping holds it too. */
API int cuMemGetAllocationGranularity(size_t *bytes, const Properties *how, int option) { CALL(); (void)how, (void)option; *bytes = GRANULARITY; return OK; }
API int cuMemCreate(Pointer *handle, size_t bytes, const Properties *how, unsigned long long flags)
{
    CALL();
    if (handle == NULL || how == NULL || flags != 0 || bytes == 0 || bytes % GRANULARITY != 0)
        DONE(INVALID_VALUE);
    note("%s %llu", __func__, (unsigned long long)bytes);
    if (how->location.type == ON_DEVICE)
        DONE(take(PHYSICAL, bytes, how->location.id, handle));
    *handle = fresh_key(bytes);
    DONE(OK);
}

static void end_if_unused(Live *live)
{
    if (live->refs > 0 || live->maps > 0)
        return;
    truth_give(card_of(live->device), live->bytes);
    live_end(live);
}

API int cuMemRelease(Pointer handle)
{
    CALL();
    pthread_mutex_lock(&door);
    Live *live = live_find(PHYSICAL, handle), *imported = live_find(IMPORTED, handle);
    if (live != NULL && live->refs > 0) {
        live->refs--;
        end_if_unused(live);
    } else if (imported != NULL)
        live_end(imported);
    int code = live != NULL || imported != NULL ? OK : INVALID_VALUE;
    pthread_mutex_unlock(&door);
    DONE(code);
}

API int cuMemAddressReserve(Pointer *pointer, size_t bytes, size_t alignment, Pointer wish, unsigned long long flags)
{
    CALL();
    (void)alignment, (void)wish, (void)flags;
    *pointer = fresh_key(bytes);
    DONE(OK);
}
API int cuMemAddressFree(Pointer pointer, size_t bytes) { CALL(); (void)pointer, (void)bytes; DONE(OK); }
API int cuMemSetAccess(Pointer pointer, size_t bytes, const void *list, size_t count) { CALL(); (void)pointer, (void)bytes, (void)list, (void)count; DONE(OK); }

API int cuMemMap(Pointer pointer, size_t bytes, size_t offset, Pointer handle, unsigned long long flags)
{
    CALL();
    (void)flags;
    pthread_mutex_lock(&door);
    Live *live = live_find(PHYSICAL, handle), *map = NULL;
    if (live != NULL && live->refs > 0 && offset == 0 && bytes <= live->bytes && !live_find(MAPPED, pointer))
        map = live_new(MAPPED, pointer, bytes, live->device);
    if (map != NULL) {
        map->of = live;
        live->maps++;
    }
    bool known = map != NULL || live_find(IMPORTED, handle) != NULL;
    pthread_mutex_unlock(&door);
    DONE(known ? OK : INVALID_VALUE);
}

API int cuMemUnmap(Pointer pointer, size_t bytes)
{
    CALL();
    pthread_mutex_lock(&door);
    for (Live *map = lives; map < lives + top; map++)
        if (map->kind == MAPPED && map->key >= pointer && map->key + map->bytes <= pointer + bytes) {
            Live *live = map->of;
            live->maps--;
            live_end(map);
            end_if_unused(live);
        }
    pthread_mutex_unlock(&door);
    DONE(OK);
}

API int cuMemRetainAllocationHandle(Pointer *handle, void *address)
{
    CALL();
    pthread_mutex_lock(&door);
    Live *map = live_find(MAPPED, (Pointer)address), *live = map == NULL ? NULL : map->of;
    if (live != NULL) {
        live->refs++;
        *handle = live->key;
    }
    pthread_mutex_unlock(&door);
    DONE(live != NULL ? OK : INVALID_VALUE);
}

API int cuMemExportToShareableHandle(void *into, Pointer handle, int type, unsigned long long flags)
{
    CALL();
    (void)type, (void)flags;
    memcpy(into, &handle, 4);
    DONE(OK);
}
API int cuMemImportFromShareableHandle(Pointer *handle, void *from, int type)
{
    CALL();
    (void)from, (void)type;
    pthread_mutex_lock(&door);
    *handle = fresh_key(PAGE);
    (void)live_new(IMPORTED, *handle, 0, 0);
    pthread_mutex_unlock(&door);
    DONE(OK);
}

/* Tiles of a sparse array are not kept apart here: only that the call is there. */
API int cuMemMapArrayAsync(void *list, unsigned count, void *stream) { CALL(); (void)list, (void)count, (void)stream; DONE(OK); }
API int cuMemMapArrayAsync_ptsz(void *list, unsigned count, void *stream) { CALL(); (void)list, (void)count, (void)stream; DONE(OK); }

static uint64_t element(int format)
{
    return format == 0x20 || format == 3 || format == 10 ? 4 : format == 0x10 || format == 2 || format == 9 ? 2 : 1;
}
static uint64_t solid_bytes(const Solid *wanted)
{
    uint64_t rows = (wanted->height ? wanted->height : 1) * (wanted->depth ? wanted->depth : 1);
    return wanted->flags & SPARSE_OR_DEFERRED ? 0 : up(wanted->width * wanted->channels * element(wanted->format), 64) * rows;
}
static int make_array(const char *function, Pointer *array, const Solid *wanted, uint64_t part)
{
    Device device;
    int code = current_device(&device);
    uint64_t bytes = solid_bytes(wanted) + part;
    note("%s %llu", function, (unsigned long long)bytes);
    return code == OK ? take(ARRAY, bytes, device, array) : code;
}

API int cuArrayCreate_v2(Pointer *array, const Flat *wanted)
{
    CALL();
    Solid solid = { wanted->width, wanted->height, 0, wanted->format, wanted->channels, 0 };
    DONE(make_array(__func__, array, &solid, 0));
}
API int cuArray3DCreate_v2(Pointer *array, const Solid *wanted) { CALL(); DONE(make_array(__func__, array, wanted, 0)); }
API int cuMipmappedArrayCreate(Pointer *array, const Solid *wanted, unsigned levels)
{
    CALL();
    DONE(make_array(__func__, array, wanted, levels > 1 ? solid_bytes(wanted) / 3 : 0));
}
API int cuArrayCreate(Pointer *array, const unsigned wanted[4])
{
    CALL();
    Solid solid = { wanted[0], wanted[1], 0, (int)wanted[2], wanted[3], 0 };
    DONE(make_array(__func__, array, &solid, 0));
}
API int cuArray3DCreate(Pointer *array, const unsigned wanted[6])
{
    CALL();
    Solid solid = { wanted[0], wanted[1], wanted[2], (int)wanted[3], wanted[4], wanted[5] };
    DONE(make_array(__func__, array, &solid, 0));
}
static int end_array(Pointer array)
{
    pthread_mutex_lock(&door);
    Live *live = live_find(ARRAY, array);
    if (live != NULL) {
        truth_give(card_of(live->device), live->bytes);
        live_end(live);
    }
    pthread_mutex_unlock(&door);
    return live != NULL ? OK : INVALID_HANDLE;
}
API int cuArrayDestroy(Pointer array) { CALL(); DONE(end_array(array)); }
API int cuMipmappedArrayDestroy(Pointer array) { CALL(); DONE(end_array(array)); }
