/* A CUDA program for the tests: takes its orders by lines and answers each with one. Its first word says how it finds the driver's functions:
   linked, dlsym, default (RTLD_DEFAULT), dlvsym, address11, address12 (cuGetProcAddress as of 11.3 and 12.0), ptsz, address12-ptsz. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long Pointer;
typedef struct { int type, handles, where, device; void *security; unsigned char rest[72]; } Properties; /* of handles and pools */
typedef struct { int type, handles, where, device; void *security; size_t most; unsigned char rest[56]; const void *access; size_t count, bytes; Pointer pointer; } AllocNode;
typedef struct { int type, reserved[3]; union { AllocNode alloc; unsigned char room[232]; }; long long last; } NodeParams;
typedef struct { size_t width, height; int format; unsigned channels; } Flat;
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } Solid;

/* F(function, name for cuGetProcAddress, version, has a variant for the thread's own stream, arguments) */
#define FUNCTIONS \
    F(cuInit, cuInit, 2000, 0, (unsigned)) F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 0, (void **, int)) \
    F(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, 0, (int)) F(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, 0, (int)) \
    F(cuCtxSetCurrent, cuCtxSetCurrent, 4000, 0, (void *)) F(cuCtxCreate_v2, cuCtxCreate, 3020, 0, (void **, unsigned, int)) \
    F(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0, (void *)) F(cuCtxSetLimit, cuCtxSetLimit, 3010, 0, (int, size_t)) \
    F(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0, (size_t *, size_t *)) F(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0, (size_t *, int)) \
    F(cuMemAlloc_v2, cuMemAlloc, 3020, 0, (Pointer *, size_t)) F(cuMemFree_v2, cuMemFree, 3020, 0, (Pointer)) \
    F(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0, (Pointer *, size_t *, size_t, size_t, unsigned)) \
    F(cuMemAllocManaged, cuMemAllocManaged, 6000, 0, (Pointer *, size_t, unsigned)) \
    F(cuMemAllocAsync, cuMemAllocAsync, 11020, 1, (Pointer *, size_t, void *)) F(cuMemFreeAsync, cuMemFreeAsync, 11020, 1, (Pointer, void *)) \
    F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 1, (Pointer *, size_t, void *, void *)) \
    F(cuMemPoolCreate, cuMemPoolCreate, 11020, 0, (void **, const void *)) F(cuMemPoolDestroy, cuMemPoolDestroy, 11020, 0, (void *)) \
    F(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, 0, (void *, size_t)) F(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, 0, (void **, int)) \
    F(cuStreamSynchronize, cuStreamSynchronize, 7000, 1, (void *)) F(cuStreamCreate, cuStreamCreate, 2000, 0, (void **, unsigned)) \
    F(cuMemCreate, cuMemCreate, 10020, 0, (Pointer *, size_t, const void *, Pointer)) F(cuMemRelease, cuMemRelease, 10020, 0, (Pointer)) \
    F(cuMemAddressReserve, cuMemAddressReserve, 10020, 0, (Pointer *, size_t, size_t, Pointer, Pointer)) \
    F(cuMemMap, cuMemMap, 10020, 0, (Pointer, size_t, size_t, Pointer, Pointer)) F(cuMemUnmap, cuMemUnmap, 10020, 0, (Pointer, size_t)) \
    F(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, 0, (Pointer *, void *)) \
    F(cuArrayCreate_v2, cuArrayCreate, 3020, 0, (Pointer *, const Flat *)) F(cuArray3DCreate_v2, cuArray3DCreate, 3020, 0, (Pointer *, const Solid *)) \
    F(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, 0, (Pointer *, const Solid *, unsigned)) \
    F(cuArrayDestroy, cuArrayDestroy, 2000, 0, (Pointer)) F(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, 0, (Pointer)) \
    F(cuGraphCreate, cuGraphCreate, 10000, 0, (void **, unsigned)) F(cuGraphExecDestroy, cuGraphExecDestroy, 10000, 0, (void *)) \
    F(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, 0, (void **, void *, void *, size_t, AllocNode *)) \
    F(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, 0, (void **, void *, void *, size_t, Pointer)) \
    F(cuGraphAddNode_v2, cuGraphAddNode, 12030, 0, (void **, void *, void *, void *, size_t, NodeParams *)) \
    F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, 0, (void **, void *, Pointer)) \
    F(cuGraphLaunch, cuGraphLaunch, 10000, 1, (void *, void *)) F(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, 0, (int)) \
    F(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, 0, (void *, int)) F(cuStreamEndCapture, cuStreamEndCapture, 10000, 0, (void *, void **))
