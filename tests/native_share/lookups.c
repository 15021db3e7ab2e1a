/* Asks the loader for names, in every way, and prints what it says: with our library and without, it must say the same where there is no CUDA. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern int cuMemAlloc_v2(unsigned long long *, size_t) __attribute__((weak));
extern int nvmlDeviceGetMemoryInfo(void *, void *) __attribute__((weak));
extern int next_calls(void) __attribute__((weak));

static const char *said(void *found)
{
    const char *error = dlerror();
    return found != NULL ? "found" : error == NULL ? "nothing, without a word" : strstr(error, "undefined symbol: ") ? strstr(error, "undefined symbol: ") : error;
}

int main(int argc, char **argv)
{
    static const char *const NAMES[] = { "cuMemAlloc_v2", "nvmlDeviceGetMemoryInfo_v2", "cuNothing", "malloc", "dlsym", "" };
    void *whole = dlopen(NULL, RTLD_LAZY), *libc = dlopen("libc.so.6", RTLD_LAZY);
    (void)argv;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        (void)dlerror();
        printf("default %s: %s\n", NAMES[i], said(dlsym(RTLD_DEFAULT, NAMES[i])));
        printf("next %s: %s\n", NAMES[i], said(dlsym(RTLD_NEXT, NAMES[i])));
        printf("whole %s: %s\n", NAMES[i], said(dlsym(whole, NAMES[i])));
        printf("libc %s: %s\n", NAMES[i], said(dlsym(libc, NAMES[i])));
    }
    printf("versioned: %s\n", said(dlvsym(libc, "malloc", "GLIBC_2.2.5") ? whole : dlvsym(libc, "malloc", "GLIBC_2.17")));
    printf("versioned wrongly: %d\n", dlvsym(libc, "malloc", "NO_1.0") != NULL);
    printf("same malloc: %d\n", dlsym(RTLD_DEFAULT, "malloc") == dlsym(whole, "malloc"));
    if (next_calls != NULL)
        printf("the interposer was called: %d\n", next_calls() > 0);
    if (argc > 1 && cuMemAlloc_v2 != NULL) /* only with our library in front */
        printf("%d %d\n", cuMemAlloc_v2(NULL, 1), nvmlDeviceGetMemoryInfo(NULL, NULL));
    return 0;
}
