/* cuGetProcAddress, of 11.3 and of 12.0: the driver is asked first, with the caller's own version and flags; then its answer is wrapped. */
#include "known.h"

typedef Result (*GetProcAddress)(const char *, void **, int, uint64_t);
typedef Result (*GetProcAddress2)(const char *, void **, int, uint64_t, int *);

static bool answers_to(int hook, const char *base) {
    /* Since CUDA 12.0 this name means the function with flags alone. */
    return same_text(KNOWN[hook].base, base) || (hook == N_cuGraphInstantiateWithFlags && same_text(base, "cuGraphInstantiate"));
}

/* What the driver answers if asked for the very ABI that this hook has. */
static void *driver_answer(int hook, const char *base) {
    enum { GRAPH_FLAGS_ALONE = 12000 };
    void *found = NULL;
    uint64_t stream = (KNOWN[hook].kind & PER_THREAD) != 0 ? PER_THREAD_STREAM : 1;
    int version = same_text(KNOWN[hook].base, base) ? KNOWN[hook].since : GRAPH_FLAGS_ALONE, status = 0;
    GetProcAddress2 new_one = REAL(GetProcAddress2, cuGetProcAddress_v2);
    GetProcAddress old_one = REAL(GetProcAddress, cuGetProcAddress);
    Result result = new_one != NULL ? new_one(base, &found, version, stream, &status) : old_one(base, &found, version, stream);
    return result == 0 ? found : NULL;
}

/* The hook whose ABI the function has that the driver gave: by its address, never by its name. */
static int hook_before(const char *base, void *function) {
    int alike = -1;
    for (int i = 0; i < LAST_HOOK; i++)
        if (KNOWN[i].library == LIBRARY_CUDA && real(i) == function) {
            if (answers_to(i, base))
                return i;
            alike = i;
        }
    for (int i = 0; i < LAST_HOOK && alike < 0; i++)
        if (answers_to(i, base) && driver_answer(i, base) == function) {
            if (real(i) == NULL)
                real_is(i, function); /* not exported by its name */
            return i;
        }
    return alike;
}

static bool takes_memory(const char *base) {
    for (int i = 0; i < LAST_HOOK; i++)
        if ((KNOWN[i].kind & TAKES) != 0 && answers_to(i, base))
            return true;
    return false;
}

static Result wrapped(Result result, const char *base, void **function, int *status) {
    if (result != 0 || base == NULL || function == NULL || *function == NULL)
        return result;
    int hook = hook_before(base, *function);
    if (hook >= 0) {
        *function = KNOWN[hook].hook;
        return result;
    }
    if (!takes_memory(base))
        return result;
    /* A way to memory whose ABI came after us. Handed out it would pass us by, wrapped by guess it would crash: closed. */
    *function = NULL;
    if (status != NULL)
        *status = VERSION_NOT_SUFFICIENT;
    return CUDA_NOT_FOUND;
}

EXPORT Result cuGetProcAddress(const char *base, void **function, int version, uint64_t flags) {
    GetProcAddress driver = REAL(GetProcAddress, cuGetProcAddress);
    return driver == NULL ? CUDA_NOT_INITIALIZED : wrapped(driver(base, function, version, flags), base, function, NULL);
}

EXPORT Result cuGetProcAddress_v2(const char *base, void **function, int version, uint64_t flags, int *status) {
    GetProcAddress2 driver = REAL(GetProcAddress2, cuGetProcAddress_v2);
    return driver == NULL ? CUDA_NOT_INITIALIZED : wrapped(driver(base, function, version, flags, status), base, function, status);
}