#ifdef LINKED
#define F(name, base, since, has_ptsz, arguments) extern int name arguments;
FUNCTIONS
#undef F
#define ADDRESS(name) (void *)name
#else
#define ADDRESS(name) NULL
#endif
static struct {
#define F(name, base, since, has_ptsz, arguments) int(*name) arguments;
    FUNCTIONS
#undef F
} driver;

enum { MOST = 4096, COLUMNS = 1024, HEAP = 2, KEPT_HEAP = 8 << 20 };
static struct taken { char kind[16]; Pointer key, more; size_t bytes; } taken[MOST];
static int count, device;
static void *pool, *stream;

static void *find(const char *way, void *linked, const char *symbol, const char *base, int since, bool has_ptsz)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | (strcmp(way, "default") == 0 ? RTLD_GLOBAL : RTLD_LOCAL)), *found = NULL;
    char name[64];
    int status = 0;
    bool is_ptsz = strstr(way, "ptsz") != NULL && has_ptsz;
    snprintf(name, sizeof name, "%s%s", symbol, is_ptsz ? "_ptsz" : "");
    if (strcmp(way, "linked") == 0)
        return linked;
    if (strcmp(way, "default") == 0)
        return dlsym(RTLD_DEFAULT, name);
    if (strcmp(way, "dlvsym") == 0)
        return dlvsym(library, name, "FAKE_CUDA_1");
    if (strcmp(way, "address11") == 0) {
        int (*get)(const char *, void **, int, uint64_t) = (int (*)(const char *, void **, int, uint64_t))dlsym(library, "cuGetProcAddress");
        return get(base, &found, since, 0) == 0 ? found : NULL;
    }
    if (strncmp(way, "address12", 9) == 0) {
        int (*get)(const char *, void **, int, uint64_t, int *) = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");
        return get(base, &found, since > 12000 ? since : 12000, is_ptsz ? 2 : 0, &status) == 0 && status == 0 ? found : NULL;
    }
    return dlsym(library, name);
}

static AllocNode node_of(size_t bytes) { return (AllocNode){ .type = 1, .where = 1, .device = device, .bytes = bytes }; }

static int launch(void *graph, Pointer *exec)
{
    int code = driver.cuGraphInstantiateWithFlags((void **)exec, graph, 0);
    return code != 0 ? code : driver.cuGraphLaunch((void *)*exec, NULL);
}

static int take_graph(struct taken *into, size_t bytes)
{
    NodeParams general = { .type = 10, .alloc = node_of(bytes) };
    AllocNode alloc = node_of(bytes);
    void *graph = NULL, *node;
    int code = driver.cuGraphCreate(&graph, 0);
    if (strcmp(into->kind, "captured") == 0) {
        Pointer pointer;
        code = stream == NULL ? driver.cuStreamCreate(&stream, 0) : 0;
        code = code != 0 ? code : driver.cuStreamBeginCapture_v2(stream, 0);
        code = code != 0 ? code : driver.cuMemAllocAsync(&pointer, bytes, stream);
        int ended = driver.cuStreamEndCapture(stream, &graph);
        code = code != 0 ? code : ended;
    } else if (strcmp(into->kind, "addnode") == 0)
        code = driver.cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &general);
    else
        code = driver.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc);
    if (code == 0 && strcmp(into->kind, "scratch") == 0) /* frees itself what it took */
        code = driver.cuGraphAddMemFreeNode(&node, graph, NULL, 0, alloc.pointer);
    return code != 0 ? code : launch(graph, &into->key);
}

