/* A static program, in which no preloaded library is. Part of the isolation self-test.
   probe-static LIBCUDA BYTES: takes up to so many of a GPU, prints one line of JSON with what it got, and gives all back by ending.
   probe-static --loader LOADER PROGRAM…: starts a dynamic program by a loader in its own memory that knows of no list of libraries. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, MULTIPROCESSORS = 16 };
static const size_t PAGE = 2u << 20, LARGEST = (size_t)4 << 30;

static _Noreturn void give_up(const char *what, int code) {
    if (code == OUT_OF_MEMORY || code == 46 || code == 100 || code == 101 || (code >= 805 && code <= 809)) /* not let in: an answer, as any */
        printf("{\"got_bytes\": 0, \"sms\": 0, \"words\": \"%s: CUDA error %d\"}\n", what, code);
    else
        printf("{\"error\": \"%s: error %d\"}\n", what, code);
    exit(0);
}

/* Straight from dlsym as this program has it, which nobody else has put there. */
static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL)
        give_up(name, -1);
    return found;
}

static size_t take(int (*allocate)(uint64_t *, size_t), size_t enough) {
    size_t got = 0, chunk = LARGEST;
    while (got < enough) {
        size_t left = (enough - got + PAGE - 1) / PAGE * PAGE, size = left < chunk ? left : chunk;
        uint64_t pointer = 0;
        int code = allocate(&pointer, size);
        if (code == 0) {
            got += size;
            continue;
        }
        if (code != OUT_OF_MEMORY)
            give_up("cuMemAlloc", code);
        if (size <= PAGE)
            break;
        chunk = size / 2 / PAGE * PAGE;
        if (chunk < PAGE)
            chunk = PAGE;
    }
    return got;
}

/* Does not return: the program it starts prints what there is to print. */
static _Noreturn void start_by_own_loader(char **words) {
    static const char list[] = "/etc/ld.so.preload", none[] = "/etc/ld.so.prel0ad";
    struct stat found;
    int file = open(words[0], O_RDONLY | O_CLOEXEC);
    int copy = memfd_create("loader", 0);
    if (file < 0 || copy < 0 || fstat(file, &found) != 0 || found.st_size <= 0)
        give_up("a copy of the loader", -1);
    char *text = malloc((size_t)found.st_size);
    if (text == NULL || read(file, text, (size_t)found.st_size) != found.st_size)
        give_up("a copy of the loader", -1);
    char *place = memmem(text, (size_t)found.st_size, list, sizeof list);
    if (place == NULL)
        give_up("the list's name in the loader", -1);
    memcpy(place, none, sizeof none);
    if (write(copy, text, (size_t)found.st_size) != found.st_size)
        give_up("a copy of the loader", -1);
    (void)execveat(copy, "", words, environ, AT_EMPTY_PATH);
    give_up("a loader in memory", -1);
}

int main(int count, char **words) {
    if (count > 3 && strcmp(words[1], "--loader") == 0)
        start_by_own_loader(words + 2);
    if (count != 3)
        give_up("two arguments are needed", count);
    void *library = dlopen(words[1], RTLD_NOW);
    if (library == NULL) {
        printf("{\"error\": \"a static program cannot load libcuda here\"}\n");
        return 0;
    }
    int (*begin)(unsigned) = (int (*)(unsigned))find(library, "cuInit");
    int (*device_of)(int *, int) = (int (*)(int *, int))find(library, "cuDeviceGet");
    int (*retain)(void **, int) = (int (*)(void **, int))find(library, "cuDevicePrimaryCtxRetain");
    int (*enter)(void *) = (int (*)(void *))find(library, "cuCtxSetCurrent");
    int (*attribute)(int *, int, int) = (int (*)(int *, int, int))dlsym(library, "cuDeviceGetAttribute");
    int (*allocate)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))find(library, "cuMemAlloc_v2");
    int device = 0, sms = 0, code;
    void *context = NULL;
    if ((code = begin(0)) != 0)
        give_up("cuInit", code);
    if ((code = device_of(&device, 0)) != 0)
        give_up("cuDeviceGet", code);
    if ((code = retain(&context, device)) != 0 || (code = enter(context)) != 0)
        give_up("a context", code);
    if (attribute == NULL || attribute(&sms, MULTIPROCESSORS, device) != 0)
        sms = 0;
    size_t got = take(allocate, (size_t)strtoull(words[2], NULL, 10));
    printf(sms > 0 ? "{\"got_bytes\": %zu, \"sms\": %d}\n" : "{\"got_bytes\": %zu}\n", got, sms);
    fflush(stdout);
    _Exit(0); /* a driver's library is not always one that can be unloaded */
}
