/* System calls by hand, a lock on a futex, and the texts' functions. None of it touches errno or needs a symbol of libc. */
#include "system.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { FREE = 0, HELD = 1, HELD_AND_WAITED_FOR = 2 };

#if defined(__x86_64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return answer;
}
#elif defined(__aarch64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "libfairyshare.so knows x86_64 and aarch64"
#endif

#if !__STDC_HOSTED__ /* the compiler may ask for these two by itself, and must not find them in themselves */
void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        ((char *)to)[i] = ((const char *)from)[i];
        __asm__ volatile("");
    }
    return to;
}

void *memset(void *at, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        ((char *)at)[i] = (char)value;
        __asm__ volatile("");
    }
    return at;
}
#endif

int open_file(const char *path, int flags) {
    return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
}

void close_file(int file) {
    (void)system_call(SYS_close, file, 0, 0, 0, 0, 0);
}

long read_at(int file, void *into, size_t bytes, uint64_t offset) {
    return system_call(SYS_pread64, file, (long)into, (long)bytes, (long)offset, 0, 0);
}

static void *map(size_t bytes, int flags, int file) {
    long at = system_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

void *map_private(size_t bytes) {
    return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

void *map_shared(int file, size_t bytes) {
    return map(bytes, MAP_SHARED, file);
}

void unmap(void *at, size_t bytes) {
    (void)system_call(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}

int lock_byte(int file, int64_t byte, bool is_locked) {
    struct flock wanted = {.l_type = is_locked ? F_WRLCK : F_UNLCK, .l_whence = 0, .l_start = byte, .l_len = 1};
    return (int)system_call(SYS_fcntl, file, F_OFD_SETLK, (long)&wanted, 0, 0, 0);
}

bool is_byte_locked(int file, int64_t byte) {
    struct flock seen = {.l_type = F_WRLCK, .l_whence = 0, .l_start = byte, .l_len = 1};
    return system_call(SYS_fcntl, file, F_OFD_GETLK, (long)&seen, 0, 0, 0) == 0 && seen.l_type != F_UNLCK;
}

uint64_t now_us(void) {
    struct timespec now = {0};
    (void)system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void rest_us(unsigned microseconds) {
    struct timespec wanted = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    (void)system_call(SYS_nanosleep, (long)&wanted, 0, 0, 0, 0, 0);
}

int process_number(void) {
    return (int)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

void lock(uint32_t *word) {
    uint32_t seen = FREE;
    if (__atomic_compare_exchange_n(word, &seen, HELD, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(word, HELD_AND_WAITED_FOR, __ATOMIC_ACQUIRE) != FREE)
        (void)system_call(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, HELD_AND_WAITED_FOR, 0, 0, 0);
}

void unlock(uint32_t *word) {
    if (__atomic_exchange_n(word, FREE, __ATOMIC_RELEASE) == HELD_AND_WAITED_FOR)
        (void)system_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

bool same_text(const char *a, const char *b) {
    for (; *a == *b; a++, b++)
        if (*a == 0)
            return true;
    return false;
}

bool begins_with(const char *text, const char *start) {
    for (; *start != 0; text++, start++)
        if (*text != *start)
            return false;
    return true;
}

size_t text_length(const char *text) {
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}
