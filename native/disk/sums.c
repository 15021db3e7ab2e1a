/* Sums by owner, the largest of everything, and files with several names counted once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

struct owner {
    char *top; /* of homes: the folder; else NULL */
    uint32_t uid;
    struct total all;
    uint64_t old_bytes;
    struct { uint64_t bytes, inodes; } sorts[SORTS];
    struct named_list largest, oldest, folders;
};

static const char *const SORT_NAMES[SORTS] = {
    "", "pip", "conda", "huggingface", "torch", "cache", "pycache", "notebooks", "trash", "checkpoints", "cores",
};
static struct owner owners[MOST_OWNERS + 1]; /* the last: all for whom there was no room */
static size_t owner_count;
static struct owner *current; /* of the top folder that is gone through */
static struct named_list folders = {.most = MOST_FOLDERS};
static uint64_t *seen;        /* inodes with several names; 0: free */
static size_t seen_room, seen_count;

void *grown(void *items, size_t *room, size_t wanted, size_t size) {
    if (wanted <= *room && items != NULL)
        return items;
    size_t more = *room * 2 > wanted ? *room * 2 : wanted + 1;
    void *larger = realloc(items, more * size);
    if (larger == NULL) {
        (void)fputs("disk-walk: out of memory\n", stderr);
        exit(3);
    }
    *room = more;
    return larger;
}

bool would_take(const struct named_list *list, uint64_t bytes) { return list->count < list->most || bytes > list->items[0].bytes; }

static void swap(struct named *one, struct named *other) {
    struct named kept = *one;
    *one = *other;
    *other = kept;
}

static void sink(struct named_list *list) {
    for (int at = 0;;) {
        int least = at;
        for (int below = 2 * at + 1; below <= 2 * at + 2 && below < list->count; below++)
            least = list->items[below].bytes < list->items[least].bytes ? below : least;
        if (least == at)
            return;
        swap(&list->items[at], &list->items[least]);
        at = least;
    }
}

static void rise(struct named_list *list, int at) {
    for (; at > 0 && list->items[at].bytes < list->items[(at - 1) / 2].bytes; at = (at - 1) / 2)
        swap(&list->items[at], &list->items[(at - 1) / 2]);
}

void offer(struct named_list *list, struct named one) {
    if (!would_take(list, one.bytes))
        return;
    size_t room = 0;
    if (list->items == NULL)
        list->items = grown(NULL, &room, (size_t)list->most, sizeof *list->items);
    room = 0;
    char *name = grown(NULL, &room, one.length, 1);
    memcpy(name, one.name, one.length);
    one.name = name;
    if (list->count < list->most) {
        list->items[list->count] = one;
        rise(list, list->count++);
        return;
    }
    free(list->items[0].name);
    list->items[0] = one;
    sink(list);
}

