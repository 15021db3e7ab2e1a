/* A fake libcuda.so.1. It keeps real accounts of device memory, over all processes, so that a test can ask what was truly handed out.
   Its machine comes by environment: FAKE_CUDA_CARDS (uuid:bytes,…), FAKE_CUDA_TRUTH (the accounts), and if wanted FAKE_CUDA_LOG,
   FAKE_CUDA_FAIL (function=code,…), FAKE_CUDA_STOP (function:before or :after), FAKE_CUDA_VERSION, FAKE_CUDA_POOL_STEP, FAKE_CUDA_CONTEXT_BYTES, FAKE_CUDA_INNER. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_SUPPORTED = 801,
};
enum { MOST_CARDS = 16, MOST_PROCESSES = 512, PAGE = 2 << 20, PER_THREAD = 2 };
typedef int Device;
typedef unsigned long long Pointer;
typedef struct Context { Device device; int is_primary, alive; } Context;
typedef struct { int type, id; } Location;
typedef struct { int type, handle_types; Location location; void *security; unsigned char rest[8]; } Properties;
typedef struct { int type, handle_types; Location location; void *security; size_t most; unsigned short usage; unsigned char rest[54]; } PoolProperties;

/* truth.c: what every process holds on every card. Of a card's number in FAKE_CUDA_CARDS, not of its visible place. */
bool truth_take(int card, uint64_t bytes, uint64_t capacity); /* false: the card is full */
void truth_give(int card, uint64_t bytes);
uint64_t truth_used(int card);

/* machine.c: cards, contexts, the beginning of every call */
typedef struct { char uuid[64]; uint64_t bytes; } Card;
int begin(const char *function);                /* 0, or what this call is to answer */
int begin_lightly(void);                        /* the same for calls that the true one answers in no time */
int end(const char *function, int code);        /* logs it, stops where told */
int card_of(Device device);                     /* -1: no such device */
int current_device(Device *device);
Context *current_context(void);
uint64_t card_bytes(int card);
uint64_t setting(const char *name, uint64_t otherwise);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern pthread_mutex_t door; /* over all tables of this process */

/* memory.c: every live allocation of this process */
typedef enum { NOTHING, PLAIN, PHYSICAL, MAPPED, ARRAY, HOST, FROM_POOL, IN_GRAPH, IMPORTED } Kind;
typedef struct { Kind kind; Pointer key; uint64_t bytes; Device device; Context *context; int refs, maps; void *of; } Live;
Live *live_find(Kind kind, Pointer key);
Live *live_new(Kind kind, Pointer key, uint64_t bytes, Device device);
Pointer fresh_key(uint64_t bytes);
void live_drop_context(Context *context);
int take(Kind kind, uint64_t bytes, Device device, Pointer *key); /* whole: accounts, table, key */

/* pools.c and graphs.c */
bool pool_free(Pointer pointer);
void pools_settle(Device device); /* what a synchronisation gives back; -1: of all devices */
bool graph_free(Pointer pointer);
int graph_capture(void *stream, uint64_t bytes, Pointer *key); /* -1: nothing is captured there */

#define CALL() do { int code_ = begin(__func__); if (code_ != 0) return end(__func__, code_); } while (0)
#define DONE(code) return end(__func__, (code))

#endif
