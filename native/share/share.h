/* libfairyshare.so: keeps a container within its share of GPU memory. Preloaded into every program, it does nothing until one calls the CUDA
   driver or NVML. What its parts know of each other; ledger.h tells the file they all write. */
#ifndef SHARE_H
#define SHARE_H

#include "cuda_abi.h"
#include "ledger.h"
#include "names.h"
#include "system.h"

#define EXPORT __attribute__((visibility("default")))
#ifndef FAIRY_LIMITS
#define FAIRY_LIMITS "/run/fairy/share/limits" /* fixed: no variable of the user's may point elsewhere */
#endif
#ifndef FAIRY_LEDGER
#define FAIRY_LEDGER "/run/fairy/ledger/memory"
#endif
#define MIB (1024ull * 1024)
enum { NOT_OURS = -1, ON_HOST = -2, MOST_DEVICES = 64, MOST_POOLS = 256, UUID_BYTES = 16, LONGEST_PATH = 96 /* what a socket's address has room for */ };

/* loaded.c: functions of the objects in this process, found without the loader's help */
enum library { LIBRARY_CUDA, LIBRARY_NVML, LIBRARY_C, LIBRARIES };
void *function_in(enum library library, const char *symbol); /* NULL: it is not loaded, or has none */
bool is_in(enum library library, const void *address);

/* resolve.c: who asks for a function gets the hook before it */
enum name {
#define HOOK(symbol, base, since, kind) N_##symbol,
#define USED(symbol) N_##symbol,
    CUDA_HOOKS(HOOK) NVML_HOOKS(HOOK) LAST_HOOK,
    BEFORE_USED = LAST_HOOK - 1, CUDA_USED(USED) NVML_USED(USED) NAMES
#undef HOOK
#undef USED
};
void *real(enum name name); /* NULL: the driver is not loaded, or is too old to have it */
#define REAL(type, symbol) ((type)real(N_##symbol))

/* limits.c */
struct gpu {
    uint8_t uuid[UUID_BYTES];
    char word[48]; /* as written, GPU-… or MIG-… */
    uint64_t memory_bytes, context_bytes;
    int sm_percent;
};
enum { LIMITS_UNREAD, LIMITS_GOOD, LIMITS_BROKEN };
struct limits {
    int state, count;
    struct gpu gpus[LEDGER_GPUS];
    char mps[LONGEST_PATH]; /* empty: without MPS */
};
void limits_read(struct limits *into);
bool uuid_of(const char *word, uint8_t uuid[UUID_BYTES]); /* false: it is none */

/* ledger.c: this process's place in the ledger. Zeros: not taken yet. Fails closed: without a ledger nothing is granted. */
struct book {
    uint32_t lock;
    int slot;
    struct ledger *pages, *view; /* with a slot; without one, to look only */
};
bool book_reserve(struct book *book, int gpu, uint64_t bytes, uint64_t limit);
void book_force(struct book *book, int gpu, uint64_t bytes); /* what is there already, whatever the limit */
void book_release(struct book *book, int gpu, uint64_t bytes);
bool book_used(struct book *book, int gpu, uint64_t *bytes);

/* live.c: what this process holds, by the driver's own names for it */
enum kind { LIVE_NONE, LIVE_MEMORY, LIVE_ARRAY, LIVE_ASYNC, LIVE_HEAP, LIVE_HANDLE, LIVE_PHYSICAL, LIVE_MAPPING, LIVE_CONTEXT, LIVE_EXEC };
struct live {
    uint64_t key, bytes, owner; /* owner: its context, pool, or physical memory */
    int16_t gpu, device;
    int32_t refs, maps;
    enum kind kind;
};
struct lives {
    struct live *all;
    size_t room, count;
};
struct live *live_add(struct lives *lives, enum kind kind, uint64_t key, uint64_t bytes, uint64_t owner); /* NULL: no memory for it */
struct live *live_find(struct lives *lives, enum kind kind, uint64_t key);
void live_drop(struct lives *lives, struct live *live); /* moves others: no other pointer into the table holds afterwards */

/* process.c: this process, and only this one: a forked child finds it empty */
struct pool {
    Pool pool;
    int gpu; /* or NOT_OURS, or ON_HOST */
    uint64_t reserved;
};
struct process {
    uint32_t lock; /* over all below but limits and book */
    int number;    /* where fork cannot wipe */
    struct limits limits;
    struct book book;
    int16_t gpu_of[MOST_DEVICES]; /* 0: not looked up yet, else 1 + gpu, or NOT_OURS */
    struct lives lives;
    uint64_t next_id; /* of physical memory: the driver may use a handle's number again while the old memory is still mapped */
    struct pool pools[MOST_POOLS];
    int pool_count;
    uint64_t pool_bytes[LEDGER_GPUS];  /* charged for pools */
    uint64_t graph_bytes[LEDGER_GPUS]; /* charged for graphs */
    int contexts[LEDGER_GPUS];
    Context primaries[MOST_DEVICES]; /* those that we have charged */
    uint32_t graph_gpus;             /* a bit each: some executable graph takes memory there */
    bool has_alloc_nodes, is_mps_set, is_closed;
};
struct process *here(void);
int gpu_of(struct process *process, Device device); /* NOT_OURS: not in the limits, so there is nothing to be had */
int gpu_with(struct process *process, const uint8_t uuid[UUID_BYTES]);
Result refusal_of(Device device);                   /* of a device that is not ours: the driver's own word if it knows none such, else out of memory */
bool charge(struct process *process, int gpu, uint64_t bytes);
void give_back(struct process *process, int gpu, uint64_t bytes);
uint64_t limit_of(struct process *process, int gpu);

/* One allocation on its way: charged before the driver is asked, given back if it refuses. */
struct wanted {
    struct process *process;
    Context context;
    Device device;
    int gpu;
    uint64_t bytes;
};
Result current_device(struct wanted *wanted);                /* fills in all but the bytes */
Result ask_here(struct wanted *wanted);                      /* the same, and sees to it that the context is charged */
Result ask(struct wanted *wanted, uint64_t bytes);           /* the same, and charges the bytes too */
Result ask_on(struct wanted *wanted, Device device, uint64_t bytes);
Result took(const struct wanted *wanted, Result result, enum kind kind, uint64_t key); /* hands the driver's answer on */

/* The parts behind the hooks. Called with the process locked. */
void pools_settle(struct process *process);              /* charge what the pools hold now */
void pools_trim(struct process *process, int gpu);       /* and have them give back what they can */
void graphs_settle(struct process *process, Device device);

/* Whether an allocation that is only recorded into a graph could be had. Takes the lock itself. */
bool graph_alloc_captured(struct wanted *current, uint64_t bytes);

/* mps.c */
bool mps_prepare(struct process *process); /* false: nobody serves there */
bool mps_names_all(struct process *process); /* false: the driver sees other devices than the limits were given for */

uint64_t added(uint64_t a, uint64_t b); /* never wraps */
uint64_t times(uint64_t a, uint64_t b);
uint64_t rounded_up(uint64_t bytes, uint64_t step);

#endif
