/* Taking part in the ledger (ledger.h). A process says first what it asks for, then sums up what all hold and ask: of two that come together,
   the later one sees both, so they cannot pass together. That is all while there is room, without a lock or a system call.
   If it does not fit, the whole is locked, dead processes' slots are emptied, and it is looked at again: what others merely ask for is waited
   out, since they may be refused; what they hold is not. Whoever holds the lock may be stopped, so the wait has an end. */
#include "share.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE_US = 1000000, FIRST_REST_US = 5, LONGEST_REST_US = 500 };

uint64_t added(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t seen(const uint64_t *number) {
    return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}

static void add(uint64_t *number, uint64_t bytes) {
    (void)__atomic_fetch_add(number, bytes, __ATOMIC_SEQ_CST);
}

static void subtract(uint64_t *number, uint64_t bytes) {
    uint64_t had = seen(number);
    while (!__atomic_compare_exchange_n(number, &had, had > bytes ? had - bytes : 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

static int open_ledger(void) {
    struct {
        char magic[8];
        uint32_t version, slots, gpus;
    } head;
    int file = open_file(FAIRY_LEDGER, O_RDWR);
    if (file < 0)
        return file;
    bool is_whole = system_call(SYS_lseek, file, 0, SEEK_END, 0, 0, 0) >= (long)sizeof(struct ledger);
    bool is_ours = is_whole && read_at(file, &head, sizeof head, 0) == (long)sizeof head;
    for (size_t i = 0; is_ours && i < sizeof head.magic; i++)
        is_ours = head.magic[i] == LEDGER_MAGIC[i];
    if (is_ours && head.version == LEDGER_VERSION && head.slots == LEDGER_SLOTS && head.gpus == LEDGER_GPUS)
        return file;
    close_file(file);
    return -1;
}

static int used_slots(const struct ledger *pages) {
    uint32_t used = __atomic_load_n(&pages->used_slots, __ATOMIC_SEQ_CST);
    return used > LEDGER_SLOTS ? LEDGER_SLOTS : (int)used;
}

static void clear(struct ledger *pages, int slot) {
    for (int gpu = 0; gpu < LEDGER_GPUS; gpu++) {
        __atomic_store_n(&pages->asked[gpu][slot], 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&pages->held[gpu][slot], 0, __ATOMIC_SEQ_CST);
    }
}

static int claim_slot(int file, struct ledger *pages) {
    int slot = 0;
    while (slot < LEDGER_SLOTS && lock_byte(file, LEDGER_SLOT_BYTE + slot, true) != 0)
        slot++;
    if (slot == LEDGER_SLOTS)
        return -1;
    clear(pages, slot);
    uint32_t used = __atomic_load_n(&pages->used_slots, __ATOMIC_SEQ_CST), wanted = (uint32_t)slot + 1;
    while (used < wanted && !__atomic_compare_exchange_n(&pages->used_slots, &used, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
    pages->pid[slot] = (uint32_t)process_number();
    return slot;
}

/* The mapping keeps the file's description, and with it the lock, after the descriptor is closed: no program can drop it by closing all of them.
   Not so on a stacked filesystem (overlayfs), which maps another file than it opens: looked at, and refused. */
static bool is_kept(int slot) {
    int file = open_file(FAIRY_LEDGER, O_RDWR);
    bool is_locked = file >= 0 && is_byte_locked(file, LEDGER_SLOT_BYTE + slot);
    if (file >= 0)
        close_file(file);
    return is_locked;
}

static struct ledger *claim(int *slot) {
    int file = open_ledger();
    struct ledger *pages = file < 0 ? NULL : map_shared(file, sizeof *pages);
    *slot = pages == NULL ? -1 : claim_slot(file, pages);
    if (file >= 0)
        close_file(file);
    if (*slot >= 0 && is_kept(*slot))
        return pages;
    if (pages != NULL)
        unmap(pages, sizeof *pages);
    return NULL;
}

static bool attach(struct book *book) {
    if (__atomic_load_n(&book->pages, __ATOMIC_ACQUIRE) != NULL)
        return true;
    lock(&book->lock);
    if (book->pages == NULL) {
        int slot;
        struct ledger *pages = claim(&slot);
        book->slot = slot;
        __atomic_store_n(&book->pages, pages, __ATOMIC_RELEASE);
    }
    unlock(&book->lock);
    return book->pages != NULL;
}

static uint64_t sum(const struct ledger *pages, int gpu, bool with_asked) {
    uint64_t all = 0;
    int used = used_slots(pages);
    for (int slot = 0; slot < used; slot++) {
        if (with_asked) /* read before what is held: on its way from one to the other it is in both, never in none */
            all = added(all, seen(&pages->asked[gpu][slot]));
        all = added(all, seen(&pages->held[gpu][slot]));
    }
    return all;
}

static bool fits_now(struct book *book, int gpu, uint64_t bytes, uint64_t limit) {
    uint64_t *asked = &book->pages->asked[gpu][book->slot];
    add(asked, bytes);
    bool fits = sum(book->pages, gpu, true) <= limit;
    if (fits)
        add(&book->pages->held[gpu][book->slot], bytes);
    subtract(asked, bytes);
    return fits;
}

/* Only whoever has locked a slot may empty it: a new process may be taking it at this moment. */
static void empty_dead_slots(int file, struct ledger *pages) {
    for (int slot = 0, used = used_slots(pages); slot < used; slot++) {
        uint64_t all = 0;
        for (int gpu = 0; gpu < LEDGER_GPUS; gpu++)
            all |= seen(&pages->asked[gpu][slot]) | seen(&pages->held[gpu][slot]);
        if (all == 0 || lock_byte(file, LEDGER_SLOT_BYTE + slot, true) != 0)
            continue;
        clear(pages, slot);
        (void)lock_byte(file, LEDGER_SLOT_BYTE + slot, false);
    }
}

static bool lock_whole(int file, uint64_t until_us) {
    for (unsigned rest = FIRST_REST_US; lock_byte(file, LEDGER_WHOLE_BYTE, true) != 0; rest = rest * 2 > LONGEST_REST_US ? LONGEST_REST_US : rest * 2) {
        if (now_us() > until_us)
            return false;
        rest_us(rest);
    }
    return true;
}

static bool decide(struct book *book, int file, int gpu, uint64_t bytes, uint64_t limit) {
    uint64_t until_us = now_us() + PATIENCE_US;
    if (!lock_whole(file, until_us))
        return false;
    empty_dead_slots(file, book->pages);
    do {
        if (fits_now(book, gpu, bytes, limit))
            return true;
        if (added(sum(book->pages, gpu, false), bytes) > limit)
            return false;
        rest_us(FIRST_REST_US);
    } while (now_us() < until_us);
    return false;
}

bool book_reserve(struct book *book, int gpu, uint64_t bytes, uint64_t limit) {
    if (bytes > limit || !attach(book))
        return false;
    if (fits_now(book, gpu, bytes, limit))
        return true;
    int file = open_ledger();
    bool is_granted = file >= 0 && decide(book, file, gpu, bytes, limit);
    if (file >= 0)
        close_file(file); /* and with it the lock */
    return is_granted;
}

void book_force(struct book *book, int gpu, uint64_t bytes) {
    if (attach(book))
        add(&book->pages->held[gpu][book->slot], bytes);
}

void book_release(struct book *book, int gpu, uint64_t bytes) {
    if (attach(book))
        subtract(&book->pages->held[gpu][book->slot], bytes);
}

bool book_used(struct book *book, int gpu, uint64_t *bytes) {
    int file = open_ledger();
    if (file < 0)
        return false;
    lock(&book->lock);
    struct ledger *pages = book->pages != NULL ? book->pages : book->view;
    if (pages == NULL)
        pages = book->view = map_shared(file, sizeof *pages);
    unlock(&book->lock);
    if (pages != NULL) {
        empty_dead_slots(file, pages);
        *bytes = sum(pages, gpu, false);
    }
    close_file(file);
    return pages != NULL;
}