static int take_physical(struct taken *into, size_t bytes)
{
    Properties how = { .type = 1, .where = 1, .device = device };
    int code = driver.cuMemCreate(&into->key, bytes, &how, 0);
    if (code != 0 || strcmp(into->kind, "create") == 0)
        return code;
    code = driver.cuMemAddressReserve(&into->more, bytes, 0, 0, 0);
    code = code != 0 ? code : driver.cuMemMap(into->more, bytes, 0, into->key, 0);
    return code != 0 || strcmp(into->kind, "held") == 0 ? code : driver.cuMemRelease(into->key);
}

static int take(const char *kind, size_t bytes)
{
    struct taken *into = &taken[count];
    Properties how = { .type = 1, .where = 1, .device = device };
    Solid solid = { bytes / COLUMNS, COLUMNS / 16, 16, 1, 1, 0 };
    size_t pitch;
    int code = -1;
    *into = (struct taken){ .bytes = bytes };
    snprintf(into->kind, sizeof into->kind, "%s", kind);
    if (count + 1 == MOST)
        return -1;
    if (strcmp(kind, "plain") == 0)
        code = driver.cuMemAlloc_v2(&into->key, bytes);
    else if (strcmp(kind, "pitch") == 0)
        code = driver.cuMemAllocPitch_v2(&into->key, &pitch, bytes / COLUMNS, COLUMNS, 4);
    else if (strcmp(kind, "managed") == 0)
        code = driver.cuMemAllocManaged(&into->key, bytes, 1);
    else if (strcmp(kind, "async") == 0)
        code = driver.cuMemAllocAsync(&into->key, bytes, stream);
    else if (strcmp(kind, "pool") == 0)
        code = pool == NULL && (code = driver.cuMemPoolCreate(&pool, &how)) != 0 ? code : driver.cuMemAllocFromPoolAsync(&into->key, bytes, pool, stream);
    else if (strcmp(kind, "create") == 0 || strcmp(kind, "mapped") == 0 || strcmp(kind, "held") == 0)
        code = take_physical(into, bytes);
    else if (strcmp(kind, "array") == 0)
        code = driver.cuArrayCreate_v2(&into->key, &(Flat){ bytes / COLUMNS, COLUMNS, 1, 1 });
    else if (strcmp(kind, "array3d") == 0)
        code = driver.cuArray3DCreate_v2(&into->key, &solid);
    else if (strcmp(kind, "mipmap") == 0)
        code = driver.cuMipmappedArrayCreate(&into->key, &solid, 1);
    else if (strcmp(kind, "context") == 0)
        code = driver.cuCtxCreate_v2((void **)&into->key, 0, device);
    else if (strcmp(kind, "heap") == 0)
        code = driver.cuCtxSetLimit(HEAP, KEPT_HEAP + bytes);
    else
        code = take_graph(into, bytes);
    count += code == 0;
    return code;
}

static int give(int at)
{
    struct taken was = taken[at];
    taken[at] = taken[--count];
    if (strcmp(was.kind, "async") == 0 || strcmp(was.kind, "pool") == 0)
        return driver.cuMemFreeAsync(was.key, stream);
    if (strcmp(was.kind, "create") == 0)
        return driver.cuMemRelease(was.key);
    if (strcmp(was.kind, "mapped") == 0)
        return driver.cuMemUnmap(was.more, was.bytes);
    if (strcmp(was.kind, "held") == 0)
        return driver.cuMemRelease(was.key) | driver.cuMemUnmap(was.more, was.bytes);
    if (strcmp(was.kind, "mipmap") == 0)
        return driver.cuMipmappedArrayDestroy(was.key);
    if (strncmp(was.kind, "array", 5) == 0)
        return driver.cuArrayDestroy(was.key);
    if (strcmp(was.kind, "context") == 0)
        return driver.cuCtxDestroy_v2((void *)was.key);
    if (strcmp(was.kind, "heap") == 0)
        return driver.cuCtxSetLimit(HEAP, KEPT_HEAP);
    if (strcmp(was.kind, "plain") == 0 || strcmp(was.kind, "pitch") == 0 || strcmp(was.kind, "managed") == 0)
        return driver.cuMemFree_v2(was.key);
    return driver.cuGraphExecDestroy((void *)was.key);
}

