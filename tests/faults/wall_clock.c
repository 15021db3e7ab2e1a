/* A clock on the wall that jumps: the seconds in the file $WALL_CLOCK are added to what the kernel says. The steady clocks stay as they are.
   Preloaded into a server by test_fault_clock.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long *wrong_by;
static const long nothing = 0;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("WALL_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    wrong_by = mapped == MAP_FAILED ? &nothing : mapped;
    if (file >= 0)
        close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && wrong_by != NULL)
        now->tv_sec += *wrong_by;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