void empty(struct named_list *list) {
    for (int i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (struct named_list){.most = list->most};
}

struct own *own_of(struct folder *folder, uint32_t uid) {
    for (size_t i = 0; i < folder->owns; i++)
        if (folder->own[i].uid == uid)
            return &folder->own[i];
    folder->own = grown(folder->own, &folder->all_owns, folder->owns + 1, sizeof *folder->own);
    folder->own[folder->owns] = (struct own){.uid = uid};
    return &folder->own[folder->owns++];
}

static struct owner *new_owner(char *top, uint32_t uid) {
    struct owner *made = &owners[owner_count < MOST_OWNERS ? owner_count++ : MOST_OWNERS];
    if (made->largest.most == 0)
        *made = (struct owner){
            .top = top, .uid = uid,
            .largest = {.most = MOST_LARGEST}, .oldest = {.most = MOST_LARGEST}, .folders = {.most = MOST_LARGEST},
        };
    if (made == &owners[MOST_OWNERS])
        made->uid = UINT32_MAX;
    return made;
}

void enter_top(const char *name) {
    if (settings.by_top)
        current = new_owner(strdup(name), 0);
}

static struct owner *owner_of(uint32_t uid) {
    if (settings.by_top)
        return current;
    if (current != NULL && current->uid == uid)
        return current;
    for (size_t i = 0; i < owner_count; i++)
        if (owners[i].uid == uid)
            return current = &owners[i];
    return current = new_owner(NULL, uid);
}

static bool put_seen(uint64_t *into, size_t room, uint64_t ino) {
    size_t at = (size_t)(ino * 0x9E3779B97F4A7C15u >> 20) & (room - 1);
    for (; into[at] != 0; at = (at + 1) & (room - 1))
        if (into[at] == ino)
            return false;
    into[at] = ino;
    return true;
}

static bool is_new(uint64_t ino) {
    if (seen_count * 2 >= seen_room) {
        size_t room = seen_room == 0 ? 1024 : seen_room * 2;
        uint64_t *larger = calloc(room, sizeof *larger);
        if (larger == NULL)
            exit(3);
        for (size_t i = 0; i < seen_room; i++)
            if (seen[i] != 0)
                (void)put_seen(larger, room, seen[i]);
        free(seen);
        seen = larger;
        seen_room = room;
    }
    bool added = put_seen(seen, seen_room, ino);
    seen_count += added;
    return added;
}

static void add_sorts(struct owner *owner, const struct own *own, enum sort sort) {
    if (sort != NO_SORT) {
        owner->sorts[sort].bytes += own->single_bytes;
        owner->sorts[sort].inodes += own->single;
        return;
    }
    owner->sorts[CHECKPOINTS].bytes += own->checkpoint_bytes;
    owner->sorts[CHECKPOINTS].inodes += own->checkpoints;
    owner->sorts[CORES].bytes += own->core_bytes;
    owner->sorts[CORES].inodes += own->cores;
}

static void offer_below(struct named_list *to, struct named one, const char *path, size_t length) {
    if (!would_take(to, one.bytes))
        return;
    size_t room = 0;
    char *whole = grown(NULL, &room, length + one.length + 1, 1);
    memcpy(whole, path, length);
    whole[length] = '/';
    memcpy(whole + length + 1, one.name, one.length);
    char *end = whole + length + 1 + one.length;
    char *from = length == 0 ? whole + 1 : whole; /* at the very top there is no folder before it */
    one.name = from;
    one.length = (uint32_t)(end - from);
    offer(to, one);
    free(whole);
}

static void add_named(const struct named_list *of_folder, bool old, const char *path, size_t length) {
    for (int i = 0; i < of_folder->count; i++) {
        struct owner *owner = owner_of(of_folder->items[i].uid);
        offer_below(old ? &owner->oldest : &owner->largest, of_folder->items[i], path, length);
    }
}

/* What lies in the folder itself, once it is known. */
struct total add_folder(const struct folder *folder, enum sort sort, const char *path, size_t length) {
    struct total total = {.newest_ns = folder->newest_ns};
    for (size_t i = 0; i < folder->owns; i++) {
        const struct own *own = &folder->own[i];
        struct owner *owner = owner_of(own->uid);
        owner->all.bytes += own->bytes;
        owner->all.inodes += own->inodes;
        owner->old_bytes += own->old_bytes;
        add_sorts(owner, own, sort);
        total.bytes += own->bytes;
        total.inodes += own->inodes;
    }
    for (size_t i = 0; i < folder->link_count; i++) {
        const struct link *link = &folder->links[i];
        if (!is_new(link->ino))
            continue;
        struct owner *owner = owner_of(link->uid);
        owner->all.bytes += link->bytes;
        owner->all.inodes += 1;
        owner->old_bytes += link->old ? link->bytes : 0;
        total.bytes += link->bytes;
        total.inodes += 1;
    }
    add_named(&folder->largest, false, path, length);
    add_named(&folder->oldest, true, path, length);
    return total;
}

/* With all that is below. */
void add_size(int depth, uint32_t uid, struct total total, const char *path, size_t length) {
    struct named one = {total.bytes, total.inodes, total.newest_ns, uid, (uint32_t)length, (char *)path};
    if (depth >= 1 && depth <= FOLDERS_DOWN_TO)
        offer(&folders, one);
    if (depth >= 1 && depth <= FOLDERS_DOWN_TO + settings.by_top)
        offer(&owner_of(uid)->folders, one);
}

/* Backslashes and control characters as \xNN, so that a line is a line whatever somebody called a file. */
void print_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char one = (unsigned char)text[i];
        if (one < 0x20 || one == 0x7f || one == '\\')
            printf("\\x%02x", one);
        else
            putchar(one);
    }
}

static void print_named(const char *what, const struct named_list *list) {
    for (int i = 0; i < list->count; i++) {
        const struct named *one = &list->items[i];
        printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%" PRIu32 "\t", what, one->bytes, one->inodes, one->used_ns / 1000000000, one->uid);
        print_text(one->name, one->length);
        putchar('\n');
    }
}

/* An owner, and below it what is theirs. */
void print_sums(void) {
    for (size_t i = 0; i <= MOST_OWNERS; i++) {
        const struct owner *owner = &owners[i];
        if (owner->largest.most == 0)
            continue;
        const char *top = owner->top == NULL ? "" : owner->top;
        printf("owner\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu32 "\t", owner->all.bytes, owner->all.inodes, owner->old_bytes, owner->uid);
        print_text(top, strlen(top));
        putchar('\n');
        for (int sort = 1; sort < SORTS; sort++)
            if (owner->sorts[sort].inodes > 0)
                printf("sort\t%" PRIu64 "\t%" PRIu64 "\t%s\n", owner->sorts[sort].bytes, owner->sorts[sort].inodes, SORT_NAMES[sort]);
        print_named("largest", &owner->largest);
        print_named("oldest", &owner->oldest);
        print_named("in", &owner->folders);
    }
    print_named("folder", &folders);
}
