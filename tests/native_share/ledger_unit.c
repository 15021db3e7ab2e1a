/* The ledger, the table of live things and the limits' reader by themselves, under the sanitizers: argv[1] says which. */
#include "share.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 1000, THREADS = 8, ROUNDS = 2000 };
static struct book book;
static uint64_t granted, most;
static pthread_barrier_t start;

static void *take_and_give(void *given)
{
    enum { HELD = 4 };
    uint64_t held[HELD] = {0};
    unsigned seed = (unsigned)(uintptr_t)given;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t *place = &held[i % HELD], bytes = (uint64_t)rand_r(&seed) % (LIMIT / 8) + 1;
        __atomic_sub_fetch(&granted, *place, __ATOMIC_SEQ_CST);
        book_release(&book, 1, *place);
        *place = book_reserve(&book, 1, bytes, LIMIT) ? bytes : 0;
        uint64_t now = __atomic_add_fetch(&granted, *place, __ATOMIC_SEQ_CST), seen = most;
        while (now > seen && !__atomic_compare_exchange_n(&most, &seen, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue;
        if (i % HELD == 0)
            (void)sched_yield(); /* while it holds some: else each would be done before the next begins */
    }
    for (int i = 0; i < HELD; i++) {
        __atomic_sub_fetch(&granted, held[i], __ATOMIC_SEQ_CST);
        book_release(&book, 1, held[i]);
    }
    return NULL;
}

static void in_threads(void)
{
    pthread_t all[THREADS];
    uint64_t used = 1;
    pthread_barrier_init(&start, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, take_and_give, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    assert(most <= LIMIT && most > LIMIT / 2);
    assert(book_used(&book, 1, &used) && used == 0);
}

/* Others ask for more than there can ever be, again and again; what fits must always be granted, whenever they are just asking. */
static void edge(void)
{
    enum { GREEDY = 3, LONG_US = 1000000 };
    pid_t greedy[GREEDY];
    assert(book_reserve(&book, 0, 1, LIMIT));
    for (int i = 0; i < GREEDY; i++)
        if ((greedy[i] = fork()) == 0) {
            memset(&book, 0, sizeof book);
            while (!book_reserve(&book, 0, LIMIT, LIMIT))
                continue;
            _exit(1);
        }
    while (__atomic_load_n(&book.pages->used_slots, __ATOMIC_SEQ_CST) < 1 + GREEDY)
        (void)sched_yield();
    for (uint64_t until_us = now_us() + LONG_US; now_us() < until_us;) {
        assert(book_reserve(&book, 0, LIMIT - 1, LIMIT));
        book_release(&book, 0, LIMIT - 1);
    }
    for (int i = 0; i < GREEDY; i++) {
        int how = 0;
        kill(greedy[i], SIGKILL);
        assert(waitpid(greedy[i], &how, 0) == greedy[i] && WIFSIGNALED(how));
    }
}

/* Numbers that only a scribbler writes: nothing wraps, nothing is granted for it, nothing is read outside. */
static void scribbled(void)
{
    uint64_t used = 0;
    assert(book_reserve(&book, 0, 10, LIMIT) && book.slot == 0);
    book.pages->used_slots = UINT32_MAX;
    book.pages->held[0][LEDGER_SLOTS - 1] = UINT64_MAX;
    book.pages->held[0][LEDGER_SLOTS - 2] = UINT64_MAX;
    assert(book_reserve(&book, 0, 10, LIMIT)); /* no living process says so */
    book.pages->held[0][0] = UINT64_MAX - 3;
    assert(!book_reserve(&book, 0, 10, LIMIT) && book_used(&book, 0, &used) && used == UINT64_MAX - 3);
    book.pages->held[0][0] = 5;
    book_release(&book, 0, UINT64_MAX);
    assert(book_used(&book, 0, &used) && used == 0);
    assert(!book_reserve(&book, 0, UINT64_MAX, LIMIT));
}

static void table(void)
{
    struct lives lives = {0};
    enum { MANY = 50000 };
    static char is_in[MANY];
    unsigned seed = 7;
    for (int i = 0; i < 400000; i++) {
        uint64_t key = (uint64_t)rand_r(&seed) % MANY;
        struct live *live = live_find(&lives, LIVE_MEMORY, key << 21);
        assert((live != NULL) == is_in[key] && (live == NULL || live->bytes == key));
        if (live != NULL)
            live_drop(&lives, live);
        else
            assert(live_add(&lives, LIVE_MEMORY, key << 21, key, 0) != NULL);
        is_in[key] = !is_in[key];
    }
    assert(live_find(&lives, LIVE_ARRAY, 1 << 21) == NULL);
}

static void limits(void)
{
    struct limits limits = {0};
    limits_read(&limits);
    printf("%s %d\n", limits.state == LIMITS_GOOD ? "good" : "broken", limits.count);
    for (int i = 0; i < limits.count; i++)
        printf("%s %llu %d %llu\n", limits.gpus[i].word, (unsigned long long)limits.gpus[i].memory_bytes, limits.gpus[i].sm_percent,
               (unsigned long long)limits.gpus[i].context_bytes);
    printf("mps=%s\n", limits.mps);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "threads") == 0)
        in_threads();
    else if (strcmp(which, "scribbled") == 0)
        scribbled();
    else if (strcmp(which, "edge") == 0)
        edge();
    else if (strcmp(which, "table") == 0)
        table();
    else
        limits();
    return 0;
}
