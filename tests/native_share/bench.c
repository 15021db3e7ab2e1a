/* What a hook costs: nanoseconds of an allocation and its free, best of several rounds. Argument: pairs a round. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 20 };
typedef unsigned long long Pointer;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    int pairs = argc > 1 ? atoi(argv[1]) : 20000;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*use)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    int (*take)(Pointer *, size_t) = (int (*)(Pointer *, size_t))dlsym(library, "cuMemAlloc_v2");
    int (*give)(Pointer) = (int (*)(Pointer))dlsym(library, "cuMemFree_v2");
    double best = 1e18;
    if (init == NULL || init(0) != 0 || retain(&context, 0) != 0 || use(context) != 0)
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        double began = now_ns();
        for (int i = 0; i < pairs; i++) {
            Pointer pointer;
            if (take(&pointer, 2 << 20) != 0 || give(pointer) != 0)
                return 2;
        }
        double each = (now_ns() - began) / pairs;
        best = each < best ? each : best;
    }
    printf("%.1f\n", best);
    return 0;
}