static int give_all(void)
{
    int code = 0;
    void *shared;
    while (count > 0)
        code |= give(count - 1);
    if (driver.cuDeviceGetDefaultMemPool(&shared, device) == 0)
        code |= driver.cuMemPoolTrimTo(shared, 0);
    if (pool != NULL)
        code |= driver.cuMemPoolTrimTo(pool, 0);
    return code | driver.cuDeviceGraphMemTrim(device);
}

/* Takes and gives at random. Answers how many were granted and how many refused; anything but those two ends it. */
static int hammer(const char *kind, int rounds, size_t most, unsigned seed, int *granted, int *refused)
{
    for (int i = 0; i < rounds; i++) {
        size_t bytes = ((size_t)rand_r(&seed) % (most >> 21) + 1) << 21;
        int code = count > 0 && rand_r(&seed) % 2 ? give((int)((unsigned)rand_r(&seed) % (unsigned)count)) : take(kind, bytes);
        *granted += code == 0;
        *refused += code == 2;
        if (code != 0 && code != 2)
            return code;
    }
    return give_all();
}

static void *hammer_thread(void *given)
{
    unsigned seed = (unsigned)(uintptr_t)given;
    Pointer mine[8];
    int held = 0;
    void *context;
    if (driver.cuDevicePrimaryCtxRetain(&context, device) != 0 || driver.cuCtxSetCurrent(context) != 0)
        return "no context";
    for (int i = 0; i < 2000; i++) {
        if (held == 8 || (held > 0 && rand_r(&seed) % 2)) {
            if (driver.cuMemFree_v2(mine[--held]) != 0)
                return "not freed";
        } else if (driver.cuMemAlloc_v2(&mine[held], ((size_t)rand_r(&seed) % 4 + 1) << 21) == 0)
            held++;
    }
    while (held > 0)
        (void)driver.cuMemFree_v2(mine[--held]);
    return driver.cuDevicePrimaryCtxRelease_v2(device) == 0 ? NULL : "not released";
}

static const char *threads(int wanted)
{
    pthread_t all[64];
    const char *why = "fine";
    void *said;
    for (int i = 0; i < wanted; i++)
        pthread_create(&all[i], NULL, hammer_thread, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < wanted; i++)
        if (pthread_join(all[i], &said) == 0 && said != NULL)
            why = said;
    return why;
}

/* Forks while other threads are inside the library: whatever they hold of it at that moment, a child must not wait for them. */
static const char *storm(int wanted)
{
    pthread_t all[4];
    const char *why = "fine";
    size_t left, whole;
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, hammer_thread, (void *)(i + 1));
    for (int i = 0; i < wanted; i++) {
        pid_t child = fork();
        if (child == 0) {
            Pointer pointer;
            alarm(20);
            _exit(driver.cuMemAlloc_v2(&pointer, 1) == 3 && driver.cuMemGetInfo_v2(&left, &whole) == 3 && driver.cuMemFree_v2(1) == 3 ? 0 : 1);
        }
        int how = 1;
        if (waitpid(child, &how, 0) != child || how != 0)
            why = "a child failed";
    }
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    return why;
}

static bool obey(char *line);

/* The child's answer is the last word: what the order says there. */
static void in_child(char *order)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (char *one = strtok(order, ";"); one != NULL; one = strtok(NULL, ";"))
            (void)obey(one);
        fflush(stdout);
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

