/* A table of what lives, in memory of its own: our caller may be a malloc. Open addressing, always at most half full. */
#include "share.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { FIRST_ROOM = 1024 };

static size_t place(const struct lives *lives, enum kind kind, uint64_t key) {
    uint64_t mixed = (key ^ ((uint64_t)kind << 56)) * 0x9e3779b97f4a7c15ull;
    return (size_t)(mixed ^ mixed >> 29) & (lives->room - 1);
}

static void put(struct lives *lives, const struct live *live) {
    size_t at = place(lives, live->kind, live->key);
    while (lives->all[at].kind != LIVE_NONE)
        at = (at + 1) & (lives->room - 1);
    lives->all[at] = *live;
    lives->count++;
}

static bool grow(struct lives *lives) {
    size_t bytes = lives->room * sizeof(struct live);
    struct lives wider = {.room = lives->room == 0 ? FIRST_ROOM : lives->room * 2};
    wider.all = map_private(wider.room * sizeof(struct live));
    if (wider.all == NULL)
        return false;
    /* A forked child has nothing of this: its parent's memory is the parent's. */
    (void)system_call(SYS_madvise, (long)wider.all, (long)(wider.room * sizeof(struct live)), MADV_DONTFORK, 0, 0, 0);
    for (size_t i = 0; i < lives->room; i++)
        if (lives->all[i].kind != LIVE_NONE)
            put(&wider, &lives->all[i]);
    if (lives->all != NULL)
        unmap(lives->all, bytes);
    *lives = wider;
    return true;
}

struct live *live_find(struct lives *lives, enum kind kind, uint64_t key) {
    if (lives->room == 0)
        return NULL;
    for (size_t at = place(lives, kind, key); lives->all[at].kind != LIVE_NONE; at = (at + 1) & (lives->room - 1))
        if (lives->all[at].kind == kind && lives->all[at].key == key)
            return &lives->all[at];
    return NULL;
}

struct live *live_add(struct lives *lives, enum kind kind, uint64_t key, uint64_t bytes, uint64_t owner) {
    if ((lives->count + 1) * 2 > lives->room && !grow(lives))
        return NULL;
    put(lives, &(struct live){.kind = kind, .key = key, .bytes = bytes, .owner = owner, .gpu = NOT_OURS});
    return live_find(lives, kind, key);
}

void live_drop(struct lives *lives, struct live *live) {
    size_t mask = lives->room - 1, hole = (size_t)(live - lives->all);
    lives->all[hole].kind = LIVE_NONE;
    lives->count--;
    for (size_t at = (hole + 1) & mask; lives->all[at].kind != LIVE_NONE; at = (at + 1) & mask) {
        size_t home = place(lives, lives->all[at].kind, lives->all[at].key);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* it is between its home and itself that the hole is not */
        lives->all[hole] = lives->all[at];
        lives->all[at].kind = LIVE_NONE;
        hole = at;
    }
}
