/* The accounts: a file shared by all processes. A robust mutex guards it; what the dead held is dropped, as a kernel driver would. */
#include "fake_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { int64_t pid, born; uint64_t bytes[MOST_CARDS]; } Holder;
typedef struct { /* read by build.py too: keep the first two fields */
    uint64_t peak[MOST_CARDS];
    Holder holders[MOST_PROCESSES];
    uint64_t is_made;
    pthread_mutex_t lock;
} Truth;
enum { EXITING = 4 }; /* the kernel's PF_EXITING: its descriptors are being closed */

static Truth *truth;
static Holder *mine;
static int64_t my_pid;

/* Born when, and is it on its way out? A number may be used again by another process. */
static int64_t birth(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (size <= 0)
        return 0;
    text[size] = 0;
    char *rest = strrchr(text, ')'), state = 0;
    unsigned flags = 0;
    long long born = 0;
    int seen = rest == NULL ? 0 : sscanf(rest + 2, "%c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld", &state, &flags, &born);
    return seen != 3 || state == 'Z' || state == 'X' || (flags & EXITING) ? 0 : born + 1;
}

static void make(int file)
{
    pthread_mutexattr_t how;
    (void)flock(file, LOCK_EX);
    if (!truth->is_made) {
        pthread_mutexattr_init(&how);
        pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&truth->lock, &how);
        truth->is_made = 1;
    }
    (void)flock(file, LOCK_UN);
}

static void attach(void)
{
    const char *path = getenv("FAKE_CUDA_TRUTH");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, sizeof *truth) != 0)
        abort();
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (truth == MAP_FAILED)
        abort();
    make(file);
    close(file);
}

static void lock(void)
{
    if (truth == NULL)
        attach();
    if (pthread_mutex_lock(&truth->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&truth->lock);
}

static void drop_dead(void)
{
    for (Holder *holder = truth->holders; holder < truth->holders + MOST_PROCESSES; holder++)
        if (holder->pid != 0 && birth(holder->pid) != holder->born)
            memset(holder, 0, sizeof *holder);
}

static Holder *my_holder(void)
{
    if (mine != NULL && my_pid == getpid())
        return mine;
    my_pid = getpid();
    for (Holder *holder = truth->holders; holder < truth->holders + MOST_PROCESSES; holder++)
        if (holder->pid == 0 || birth(holder->pid) != holder->born) {
            memset(holder, 0, sizeof *holder);
            holder->pid = my_pid;
            holder->born = birth(my_pid);
            return mine = holder;
        }
    abort();
}

static uint64_t sum(int card)
{
    uint64_t all = 0;
    for (Holder *holder = truth->holders; holder < truth->holders + MOST_PROCESSES; holder++)
        all += holder->bytes[card];
    return all;
}

bool truth_take(int card, uint64_t bytes, uint64_t capacity)
{
    lock();
    Holder *holder = my_holder();
    if (sum(card) + bytes > truth->peak[card] || sum(card) + bytes > capacity)
        drop_dead();
    uint64_t all = sum(card) + bytes;
    bool fits = all <= capacity && all >= bytes;
    if (fits)
        holder->bytes[card] += bytes;
    if (fits && all > truth->peak[card])
        truth->peak[card] = all;
    pthread_mutex_unlock(&truth->lock);
    return fits;
}

void truth_give(int card, uint64_t bytes)
{
    lock();
    my_holder()->bytes[card] -= bytes;
    pthread_mutex_unlock(&truth->lock);
}

uint64_t truth_used(int card)
{
    lock();
    drop_dead();
    uint64_t all = sum(card);
    pthread_mutex_unlock(&truth->lock);
    return all;
}
