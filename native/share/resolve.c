/* The table of what we know, and the choosers of dlsym and dlvsym: who asks for a function of the driver gets our hook, if the driver has it. */
#include "known.h"

struct choice {
    void *value;
    long is_final; /* else the real one decides */
};
typedef void *(*Dlsym)(void *, const char *);
typedef void *(*Dlvsym)(void *, const char *, const char *);
static const struct choice PASS_ON;
#define ANY_OBJECT ((void *)0)   /* RTLD_DEFAULT */
#define NEXT_OBJECT ((void *)-1) /* RTLD_NEXT */

#define HOOK(symbol, base, since, kind) extern char symbol[];
CUDA_HOOKS(HOOK) NVML_HOOKS(HOOK)
#undef HOOK
extern char dlsym[], dlvsym[];

const struct known KNOWN[NAMES] = {
#define USED(symbol) [N_##symbol] = {#symbol, NULL, NULL, 0, 0, LIBRARY_CUDA},
#define HOOK(symbol, base, since, kind) [N_##symbol] = {#symbol, #base, symbol, since, kind, LIBRARY_CUDA},
    CUDA_HOOKS(HOOK) CUDA_USED(USED)
#undef USED
#undef HOOK
#define USED(symbol) [N_##symbol] = {#symbol, NULL, NULL, 0, 0, LIBRARY_NVML},
#define HOOK(symbol, base, since, kind) [N_##symbol] = {#symbol, #base, symbol, since, kind, LIBRARY_NVML},
    NVML_HOOKS(HOOK) NVML_USED(USED)
#undef USED
#undef HOOK
};
static void *reals[NAMES];

void real_is(enum name name, void *function) {
    __atomic_store_n(&reals[name], function, __ATOMIC_RELAXED);
}

void *real(enum name name) {
    void *found = __atomic_load_n(&reals[name], __ATOMIC_RELAXED);
    if (found == NULL && (found = function_in(KNOWN[name].library, KNOWN[name].symbol)) != NULL)
        real_is(name, found);
    return found;
}

static void *nothing(void) {
    return NULL;
}

/* Read by the jumps in dlsym.c. */
__attribute__((visibility("hidden"))) void *fairy_real_dlsym, *fairy_real_dlvsym;

static void find_real(void **real_one, const char *symbol) {
    if (*real_one != NULL && *real_one != (void *)nothing)
        return;
    void *found = function_in(LIBRARY_C, symbol);
    *real_one = found != NULL ? found : (void *)nothing;
}

static int hook_called(const char *symbol) {
    for (int i = 0; i < LAST_HOOK; i++)
        if (same_text(KNOWN[i].symbol, symbol))
            return i;
    return -1;
}

/* "No such symbol", as the real dlsym says it, dlerror included: libc surely has none, whereas in the whole program there are ours. */
static void *refused(const char *symbol) {
    enum { LAZY_AND_LOADED = 1 | 4 };
    void *(*open)(const char *, int) = function_in(LIBRARY_C, "dlopen");
    void *libc = open != NULL ? open("libc.so.6", LAZY_AND_LOADED) : NULL;
    return libc != NULL ? ((Dlsym)fairy_real_dlsym)(libc, symbol) : NULL;
}

static struct choice final(void *value) {
    return (struct choice){value, 1};
}

static struct choice choose_hook(int hook, void *handle, const char *symbol, const char *version) {
    void *found = NULL;
    if (handle != ANY_OBJECT && handle != NEXT_OBJECT) {
        found = version != NULL ? ((Dlvsym)fairy_real_dlvsym)(handle, symbol, version) : ((Dlsym)fairy_real_dlsym)(handle, symbol);
        if (found == NULL)
            return final(NULL); /* an older driver lacks it: so do we */
        if (found != KNOWN[hook].hook)
            return final(is_in(KNOWN[hook].library, found) ? KNOWN[hook].hook : found);
    }
    return final(real(hook) != NULL ? KNOWN[hook].hook : refused(symbol));
}

static struct choice choose(void *handle, const char *symbol, const char *version) {
    if (symbol == NULL)
        return PASS_ON;
    if (begins_with(symbol, "cu") || begins_with(symbol, "nvml")) {
        int hook = hook_called(symbol);
        return hook < 0 ? PASS_ON : choose_hook(hook, handle, symbol, version);
    }
    bool is_own = same_text(symbol, "dlsym"), is_versioned = same_text(symbol, "dlvsym");
    if ((!is_own && !is_versioned) || handle == ANY_OBJECT || handle == NEXT_OBJECT)
        return PASS_ON;
    void *found = version != NULL ? ((Dlvsym)fairy_real_dlvsym)(handle, symbol, version) : ((Dlsym)fairy_real_dlsym)(handle, symbol);
    if (found == NULL || !is_in(LIBRARY_C, found))
        return final(found);
    return final(is_own ? dlsym : dlvsym);
}

__attribute__((visibility("hidden"))) struct choice fairy_choose_dlsym(void *handle, const char *symbol) {
    find_real(&fairy_real_dlsym, "dlsym");
    return choose(handle, symbol, NULL);
}

__attribute__((visibility("hidden"))) struct choice fairy_choose_dlvsym(void *handle, const char *symbol, const char *version) {
    find_real(&fairy_real_dlsym, "dlsym");
    find_real(&fairy_real_dlvsym, "dlvsym");
    return version == NULL ? PASS_ON : choose(handle, symbol, version);
}