static bool obey(char *line)
{
    char word[32] = "", kind[32] = "";
    unsigned long long a = 0, b = 0, c = 0;
    size_t left = 0, all = 0;
    int granted = 0, refused = 0, code = 0;
    void *context;
    sscanf(line, "%31s", word);
    if (strcmp(word, "begin") == 0) { /* begin DEVICE */
        sscanf(line, "%*s %d", &device);
        code = driver.cuInit(0);
        code = code != 0 ? code : driver.cuDevicePrimaryCtxRetain(&context, device);
        printf("%d\n", code != 0 ? code : driver.cuCtxSetCurrent(context));
    } else if (strcmp(word, "init") == 0) {
        sscanf(line, "%*s %d", &device);
        printf("%d\n", driver.cuInit(0));
    } else if (strcmp(word, "take") == 0 && sscanf(line, "%*s %31s %llu", kind, &a) == 2)
        printf("%d\n", take(kind, a));
    else if (strcmp(word, "fill") == 0 && sscanf(line, "%*s %31s %llu", kind, &a) == 2) {
        while ((code = take(kind, a)) == 0)
            granted++;
        printf("%d %d\n", granted, code);
    } else if (strcmp(word, "give") == 0)
        printf("%d\n", give(count - 1));
    else if (strcmp(word, "give_all") == 0)
        printf("%d\n", give_all());
    else if (strcmp(word, "info") == 0) {
        code = driver.cuMemGetInfo_v2(&left, &all);
        printf("%d %zu %zu\n", code, left, all);
    } else if (strcmp(word, "total") == 0) {
        code = driver.cuDeviceTotalMem_v2(&all, device);
        printf("%d %zu\n", code, all);
    } else if (strcmp(word, "sync") == 0)
        printf("%d\n", driver.cuStreamSynchronize(NULL));
    else if (strcmp(word, "reset") == 0)
        printf("%d\n", driver.cuDevicePrimaryCtxReset_v2(device));
    else if (strcmp(word, "release") == 0)
        printf("%d\n", driver.cuDevicePrimaryCtxRelease_v2(device));
    else if (strcmp(word, "unpool") == 0)
        printf("%d\n", driver.cuMemPoolDestroy(pool));
    else if (strcmp(word, "hammer") == 0 && sscanf(line, "%*s %31s %llu %llu %llu", kind, &a, &b, &c) == 4) {
        code = hammer(kind, (int)a, b, (unsigned)c, &granted, &refused);
        printf("%d %d %d\n", code, granted, refused);
    } else if (strcmp(word, "threads") == 0 && sscanf(line, "%*s %llu", &a) == 1)
        printf("%s\n", threads((int)a));
    else if (strcmp(word, "storm") == 0 && sscanf(line, "%*s %llu", &a) == 1)
        printf("%s\n", storm((int)a));
    else if (strcmp(word, "retain") == 0)
        printf("%d\n", driver.cuMemRetainAllocationHandle(&taken[count - 1].key, (void *)taken[count - 1].more));
    else if (strcmp(word, "drop") == 0)
        printf("%d\n", driver.cuMemRelease(taken[count - 1].key));
    else if (strcmp(word, "fork") == 0)
        in_child(line + 5);
    else if (strcmp(word, "closeall") == 0) {
        for (int file = 3; file < 1024; file++)
            (void)close(file);
        printf("0\n");
    } else if (strcmp(word, "env") == 0 && sscanf(line, "%*s %31s", kind) == 1)
        printf("%s\n", getenv(kind) ? getenv(kind) : "-");
    else
        return false;
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    static char line[4096];
    const char *way = argc > 1 ? argv[1] : "dlsym";
#define F(name, base, since, has_ptsz, arguments) \
    if ((driver.name = (int(*) arguments)find(way, ADDRESS(name), #name, #base, since, has_ptsz)) == NULL) \
        return printf("no %s by %s\n", #name, way), 1;
    FUNCTIONS
#undef F
    while (fgets(line, sizeof line, stdin) != NULL)
        if (!obey(line))
            return printf("what is %s", line), 2;
    return 0;
}
